"""Documents as vectors of whole numbers, which are compared without rounding: the same on every machine.

A vector is stored as int16: its numbers times 32,767 over the greatest of them, rounded. What is compared are directions: of
the stored vectors, or of their difference from the mean direction of the corpus, as int8, rounded likewise. Dot products of
these are whole numbers below 2**24 up to 1,040 dimensions, so that float32 holds each partial sum exactly, and a BLAS may
add them in any order, on any number of threads, with or without fused instructions; longer vectors are multiplied in
parts. Rounding turns a vector by no more than `error_bound`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from curate.errors import InputError
from curate.stage import Stage

if TYPE_CHECKING:
    import pyarrow as pa

Int8s = npt.NDArray[np.int8]
Int16s = npt.NDArray[np.int16]
Int64s = npt.NDArray[np.int64]
Dots = npt.NDArray[np.float32] | npt.NDArray[np.float64]

LARGEST = 127  # of a number of a vector that is compared
STORED = 32_767  # of one that is stored
MOST_EXACT = (2**24 - 1) // LARGEST**2  # dimensions of which a dot product is exact in float32
UNIT = 1 << 30  # fixed point of length 1: 2**33 such numbers add up in int64
MOST_DIMENSIONS = 65_536  # no embedding is longer; a squared length fits float64 exactly


def quantise(vectors: npt.NDArray[Any]) -> Int8s:
    """Return vectors as whole numbers from -127 to 127, shape (rows, dimensions); a zero vector stays one.

    Args:
        vectors: Finite numbers, shape (rows, dimensions).
    """
    return _whole(vectors, LARGEST).astype(np.int8)


def stored(vectors: npt.NDArray[Any]) -> Int16s:
    """Return vectors as whole numbers from -32,767 to 32,767, otherwise as `quantise`."""
    return _whole(vectors, STORED).astype(np.int16)


def _whole(vectors: npt.NDArray[Any], largest: int) -> npt.NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    most = np.abs(wide).max(axis=1, initial=0.0, keepdims=True)
    most[most == 0] = 1.0
    rounded: npt.NDArray[np.float64] = np.rint(wide / most * largest)  # halves go to the even number
    return rounded


def sum_of_units(vectors: Int16s) -> Int64s:
    """Return the sum of stored vectors at length 1 in fixed point, shape (dimensions,): exact, whatever the order of rows."""
    scale = UNIT / np.sqrt(np.maximum(squared_lengths(vectors), 1).astype(np.float64))
    total: Int64s = np.rint(vectors * scale[:, None]).astype(np.int64).sum(axis=0)
    return total


def compared(vectors: Int16s, mean: npt.NDArray[np.float64]) -> Int8s:
    """Return stored vectors as they are compared: their directions, without the mean direction, shape (rows, dimensions).

    Args:
        vectors: None of them zero.
        mean: Mean of all vectors at length 1, or zeros, shape (dimensions,).
    """
    lengths = np.sqrt(squared_lengths(vectors).astype(np.float64))
    return quantise(vectors / lengths[:, None] - mean)


def squared_lengths(vectors: Int8s | Int16s) -> Int64s:
    """Return the sum of squares of each vector, shape (rows,)."""
    wide = vectors.astype(np.int64)
    squares: Int64s = np.einsum("ij,ij->i", wide, wide, dtype=np.int64)
    return squares


def dot_products(ours: Int8s, others: Int8s) -> Dots:
    """Return the exact dot products of all pairs, shape (ours, others): float32 up to MOST_EXACT dimensions, else float64."""
    if ours.shape[1] <= MOST_EXACT:
        return ours.astype(np.float32) @ others.astype(np.float32).T
    total = np.zeros((len(ours), len(others)))
    for start in range(0, ours.shape[1], MOST_EXACT):
        part = slice(start, start + MOST_EXACT)
        total += ours[:, part].astype(np.float32) @ others[:, part].astype(np.float32).T
    return total


def error_bound(vectors: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return by how much, at most, rounding turns each vector, in radians, shape (rows,).

    Each number of a vector moves by at most half a step (its greatest number / 254), so the vector moves by at most
    sqrt(dimensions) half steps; the angle's sine is at most that over the vector's length. A cosine moves by at most the sum of the
    angles of both vectors times the sine of the angle between them, and half its square.
    """
    wide = vectors.astype(np.float64)
    moved = np.abs(wide).max(axis=1) / (2 * LARGEST) * np.sqrt(wide.shape[1])
    angles: npt.NDArray[np.float64] = np.arcsin(np.minimum(1.0, moved / np.linalg.norm(wide, axis=1)))
    return angles


def vector_schema() -> pa.Schema:
    """Return the column of vectors: little-endian int16, one after the other, in a binary string; null where a text has no direction."""
    import pyarrow as pa

    return pa.schema([("vector", pa.binary())])


def vector_column(vectors: Int16s) -> pa.Array:
    """Return vectors as a column of `vector_schema`; a zero vector has no direction and is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    raw = np.ascontiguousarray(vectors, "<i2")
    ends = np.arange(len(raw) + 1, dtype=np.int32) * np.int32(2 * raw.shape[1])
    data = pa.py_buffer(raw.tobytes())
    column = pa.Array.from_buffers(pa.binary(), len(raw), [None, pa.py_buffer(ends.tobytes()), data])
    return pc.if_else(pa.array(np.asarray(raw.any(axis=1))), column, pa.scalar(None, column.type))


def vectors_of(column: pa.Array) -> tuple[Int16s, npt.NDArray[np.bool_]]:
    """Return the vectors of a column of `vector_schema` that are not null, shape (vectors, dimensions), and which these are.

    Raises:
        ValueError: If they are not of one length.
    """
    there = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)
    found = column.drop_null().to_pylist()
    if len({len(one) for one in found}) > 1:
        raise ValueError("vectors of one file are not of one length")
    width = len(found[0]) // 2 if found else 0
    return np.frombuffer(b"".join(found), "<i2").reshape(len(found), width), there


class WordVectors(Stage):
    """The vector that a fastText model gives each document. Holds only the setting that shapes it.

    Attributes:
        model: A local file.
        digest: Its sha256.
    """

    version: ClassVar[int] = 1

    model: str
    digest: str

    def model_digest(self) -> str:
        """Return the sha256 of the model file."""
        return self.digest

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the column of `vector_schema` for the column `text`: same rows, same order."""
        import pyarrow as pa

        from curate.text.fasttext_model import embed, load_model

        vectors = embed(load_model(self.model, self.digest, only_classifier=False), batch["text"])
        if not np.isfinite(vectors).all():
            raise InputError(
                self.model, "the model holds numbers that are not finite.", "Train it again, or fetch it again."
            )
        return pa.RecordBatch.from_arrays([vector_column(stored(vectors))], schema=vector_schema())
