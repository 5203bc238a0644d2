import json
from pathlib import Path

import pytest
from scipy.stats import binomtest

from curate.report.collect import write_report
from curate.report.tasks import judged, wilson

TASK = {"version": 1, "items": 20, "cut": 3, "accuracy": 0.5, "accuracy_bytes": 0.75, "bits_per_byte": 1.25,
        "metric": "accuracy_bytes", "chance": 0.5, "score": 0.75, "centred": 0.5, "standard_error": 0.2}  # fmt: skip


def test_an_interval_is_wilsons() -> None:
    # Newcombe 1998 (Statistics in Medicine 17), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15 / 148, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0, 0.1611), abs=5e-5)
    assert wilson(1 / 29, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)


def test_a_score_is_tested_against_chance() -> None:
    found = judged(TASK)  # 15 of 20: 21,700 of 2^20 tosses are as good
    assert found["p"] == pytest.approx(21700 / 2**20)
    assert found["p"] == pytest.approx(binomtest(15, 20, 0.5, alternative="greater").pvalue)
    assert found["told"]
    assert (found["low"], found["high"]) == pytest.approx([2 * end - 1 for end in wilson(0.75, 20)])
    assert not judged(TASK | {"score": 0.7, "centred": 0.4})["told"]  # 14 of 20: 60,460 of 2^20
    assert judged(TASK | {"score": 0.0, "centred": -1.0})["p"] == 1
    # No blind guess tells the last word of a text.
    assert judged(TASK | {"metric": "exact", "chance": 0.0, "score": 0.05, "centred": 0.05})["told"]
    assert not judged(TASK | {"metric": "exact", "chance": 0.0, "score": 0.0, "centred": 0.0})["told"]
    # What cannot tell answers apart gets half of each: 10.5 of 21 are 10.
    assert judged(TASK | {"items": 21, "score": 0.5})["p"] == pytest.approx(
        binomtest(10, 21, 0.5, alternative="greater").pvalue
    )


def test_tasks_stand_beside_the_validation(run_copy: Path) -> None:
    write_report(run_copy)
    assert json.loads((run_copy / "report.json").read_text())["training"]["tasks"] is None
    assert "Tasks after the last step" not in (run_copy / "report.html").read_text()
    path = run_copy / "train" / "0" / "summary.json"
    blind = TASK | {"score": 0.5, "centred": 0.0, "cut": 0, "bits_per_byte": 3.5}
    mean = {"tasks": 2, "centred": 0.25, "standard_error": 0.1}
    scores = {"tasks": {"quiz": TASK, "blind": blind}, "tasks_mean": mean, "tasks_groups": {"pt": mean}}
    path.write_text(json.dumps(json.loads(path.read_text()) | scores))
    manifest = json.loads((run_copy / "manifest.json").read_text())
    manifest["tasks"] = {"quiz": {"mapping": "arc", "passed_over": {"no choices": 7}, "seams_merged": 0, "items": 20}}
    (run_copy / "manifest.json").write_text(json.dumps(manifest))
    write_report(run_copy)
    told = json.loads((run_copy / "report.json").read_text())["training"]["tasks"]
    assert list(told["tasks"]) == ["quiz", "blind"]
    quiz = told["tasks"]["quiz"]
    assert (quiz["passed_over"], quiz["cut"], quiz["seeds"]["0"]["told"]) == ({"no choices": 7}, 3, True)
    assert told["means"]["all tasks"]["0"]["high"] == pytest.approx(0.25 + 1.96 * 0.1, abs=1e-5)
    assert set(told["means"]) == {"all tasks", "pt"}
    page = (run_copy / "report.html").read_text()
    for text in ('<td class="num">0.5 (', '<td class="num quiet">0 (', "likeliest per byte", "1.25 bits/byte",
                 "of 3 items only the end of the prompt fits the context. Passed over: 7 no choices."):  # fmt: skip
        assert text in page
    unseen = "Not looked for in the training data, which may hold their answers"
    assert unseen not in page  # an earlier version's run does not tell
    manifest["tasks"]["quiz"]["looked_for"] = False
    manifest["tasks"]["blind"] = {"passed_over": {}, "looked_for": True}
    (run_copy / "manifest.json").write_text(json.dumps(manifest))
    write_report(run_copy)
    assert f"{unseen}: <bdi>quiz</bdi>. Name the same files" in (run_copy / "report.html").read_text()
