"""What of a run is exported: its sources, splits and files, looked at before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from curate.cache import sha256_file
from curate.errors import InputError, UsageError
from curate.report.run import RunFolder, count_rows
from curate.tokens.shard import TokenSource

CANARIES = "canaries"  # the stream of tokens that the phase encode plants
SPLITS = ("train", "validation")
_SHOWN = 5  # absent files that a message names
AGAIN = "Run the recipe again, or restore the file from where it was written."


@dataclass(frozen=True)
class Selection:
    """The part of a run that an export holds.

    Canaries, benchmark items that a recipe leaks into training on purpose, are no source: they are exported where they are
    asked for by name, or with the order of training.

    Attributes:
        run: The run folder.
        sources: Names, in the run's order.
        splits: `train`, `validation` or both.
    """

    run: RunFolder
    sources: tuple[str, ...]
    splits: tuple[str, ...]

    @classmethod
    def of(cls, path: Path, sources: Sequence[str], split: str | None) -> Selection:
        """Return what `--source` and `--split` choose of a finished run.

        Raises:
            UsageError: If there is no such run, it is not finished, or has no such source.
        """
        run = RunFolder.open(path)
        canaries = canaries_of(run)
        again = "Run its recipe again: what is finished stays."
        if not (path / "manifest.json").is_file():
            raise UsageError(
                f"{path}: this run is not finished: it has no manifest.json, which is written last. {again}"
            )
        if not reached(run, "collect"):
            raise UsageError(
                f"{path}: this run ended before its documents were collected. Run its recipe without --until."
            )
        collected = tuple(
            name
            for name in run.sources
            if _has_documents(run, name) or _has_tokens(run, name) or (kept_of(run, name) and not _is_tokens(run, name))
        )
        unknown = [name for name in sources if name not in collected]
        if unknown:
            raise UsageError(f"--source {unknown[0]}: the run has no such source. It has: {', '.join(collected)}.")
        chosen = tuple(name for name in collected if (name in sources if sources else name != canaries))
        return cls(run, chosen, SPLITS if split is None else (split,))

    @cached_property
    def with_documents(self) -> tuple[str, ...]:
        """Sources with texts; token files that a recipe reads have none, nor have canaries."""
        return tuple(name for name in self.sources if _has_documents(self.run, name))

    @property
    def holds_canaries(self) -> bool:
        """Whether the stream of canaries was asked for by name."""
        return canaries_of(self.run) in self.sources

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """Token streams of the sources: `<source>`, or `<source>/<group>` where the mixture divides one."""
        return tuple(name for name in self.run.streams if name.partition("/")[0] in self.sources)

    def tokens(self, stream: str, split: str) -> TokenSource:
        """Open a stream's tokens.

        Raises:
            InputError: If a file is absent or damaged.
        """
        return TokenSource.open(self.run.path / "tokens" / stream, split)

    def documents(self, source: str) -> tuple[Path, ...]:
        """Return the Parquet files of a source's documents."""
        return self.run.shards("documents", source)

    @cached_property
    def state(self) -> dict[str, Any]:
        """Digests of what the export is made from; documents by size, their counts are held against the manifest."""
        names = ["manifest.json", "recipe.yaml", "mixture.json", "tokenizer/card.json"]
        names += [f"tokens/{stream}/manifest.json" for stream in self.streams]
        digests = {name: sha256_file(self.run.path / name) for name in names if (self.run.path / name).is_file()}
        sizes = {
            str(path.relative_to(self.run.path)): path.stat().st_size
            for source in self.with_documents
            for path in self.documents(source)
        }
        return {"digests": digests, "sizes": sizes}


def canaries_of(run: RunFolder) -> str | None:
    """Return the name of the stream of a run's canaries, or None if none were leaked."""
    return CANARIES if run.manifest.get("canaries") and _has_tokens(run, CANARIES) else None


def reached(run: RunFolder, phase: str) -> bool:
    """Return whether a run went on to a phase; `--until` ends it before."""
    return phase in (run.manifest.get("stages") or {})


def kept_of(run: RunFolder, source: str) -> int:
    """Return the number of a source's documents that the ledger has as kept; 0 of what it does not name."""
    return int((run.manifest.get("ledger") or {}).get(source, {}).get("kept", 0))


def _is_tokens(run: RunFolder, source: str) -> bool:
    """Return whether the recipe reads a source from token files, of which a run has no texts."""
    settings = (run.recipe.get("sources") or {}).get(source) or {}
    return (settings.get("read") or {}).get("kind") == "tokens"


def _has_documents(run: RunFolder, source: str) -> bool:
    return bool(run.shards("documents", source))


def _has_tokens(run: RunFolder, source: str) -> bool:
    return any(stream.partition("/")[0] == source for stream in run.streams)


def check_documents(selection: Selection) -> None:
    """Hold the document files of each source against the run's ledger, before anything is read or written.

    Raises:
        InputError: If a source's files are absent, all or some, or hold another number of documents; what is absent is named.
    """
    run = selection.run
    for source in selection.sources:
        kept = kept_of(run, source)
        if not kept or _is_tokens(run, source):
            continue
        folder = run.path / "documents" / source
        files = selection.documents(source)
        there = {path.name for path in files}
        absent = [
            path.name for path in run.shards("decisions", source) if path.name not in there
        ]  # a file each a shard
        found = sum(count_rows(path) for path in files)
        if not files:
            problem = f"has no file of documents, manifest.json says {kept:,} documents."
        elif found != kept:
            lacks = (
                f" Absent: {', '.join(absent[:_SHOWN])}{' and more' if len(absent) > _SHOWN else ''}." if absent else ""
            )
            problem = f"holds {found:,} documents, manifest.json says {kept:,}.{lacks}"
        else:
            continue
        raise InputError(str(folder), problem, AGAIN)


def check_tokens(selection: Selection) -> None:
    """Hold the token streams of each source against the run's ledger.

    Raises:
        InputError: If a source's streams are absent, all or some, or hold another number of documents.
    """
    run = selection.run
    for source in selection.sources:
        kept = kept_of(run, source)
        if not kept:
            continue
        streams = [name for name in selection.streams if name.partition("/")[0] == source]
        found = sum(selection.tokens(name, split).num_documents for name in streams for split in SPLITS)
        if found != kept:
            problem = f"holds {found:,} documents" if streams else "has no file of ids"
            raise InputError(
                str(run.path / "tokens" / source), f"{problem}, manifest.json says {kept:,} documents.", AGAIN
            )


def check_rows(selection: Selection, source: str, documents: int, num_bytes: int) -> None:
    """Compare what a source's document files hold with the run's ledger.

    Raises:
        InputError: If they do not agree.
    """
    entry = selection.run.manifest.get("ledger", {}).get(source)
    if entry is None:
        return
    place = str(selection.run.path / "documents" / source)
    for what, found, expected in (
        ("documents", documents, int(entry["kept"])),
        ("bytes of text", num_bytes, int(entry["bytes"]["kept"])),
    ):
        if found != expected:
            raise InputError(place, f"holds {found:,} {what}, manifest.json says {expected:,}.", AGAIN)
