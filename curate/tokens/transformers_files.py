"""A tokenizer as transformers opens it: tokenizer.json, tokenizer_config.json and special_tokens_map.json.

A sentencepiece model becomes a `tokenizer.json` that gives the same ids for every text without marks:

* Spaces stay spaces: the pieces are written with them, so nothing is normalised, and U+2581 (sentencepiece's sign for a
  space) becomes bytes as any character without a piece does.
* Byte-pair encoding: sentencepiece joins any two neighbours whose text is a piece, best score first, then leftmost; the
  format wants the pairs. Whatever stands around it, what happens inside a stretch of text that ends as one piece is what
  happens to that stretch alone: joins across its edges would have kept it from becoming that piece, all others are taken
  in the same order. So each piece has one last join, that of the piece encoded alone, and these pairs in the order of
  scores are exactly what sentencepiece does, as long as no two pieces have the same score. User-defined pieces are cut out
  first, longest at each place, in both.
* Unigram: both look for the best path, sentencepiece with float32 sums, tokenizers with float64. Models trained here have
  scores on a grid (see `curate.tokens.sentencepiece_scores`), so that all sums are exact and ties fall alike. Marks and
  byte pieces, which tokenizers would find in a text, have a score below every other path.
* No piece reaches from another character into a space behind it, so texts are split there, which only makes it faster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.tokens.encoding.model_file import (
    BPE,
    CONTROL,
    NORMAL,
    SPACE_MARK,
    UNIGRAM,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    SentencePieceModel,
    read_model,
)
from curate.tokens.sentencepiece_scores import is_on_grid
from curate.tokens.tokenizer import Tokenizer

_HIDDEN_SCORE = -1e6  # of unigram pieces that no text may become


class TransformersError(CurateError):
    """A tokenizer that no tokenizer.json can say with equal ids, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"This tokenizer cannot be written for transformers with equal ids: {self.reason}."


def write_transformers_tokenizer(tokenizer: Tokenizer, folder: Path) -> tuple[str, ...]:
    """Write what `transformers.AutoTokenizer.from_pretrained(folder)` opens, and return the names of the files.

    Its ids are those of `tokenizer` for every text in which no mark stands; with `split_special_tokens=True` for every text.
    A begin mark is put before a text if documents begin with one.

    Args:
        tokenizer: As the shards were encoded with.
        folder: Made if it is not there.

    Raises:
        TransformersError: If a `tokenizer.json` cannot give the same ids.
    """
    if tokenizer.file_name == "tokenizer.json":
        content = tokenizer.model
        unknown = None
    else:
        model = read_model(tokenizer.model)
        definition = tokenizer_definition(model, tokenizer.bos_id)
        content = _dumped(definition)
        unknown = definition["model"].get("unk_token") or definition["model"]["vocab"][definition["model"]["unk_id"]][0]
    marks = {"eos_token": tokenizer.eos}
    if tokenizer.bos is not None:
        marks["bos_token"] = tokenizer.bos
    if unknown is not None:
        marks["unk_token"] = unknown
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 10**30,  # how transformers writes that there is no bound
        **marks,
    }
    files = {
        "tokenizer.json": content,
        "tokenizer_config.json": _dumped(config),
        "special_tokens_map.json": _dumped(marks),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return tuple(files)


def tokenizer_definition(model: SentencePieceModel, bos_id: int | None = None) -> dict[str, Any]:
    """Return the content of a `tokenizer.json` with the ids of a sentencepiece model.

    Args:
        model: Of kind BPE or unigram, without normalisation.
        bos_id: Of the begin mark if one is to be put before a text.

    Raises:
        TransformersError: If there is no such content.
    """
    _refuse(model)
    texts = [_text(model, token) for token in range(len(model.pieces))]
    if len(set(texts)) < len(texts):
        raise TransformersError("two pieces differ only in how a space is written")
    added = [
        {
            "id": token,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind != USER_DEFINED,
        }
        for token, (text, kind) in enumerate(zip(texts, model.kinds, strict=True))
        if kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]
    splits = not any(" " in text.lstrip(" ") for text in texts)
    split = {"type": "Split", "pattern": {"Regex": " *[^ ]+| +"}, "behavior": "Isolated", "invert": False}
    template = None
    if bos_id is not None:
        name = texts[bos_id]
        first, text = {"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
        second = {"Sequence": {"id": "B", "type_id": 0}}
        special = {name: {"id": name, "ids": [bos_id], "tokens": [name]}}
        template = {
            "type": "TemplateProcessing",
            "single": [first, text],
            "pair": [first, text, second],
            "special_tokens": special,
        }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": split if splits else None,
        "post_processor": template,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": _bpe(model, texts) if model.algorithm == BPE else _unigram(model, texts),
    }


def _refuse(model: SentencePieceModel) -> None:
    if model.algorithm not in (BPE, UNIGRAM):
        raise TransformersError("it is neither a byte-pair nor a unigram model")
    if not model.is_identity or model.has_prefix:
        raise TransformersError(
            "it changes a text before it encodes it (normalisation, white space, a space put before it); "
            "transformers has converters of its own for such models"
        )
    if not model.byte_fallback:
        raise TransformersError("it has no byte fallback: what it has no piece for is lost")
    if UNUSED in model.kinds:
        raise TransformersError("it has unused pieces")
    normal = (score for score, kind in zip(model.scores, model.kinds, strict=True) if kind == NORMAL)
    if model.algorithm == UNIGRAM and not is_on_grid(normal):
        raise TransformersError("sums of its scores are not exact: sentencepiece adds them up in another precision")
    if USER_DEFINED in model.kinds and model.algorithm == UNIGRAM:
        raise TransformersError("it is a unigram model with user-defined pieces, whose scores depend on their length")


def _text(model: SentencePieceModel, token: int) -> str:
    piece = model.pieces[token]
    if model.kinds[token] in (NORMAL, USER_DEFINED):
        piece = piece.replace(SPACE_MARK, b" ")
    return piece.decode()


def _bpe(model: SentencePieceModel, texts: Sequence[str]) -> dict[str, Any]:
    normal = [token for token, kind in enumerate(model.kinds) if kind == NORMAL]
    scores = {texts[token]: model.scores[token] for token in normal}
    joins = []
    for text in scores:
        pair = last_join(text, scores)
        if pair is not None:
            joins.append((-scores[text], pair))
    joins.sort()
    if any(before[0] == after[0] for before, after in pairwise(joins)):
        raise TransformersError("pieces share a score, so that their order depends on the place")
    for _, pair in joins:
        if pair[0] not in scores or pair[1] not in scores:
            raise TransformersError(f"it joins {pair[0]!r} and {pair[1]!r}, which are not both pieces")
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": texts[model.kinds.index(UNKNOWN)] if UNKNOWN in model.kinds else None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": True,
        "ignore_merges": False,
        "vocab": {text: token for token, text in enumerate(texts)},
        "merges": [list(pair) for _, pair in joins],
    }


def last_join(text: str, scores: Mapping[str, float]) -> tuple[str, str] | None:
    """Return the two parts that byte-pair encoding joins last where it makes one piece of a text, or None if it does not.

    Args:
        text: A text of one character or more.
        scores: Of each piece; the highest is joined first, the leftmost among equals.
    """
    parts = list(text)
    pair = None
    while len(parts) > 1:
        found = [
            (-scores[joined], place)
            for place in range(len(parts) - 1)
            if (joined := parts[place] + parts[place + 1]) in scores
        ]
        if not found:
            return None
        place = min(found)[1]
        pair = (parts[place], parts[place + 1])
        parts[place : place + 2] = ["".join(pair)]
    return pair


def _unigram(model: SentencePieceModel, texts: Sequence[str]) -> dict[str, Any]:
    known = {text for text, kind in zip(texts, model.kinds, strict=True) if kind == NORMAL}
    needed = {char for text, kind in zip(texts, model.kinds, strict=True) if kind != NORMAL for char in text} | {
        char for text in known for char in text
    }
    if lacking := sorted(needed - known):
        raise TransformersError(f"it has no piece for {lacking[0]!r}, which is part of another piece")
    vocabulary = [
        [text, score if kind == NORMAL else _HIDDEN_SCORE]
        for text, score, kind in zip(texts, model.scores, model.kinds, strict=True)
    ]
    return {
        "type": "Unigram",
        "unk_id": model.kinds.index(UNKNOWN) if UNKNOWN in model.kinds else None,
        "vocab": vocabulary,
        "byte_fallback": True,
    }


def _dumped(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
