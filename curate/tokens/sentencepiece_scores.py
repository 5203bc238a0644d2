"""Scores of a unigram model on a grid, so that sums of them are exact and the best path is the same everywhere.

sentencepiece adds the scores of a path in float32 from the start of the text on; where they pass -1e5 it begins again from 0. In
the last bit, a word's best path then depends on all text before it, and no other program gives the same ids. Scores that are
multiples of 1/16 (a factor of 1.03 at most in probability) have exact sums up to 2**20: a word has the same best path wherever it
stands, and in whatever precision scores are added.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable

from curate.tokens.encoding.model_file import NORMAL, read_fields

_STEP = 1 / 16


def with_grid_scores(model: bytes, pieces: Collection[str]) -> bytes:
    """Return a model file with rounded scores, where some user-defined pieces are normal ones with the highest score.

    sentencepiece gives a user-defined piece of a unigram model a score by its length that is on no grid.

    Args:
        model: Content of a unigram model file.
        pieces: The user-defined pieces; of several in a row, the longest still win: a path of fewer pieces.
    """
    fields = [(number, value) for number, value in read_fields(model) if isinstance(value, bytes)]
    found = [dict(read_fields(value)) for number, value in fields if number == 1]
    scores = [one.get(2) for one in found if one.get(3, NORMAL) == NORMAL]
    highest = max(_rounded(struct.unpack("<f", score)[0]) for score in scores if isinstance(score, bytes))
    defined = {piece.encode() for piece in pieces}
    out = bytearray()
    for number, value in fields:
        if number == 1:
            value = _piece(dict(read_fields(value)), defined, highest)
        out += _varint(number << 3 | 2) + _varint(len(value)) + value
    return bytes(out)


def is_on_grid(scores: Iterable[float]) -> bool:
    """Return whether sums of the scores are exact, whatever their order."""
    return all(score == _rounded(score) for score in scores)


def _piece(fields: dict[int, int | bytes], defined: Collection[bytes], highest: float) -> bytes:
    piece, kind, score = fields[1], fields.get(3, NORMAL), fields.get(2, b"\0\0\0\0")
    assert isinstance(piece, bytes)
    assert isinstance(score, bytes)
    value = _rounded(struct.unpack("<f", score)[0])
    if piece in defined:
        kind, value = NORMAL, highest
    assert isinstance(kind, int)
    out = b"\x0a" + _varint(len(piece)) + piece + b"\x15" + struct.pack("<f", value)
    return out if kind == NORMAL else out + b"\x18" + _varint(kind)


def _rounded(score: float) -> float:
    return round(score / _STEP) * _STEP


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
