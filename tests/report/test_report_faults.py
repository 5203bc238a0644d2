"""Faults of training in the report: which documents a skipped step read."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from curate.report.collect import write_report
from curate.report.faults import MAX_DOCUMENTS, MAX_STEPS


def append(run: Path, seed: int, *lines: dict) -> None:
    with (run / "train" / str(seed) / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def fault(*windows: tuple[str, list[str]]) -> dict:
    read = [{"source": source, "window": 3, "documents": ids} for source, ids in windows]
    return {
        "reason": "loss exploded",
        "loss": 9.5,
        "loss_bound": 7.25,
        "grad_norm": 1.5,
        "grad_norm_bound": 3.0,
        "windows": read,
    }


def test_skipped_steps_name_their_documents(run_copy: Path) -> None:
    write_report(run_copy)
    assert json.loads((run_copy / "report.json").read_text())["faults"] is None
    assert "Faults of training" not in (run_copy / "report.html").read_text()

    rows = pq.read_table(next((run_copy / "documents" / "web").glob("*.parquet"))).to_pylist()[:2]
    first, second = (row["id"] for row in rows)
    append(run_copy, 1, {"step": 7, "skipped": fault(("web/en", [first, second]), ("web/en", [second, "no-such"]))})
    append(run_copy, 1, {"step": 9, "rolled_back": {"to": 4, "first_jumped": 5, "last_jumped": 9}})
    write_report(run_copy)
    found = json.loads((run_copy / "report.json").read_text())["faults"]
    assert (found["skipped"], found["steps"][0]["documents_read"]) == (1, 3)
    assert found["rollbacks"] == [{"seed": "1", "step": 9, "to": 4, "first_jumped": 5, "last_jumped": 9}]
    told = found["steps"][0]["documents"]
    assert [one["id"] for one in told] == [first, second, "no-such"]
    assert told[0]["place"] == (rows[0]["url"] or rows[0]["path"])
    assert told[0]["text"] == " ".join(rows[0]["text"].split())[:160]
    assert told[2]["text"] == ""
    page = (run_copy / "report.html").read_text()
    assert "Seed 1, step 7: loss exploded (loss 9.5, at most 7.25; gradient 1.5, at most 3); 3 documents read" in page
    assert "steps 5 to 9 left no trace" in page


def test_many_faults_are_counted_and_some_are_shown(run_copy: Path) -> None:
    many = [f"<script>{number}</script>" for number in range(MAX_DOCUMENTS + 5)]
    append(run_copy, 0, *({"step": step, "skipped": fault(("web", many))} for step in range(MAX_STEPS + 3)))
    write_report(run_copy)
    found = json.loads((run_copy / "report.json").read_text())["faults"]
    assert (found["skipped"], len(found["steps"]), len(found["steps"][0]["documents"])) == (
        43,
        MAX_STEPS,
        MAX_DOCUMENTS,
    )
    page = (run_copy / "report.html").read_text()
    assert "5 more stand in metrics.jsonl" in page
    assert "3 more skipped steps stand in metrics.jsonl" in page
    assert "<script>0" not in page
