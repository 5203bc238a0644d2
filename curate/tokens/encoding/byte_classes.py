"""What the tokenizers library says of each code point: asked of its own expressions, whose Unicode data are not ours."""

from __future__ import annotations

import unicodedata
from importlib.metadata import version

import numpy as np
import numpy.typing as npt

from curate.compiled import kept_table
from curate.text.characters import ASSIGNED, NUM_CODE_POINTS, Bytes
from curate.tokens.encoding.split_kernels import DIGIT, LETTER, LOWER, NUMBER, SPACE, UNSTABLE, UPPER

_EXPRESSIONS = {
    LETTER: r"\p{L}",
    NUMBER: r"\p{N}",
    SPACE: r"\s",
    UPPER: r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]",
    LOWER: r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]",
}


def _build() -> Bytes:
    """Return the classes of each code point, shape (0x110000,).

    DIGIT is what the pre-tokenizer `Digits` cuts off; UNSTABLE what a text in NFC need not keep: what the form
    changes, marks and Hangul vowels and finals, which it may join to what stands before, and what our own data do not know.
    """
    from tokenizers import Regex, pre_tokenizers

    classes = np.zeros(NUM_CODE_POINTS, np.uint8)
    for value, expression in _EXPRESSIONS.items():
        runs = pre_tokenizers.Split(Regex(f"{expression}+"), "removed", invert=True)
        classes[_members([place for _, place in runs.pre_tokenize_str(_every())])] |= np.uint8(value)
    classes[_digits()] |= np.uint8(DIGIT)
    for codes in ASSIGNED:
        for code in codes:
            if _is_unstable(code):
                classes[code] |= np.uint8(UNSTABLE)
    return classes


_build.__name__ = f"classes-{version('tokenizers')}"  # another version may have other data: its table is another file
byte_classes = kept_table(_build)


def _codes() -> list[int]:
    return [code for codes in ASSIGNED for code in codes if not 0xD800 <= code < 0xE000]


def _every() -> str:
    """Return all characters there may be, in order."""
    return "".join(map(chr, _codes()))


def _members(runs: list[tuple[int, int]]) -> npt.NDArray[np.int64]:
    """Return the code points of some stretches of `_every`."""
    codes = np.array(_codes(), np.int64)
    return np.concatenate([codes[:0], *(codes[start:end] for start, end in runs)])


def _digits() -> npt.NDArray[np.int64]:
    """Return the code points that are digits to the library: every second stretch, the first one lies before 0."""
    from tokenizers import pre_tokenizers

    stretches = [place for _, place in pre_tokenizers.Digits(individual_digits=False).pre_tokenize_str(_every())]
    assert stretches[0] == (0, ord("0")), "the library cuts digits off in another way"
    return _members(stretches[1::2])


def _is_unstable(code: int) -> bool:
    sign = chr(code)
    category = unicodedata.category(sign)
    if category == "Cs":
        return False
    is_jamo = 0x1160 <= code < 0x1200 or 0xD7B0 <= code < 0xD800
    return category[0] == "M" or category == "Cn" or is_jamo or unicodedata.normalize("NFC", sign) != sign
