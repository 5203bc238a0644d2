"""Gopher's document-level counts over a batch's UTF-8 and its token stream."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.text.characters import ASSIGNED, NUM_CODE_POINTS, decode
from curate.text.kinds import KIND_LETTER, KIND_SYMBOLS, KIND_WORD, PRIME
from curate.text.lines import Bytes, Uint64s, drop_space, line_end_size, mixed, place_of, skip_space, table_size
from curate.words import Texts, Tokens

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CURATE, DATATROVE = 0, 1  # whose words, lines and ellipses
NUM_COLUMNS = 9

_HASH, _STOP = 0x23, 0x2E
_LONGEST_ENDING = 16  # characters at the end of a line in which an ellipsis is looked for

# Bytes that the scan of a text stops at: hash signs, stops, and what may begin a line end or an ellipsis.
_STOPS = np.zeros(256, np.bool_)
_STOPS[[_HASH, _STOP, 0x0A, 0x0B, 0x0C, 0x0D, 0x1C, 0x1D, 0x1E, 0xC2, 0xE2]] = True

_CLOSERS = tuple(map(ord, "\"'”’»)]"))
_ONE_SIGN = tuple(map(ord, "…⋯︙"))
_FULL_STOP = ord("。")


class Bullets(NamedTuple):
    """The signs that begin a line of a list.

    Attributes:
        data, ends: UTF-8 of all signs, and where each one ends in it.
        begins: Which bytes begin one, shape (256,).
    """

    data: Bytes
    ends: Int64s
    begins: npt.NDArray[np.bool_]


class StopWords(NamedTuple):
    """Stop words in a hash table, by the keys of `curate.words.token_type`.

    Attributes:
        table, size: Mixed keys, and their number of places.
        number: Place to the number of the word.
        lists, firsts: The lists that hold word n: lists[firsts[n]:firsts[n + 1]].
        num_lists: How many lists there are.
        longest: Bytes of the longest word.
    """

    table: Uint64s
    size: int
    number: Int64s
    lists: Int64s
    firsts: Int64s
    num_lists: int
    longest: int


@lru_cache(maxsize=8)
def bullets_of(signs: tuple[str, ...]) -> Bullets:
    """Return signs as `measure` takes them."""
    parts = [sign.encode() for sign in signs]
    begins = np.zeros(256, np.bool_)
    begins[[part[0] for part in parts if part]] = True
    return Bullets(
        np.array(list(b"".join(parts)), np.uint8), np.cumsum([len(part) for part in parts], dtype=np.int64), begins
    )


def stop_words_of(lists: Mapping[str, tuple[str, ...]]) -> StopWords:
    """Return word lists as `measure` takes them."""
    return _stop_words(tuple(lists.values()))


@lru_cache(maxsize=8)
def _stop_words(lists: tuple[tuple[str, ...], ...]) -> StopWords:
    holders: dict[str, list[int]] = {}
    for number, words in enumerate(lists):
        for word in dict.fromkeys(words):
            holders.setdefault(word, []).append(number)
    size = table_size(len(holders))
    table, number_at = np.zeros(size, np.uint64), np.zeros(size, np.int64)
    for number, word in enumerate(holders):
        key = 0
        for byte in word.encode():
            key = (key * PRIME + byte + 1) % 2**64
        mixed_key = np.uint64(mixed(np.uint64(key)))
        place = place_of(table, size, mixed_key)
        table[place], number_at[place] = mixed_key, number
    firsts = np.cumsum([0, *map(len, holders.values())], dtype=np.int64)
    flat = np.array([number for numbers in holders.values() for number in numbers], np.int64)
    longest = max(len(word.encode()) for word in holders)
    return StopWords(table, size, number_at, flat, firsts, len(lists), longest)


@lru_cache(maxsize=1)
def letter_table() -> npt.NDArray[np.bool_]:
    """Return which code points are letters or marks (categories L and M), shape (0x110000,)."""
    table = np.zeros(NUM_CODE_POINTS, np.bool_)
    for codes in ASSIGNED:
        table[codes.start : codes.stop] = [unicodedata.category(chr(code))[0] in "LM" for code in codes]
    return table


@compiled
def measure(
    texts: Texts,
    tokens: Tokens,
    variant: int,
    bullets: Bullets,
    stop_words: StopWords,
    letters: npt.NDArray[np.bool_],
    out: Floats,
) -> None:
    """Write the columns of `GopherQuality.adds` of each row into `out`, shape (rows, NUM_COLUMNS).

    Args:
        texts: The texts.
        tokens: Their words.
        variant: CURATE or DATATROVE.
        bullets: Signs that begin a line of a list.
        stop_words: The language with the most of them counts.
        letters: `letter_table()`.
        out: Receives the values.
    """
    met = np.full(len(stop_words.firsts), -1, np.int64)  # by word: the last row that has it
    per_list = np.zeros(stop_words.num_lists, np.int64)
    for row in range(len(texts.starts)):
        start, stop = texts.starts[row], texts.ends[row]
        hashes, ellipses, lines, bullet_lines, ellipsis_lines = _scan(texts.data, start, stop, variant, bullets)
        first, last = tokens.offsets[row], tokens.offsets[row + 1]
        words, word_chars, with_letter, visible, num_letters = 0, 0, 0, 0, 0
        per_list[:] = 0
        for t in range(first, last):
            kind, chars = tokens.kind[t], int(tokens.chars[t])
            visible += chars
            is_word = kind & KIND_SYMBOLS == 0 if variant == DATATROVE else kind & KIND_WORD != 0
            if is_word:
                words += 1
                word_chars += chars
            if kind & KIND_LETTER:
                with_letter += 1
                begin = int(start + tokens.start[t])
                num_letters += _letters(texts.data, begin, begin + int(tokens.size[t]), letters)
            if tokens.size[t] <= stop_words.longest:
                place = place_of(stop_words.table, stop_words.size, mixed(tokens.key[t]))
                if stop_words.table[place] != np.uint64(0):
                    number = stop_words.number[place]
                    if met[number] != row:
                        met[number] = row
                        for holder in range(stop_words.firsts[number], stop_words.firsts[number + 1]):
                            per_list[stop_words.lists[holder]] += 1
        num_tokens = max(int(last - first), 1)
        out[row, 0] = words
        out[row, 1] = word_chars / max(words, 1)
        out[row, 2] = hashes / num_tokens
        out[row, 3] = ellipses / num_tokens
        out[row, 4] = bullet_lines / max(lines, 1)
        out[row, 5] = ellipsis_lines / max(lines, 1)
        out[row, 6] = with_letter / num_tokens
        out[row, 7] = num_letters / max(visible, 1)
        out[row, 8] = per_list.max()


@compiled
def _letters(data: Bytes, i: int, stop: int, letters: npt.NDArray[np.bool_]) -> int:
    """Return the letters of a word, with the marks that belong to them."""
    count = 0
    while i < stop:
        if data[i] < 0x80:
            count += bool(np.uint8((data[i] | 0x20) - 0x61) < 26)
            i += 1
        else:
            code, size = decode(data, i, stop)
            count += bool(letters[code])
            i += size
    return count


@compiled
def _scan(data: Bytes, start: int, stop: int, variant: int, bullets: Bullets) -> tuple[int, int, int, int, int]:
    """Return the hash signs and ellipses of a text, its lines, and those that begin with a bullet and end in an ellipsis."""
    hashes, ellipses, lines, bullet_lines, ellipsis_lines = 0, 0, 0, 0, 0
    first = i = start
    while first < stop:
        behind = 0
        while i < stop:
            byte = data[i]
            if not _STOPS[byte]:
                i += 1
            elif byte == _HASH:
                hashes += 1
                i += 1
            elif byte == _STOP:
                end = i
                while end < stop and data[end] == _STOP:
                    end += 1
                ellipses += (end - i) // 3
                i = end
            else:
                behind = line_end_size(data, i, stop)
                if behind:
                    break
                ellipses += byte == 0xE2 and i + 2 < stop and data[i + 1] == 0x80 and data[i + 2] == 0xA6
                i += 1
        last = drop_space(data, first, i)
        if variant == DATATROVE or last > first:
            lines += 1
            end = i if variant == DATATROVE else last
            bullet_lines += _begins_with(data, skip_space(data, first, end), end, bullets)
            ellipsis_lines += (
                _ends_plainly(data, first, last) if variant == DATATROVE else _ends_open(data, first, last)
            )
        first = i = i + behind
    return hashes, ellipses, lines, bullet_lines, ellipsis_lines


@compiled
def _begins_with(data: Bytes, i: int, stop: int, bullets: Bullets) -> bool:
    if i >= stop or not bullets.begins[data[i]]:
        return False
    begin = 0
    for end in bullets.ends:
        if i + end - begin <= stop:
            same = True
            for step in range(end - begin):
                same = same and data[i + step] == bullets.data[begin + step]
            if same and end > begin:
                return True
        begin = end
    return False


@compiled
def _ends_plainly(data: Bytes, start: int, stop: int) -> bool:
    """Whether a line ends in `...` or U+2026."""
    if stop - start < 3:
        return False
    last, middle, first = data[stop - 1], data[stop - 2], data[stop - 3]
    if last == _STOP:
        return bool(middle == _STOP and first == _STOP)
    return bool(first == 0xE2 and middle == 0x80 and last == 0xA6)


@compiled
def _before(data: Bytes, start: int, stop: int) -> tuple[int, int]:
    """Return the code point before `stop` and where it begins; -1 at the start of the line."""
    i = stop - 1
    if i < start:
        return -1, start
    while i > start and data[i] & 0xC0 == 0x80:
        i -= 1
    code, _ = decode(data, i, stop)
    return code, i


@compiled
def _ends_open(data: Bytes, start: int, stop: int) -> bool:
    """Whether an ellipsis of any form stands at the end of a line, closing quotes and brackets aside.

    Stops may have a space between them. Looks at the last _LONGEST_ENDING characters.
    """
    left = _LONGEST_ENDING
    code, i = _before(data, start, stop)
    while left > 0 and code in _CLOSERS:
        code, i = _before(data, start, i)
        left -= 1
    if left <= 0:
        return False
    if code in _ONE_SIGN:
        return True
    if code == _FULL_STOP:
        for _ in range(2):
            code, i = _before(data, start, i)
            left -= 1
            if code != _FULL_STOP:
                return False
        return left > 0
    if code != _STOP:
        return False
    for _ in range(2):
        code, i = _before(data, start, i)
        left -= 1
        if code == 0x20 or code == 0xA0:
            code, i = _before(data, start, i)
            left -= 1
        if code != _STOP:
            return False
    return left > 0
