"""Byte-pair encoding of a sentencepiece model by compiled code (algorithm: Kudo and Richardson 2018, section 3.1).

The library cuts a text into characters and user-defined symbols, the longest that begins at a place, which stay as they are;
merges two neighbours if together they are a piece, by the pieces' scores, the leftmost first; and writes what has no piece in
bytes. A model is taken only if that is all there is to it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from curate.text.bits import eight_bytes
from curate.text.characters import NUM_CODE_POINTS, Bytes, Int64s, Uint64s
from curate.tokens.encoding.bpe_kernels import LOOSE, NUM_JOINS, Tables, encode_rows, put_joins
from curate.tokens.encoding.merge_kernels import Uint32s
from curate.tokens.encoding.model_file import (
    BPE,
    BYTE,
    NORMAL,
    SPACE_MARK,
    UNUSED,
    USER_DEFINED,
    SentencePieceModel,
)
from curate.tokens.encoding.tables import Words, make_pairs, make_words


class SentencePieceBpe:
    """Compiled byte-pair encoding.

    Attributes:
        has_prefix: Whether a space is put before each row.
    """

    def __init__(self, tables: Tables, has_prefix: bool, lossless: bool) -> None:
        self.has_prefix = has_prefix
        self._tables = tables
        self._lossless = lossless

    def encode_rows(
        self, data: Bytes, parts: Uint64s, bounds: Int64s, ids: Uint32s, offsets: Int64s, refused: Bytes
    ) -> None:
        """Encode rows; see `encoder.Algorithm`. A row with U+2581 is refused where the library takes that for a space."""
        encode_rows(data, parts, bounds, self._tables, ids, offsets, refused)
        if self._lossless:
            refused[:] = 0


def bpe_algorithm(model: SentencePieceModel, lossless: bool) -> SentencePieceBpe | None:
    """Return the encoding of a model, None if it is not known to be that of the library.

    Args:
        model: The model.
        lossless: Whether U+2581 in a text is a character like others, written in bytes, rather than a space.
    """
    pieces = plain_pieces(model)
    if model.algorithm != BPE or pieces is None:
        return None
    normal = {piece: token for piece, token in pieces.items() if model.kinds[token] == NORMAL}
    merged = [token for piece, token in normal.items() if len(piece.decode()) > 1]
    if len({model.scores[token] for token in merged}) < len(merged):
        return None  # of two pieces with one score the leftmost would come first, whichever it is
    words, own = make_words({}), make_words({piece: token for piece, token in pieces.items() if piece not in normal})
    tables = _tables(model, normal, pieces, words, own)
    return SentencePieceBpe(_with_whole_pieces(tables, normal), model.has_prefix, lossless)


def plain_pieces(model: SentencePieceModel) -> dict[bytes, int] | None:
    """Return the ids of pieces that texts are made of, with spaces for the space mark; None for a model out of the common."""
    if not model.is_identity or not model.byte_fallback or UNUSED in model.kinds:
        return None
    reserved = set()
    found: dict[bytes, int] = {}
    for token, (piece, kind) in enumerate(zip(model.pieces, model.kinds, strict=True)):
        plain = piece.replace(SPACE_MARK, b" ")
        if kind not in (NORMAL, USER_DEFINED):
            reserved.add(plain)
            if len(plain.decode(errors="replace")) < 2:
                return None  # a control mark that is one character is found in texts
        elif b" " in piece or plain in found or _text(plain) is None:
            return None
        else:
            found[plain] = token
    return None if reserved & set(found) else found


def _text(piece: bytes) -> str | None:
    try:
        return piece.decode() or None
    except UnicodeDecodeError:
        return None


def byte_ids(model: SentencePieceModel) -> Uint32s:
    """Return the id of each byte, shape (256,)."""
    ids = np.zeros(256, np.uint32)
    for token, (piece, kind) in enumerate(zip(model.pieces, model.kinds, strict=True)):
        if kind == BYTE:
            ids[int(piece[3:5], 16)] = token
    return ids


def _tables(
    model: SentencePieceModel, normal: dict[bytes, int], pieces: dict[bytes, int], words: Words, own: Words
) -> Tables:
    symbols = np.arange(NUM_CODE_POINTS, dtype=np.uint32) | np.uint32(LOOSE)
    neighbours: set[tuple[int, int]] = set()
    merges: dict[tuple[int, int], tuple[int, int]] = {}
    order = sorted(normal.items(), key=lambda each: -model.scores[each[1]])
    for rank, (piece, token) in enumerate(order):
        text = piece.decode()
        codes = [ord(sign) for sign in text]
        neighbours.update(pairwise(codes))
        if len(codes) == 1:
            symbols[codes[0]] = token
        for cut in range(1, len(codes)):
            left, right = (_symbol(part, normal, pieces) for part in (text[:cut], text[cut:]))
            if left is not None and right is not None:
                merges[left, right] = (rank, token)
    joins = np.zeros(NUM_JOINS, np.uint8)
    pairs = np.array(sorted(neighbours), np.int64).reshape(-1, 2)
    put_joins(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]), joins)
    begins_own = np.zeros(256, np.uint8)
    user_defined = [piece for piece in pieces if piece not in normal]
    begins_own[[piece[0] for piece in user_defined]] = 1
    sizes = np.array(sorted({len(piece) for piece in user_defined}, reverse=True), np.int64)
    return Tables(joins, symbols, byte_ids(model), begins_own, sizes, *words, *own, *make_pairs(merges))


def _symbol(part: str, normal: dict[bytes, int], pieces: dict[bytes, int]) -> int | None:
    """Return what a part of a piece is while it is being merged, None if it is never anything."""
    plain = part.encode()
    if plain in normal:
        return normal[plain]
    return ord(part) | LOOSE if len(part) == 1 and plain not in pieces else None


def _with_whole_pieces(tables: Tables, normal: dict[bytes, int]) -> Tables:
    """Return the tables with the words that are one part and one id: looked up, not merged."""
    data = np.frombuffer(b"".join(normal) + bytes(16), np.uint8).copy()
    bounds = np.zeros(len(normal) + 1, np.int64)
    np.cumsum([len(piece) for piece in normal], out=bounds[1:])
    ids, offsets = np.empty(len(data), np.uint32), np.zeros(len(bounds), np.int64)
    encode_rows(data, eight_bytes(data), bounds, tables, ids, offsets, np.zeros(len(normal), np.uint8))
    whole = {
        piece: token
        for row, (piece, token) in enumerate(normal.items())
        if offsets[row + 1] - offsets[row] == 1 and ids[offsets[row]] == token
    }
    words = make_words(whole)
    return tables._replace(words=words.slots, words_shift=words.shift, words_known=words.known)
