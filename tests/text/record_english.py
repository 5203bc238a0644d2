"""Writes what is taken from spaCy: the data of curate.text.english, and the answers that its tests compare with.

Run with a Python that has spaCy 3.8 and datatrove 0.10 (neither is a dependency): python tests/text/record_english.py
CURATE_DATA names the folder of real texts, whose answers are kept as digests.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import spacy
from datatrove.utils.word_tokenizers import load_word_tokenizer
from english_chunks import CORPORA, digests, distinct_chunks
from spacy.lang import char_classes as classes
from spacy.symbols import ORTH

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "curate" / "text" / "english" / "spacy.json"
ANSWERS = ROOT / "tests" / "corpus" / "english_tokens.json.gz"
REAL = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
ALL = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def ranges(expression: str) -> list[int]:
    """Return the first and last code point of every run of characters that a class matches, one behind the other."""
    found: list[int] = []
    for match in re.finditer(f"{expression}+", ALL):
        first, last = ord(match[0][0]), ord(match[0][-1])
        assert last - first + 1 == len(match[0])
        found += [first, last]
    return found


def plain(pieces: list[str]) -> list[str]:
    """Return strings that expressions for one string each stand for, in their order, each once."""
    return list(dict.fromkeys(re.sub(r"\\(.)", r"\1", piece) for piece in pieces if piece.strip()))


def write_data() -> None:
    tokenizer = spacy.blank("en").tokenizer
    before_stop = f"[0-9{classes.ALPHA_LOWER}%²\\-\\+{classes.PUNCT}(?:{classes.CONCAT_QUOTES})]"
    data = {
        "source": f"spaCy {spacy.__version__}: spacy.lang.en, spacy.lang.char_classes; by tests/text/record_english.py",
        "licence": "MIT; Copyright (C) 2016-2024 ExplosionAI GmbH, 2016 spaCy GmbH, 2015 Matthew Honnibal",
        "exceptions": {
            chunk: [part[ORTH] for part in parts]
            for chunk, parts in sorted(tokenizer.rules.items())
            if not chunk.isspace()
        },
        "punctuation": plain(classes.LIST_PUNCT),
        "quotes": plain(classes.LIST_QUOTES),
        "currency": plain(classes.LIST_CURRENCY),
        "units": plain(classes.LIST_UNITS),
        "hyphens": plain(classes.LIST_HYPHENS),
        "alpha": ranges(f"[{classes.ALPHA}]"),
        "lower": ranges(f"[{classes.ALPHA_LOWER}]"),
        "upper": ranges(f"[{classes.ALPHA_UPPER}]"),
        "icons": ranges(classes.LIST_ICONS[0]),
        "before_stop": ranges(before_stop),
        "quote_class": ranges(f"[{classes.CONCAT_QUOTES}]"),
    }
    lines = [
        f'"{name}": {json.dumps(value, ensure_ascii=False, separators=(",", ":"))}' for name, value in data.items()
    ]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


# ---- awkward strings of our own

BARE = (
    "lock Barge TOLL l c++ 7 42 3.14 1,000 1/2 10km 5kg. 20°C. 20°C 3m² 9% 8GB 2.5GHz 12am 7a.m. 10p.m. $5 5$ "
    "US$5 5US$ €9 9€ £3m C$2 +5 5+ 5+5 5-5 5--5 5*-5 x^2 2^x 2^3 well-known a--b a---b a——b a–b a—b a~b A.B a.B "
    "A.b a.b. A.B. AB. a,b 1,a a,1 a:b a/b a=b a<b a>b 1:b b:1 and/or e.g. i.e. etc. U.S. U.K. Ph.D. Mr. Mrs. Dr. "
    "vs. St. No. don't don’t DON'T can't've it's It’s dogs' dogs's O'Neil rock'n'roll 'tis 'em y'all cannot gonna "
    "gimme dunno ain't shan't he'd o'clock ma'am :-) ;) :( :'( XD xD <3 </3 ^_^ o_O O.o ¯\\(ツ)/¯ (╯°□°）╯︵┻━┻ ಠ_ಠ "
    "(ಠ_ಠ) -_- ._. >.< 8) 8-D :P :3 =) (: ): (-: ... .. . …… … ……… --- -- - — –– ' '' \" \"\" ` `` * ** # ## & && "
    "_ __ | || \\ / // ( () (( [] {} <> <= => != == http://site.org https://site.org/a/b?c=d#e www.site.org "
    "site.org Site.Org site.ORG site.org. site.org, (site.org) ftp://a.b mailto:joe@site.org joe@site.org "
    "joe.b+tag@mail.site.co.uk joe@site @joe joe@ #tag a@b.c a@b.cd 1.2.3.4 10.0.0.1 192.168.1.1 172.16.0.1 "
    "172.32.0.1 8.8.8.8:53 8.8.8.8/x 255.1.1.1 223.255.255.254 223.255.255.255 0.1.2.3 1.256.1.1 1.2.3.4.5 "
    "169.254.1.1 127.0.0.1 100.64.0.1 site.org:80 site.org:8 site.org:123456 site.org:80/a a_b.org _a.org a_.org "
    "-a.org a-.org a..org .org a.o a.or x://a.bc ab://a.bc a+b://c.de v1.2 file.py obj.method() f(x) f(x): f(x)): "
    "x[0] x[0]: {a:b} a&b a|b a\\b C:\\dir ~/x ./x ../x /usr/bin <b>x</b> &amp; &#8217; 50% 50%. %d %s 100%% "
    "naïve café CAFÉ Ünïcode straße ЁЖ слово слово. Слово.Слово км 5км 5тб αβγ. ΑΒ. 運河 運河の船。 你好，世界！ ＡＢ．ｃ 한국어. "
    "เรือ नाव। ا۔ب كلمة، 5كم ע\u05b4ברית. e\u0301te\u0301 e\u0301. a\u0300,b a\u200db 👍 👍🏽 a👍b 👨‍👩‍👧 🇧🇷 ☺️ ©2020 "
    "®. ™ a™ 5° °C °F. x°°C. ½ ½. x² x². m³ 10³ “quote” “quote.” ‘quote’ «guillemets» „low“ ‚low‘ 「かぎ」 (a) (a). "
    "a). .a ,a ;a !a ?a a! a? a?! a!? a... ...a a…b a..b A..B a.…b ¿qué? ¡no! §5 № №5 n°5 •item ·item a·b -5 −5 "
    "+a ++a a+ a++ =a a= $a a$ $$ #1 1# *a* _a_ a_b __init__ a__b 1st 2nd IS_ALPHAS a\x00b \x07 \ufeffa a\xad "
    "\u200ba a\u2060b 1'2 a'b 'a' \x27\x27\x27a\x27\x27\x27 \"a\" ``a'' a's's A'S 's 's. a'. a'.b 's's ’s ’S"
).split(" ")
AROUND = (
    "",
    ".",
    ",",
    ":",
    ";",
    "!",
    "?",
    "...",
    ")",
    "):",
    '"',
    "”",
    "’",
    "'s",
    "’s",
    "'S",
    "-",
    "—",
    "/",
    "*",
    "_",
    "…",
    "+",
    "%",
    "km",
    "$",
    "🙂",
)
BEFORE = ("", "(", '"', "“", "‘", "'", "-", "—", "$", "#", "[", "…", "..", "+", "5", "a", "=", "/", "_", "US$")
PIECES = (
    "a B ab 1 23 . , : ; ! ? ( ) [ ] ' \" ’ “ - -- — … .. / @ # $ % & * + = < > _ ° C F km 's n't :) 8 D a.m. Mr. .org "
    "http:// www. é 中 ж 👍 ²"
).split(" ")


def chunks() -> Iterator[str]:
    """Yield strings of our own without white space."""
    rules = spacy.blank("en").tokenizer.rules
    exceptions = [chunk for chunk in rules if not chunk.isspace()]
    yield from exceptions
    yield from BARE
    for word in ("lock", "Barge", "TOLL", "42", "don't", "U.S.", "f(x", "site.org", ":)", "°C", "中", "a.m."):
        for before, behind in itertools.product(BEFORE, AROUND):
            yield before + word + behind
    draw = random.Random(1)
    for word in (*exceptions, *BARE):
        yield draw.choice(BEFORE) + word + draw.choice(AROUND)
    for _ in range(6000):
        yield "".join(draw.choices(PIECES, k=draw.randint(2, 8)))


def texts() -> Iterator[str]:
    """Yield texts of several chunks: what stands side by side across a single space matters for emoticons."""
    yield from (
        "",
        " ",
        "\n",
        "a",
        " a ",
        "a  b",
        "a\tb",
        "a \n b",
        "a\u00a0b",
        "\u3000a",
        "a:) )",
        "a:)  )",
        "a:)\n)",
        "): )",
        "x): )",
        "x):) )",
    )
    yield from (
        "def f(x): return x",
        "a:) a:) )",
        "10a.m. .",
        "(x):)",
        "x) :) )",
        "a8) )",
        "x(: (",
        "-_- -_-",
        "20°C. C.",
        "x°°C. °C.",
    )
    draw = random.Random(2)
    for _ in range(1500):
        words = ["".join(draw.choices(PIECES, k=draw.randint(1, 4))) for _ in range(draw.randint(2, 9))]
        yield "".join(word + draw.choice((" ", " ", " ", "  ", "\n", "\t", "\u2003")) for word in words)


def write_answers() -> None:
    tokenizer = load_word_tokenizer("eng")  # datatrove's English words, the tokens of white space taken out
    pipeline = spacy.blank("en")
    split = pipeline.tokenizer
    answers = {
        "source": f"spaCy {spacy.__version__} by datatrove 0.10.1; written by tests/text/record_english.py",
        "chunks": [[chunk, tokenizer.word_tokenize(chunk)] for chunk in dict.fromkeys(filter(None, chunks()))],
        "texts": [[text, tokenizer.word_tokenize(text)] for text in dict.fromkeys(texts())],
        "real": {
            corpus: digests(distinct_chunks(REAL, corpus), lambda chunk: [token.text for token in split(chunk)])
            for corpus in CORPORA
        },
    }
    encoded = json.dumps(answers, ensure_ascii=False, separators=(",", ":")).encode()
    ANSWERS.write_bytes(gzip.compress(encoded, mtime=0))


if __name__ == "__main__":
    write_data()
    write_answers()
