"""Scores of a unigram model on a grid, so that sums of them are exact and the best path is the same everywhere.

sentencepiece adds the scores of a path in float32 from the start of the text on. A word's best path then depends on how much
text stands before it, and no other program gives the same ids. Scores that are multiples of 1/16 (a factor of 1.03 at most in
probability) have exact sums up to 2**20, that of some 400,000 characters of prose; longer texts are encoded in parts, cut
where no piece can reach across (`SentencePieceTokenizer`).
"""

from __future__ import annotations

import struct
from collections.abc import Collection

from curate.tokens.encoding.model_file import NORMAL, SentencePieceModel, read_fields

_STEP = 1 / 16
_EXACT = float(1 << 20)  # float32 has 24 bits: sums of multiples of 1/16 are exact below this
_UNKNOWN_PENALTY = 10.0  # sentencepiece's score of a character without a piece: so much below the lowest
_LONGEST_PART = 1 << 15  # characters


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


def longest_part(model: SentencePieceModel) -> int | None:
    """Return how many characters of a text sentencepiece can encode with exact sums, or None if scores are on no grid.

    None too if a piece reaches from another character into a space, or from or into a line break.
    """
    normal = [
        (piece.decode(), score)
        for piece, score, kind in zip(model.pieces, model.scores, model.kinds, strict=True)
        if kind == NORMAL
    ]
    if not all(score == _rounded(score) for _, score in normal):
        return None
    if any("\u2581" in text.lstrip("\u2581") or ("\n" in text and text.strip("\n")) for text, _ in normal):
        return None
    worst = _UNKNOWN_PENALTY - min(score for _, score in normal)
    return min(_LONGEST_PART, int(_EXACT / worst))


def cut_place(text: str, start: int, longest: int) -> int:
    """Return where the part of a text that begins at `start` ends: at a place that no piece reaches across, if there is one.

    That is before a run of spaces, or between a line break and another character.
    """
    end = start + longest
    if len(text) <= end:
        return len(text)
    place = text.rfind(" ", start + 1, end + 1)
    while place > start and text[place - 1] == " ":
        place = text.rfind(" ", start + 1, place)
    line = text.rfind("\n", start, end) + 1
    while line > start and text[line] == "\n":
        line = text.rfind("\n", start, line - 1) + 1
    best = max(place, line)
    return best if best > start else end


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
