"""What a sentencepiece model file says: pieces, scores, kinds, and the settings that encoding depends on.

A model file is a protocol buffer (`sentencepiece_model.proto`); its wire format (tag, then a number, eight, four, or so many
bytes) is read here, as the library's own reader needs another package. Fields that encoding does not depend on are passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2
SPACE_MARK = "\u2581".encode()  # how a model writes a space


@dataclass(frozen=True, slots=True)
class SentencePieceModel:
    """A sentencepiece model.

    Attributes:
        pieces: UTF-8 of each piece, spaces as the model writes them.
        scores: Of each piece, float32 values.
        kinds: NORMAL and so on, of each piece.
        algorithm: UNIGRAM, BPE, or another number.
        is_identity: Whether a text stays as it is but for spaces, and for one that is put before it.
        has_prefix: Whether a space is put before each text.
        byte_fallback: Whether a character without a piece becomes bytes.
    """

    pieces: tuple[bytes, ...]
    scores: tuple[float, ...]
    kinds: tuple[int, ...]
    algorithm: int
    is_identity: bool
    has_prefix: bool
    byte_fallback: bool


def read_model(data: bytes) -> SentencePieceModel:
    """Read a model file that the library has accepted."""
    pieces, scores, kinds = [], [], []
    algorithm, suffix, fallback = UNIGRAM, False, False
    charsmap, prefix, remove_extra, escape = b"", True, True, True
    for number, value in read_fields(data):
        if number == 1 and isinstance(value, bytes):
            piece, score, kind = b"", 0.0, NORMAL
            for inner, found in read_fields(value):
                if inner == 1 and isinstance(found, bytes):
                    piece = found
                elif inner == 2 and isinstance(found, bytes):
                    score = struct.unpack("<f", found)[0]
                elif inner == 3 and isinstance(found, int):
                    kind = found
            pieces.append(piece)
            scores.append(score)
            kinds.append(kind)
        elif number == 2 and isinstance(value, bytes):
            trainer = dict(read_fields(value))
            algorithm = _number(trainer.get(3, algorithm))
            suffix = bool(trainer.get(24, suffix))
            fallback = bool(trainer.get(35, fallback))
        elif number == 3 and isinstance(value, bytes):
            normalizer = dict(read_fields(value))
            charsmap = _bytes(normalizer.get(2, charsmap))
            prefix = bool(normalizer.get(3, prefix))
            remove_extra = bool(normalizer.get(4, remove_extra))
            escape = bool(normalizer.get(5, escape))
    is_identity = not charsmap and not remove_extra and escape and not suffix
    return SentencePieceModel(
        tuple(pieces), tuple(scores), tuple(kinds), algorithm, is_identity, prefix, fallback
    )  # fmt: skip


def _number(value: int | bytes) -> int:
    assert isinstance(value, int)
    return value


def _bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message; a value of fixed width as its bytes."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == 0:
            value: int | bytes
            value, place = _varint(data, place)
            yield tag >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            size, place = _varint(data, place)
        yield tag >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        shift += 7
        if byte < 0x80:
            return value, place
