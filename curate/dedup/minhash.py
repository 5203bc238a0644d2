"""MinHash signatures of documents, cut into bands (Broder 1997, On the resemblance and containment of documents).

A shingle is `ngram` consecutive folded words (`curate.words`); a document with fewer words has one shingle, all of its
words, so that short texts are equal or different and never alike for want of shingles; one without words has none.
Each of bands * rows hash functions keeps the smallest value over the document's shingles; two documents agree on one
with the probability of their Jaccard similarity. A band is `rows` such values, stored as one 64-bit key.
"""

from __future__ import annotations

import hashlib
import itertools
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from curate.dedup.settings import Dedup
from curate.stage import Stage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

# The shingle hash is the same for every seed, so that shingle sets of any two runs can be compared.
_SHINGLE_SEED = 0x5348494E474C45  # "SHINGLE"


def collision_probability(similarity: float, *, num_bands: int, rows_per_band: int) -> float:
    """Return the probability that two documents share a band: 1 - (1 - s^r)^b (Mining of Massive Datasets, 3.4.2)."""
    return float(1.0 - (1.0 - similarity**rows_per_band) ** num_bands)


def estimated_similarity(num_shared: int, *, num_bands: int, rows_per_band: int) -> float:
    """Return the similarity at which `num_shared` of the bands are expected to agree, (k / b)^(1 / r), to 6 digits."""
    return float(round((num_shared / num_bands) ** (1.0 / rows_per_band), 6))


@lru_cache(maxsize=8)
def shingle_multipliers(ngram: int) -> npt.NDArray[np.uint64]:
    """Return the odd multipliers of the shingle hash, shape (ngram,)."""
    import numpy as np

    from curate.dedup.signing import split_mix

    return np.array([value | 1 for value in split_mix(_SHINGLE_SEED, ngram)], np.uint64)


def list_parts(column: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return (values, offsets) of a list column of uint64; row i is values[offsets[i]:offsets[i + 1]]."""
    import numpy as np

    offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return column.values.to_numpy(zero_copy_only=False), offsets


def shingle_sets(word_hashes: pa.Array, ngram: int) -> list[npt.NDArray[np.uint64]]:
    """Return each document's shingle hashes, ascending, without repeats.

    Args:
        word_hashes: large_list of uint64, one row a document.
        ngram: Words in a shingle.
    """
    import numpy as np

    from curate.dedup import signing

    words, offsets = list_parts(word_hashes)
    multipliers = shingle_multipliers(ngram)
    room = np.empty(int(np.diff(offsets).max(initial=0)), np.uint64)
    sets = []
    for start, stop in itertools.pairwise(offsets):
        count = signing.hash_shingles(words, start, stop, multipliers, room)
        sets.append(np.unique(room[:count]))
    return sets


def signatures(
    word_hashes: pa.Array, *, ngram: int, num_permutations: int, seed: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return MinHash signatures, shape (documents, num_permutations), and the number of shingles, repeats counted.

    The share of equal values in two signatures estimates the Jaccard similarity of the two shingle sets; the hash
    functions are those of `signing.sign`, with parameters from SplitMix64 of the seed. The row of a document without
    shingles means nothing.
    """
    import numpy as np

    from curate.dedup import signing

    words, offsets = list_parts(word_hashes)
    factors, masks = _functions(seed, num_permutations)
    values = np.empty((len(word_hashes), num_permutations), np.uint32)
    counts = np.empty(len(word_hashes), np.int64)
    signing.sign(words, offsets, shingle_multipliers(ngram), factors, masks, values, counts)
    return values, counts


@lru_cache(maxsize=8)
def _functions(seed: int, num_permutations: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return the factors, odd, and the masks of the hash functions of `signing.sign`."""
    import numpy as np

    from curate.dedup.signing import split_mix

    parameters = np.array(split_mix(seed, num_permutations), np.uint64)
    return (parameters >> np.uint64(32)).astype(np.uint32) | np.uint32(1), parameters.astype(np.uint32)


def datasketch_signatures(
    texts: pa.Array, *, ngram: int, num_permutations: int, seed: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return what `signatures` does, with the values of datasketch 2's MinHash (scheme `affine32`, the default).

    A shingle is its folded words joined by one space, in UTF-8. Its hash h is the first four bytes of its SHA-1,
    little-endian, put through the finaliser of MurmurHash3 (32 bits); function p gives h * factors[p] + addends[p] mod 2^32, with
    parameters drawn from NumPy's Mersenne Twister of the seed, all factors before all addends.
    """
    import numpy as np

    from curate.dedup import signing
    from curate.words import folded_words

    data, counts = bytearray(), []
    for text in texts.to_pylist():
        words = folded_words(text or "")
        size = min(ngram, len(words))
        shingles = [" ".join(words[i : i + size]) for i in range(len(words) - size + 1 if words else 0)]
        counts.append(len(shingles))
        for shingle in shingles:
            data += hashlib.sha1(shingle.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()[:4]
    hashes = np.frombuffer(bytes(data), "<u4").astype(np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        hashes = (hashes ^ (hashes >> np.uint32(shift))) * np.uint32(factor)
    draw = np.random.RandomState(seed)
    factors = draw.randint(0, 1 << 31, num_permutations, np.uint32) * np.uint32(2) + np.uint32(1)
    addends = draw.randint(0, 1 << 32, num_permutations, np.uint32)
    values = np.empty((len(counts), num_permutations), np.uint32)
    signing.sign_affine(hashes, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), factors, addends, values)
    return values, np.array(counts, np.int64)


def signature_schema() -> pa.Schema:
    """Return the columns that `Signatures.apply` gives."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("exact_hash", pa.string(), nullable=False),
            pa.field("bands", pa.list_(pa.uint64()), nullable=False),
            pa.field("num_shingles", pa.int64(), nullable=False),
            pa.field("num_bytes", pa.int64(), nullable=False),
            pa.field("url_hash", pa.string()),
            pa.field("payload_hash", pa.string()),
            pa.field("signature", pa.binary()),
        ]
    )


class Signatures(Stage):
    """Per-document columns by which copies are found.

    Holds only the settings that shape these, so that a new threshold or keep order signs nothing again.

    Attributes:
        ngram, rows, seed: As in `MinHash`.
        bands: As in `MinHash`; 0 leaves the band lists empty.
        permutations: Values of a signature, at least bands * rows; None: as many.
        variant: As in `MinHash`.
        by: As in `Exact`.
        stored: Whether the signatures themselves are kept (`Dedup.stores_signatures`).
    """

    version: ClassVar[int] = 5
    libraries: ClassVar[tuple[str, ...]] = ("xxhash", "idna")

    ngram: Annotated[int, Field(ge=1)] = 5
    bands: Annotated[int, Field(ge=0)] = 14
    rows: Annotated[int, Field(ge=1)] = 8
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    permutations: Annotated[int, Field(ge=0)] | None = None
    variant: Literal["curate", "datasketch"] = "curate"
    by: tuple[str, ...] = ("text",)
    stored: bool = False

    @classmethod
    def of(cls, dedup: Dedup, *, stored: bool = False) -> Signatures:
        """Return the signatures that these settings compare.

        Args:
            dedup: The settings.
            stored: As the attribute.
        """
        by = tuple(sorted(dedup.exact.by)) if dedup.exact is not None else ("text",)
        if dedup.minhash is None:
            return cls(bands=0, by=by)
        minhash = dedup.minhash
        return cls(
            ngram=minhash.ngram,
            bands=minhash.bands,
            rows=minhash.rows,
            seed=minhash.seed,
            permutations=minhash.permutations,
            variant=minhash.variant,
            by=by,
            stored=stored,
        )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return what copies are found by (`signature_schema`): same rows, same order.

        Args:
            batch: Has `text` (large_string; null counts as empty) and `word_hashes` (large_list of uint64); `url` and
                `payload` (EXTRACTED) if documents are compared by them.

        Returns:
            exact_hash: string, 32 hex digits (`exact.exact_hash`). bands: list of uint64, one key for each band, or
            none if the document has no words. num_shingles: int64, repeats counted. num_bytes: int64, UTF-8 bytes.
            url_hash: string, 32 hex digits (`exact.url_hash`), null without address. payload_hash: string, 32 hex digits,
            null if the input gave text. Both are null if documents are not compared by them. signature: binary, the low 8 bits
            of each MinHash value (b-bit minwise hashing, Li and Koenig 2010, with b = 8): a share of equal bytes p estimates a
            similarity of (p - 1/256) / (1 - 1/256). Null if the document has no words, or if it is not to be stored.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from curate.dedup import signing
        from curate.dedup.exact import exact_hashes, url_hash

        nothing = pa.nulls(batch.num_rows, pa.string())
        texts = batch["text"]
        number = self.bands * self.rows if self.permutations is None else self.permutations
        settings = {"ngram": self.ngram, "num_permutations": number, "seed": self.seed}
        if self.variant == "datasketch":
            values, counts = datasketch_signatures(texts, **settings)
        else:
            values, counts = signatures(batch["word_hashes"], **settings)
        keys = np.empty((len(texts), self.bands), np.uint64)
        signing.band_keys(values, self.rows, keys)
        ends = np.concatenate([[0], np.cumsum(np.where(counts > 0, self.bands, 0))]).astype(np.int32)
        num_bytes = pc.fill_null(pc.binary_length(texts.cast(pa.large_binary())), 0).cast(pa.int64())
        return pa.record_batch(
            [
                exact_hashes(texts),
                pa.ListArray.from_arrays(pa.array(ends), pa.array(keys[counts > 0].reshape(-1))),
                pa.array(counts),
                num_bytes,
                pa.array(map(url_hash, batch["url"].to_pylist()), pa.string()) if "url" in self.by else nothing,
                batch["payload"] if "payload" in self.by else nothing,
                low_bytes(values, counts > 0) if self.stored else nothing.cast(pa.binary()),
            ],
            schema=signature_schema(),
        )


def low_bytes(values: npt.NDArray[np.uint32], present: npt.NDArray[np.bool_]) -> pa.BinaryArray:
    """Return the low 8 bits of each value of a signature, one string of bytes a document, null where none is present."""
    import numpy as np
    import pyarrow as pa

    ends = np.concatenate([[0], np.cumsum(np.where(present, values.shape[1], 0))]).astype(np.int32)
    data = np.ascontiguousarray(values[present].astype(np.uint8))
    validity = pa.array(present).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(values), [validity, pa.py_buffer(ends), pa.py_buffer(data)])
