"""Who was removed: counts by language, domain, kind, length and date, against a run folder written by hand."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from report_run import write

from curate.document import DECISION, EXTRACTED
from curate.loading import load
from curate.pipeline import SIZES
from curate.report.rules import idle_rules
from curate.report.run import RunFolder
from curate.report.slices import slices

SHORT, LONG = "gopher_quality.num_words", "dedup.exact"
# language declared, language measured, host, kind, date, bytes, words, rule
ROWS: list[tuple[str | None, str | None, str, str | None, str | None, int, int, str | None]] = [
    ("pt", "en", "https://www.Example.org/a", "article", "2021-03-05", 400, 60, None),
    ("pt", "en", "https://example.org:8080/b", "article", "2021-03-07T01:02:03Z", 600, 90, None),
    (None, "pt", "http://user@other.net/c", "forum", "2021-04-01", 499, 20, SHORT),
    (None, "pt", "http://other.net?c", "forum", None, 500, 30, SHORT),
    ("pt", None, "http://other.net/d", None, "soon", 2_000_000, 90, LONG),
    (None, None, "not an address", None, None, 999, 70, None),
]
GATED = {"id": "g", "kept": False, "stage": "gate", "rule": "gate.status", "url": "https://example.org/404"}
RECIPE = """\
sources:
  web:
    read: {kind: jsonl, paths: x}
    steps:
      - gopher_quality: {min_words: 50, max_words: 90, max_hash_ratio: off}
      - where: "num_words < 1000"
      - language: {keep: [en, pt]}
"""


def folder(path: Path) -> RunFolder:
    """Write a run of one source in two shards."""
    path.mkdir(parents=True)
    (path / "recipe.yaml").write_text(RECIPE)
    (path / "manifest.json").write_text("{}")
    for shard in (0, 1):
        name = f"{shard:05d}.parquet"
        part = [(f"d{place}", row) for place, row in enumerate(ROWS) if place % 2 == shard]
        decided = [
            {
                "id": id, "kept": row[7] is None, "rule": row[7], "url": row[2], "path": "p", "offset": 0, "also_fired": [],
                "stage": None if row[7] is None else "dedup" if row[7] == LONG else "filter",
            }
            for id, row in part
        ]  # fmt: skip
        early = [{**GATED, "path": "p", "offset": 0, "also_fired": []}] if shard else []
        write(path / "decisions" / "web" / name, decided + early, DECISION)
        texts = [
            {
                "id": id, "source": "web", "path": "p", "offset": 0, "text": "never read", "language": row[0],
                "metadata": json.dumps({key: value for key, value in (("kind", row[3]), ("date", row[4])) if value}),
            }
            for id, row in part
        ]  # fmt: skip
        write(path / "extracted" / "web" / name, texts, EXTRACTED)
        write(path / "sizes" / "web" / name, [{"id": id, "bytes": row[5]} for id, row in part], SIZES)
        for block, columns in (
            ("gopher_quality", {"num_words": [row[6] for _, row in part], "hash_ratio": [0.0 for _ in part]}),
            ("language", {"language": pa.array([row[1] for _, row in part], pa.string())}),
        ):
            place = path / "measurements" / "web" / block / name
            place.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": [id for id, _ in part], **columns}), place)
    return RunFolder.open(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return folder(tmp_path_factory.mktemp("slices") / "run")


@pytest.fixture(scope="module")
def tables(run: RunFolder) -> dict[str, dict[str, Any]]:
    return {table["by"]: table for table in slices(run, "web")}


def counts(table: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {row["label"]: (row["read"], row["kept"]) for row in table["rows"]}


def test_every_division_counts_every_document(tables: dict[str, dict[str, Any]]) -> None:
    assert list(tables) == ["language", "domain", "kind", "length", "date"]
    for table in tables.values():
        assert sum(row["read"] for row in table["rows"]) == 7
        assert sum(row["kept"] for row in table["rows"]) == 3


def test_the_measured_language_counts_before_the_declared(tables: dict[str, dict[str, Any]]) -> None:
    assert counts(tables["language"]) == {"pt": (3, 0), "en": (2, 2), "no text": (1, 0), "not stated": (1, 1)}
    pt = tables["language"]["rows"][0]
    assert (pt["stages"], pt["top_rule"], pt["top_documents"]) == ({"dedup": 1, "filter": 2}, SHORT, 2)
    assert (pt["bytes_read"], pt["bytes_kept"], pt["share"]) == (499 + 500 + 2_000_000, 0, 0.0)


def test_domains_are_hosts(tables: dict[str, dict[str, Any]]) -> None:
    assert counts(tables["domain"]) == {"example.org": (3, 2), "other.net": (3, 0), "not stated": (1, 1)}
    assert tables["domain"]["rows"][0]["stages"] == {"gate": 1}


def test_kinds_come_from_the_metadata(tables: dict[str, dict[str, Any]]) -> None:
    assert counts(tables["kind"]) == {"article": (2, 2), "forum": (2, 0), "not stated": (2, 1), "no text": (1, 0)}


def test_lengths_stand_in_order(tables: dict[str, dict[str, Any]]) -> None:
    assert list(counts(tables["length"]).items()) == [
        ("0 to 500 bytes", (2, 1)),
        ("500 to 1,000 bytes", (3, 2)),
        ("1,000,000 bytes and more", (1, 0)),
        ("no text", (1, 0)),
    ]


def test_dates_are_months_or_years(tables: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    assert list(counts(tables["date"]).items()) == [
        ("2021-03", (2, 2)),
        ("2021-04", (1, 0)),
        ("no text", (1, 0)),
        ("not stated", (3, 1)),
    ]
    from polars import DataFrame

    from curate.report.slices import _periods

    months = DataFrame(
        {
            "label": [f"{year}-{month:02d}" for year in (2019, 2020, 2021) for month in range(1, 13)] + ["not stated"],
            "stage": None,
            "rule": None,
            "documents": [1] * 36 + [5],
            "bytes": [2] * 37,
        }
    )
    years = dict(_periods(months).sort("label").select("label", "documents").iter_rows())
    assert years == {"2019": 12, "2020": 12, "2021": 12, "not stated": 5}


def test_small_groups_are_summed_up(tmp_path: Path) -> None:
    run = folder(tmp_path / "run")
    rows = [
        {"id": f"d{n}", "kept": n % 2 == 0, "rule": None if n % 2 == 0 else SHORT, "stage": None if n % 2 == 0 else "filter",
         "url": f"https://site{min(n, 20)}.org/", "path": "p", "offset": n, "also_fired": []}
        for n in range(30)
    ]  # fmt: skip
    write(run.path / "decisions" / "web" / "00000.parquet", rows, DECISION)
    (run.path / "decisions" / "web" / "00001.parquet").unlink()
    table = next(table for table in slices(run, "web") if table["by"] == "domain")
    assert (table["labels"], len(table["rows"])) == (21, 13)
    assert (table["rows"][0]["label"], table["rows"][0]["read"]) == ("site20.org", 10)
    assert (table["rows"][-1]["label"], table["rows"][-1]["read"], table["rows"][-1]["other"]) == ("9 more", 9, True)


def test_what_nothing_is_known_of_is_not_shown(tmp_path: Path) -> None:
    run = folder(tmp_path / "run")
    for path in (run.path / "measurements" / "web" / "language").iterdir():
        path.unlink()
    for path in (run.path / "extracted" / "web").iterdir():
        path.unlink()
    assert [table["by"] for table in slices(run, "web")] == ["domain", "length"]


def test_a_run_without_decisions_has_no_divisions(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    assert slices(RunFolder.open(tmp_path), "web") == []


def test_rules_that_never_fired_say_how_near_a_document_came(run: RunFolder) -> None:
    recipe = load(run.path / "recipe.yaml")
    found = idle_rules(run, recipe, "web", {SHORT: 2})
    never = {row["rule"]: row for row in found["never"]}
    assert list(never)[-3:] == ["where.expression", "language.keep", "language.min_score"]
    assert "gopher_quality.hash_ratio" not in never  # off
    assert SHORT not in never
    where = never["where.expression"]
    assert (where["documents"], where["lowest"], where["highest"]) == (6, 20, 90)
    assert (never["language.keep"]["documents"], never["language.keep"]["lowest"]) == (4, None)
    assert found["always"] == []


def test_rules_that_always_fired_are_named(run: RunFolder) -> None:
    sets = [f"sources.web.steps.gopher_quality.{bound}" for bound in ("min_words=95", "max_words=off")]
    recipe = load(run.path / "recipe.yaml", sets=sets)
    (row,) = idle_rules(run, recipe, "web", {SHORT: 6})["always"]
    assert (row["rule"], row["bound"], row["documents"], row["highest"]) == (SHORT, ">= 95", 6, 90)
