"""Scores are the library's, bounds keep both ends, and a model is read as its card or the recipe says, never as both."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from curate.cache import stage_key
from curate.errors import InputError
from curate.filter.classifier import digest_of
from curate.filter.quality import Quality
from curate.filter.topic import Topic

GOOD = "the lock keeper wrote the toll in a green book"
BAD = "buy now cheap best price for you"


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Return a model file of the library's own training, with the labels of DCLM's: hq and cc."""
    import ctypes

    import fasttext

    folder = tmp_path_factory.mktemp("dclm")
    words = {"hq": GOOD.split(), "cc": BAD.split()}
    lines = [
        f"__label__{label} " + " ".join(some[(row + place) % len(some)] for place in range(5))
        for row in range(200)
        for label, some in words.items()
    ]
    (folder / "train.txt").write_text("\n".join(lines) + "\n")
    ctypes.CDLL(None).mallopt(-6, 255)  # M_PERTURB: fastText 0.9.3 trains on memory that it never set; this sets it
    try:
        trained = fasttext.train_supervised(
            str(folder / "train.txt"), dim=8, wordNgrams=2, bucket=100, thread=1, verbose=0, lr=0.5
        )
    finally:
        ctypes.CDLL(None).mallopt(-6, 0)
    trained.save_model(str(folder / "dclm.bin"))
    return folder / "dclm.bin"


def scores(step: Quality, *texts: str | None) -> list[float]:
    return step.apply(pa.record_batch({"text": pa.array(texts, pa.large_string())}))[step.column].to_pylist()


def test_the_score_is_the_librarys_probability_of_the_label(model):
    import fasttext

    library = fasttext.load_model(str(model))
    texts = [GOOD, BAD, f"{GOOD}\nand {BAD}", "unseen", "the\u2028lock\r\nkeeper"]
    for label in ("hq", "cc"):
        found = scores(Quality(model=str(model), label=label), *texts)
        for text, value in zip(texts, found, strict=True):
            line = " ".join(text.strip().splitlines())  # as dclm's fasttext_filter does
            [expected] = [
                share for share, name in library.f.predict(line + "\n", 2, 0.0, "strict") if name == f"__label__{label}"
            ]
            assert value == pytest.approx(min(expected, 1.0), abs=1e-6)
    assert scores(Quality(model=str(model), label="hq"), "", "  \n", None) == [0.0, 0.0, 0.0]


def test_dclms_bound_keeps_what_equals_it(model):
    # dclm baselines_configs/fasttext_filter.yaml: 0.018112
    [rule] = Quality(model=str(model), label="hq", min_score=0.018112).rules("quality")
    assert (rule.name, rule.column, rule.at_least, rule.at_most) == (
        "quality.min_score",
        "quality_score",
        0.018112,
        None,
    )
    from curate.pipeline import evaluate

    values = pa.chunked_array(
        [[math.nextafter(0.018112, 0), 0.018112, math.nextafter(0.018112, 1), None]], pa.float64()
    )
    assert evaluate(rule, {"quality_score": values}, 4).mask.tolist() == [True, False, False, False]


def test_several_scores_stand_side_by_side(model):
    assert Quality(model=str(model), label="hq", column="edu_score").adds == {"edu_score": "float64"}
    for column in ("Edu", "1st", "a b", ""):
        with pytest.raises(ValidationError, match="column"):
            Quality(model=str(model), column=column)


def test_one_bound_at_a_time(model):
    with pytest.raises(ValidationError, match="leave one of them out"):
        Quality(model=str(model), min_score=0.5, keep_top=0.1)
    assert Quality(model=str(model), min_score="off", keep_top=0.1).rules("q")[0].name == "q.keep_top"
    assert Quality(model=str(model)).rules("q") == ()
    for share in (0, 1, -0.1, 10, True, "most"):
        with pytest.raises(ValidationError, match="must lie between 0 and 1"):
            Quality(model=str(model), keep_top=share)
    labels = Quality(model=str(model), keep_top={"en": 0.1, "*": 0.3})
    assert labels.rules("q")[0].by == "language"


def test_a_model_without_a_card_needs_its_label_and_one_with_a_card_none(model, tmp_path):
    assert "Say `label: hq`" in Quality(model=str(model)).file_problem()
    assert Quality(model=str(model), label="hq").file_problem() == ""
    with pytest.raises(InputError, match="has no label 'good'; it has"):
        scores(Quality(model=str(model), label="good"), GOOD)
    (tmp_path / "model.bin").write_bytes(model.read_bytes())
    card = {"model": {"file": "model.bin"}, "reading": {"text": "line", "score": {"hq": 1.0}}}
    (tmp_path / "card.json").write_text(json.dumps(card))
    for path in (tmp_path, tmp_path / "model.bin"):
        assert scores(Quality(model=str(path)), GOOD) == scores(Quality(model=str(model), label="hq"), GOOD)
        assert "Leave `label` and `text` out" in Quality(model=str(path), label="hq").file_problem()
        assert "Leave `text` out" in Topic(model=str(path), text="line").file_problem()
    card["reading"]["score"] = {}
    (tmp_path / "card.json").write_text(json.dumps(card))
    assert "none of them is a number" in Quality(model=str(tmp_path)).file_problem()
    assert Topic(model=str(tmp_path)).file_problem() == ""
    (tmp_path / "card.json").write_text(
        '{"model": {"file": "model.bin"}, "reading": {"text": "upside down", "score": {}}}'
    )
    assert "upside down" in Quality(model=str(tmp_path)).file_problem()


def test_an_expected_number_is_a_mean_of_the_labels(model, tmp_path):
    (tmp_path / "model.bin").write_bytes(model.read_bytes())
    card = {"model": {"file": "model.bin"}, "reading": {"text": "line", "score": {"hq": 4.0, "cc": 1.0}}}
    (tmp_path / "card.json").write_text(json.dumps(card))
    texts = [GOOD, BAD, "unseen"]
    good = np.array(scores(Quality(model=str(model), label="hq"), *texts))
    bad = np.array(scores(Quality(model=str(model), label="cc"), *texts))
    np.testing.assert_allclose(
        scores(Quality(model=str(tmp_path)), *texts), (4 * good + bad) / (good + bad), rtol=1e-12
    )


def test_the_key_follows_the_content_of_model_and_card(model, tmp_path):
    (tmp_path / "model.bin").write_bytes(model.read_bytes())
    step = Quality(model=str(tmp_path / "model.bin"), label="hq")
    before = stage_key(step)
    assert before == stage_key(Quality(model=str(model), label="hq"))  # by content, wherever it lies
    assert before == stage_key(step.model_copy(update={"min_score": 0.5, "keep_top": None}))  # a bound measures nothing
    assert before != stage_key(step.model_copy(update={"label": "cc"}))
    card = {"model": {"file": "model.bin"}, "reading": {"text": "folded", "score": {"hq": 1.0}}}
    (tmp_path / "card.json").write_text(json.dumps(card))
    assert digest_of(str(tmp_path)) != digest_of(str(model))


def test_topic_is_the_likeliest_label(model):
    step = Topic(model=str(model), column="kind", keep="hq", min_score={"hq": 0.9})
    found = step.apply(pa.record_batch({"text": pa.array([GOOD, BAD, " ", None], pa.large_string())}))
    assert found["kind"].to_pylist() == ["hq", "cc", "unknown", "unknown"]
    assert found["kind_score"].to_pylist()[2:] == [0.0, 0.0]
    assert min(found["kind_score"].to_pylist()[:2]) > 0.5
    assert [rule.name for rule in step.rules("topic")] == ["topic.keep", "topic.min_score"]
    assert step.rules("topic")[1].by == "kind"
