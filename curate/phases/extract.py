"""Extract: records read, gated, decoded, reduced to main text and repaired. One result a shard: text revision 0."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from curate.document import EXTRACTED, REMOVED_EARLY
from curate.errors import CurateError, InputError, StageError
from curate.gate import Gate
from curate.inputs import InputFile, Part, is_remote, open_part
from curate.ledger import balance
from curate.phases.removal import open_lists
from curate.pipeline import SIZES, Call, Failure, ParquetFile, guarded, removal, replace_text, rows_written, text_bytes
from curate.plan import TaskContext
from curate.remote import NotInRanges
from curate.stage import Extractor, Repair, Source
from curate.text.hashing import choice_hash, document_id

_VISIBLE = r"[^\s\p{Z}\p{C}\p{M}]|\p{Co}"  # anything but white space, controls, format characters and lone marks
_MOST_WARNINGS = 20  # per shard: the ledger has them all, the manifest names some


@dataclass(frozen=True, slots=True)
class ExtractSettings:
    """What extract does with one source.

    Attributes:
        source: Name of the source.
        reader, gate, extractor, repair: The stages; the last two may be None.
        extractor_key, repair_key: Keys of these stages, under which quarantined documents are remembered.
        limit: Documents to read at most from the shard, or None.
        sample: Share of the documents that is read at all, drawn by (seed, id), or None.
        seed: Of the recipe.
        lists: Key of the compiled lists of `gate.remove`, or None.
    """

    source: str
    reader: Source
    gate: Gate
    extractor: Extractor | None
    repair: Repair | None
    extractor_key: str
    repair_key: str
    limit: int | None
    sample: float | None
    seed: int
    lists: str | None = None


@dataclass(slots=True)
class _Counts:
    read: int = 0
    bytes_read: int = 0
    payload: int = 0
    without_url: int = 0  # counted where addresses are listed
    skipped: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)  # made, over all documents
    repaired: Counter[str] = field(default_factory=Counter)  # documents in which one was made
    warnings: list[str] = field(default_factory=list)


def extract_shard(context: TaskContext, key: str, settings: ExtractSettings, parts: Sequence[Part]) -> None:
    """Write result `key`: extracted.parquet (EXTRACTED), removed.parquet (REMOVED_EARLY), sizes.parquet, and counts."""
    counts = _Counts()
    for stage in (settings.reader, settings.extractor, settings.repair):
        if stage is not None:
            stage.prepare()
    with context.writing(key) as output:
        extracted_path, removed_path = output.path("extracted.parquet"), output.path("removed.parquet")
        with (
            ParquetFile(extracted_path, EXTRACTED) as extracted,
            ParquetFile(removed_path, REMOVED_EARLY) as removed,
            ParquetFile(output.path("sizes.parquet"), SIZES) as sizes,
        ):
            for part in parts:
                if settings.limit is not None and counts.read >= settings.limit:
                    break
                for batch in _records(context, settings, part):
                    good, bad = _process(context, settings, part.file, batch, counts)
                    removed.write_rows(bad)
                    extracted.write(good)
                    sizes.write(pa.record_batch([good["id"], pa.array(text_bytes(good["text"]))], schema=SIZES))
                    if settings.limit is not None and counts.read >= settings.limit:
                        break
                _unchanged(context, part.file)
        written = {"extracted": rows_written(extracted_path), "removed": rows_written(removed_path)}
        balance(settings.source, "extract", "documents", counts.read, written, parts[0].file.path if parts else "")
        output.counts |= {
            "read": counts.read,
            "extracted": written["extracted"],
            "bytes_read": counts.bytes_read,
            "payload": counts.payload,
            "without_url": counts.without_url,
            "skipped": dict(sorted(counts.skipped.items())),
            "removed": dict(sorted(counts.removed.items())),
            "repairs": dict(sorted(counts.repairs.items())),
            "repaired": dict(sorted(counts.repaired.items())),
            "warnings": counts.warnings,
        }


def _unchanged(context: TaskContext, file: InputFile) -> None:
    """Raise InputError if a local file's content is no longer what its key says: the result would be filed under a lie."""
    if not is_remote(file.url) and context.cache.digest(Path(file.url)) != file.digest:
        raise InputError(file.url, "it changed while it was read.", "Let its writer finish, then run again.")


def _records(context: TaskContext, settings: ExtractSettings, part: Part) -> Iterator[pa.RecordBatch]:
    name = part.file.path
    sparing = settings.limit is not None
    with context.scratch() as folder, open_part(part, folder, sparing=sparing) as stream:
        try:
            if part.is_whole:
                yield from settings.reader.read(stream, name)
            else:
                yield from settings.reader.read_part(stream, name, part.start, part.stop)
        except CurateError:
            raise
        except NotInRanges as error:
            problem = "its server gave ranges of it before and gives none now."
            raise InputError(part.file.url, problem, "Run again, or name a local copy.") from error
        except Exception as error:
            raise StageError(
                settings.source,
                "read",
                name,
                f"{type(error).__name__}: {error}",
                "Check that `kind` fits the file, or take the file out of `paths`.",
            ) from error


def _process(
    context: TaskContext, settings: ExtractSettings, file: InputFile, batch: pa.RecordBatch, counts: _Counts
) -> tuple[pa.RecordBatch, list[dict[str, Any]]]:
    """Take one RAW batch through gate, extraction and repair.

    Returns:
        Rows of EXTRACTED, and rows of REMOVED_EARLY; together they are the documents of the batch.
    """
    batch = _with_surroundings(_documents(batch, counts), file.around)
    ids = [
        document_id(settings.source, file.pattern, file.path, offset, part)
        for offset, part in zip(batch["offset"].to_pylist(), batch["part"].to_pylist(), strict=True)
    ]
    chosen = list(range(batch.num_rows))
    if settings.sample is not None:
        bound = int(settings.sample * 2**64)
        chosen = [row for row in chosen if choice_hash(settings.seed, ids[row], "sample") < bound]
    if settings.limit is not None:
        chosen = chosen[: settings.limit - counts.read]
    if len(chosen) < batch.num_rows:
        batch, ids = batch.take(pa.array(chosen, pa.int64())), [ids[row] for row in chosen]
    counts.read += batch.num_rows
    counts.payload += int(text_bytes(batch["content"]).sum() + text_bytes(batch["text"]).sum())

    bad: dict[int, dict[str, Any]] = {}
    _read_problems(batch, ids, bad, file, counts)
    rest = [row for row in range(batch.num_rows) if row not in bad]
    if rest:
        lists = open_lists(context, settings.lists)
        asked = batch.take(pa.array(rest, pa.int64()))
        counts.without_url += asked["url"].null_count if lists is not None and lists.urls is not None else 0
        for row, stopped in zip(rest, settings.gate.check(asked, [ids[row] for row in rest], lists), strict=True):
            if stopped is not None:
                bad[row] = removal(ids[row], "gate", stopped[0], value=stopped[1], threshold=stopped[2])
    good = _texts(context, settings, batch, ids, bad, counts)
    for row, record in bad.items():
        record |= {"url": batch["url"][row].as_py(), "path": file.path, "offset": batch["offset"][row].as_py()}
        counts.removed[f"{record['stage']}/{record['rule']}"] += 1
    rows = [row for row in range(batch.num_rows) if row not in bad]
    kept = good.take(pa.array(rows, pa.int64()))
    counts.bytes_read += int(text_bytes(kept["text"]).sum())
    columns = {
        "id": pa.array([ids[row] for row in rows], pa.string()),
        "source": pa.array([settings.source] * len(rows), pa.string()),
        "path": pa.array([file.path] * len(rows), pa.string()),
        "payload": _digests(batch["content"], rows),
    }
    arrays = [columns[name] if name in columns else kept[name] for name in EXTRACTED.names]
    return pa.RecordBatch.from_arrays(
        [array.cast(want.type) for array, want in zip(arrays, EXTRACTED, strict=True)], schema=EXTRACTED
    ), [bad[row] for row in sorted(bad)]


def _digests(content: pa.Array, rows: Sequence[int]) -> pa.Array:
    """Return the digest of the content of each of these rows (see EXTRACTED.payload), null where there is none."""
    buffers = (content[row].as_buffer() for row in rows)
    return pa.array([None if one is None else xxhash.xxh3_128_hexdigest(one) for one in buffers], pa.string())


def _documents(batch: pa.RecordBatch, counts: _Counts) -> pa.RecordBatch:
    """Count what never is a document and leave it out."""
    rules = batch["rule"].to_pylist()
    skipped = [rule is not None and rule.startswith("skipped.") for rule in rules]
    if not any(skipped):
        return batch
    counts.skipped.update(rule.removeprefix("skipped.") for rule, skip in zip(rules, skipped, strict=True) if skip)
    return batch.filter(pc.invert(pa.array(skipped)))


def _with_surroundings(batch: pa.RecordBatch, around: str) -> pa.RecordBatch:
    """Add what the folders around a file say of it to the metadata of its documents, which go before it."""
    if not around:
        return batch
    known = json.loads(around)
    rows = zip(batch["rule"].to_pylist(), batch["metadata"].to_pylist(), strict=True)
    merged = [
        own if rule else json.dumps(known | json.loads(own or "{}"), ensure_ascii=False, separators=(",", ":"))
        for rule, own in rows
    ]
    column = batch.schema.get_field_index("metadata")
    return batch.set_column(column, batch.schema.field(column), pa.array(merged, pa.large_string()))


def _read_problems(
    batch: pa.RecordBatch, ids: Sequence[str], bad: dict[int, dict[str, Any]], file: InputFile, counts: _Counts
) -> None:
    for row, rule in enumerate(batch["rule"].to_pylist()):
        if rule is not None:
            detail = batch["detail"][row].as_py() or ""
            bad[row] = removal(ids[row], "read", rule, value=detail)
            if len(counts.warnings) < _MOST_WARNINGS:
                place = "" if file.path in detail else f"{file.path}, at {batch['offset'][row].as_py()}: "
                counts.warnings.append(f"{rule}: {place}{detail}")


def _texts(
    context: TaskContext,
    settings: ExtractSettings,
    batch: pa.RecordBatch,
    ids: Sequence[str],
    bad: dict[int, dict[str, Any]],
    counts: _Counts,
) -> pa.RecordBatch:
    """Return the batch with text revision 0 in `text`; rows without one are added to `bad`."""
    rows = [row for row in range(batch.num_rows) if row not in bad]
    batch = batch.set_column(batch.schema.get_field_index("language"), "language", batch["language"].cast(pa.string()))
    if settings.extractor is not None and rows:
        some = batch.take(pa.array(rows, pa.int64()))
        schema = pa.schema(
            [("text", pa.large_string()), ("language", pa.large_string()), ("metadata", pa.large_string())]
        )
        call = Call(settings.source, "extract", settings.extractor_key, settings.extractor.extract, schema)
        result, failures = guarded(call, some, [ids[row] for row in rows], context)
        _note_failures("extract", rows, ids, failures, bad)
        for name in ("text", "language", "metadata"):
            batch = _put(batch, name, rows, result[name])
    _note_empty(batch, ids, bad)
    rows = [row for row in range(batch.num_rows) if row not in bad]
    if settings.repair is not None and rows:
        some = batch.take(pa.array(rows, pa.int64()))
        schema = pa.schema([("text", pa.large_string()), ("repairs", pa.map_(pa.string(), pa.int64()))])
        call = Call(settings.source, "repair", settings.repair_key, settings.repair.repair, schema)
        result, failures = guarded(call, some, [ids[row] for row in rows], context)
        _note_failures("repair", rows, ids, failures, bad)
        batch = _put(batch, "text", rows, result["text"])
        repairs = result["repairs"].to_pylist()
        metadata = batch["metadata"].to_pylist()
        for row, made in zip(rows, repairs, strict=True):
            if made:
                counts.repairs.update(dict(made))
                counts.repaired.update(kind for kind, _ in made)
                noted = json.loads(metadata[row] or "{}") | {"repairs": dict(made)}
                metadata[row] = json.dumps(noted, ensure_ascii=False)
        batch = batch.set_column(
            batch.schema.get_field_index("metadata"), "metadata", pa.array(metadata, pa.large_string())
        )
        _note_empty(batch, ids, bad)
    return replace_text(batch, batch["text"].cast(pa.large_string()))


def _put(batch: pa.RecordBatch, name: str, rows: Sequence[int], values: pa.Array) -> pa.RecordBatch:
    """Return the batch with the values of some rows replaced."""
    place = pa.array(range(batch.num_rows), pa.int64()).to_numpy().copy()
    place[list(rows)] = batch.num_rows + pa.array(range(len(rows)), pa.int64()).to_numpy()
    both = pa.concat_arrays([batch[name].cast(values.type), values])
    return batch.set_column(batch.schema.get_field_index(name), name, both.take(pa.array(place)))


def _note_failures(
    block: str, rows: Sequence[int], ids: Sequence[str], failures: dict[int, Failure], bad: dict[int, dict[str, Any]]
) -> None:
    for index, failure in failures.items():
        row = rows[index]
        if failure.stage == "quarantine":
            bad[row] = removal(ids[row], "quarantine", f"quarantine.{block}", value=failure.message)
        else:
            bad[row] = removal(ids[row], "extract", f"{block}.error", value=failure.message)


def _note_empty(batch: pa.RecordBatch, ids: Sequence[str], bad: dict[int, dict[str, Any]]) -> None:
    visible = pc.match_substring_regex(pc.fill_null(batch["text"], ""), _VISIBLE).to_pylist()
    for row, shown in enumerate(visible):
        if not shown and row not in bad:
            why = json.loads(batch["metadata"][row].as_py() or "{}").get("no_text")
            bad[row] = (
                removal(ids[row], "extract", "extract.no_text", value=str(why), threshold="text")
                if why
                else removal(ids[row], "extract", "extract.empty", value=0, threshold=">= 1")
            )
