"""Compiled kernels of the WARC reader: the header fields of many plain records at once.

They know the usual form only and say so of every record that is in another: what they take for usual, the reader of
single records (`curate.read.warc_records`) understands in the same way. Integer arithmetic; the same bits everywhere.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

# Fields, in the order of their spans: those of the WARC header, then those of the HTTP header.
FIELDS = (
    "warc-type",
    "content-length",
    "warc-target-uri",
    "warc-date",
    "warc-record-id",
    "warc-payload-digest",
    "warc-block-digest",
    "warc-identified-content-language",
    "warc-identified-payload-type",
    "warc-truncated",
    "warc-segment-number",
    "content-type",
    "content-language",
    "content-encoding",
    "transfer-encoding",
    "x-robots-tag",
    "tdm-reservation",
)
TYPE, LENGTH, URL, DATE, RECORD_ID, PAYLOAD_DIGEST, BLOCK_DIGEST, LANGUAGES, PAYLOAD_TYPE, TRUNCATED, SEGMENT = range(
    11
)
HTTP_TYPE, HTTP_LANGUAGE, CONTENT_ENCODING, TRANSFER_ENCODING, ROBOTS, RESERVATION = range(11, 17)
NUM_WARC = 11

# What a record is: a response whose body is used as it stands; a record without a document; one that the reader of
# single records must look at, though where it ends is sure; one whose end is not sure.
RESPONSE, SKIPPED, UNUSUAL, UNSURE = range(4)
KINDS = ("response", "request", "metadata", "revisit", "warcinfo")


def table(words: tuple[str, ...]) -> Bytes:
    """Return words as rows of bytes, padded with zeros."""
    table = np.zeros((len(words), 1 + max(map(len, words))), np.uint8)
    for row, word in enumerate(words):
        table[row, : len(word)] = np.frombuffer(word.encode(), np.uint8)
    return table


_NAMES, _KINDS = table(FIELDS), table(KINDS)
_NAME_SIZES = np.array([len(name) for name in FIELDS], np.int64)
_LF, _CR, _TAB, _SPACE, _COLON = 10, 13, 9, 32, 58


@compiled
def _is_word(data: Bytes, start: int, word: Bytes, size: int) -> bool:
    """Whether `size` bytes at `start` are a word, in any case."""
    for place in range(size):
        byte = data[start + place]
        if 65 <= byte <= 90:
            byte |= 32
        if byte != word[place]:
            return False
    return True


@compiled
def _parse_fields(data: Bytes, start: int, stop: int, first: int, last: int, spans: Int64s) -> tuple[int, bool, bool]:
    """Find the values of the fields [first, last) in a header.

    Args:
        data: The header, among others.
        start: Where the header begins.
        stop: Where its blank line must have ended.
        first: The first field wanted, as row of `FIELDS`.
        last: The one behind the last.
        spans: Shape (fields, 2): set to start and end of each value, without white space around it. Of a repeated
            field the last value stays.

    Returns:
        Where the body begins, or -1; whether every value is printable ASCII; whether every line is a field.
    """
    plain, ordered = True, True
    place = start
    while True:
        line = place
        while place < stop and data[place] == _CR:
            place += 1
        if place >= stop:
            return -1, plain, ordered
        if data[place] == _LF:
            return place + 1, plain, ordered
        if place > line or data[line] == _SPACE or data[line] == _TAB:
            ordered = False  # a folded line
        colon = -1
        while place < stop and data[place] != _LF:
            if colon < 0:
                if data[place] == _COLON:
                    colon = place
                elif data[place] > 126 or (data[place] < _SPACE and data[place] != _TAB and data[place] != _CR):
                    ordered = False  # `str.strip` and `str.lower` know more about such a name than this kernel
            place += 1
        if place >= stop:
            return -1, plain, ordered
        end = place
        place += 1
        if colon < 0:
            continue
        name_end = colon
        while name_end > line and (data[name_end - 1] == _SPACE or data[name_end - 1] == _TAB):
            name_end -= 1
        size = name_end - line
        for field in range(first, last):
            if _NAME_SIZES[field] == size and _is_word(data, line, _NAMES[field], size):
                value = colon + 1
                while value < end and (data[value] == _SPACE or data[value] == _TAB):
                    value += 1
                while end > value and (data[end - 1] == _SPACE or data[end - 1] == _TAB or data[end - 1] == _CR):
                    end -= 1
                spans[field, 0], spans[field, 1] = value, end
                for at in range(value, end):
                    plain &= _SPACE <= data[at] <= 126
                break
    return -1, plain, ordered


@compiled
def _strip(data: Bytes, span: Int64s) -> None:
    """Take blanks and angle brackets off both ends, as around URLs and record ids."""
    while span[0] < span[1] and (data[span[0]] == 60 or data[span[0]] == 62 or data[span[0]] == _SPACE):
        span[0] += 1
    while span[0] < span[1] and (data[span[1] - 1] == 60 or data[span[1] - 1] == 62 or data[span[1] - 1] == _SPACE):
        span[1] -= 1


@compiled
def _number(data: Bytes, start: int, end: int) -> int:
    """Return what decimal digits say, or -1."""
    if end <= start or end - start > 18:
        return -1
    value = np.int64(0)
    for place in range(start, end):
        if data[place] < 48 or data[place] > 57:
            return -1
        value = 10 * value + np.int64(data[place]) - 48
    return int(value)


@compiled
def _status(data: Bytes, start: int, stop: int) -> tuple[int, int]:
    """Return the status of a response and where its header fields begin, or (-1, 0) if it has no usual status line."""
    place = start
    for byte in (72, 84, 84, 80, 47):  # HTTP/
        if place >= stop or data[place] != byte:
            return -1, 0
        place += 1
    while place < stop and (48 <= data[place] <= 57 or data[place] == 46):
        place += 1
    version = place - start - 5
    if not (version == 1 or (version == 3 and data[place - 2] == 46)) or place + 6 > stop or data[place] != _SPACE:
        return -1, 0
    if data[start + 5] == 46 or data[place - 1] == 46:
        return -1, 0
    status = _number(data, place + 1, place + 4)
    place += 4
    if status < 0 or not (data[place] == _SPACE or data[place] == _CR or data[place] == _LF):
        return -1, 0
    if data[place] == _CR and data[place + 1] != _LF:
        return -1, 0
    while place < stop and data[place] != _LF:
        place += 1
    return (status, place + 1) if place < stop else (-1, 0)


@compiled
def _is_other(data: Bytes, start: int) -> bool:
    """Whether a record does not begin with the line `WARC/1.0` or `WARC/1.1`."""
    for place, byte in enumerate((87, 65, 82, 67, 47, 49, 46)):
        if data[start + place] != byte:
            return True
    minor = data[start + 7]
    return bool((minor != 48 and minor != 49) or data[start + 8] != _CR or data[start + 9] != _LF)


@compiled
def _kind_of(data: Bytes, start: int, end: int) -> int:
    for kind in range(len(_KINDS)):
        size = end - start
        if 0 < size < _KINDS.shape[1] and _KINDS[kind, size] == 0 and _is_word(data, start, _KINDS[kind], size):
            return kind
    return -1


@compiled
def parse_records(
    data: Bytes,
    starts: Int64s,
    sizes: Int64s,
    splits: Int64s,
    max_bytes: int,
    spans: Int64s,
    forms: Int64s,
    kinds: Int64s,
    states: Int64s,
    blocks: Int64s,
) -> None:
    """Read the headers of plain records.

    Args:
        data: The first bytes of each record, one behind another.
        starts: Where each begins in `data`, and the end, shape (n + 1).
        sizes: Bytes of each record with two line ends behind it, 0 if these are missing, shape (n).
        splits: Bytes before the body, if it is thought to be a usual response, else 0, shape (n).
        max_bytes: Largest block.
        spans: Set to the places of field values in `data`, shape (n, fields, 2); must be zero.
        forms: Set to RESPONSE, SKIPPED, UNUSUAL or UNSURE, shape (n).
        kinds: Set to the record type, as row of `KINDS`, shape (n).
        states: Set to the HTTP status, shape (n).
        blocks: Set to the bytes before the block, shape (n).
    """
    for row in range(len(forms)):
        start, stop = starts[row], starts[row + 1]
        forms[row] = UNSURE
        if stop - start < 12 or _is_other(data, start):
            continue
        block, plain, ordered = _parse_fields(data, start + 10, stop, 0, NUM_WARC, spans[row])
        length = _number(data, spans[row, LENGTH, 0], spans[row, LENGTH, 1])
        if block < 0 or not ordered or length < 0 or length > max_bytes or block - start + length + 4 != sizes[row]:
            continue
        forms[row] = UNUSUAL
        blocks[row] = block - start
        kinds[row] = _kind_of(data, spans[row, TYPE, 0], spans[row, TYPE, 1])
        for field in (DATE, RECORD_ID, PAYLOAD_DIGEST, BLOCK_DIGEST, LANGUAGES, TRUNCATED, SEGMENT):
            for at in range(spans[row, field, 0], spans[row, field, 1]):
                plain &= data[at] != 34 and data[at] != 92  # JSON writes quotes and backslashes otherwise
        if not plain or kinds[row] < 0:
            continue
        _strip(data, spans[row, URL])
        _strip(data, spans[row, RECORD_ID])
        if kinds[row] > 0:
            spans[row, PAYLOAD_TYPE] = 0
            forms[row] = SKIPPED
            continue
        if splits[row] == 0:
            continue
        states[row], fields = _status(data, block, stop)
        is_empty = spans[row, PAYLOAD_TYPE, 0] > 0 and spans[row, PAYLOAD_TYPE, 0] == spans[row, PAYLOAD_TYPE, 1]
        if states[row] < 0 or is_empty:
            continue
        body, plain, ordered = _parse_fields(data, fields, stop, HTTP_TYPE, len(FIELDS), spans[row])
        if body - start != splits[row] or not plain or not ordered:
            continue
        coded = spans[row, CONTENT_ENCODING, 0] < spans[row, CONTENT_ENCODING, 1]
        coded |= spans[row, TRANSFER_ENCODING, 0] < spans[row, TRANSFER_ENCODING, 1]
        coded |= spans[row, ROBOTS, 0] > 0 or spans[row, RESERVATION, 0] > 0  # they go into the metadata
        if coded or (stop - body > 1 and data[body] == 31 and data[body + 1] == 139):  # gzip, not declared
            continue
        forms[row] = RESPONSE


@compiled
def gather(data: Bytes, starts: Int64s, ends: Int64s, out: Bytes) -> None:
    """Copy spans of bytes one behind another."""
    place = 0
    for row in range(len(starts)):
        for at in range(starts[row], ends[row]):
            out[place] = data[at]
            place += 1


@compiled
def write_objects(
    data: Bytes, spans: Int64s, fields: Int64s, keys: Bytes, key_sizes: Int64s, offsets: Int64s, out: Bytes
) -> None:
    """Write a JSON object a row: `{"key":"value",...}` with the fields that have a value.

    Args:
        data: What the spans are places in; values need no escape.
        spans: Shape (n, fields, 2).
        fields: The fields of an object, in order, shape (k).
        keys: Their names, as rows of bytes.
        key_sizes: Lengths of the names, shape (k).
        offsets: Set to where each object begins, and the end, shape (n + 1).
        out: Set to the objects, one behind another: at most 2 + k * 6 + names + values bytes a row.
    """
    place = 0
    for row in range(len(spans)):
        offsets[row] = place
        out[place] = 123
        place += 1
        first = True
        for column in range(len(fields)):
            start, end = spans[row, fields[column], 0], spans[row, fields[column], 1]
            if end <= start:
                continue
            if not first:
                out[place] = 44
                place += 1
            first = False
            out[place] = 34
            place += 1
            for at in range(key_sizes[column]):
                out[place] = keys[column, at]
                place += 1
            out[place], out[place + 1], out[place + 2] = 34, 58, 34
            place += 3
            for at in range(start, end):
                out[place] = data[at]
                place += 1
            out[place] = 34
            place += 1
        out[place] = 125
        place += 1
    offsets[len(spans)] = place
