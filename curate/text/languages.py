"""Codes of languages: what a page may mean by its lang attribute."""

from __future__ import annotations

# ISO 639-1, with the five codes that it withdrew and pages still state (in, iw, ji, jw, mo) and bh, sh.
_TWO = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo "
    "es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik in io is it iu iw ja ji "
    "jv jw ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mo mr ms mt my na nb "
    "nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr "
    "ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
# Of ISO 639-2 and 639-3: the codes of the languages above, those that lid.176 knows without two letters, and a few more.
_THREE = (
    "aar abk afr aka amh ara arg asm ava ave aym aze bak bam bel ben bih bis bod bos bre bul cat ces cha che chu chv cor "
    "cos cre cym dan deu div dzo ell eng epo est eus ewe fao fas fij fin fra fry ful gla gle glg glv grn guj hat hau hbs "
    "heb her hin hmo hrv hun hye ibo ido iii iku ile ina ind ipk isl ita jav jpn kal kan kas kat kau kaz khm kik kin kir "
    "kom kon kor kua kur lao lat lav lim lin lit ltz lub lug mah mal mar mkd mlg mlt mon mri msa mya nau nav nbl nde ndo "
    "nep nld nno nob nor nya oci oji ori orm oss pan pli pol por pus que roh ron run rus sag san sin slk slv sme smo sna "
    "snd som sot spa sqi srd srp ssw sun swa swe tah tam tat tel tgk tgl tha tir ton tsn tso tuk tur twi uig ukr urd uzb "
    "ven vie vol wln wol xho yid yor zha zho zul "
    "als arz ast azb bar bcl bpy bxr cbk ceb ckb diq dsb dty eml frr gom hif hsb ilo jbo krc lez lmo lrc mai mhr min mrj "
    "mwl myv mzn nah nap nds new pam pfl pms pnb rue sah scn sco tyv vec vep vls war wuu xal xmf yue "
    "arb ary chr cmn crh cdo csb ekk fil fur gag gsw hak haw hmn kab kmr ksh lad ltg lvs mnc nan nso pap pes prs rom "
    "sma smj smn sms swh szl tet tpi tzm udm zsm"
)
TWO_LETTERS = frozenset(_TWO.split())
THREE_LETTERS = frozenset(_THREE.split())


def is_language_code(code: str) -> bool:
    """Whether a primary subtag, in lower case, is one of these codes."""
    return code in TWO_LETTERS or code in THREE_LETTERS
