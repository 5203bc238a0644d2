"""Tokenizers that sentencepiece trained: `tokenizer.model`.

Marks such as `</s>` that stand in a text are ordinary characters; only the writer of token shards ends a document.

U+2581 in a text: sentencepiece itself takes it for a space, so that it would come back as one. A lossless model's ids for
it are its three byte pieces here, and it comes back exactly; all other ids are the library's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from curate.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ids = npt.NDArray[np.unsignedinteger[Any]]

UTF8_BYTES = tuple(byte for byte in range(0xF5) if byte not in (0xC0, 0xC1))  # no other can stand in UTF-8
_SPACE_MARK = "\u2581"  # how sentencepiece writes a space: as a character of a text, it would come back as a space


class SentencePieceTokenizer:
    """A sentencepiece model, with its end mark. Pickles as its bytes.

    Attributes:
        model: Content of the model file.
        vocab_size: Ids are below it.
        eos_id: Id of the end mark; `encode` never returns it.
        bos_id: Id of the begin mark if documents shall begin with it, else None.
        sha256: Of the model file.
        lossless: Whether every text comes back exactly. True for models trained here; a loaded model may normalise.
        missing_bytes: Of UTF-8, those without a byte piece in a model that has byte pieces.
        unused_ids: How many ids stand for nothing: none.
    """

    file_name: ClassVar[str] = "tokenizer.model"

    def __init__(
        self, model: bytes, *, eos: str | None = None, bos: bool | str = False, file: str = "tokenizer.model"
    ) -> None:
        """Open a model.

        Args:
            model: Content of a sentencepiece model file.
            eos: Its control mark that ends a document; None for the model's own.
            bos: Whether documents begin with the model's begin mark, or the name of that mark.
            file: Shown in messages.

        Raises:
            InputError: If it is no model, or has no such mark; the marks that exist are named.
        """
        import sentencepiece

        self.model = model
        self._eos = eos
        self._bos = bos
        self._file = file
        try:
            if not model:
                raise RuntimeError("it is empty")
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            remedy = "Give the path of a model that sentencepiece wrote, or of a tokenizer.json."
            raise InputError(file, f"is no sentencepiece model ({str(error).strip()}).", remedy) from error
        self.vocab_size: int = self._processor.vocab_size()
        self.sha256 = hashlib.sha256(model).hexdigest()
        self.eos_id = self._mark("eos", eos, self._processor.eos_id())
        name = bos if isinstance(bos, str) else None
        self.bos_id = self._mark("bos", name, self._processor.bos_id()) if bos else None
        probe = "  a\t\u00bd\n\n  \ue000\0b  "
        decoded = self._bytes_of(self._processor.encode(probe)).decode(errors="replace")
        of_bytes = {byte: self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in UTF8_BYTES}
        without = tuple(byte for byte, piece in of_bytes.items() if not self._processor.is_byte(piece))
        self.unused_ids = 0
        self.missing_bytes = without if len(without) < len(of_bytes) else ()
        self.lossless = decoded == probe and not without
        if self.lossless:
            self._space_mark_ids = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in _SPACE_MARK.encode()]

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (self.model, self._eos, self._bos, self._file)

    @property
    def eos(self) -> str:
        """Name of the end mark."""
        return str(self._processor.id_to_piece(self.eos_id))

    @property
    def bos(self) -> str | None:
        """Name of the begin mark if documents shall begin with it, else None."""
        return None if self.bos_id is None else str(self._processor.id_to_piece(self.bos_id))

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """The control marks of the model: ids that no text is encoded to."""
        ids = (piece for piece in range(self.vocab_size) if self._processor.is_control(piece))
        return tuple(self._processor.id_to_piece(piece) for piece in ids)

    @property
    def unknown_id(self) -> int | None:
        """Id of what has no piece and no bytes of its own; None if everything has."""
        return None if self.byte_ids() else int(self._processor.unk_id())

    def byte_ids(self) -> tuple[int, ...]:
        """Return the ids that stand for one byte of a character without a piece."""
        return tuple(token for token in range(self.vocab_size) if self._processor.is_byte(token))

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
        for row, text in enumerate(texts):
            if self.lossless and _SPACE_MARK in text:
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
            remedy = (
                "Remove tokenizer.bos." if key == "bos" and mark is None else f"Set tokenizer.{key} to one of them."
            )
            raise InputError(self._file, f"{what}; its marks are {marks}.", remedy)
        return token


def _load(model: bytes, eos: str | None, bos: bool | str, file: str) -> SentencePieceTokenizer:
    return SentencePieceTokenizer(model, eos=eos, bos=bos, file=file)
