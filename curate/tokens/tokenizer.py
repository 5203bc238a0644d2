"""What a tokenizer is, of whatever format: text to ids and back, and the marks around a document.

Marks such as `</s>` that stand in a text are ordinary characters, in every format; only the writer of token shards ends
a document.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from curate.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ids = npt.NDArray[np.unsignedinteger[Any]]

TOKENIZER_FILES = ("tokenizer.model", "tokenizer.json")  # in a run folder: one of them


class Tokenizer(Protocol):
    """A tokenizer with the marks that are put around documents. Pickles as its file's bytes.

    Attributes:
        model: Content of its file.
        vocab_size: Ids are below it.
        eos_id: Id of the end mark; `encode` never returns it.
        bos_id: Id of the begin mark if documents shall begin with it, else None.
        sha256: Of its file.
        lossless: Whether every text comes back exactly; a loaded tokenizer may normalise, or lack bytes.
        missing_bytes: Bytes of UTF-8 that it has no symbol for though it writes texts, or what has no piece, in bytes.
        unused_ids: How many ids below `vocab_size` stand for nothing.
    """

    model: bytes
    vocab_size: int
    eos_id: int
    bos_id: int | None
    sha256: str
    lossless: bool
    missing_bytes: tuple[int, ...]
    unused_ids: int

    @property
    def file_name(self) -> str:
        """Name of its file in a run folder, one of `TOKENIZER_FILES`."""

    @property
    def eos(self) -> str:
        """Name of the end mark."""

    @property
    def bos(self) -> str | None:
        """Name of the begin mark if documents shall begin with it, else None."""

    @property
    def marks(self) -> tuple[str, ...]:
        """The control marks: ids that no text is encoded to."""

    @property
    def unknown_id(self) -> int | None:
        """Id of what has no piece and no bytes of its own; None if everything has."""

    def byte_ids(self) -> tuple[int, ...]:
        """Return the ids that stand for one byte where there is no piece, or for a part of a character."""

    def encode(self, text: str) -> Ids:
        """Return the ids of one text, shape (T,), without marks; see `encode_batch`."""

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text, shape (T,), uint16 or uint32 as the vocabulary demands, without marks.

        The ids of a text depend on that text alone.

        Raises:
            UnicodeEncodeError: If a text holds half a surrogate pair, which no UTF-8 can say.
        """

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of some ids; marks give nothing, bytes that are no UTF-8 the replacement character."""

    def token_bytes(self) -> npt.NDArray[np.int64]:
        """Return how many UTF-8 bytes each id stands for, shape (vocab_size,); 0 for marks."""


def load_tokenizer(
    model: bytes | str | os.PathLike[str], *, eos: str | None = None, bos: bool | str = False
) -> Tokenizer:
    """Load a tokenizer from its bytes, its path, or the path of a folder that holds it; the content tells the format.

    Args:
        model: Content or path of a sentencepiece model or a `tokenizer.json`.
        eos: Its mark that ends a document; None for the model's own.
        bos: Whether documents begin with the model's begin mark, or the name of that mark.

    Raises:
        InputError: If the file cannot be read or is no tokenizer, or has no such mark; the marks that exist are named.
    """
    file = "tokenizer"
    if not isinstance(model, bytes):
        path = tokenizer_file(Path(model))
        file = str(path)
        try:
            model = path.read_bytes()
        except OSError as error:
            remedy = "Check tokenizer.load; a relative path starts at the recipe's folder."
            raise InputError(file, f"cannot be read ({error.strerror}).", remedy) from error
    if is_json(model):
        from curate.tokens.tokenizer_json import JsonTokenizer

        return JsonTokenizer(model, eos=eos, bos=bos, file=file)
    from curate.tokens.sentencepiece_model import SentencePieceTokenizer

    return SentencePieceTokenizer(model, eos=eos, bos=bos, file=file)


def tokenizer_file(path: Path) -> Path:
    """Return the tokenizer's file: the path itself, or what a folder holds.

    Of two files that `curate` wrote together, tokenizer.model is the one that the documents were encoded with: card.json
    beside it has its sha256.

    Raises:
        InputError: If a folder holds neither file of `TOKENIZER_FILES`, or both and no such card.
    """
    if not path.is_dir():
        return path
    found = [path / name for name in TOKENIZER_FILES if (path / name).is_file()]
    one, other = TOKENIZER_FILES
    if not found:
        raise InputError(str(path), f"holds neither {one} nor {other}.", "Name the file.")
    if len(found) > 1 and not read_card(found[0]):
        what = f"holds both {one} and {other}, and no card.json that tells which one counts."
        raise InputError(str(path), what, f"Name the file: {found[0]} or {found[1]}.")
    return found[0]


def read_card(path: Path) -> dict[str, Any]:
    """Return the card.json beside a tokenizer's file, empty if there is none that is of this file."""
    try:
        card = json.loads((path.parent / "card.json").read_bytes())
        own = isinstance(card, dict) and card.get("sha256") == hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return {}
    return dict(card) if own else {}


def is_json(head: bytes) -> bool:
    """Return whether a file that begins so is a `tokenizer.json`: a sentencepiece model begins with no brace."""
    return head[:64].lstrip(b" \t\r\n").startswith(b"{")
