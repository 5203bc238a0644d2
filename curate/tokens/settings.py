"""The recipe's `tokenizer`: one to train, or one to load."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from curate.stage import Stage
from curate.text.quantities import parse_count

_DEFAULT_EOS = "</s>"
_OTHER_FORMATS = (".txt", ".tiktoken", ".vocab", ".bpe", ".bin", ".safetensors", ".gguf", ".yaml", ".zip", ".gz")


class SentencePiece(Stage):
    """Training of a sentencepiece model (Kudo and Richardson 2018) on the kept training documents.

    Attributes:
        vocab_size: Pieces, 256 bytes and the marks included. A small corpus may not have that many: the model then has
            as many as there are, and its card says so.
        model: Byte-pair encoding (Sennrich et al. 2016) or unigram language model (Kudo 2018).
        sample_bytes: Train on the first documents of the sample, up to this many UTF-8 bytes.
        character_coverage: Share of the sample's characters that get a piece of their own; the rest are bytes.
    """

    version: ClassVar[int] = 3
    libraries: ClassVar[tuple[str, ...]] = ("sentencepiece",)

    kind: Literal["sentencepiece"] = "sentencepiece"
    vocab_size: int = Field(default=32_768, ge=300, le=1_000_000)
    model: Literal["bpe", "unigram"] = "bpe"
    sample_bytes: Annotated[int, BeforeValidator(parse_count)] = 50_000_000
    character_coverage: float = Field(default=0.9995, gt=0.9, le=1.0)


class TokenizerSettings(Stage):
    """The recipe's `tokenizer`: one to train, or the path of one to load.

    Attributes:
        train: How to train one; the default if `load` is not given.
        load: Path of a sentencepiece model, `*.model`, of a `tokenizer.json`, or of a folder that holds one of them as
            tokenizer.model or tokenizer.json.
        eos: The mark that ends a document: its name in a model to be trained (default `</s>`), or one of the marks of a
            loaded model (default: the model's own end mark, or for a `tokenizer.json` the one that the files beside it
            name).
        bos: Whether each document also begins with the model's begin mark, or the name of that mark.
    """

    version: ClassVar[int] = 3
    libraries: ClassVar[tuple[str, ...]] = ("sentencepiece", "tokenizers")

    train: SentencePiece | None = None
    load: str | None = None
    eos: str | None = Field(default=None, min_length=1)
    bos: bool | Annotated[str, Field(min_length=1)] = False

    @field_validator("load")
    @classmethod
    def _known_format(cls, path: str | None) -> str | None:
        if path is not None and path.lower().endswith(_OTHER_FORMATS):
            raise ValueError(
                f"load is {path!r}; it must be the path of a sentencepiece model (*.model) or of a tokenizer.json, "
                "or of a folder with tokenizer.model or tokenizer.json"
            )
        return path

    @model_validator(mode="after")
    def _new_mark(self) -> Self:
        if self.load is None and self.eos is not None:
            taken = self.eos in ("<s>", "<unk>") or re.fullmatch("<0x[0-9A-F]{2}>", self.eos)
            if taken or not re.fullmatch(r"(?s)<[^<>\n\t\u2581]+>|\[[^\[\]\n\t\u2581]+\]", self.eos):
                raise ValueError(
                    f"eos is {self.eos!r}; the end mark of a tokenizer to be trained is written <...> or [...], "
                    "such as <|endoftext|>, and is none that sentencepiece has anyway (<s>, <unk>, <0x41>)"
                )
        return self

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.train is not None and self.load is not None:
            raise ValueError(
                "a tokenizer is trained or loaded, not both: remove train or load "
                "(from a base recipe: set `train: ~` or `load: ~` beside the other)"
            )
        return self

    @property
    def training(self) -> SentencePiece:
        """How to train one, defaults included."""
        return self.train or SentencePiece()

    @property
    def trained_eos(self) -> str:
        """Name of the end mark in a model to be trained."""
        return self.eos or _DEFAULT_EOS
