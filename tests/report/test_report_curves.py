import json
from pathlib import Path

import pytest

from curate.report.curves import MAX_POINTS, band, smooth, thin, training
from curate.report.run import RunFolder


def test_smooth_is_the_mean_of_the_last_steps() -> None:
    rows = {1: (10, 4.0), 2: (20, 2.0), 3: (30, 3.0)}
    assert smooth(rows, 2) == [[1, 10, 4.0], [2, 20, 3.0], [3, 30, 2.5]]
    assert smooth(rows, 1) == [[1, 10, 4.0], [2, 20, 2.0], [3, 30, 3.0]]


def test_thin_keeps_first_and_last() -> None:
    points = [[float(step), 0.0] for step in range(5)]
    assert thin(points, 3) == [[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]]
    assert thin(points, 5) == points


def test_band_spans_the_seeds_where_all_have_a_value() -> None:
    assert band({"0": {1: 1.0, 2: 4.0, 3: 9.0}, "1": {1: 3.0, 2: 2.0}}) == [[1, 2.0, 1.0, 3.0], [2, 3.0, 2.0, 4.0]]
    assert band({"0": {1: 1.0}}) == []


def write_metrics(run: Path, seed: int, lines: list[str]) -> None:
    folder = run / "train" / str(seed)
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (run / "recipe.yaml").touch()


def test_a_step_written_again_after_a_resume_counts_once(tmp_path: Path) -> None:
    lines = [
        {"step": 1, "tokens": 8, "loss": 5.0},
        {"step": 2, "tokens": 16, "loss": 9.0},
        {"step": 2, "tokens": 16, "loss": 4.0},
    ]
    write_metrics(tmp_path, 0, [json.dumps(line) for line in lines])
    result = training(RunFolder.open(tmp_path))
    assert result is not None
    assert result["seeds"][0]["points"] == [[1, 8, 5.0], [2, 16, 4.0]]
    assert result["band"] == []
    assert result["validation"] == {}


def test_a_loss_that_is_not_finite_is_left_out(tmp_path: Path) -> None:
    write_metrics(tmp_path, 0, ['{"step": 1, "tokens": 8, "loss": NaN}', '{"step": 2, "tokens": 16, "loss": 4.0}'])
    result = training(RunFolder.open(tmp_path))
    assert result is not None
    assert result["seeds"][0]["points"] == [[2, 16, 4.0]]


def test_final_values_are_mean_and_sample_deviation(tmp_path: Path) -> None:
    for seed, bits in ((0, 1.0), (1, 2.0), (2, 3.0)):
        first = {"step": 10, "validation": {"web": {"bits_per_byte": 9.0, "loss": 9.0, "perplexity": 9.0}}}
        last = {"step": 20, "validation": {"web": {"bits_per_byte": bits, "loss": 2 * bits, "perplexity": 4.0}}}
        write_metrics(tmp_path, seed, [json.dumps(first), json.dumps(last)])
    result = training(RunFolder.open(tmp_path))
    assert result is not None
    web = result["validation"]["web"]
    assert web["final"]["bits_per_byte"] == {
        "mean": 2.0,
        "standard_deviation": 1.0,
        "seeds": 3,
    }  # variance (1 + 0 + 1) / 2
    assert web["final"]["loss"]["standard_deviation"] == 2.0
    assert web["final"]["perplexity"]["standard_deviation"] == 0.0
    assert web["band"] == [[10, 9.0, 9.0, 9.0], [20, 2.0, 1.0, 3.0]]


def test_curves_of_a_run(run_folder: Path) -> None:
    result = training(RunFolder.open(run_folder))
    assert result is not None
    assert result["smoothing"] == 8  # 400 logged steps / 50
    assert [entry["seed"] for entry in result["seeds"]] == ["0", "1", "2"]
    assert all(len(entry["points"]) == MAX_POINTS for entry in result["seeds"])
    assert all(entry["last_loss"] < entry["first_loss"] for entry in result["seeds"])
    assert list(result["validation"]) == ["web", "code", "books"]


def test_nothing_trained(run_copy: Path) -> None:
    for path in run_copy.glob("train/*/metrics.jsonl"):
        path.write_text("")
    assert training(RunFolder.open(run_copy)) is None


@pytest.mark.parametrize("line", ["[1, 2]", '"text"'])
def test_a_line_that_is_no_object_is_passed_over(tmp_path: Path, line: str) -> None:
    write_metrics(tmp_path, 0, [line, '{"step": 1, "tokens": 8, "loss": 5.0}'])
    result = training(RunFolder.open(tmp_path))
    assert result is not None
    assert result["seeds"][0]["points"] == [[1, 8, 5.0]]
