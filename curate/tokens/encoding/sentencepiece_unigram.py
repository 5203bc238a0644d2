"""Encoding by a sentencepiece unigram model in compiled code (Kudo 2018): the pieces whose scores add up to the most."""

from __future__ import annotations

import numpy as np

from curate.text.characters import Bytes, Int64s, Uint64s
from curate.tokens.encoding.merge_kernels import Uint32s
from curate.tokens.encoding.model_file import NORMAL, UNIGRAM, SentencePieceModel
from curate.tokens.encoding.sentencepiece_bpe import byte_ids, plain_pieces
from curate.tokens.encoding.unigram_kernels import Tables, build_trie, encode_rows

_UNKNOWN_PENALTY = np.float32(10.0)  # of the library: an unknown character costs so much more than its rarest piece
_OWN_BONUS = 0.1  # of the library: what each byte of a user-defined symbol but the first adds to its score


class SentencePieceUnigram:
    """Compiled encoding by a unigram model.

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
        del parts
        encode_rows(data, bounds, self._tables, ids, offsets, refused)
        if self._lossless:
            refused[:] = 0


def unigram_algorithm(model: SentencePieceModel, lossless: bool) -> SentencePieceUnigram | None:
    """Return the encoding of a model, None if it is not known to be that of the library.

    Args:
        model: The model.
        lossless: Whether U+2581 in a text is a character like others, written in bytes, rather than a space.
    """
    pieces = plain_pieces(model)
    scores = np.array(model.scores, np.float32)
    normal = scores[np.array(model.kinds) == NORMAL]
    # The library's bonus for user-defined symbols grows with their length where scores are positive: none are that it trains.
    if model.algorithm != UNIGRAM or not pieces or normal.size == 0 or normal.max() > 0:
        return None
    words = sorted(pieces)
    data = np.frombuffer(b"".join(words), np.uint8)
    bounds = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in words], out=bounds[1:])
    units = build_trie(data, bounds, np.array([pieces[word] for word in words], np.int64))
    bonus = np.array([_OWN_BONUS * len(piece) - _OWN_BONUS for piece in model.pieces]).astype(np.float32)
    added = np.where(np.array(model.kinds) == NORMAL, scores, bonus)
    unknown = np.float32(normal.min() - _UNKNOWN_PENALTY)
    return SentencePieceUnigram(Tables(units, added, byte_ids(model), unknown), model.has_prefix, lossless)
