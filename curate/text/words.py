"""Lines, paragraphs and sentences of a text; words are split in `curate.words`.

Blank lines never count: they are layout, and counting them would make every well-spaced text look repetitive.
"""

from __future__ import annotations

from collections.abc import Iterable

import regex

# Atomic, or the two signs of one line end would count as two.
_PARAGRAPH_END = regex.compile(r"(?:(?>\r\n|[\n\r])[^\S\r\n]*){2,}|\u2029")

# Sentence marks of all scripts (Unicode property Sentence_Terminal) and the ellipsis; closing quotes and brackets belong to the sentence.
_SENTENCE_END = regex.compile(
    r"(?P<mark>[\p{Sentence_Terminal}…]+)(?P<close>[\"'\p{Pe}\p{Pf}\p{Pi}]*)(?P<space>\s*)(?=(?P<open>[\"'\p{Ps}\p{Pi}\p{Pf}¿¡*_]*)(?P<next>.)?)",
    regex.DOTALL,
)
_FULL_WIDTH = frozenset("。！？｡．︒︕︖﹒﹖﹗")  # marks that are written without a space behind them
_LONGEST_ABBREVIATION = 12  # characters looked at before a stop; keeps the search linear
_LAST_WORD = regex.compile(r"[\p{L}\p{M}\p{N}.]+\Z")

# Abbreviations in lower case, without the last stop. Titles and their like never end a sentence ...
_TITLES = (
    "mr mrs ms dr prof st rev hon gen col capt lt sgt vs cf e.g i.e "
    "sr sra srta dra profa exmo exma "  # Portuguese, Spanish
    "mme mlle "  # French
    "hr fr bzw z.b d.h"  # German
)
_BEFORE_NAMES = frozenset(_TITLES.split())
# ... and these end none before a number.
_COUNTED = "no nos nr vol vols fig figs eq ed p pp ch sec art approx est ca pág págs núm n bd abs"
_BEFORE_NUMBERS = frozenset(_COUNTED.split())


def split_lines(text: str) -> list[str]:
    """Return the lines of `text` that are not blank, without white space at their ends (indentation stays)."""
    return [line for line in map(str.rstrip, text.splitlines()) if line]


def split_paragraphs(text: str) -> list[str]:
    """Return the paragraphs of `text`: blocks of lines between blank lines, without outer white space."""
    return [block for block in map(str.strip, _PARAGRAPH_END.split(text)) if block]


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text`, without outer white space; a blank line always ends one.

    A sentence ends at marks of any script that are followed by white space (full-width marks need none) and not by a
    lower-case letter; a single stop after an initial, a known abbreviation or a list number ends none. Rules alone, no
    trained model: good enough to count sentences, which is all that filters do with them.
    """
    return [sentence for block in split_paragraphs(text) for sentence in _sentences(block)]


def count_repeats(items: Iterable[str]) -> tuple[int, int, int]:
    """Return the number of items, of those that occurred before, and the characters in the latter."""
    total = again = again_chars = 0
    seen: set[str] = set()
    for item in items:
        total += 1
        if item in seen:
            again += 1
            again_chars += len(item)
        else:
            seen.add(item)
    return total, again, again_chars


def _sentences(block: str) -> list[str]:
    sentences: list[str] = []
    start = 0
    for match in _SENTENCE_END.finditer(block):
        if not _ends_sentence(block, start, match):
            continue
        sentence = block[start : match.end("close")].strip()
        if sentence:
            sentences.append(sentence)
        start = match.end("close")
    rest = block[start:].strip()
    return [*sentences, rest] if rest else sentences


def _ends_sentence(block: str, start: int, match: regex.Match[str]) -> bool:
    mark, following = match["mark"], match["next"]
    if following is None:
        return True
    if mark[-1] in _FULL_WIDTH:
        return True
    if not match["space"] or following.islower():
        return False
    if mark != "." or match["close"]:
        return True
    found = _LAST_WORD.search(block, max(start, match.start("mark") - _LONGEST_ABBREVIATION), match.start("mark"))
    if found is None:
        return True
    word = found.group().lstrip(".")
    if len(word) == 1 and word.isupper():  # an initial: J. Austen
        return False
    if word.isdigit() and not block[start : found.start()].strip():  # the number of a list item: 3. Open the lock.
        return False
    if word.lower() in _BEFORE_NAMES:
        return False
    return not (word.lower() in _BEFORE_NUMBERS and following.isdigit())
