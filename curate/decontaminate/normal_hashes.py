"""Hashes of the normal words of a whole batch: `curate.words.hash_word` of `normal.normal_words`, by one kernel."""

from __future__ import annotations

import unicodedata

import numpy as np
import regex

from curate.compiled import kept_table
from curate.decontaminate.normal import APOSTROPHES, GROUPING, HYPHENS, normal_signs, normal_words
from curate.decontaminate.normal_kernels import CLASS_SHIFT, FIRST, LEADS, SECOND, TRAILS, normal_rows
from curate.decontaminate.normal_states import (
    ALONE,
    APOSTROPHE,
    DIGIT,
    GONE,
    GROUP,
    HYPHEN,
    LETTER,
    MARK,
    NEWLINE,
    NUMBER,
    PART,
    RETURN,
    SEVERAL,
    SOFT,
    SPACE,
    UNSPACED,
    transitions,
)
from curate.text.bits import eight_bytes
from curate.text.characters import ASSIGNED, NUM_CODE_POINTS, SCRIPTS, Bytes, Int64s, Uint64s, members
from curate.text.folding import scratch
from curate.text.folding_kernels import Found, Uint32s
from curate.words import hash_word

_ACTIONS = transitions()
_LONGEST_SEQUENCE = 16  # bytes that one character may become where the kernel writes them
_TEXT = r"[\p{L}\p{N}]"
# Signs that are, or may be, several words.
_WORDS = regex.compile(rf"(?V1){_TEXT}.*[{SCRIPTS}]|[{SCRIPTS}].*{_TEXT}|{_TEXT}.*[^\p{{L}}\p{{N}}\p{{M}}].*{_TEXT}")


def normal_hashes(data: Bytes, starts: Int64s, ends: Int64s) -> tuple[Uint64s, Int64s]:
    """Return the hashes of the normal words of all rows, and where those of each row begin, shape (rows + 1,).

    Args:
        data: UTF-8 of all rows.
        starts: Where each row's text begins, shape (rows,).
        ends: Where it ends.
    """
    rows = len(starts)
    most = int((ends - starts).sum()) // 2 + rows + 1  # no character begins two words, but for those left over
    counts = np.zeros(rows + 1, np.int64), np.zeros(rows + 1, np.int64)
    found = Found(np.empty(most, np.uint64), np.empty((most, 3), np.int64), *counts)
    room = scratch(int((ends - starts).max(initial=0)))
    normal_rows(eight_bytes(data), data, starts, ends, _ACTIONS, sign_table(), room, found)
    hashes, runs = found.hashes[: found.num_hashes[-1]], found.runs[: found.num_runs[-1]]
    if len(runs) == 0:
        return hashes, found.num_hashes
    memo: dict[bytes, list[int]] = {}  # of these rows alone: nothing may depend on what was seen before, nor grow
    others: list[int] = []
    sizes = np.empty(len(runs), np.int64)
    for index, (first, end) in enumerate(runs[:, 1:].tolist()):
        run = data[first:end].tobytes()
        values = memo.get(run)
        if values is None:
            values = memo[run] = [hash_word(word) for word in normal_words(run.decode())]
        others += values
        sizes[index] = len(values)
    more = np.concatenate(([0], np.cumsum(sizes)))
    places = np.repeat(runs[:, 0], sizes)
    return np.insert(hashes, places, np.array(others, np.uint64)), found.num_hashes + more[found.num_runs]


@kept_table
def sign_table() -> Uint32s:
    """Return what `normal_signs` makes of each character, and behind that the sequences of those that become several.

    An entry is the code point made and its class; of several, the place of the sequence: its length and its entries.
    """
    kinds = _kinds()
    composed = [(code, text) for code in _codes() if (text := unicodedata.normalize("NFD", chr(code))) != chr(code)]
    pairs = [text for code, text in composed if unicodedata.normalize("NFC", text) == chr(code)]
    firsts = {sign for text in pairs for sign in text[:-1]} | {chr(code) for code, _ in composed}
    seconds = {sign for text in pairs for sign in text[1:]}
    table = np.full(NUM_CODE_POINTS, PART << CLASS_SHIFT, np.uint32)
    sequences: list[int] = []
    places: dict[str, int] = {}
    for code in _codes():
        made = normal_signs(chr(code))
        if len(made) == 1:
            entry = int(kinds[ord(made)]) << CLASS_SHIFT | ord(made)
        elif not made:
            entry = (SOFT if code == 0xAD else GONE) << CLASS_SHIFT
        elif len(made.encode()) > _LONGEST_SEQUENCE or _WORDS.search(made):
            entry = ALONE << CLASS_SHIFT
        else:
            if made not in places:
                places[made] = NUM_CODE_POINTS + len(sequences)
                sequences += [len(made), *(int(kinds[ord(sign)]) << CLASS_SHIFT | ord(sign) for sign in made)]
            entry = SEVERAL << CLASS_SHIFT | places[made]
        table[code] = entry | _works(chr(code), made, firsts, seconds)
    return np.concatenate([table, np.array(sequences, np.uint32)])


def _codes() -> list[int]:
    return [code for codes in ASSIGNED for code in codes if not 0xD800 <= code < 0xE000]


def _kinds() -> Bytes:
    """Return the class of each sign that `normal_signs` makes, shape (0x110000,)."""
    kinds = np.full(NUM_CODE_POINTS, PART, np.uint8)
    kinds[members(r"\p{L}")] = LETTER
    kinds[members(r"\p{N}")] = NUMBER
    kinds[members(rf"[[\p{{L}}\p{{N}}]&&[{SCRIPTS}]]")] = UNSPACED
    kinds[members(r"\p{M}")] = MARK
    signs = {SPACE: " \t", NEWLINE: "\n", RETURN: "\r", DIGIT: "0123456789", APOSTROPHE: APOSTROPHES}
    for kind, characters in (signs | {HYPHEN: HYPHENS, GROUP: GROUPING}).items():
        kinds[[ord(sign) for sign in characters]] = kind
    return kinds


def _works(sign: str, made: str, firsts: set[str], seconds: set[str]) -> int:
    """Return the bits that say how a character and its neighbours may work upon each other in composition."""
    forms = [form for form in (unicodedata.normalize("NFKD", sign), made, unicodedata.normalize("NFKD", made)) if form]
    bits = FIRST if firsts & {sign, *"".join(forms)} else 0
    bits |= SECOND if any(form[0] in seconds for form in (sign, *forms)) else 0
    bits |= LEADS if any(unicodedata.combining(form[0]) for form in forms) else 0
    return bits | (TRAILS if any(unicodedata.combining(form[-1]) for form in forms) else 0)
