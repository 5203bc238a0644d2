"""C4's line edits over a batch's UTF-8: what is kept is written line by line into one buffer, no string is made.

Lower case matters for a few English phrases alone. `str.lower` makes their letters of ASCII capitals and of the Kelvin
sign, of nothing else.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled, kept_table
from curate.filter.published import frozen
from curate.text.characters import ASSIGNED, JOINERS, NUM_CODE_POINTS, SCRIPTS, decode, members
from curate.text.kinds import KIND_PUNCTUATION, KIND_SENTENCE_END
from curate.text.lines import Bytes, drop_space, line_end_size, line_stop, num_chars, skip_space, word_stop
from curate.text.sentences import SentenceTables, count_sentences
from curate.words import Texts, Tokens

Int64s = npt.NDArray[np.int64]

RULES, TOKENS = 0, 1  # how sentences are counted: by our rules, or over the tokens as spaCy's sentencizer does

# Columns of the counts, in the order of `C4Lines.adds`.
KEPT, LONG_WORD, UNTERMINATED, FEW_WORDS, JAVASCRIPT, POLICY, LOREM_IPSUM, CURLY, SENTENCES = range(9)
NUM_COLUMNS = 9

_JAVASCRIPT = np.frombuffer(b"javascript", np.uint8)
_LOREM_IPSUM = np.frombuffer(b"lorem ipsum", np.uint8)
_POLICY = np.frombuffer(
    b"terms of use\0privacy policy\0cookie policy\0uses cookies\0use of cookies\0use cookies\0", np.uint8
)
_EDIT = np.frombuffer(b"edit]", np.uint8)
_CITATION_NEEDED = np.frombuffer(b"citation needed]", np.uint8)
_OPENING, _CLOSING, _CURLY, _STOP, _LF, _SPACE, _K = 0x5B, 0x5D, 0x7B, 0x2E, 0x0A, 0x20, 0x6B

# Letters that begin a phrase, in either case.
_BEGINS = np.zeros(256, np.bool_)
_BEGINS[list(b"jJlLtTpPcCuU")] = True

NO_TOKENS = frozen(Tokens(*(np.empty(0, kind) for kind in ("u8", "i4", "i4", "i4", "u1", "i8"))))

# Bits of `word_classes`.
_IS_SPACE, _IS_CORE, _IS_SCRIPT, _IS_ATTACHED, _IS_INVISIBLE = (1 << bit for bit in range(5))


class Marks(NamedTuple):
    """The marks that end a line.

    Attributes:
        data, ends: UTF-8 of all marks, and where each one ends in it.
        lasts: Which bytes end one, shape (256,).
    """

    data: Bytes
    ends: Int64s
    lasts: npt.NDArray[np.bool_]


class Edits(NamedTuple):
    """The settings of `C4Lines` that edit lines; 0 where a number is off.

    Attributes:
        terminal, citations, javascript, policy: As there.
        min_words, max_word_length: `min_words_per_line` and `max_word_length`.
        folded: Whether a line of a script without spaces has as many words as characters.
        first_only: Whether a page is judged by what comes first, `lorem_ipsum` or `curly_bracket`, of those that are on.
        lorem_ipsum, curly_bracket: Whether they are on; it matters where `first_only` holds.
        sentences: RULES or TOKENS.
    """

    terminal: bool
    citations: bool
    javascript: bool
    policy: bool
    min_words: int
    max_word_length: int
    folded: bool
    first_only: bool
    lorem_ipsum: bool
    curly_bracket: bool
    sentences: int


@lru_cache(maxsize=8)
def marks_of(signs: tuple[str, ...]) -> Marks:
    """Return signs as `edit` takes them."""
    parts = [sign.encode() for sign in signs]
    lasts = np.zeros(256, np.bool_)
    lasts[[part[-1] for part in parts if part]] = True
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    return Marks(np.array(list(b"".join(parts)), np.uint8), ends, lasts)


@kept_table
def decimal_digits() -> npt.NDArray[np.bool_]:
    """Return which code points `re` takes for digits, shape (0x110000,)."""
    table = np.zeros(NUM_CODE_POINTS, np.bool_)
    for codes in ASSIGNED:
        table[codes.start : codes.stop] = [chr(code).isdecimal() for code in codes]
    return table


@kept_table
def word_classes() -> Bytes:
    """Return what a code point is to `curate.words.folded_words`, in bits, shape (0x110000,)."""
    table = np.zeros(NUM_CODE_POINTS, np.uint8)
    table[members(r"[\s\x1c-\x1f]")] |= np.uint8(_IS_SPACE)
    table[members(r"[\p{L}\p{N}\p{M}]")] |= np.uint8(_IS_CORE)
    table[members(f"[{SCRIPTS}]")] |= np.uint8(_IS_SCRIPT)
    table[members(rf"[\p{{M}}{JOINERS}]")] |= np.uint8(_IS_ATTACHED)
    table[0x345] &= np.uint8(~_IS_ATTACHED & 0xFF)  # case-folded it is a letter, iota
    table[[0x00AD, 0x200B, 0x2060, 0xFEFF]] = _IS_INVISIBLE
    return table


@compiled
def num_brackets(texts: Texts) -> int:
    """Return the opening brackets in all texts: no fewer than there are lines with a citation."""
    count = 0
    for row in range(len(texts.starts)):
        for i in range(texts.starts[row], texts.ends[row]):
            count += texts.data[i] == _OPENING
    return count


@compiled
def edit(
    texts: Texts,
    tokens: Tokens,
    edits: Edits,
    marks: Marks,
    digits: npt.NDArray[np.bool_],
    classes: Bytes,
    tables: SentenceTables,
    out: Bytes,
    bounds: Int64s,
    counts: Int64s,
    anew: Int64s,
) -> tuple[int, int]:
    """Write the kept lines of each row, and count why the others are cut.

    Args:
        texts: The texts.
        tokens: Their words; read where `edits.sentences` is TOKENS.
        edits: What is to be done.
        marks: The marks that end a line.
        digits: `decimal_digits()`.
        classes: `word_classes()`.
        tables: `sentence_tables()`.
        out: Receives the rows' lines, a line feed between them; no more bytes than the texts have.
        bounds: Receives where each row begins in `out`, and the end, shape (rows + 1,).
        counts: Receives the counts, shape (rows, NUM_COLUMNS).
        anew: Receives row, start and end in `out` of kept lines whose words are not those of `tokens`, as something was
            cut out of them: their sentences are not counted. A place for each opening bracket, shape (brackets, 3).

    Returns:
        The bytes written, and the lines in `anew`.
    """
    data, place, num_anew = texts.data, 0, 0
    for row in range(len(texts.starts)):
        start, stop = texts.starts[row], texts.ends[row]
        bounds[row] = place
        count = counts[row]
        count[:] = 0
        judged, is_first = False, True
        token = tokens.offsets[row]
        first = int(start)
        while first < stop:
            end = line_stop(data, first, stop)
            behind = end + line_end_size(data, end, stop) if end < stop else int(stop)
            begin = skip_space(data, first, end)
            last = drop_space(data, begin, end)
            first = behind
            words, too_long = _words(data, begin, last, edits.max_word_length)
            if too_long:
                count[LONG_WORD] += 1
                continue
            at = place if is_first else place + 1  # behind the line feed that joins the two
            written = (
                _copy(data, begin, last, out, at, digits)
                if edits.citations
                else _plain_copy(data, begin, last, out, at)
            )
            if edits.terminal and not _is_terminated(out, at, written, marks):
                count[UNTERMINATED] += written > at
                continue
            if words < edits.min_words and not (
                edits.folded and _num_folded(out, at, written, classes) >= edits.min_words
            ):
                count[FEW_WORDS] += written > at
                continue
            lorem, javascript, curly, policy = _phrases(out, at, written)
            if edits.first_only:
                lorem = 0 if judged or not edits.lorem_ipsum else lorem
                judged = judged or lorem > 0
            count[LOREM_IPSUM] += lorem
            if edits.javascript and javascript:
                count[JAVASCRIPT] += 1
                continue
            if edits.first_only:
                curly = 0 if judged or not edits.curly_bracket else curly
                judged = judged or curly > 0
            count[CURLY] += curly
            if edits.policy and policy:
                count[POLICY] += 1
                continue
            count[KEPT] += written > at
            if not is_first:
                out[place] = _LF
            place, is_first = written, False
            if edits.sentences == RULES:
                count[SENTENCES] += count_sentences(out, at, written, tables)
            elif written - at < last - begin:
                anew[num_anew, 0], anew[num_anew, 1], anew[num_anew, 2] = row, at, written
                num_anew += 1
            else:
                while token < tokens.offsets[row + 1] and start + tokens.start[token] < begin:
                    token += 1
                token, found = _sentences(data, start, begin, last, tokens, token, tokens.offsets[row + 1])
                count[SENTENCES] += found
    bounds[len(texts.starts)] = place
    return place, num_anew


@compiled
def strip_rows(out: Bytes, bounds: Int64s) -> int:
    """Strip each row of `out` and close the gaps; `bounds` as in `edit`, before and after. Return the bytes left."""
    place = 0
    for row in range(len(bounds) - 1):
        start = skip_space(out, bounds[row], bounds[row + 1])
        stop = drop_space(out, start, bounds[row + 1])
        bounds[row] = place
        if place == start:
            place = stop
        else:
            for i in range(start, stop):
                out[place] = out[i]
                place += 1
    bounds[len(bounds) - 1] = place
    return place


@compiled
def count_anew(data: Bytes, anew: Int64s, tokens: Tokens, counts: Int64s) -> None:
    """Add the sentences of the lines in `anew` to the counts.

    Args:
        data: What `edit` wrote.
        anew: As `edit` left it, shape (lines, 3).
        tokens: The words of these lines: a row for each.
        counts: Shape (rows, NUM_COLUMNS).
    """
    for line in range(len(anew)):
        start, stop = anew[line, 1], anew[line, 2]
        _, found = _sentences(data, start, start, stop, tokens, tokens.offsets[line], tokens.offsets[line + 1])
        counts[anew[line, 0], SENTENCES] += found


# -- words and marks ---------------------------------------------------------------------------------------------------


@compiled
def _words(data: Bytes, i: int, stop: int, longest: int) -> tuple[int, bool]:
    """Return the runs without white space, and whether one has more than `longest` characters (0: none has)."""
    count, too_long = 0, False
    while i < stop:
        first = i
        i = word_stop(data, i, stop)
        count += 1
        if longest and i - first > longest and num_chars(data, first, i) > longest:
            too_long = True
            break
        i = skip_space(data, i, stop)
    return count, too_long


@compiled
def _is_terminated(data: Bytes, start: int, stop: int, marks: Marks) -> bool:
    """Whether a line ends in one of the marks, and not in three stops."""
    if start == stop or not marks.lasts[data[stop - 1]]:
        return False
    if stop - start >= 3 and data[stop - 1] == _STOP and data[stop - 2] == _STOP and data[stop - 3] == _STOP:
        return False
    begin = 0
    for end in marks.ends:
        size = end - begin
        if 0 < size <= stop - start:
            same = True
            for step in range(size):
                same = same and data[stop - size + step] == marks.data[begin + step]
            if same:
                return True
        begin = end
    return False


@compiled
def _num_folded(data: Bytes, i: int, stop: int, classes: Bytes) -> int:
    """Return the words of a line as `curate.words.folded_words` splits them; 0 if it is ASCII."""
    count, is_ascii, in_script, has_core = 0, True, False, False
    while i < stop:
        code, size = decode(data, i, stop)
        is_ascii = is_ascii and size == 1
        i += size
        bits = classes[code]
        if bits & _IS_INVISIBLE:
            continue
        core = bits & _IS_CORE != 0
        if bits & _IS_SPACE:
            count += has_core
            in_script, has_core = False, False
        elif in_script and bits & _IS_ATTACHED:
            has_core = has_core or core
        elif bits & _IS_SCRIPT:
            count += has_core
            in_script, has_core = True, core
        elif in_script:
            count += has_core
            in_script, has_core = False, core
        else:
            has_core = has_core or core
    return 0 if is_ascii else count + has_core


# -- edits -------------------------------------------------------------------------------------------------------------


@compiled
def _plain_copy(data: Bytes, begin: int, stop: int, out: Bytes, at: int) -> int:
    for i in range(begin, stop):
        out[at] = data[i]
        at += 1
    return at


@compiled
def _copy(data: Bytes, i: int, stop: int, out: Bytes, at: int, digits: npt.NDArray[np.bool_]) -> int:
    """Copy a line without its citations: `[1]`, `[]`, `[edit]`, `[citation needed]`. Return where the copy ends."""
    while i < stop:
        if data[i] == _OPENING:
            behind = _behind_citation(data, i + 1, stop, digits)
            if behind:
                i = behind
                continue
        out[at] = data[i]
        at += 1
        i += 1
    return at


@compiled
def _behind_citation(data: Bytes, i: int, stop: int, digits: npt.NDArray[np.bool_]) -> int:
    """Return the place behind the citation whose bracket opens before `i`, 0 if there is none."""
    place = i
    while place < stop:
        if data[place] == _CLOSING:
            return place + 1
        code, size = decode(data, place, stop)
        if not digits[code]:
            break
        place += size
    if _is_here(data, i, stop, _EDIT):
        return i + len(_EDIT)
    return i + len(_CITATION_NEEDED) if _is_here(data, i, stop, _CITATION_NEEDED) else 0


@compiled
def _is_here(data: Bytes, i: int, stop: int, phrase: Bytes) -> bool:
    is_here = i + len(phrase) <= stop
    if is_here:
        for step in range(len(phrase)):
            is_here = is_here and data[i + step] == phrase[step]
    return is_here


@compiled
def _phrases(data: Bytes, start: int, stop: int) -> tuple[int, bool, int, bool]:
    """Return the phrases `lorem ipsum` in a line, whether `javascript` is, the curly brackets, whether a policy is."""
    lorem, javascript, curly, policy = 0, False, 0, False
    for i in range(start, stop):
        byte = data[i]
        if byte == _CURLY:
            curly += 1
        elif _BEGINS[byte]:
            folded = byte | 0x20
            if folded == 0x6C:  # l
                lorem += _is_said(data, i, stop, _LOREM_IPSUM, 0)
            elif folded == 0x6A:  # j
                javascript = javascript or _is_said(data, i, stop, _JAVASCRIPT, 0)
            elif not policy:
                first = 0
                while first < len(_POLICY) and not policy:
                    policy = _POLICY[first] == folded and _is_said(data, i, stop, _POLICY, first)
                    while _POLICY[first]:
                        first += 1
                    first += 1
    return lorem, javascript, curly, policy


@compiled
def _is_said(data: Bytes, i: int, stop: int, phrases: Bytes, first: int) -> bool:
    """Whether the text at `i` in lower case is the phrase that begins at `first` and ends at a 0 or at the end."""
    while first < len(phrases) and phrases[first]:
        if i >= stop:
            return False
        byte, wanted = data[i], phrases[first]
        if byte == wanted or (0x41 <= byte <= 0x5A and byte | 0x20 == wanted):
            i += 1
        elif wanted == _K and i + 2 < stop and byte == 0xE2 and data[i + 1] == 0x84 and data[i + 2] == 0xAA:
            i += 3
        else:
            return False
        first += 1
    return True


# -- sentences ---------------------------------------------------------------------------------------------------------


@compiled
def _sentences(
    data: Bytes, origin: int, begin: int, stop: int, tokens: Tokens, token: int, last: int
) -> tuple[int, int]:
    """Count the sentences in data[begin:stop] as spaCy's sentencizer does; 1 where there is no word.

    A sentence begins behind a sign that ends one, at the next token that is no punctuation. White space is a token, but
    for a single space behind a token.

    Args:
        data: The text.
        origin: What the tokens' starts count from.
        begin: Where the line begins.
        stop: Where it ends.
        tokens: Words, among them those of the line.
        token: The line's first word.
        last: The word behind all of the text.

    Returns:
        The word behind the line's last, and the sentences.
    """
    count, seen, place = 1, False, begin
    while token < last and origin + tokens.start[token] < stop:
        here = origin + tokens.start[token]
        if seen and _has_space_token(data, place, here):
            count += 1
            seen = False
        kind = tokens.kind[token]
        ends = kind & KIND_SENTENCE_END != 0
        if seen and not ends and kind & KIND_PUNCTUATION == 0:
            count += 1
            seen = False
        elif ends:
            seen = True
        place = here + tokens.size[token]
        token += 1
    if seen and _has_space_token(data, place, stop):
        count += 1
    return token, count


@compiled
def _has_space_token(data: Bytes, start: int, stop: int) -> bool:
    return bool(stop > start and (stop - start > 1 or data[start] != _SPACE))
