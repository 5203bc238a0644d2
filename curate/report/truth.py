"""What a run did with the planted documents of the demo corpus, beside what it should have done.

The truth table (`truth.jsonl` of the corpus; fields in `curate/read/demo_parts/faults.py`) is written from the design of
each fault. Only planted documents are judged: nobody has labelled the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from curate.errors import InputError
from curate.report.run import RunFolder, read_rows
from curate.text.hashing import document_id

_DECISION_COLUMNS = ("id", "kept", "stage", "rule", "kept_id")


@dataclass(frozen=True, slots=True)
class Miss:
    """A planted document with which the run did something else than expected.

    Attributes:
        document: URL, id in the source, or path.
        expected, found: In words.
        note: What was planted.
    """

    document: str
    expected: str
    found: str
    note: str


@dataclass(frozen=True, slots=True)
class TruthRow:
    """A kind of fault: how many were planted, with how many the run did as expected, and the others."""

    kind: str
    planted: int
    as_expected: int
    misses: tuple[Miss, ...]


def compare_truth(run: Path, truth: Path) -> list[TruthRow]:
    """Compare a run folder with a truth table, kind by kind in the order of the table.

    Args:
        run: The run folder; `decisions/`, `extracted/` and `documents/` are read.
        truth: The file `truth.jsonl` of the corpus that was run.

    Raises:
        InputError: If the table is damaged.
        UsageError: If `run` is no run folder.
    """
    folder = RunFolder.open(run)
    planted = _read(truth)
    ids = [document_id(row["source"], None, row["path"], row["offset"], 0) for row in planted]
    decisions = _rows(folder, "decisions", ids, _DECISION_COLUMNS)
    kept = [name for name in ids if name in decisions and decisions[name]["kept"]]
    texts = {name: row["text"] for name, row in _rows(folder, "documents", kept, ("id", "text")).items()}
    names = _names(folder, {row["expect"]["copy_of"] for row in planted if "copy_of" in row["expect"]})
    kinds: dict[str, list[Miss | None]] = {}
    for row, name in zip(planted, ids, strict=True):
        expect = row["expect"]
        found = _problem(expect, decisions.get(name), texts.get(name), names)
        document = str(row.get("url") or row.get("source_id") or row["path"])
        miss = Miss(document, expected_words(expect), found, row["note"]) if found is not None else None
        kinds.setdefault(row["kind"], []).append(miss)
    return [
        TruthRow(kind, len(found), found.count(None), tuple(miss for miss in found if miss is not None))
        for kind, found in kinds.items()
    ]


def planted(run: Path) -> dict[str, Any] | None:
    """Return the comparison with the truth table that a demo run keeps as truth.jsonl, or None for any other run.

    Returns:
        `planted` and `as_expected` in total, and `kinds`: for each kind the same two numbers and its `misses`.
    """
    truth = run / "truth.jsonl"
    if not truth.is_file() or not (run / "decisions").is_dir():
        return None
    rows = compare_truth(run, truth)
    return {
        "planted": sum(row.planted for row in rows),
        "as_expected": sum(row.as_expected for row in rows),
        "kinds": [asdict(row) for row in rows],
    }


def expected_words(expect: Mapping[str, Any]) -> str:
    """Return an expectation in words: `kept`, `removed by dedup`, `no document`."""
    if expect.get("skipped"):
        return "no document"
    if not expect["kept"]:
        copy = f" as a copy of {expect['copy_of']}" if "copy_of" in expect else ""
        return f"removed in {' or '.join(expect['stage'])}{copy}"
    wanted = [f"with {text!r}" for text in expect.get("text_contains", ())]
    wanted += [f"without {text!r}" for text in expect.get("text_not_contains", ())]
    return ", ".join(("kept", *wanted))


def _problem(
    expect: Mapping[str, Any], decision: Mapping[str, Any] | None, text: str | None, names: Mapping[str, str]
) -> str | None:
    """Return what was found instead of what is expected, or None if it is as expected."""
    if decision is None:
        return None if expect.get("skipped") else "not read"
    if expect.get("skipped"):
        return "counted as a document"
    if decision["kept"]:
        return "kept" if not expect["kept"] else _text_problem(expect, text)
    found = f"removed in {decision['stage']} by {decision['rule']}"
    if expect["kept"] or decision["stage"] not in expect["stage"]:
        return found
    if not str(decision["rule"]).startswith(tuple(expect["rule"])):
        return found
    if "copy_of" in expect and decision["kept_id"] != names.get(expect["copy_of"]):
        return f"{found}, in favour of {decision['kept_id']}"
    return None


def _text_problem(expect: Mapping[str, Any], text: str | None) -> str | None:
    if text is None:
        # A run that stopped before `collect` has decided, but has no texts yet.
        return "kept, its text not written" if "text_contains" in expect or "text_not_contains" in expect else None
    flat = " ".join(text.split())
    missing = [piece for piece in expect.get("text_contains", ()) if " ".join(piece.split()) not in flat]
    left = [piece for piece in expect.get("text_not_contains", ()) if " ".join(piece.split()) in flat]
    problems = [f"without {piece!r}" for piece in missing] + [f"with {piece!r}" for piece in left]
    return "kept, " + ", ".join(problems) if problems else None


def _read(truth: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(truth.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            rows.append({name: row[name] for name in ("source", "path", "offset", "kind", "expect", "note")} | row)
        except (ValueError, KeyError, TypeError) as error:
            remedy = "Delete the demo folder in the cache; it is made again."
            raise InputError(f"{truth}, line {number}", f"no row of a truth table ({error!r}).", remedy) from None
    return rows


def _rows(folder: RunFolder, kind: str, ids: Sequence[str], columns: Sequence[str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for source in folder.sources:
        for path in folder.shards(kind, source):
            found |= read_rows(path, ids, columns)
    return found


def _names(folder: RunFolder, wanted: set[str]) -> dict[str, str]:
    """Return the id of each document whose URL, id in the source, or path is wanted."""
    found: dict[str, str] = {}
    for name, row in _extracted(folder):
        found |= {key: name for key in row if key in wanted and key not in found}
    return found


def _extracted(folder: RunFolder) -> Iterator[tuple[str, tuple[str | None, ...]]]:
    for source in folder.sources:
        for _, table in folder.scan("extracted", source, columns=("id", "url", "source_id", "path")):
            for name, *keys in table.select("id", "url", "source_id", "path").iter_rows():
                yield name, tuple(keys)
