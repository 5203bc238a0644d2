"""Labels of language models: which language they mean, and in which scripts it is usually written.

Scripts by ISO 15924, from CLDR's supplemental data (languages and their scripts in use), for the languages of lid.176.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

UNKNOWN = "unknown"  # label of a text that has too few letters, or none that the model could know

# The labels of lid.176: ISO 639-1 where there is one.
_LABELS = (
    "af als am an ar arz as ast av az azb ba bar bcl be bg bh bn bo bpy br bs bxr ca cbk ce ceb ckb co cs cv cy da de "
    "diq dsb dty dv el eml en eo es et eu fa fi fr frr fy ga gd gl gn gom gu gv he hi hif hr hsb ht hu hy ia id ie "
    "ilo io is it ja jbo jv ka kk km kn ko krc ku kv kw ky la lb lez li lmo lo lrc lt lv mai mg mhr min mk ml mn mr "
    "mrj ms mt mwl my myv mzn nah nap nds ne new nl nn no oc or os pa pam pfl pl pms pnb ps pt qu rm ro ru rue sa sah "
    "sc scn sco sd sh si sk sl so sq sr su sv sw ta te tg th tk tl tr tt tyv ug uk ur uz vec vep vi vls vo wa war wuu "
    "xal xmf yi yo yue zh"
)
LID_176 = frozenset(_LABELS.split())

# Scripts that are told apart, by their names in Unicode's data; all other letters count as another script.
SCRIPTS: Mapping[str, str] = {
    "Latn": "Latin",
    "Cyrl": "Cyrillic",
    "Arab": "Arabic",
    "Grek": "Greek",
    "Hebr": "Hebrew",
    "Hani": "Han",
    "Hira": "Hiragana",
    "Kana": "Katakana",
    "Hang": "Hangul",
    "Thai": "Thai",
    "Laoo": "Lao",
    "Khmr": "Khmer",
    "Mymr": "Myanmar",
    "Tibt": "Tibetan",
    "Geor": "Georgian",
    "Armn": "Armenian",
    "Ethi": "Ethiopic",
    "Deva": "Devanagari",
    "Beng": "Bengali",
    "Guru": "Gurmukhi",
    "Gujr": "Gujarati",
    "Orya": "Oriya",
    "Taml": "Tamil",
    "Telu": "Telugu",
    "Knda": "Kannada",
    "Mlym": "Malayalam",
    "Sinh": "Sinhala",
    "Thaa": "Thaana",
    "Mong": "Mongolian",
    "Tfng": "Tifinagh",
    "Nkoo": "Nko",
    "Olck": "Ol_Chiki",
    "Mtei": "Meetei_Mayek",
    "Cans": "Canadian_Aboriginal",
    "Cher": "Cherokee",
}
# What a label's suffix means where it is no single script of the list.
_COMPOSITE: Mapping[str, tuple[str, ...]] = {
    "Jpan": ("Hani", "Hira", "Kana"),
    "Kore": ("Hang", "Hani"),
    "Hans": ("Hani",),
    "Hant": ("Hani",),
}
# Every language that is not named here is written in Latin letters.
_WRITTEN = (
    ("Cyrl", "av ba be bg bxr ce cv kv krc lez mhr mk mrj myv os ru rue sah tyv uk xal"),
    ("Cyrl Latn", "sr sh bs tt uz az tk ro"),
    ("Cyrl Arab Latn", "kk ky tg ku"),
    ("Cyrl Mong", "mn"),
    ("Arab", "ar arz azb ckb fa lrc mzn pnb ps ur"),
    ("Arab Cyrl Latn", "ug"),
    ("Arab Deva", "sd"),
    ("Arab Latn", "ms"),
    ("Deva", "bh dty hi mai mr ne new sa"),
    ("Deva Latn", "gom hif"),
    ("Beng", "as bn bpy"),
    ("Guru Arab", "pa"),
    ("Grek", "el"),
    ("Hebr", "he yi"),
    ("Hani", "wuu yue zh"),
    ("Hani Hira Kana", "ja"),
    ("Hang Hani", "ko"),
    ("Geor", "ka xmf"),
    ("Armn", "hy"),
    ("Ethi", "am"),
    ("Gujr", "gu"),
    ("Orya", "or"),
    ("Taml", "ta"),
    ("Telu", "te"),
    ("Knda", "kn"),
    ("Mlym", "ml"),
    ("Sinh", "si"),
    ("Thai", "th"),
    ("Laoo", "lo"),
    ("Khmr", "km"),
    ("Mymr", "my"),
    ("Tibt", "bo"),
    ("Thaa", "dv"),
)
LID_SCRIPTS: Mapping[str, tuple[str, ...]] = dict.fromkeys(sorted(LID_176), ("Latn",)) | {
    label: tuple(scripts.split()) for scripts, labels in _WRITTEN for label in labels.split()
}

# ISO 639-3 to ISO 639-1, also of the languages that a macrolanguage of two letters usually means.
_TO_TWO = (
    "aar aa abk ab afr af aka ak amh am ara ar arg an asm as ava av ave ae aym ay aze az bak ba bam bm bel be "
    "ben bn bis bi bod bo bos bs bre br bul bg cat ca ces cs cha ch che ce chu cu chv cv cor kw cos co cre cr "
    "cym cy dan da deu de div dv dzo dz ell el eng en epo eo est et eus eu ewe ee fao fo fas fa fij fj fin fi "
    "fra fr fry fy ful ff gla gd gle ga glg gl glv gv grn gn guj gu hat ht hau ha hbs sh heb he her hz hin hi "
    "hmo ho hrv hr hun hu hye hy ibo ig ido io iii ii iku iu ile ie ina ia ind id ipk ik isl is ita it jav jv "
    "jpn ja kal kl kan kn kas ks kat ka kau kr kaz kk khm km kik ki kin rw kir ky kom kv kon kg kor ko kua kj "
    "kur ku lao lo lat la lav lv lim li lin ln lit lt ltz lb lub lu lug lg mah mh mal ml mar mr mkd mk mlg mg "
    "mlt mt mon mn mri mi msa ms mya my nau na nav nv nbl nr nde nd ndo ng nep ne nld nl nno nn nob nb nor no "
    "nya ny oci oc oji oj ori or orm om oss os pan pa pli pi pol pl por pt pus ps que qu roh rm ron ro run rn "
    "rus ru sag sg san sa sin si slk sk slv sl sme se smo sm sna sn snd sd som so sot st spa es sqi sq srd sc "
    "srp sr ssw ss sun su swa sw swe sv tah ty tam ta tat tt tel te tgk tg tgl tl tha th tir ti ton to tsn tn "
    "tso ts tuk tk tur tr twi tw uig ug ukr uk urd ur uzb uz ven ve vie vi vol vo wln wa wol wo xho xh yid yi "
    "yor yo zha za zho zh zul zu arb ar azj az cmn zh ekk et fil tl khk mn kmr ku lvs lv npi ne ory or pbt ps "
    "pes fa plt mg swh sw uzn uz ydd yi zsm ms"
)
ISO_639_1: Mapping[str, str] = dict(zip(_TO_TWO.split()[::2], _TO_TWO.split()[1::2], strict=True)) | {
    "als": "sq",  # Tosk Albanian; lid.176's own als is Alemannic and stays as it is
    "gaz": "om",
    "nor": "no",
    "quy": "qu",
}
_THREE = re.compile(r"([a-z]{3})(?:[_-]([A-Z][a-z]{3}))?\Z")
_PREFIX = "__label__"


def language_of(label: str, *, with_script: bool = False) -> str:
    """Return what `language` says for a label of a model: `__label__por_Latn` is pt, or pt-Latn.

    ISO 639-3 becomes ISO 639-1 where there is one; a suffix of ISO 15924 is left out or follows a hyphen. Anything else
    stays as it is, but for the prefix.

    Args:
        label: As the model has it.
        with_script: Whether the suffix is kept.
    """
    name = label.removeprefix(_PREFIX)
    found = _THREE.match(name)
    if found is None:
        return name
    code = ISO_639_1.get(found[1], found[1])
    return f"{code}-{found[2]}" if with_script and found[2] else code


def scripts_of(label: str) -> tuple[str, ...]:
    """Return the scripts of a label by its suffix, or by its language; empty: not known, so nothing is refused."""
    name = label.removeprefix(_PREFIX)
    if name in LID_SCRIPTS:
        return LID_SCRIPTS[name]
    found = _THREE.match(name)
    if found is None:
        return ()
    if found[2]:
        return _COMPOSITE.get(found[2], (found[2],) if found[2] in SCRIPTS else ())
    return LID_SCRIPTS.get(ISO_639_1.get(found[1], ""), ())


def languages_of(labels: tuple[str, ...], *, with_script: bool = False) -> tuple[str, ...]:
    """Return `language_of` each label of a model; labels of a model that has two-letter codes stay as they are."""
    names = [label.removeprefix(_PREFIX) for label in labels]
    if any(len(name) == 2 and name in LID_176 for name in names):
        return tuple(names)
    return tuple(language_of(label, with_script=with_script) for label in labels)
