import json
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.report.funnel import SAMPLES_PER_RULE, balance, count_decisions, funnel, removed_samples
from curate.report.run import RunFolder

WEB_REMOVED = 41  # 2+3+4 +5+6+2+3+1+2 +3 +4+5 +1
WEB_KEPT = 34


def test_counts_of_a_source(run_folder: Path) -> None:
    counted = count_decisions(RunFolder.open(run_folder), "web", 17)
    assert (counted.read, counted.kept) == (WEB_REMOVED + WEB_KEPT, WEB_KEPT)
    assert counted.removed["filter", "gopher_quality.num_words"] == 6
    assert counted.alone["filter", "gopher_quality.num_words"] == 0  # each also fired two others
    assert counted.alone["filter", "language.keep"] == 5
    assert counted.fired["where.expression"] == 2 + 6 + 1  # as the reason, and besides num_words and the hostile rule
    assert counted.bounds["filter", "language.keep"] == {"in en, pt": 5}


def test_funnel_stands_in_the_order_of_decision(run_folder: Path) -> None:
    run = RunFolder.open(run_folder)
    entry = funnel(run, "web", count_decisions(run, "web", 17))
    assert [stage["stage"] for stage in entry["stages"]] == [
        "read",
        "gate",
        "extract",
        "filter",
        "decontaminate",
        "dedup",
        "validation",
    ]
    rules = [row["rule"] for row in entry["stages"][3]["rules"]]
    assert rules[1:] == [  # the unknown block first, then as the recipe's steps stand
        "language.keep",
        "gopher_quality.num_words",
        "gopher_quality.mean_word_length",
        "gopher_repetition.duplicate_lines",
        "where.expression",
    ]
    assert entry["stages"][3]["documents"] == 5 + 6 + 2 + 3 + 1 + 2
    assert entry["skipped"] == {"request": 4, "warcinfo": 1}
    row = entry["stages"][1]["rules"][0]
    assert (row["rule"], row["documents"], row["share"], row["bounds"]) == (
        "gate.status",
        3,
        pytest.approx(3 / 75),
        ["in 200"],
    )


def test_every_check_holds_on_a_sound_run(run_folder: Path) -> None:
    run = RunFolder.open(run_folder)
    for source in run.sources:
        counted = count_decisions(run, source, 17)
        checks = balance(run, source, funnel(run, source, counted), counted)
        assert len(checks) == 5
        assert all(check["holds"] for check in checks)


@pytest.mark.parametrize(
    ("place", "broken"),
    [
        (("kept",), ["documents read = kept + removed", "documents kept = rows in documents/"]),
        (("read",), ["documents read = kept + removed", "documents read = rows in decisions/"]),
        (("bytes", "cut"), ["bytes read = kept + removed + cut"]),
        (
            ("removed", "gate", "gate.status"),
            ["documents read = kept + removed", "documents by stage and rule = those in decisions/"],
        ),
    ],
)
def test_a_number_off_by_one_is_found(run_copy: Path, place: tuple[str, ...], broken: list[str]) -> None:
    manifest = json.loads((run_copy / "manifest.json").read_text())
    cell = manifest["ledger"]["web"]
    for key in place[:-1]:
        cell = cell[key]
    cell[place[-1]] += 1
    (run_copy / "manifest.json").write_text(json.dumps(manifest))
    run = RunFolder.open(run_copy)
    counted = count_decisions(run, "web", 17)
    checks = balance(run, "web", funnel(run, "web", counted), counted)
    assert [check["statement"] for check in checks if not check["holds"]] == broken
    assert all(abs(check["difference"]) == 1 for check in checks if not check["holds"])


def test_a_lost_row_on_disk_is_found(run_copy: Path) -> None:
    path = run_copy / "documents" / "web" / "00000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    run = RunFolder.open(run_copy)
    counted = count_decisions(run, "web", 17)
    checks = balance(run, "web", funnel(run, "web", counted), counted)
    assert [(check["statement"], check["difference"]) for check in checks if not check["holds"]] == [
        ("documents kept = rows in documents/", -1)
    ]


def test_without_a_ledger_the_decisions_are_counted(run_copy: Path) -> None:
    run = RunFolder.open(run_copy)
    with_ledger = funnel(run, "web", count_decisions(run, "web", 17))
    (run_copy / "manifest.json").unlink()
    run = RunFolder.open(run_copy)
    counted = count_decisions(run, "web", 17)
    without = funnel(run, "web", counted)
    assert (without["read"], without["kept"]) == (with_ledger["read"], with_ledger["kept"])
    assert [(stage["stage"], stage["documents"]) for stage in without["stages"]] == [
        (stage["stage"], stage["documents"]) for stage in with_ledger["stages"]
    ]
    assert without["bytes_read"] is None
    assert all(check["holds"] for check in balance(run, "web", without, counted))


def samples_of(path: Path) -> list[dict[str, object]]:
    run = RunFolder.open(path)
    counted = {source: count_decisions(run, source, 17) for source in run.sources}
    return removed_samples(run, counted, {source: funnel(run, source, counted[source]) for source in run.sources})


def test_samples_tell_why_and_show_the_text(run_folder: Path) -> None:
    groups = {(group["source"], group["rule"]): group for group in samples_of(run_folder)}
    group = groups["web", "gopher_quality.num_words"]
    assert len(group["samples"]) == SAMPLES_PER_RULE
    for row in group["samples"]:
        assert (row["value"], row["bound"]) == (23.0, "50 to 100000")
        assert row["also_fired"] == ["where.expression", "gopher_quality.mean_word_length"]
        assert row["excerpt"]["text"].startswith("</script><script>")
    gate = groups["web", "gate.status"]["samples"][0]
    assert gate["excerpt"] is None
    assert gate["url"].startswith("https://example.org/web/")
    assert groups["web", "language.keep"]["samples"][0]["value_label"] == "fr"


def test_samples_do_not_depend_on_shards_or_their_order(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path(shutil.copytree(run_folder, tmp_path / "other"))
    generator = random.Random(3)
    for kind in ("decisions", "extracted"):
        for folder in (other / kind).iterdir():
            rows = pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])
            order = {row: generator.random() for row in sorted(rows["id"].to_pylist())}
            for path in folder.glob("*.parquet"):
                path.unlink()
            places = sorted(range(rows.num_rows), key=lambda place: order[rows["id"][place].as_py()])
            pq.write_table(rows.take(places), folder / "00007.parquet")
    monkeypatch.setattr("curate.report.run.SCAN_ROWS", 5)
    assert samples_of(other) == samples_of(run_folder)
