"""Subword tokenizers: train, encode, decode, without losing a character.

sentencepiece's defaults fold white space, apply NFKC, put a space before every text and skip long lines. A corpus of code
survives none of that, so a tokenizer trained here has identity normalisation, byte fallback, no dummy prefix and pieces
for runs of white space: decode(encode(text)) == text for every text. Marks such as `</s>` that stand in a text
are ordinary characters; only the writer of token shards ends a document.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from curate.errors import InputError, StageError
from curate.stage import Stage, canonical
from curate.text.quantities import parse_count

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ids = npt.NDArray[np.unsignedinteger[Any]]

_DEFAULT_EOS = "</s>"
# White space that code is made of, besides spaces: always one piece each. Runs of spaces are learned.
_WHITE_SPACE = ("\n", "\n\n", "\n\n\n", "\n\n\n\n", "\t", "\t\t", "\t\t\t", "\t\t\t\t")
_SPACE_MARK = "\u2581"  # how sentencepiece writes a space: as a character of a text, it would come back as a space
# What the trainer cannot see: pieces of their own (above), its own marks for space and unknown, and NUL.
_UNSEEN = re.compile("[\n\r\t\0\u2581\u2585]+")
_LONGEST_LINE = 4096  # characters; the byte-pair trainer counts positions within a line in 16 bits


class SentencePiece(Stage):
    """Training of a sentencepiece model (Kudo and Richardson 2018) on the kept training documents.

    Attributes:
        vocab_size: Pieces, 256 bytes and the marks included. A small corpus may not have that many: the model then has
            as many as there are, and its card says so.
        model: Byte-pair encoding (Sennrich et al. 2016) or unigram language model (Kudo 2018).
        sample_bytes: Train on the first documents of the sample, up to this many UTF-8 bytes.
        character_coverage: Share of the sample's characters that get a piece of their own; the rest are bytes.
    """

    version: ClassVar[int] = 1
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
        load: Path of a sentencepiece model file, `*.model`.
        eos: The mark that ends a document: its name in a model to be trained (default `</s>`), or one of the control marks
            of a loaded model (default: the model's own end mark).
        bos: Whether each document also begins with the model's begin mark.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("sentencepiece",)

    train: SentencePiece | None = None
    load: str | None = None
    eos: str | None = Field(default=None, min_length=1)
    bos: bool = False

    @field_validator("load")
    @classmethod
    def _known_format(cls, path: str | None) -> str | None:
        if path is not None and not path.endswith(".model"):
            raise ValueError(f"load is {path!r}; it must be the path of a sentencepiece model, *.model")
        return path

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


@dataclass(frozen=True, slots=True)
class TrainedTokenizer:
    """A new model and what is known of it.

    Attributes:
        model: Content of `tokenizer.model`.
        card: JSON values: real and asked vocabulary size, sha256, end mark, settings, and what it was trained on.
    """

    model: bytes
    card: dict[str, Any]


class _Sample:
    """The lines that the trainer sees, and the count of what it does not."""

    def __init__(self, texts: Iterable[str], limit: int) -> None:
        self._texts = texts
        self._limit = limit
        self.num_documents = self.num_bytes = self.num_lines = self.num_lines_cut = 0
        self.skipped_documents = self.skipped_bytes = 0

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            data = text.encode()
            kept = data[: self._limit - self.num_bytes].decode(errors="ignore")  # no half character at the end
            num_kept = len(data) if len(kept) == len(text) else len(kept.encode())
            self.num_bytes += num_kept
            self.skipped_bytes += len(data) - num_kept
            lines = [line for line in _UNSEEN.split(kept) if line]
            if lines:
                self.num_documents += 1
            else:
                self.skipped_documents += 1
            for line in lines:
                yield from self._cut(line)
            if num_kept < len(data) or self.num_bytes == self._limit:
                break

    def _cut(self, line: str) -> Iterator[str]:
        """Yield a long line in parts, between words where there are any."""
        start = 0
        while len(line) - start > _LONGEST_LINE:
            end = line.rfind(" ", start + 1, start + _LONGEST_LINE)
            end = end if end > start else start + _LONGEST_LINE
            self.num_lines += 1
            self.num_lines_cut += 1
            yield line[start:end]
            start = end
        self.num_lines += 1
        yield line[start:]


def train_tokenizer(texts: Iterable[str], settings: TokenizerSettings) -> TrainedTokenizer:
    """Train a tokenizer: the same texts in the same order give the same bytes.

    Long lines are cut rather than skipped, so every document of the sample takes part.

    Args:
        texts: The sample, in an order that the caller keeps the same; read until `sample_bytes` are full.
        settings: The recipe's `tokenizer`.

    Raises:
        StageError: If there is no text to learn from, or the vocabulary cannot hold the sample's characters.
    """
    import sentencepiece

    training = settings.training
    sample = _Sample(texts, training.sample_bytes)
    lines = list(sample)
    if not lines:
        remedy = "Add documents, loosen the filters, or load a tokenizer."
        raise StageError("all", "tokenizer", "", "there is no text to train a tokenizer on.", remedy)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=training.model,
            vocab_size=training.vocab_size,
            character_coverage=training.character_coverage,
            hard_vocab_limit=False,
            byte_fallback=True,
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True,
            user_defined_symbols=list(_WHITE_SPACE),
            split_digits=True,
            max_sentence_length=4 * _LONGEST_LINE,  # in bytes: no line is skipped
            input_sentence_size=0,
            shuffle_input_sentence=False,
            num_threads=1,  # more threads sum floats in another order
            eos_piece=settings.trained_eos,
            minloglevel=2,
        )
    except RuntimeError as error:
        # "... Vocabulary size is smaller than required_chars. 300 vs 2811. ..."
        needed = re.search(r"required_chars\.?\s*\d+ vs (\d+)", str(error))
        problem = f"sentencepiece cannot train a vocabulary of {training.vocab_size:,}: {str(error).strip()}"
        size = f"at least {needed[1]}" if needed else "another size"
        remedy = f"Set tokenizer.train.vocab_size to {size}, or lower tokenizer.train.character_coverage."
        raise StageError("all", "tokenizer", "", problem, remedy) from error
    data = model.getvalue()
    tokenizer = Tokenizer(data, eos=settings.trained_eos)
    card = {
        "kind": training.kind,
        "vocab_size": tokenizer.vocab_size,
        "vocab_size_asked": training.vocab_size,
        "eos": settings.trained_eos,
        "eos_id": tokenizer.eos_id,
        "sha256": tokenizer.sha256,
        "training_documents": sample.num_documents,
        "training_bytes": sample.num_bytes,
        "training_lines": sample.num_lines,
        "lines_cut": sample.num_lines_cut,
        "skipped_documents": sample.skipped_documents,
        "skipped_bytes": sample.skipped_bytes,
        "settings": canonical(training),
    }
    return TrainedTokenizer(data, card)


class Tokenizer:
    """A sentencepiece model, with its end mark. Pickles as its bytes.

    Attributes:
        model: Content of the model file.
        vocab_size: Ids are below it.
        eos_id: Id of the end mark; `encode` never returns it.
        bos_id: Id of the begin mark if documents shall begin with it, else None.
        sha256: Of the model file.
        lossless: Whether every text comes back exactly. True for models trained here; a loaded model may normalise.
    """

    def __init__(
        self, model: bytes, *, eos: str | None = None, bos: bool = False, file: str = "tokenizer.model"
    ) -> None:
        import sentencepiece

        self.model = model
        self._eos = eos
        self._bos = bos
        self._file = file
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            remedy = "Give the path of a model that sentencepiece wrote."
            raise InputError(file, f"is no sentencepiece model ({str(error).strip()}).", remedy) from error
        self.vocab_size: int = self._processor.vocab_size()
        self.sha256 = hashlib.sha256(model).hexdigest()
        self.eos_id = self._mark("eos", eos, self._processor.eos_id())
        self.bos_id = self._mark("bos", None, self._processor.bos_id()) if bos else None
        probe = "  a\t\u00bd\n\n  \ue000\0b  "
        decoded = self._bytes_of(self._processor.encode(probe)).decode(errors="replace")
        self.lossless = decoded == probe
        if self.lossless:
            self._space_mark_ids = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in _SPACE_MARK.encode()]

    @classmethod
    def load(cls, model: bytes | str | os.PathLike[str], *, eos: str | None = None, bos: bool = False) -> Self:
        """Load a model from its bytes or its path.

        Args:
            model: Content or path of a sentencepiece model file.
            eos: Its control mark that ends a document; None for the model's own.
            bos: Whether documents begin with the model's begin mark.

        Raises:
            InputError: If the file cannot be read or is no model, or has no such mark; the marks that exist are named.
        """
        if isinstance(model, bytes):
            return cls(model, eos=eos, bos=bos)
        try:
            data = Path(model).read_bytes()
        except OSError as error:
            remedy = "Check tokenizer.load; a relative path starts at the recipe's folder."
            raise InputError(str(model), f"cannot be read ({error.strerror}).", remedy) from error
        return cls(data, eos=eos, bos=bos, file=str(model))

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (self.model, self._eos, self._bos, self._file)

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """The control marks of the model: ids that no text is encoded to."""
        ids = (piece for piece in range(self.vocab_size) if self._processor.is_control(piece))
        return tuple(self._processor.id_to_piece(piece) for piece in ids)

    def encode(self, text: str) -> Ids:
        """Return the ids of one text, shape (T,), without marks; see `encode_batch`."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text, shape (T,), uint16 or uint32 as the vocabulary demands, without marks.

        The ids of a text depend on that text alone.

        Raises:
            UnicodeEncodeError: If a text holds half a surrogate pair, which no UTF-8 can say.
        """
        import numpy as np

        dtype = np.uint16 if self.vocab_size <= 1 << 16 else np.uint32
        encoded = self._processor.encode([text.encode() for text in texts], num_threads=1)
        if self.lossless:
            for row, text in enumerate(texts):
                if _SPACE_MARK in text:
                    encoded[row] = self._encode_around_space_marks(text)
        return [np.array(ids, dtype) for ids in encoded]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of some ids; marks give nothing, bytes that are no UTF-8 the replacement character."""
        known = [int(token) for token in ids]
        if not self.lossless:
            text: str = self._processor.decode(known)
            return text
        return self._bytes_of(known).decode(errors="replace")

    def token_bytes(self) -> npt.NDArray[np.int64]:
        """Return how many UTF-8 bytes each id stands for, shape (vocab_size,); 0 for marks."""
        import numpy as np

        return np.array([len(piece) for piece in self._pieces], np.int64)

    def _encode_around_space_marks(self, text: str) -> list[int]:
        parts = text.split(_SPACE_MARK)
        ids: list[int] = list(self._processor.encode(parts[0]))
        for part in parts[1:]:
            ids += self._space_mark_ids
            ids += self._processor.encode(part)
        return ids

    def _bytes_of(self, ids: Iterable[int]) -> bytes:
        pieces = self._pieces
        return b"".join([pieces[token] for token in ids])

    @cached_property
    def _pieces(self) -> list[bytes]:
        processor = self._processor
        pieces = []
        for token in range(self.vocab_size):
            piece: str = processor.id_to_piece(token)
            if processor.is_control(token) or processor.is_unknown(token):
                pieces.append(b"")
            elif processor.is_byte(token):
                pieces.append(bytes([int(piece[3:5], 16)]))
            else:
                pieces.append(piece.replace(_SPACE_MARK, " ").encode())
        return pieces

    def _mark(self, key: str, mark: str | None, default: int) -> int:
        token = default if mark is None else int(self._processor.piece_to_id(mark))
        if token < 0 or not self._processor.is_control(token):
            what = f"has no mark '{mark}'" if mark is not None else f"has no {key} mark of its own"
            marks = ", ".join(f"'{name}'" for name in self.marks) or "none"
            remedy = f"Set tokenizer.{key} to one of them." if key == "eos" else "Remove tokenizer.bos."
            raise InputError(self._file, f"{what}; its marks are {marks}.", remedy)
        return token


def _load(model: bytes, eos: str | None, bos: bool, file: str) -> Tokenizer:
    return Tokenizer(model, eos=eos, bos=bos, file=file)
