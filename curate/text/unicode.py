"""Repair of Unicode text: mojibake, controls, normal form. What is right already stays as it is.

The mojibake detection is ftfy's (Speer 2019, "ftfy", doi:10.5281/zenodo.2591652). Its other defaults are off, because
they rewrite correct text: CJK punctuation, full-width forms, typographic quotes, ligatures, entities in plain text.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Any

from curate.text.controls import CONTROL, SURROGATE, SURROGATE_PAIR, TERMINAL_CODE

# What is counted: surrogates in UTF-16 units or pairs, codes, lines, line ends, characters, lines.
REPAIRS = ("surrogates", "terminal_codes", "mojibake", "line_ends", "controls", "nfc")


def repair(text: str) -> tuple[str, dict[str, int]]:
    """Return the repaired text, and how often each of `REPAIRS` was made; those that were not are left out.

    Mojibake is found and undone line by line, so that one broken line does not keep its neighbours from being read as
    what they are. Once other line ends, surrogates and terminal codes are gone, `ftfy.fix_text(text, ftfy_config())`
    and the removal of controls take turns until nothing is left to do; only lines that ftfy would change, or might,
    are given to it.
    """
    counts = dict.fromkeys(REPAIRS, 0)
    if "\r" in text or "\x0c" in text:
        counts["line_ends"] = text.count("\r") + text.count("\x0c")
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n")  # a form feed ends a line too
    if not text.isascii():
        text, counts["surrogates"] = _without_surrogates(text)
    if "\x1b" in text:
        text, counts["terminal_codes"] = TERMINAL_CODE.subn("", text)
    if text.isascii():
        text, counts["controls"] = CONTROL.subn("", text)
    else:
        text, num_controls = _repair_lines(text, counts)
        while num_controls:  # what a control kept apart is seen together now
            counts["controls"] += num_controls
            text, num_controls = _repair_lines(text, counts)
    return text, {kind: count for kind, count in counts.items() if count}


def _repair_lines(text: str, counts: dict[str, int]) -> tuple[str, int]:
    """Return the text with suspect lines as ftfy leaves them and without controls, and how many these were."""
    import ftfy
    import numpy as np

    from curate.text.scan import BAD, HAS_CONTROL, suspect_lines

    data = text.encode("utf-8")
    flags, lines = suspect_lines(np.frombuffer(data, np.uint8))
    pieces, done, may_hold_controls = [], 0, bool(flags & HAS_CONTROL)
    for start, end, why in lines.tolist():
        line = data[start:end].decode("utf-8")
        if not why & BAD and unicodedata.is_normalized("NFC", line):
            continue
        fixed = str(ftfy.fix_text(line, ftfy_config()))
        if fixed == line:
            continue
        normal = unicodedata.normalize("NFC", line)
        counts["mojibake"] += fixed != normal
        counts["nfc"] += normal != line
        pieces += [data[done:start].decode("utf-8"), fixed]
        done, may_hold_controls = end, may_hold_controls or CONTROL.search(fixed) is not None
    if pieces:
        text = "".join([*pieces, data[done:].decode("utf-8")])
    return CONTROL.subn("", text) if may_hold_controls else (text, 0)


@lru_cache(maxsize=1)
def ftfy_config() -> Any:
    """Return the settings under which ftfy undoes mojibake and normalises to NFC, and does nothing else."""
    import ftfy

    return ftfy.TextFixerConfig(
        unescape_html=False,
        remove_terminal_escapes=False,
        fix_latin_ligatures=False,
        fix_character_width=False,
        uncurl_quotes=False,
        fix_line_breaks=False,
        remove_control_chars=False,
        normalization="NFC",
        explain=False,
    )


def _without_surrogates(text: str) -> tuple[str, int]:
    """Join surrogate pairs, as UTF-16 would; half a pair becomes U+FFFD. Return also how many there were."""
    if not SURROGATE.search(text):
        return text, 0
    text, pairs = SURROGATE_PAIR.subn(lambda match: match[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    text, halves = SURROGATE.subn("\ufffd", text)
    return text, pairs + halves
