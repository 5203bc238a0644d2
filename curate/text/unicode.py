"""Repair of Unicode text: mojibake, controls, normal form. What is right already stays as it is.

The mojibake detection is ftfy's (Speer 2019, "ftfy", doi:10.5281/zenodo.2591652). Its other defaults are off, because
they rewrite correct text: CJK punctuation, full-width forms, typographic quotes, ligatures, entities in plain text.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any

TERMINAL_CODE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")  # ECMA-48 CSI; OSC
# C0 but tab and line feed, DEL, what of C1 means nothing in windows-1252 either, deprecated format characters
# (U+206A-206F), interlinear annotation (U+FFF9-FFFB), byte order mark, noncharacters. Joiners (U+200C, U+200D) and
# direction marks (U+200E, U+200F, U+202A-202E, U+2066-2069) carry meaning and stay.
CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u206a-\u206f\ufff9-\ufffb\ufeff\ufdd0-\ufdef\ufffe\uffff]")
C1 = re.compile("[\x80-\x9f]")
SURROGATE = re.compile("[\ud800-\udfff]")
SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
LINE_END = re.compile("\r\n?|\x0c")  # a form feed ends a line and a page

REPAIRS = ("surrogates", "terminal_codes", "mojibake", "line_ends", "controls", "nfc")


def repair(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the repaired text, and which of `REPAIRS` changed it.

    Mojibake is found and undone line by line, so that one broken line does not keep its neighbours from being read as
    what they are.
    """
    repairs: list[str] = []

    def note(kind: str, new: str) -> str:
        if new != text:
            repairs.append(kind)
        return new

    text = note("line_ends", LINE_END.sub("\n", text))
    if text.isascii():
        text = note("terminal_codes", TERMINAL_CODE.sub("", text))
        text = note("controls", CONTROL.sub("", text))
        return text, _ordered(repairs)
    text = note("surrogates", _without_surrogates(text))
    text = note("terminal_codes", TERMINAL_CODE.sub("", text))
    text = note("mojibake", C1.sub(_from_cp1252, "\n".join(_fix_line(line) for line in text.split("\n"))))
    text = note("controls", CONTROL.sub("", text))
    text = note("nfc", unicodedata.normalize("NFC", text))
    return text, _ordered(repairs)


def _ordered(repairs: list[str]) -> tuple[str, ...]:
    return tuple(kind for kind in REPAIRS if kind in repairs)


def _fix_line(line: str) -> str:
    if line.isascii():
        return line
    import ftfy

    return str(ftfy.fix_encoding(line, _config()))


@lru_cache(maxsize=1)
def _config() -> Any:
    import ftfy

    return ftfy.TextFixerConfig(
        unescape_html=False,
        remove_terminal_escapes=False,
        fix_latin_ligatures=False,
        fix_character_width=False,
        uncurl_quotes=False,
        fix_c1_controls=False,
        fix_line_breaks=False,
        remove_control_chars=False,
        normalization=None,
        explain=False,
    )


def _from_cp1252(match: re.Match[str]) -> str:
    return match[0].encode("latin-1").decode("cp1252", "ignore") or match[0]


def _without_surrogates(text: str) -> str:
    """Join surrogate pairs, as UTF-16 would; half a pair becomes U+FFFD."""
    if not SURROGATE.search(text):
        return text
    text = SURROGATE_PAIR.sub(lambda match: match[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return SURROGATE.sub("\ufffd", text)
