"""report.json: every number that the page shows, read from the run folder alone.

Two runs of one recipe over the same inputs give the same report but for the section `timings`.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curate.report.contamination import contamination
from curate.report.copies import edits, quarantine
from curate.report.curves import training
from curate.report.domains import domains
from curate.report.duplicates import duplicates
from curate.report.faults import faults
from curate.report.fertility import fertility
from curate.report.funnel import balance, count_decisions, funnel, removed_samples
from curate.report.rules import idle_rules, resolved_recipe
from curate.report.run import RunFolder
from curate.report.slices import slices
from curate.report.spread import spreads
from curate.report.truth import planted

FORMAT = 1
MAX_FILES = 50  # of one source in the list of inputs; the manifest holds all
MAX_LANGUAGES = 12


def build_report(path: Path) -> dict[str, Any]:
    """Return what the page shows of the run folder at `path`, as plain JSON values in a stable order.

    Raises:
        UsageError: If `path` is no run folder.
        InputError: If one of its files is damaged.
    """
    run = RunFolder.open(path)
    manifest = run.manifest
    seed = int(manifest.get("seed", run.recipe.get("seed", 0)) or 0)
    counted = {source: count_decisions(run, source, seed) for source in run.sources}
    funnels = {source: funnel(run, source, counted[source]) for source in run.sources}
    checks = {source: balance(run, source, funnels[source], counted[source]) for source in run.sources}
    recipe = resolved_recipe(run)
    report = {
        "format": FORMAT,
        "recipe": manifest.get("recipe") or run.recipe.get("name"),
        "seed": seed,
        "curate": manifest.get("curate"),
        "python": manifest.get("python"),
        "reproducible": manifest.get("reproducible"),
        "limit": manifest.get("limit"),
        "sample": manifest.get("sample"),
        "warnings": list(manifest.get("warnings", [])),
        "funnel": funnels,
        "balance": checks,
        "planted": planted(path),
        "balanced": all(check["holds"] for rows in checks.values() for check in rows),
        "samples": removed_samples(run, counted, funnels),
        "idle_rules": {source: idle_rules(run, recipe, source, counted[source].fired) for source in run.sources},
        "slices": {source: slices(run, source) for source in run.sources},
        "measurements": {source: spreads(run, recipe, source, counted[source].fired) for source in run.sources},
        "duplicates": duplicates(run, seed, recipe),
        "contamination": contamination(run),
        "edits": edits(run),
        **{
            name: dict(manifest.get(name) or {}) for name in ("repeated_lines", "repeated_spans", "earlier", "semantic")
        },
        "rewritten": dict(manifest.get("rewritten") or {}),
        "quarantine": quarantine(run),
        "documents": {source: documents(run, source) for source in run.sources},
        "validation": dict(manifest.get("validation") or {}),
        "tokenizer": tokenizer(run),
        "fertility": fertility(run),
        "tokens": {stream: entry for stream in run.streams if (entry := tokens(run, stream))},
        "mixture": run.json("mixture.json") or None,
        "training": training(run),
        "domains": domains(run),
        "faults": faults(run),
        "canaries": dict(manifest.get("canaries") or {}),
        "stages": dict(manifest.get("stages", {})),
        "inputs": {source: inputs(entry) for source, entry in manifest.get("inputs", {}).items()},
        "libraries": dict(sorted(manifest.get("libraries", {}).items())),
        "recipe_text": run.recipe_text,
        "timings": timings(run),
    }
    report["result"] = result(report)
    plain: dict[str, Any] = _plain(report)
    return plain


def write_report(path: Path) -> None:
    """Write report.json and report.html into the run folder; each appears whole or not at all."""
    from curate.report.page import render

    report = build_report(path)
    _write(path / "report.json", json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    _write(path / "report.html", render(report))


def _write(path: Path, content: str) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8", "backslashreplace"))
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def result(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run in one line: documents and bytes read and kept, tokens, tokens drawn for training."""
    funnels = report["funnel"].values()

    def total(name: str) -> int | None:
        values = [entry[name] for entry in funnels]
        return sum(values) if values and all(value is not None for value in values) else None

    mixture = report["mixture"] or {}
    drawn = [entry.get("tokens_drawn") for entry in mixture.get("sources", {}).values()]
    counts = report["tokens"].values()
    return {
        "sources": len(report["funnel"]),
        "documents_read": total("read"),
        "documents_kept": total("kept"),
        "bytes_read": total("bytes_read"),
        "bytes_kept": total("bytes_kept"),
        "tokens": sum(entry["tokens"] for entry in counts) if counts else None,
        "training_tokens": sum(value for value in drawn if value) if drawn else None,
        "seeds": len(report["training"]["seeds"]) if report["training"] else 0,
    }


def documents(run: RunFolder, source: str) -> dict[str, Any] | None:
    """Return kept documents by split and by language; None before the corpus was collected."""
    if not (run.path / "documents" / source).is_dir():
        return None
    splits: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    for _, frame in run.scan("documents", source, columns=("split", "language")):
        for name, counts in (("split", splits), ("language", languages)):
            if name in frame.columns:
                for value, count in frame[name].value_counts().iter_rows():
                    counts["unknown" if value is None else str(value)] += count
    ordered = sorted(languages, key=lambda language: (-languages[language], language))
    shown = {language: languages[language] for language in ordered[:MAX_LANGUAGES]}
    if rest := sum(languages[language] for language in ordered[MAX_LANGUAGES:]):
        shown[f"{len(ordered) - MAX_LANGUAGES} more"] = rest
    return {"splits": dict(sorted(splits.items())), "languages": shown}


def tokenizer(run: RunFolder) -> dict[str, Any] | None:
    """Return what the manifest and the tokenizer's card say; None without a tokenizer."""
    card: dict[str, Any] = {}
    for path in sorted((run.path / "tokenizer").glob("*card*.json")):
        card |= run.json(f"tokenizer/{path.name}")
    entry = card | dict(run.manifest.get("tokenizer") or {})
    return {key: value for key, value in entry.items() if key != "fertility"} or None


def tokens(run: RunFolder, source: str) -> dict[str, Any] | None:
    """Return tokens, documents and bytes of a stream's shards, by split and together; None before encoding."""
    manifest = run.json(f"tokens/{source}/manifest.json")
    if not manifest:
        return None
    splits: dict[str, Counter[str]] = {}
    for shard in manifest["shards"]:
        splits.setdefault(shard["split"], Counter()).update(
            {key: shard[key] for key in ("tokens", "documents", "bytes")}
        )
    total: Counter[str] = Counter()
    for counts in splits.values():
        total.update(counts)
    return {
        **{key: total[key] for key in ("tokens", "documents", "bytes")},
        "bytes_per_token": total["bytes"] / total["tokens"] if total["tokens"] else None,
        "tokens_per_document": total["tokens"] / total["documents"] if total["documents"] else None,
        "shards": len(manifest["shards"]),
        "splits": {split: dict(splits[split]) for split in sorted(splits)},
        **{key: manifest.get(key) for key in ("dtype", "vocab_size", "eos_id", "tokenizer_sha256")},
    }


def inputs(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input files of a source: count, bytes, the first of them with their digests, and what the recipe states."""
    files = list(entry.get("files", []))
    return {
        "num_files": len(files),
        "bytes": sum(int(file.get("bytes") or 0) for file in files),
        "files": files[:MAX_FILES],
        "licence": entry.get("licence"),
        "provenance": entry.get("provenance"),
        "removal_lists": _removal_lists(entry.get("remove") or {}),
    }


def _removal_lists(lists: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each removal list of a source: of what, how many distinct entries, from which files."""
    return [
        {"of": name, "entries": one.get("distinct"), "files": [file["path"] for file in one["files"]][:MAX_FILES]}
        for name, one in lists.items()
    ]


def timings(run: RunFolder) -> dict[str, Any]:
    """Return all that may differ between two runs of one recipe: time, memory, machine, command, tasks run and reused."""
    train = {seed: (run.json_lines(f"train/{seed}/timings.jsonl") or [{}])[-1] for seed in run.seeds()}
    return {**run.json("timings.json"), "train": train}


def _plain(value: Any) -> Any:
    """Return JSON values: what is not finite becomes null, since JSON knows neither NaN nor infinity."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
