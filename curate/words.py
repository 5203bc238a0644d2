"""Words of a batch, split and hashed once per text revision: transient columns that stages read and nobody writes.

Two notions of a word, because two literatures use the term:

- `split_words`: tokens for quality filters. Letters, marks and digits stay together, punctuation is a token of its own.
- `folded_words`: units of shingles and n-grams. Runs without white space, case-folded, outer punctuation stripped, so
  that case, line wraps, quotes and soft hyphens make no difference.

In scripts that write no spaces between words (Han, Kana, Thai, Lao, Khmer, Myanmar, Tibetan), each character with its marks is a word.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex
import xxhash

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

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
    """Return the stable 64-bit hash of one folded word (xxh3_64 of its UTF-8 bytes)."""
    return xxhash.xxh3_64_intdigest(word.encode("utf-8", "surrogatepass"))


def with_words(batch: pa.RecordBatch, columns: Collection[str]) -> pa.RecordBatch:
    """Return `batch` with the transient columns asked for appended.

    Args:
        batch: Has a column `text` (large_string).
        columns: Any of "words" (large_list of large_string, `split_words`) and "word_hashes" (large_list of uint64,
            `hash_word` of `folded_words`); other names are ignored.
    """
    import numpy as np
    import pyarrow as pa

    texts = batch["text"].to_pylist()
    if "words" in columns:
        words = pa.array((split_words(text or "") for text in texts), pa.large_list(pa.large_string()))
        batch = batch.append_column("words", words)
    if "word_hashes" in columns:
        hashes: list[int] = []
        ends = np.zeros(len(texts) + 1, np.int64)
        memo: dict[str, int] = {}  # of this batch alone: nothing may depend on what was seen before, nor grow
        for row, text in enumerate(texts):
            for word in folded_words(text or ""):
                value = memo.get(word)
                if value is None:
                    value = memo[word] = hash_word(word)
                hashes.append(value)
            ends[row + 1] = len(hashes)
        values = pa.array(np.array(hashes, np.uint64))
        batch = batch.append_column("word_hashes", pa.LargeListArray.from_arrays(pa.array(ends), values))
    return batch


@dataclass(frozen=True, slots=True)
class WordCodes:
    """The "words" column of a batch as integers: what a word is like is worked out once per distinct word.

    Attributes:
        codes: Index into `vocabulary` of each word, all rows one behind the other, shape (N,).
        vocabulary: The distinct words of the batch.
        starts, ends: Each row's first word and the one behind its last, shape (rows,).
    """

    codes: NDArray[np.int64]
    vocabulary: list[str]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def per_row(self, per_word: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each row the sum of `per_word` (indexed by code) over its words, shape (rows,)."""
        import numpy as np

        total = np.concatenate(([0], np.cumsum(per_word[self.codes], dtype=np.int64)))
        summed: NDArray[np.int64] = total[self.ends] - total[self.starts]
        return summed


def word_codes(words: pa.LargeListArray) -> WordCodes:
    """Return the "words" column of a batch as integers."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = words.flatten().dictionary_encode()
    lengths = pc.fill_null(pc.list_value_length(words), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(lengths, dtype=np.int64)
    codes = coded.indices.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return WordCodes(codes, coded.dictionary.to_pylist(), ends - lengths, ends)
