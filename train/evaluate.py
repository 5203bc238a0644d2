"""Validation: the code length of each document, and what it comes to by source, by domain and by language."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curate.tokens.shard import TokenSource
from train.config import TrainError
from train.data import IntArray, ValidationData
from train.scoring import Row, Scored

# validation.parquet: one row for each document that was validated on, source by source, in the order of its shards.
RECORDS = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("domain", pa.string()),
        pa.field("language", pa.string()),
        pa.field("tokens", pa.int64(), nullable=False),  # EOS included
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("nats", pa.float64(), nullable=False),  # of all its tokens
    ]
)
# A domain or language with fewer documents, or a smaller share of the source's bytes, is part of OTHER: its score would be
# chance. What decides are the documents alone, so that all runs on one validation set have the same domains.
MIN_DOCUMENTS = 5
MIN_SHARE = 0.01
OTHER = "other"
NOT_STATED = "not stated"

FloatArray = npt.NDArray[np.float64]
Division = Literal["domain", "language"]
Table = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Score:
    """Result on one validation set.

    Attributes:
        loss: Nats per token, EOS included.
        perplexity: e^loss.
        bits_per_byte: Bits per UTF-8 byte of the documents; comparable between tokenizers.
    """

    loss: float
    perplexity: float
    bits_per_byte: float

    def __str__(self) -> str:
        return f"{self.loss:.4f} ({self.bits_per_byte:.4f} bits/byte)"


def score(*, nats: float, num_tokens: int, num_bytes: int) -> Score:
    """Return the three figures from a code length.

    Bits per byte (Gao et al. 2020, arXiv:2101.00027) are all nats, those of the EOS targets included, over ln 2 and over the
    UTF-8 bytes of the documents; an EOS has no byte of its own, so telling where a document ends counts as its cost.

    Args:
        nats: Code length of all targets.
        num_tokens: Targets, EOS included.
        num_bytes: UTF-8 bytes of the documents.

    Raises:
        ValueError: If there is no token or no byte.
        TrainError: If the code length is not finite, or its perplexity exceeds what a float holds.
    """
    if num_tokens < 1 or num_bytes < 1:
        raise ValueError(f"a validation set needs tokens and bytes, has {num_tokens} and {num_bytes}")
    loss = nats / num_tokens
    if not math.isfinite(loss) or loss > 700.0:  # e^709.8 is the largest float64
        raise TrainError(f"the validation loss is {loss}: the model has diverged. Lower `lr` or raise `warmup_tokens`.")
    return Score(loss, math.exp(loss), nats / math.log(2) / num_bytes)


def document_nats(data: ValidationData, score_rows: Callable[[Sequence[Row]], list[Scored]]) -> FloatArray:
    """Return the code length in nats of each document, its EOS included; shape (documents,).

    Args:
        data: The validation set of one source.
        score_rows: Returns what the model makes of rows.
    """
    documents, rows = [], []
    for document, before, tokens in data.windows():
        documents.append(document)
        rows.append(Row(before, tokens, f"validation document {data.source.document_ids[document]}"))
    nats = np.array([one.nats for one in score_rows(rows)])
    return np.bincount(documents, weights=nats, minlength=data.source.num_documents).astype(np.float64)


def source_score(source: TokenSource, nats: FloatArray) -> Score:
    """Return the score of a whole source: over all its tokens and bytes, whatever their domain."""
    return score(nats=float(nats.sum()), num_tokens=source.num_tokens, num_bytes=int(source.document_bytes.sum()))


def table(source: TokenSource, nats: FloatArray, division: Division) -> Table:
    """Return documents, tokens, bytes, loss and bits per byte by domain or language, the largest first, OTHER last."""
    lengths = _lengths(source)
    found: Table = {}
    for label, rows in _groups(source, division).items():
        sizes = {"tokens": int(lengths[rows].sum()), "bytes": int(source.document_bytes[rows].sum())}
        one = score(nats=float(nats[rows].sum()), num_tokens=sizes["tokens"], num_bytes=sizes["bytes"])
        found[label] = {"documents": len(rows), **sizes, "loss": one.loss, "bits_per_byte": one.bits_per_byte}
    return found


def _groups(source: TokenSource, division: Division) -> dict[str, IntArray]:
    """Return the documents of each label; documents of OTHER that have no byte together are left out."""
    found: dict[str, list[int]] = {}
    for document, labels in enumerate(source.document_labels):
        found.setdefault(getattr(labels, division) or NOT_STATED, []).append(document)
    sizes = {label: int(source.document_bytes[rows].sum()) for label, rows in found.items()}
    small = [x for x, rows in found.items() if x == OTHER or not _is_large(len(rows), sizes[x], source.num_bytes)]
    order = sorted(found.keys() - set(small), key=lambda label: (-sizes[label], label))
    groups = {label: np.array(found[label], dtype=np.int64) for label in order}
    if sum(sizes[label] for label in small):
        groups[OTHER] = np.array(sorted(row for label in small for row in found[label]), dtype=np.int64)
    return groups


def macro(by_domain: Table) -> float:
    """Return the mean of the domains' bits per byte, each counted the same, however large it is.

    OTHER counts if it is as large as a domain has to be, or if there is nothing else.
    """
    total = sum(one["bytes"] for one in by_domain.values())
    large = [one for one in by_domain.values() if _is_large(one["documents"], one["bytes"], total)]
    return statistics.fmean(one["bits_per_byte"] for one in large or by_domain.values())


def _is_large(documents: int, num_bytes: int, total: int) -> bool:
    return documents >= MIN_DOCUMENTS and num_bytes >= max(1.0, MIN_SHARE * total)


def line(validation: Mapping[str, ValidationData], nats: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Return what a validation line says beside the sources' scores: those of domains, and the mean over them.

    `macro_bits_per_byte` is the mean over sources of the mean over their domains.
    """
    tables = {name: table(part.source, nats[name], "domain") for name, part in validation.items()}
    return {
        "domains": {
            name: {label: {key: one[key] for key in ("loss", "bits_per_byte")} for label, one in rows.items()}
            for name, rows in tables.items()
        },
        "macro_bits_per_byte": statistics.fmean(macro(rows) for rows in tables.values()),
    }


def write(path: Path, validation: Mapping[str, ValidationData], nats: Mapping[str, FloatArray]) -> None:
    """Write a row for each document (`RECORDS`); the file appears whole or not at all."""
    parts = [RECORDS.empty_table()]
    for name, part in validation.items():
        source = part.source
        columns = {
            "source": [name] * source.num_documents,
            "id": source.document_ids,
            "domain": [labels.domain for labels in source.document_labels],
            "language": [labels.language for labels in source.document_labels],
            "tokens": _lengths(source),
            "bytes": source.document_bytes,
            "nats": nats[name],
        }
        parts.append(pa.table(columns, schema=RECORDS))
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        pq.write_table(pa.concat_tables(parts), file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def summary(path: Path, validation: Mapping[str, ValidationData]) -> dict[str, Any]:
    """Return what summary.json says of the documents in the file that `write` left."""
    if not validation:
        return {}
    try:
        records = pq.read_table(path, columns=["source", "nats"])
    except (OSError, pa.ArrowException) as error:
        raise TrainError(f"{path}: cannot be read ({error}). Empty the output folder to train anew.") from error
    owners, values = np.array(records["source"].to_pylist()), records["nats"].to_numpy()
    nats = {name: values[owners == name] for name in validation}
    tables = {
        name: {f"by_{by}": table(part.source, nats[name], by) for by in ("domain", "language")}
        for name, part in validation.items()
    }
    return {
        "macro_bits_per_byte": line(validation, nats)["macro_bits_per_byte"],
        "domains": {name: {"macro_bits_per_byte": macro(rows["by_domain"]), **rows} for name, rows in tables.items()},
    }


def _lengths(source: TokenSource) -> IntArray:
    return np.diff(source.document_ends, prepend=0)
