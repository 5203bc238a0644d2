"""One pass over the bytes of a text that counts what tells prose from navigation, lists and templates.

A line's words are cut here, and not taken from the token stream: phrases are compared in lower case, and a line's end matters.
Words and phrases stand as 64-bit keys; two different words of a document of 10,000 have the same one with odds of 3e-12.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from curate.compiled import compiled
from curate.filter.junk.phrases import MAX_PHRASE
from curate.filter.junk.tables import (
    CURRENCY,
    INSIDE,
    LINE_END,
    OTHER,
    PLANE,
    PRIME,
    SEED,
    SENTENCE_END,
    SPACE,
    SPREAD,
    UNSPACED,
    WORD,
)
from curate.text.characters import decode

# Columns of the counts of a document.
COUNTS = (
    "words",  # words; a character of a script without spaces is half a word
    "lines",  # that hold a word
    "prose_words",  # in lines of prose
    "salad_words",  # in lines of 8 words or more without one function word or mark
    "short_lines",  # of at most 3 words
    "short_words",  # in those
    "stop_words",
    "ended_lines",  # that end in a mark
    "chars",  # letters and digits, by line
    "repeated_chars",  # in lines that occurred before
    "chrome_lines",  # lines that are a phrase of site furniture
    "chrome_chars",  # in those
    "chrome_phrases",  # distinct
    "top_words",  # occurrences of the two most frequent words of 3 letters or more that are no stop words
    "top_prose_words",  # the same, in lines of prose
    "template_words",  # in sentences whose skeleton occurs three times or more
    "prices",
    "not_found",  # phrases near the beginning that say that there is no page
    "machine_marks",  # phrases that programs leave behind
)
NUM_COUNTS = len(COUNTS)
(
    _WORDS,
    _LINES,
    _PROSE,
    _SALAD,
    _SHORT,
    _SHORT_WORDS,
    _STOPS,
    _ENDED,
    _CHARS,
    _REPEATED,
    _CHROME_LINES,
    _CHROME_CHARS,
    _CHROME,
    _TOP_WORDS,
    _TOP_PROSE,
    _TEMPLATE,
    _PRICES,
    _NOT_FOUND,
    _MACHINE,
) = range(NUM_COUNTS)

# Bits of a word in `flags`.
_STOP, _DIGIT, _LONG, _PROSE_LINE = 1, 2, 4, 8
# Bits of a word or a phrase in its table; of a phrase, the number of its words stands above them.
CHROME, MISSING, MACHINE, FIRST, STOP = 1, 2, 4, 8, 16
LENGTH_SHIFT = 8

CHROME_LINE_WORDS = 5  # longest line that can be furniture
NOT_FOUND_WORDS = 80  # words at the beginning among which a page says that it is none
_SENTENCE_WORDS, _SENTENCE_STOPS, _SENTENCE_TIMES = 8, 3, 3  # a template's sentence: its size, and how often
_SEED, _PRIME, _SPREAD = np.uint64(SEED), np.uint64(PRIME), np.uint64(SPREAD)
_U32, _U29, _ONE = np.uint64(32), np.uint64(29), np.uint64(1)


@compiled
def lookup(keys: Any, values: Any, key: Any) -> Any:
    """Return the value of a key in an open-addressing table, 0 if it is not there."""
    mask = np.uint64(len(keys) - 1)
    slot = (key ^ (key >> _U32)) & mask
    while keys[slot] != np.uint64(0):
        if keys[slot] == key:
            return values[slot]
        slot = (slot + _ONE) & mask
    return np.int32(0)


@compiled
def _add(keys: Any, counts: Any, mask: Any, key: Any) -> Any:
    """Count a key in a table that has room; return how often it has been counted, this time included."""
    slot = (key ^ (key >> _U32)) & mask
    while counts[slot] != 0 and keys[slot] != key:
        slot = (slot + _ONE) & mask
    keys[slot] = key
    counts[slot] += 1
    return counts[slot]


@compiled
def _line(
    words: Any,
    unspaced: Any,
    stops: Any,
    ended: Any,
    inside: Any,
    length: Any,
    key: Any,
    phrase_keys: Any,
    phrase_values: Any,
    tables: Any,
    out: Any,
) -> Any:
    """Add one line to the counts of a document; return whether it is prose."""
    number = words + unspaced // 2
    keys, counts, mask = tables
    out[_LINES] += 1
    out[_WORDS] += number
    out[_STOPS] += stops
    out[_CHARS] += length
    out[_ENDED] += ended
    prose = number >= 8 and (ended or inside) and (stops * 5 >= words or unspaced > 8)
    prose = prose or (number >= 5 and ended and (stops >= 2 or unspaced > 6))
    if prose:
        out[_PROSE] += number
    elif number >= 8 and stops == 0 and unspaced == 0 and not ended and not inside:
        out[_SALAD] += number
    if number <= 3:
        out[_SHORT] += 1
        out[_SHORT_WORDS] += number
    if _add(keys, counts, mask, key ^ np.uint64(0xA5A5A5A5A5A5A5A5)) > 1:
        out[_REPEATED] += length
    is_short = words <= CHROME_LINE_WORDS and unspaced <= 2 * CHROME_LINE_WORDS
    if is_short and lookup(phrase_keys, phrase_values, key) & CHROME:
        out[_CHROME_LINES] += 1
        out[_CHROME_CHARS] += length
        if _add(keys, counts, mask, key ^ np.uint64(0x5C5C5C5C5C5C5C5C)) == 1:
            out[_CHROME] += 1
    return prose


@compiled
def _scan(
    data: Any,
    begin: Any,
    end: Any,
    kinds: Any,
    small: Any,
    word_table: Any,
    phrase_table: Any,
    tables: Any,
    stream: Any,
    out: Any,
) -> Any:
    """Fill the word stream (keys, flags, sentence number) and all counts that lines give; return the number of words."""
    word_keys, word_values = word_table
    phrase_keys, phrase_values = phrase_table
    keys, flags, sentences = stream
    num = sentence = 0
    words = unspaced = stops = length = line_first = 0
    key, phrase = _SEED, np.uint64(0)
    letters = 0
    in_word = digit = False
    last = OTHER
    inside = currency = False
    number_before = False
    place = begin
    while place <= end:
        if place < end:
            code, size = decode(data, place, end)
            kind = kinds[code] if code < PLANE else (UNSPACED if 0x20000 <= code < 0x40000 else OTHER)
        else:
            code, size, kind = 10, 1, np.uint8(LINE_END)
        if in_word and kind != WORD:  # a word ends
            value = lookup(word_keys, word_values, key)
            flag = (_STOP if value & STOP else 0) | (_DIGIT if digit else 0) | (_LONG if letters >= 3 else 0)
            keys[num], flags[num], sentences[num] = key, flag, sentence
            num += 1
            words += 1
            stops += 1 if value & STOP else 0
            phrase = (phrase ^ key) * _SPREAD
            phrase ^= phrase >> _U29
            in_word = False
            number_before = digit
            if digit and currency:
                out[_PRICES] += 1
                number_before = False
            currency = False
        if kind == WORD:
            if not in_word:
                in_word, key, letters = True, _SEED, 0
                digit = 48 <= code <= 57
            key = (key ^ np.uint64(small[code] if code < PLANE else code)) * _PRIME
            letters += 1
            length += 1
        elif kind == UNSPACED:
            key = (_SEED ^ np.uint64(code)) * _PRIME
            value = lookup(word_keys, word_values, key)
            keys[num], flags[num], sentences[num] = key, (_STOP if value & STOP else 0), sentence
            num += 1
            unspaced += 1
            length += 1
            phrase = (phrase ^ key) * _SPREAD
            phrase ^= phrase >> _U29
            number_before = currency = False
        elif kind == CURRENCY:
            if number_before:
                out[_PRICES] += 1
                number_before = False
            else:
                currency = True
        elif kind == INSIDE:
            inside = True
        elif kind == SENTENCE_END:
            if last != SENTENCE_END:
                sentence += 1
            inside = True
        elif kind == LINE_END:
            if words + unspaced > 0:
                ended = 1 if last in (SENTENCE_END, INSIDE) else 0
                prose = _line(
                    words, unspaced, stops, ended, inside, length, phrase, phrase_keys, phrase_values, tables, out
                )
                if prose:
                    flags[line_first:num] |= np.uint8(_PROSE_LINE)
            line_first = num
            words = unspaced = stops = length = 0
            phrase = np.uint64(0)
            inside = currency = number_before = False
            sentence += 1
            last = OTHER
        if kind != OTHER and kind != SPACE and kind != LINE_END:
            last = kind
        place += size
    return num


@compiled
def _phrases(num: Any, phrase_table: Any, word_table: Any, stream: Any, out: Any) -> Any:
    """Count the phrases of the word stream."""
    phrase_keys, phrase_values = phrase_table
    word_keys, word_values = word_table
    keys, _, _ = stream
    for start in range(num):
        if not lookup(word_keys, word_values, keys[start]) & FIRST:
            continue
        phrase = np.uint64(0)
        for index in range(start, min(start + MAX_PHRASE, num)):
            phrase = (phrase ^ keys[index]) * _SPREAD
            phrase ^= phrase >> _U29
            value = lookup(phrase_keys, phrase_values, phrase)
            if value >> LENGTH_SHIFT == index - start + 1:
                if value & MISSING and start < NOT_FOUND_WORDS:
                    out[_NOT_FOUND] += 1
                if value & MACHINE:
                    out[_MACHINE] += 1


@compiled
def _two_most(num: Any, wanted: Any, salt: Any, tables: Any, keys: Any, flags: Any) -> Any:
    """Return the occurrences of the two most frequent words that have all flags of `wanted` and are no stop words or numbers."""
    counted, counts, mask = tables
    first = second = 0
    first_key = np.uint64(0)
    for index in range(num):
        if flags[index] & (wanted | _STOP | _DIGIT) == wanted:
            times = _add(counted, counts, mask, keys[index] ^ salt)
            if keys[index] == first_key:
                first = times
            elif times > first:
                first, second, first_key = times, first, keys[index]
            elif times > second:
                second = times
    return first + second


@compiled
def _repeats(num: Any, tables: Any, stream: Any, skeletons: Any, out: Any) -> Any:
    """Count the most frequent words, and the words in sentences of prose that fill one skeleton."""
    counted, counts, mask = tables
    keys, flags, sentences = stream
    out[_TOP_WORDS] = _two_most(num, _LONG, np.uint64(0), tables, keys, flags)
    out[_TOP_PROSE] = _two_most(num, _LONG | _PROSE_LINE, np.uint64(0x6969696969696969), tables, keys, flags)
    # A sentence's skeleton: its stop words, and between them the fact that other words stood there.
    found = 0
    start = 0
    while start < num:
        stop = start
        key, stops, gap = np.uint64(1), 0, False
        while stop < num and sentences[stop] == sentences[start]:
            if flags[stop] & _STOP:
                key = (key ^ keys[stop]) * _SPREAD
                stops += 1
                gap = False
                key ^= key >> _U29
            elif not gap:
                key = (key ^ np.uint64(77)) * _SPREAD
                key ^= key >> _U29
                gap = True
            stop += 1
        if flags[start] & _PROSE_LINE and stop - start >= _SENTENCE_WORDS and stops >= _SENTENCE_STOPS:
            skeletons[found, 0], skeletons[found, 1] = np.int64(key), stop - start
            found += 1
            _add(counted, counts, mask, key ^ np.uint64(0x9696969696969696))
        start = stop
    for index in range(found):
        key = np.uint64(skeletons[index, 0]) ^ np.uint64(0x9696969696969696)
        slot = (key ^ (key >> _U32)) & mask
        while counts[slot] != 0 and counted[slot] != key:
            slot = (slot + _ONE) & mask
        if counts[slot] >= _SENTENCE_TIMES:
            out[_TEMPLATE] += skeletons[index, 1]


@compiled
def count_texts(data: Any, offsets: Any, kinds: Any, small: Any, word_table: Any, phrase_table: Any) -> Any:
    """Return the counts of each text, int64, shape (texts, NUM_COUNTS).

    Args:
        data: UTF-8 bytes of all texts, uint8.
        offsets: Where each begins, and the end of the last, int64, shape (texts + 1,).
        kinds: Of `tables.classes`.
        small: Of `tables.lower`.
        word_table: Keys and values of `tables.hash_table`: bits of words.
        phrase_table: The same of phrases.
    """
    rows = len(offsets) - 1
    out = np.zeros((rows, NUM_COUNTS), np.int64)
    largest = 0
    for row in range(rows):
        largest = max(largest, offsets[row + 1] - offsets[row])
    room = largest + 2
    keys, flags, sentences = np.empty(room, np.uint64), np.empty(room, np.uint8), np.empty(room, np.int64)
    skeletons = np.empty((room // _SENTENCE_WORDS + 2, 2), np.int64)
    size = 1024
    while size < room:
        size *= 2
    counted, counts = np.zeros(size, np.uint64), np.zeros(size, np.int32)
    for row in range(rows):
        begin, end = offsets[row], offsets[row + 1]
        if begin == end:
            continue
        used = 1024  # a part of the table that suits the text: it is cleared for each
        while used < end - begin + 2:
            used *= 2
        counts[:used] = 0
        tables = (counted, counts, np.uint64(used - 1))
        stream = (keys, flags, sentences)
        num = _scan(data, begin, end, kinds, small, word_table, phrase_table, tables, stream, out[row])
        _phrases(num, phrase_table, word_table, stream, out[row])
        _repeats(num, tables, stream, skeletons, out[row])
    return out


def arrays(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the arguments of `count_texts` in the one form that it is compiled for: contiguous, from byte 0."""
    return np.ascontiguousarray(data, np.uint8), np.ascontiguousarray(offsets, np.int64)
