"""Tokenizers in the `tokenizer.json` format of Hugging Face's tokenizers library.

The library looks for added tokens in a text before its model sees it, so a page that mentions `<|endoftext|>` could end a
document. Its `encode_special_tokens` helps only in part: a unigram or word model has the marks in its own vocabulary
and finds them there. Here the marks take other names in what the library is given, so that nothing finds them in a text:

* Marks are the added tokens that the file calls special, and those that look like one: `<...>`, `[...]`, `<|...|>`
  without white space inside (some files call `<|user|>` or `<tool_call>` not special). Their strings are ordinary text.
* Other added tokens (runs of spaces in GPT-NeoX's, words that somebody added) are text by the file's own word and are
  found as the file says.

Truncation, padding, dropout and the template that adds marks are switched off: marks come from us.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from curate.errors import InputError
from curate.tokens.sentencepiece_model import UTF8_BYTES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ids = npt.NDArray[np.unsignedinteger[Any]]

_MARK_SHAPE = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]|<\|\S+\|>|<｜\S+｜>")
_PROBES = ("  a\t\u00bd\n\n  \ue000\0b  ", "def f(x):\n    return  1\r\n", "The lock's keeper , isn't here .", " ")
_SPACE_MARK = "\u2581"
_BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")
_BATCH_BYTES = 1 << 20  # of texts in one call: the library keeps offsets and strings of every token
_REMEDY = "Give the path of a tokenizer.json that the tokenizers library wrote, or of a sentencepiece model."


class JsonTokenizer:
    """A `tokenizer.json`, with its end mark. Pickles as its bytes.

    Attributes:
        model: Content of the file.
        definition: What the library is given: the file's content with hidden marks, without template and truncation.
        vocab_size: Ids are below it.
        eos_id: Id of the end mark; `encode` never returns it.
        bos_id: Id of the begin mark if documents shall begin with it, else None.
        sha256: Of the file.
        lossless: Whether texts come back exactly: every byte has its symbol, and probes come back.
        missing_bytes: Of UTF-8, those without a symbol in a vocabulary of bytes or one with byte fallback.
        unused_ids: How many ids below `vocab_size` stand for nothing: numbers that the file leaves out.
    """

    file_name: ClassVar[str] = "tokenizer.json"

    def __init__(
        self, model: bytes, *, eos: str | None = None, bos: bool | str = False, file: str = "tokenizer.json"
    ) -> None:
        """Open a tokenizer.

        Args:
            model: Content of a `tokenizer.json`.
            eos: Its mark that ends a document; None if it has no other mark.
            bos: Whether documents begin with the mark that its template puts first, or the name of the mark.
            file: Shown in messages.

        Raises:
            InputError: If it is no tokenizer, or has no such mark; the marks that exist are named.
        """
        self.model = model
        self._eos = eos
        self._bos = bos
        self._file = file
        self.sha256 = hashlib.sha256(model).hexdigest()
        written = self._parse(model)
        added = written["added_tokens"]
        unknown = _unknown(written)
        # Ids of what no text may become; the unknown token among them, which only what is unknown becomes.
        self._hidden = {int(one["id"]): str(one["content"]) for one in added if _is_mark(one)}
        self._marks = {name: token for token, name in sorted(self._hidden.items()) if name != unknown}
        self.eos_id = self._end_mark(eos)
        self.bos_id = self._begin_mark(written, bos) if bos else None
        self._vocabulary = _pieces(written["model"])
        ids = [*self._vocabulary, *(int(one["id"]) for one in added)]
        self.vocab_size = max(ids) + 1
        self.unused_ids = self.vocab_size - len({*ids})
        self._unknown_id = next((token for token, piece in self._vocabulary.items() if piece == unknown), None)
        self._added = {int(one["id"]): str(one["content"]) for one in added if int(one["id"]) not in self._hidden}
        self.definition = _hide(written, self._hidden, unknown)
        self._tokenizer = self._open(self.definition)
        self._joins = _kinds(written.get("decoder"), "decoders")
        unigram_bytes = written["model"]["type"] == "Unigram" and bool(written["model"].get("byte_fallback"))
        self._unsafe = _BYTE_PIECE if unigram_bytes else None  # a unigram model finds byte pieces in a text
        encoded = [self.encode(probe).tolist() for probe in _PROBES]
        joined = [self._bytes_of(ids).decode(errors="replace") for ids in encoded]
        self._exact = joined == list(_PROBES)
        probes = [*_PROBES, f"a{_SPACE_MARK}b"]
        self.missing_bytes = self._missing_bytes(written)
        self.lossless = not self.missing_bytes and [self.decode(self.encode(probe)) for probe in probes] == probes

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (self.model, self._eos, self._bos, self._file)

    @property
    def eos(self) -> str:
        """Name of the end mark."""
        return self._hidden[self.eos_id]

    @property
    def bos(self) -> str | None:
        """Name of the begin mark if documents shall begin with it, else None."""
        return None if self.bos_id is None else self._hidden[self.bos_id]

    @property
    def marks(self) -> tuple[str, ...]:
        """The control marks, in the order of their ids: no text is encoded to them."""
        return tuple(self._marks)

    @property
    def unknown_id(self) -> int | None:
        """Id of what has no piece and no bytes of its own; None if everything has."""
        return self._unknown_id

    def byte_ids(self) -> tuple[int, ...]:
        """Return the ids that stand for one byte where there is no piece, or for a part of a character."""
        if "ByteLevel" not in self._joins:
            return tuple(token for token, piece in self._vocabulary.items() if _BYTE_PIECE.fullmatch(piece))
        return tuple(token for token, piece in enumerate(self._piece_bytes) if not _is_text(piece))

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
        rows: list[Ids] = []
        for part in _in_parts(texts):
            for text, encoding in zip(
                part, self._tokenizer.encode_batch_fast(part, add_special_tokens=False), strict=True
            ):
                rows.append(np.array(encoding.ids, dtype))
                if self._unsafe is not None and self._unsafe.search(text):
                    rows[-1] = self._encode_parts(re.split(r"(?<=<)(?=0x[0-9A-F]{2}>)", text), dtype)
                elif "\0" in text and self._is_hidden[rows[-1]].any():  # someone wrote the name that hides a mark
                    rows[-1] = self._encode_parts(re.split("(\0)", text), dtype)
        return rows

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of some ids; marks give nothing, bytes that are no UTF-8 the replacement character."""
        known = [int(token) for token in ids]
        if self._exact:
            return self._bytes_of(known).decode(errors="replace")
        text: str = self._tokenizer.decode(
            [token for token in known if token not in self._hidden], skip_special_tokens=False
        )
        return text

    def token_bytes(self) -> npt.NDArray[np.int64]:
        """Return how many UTF-8 bytes each id stands for, shape (vocab_size,); 0 for marks and for ids without a piece."""
        import numpy as np

        return np.array([len(piece) for piece in self._piece_bytes], np.int64)

    def _missing_bytes(self, written: Mapping[str, Any]) -> tuple[int, ...]:
        splits = _kinds(written.get("pre_tokenizer"), "pretokenizers") | _kinds(written["normalizer"], "normalizers")
        pieces = {piece for token, piece in self._vocabulary.items() if token not in self._hidden}
        if "ByteLevel" in splits:
            alphabet = {byte: char for char, byte in _byte_alphabet().items()}
        elif written["model"].get("byte_fallback"):
            alphabet = {byte: f"<0x{byte:02X}>" for byte in UTF8_BYTES}
        else:
            return ()
        lacking = [byte for byte in UTF8_BYTES if alphabet[byte] not in pieces]
        # A character of one byte may have a piece of its own, or be an added token.
        return tuple(
            byte for byte in lacking if byte > 0x7F or chr(byte) not in self.decode(self.encode(f"a{chr(byte)}a"))
        )

    def _encode_parts(self, parts: Sequence[str], dtype: Any) -> Ids:
        import numpy as np

        encodings = self._tokenizer.encode_batch_fast(list(parts), add_special_tokens=False)
        return np.array([token for one in encodings for token in one.ids], dtype)

    def _bytes_of(self, ids: Iterable[int]) -> bytes:
        pieces = self._piece_bytes
        return b"".join([pieces[token] for token in ids])

    @cached_property
    def _is_hidden(self) -> npt.NDArray[np.bool_]:
        import numpy as np

        hidden = np.zeros(self.vocab_size, bool)
        hidden[list(self._hidden)] = True
        return hidden

    @cached_property
    def _piece_bytes(self) -> list[bytes]:
        pieces = [b""] * self.vocab_size
        for token, piece in self._vocabulary.items():
            if token not in self._hidden:
                pieces[token] = _bytes_of_piece(piece, self._joins)
        for token, content in self._added.items():
            pieces[token] = content.encode()
        return pieces

    def _parse(self, model: bytes) -> dict[str, Any]:
        try:
            written = json.loads(model)
        except (ValueError, RecursionError) as error:
            raise InputError(self._file, f"is no tokenizer.json ({error}).", _REMEDY) from error
        if not isinstance(written, dict) or not isinstance(written.get("model"), dict):
            raise InputError(self._file, "is no tokenizer.json: it has no `model`.", _REMEDY)
        # The library reads it as it stands, so what it cannot read is told in its words; and it fills in what is left out.
        known = json.loads(self._open(written).to_str())
        kind = known["model"]["type"]
        if kind not in ("BPE", "Unigram", "WordPiece", "WordLevel"):
            raise InputError(self._file, f"its model is of the unknown kind {kind}.", _REMEDY)
        result: dict[str, Any] = known
        return result

    def _open(self, definition: Mapping[str, Any]) -> Any:
        # Threads of the library would stand beside the workers; they change no id.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        import tokenizers

        try:
            tokenizer = tokenizers.Tokenizer.from_str(json.dumps(definition))
        except Exception as error:  # the library raises bare exceptions
            raise InputError(self._file, f"is no tokenizer.json that can be read ({error}).", _REMEDY) from error
        tokenizer.encode_special_tokens = True
        return tokenizer

    def _end_mark(self, name: str | None) -> int:
        if name is not None:
            return self._mark("eos", name)
        if len(self._marks) == 1:
            return next(iter(self._marks.values()))
        what = f"does not tell which mark ends a document; its marks are {self._shown()}."
        raise InputError(self._file, what, "Set tokenizer.eos to one of them.")

    def _begin_mark(self, written: Mapping[str, Any], bos: bool | str) -> int:
        if isinstance(bos, str):
            return self._mark("bos", bos)
        processors = _flat(written.get("post_processor"), "processors")
        templates = [one["single"] for one in processors if one["type"] == "TemplateProcessing"]
        firsts = [one[0]["SpecialToken"]["id"] for one in templates if one and "SpecialToken" in one[0]]
        if len(firsts) == 1 and firsts[0] in self._marks:
            return self._marks[firsts[0]]
        what = f"does not tell which mark begins a document; its marks are {self._shown()}."
        raise InputError(self._file, what, "Set tokenizer.bos to the name of one of them, or remove it.")

    def _mark(self, key: str, name: str) -> int:
        if name not in self._marks:
            what = f"has no mark '{name}'; its marks are {self._shown()}."
            raise InputError(self._file, what, f"Set tokenizer.{key} to one of them.")
        return self._marks[name]

    def _shown(self) -> str:
        names = [f"'{name}'" for name in self._marks]
        return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "") or "none"


def _load(model: bytes, eos: str | None, bos: bool | str, file: str) -> JsonTokenizer:
    return JsonTokenizer(model, eos=eos, bos=bos, file=file)


def _is_mark(added: Mapping[str, Any]) -> bool:
    return bool(added["special"]) or _MARK_SHAPE.fullmatch(added["content"]) is not None


def _is_text(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


def _pieces(model: Mapping[str, Any]) -> dict[int, str]:
    """Return the pieces of a model's vocabulary by id."""
    vocabulary = model["vocab"]
    if model["type"] == "Unigram":
        return {token: piece for token, (piece, _) in enumerate(vocabulary)}
    return {token: piece for piece, token in vocabulary.items()}


def _unknown(written: Mapping[str, Any]) -> str | None:
    """Return the token that unknown characters become, if there can be any."""
    model = written["model"]
    if model["type"] == "Unigram":
        place = model.get("unk_id")
        return None if place is None else str(model["vocab"][place][0])
    if model["type"] == "BPE":
        bytewise = "ByteLevel" in {one["type"] for one in _flat(written.get("pre_tokenizer"), "pretokenizers")}
        every = _byte_alphabet() if bytewise else [f"<0x{byte:02X}>" for byte in range(256)]
        if (bytewise or model["byte_fallback"]) and all(piece in model["vocab"] for piece in every):
            return None  # every byte has its token: some files name the end mark here, which no text can become
    name = model.get("unk_token")
    return None if name is None else str(name)


def _hide(written: Mapping[str, Any], hidden: Mapping[int, str], unknown: str | None) -> dict[str, Any]:
    """Return a definition whose marks, with the same ids, have names that no text of a normal kind holds."""
    model = dict(written["model"])
    kind = model["type"]
    names = {
        content: f"\0{token}\0mark\0" for token, content in hidden.items() if content != unknown or kind == "Unigram"
    }
    if kind == "Unigram":  # finds its unknown token by place
        model["vocab"] = [[names.get(piece, piece), score] for piece, score in model["vocab"]]
    else:
        model["vocab"] = {names.get(piece, piece): token for piece, token in model["vocab"].items()}
        model["unk_token"] = unknown if kind == "BPE" else model["unk_token"]
    if kind == "BPE":
        model["merges"] = [pair for pair in model["merges"] if not {*pair, "".join(pair)} & names.keys()]
        model["dropout"] = None  # ids depend on the text alone
    added = [
        dict(one, content=names.get(one["content"], one["content"]), special=int(one["id"]) in hidden)
        for one in written["added_tokens"]
    ]
    off: dict[str, Any] = dict.fromkeys(("truncation", "padding", "post_processor"))
    return {**written, **off, "model": model, "added_tokens": added}


def _flat(part: Mapping[str, Any] | None, inside: str) -> list[Mapping[str, Any]]:
    """Return a part of a pipeline, or the parts of a sequence of them."""
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    return [one for inner in part[inside] for one in _flat(inner, inside)]


def _kinds(part: Mapping[str, Any] | None, inside: str) -> frozenset[str]:
    return frozenset(one["type"] for one in _flat(part, inside))


def _bytes_of_piece(piece: str, joins: frozenset[str]) -> bytes:
    """Return what a piece of a vocabulary stands for, by the decoders that put pieces together."""
    if "ByteLevel" in joins:
        alphabet = _byte_alphabet()
        if all(char in alphabet for char in piece):
            return bytes(alphabet[char] for char in piece)
        return piece.encode()
    if "ByteFallback" in joins and _BYTE_PIECE.fullmatch(piece):
        return bytes([int(piece[3:5], 16)])
    if joins & {"Metaspace", "Replace"}:
        piece = piece.replace(_SPACE_MARK, " ")
    return piece.encode()


def _byte_alphabet() -> dict[str, int]:
    """Return the characters that stand for bytes in byte-level vocabularies (Radford et al. 2019, GPT-2's encoder).

    Bytes that print in Latin-1 stand for themselves, the others for the characters from U+0100 on, in order.
    """
    printing = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printing]
    return {chr(byte): byte for byte in printing} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


def _in_parts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in lists of bounded size; one text is one list whatever its size.

    Raises:
        UnicodeEncodeError: If a text holds half a surrogate pair.
    """
    part: list[str] = []
    size = 0
    for text in texts:
        size += len(text.encode())
        if part and size > _BATCH_BYTES:
            yield part
            part, size = [], len(text.encode())
        part.append(text)
    if part:
        yield part
