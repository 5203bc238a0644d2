"""Byte-level byte-pair encoding of a `tokenizer.json` by compiled code (Radford et al. 2019, section 2.2).

The library cuts a text into parts by an expression, writes each byte as a symbol, and merges by the order of the merges. A
tokenizer is taken only if that is all there is to it and its expression is one of those that `split_kernels` knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curate.text.characters import Bytes, Int64s, Uint64s
from curate.tokens.encoding.byte_classes import byte_classes
from curate.tokens.encoding.byte_kernels import Tables, encode_rows, merge_words
from curate.tokens.encoding.merge_kernels import Uint32s
from curate.tokens.encoding.split_kernels import CL100K, GPT2, O200K
from curate.tokens.encoding.tables import make_pairs, make_words

# Expressions as the files write them, with their pattern and how many numbers stand together.
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]*[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]+{_CONTRACTIONS}?|"
    rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]+[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]*{_CONTRACTIONS}?|"
)
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS: Mapping[str, tuple[int, int]] = {
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": (GPT2, 0),
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + _REST: (CL100K, 3),  # cl100k_base, Llama 3, OLMo 2
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + _REST: (CL100K, 1),  # Qwen 2 and 3
    _CASED + r"\p{N}{1,3}|" + _REST.replace(r"[\r\n]*", r"[\r\n/]*"): (O200K, 3),  # o200k_base
}


class ByteLevelBpe:
    """Compiled byte-level encoding.

    Attributes:
        has_prefix: Whether a space is put before each row.
    """

    has_prefix = False

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def encode_rows(
        self, data: Bytes, parts: Uint64s, bounds: Int64s, ids: Uint32s, offsets: Int64s, refused: Bytes
    ) -> None:
        """Encode rows; see `encoder.Algorithm`. Rows with an added token are refused, and such that NFC may change."""
        encode_rows(data, parts, bounds, self._tables, ids, offsets, refused)


def byte_level_algorithm(definition: Mapping[str, Any]) -> ByteLevelBpe | None:
    """Return the encoding of a tokenizer, None if it is not known to be that of the library.

    Args:
        definition: Content of a tokenizer.json as the library writes it; special tokens are not looked for in texts.
    """
    model, normalizer = definition["model"], definition.get("normalizer")
    splitting = _splitting(definition.get("pre_tokenizer"))
    if splitting is None or (normalizer is not None and normalizer["type"] != "NFC") or not _is_plain(model):
        return None
    ids = {plain: token for piece, token in model["vocab"].items() if (plain := _plain(piece)) is not None}
    merges = {(left, right): rank for rank, (left, right) in enumerate(map(_pair, model["merges"]))}
    if len(merges) < len(model["merges"]) or any(bytes([byte]) not in ids for byte in range(256)):
        return None
    known: dict[tuple[int, int], tuple[int, int]] = {}
    for (left, right), rank in merges.items():
        parts = _plain(left), _plain(right)
        if parts[0] is None or parts[1] is None:
            return None
        known[ids[parts[0]], ids[parts[1]]] = (rank, ids[parts[0] + parts[1]])
    pattern, most_numbers, digits = splitting
    added = {token["content"].encode(): 1 for token in definition["added_tokens"] if not token["special"]}
    begins = np.zeros(256, np.uint8)
    begins[[content[0] for content in added]] = 1
    sizes = np.array(sorted({len(content) for content in added}), np.int64)
    tables = Tables(
        byte_classes(),
        np.array([ids[bytes([byte])] for byte in range(256)], np.uint32),
        begins,
        sizes,
        pattern,
        most_numbers,
        digits,
        normalizer is not None,
        *make_words({}),
        *make_words(added),
        *make_pairs(known),
    )
    whole = ids if model.get("ignore_merges") else _whole_pieces(tables, ids)
    words = make_words(whole)
    return ByteLevelBpe(tables._replace(words=words.slots, words_shift=words.shift, words_known=words.known))


def _is_plain(model: Mapping[str, Any]) -> bool:
    """Return whether a model merges bytes and does nothing else."""
    return (
        model["type"] == "BPE"
        and not model.get("dropout")
        and not model.get("continuing_subword_prefix")
        and not model.get("end_of_word_suffix")
    )


def _splitting(written: Mapping[str, Any] | None) -> tuple[int, int, int] | None:
    """Return pattern, most numbers together and how digits are cut off first (see `byte_kernels.Tables`), None if unknown."""
    steps: Sequence[Mapping[str, Any]] = [] if written is None else [written]
    if written is not None and written["type"] == "Sequence":
        steps = written["pretokenizers"]
    digits = 0
    if steps and steps[0]["type"] == "Digits":
        digits = 1 if steps[0]["individual_digits"] else 2
        steps = steps[1:]
    if not steps or steps[-1]["type"] != "ByteLevel" or steps[-1]["add_prefix_space"]:
        return None
    if len(steps) == 1 and steps[0]["use_regex"]:
        return GPT2, 0, digits
    if len(steps) != 2 or steps[1]["use_regex"] or steps[0]["type"] != "Split":
        return None
    split = steps[0]
    found = PATTERNS.get(split["pattern"].get("Regex"))
    if found is None or split["behavior"] != "Isolated" or split["invert"]:
        return None
    return (*found, digits)


def _pair(merge: str | Sequence[str]) -> tuple[str, str]:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _alphabet() -> dict[str, int]:
    """Return which character stands for each byte: itself if Latin-1 prints it, else the next from U+0100 on."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    other = [byte for byte in range(256) if byte not in printed]
    return {chr(byte): byte for byte in printed} | {chr(256 + place): byte for place, byte in enumerate(other)}


_BYTE_OF = _alphabet()


def _plain(piece: str) -> bytes | None:
    """Return the bytes that a piece of the vocabulary stands for, None if it stands for none."""
    codes = [_BYTE_OF.get(sign) for sign in piece]
    return bytes(code for code in codes if code is not None) if codes and None not in codes else None


def _whole_pieces(tables: Tables, ids: Mapping[bytes, int]) -> dict[bytes, int]:
    """Return the pieces that their bytes merge to: looked up, not merged, where they are a whole part of a text."""
    data = np.frombuffer(b"".join(ids), np.uint8).copy()  # read-only is another type, compiled anew
    bounds = np.zeros(len(ids) + 1, np.int64)
    np.cumsum([len(piece) for piece in ids], out=bounds[1:])
    merged = np.zeros(len(ids), np.int64)
    merge_words(data, bounds, tables.byte_ids, tables.pairs, tables.pairs_shift, merged)
    return {piece: token for (piece, token), found in zip(ids.items(), merged.tolist(), strict=True) if found == token}
