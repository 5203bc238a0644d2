"""Write FineWeb-2's numbers for the languages that lid.176 or stopwords-iso knows to curate/filter/fineweb2.json.

    python record_fineweb2.py CHECKOUT COMMIT       # a checkout of huggingface/fineweb-2 (Apache-2.0), and what it is

Of `configs/<code>_<script>.yml`, one file a language: where it has several scripts, the one that is written most.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

TABLE = Path(__file__).resolve().parents[3] / "curate" / "filter" / "fineweb2.json"

# Label of lid.176 -> the file's name. als is Alemannic for lid.176, and Albanian in ISO 639-3. Without a file: English, which
# FineWeb-2 leaves to FineWeb; Bihari, Serbo-Croatian and others that GlotLID does not tell, or that it tells in parts.
FILES = (
    "af:afr am:amh_Ethi an:arg ar:arb_Arab as:asm_Beng av:ava_Cyrl az:azj be:bel_Cyrl bg:bul_Cyrl bn:ben_Beng bo:bod_Tibt br:bre bs:bos "
    "ca:cat ce:che_Cyrl co:cos cs:ces cv:chv_Cyrl cy:cym da:dan de:deu dv:div_Thaa el:ell_Grek eo:epo es:spa et:ekk eu:eus "
    "fa:fas_Arab fi:fin fr:fra fy:fry ga:gle gd:gla gl:glg gn:gug gu:guj_Gujr gv:glv he:heb_Hebr hi:hin_Deva hr:hrv ht:hat hu:hun "
    "hy:hye_Armn ia:ina id:ind ie:ile io:ido is:isl it:ita ja:jpn_Jpan jv:jav ka:kat_Geor kk:kaz_Cyrl km:khm_Khmr kn:kan_Knda "
    "ko:kor_Hang ku:kmr kv:kpv_Cyrl kw:cor ky:kir_Cyrl la:lat lb:ltz li:lim lo:lao_Laoo lt:lit lv:lvs mg:plt mk:mkd_Cyrl "
    "ml:mal_Mlym mn:khk_Cyrl mr:mar_Deva ms:zsm mt:mlt my:mya_Mymr ne:npi_Deva nl:nld nn:nno no:nob oc:oci or:ory_Orya os:oss_Cyrl "
    "pa:pan_Guru pl:pol ps:pbt_Arab pt:por qu:quy rm:roh ro:ron ru:rus_Cyrl sa:san_Deva sc:srd sd:snd_Arab si:sin_Sinh sk:slk sl:slv "
    "so:som sq:als sr:srp_Cyrl su:sun sv:swe sw:swh ta:tam_Taml te:tel_Telu tg:tgk_Cyrl th:tha_Thai tk:tuk tl:fil tr:tur tt:tat_Cyrl "
    "ug:uig_Arab uk:ukr_Cyrl ur:urd_Arab uz:uzn vi:vie vo:vol wa:wln yi:ydd_Hebr yo:yor zh:cmn_Hani als:gsw gom:gom_Deva min:min "
    "ha:hau st:sot zu:zul"  # no labels of lid.176: that other models may know them, with their stop words
)
_LABELS = "arz ast azb bar bcl bpy bxr cbk ceb ckb diq dsb dty eml frr hif hsb ilo jbo krc lez lmo lrc mai mhr mrj mwl myv mzn "
_LABELS += "nah nap nds new pam pfl pms pnb rue sah scn sco tyv vec vep vls war wuu xal xmf yue"

COLUMNS = ("language_score", "dup_line_frac", "top_2", "top_3", "top_4", *(f"dup_{n}" for n in range(5, 11)))
COLUMNS += (
    "line_punct_thr",
    "new_line_ratio",
    "min_avg_word_length",
    "max_avg_word_length",
    "max_non_alpha_words_ratio",
)


def row(config: dict) -> list[float]:
    """Return a file's numbers in the order of COLUMNS."""
    values = {name: config[name] for name in COLUMNS if name in config}
    values |= {f"top_{n}": number for n, number in config["top_n_grams"]}
    values |= {f"dup_{n}": number for n, number in config["dup_n_grams"]}
    return [values[name] for name in COLUMNS]


def main() -> None:
    """Write the table."""
    folder = Path(sys.argv[1], "configs")
    names = {path.stem for path in folder.glob("*.yml")}
    wanted = dict(pair.split(":") for pair in FILES.split())
    for label in _LABELS.split():
        (wanted[label],) = (name for name in names if name.startswith(f"{label}_"))
    languages = {}
    for label, name in sorted(wanted.items()):
        file = name if "_" in name else f"{name}_Latn"
        if file not in names:
            print("no file for", label, file)
            continue
        config = yaml.safe_load((folder / f"{file}.yml").read_text(encoding="utf-8"))
        languages[label] = [file, *row(config), config["stopwords"]]
    head = {
        "source": f"https://github.com/huggingface/fineweb-2, commit {sys.argv[2]}, configs/*.yml",
        "licence": "Apache-2.0; the numbers and words are theirs, their arrangement is ours",
        "columns": ["file", *COLUMNS, "stopwords"],
    }
    lines = ",\n".join(
        f"{json.dumps(label)}: {json.dumps(values, ensure_ascii=False)}" for label, values in languages.items()
    )
    TABLE.write_text(json.dumps(head, indent=1)[:-2] + ',\n "languages": {\n' + lines + "\n}}\n", encoding="utf-8")
    print(len(languages), "languages")


if __name__ == "__main__":
    main()
