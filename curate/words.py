"""Words of a batch, split and hashed once per text revision: transient columns that stages read and nobody writes.

Two notions of a word, because two literatures use the term:

- `split_words`: tokens for quality filters. Letters, marks and digits stay together, punctuation is a token of its own.
  Columns `tokens` (for kernels: keys, places and kinds, see `token_type`) and `words` (the same as strings).
- `folded_words`: units of shingles and n-grams. Runs without white space, case-folded, outer punctuation stripped, so
  that case, line wraps, quotes and soft hyphens make no difference.

In scripts that write no spaces between words (Han, Kana, Thai, Lao, Khmer, Myanmar, Tibetan), each character with its
marks is a word. What datatrove's filters count are the tokens of spaCy, column `english_tokens`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import regex

from curate.text.kinds import KIND_LETTER as KIND_LETTER
from curate.text.kinds import KIND_PUNCTUATION as KIND_PUNCTUATION
from curate.text.kinds import KIND_SENTENCE_END as KIND_SENTENCE_END
from curate.text.kinds import KIND_SYMBOLS as KIND_SYMBOLS
from curate.text.kinds import KIND_WORD as KIND_WORD
from curate.text.kinds import PRIME as PRIME

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

TRANSIENT = ("words", "tokens", "english_tokens", "word_hashes")  # columns that `with_words` makes

_SCRIPTS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
_UNSPACED = rf"[{_SCRIPTS}]"
_JOINERS = r"\u200c\u200d\u00ad"  # zero-width (non-)joiner, inside Persian and Indic words; soft hyphen
_LETTER = rf"[[\p{{L}}\p{{N}}\p{{M}}_{_JOINERS}]--{_UNSPACED}]"
_TOKEN = regex.compile(
    rf"(?V1){_UNSPACED}[\p{{M}}{_JOINERS}]*"  # one character with its marks
    rf"|{_LETTER}+(?:['’.,\-]{_LETTER}+)*"  # don't, 3.14, well-known
    r"|([^\s\p{L}\p{N}])\1*"  # punctuation and symbols: a run of one sign ("...") is one token
)
_HAS_UNSPACED = regex.compile(rf"(?V1){_UNSPACED}")
_UNSPACED_UNIT = regex.compile(rf"(?V1){_UNSPACED}[\p{{M}}{_JOINERS}]*|[^{_SCRIPTS}]+")
_OUTER = regex.compile(r"(?V1)^[^\p{L}\p{N}\p{M}]+|[^\p{L}\p{N}\p{M}]+$")
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"), None) | {ord("’"): "'", ord("‘"): "'"}
_64_BITS = (1 << 64) - 1
_ASCII_OUTER = "".join(
    sign for sign in map(chr, range(128)) if not sign.isalnum()
)  # what _OUTER strips, control characters too


def split_words(text: str) -> list[str]:
    """Return the tokens of `text` in order, punctuation as tokens of its own."""
    return [match.group() for match in _TOKEN.finditer(text)]


def folded_words(text: str) -> list[str]:
    """Return the words of `text` for shingles and n-grams (design, "near duplicates"); never an empty string."""
    if text.isascii():
        stripped = (run.strip(_ASCII_OUTER) for run in text.casefold().split())
        return [word for word in stripped if word]
    words: list[str] = []
    for run in text.translate(_INVISIBLE).casefold().split():
        units = _UNSPACED_UNIT.findall(run) if _HAS_UNSPACED.search(run) else (run,)
        for unit in units:
            word = _OUTER.sub("", unit)
            if word:
                words.append(word)
    return words


def hash_word(word: str) -> int:
    """Return the stable 64-bit hash of one folded word.

    Its UTF-8 bytes are cut into little-endian numbers of eight bytes c, the last filled up with zeros, and chained from
    h = 0x9E3779B97F4A7C15 by h = mix(h ^ c), mix being the finaliser of SplitMix64 (Steele, Lea, Flood 2014). No two words of
    up to eight bytes have the same hash, as mix is a bijection and no word ends with a zero.
    """
    data = word.encode("utf-8", "surrogatepass")
    value = 0x9E3779B97F4A7C15
    for place in range(0, len(data), 8):
        z = value ^ int.from_bytes(data[place : place + 8], "little")
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _64_BITS
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _64_BITS
        value = z ^ (z >> 31)
    return value


@lru_cache(maxsize=1)
def token_type() -> pa.DataType:
    """Return the type of the columns `tokens` and `english_tokens`: one entry a token, in the order of the text.

    A token that is white space is none. Null and empty text have an empty list.

    - key: Hash of the token's UTF-8 bytes: h = (h * PRIME + byte + 1) mod 2**64 from h = 0. So the key of two tokens
      written together is key(a) * PRIME ** size(b) + key(b).
    - start, size: Byte offset in the row's text, and bytes.
    - chars: Code points.
    - kind: Bits of `curate.text.kinds`: KIND_LETTER, KIND_SYMBOLS, KIND_SENTENCE_END, KIND_PUNCTUATION, KIND_WORD.
    """
    import pyarrow as pa

    fields = {"key": pa.uint64(), "start": pa.int32(), "size": pa.int32(), "chars": pa.int32(), "kind": pa.uint8()}
    return pa.large_list(pa.struct([pa.field(name, kind, nullable=False) for name, kind in fields.items()]))


class Tokens(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """A column of `token_type` as arrays.

    Attributes:
        key, start, size, chars, kind: Of each token, all rows one behind the other, shape (N,).
        offsets: Each row's first token, and at last the one behind all, shape (rows + 1,).
    """

    key: NDArray[np.uint64]
    start: NDArray[np.int32]
    size: NDArray[np.int32]
    chars: NDArray[np.int32]
    kind: NDArray[np.uint8]
    offsets: NDArray[np.int64]


def token_arrays(column: pa.LargeListArray) -> Tokens:
    """Return a column `tokens` or `english_tokens` as arrays, without a copy; the column may be a slice."""
    key, start, size, chars, kind = (column.values.field(index).to_numpy() for index in range(5))
    return Tokens(key, start, size, chars, kind, column.offsets.to_numpy())


class Texts(NamedTuple):
    """A column of text as arrays.

    Attributes:
        data: UTF-8 of all rows, shape (bytes,).
        starts, ends: Where each row begins and ends in `data`, shape (rows,); equal for null.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def text_arrays(column: pa.LargeStringArray) -> Texts:
    """Return a column of text as arrays, without a copy of the text; the column may be a slice."""
    import numpy as np
    import pyarrow as pa

    column = column.cast(pa.large_string())
    _, offsets, data = column.buffers()
    if len(column) == 0 or offsets is None:
        places = np.zeros(1, np.int64)
    else:
        places = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
    starts, ends = places[: len(column)].copy(), places[1 : len(column) + 1].copy()
    if column.null_count:
        ends = np.where(column.is_valid().to_numpy(zero_copy_only=False), ends, starts)
    read_only = np.frombuffer(data if data is not None and data.size else b"\0", np.uint8)
    read_only.flags.writeable = False  # Arrow has buffers of both kinds, and a kernel is compiled anew for the other
    return Texts(read_only, starts, ends)


def with_words(batch: pa.RecordBatch, columns: Collection[str]) -> pa.RecordBatch:
    """Return `batch` with the transient columns asked for appended.

    Args:
        batch: Has a column `text` (large_string).
        columns: Any of TRANSIENT; other names are ignored.

            - tokens: `split_words`, as `token_type`.
            - words: The same as strings (large_list of large_string), for stages that are not compiled.
            - english_tokens: The tokens of spaCy's English tokenizer (`curate.text.english.rules`), as `token_type`.
            - word_hashes: `hash_word` of `folded_words` (large_list of uint64).
    """
    if "words" in columns or "tokens" in columns:
        batch = _with_fast_tokens(batch, columns)
    if "english_tokens" in columns:
        from curate.text.english.splitting import english_tokens

        batch = batch.append_column("english_tokens", _token_column(*english_tokens(*text_arrays(batch["text"]))))
    if "word_hashes" in columns:
        batch = batch.append_column("word_hashes", _word_hashes(batch["text"]))
    return batch


def prepare_words(columns: Collection[str]) -> None:
    """Compile and load what `with_words` needs for these columns: the limit on a row's time is not for that."""
    import pyarrow as pa

    with_words(pa.record_batch({"text": pa.array(["a"], pa.large_string())}), columns)


def _with_fast_tokens(batch: pa.RecordBatch, columns: Collection[str]) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    from curate.text.splitting import fast_tokens, gather

    texts = text_arrays(batch["text"])
    tokens, offsets = fast_tokens(*texts)
    if "words" in columns:
        ends = np.zeros(len(tokens.size) + 1, np.int64)
        np.cumsum(tokens.size, out=ends[1:])
        data = np.empty(ends[-1], np.uint8)
        gather(texts.data, texts.starts, offsets, tokens, data)
        strings = pa.LargeStringArray.from_buffers(len(tokens.size), pa.py_buffer(ends), pa.py_buffer(data))
        batch = batch.append_column("words", pa.LargeListArray.from_arrays(pa.array(offsets), strings))
    if "tokens" in columns:
        batch = batch.append_column("tokens", _token_column(tokens, offsets))
    return batch


def _token_column(tokens: tuple[NDArray[Any], ...], offsets: NDArray[np.int64]) -> pa.LargeListArray:
    import pyarrow as pa

    structs = pa.StructArray.from_arrays(list(map(pa.array, tokens)), fields=list(token_type().value_type))
    return pa.LargeListArray.from_arrays(pa.array(offsets), structs, type=token_type())


def _word_hashes(text: pa.Array) -> pa.LargeListArray:
    import pyarrow as pa

    from curate.text.folding import folded_hashes

    hashes, offsets = folded_hashes(*text_arrays(text), _fold, _hash_run)
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(hashes))


def _fold(sign: str) -> str:
    return sign.translate(_INVISIBLE).casefold()


def _hash_run(run: str) -> list[int]:
    return [hash_word(word) for word in folded_words(run)]
