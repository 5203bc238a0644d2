import json
from pathlib import Path

from curate.report.collect import write_report

DIFFERENCE = {"of": ["leaked", "clean"], "items": [3, 3], "bits_per_byte": -1.25, "low": -2.5, "high": -0.125}


def test_gold_answers_stand_beside_the_validation(run_copy: Path) -> None:
    write_report(run_copy)
    assert "Gold answers" not in (run_copy / "report.html").read_text()
    assert json.loads((run_copy / "report.json").read_text())["training"]["answers"] == {}

    groups = {"leaked": {"items": 3, "bits_per_byte": 0.75}, "clean": {"items": 3, "bits_per_byte": 2.0}}
    path = run_copy / "train" / "0" / "summary.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"answers": {"groups": groups, "difference": DIFFERENCE}})
    )
    write_report(run_copy)
    page = (run_copy / "report.html").read_text()
    for cell in ("<td>leaked</td>", "0.75", "<td>leaked less clean</td>", "−1.25 (−2.5 to −0.125)"):
        assert cell in page
    assert "LEAKED ON PURPOSE" not in page  # answers of a run that leaked none

    manifest = json.loads((run_copy / "manifest.json").read_text())
    manifest["canaries"] = {"documents": 12, "tokens": 3456, "bytes": 9, "benchmarks": {}}
    (run_copy / "manifest.json").write_text(json.dumps(manifest))
    write_report(run_copy)
    assert "LEAKED ON PURPOSE: 12 documents of 3,456 tokens" in (run_copy / "report.html").read_text()
    assert json.loads((run_copy / "report.json").read_text())["canaries"] == manifest["canaries"]
