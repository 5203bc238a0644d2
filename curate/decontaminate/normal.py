"""The normal form in which documents and benchmark items are compared: what the words of a text are, and where they stand.

A leak is seldom the item's very bytes: it went through other tools, was wrapped, retyped, quoted. So whatever such a way
changes without changing what is said must not change the words:

- Unicode forms and case: compatibility composition, full case folding, composition again (Unicode's NFKC_Casefold, in
  essence). ﬁ is fi, Ａ is a, e with an accent is one word whichever way it is written, ß is ss, ς is σ.
- Both Turkish i (İ, ı) read as i: which one belongs to I depends on a language that a page seldom names rightly.
- A word is a run of letters, marks and digits that begins with a letter or digit. Every other character parts words, so
  that punctuation, LaTeX, Markdown and operators of code (`my_name`, `x==3`, `$x$`) make no difference, and neither does
  `well-known` against `well known`, nor white space of any kind.
- Invisible characters vanish (Default_Ignorable_Code_Point: soft hyphens, joiners, marks of direction, variation
  selectors), and so do enclosing marks, the Arabic stretch, and the vowel points of Arabic and Hebrew, which most texts
  leave out.
- Apostrophes between letters or digits vanish, whatever sign stands for them: don't, don’t, don`t and dont are one word.
- A hyphen after a letter, directly before one line break and a letter, is the typesetter's: exam-⏎ple is example (a soft
  hyphen at a line's end, or ¬ as OCR writes it, is such a hyphen, too). well-⏎known cannot be told from it and becomes
  wellknown: syllables are parted at lines far more often, and what is compared are runs of words, of which this is one.
- Digits of every script are those of ASCII. Separators of digit groups vanish: a comma, no-break or thin space, underscore
  or Arabic separator between at most three digits and exactly three; 1,000 is 1000, 3.5 stays two words and is not 35.
  (1.000 for a thousand stays two words: mostly, a point is a decimal one.)
- ½ is 1 and 2, 1½ is 1, 1 and 2, as in 1 1/2. Trade marks part: else Word™ were wordtm.
- In scripts that write no spaces between words, each character with its marks is a word (see `curate.words`).

What an HTML entity or a backslash escape stands for is not looked into: extraction decodes the ones that a page means, and
another would be `n` at the beginning of a word that began with it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

import numpy as np
import regex
from numpy.typing import NDArray

from curate.text.characters import SCRIPTS

GROUPING, APOSTROPHES, HYPHENS = ",_", "'`", "-\u2010\u00ac"  # as they are when `normal_signs` is done
_POINTS = r"\u0640\u064b-\u0652\u0670\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Arabic and Hebrew
_GONE = rf"\p{{Default_Ignorable_Code_Point}}\p{{Me}}{_POINTS}"
_FRACTIONS = "".join(
    chr(code) for code in range(0x00BC, 0x218A) if "\u2044" in unicodedata.normalize("NFKC", chr(code))
)
_BEFORE = (
    dict.fromkeys("\u2018\u2019\u201b\u2032\u00b4\u02bb\u02bc", "'")  # ’ and what is written for it
    | dict.fromkeys("\u00a0\u2007\u2009\u202f\u066c", "_")  # spaces that keep digit groups together; Arabic separator
    | dict.fromkeys("\u2122\u2120", " ")  # trade and service mark
    | {sign: f" {sign}" for sign in _FRACTIONS}
)
_DIGITS = {
    chr(code): str(value)
    for code in range(0x80, 0x20000)
    if (value := unicodedata.decimal(chr(code), None)) is not None
}
_AFTER = _DIGITS | {"\u0131": "i", "i\u0307": "i"}

_BEFORE_SIGN = regex.compile(rf"(?V1)[{_GONE}{''.join(_BEFORE)}]")
_AFTER_SIGN = regex.compile(rf"(?V1)i\u0307|[{_GONE}{''.join(_DIGITS)}\u0131]")
_SOFT_WRAP = re.compile("\u00ad(?=[ \t]*[\r\n])")
_GROUP = r"[,_](?<=(?<![0-9])[0-9]{1,3}.)(?=[0-9]{3}(?![0-9]))"
_APOSTROPHE = r"['`](?<=[\p{L}\p{N}\p{M}].)(?=[\p{L}\p{N}])"
_WRAP = rf"[{HYPHENS}](?<=[\p{{L}}\p{{M}}].)[ \t]*(?:\r\n?|\n)[ \t]*(?=\p{{L}})"
_JOINT = regex.compile(rf"(?V1){_APOSTROPHE}|{_GROUP}|{_WRAP}")
_WORD = regex.compile(
    rf"(?V1)[[\p{{L}}\p{{N}}]&&[{SCRIPTS}]]\p{{M}}*"
    rf"|[[\p{{L}}\p{{N}}]--[{SCRIPTS}]](?:[[\p{{L}}\p{{N}}]--[{SCRIPTS}]]|\p{{M}})*"
)
_ASCII_WORD = re.compile("[a-z0-9]+")
# White space, or a character and what Unicode may compose with it, or brings into an order.
_CLUSTER = regex.compile(rf"(?V1)\s|(?s:.)[\p{{M}}{_GONE}\u1160-\u11ff\uff9e\uff9f]*")
_RUN = re.compile(r"\S+")


def normal_words(text: str) -> list[str]:
    """Return the words of `text` in order: the plain form of what the kernel hashes."""
    signs = _JOINT.sub("", normal_signs(text))
    return (_ASCII_WORD if signs.isascii() else _WORD).findall(signs)


def normal_signs(text: str) -> str:
    """Return the text in its Unicode form, white space and punctuation still in it."""
    if text.isascii():
        return text.lower()
    text = _BEFORE_SIGN.sub(lambda match: _BEFORE.get(match[0], ""), _SOFT_WRAP.sub("-", text))
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    signs: str = _AFTER_SIGN.sub(lambda match: _AFTER.get(match[0], ""), text)
    return signs


def normal_spans(text: str) -> NDArray[np.int64]:
    """Return where the words of `normal_words` stand in the text as it is, shape (words, 2): UTF-8 bytes, start and end.

    Each byte that a word was made of lies in its span, and so does the punctuation around it: what stands without white
    space before the first word of a run, or behind a word. Starts and ends never decrease; several words of one
    character (㍿, ½) share its bytes.
    """
    signs, places = _placed(text)
    kept = np.ones(len(signs), np.bool_)
    for match in _JOINT.finditer(signs):
        kept[match.start() : match.end()] = False
    joined = _JOINT.sub("", signs)
    words = [match.span() for match in (_ASCII_WORD if joined.isascii() else _WORD).finditer(joined)]
    if not words:
        return np.zeros((0, 2), np.int64)
    where = places[np.flatnonzero(kept)]
    starts, ends = (np.array(side, np.int64) for side in zip(*words, strict=True))
    spans = np.stack([where[starts, 0], where[ends - 1, 1]], axis=1)
    return _with_punctuation(text, spans) if text.isascii() else byte_offsets(text)[_with_punctuation(text, spans)]


def _placed(text: str) -> tuple[str, NDArray[np.int64]]:
    """Return `normal_signs` and of each sign the characters of the text that it was made of, shape (signs, 2)."""
    if text.isascii():
        one = np.arange(len(text))
        return text.lower(), np.stack([one, one + 1], axis=1)
    whole, text = normal_signs(text), _SOFT_WRAP.sub("-", text)
    for clusters in (_CLUSTER, regex.compile(r"\S+|\s+"), regex.compile(r"(?s).+")):  # the second, third: in case
        spans = [match.span() for match in clusters.finditer(text)]
        made = [_signs_of(text[start:end]) for start, end in spans]
        if "".join(made) == whole:
            return whole, np.repeat(np.array(spans, np.int64).reshape(-1, 2), [len(part) for part in made], axis=0)
    raise AssertionError("a text without a character has no sign")


@cache
def _one_sign(sign: str) -> str:
    return normal_signs(sign)


def _signs_of(cluster: str) -> str:
    return (
        _one_sign(cluster) if len(cluster) == 1 else normal_signs(cluster)
    )  # there are few characters, but many clusters


def _with_punctuation(text: str, spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the spans with what stands around the words without white space; starts and ends in characters."""
    runs = np.array([match.span() for match in _RUN.finditer(text)], np.int64)
    starts, ends = spans[:, 0], spans[:, 1]
    first = runs[np.searchsorted(runs[:, 0], starts, side="right") - 1, 0]  # where the run begins in which a word does
    last = runs[np.searchsorted(runs[:, 0], ends - 1, side="right") - 1, 1]
    before = np.append(0, np.maximum.accumulate(ends)[:-1])
    following = np.append(starts[1:], len(text))
    return np.stack([np.where(before <= first, first, starts), np.maximum(ends, np.minimum(following, last))], axis=1)


def byte_offsets(text: str) -> NDArray[np.int64]:
    """Return the UTF-8 byte offset of each character of `text`, and of its end."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    sizes = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
