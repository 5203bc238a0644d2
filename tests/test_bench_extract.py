"""The extraction benchmark: what it makes of scores, times and confidences, and its processes on a real page."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from curate.extract.auto.training.gold import GoldPage

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


def load(name: str) -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


bench, tables = load("bench_extract"), load("extract_tables")


def gold(place: int, text: str, *, set_name: str = "wcxb", site: str = "a", html: str = "<p>x") -> GoldPage:
    return GoldPage(set_name, f"{set_name}/{place}", "", "en", "", html.encode(), html, text, (), (), site)


def test_a_failure_counts_nothing_and_stays_in_the_denominator() -> None:
    pages = [gold(0, "one two"), gold(1, "one two"), gold(2, "", set_name="trafilatura")]
    scores = bench.scores_of(pages, {"wcxb/0": {"text": "one three"}, "wcxb/1": {"text": ""}})
    assert scores == {"wcxb/0": (0.5, 0.5, 0.5), "wcxb/1": (0.0, 0.0, 0.0)}  # a page of snippets has no F1


def test_ratios_are_of_the_same_pages_in_the_same_round() -> None:
    ours = [{"seconds": {"a": 1.0, "b": 3.0}, "ready": 5.0}, {"seconds": {"a": 2.0, "b": 1.0}, "ready": 7.0}]
    slow = [{"seconds": {"a": 10.0}, "ready": 1.0}, {"seconds": {"b": 40.0}, "ready": 1.0}]
    found = bench.compare_speed(slow, ours)
    assert (found["least"], found["ratio"], found["most"]) == (10, 25, 40)  # a: 10 to 1, b: 40 to 1, of its own round
    assert found["pooled"] == 25  # 50 s to 2 s
    assert found["all_rounds"] == pytest.approx(2 / 50)
    own = bench.compare_speed(ours, ours)
    assert (own["ratio"], own["pooled"], own["timed"], own["ready"]) == (1, 1, 4, 6)
    assert own["each_round"] == pytest.approx((2 / 4 + 2 / 3) / 2)


def test_difference_is_drawn_by_site() -> None:
    pages = [gold(place, "one", site="ab"[place > 2]) for place in range(4)]
    scores = {"auto": {page.id: (0, 0, 0.9) for page in pages}, "peer": {page.id: (0, 0, 0.5) for page in pages}}
    scores["peer"]["wcxb/3"] = (0, 0, 0.9)
    found = bench.difference(pages, scores, "peer")
    assert found["mean"] == pytest.approx(0.3)  # three pages .4 better, one level
    # Two sites: a draw is a twice, b twice, or one of each; the two first are far more than 2.5% of the draws.
    assert (found["low"], found["high"], found["sites"]) == (pytest.approx(0), pytest.approx(0.4), 2)


def test_confidence_by_bands() -> None:
    pages = [gold(place, "one two") for place in range(4)]
    scores = {f"wcxb/{place}": (0.0, 0.0, f1) for place, f1 in enumerate((0.2, 0.6, 1.0, 0.8))}
    texts = {f"wcxb/{place}": {"confidence": told} for place, told in enumerate((0.5, 0.55, 1.0, None))}
    found = bench.judge_confidence(pages, scores, texts)
    assert found["bands"] == [
        {"low": 0.5, "high": 0.6, "pages": 2, "true": pytest.approx(0.4), "below_half": 0.5},  # .5 is inside
        {"low": 0.95, "high": 1.0, "pages": 1, "true": 1.0, "below_half": 0.0},  # so is 1
    ]
    correlation = found["correlation"]["wcxb"]
    assert correlation["pages"] == 3  # a page without a confidence is not counted
    assert correlation["ranks"] == pytest.approx(1)
    # Deviations (-.55, -.4, .95) / 3 and (-.4, 0, .4): .2 / sqrt(1.365 / 9 * .32).
    assert correlation["r"] == pytest.approx(0.2 / (1.365 / 9 * 0.32) ** 0.5)


def test_groups() -> None:
    pages = [replace(gold(place, "one two"), kind="forum", language="?") for place in range(5)]
    pages += [replace(gold(5, ""), set="trafilatura", id="t", wanted=("a b", "c"), unwanted=("d",))]
    pages += [bench.as_gb18030(replace(gold(6, "one two", set_name="zh_handcrafted"), language="?"))]
    texts = {page.id: {"text": "one two", "error": "", "confidence": 0.9} for page in pages}
    texts["t"] |= {"text": "x ab d"}
    texts["wcxb/0"] |= {"text": "", "error": "TimeoutError: 60 s"}
    texts["wcxb/1"] |= {"text": "\n"}
    found = bench.summarise(pages, {"auto": texts, "trafilatura": texts})
    three_of_five = {"pages": 5, "auto": [0.6] * 3, "trafilatura": [0.6] * 3}
    assert found["set"]["wcxb"] == found["kind"]["forum"] == three_of_five
    assert found["language"] == {"not declared": three_of_five}  # the copy as GB18030 would be the sixth
    assert found["set"][bench.AS_GB18030]["auto"] == [1.0, 1.0, 1.0]
    assert found["snippets"] == {"trafilatura": {"pages": 1, "auto": [0.5, 1.0], "trafilatura": [0.5, 1.0]}}
    assert found["failures"]["auto"] == {"error": 1, "no text": 1}


def test_a_page_as_gb18030_says_so() -> None:
    html = '<meta http-equiv="Content-Type" content="text/html; charset=UTF-8"><p>中文'
    page = bench.as_gb18030(gold(0, "中文", set_name="zh_handcrafted", html=html))
    assert page.content.decode("gb18030") == html.replace("UTF-8", "gb18030")
    assert b"\xd6\xd0\xce\xc4" in page.content  # GB 2312, rows 54 and 46
    assert page.id != "zh_handcrafted/0"


def test_digest_sees_bytes_gold_and_snippets() -> None:
    page = gold(0, "one")
    others = [gold(0, "two"), gold(0, "one", html="<p>y"), gold(1, "one")]
    assert len({bench.digest_of([one]) for one in (page, *others)}) == 4
    assert bench.digest_of([page, others[2]]) == bench.digest_of([others[2], page])


@pytest.mark.parametrize(("times", "word"), [(19.99, "**missed**"), (20.0, "met")])
def test_targets_are_judged_at_their_edge(times: float, word: str) -> None:
    sets = {name: {"auto": (0, 0, bound)} for name, bound in tables.BOUNDS}
    snippets = {"trafilatura": {"auto": (0.9, 0.08), "trafilatura": (0.91, 0.08)}}
    speed = {"trafilatura": {"pooled": times}, "resiliparse": {"pooled": 1.5}}
    found = {row[0]: row[3] for row in tables.targets_of({"set": sets, "snippets": snippets}, speed)}
    assert found.pop("CPU of trafilatura / ours, all rounds") == word
    assert found.pop("snippets, wanted found") == "**missed**"
    assert set(found.values()) == {"met"}


def test_figures() -> None:
    assert [tables.figure(value) for value in (0.0, 0.8666, 1.0)] == [".000", ".867", "1.000"]


PROSE = "The ferry leaves the harbour at noon, and it is the only one that crosses the strait before the winter. " * 3
HTML = (
    "<html lang=en><title>Ferries</title><body><nav><ul><li><a href=/>Home</a><li><a href=/b>Boats</a></ul></nav>"
    f"<article><h1>Ferries</h1><p>{PROSE}</p><p>Second: {PROSE}</p></article></body></html>"
)


@pytest.mark.parametrize("name", ["trafilatura", "trafilatura, fast", "resiliparse", "jusText"])
@pytest.mark.parametrize("kind", ["bytes", "decoded"])
def test_a_peer_reads_a_page_and_outlives_a_bad_one(tmp_path: Path, name: str, kind: str) -> None:
    pages = [gold(0, "", html=HTML), gold(1, "", html=HTML)]
    rows = bench.write_pages(pages, tmp_path)
    for suffix in (".html", ".txt"):
        Path(rows[0]["path"]).with_suffix(suffix).unlink()
    lost, found = (json.loads(line) for line in bench.call(sys.executable, "extract", rows, name, kind).splitlines())
    assert "Second: The ferry leaves the harbour at noon" in found["text"]
    assert "Boats" not in found["text"]
    assert (found["error"], lost["text"]) == ("", "")
    assert lost["error"].startswith("FileNotFoundError")


def test_texts_of_a_peer_are_kept_while_pages_and_versions_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = bench.write_pages([gold(0, "", html=HTML)], tmp_path / "pages")
    calls: list[Any] = []
    real = bench.call

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(bench, "call", counted)
    for stamp in ({"pages": "1"}, {"pages": "1"}, {"pages": "2"}):
        found = bench.peer_texts(tmp_path, sys.executable, "resiliparse", "bytes", {}, rows, stamp)
        assert "Second" in found["wcxb/0"]["text"]
    assert len(calls) == 2


def test_timing_leaves_the_first_pages_out(tmp_path: Path) -> None:
    pages = [gold(0, "", set_name="readability", html=HTML), gold(1, "", html=HTML)]
    rows = bench.write_pages(pages, tmp_path)
    found = SimpleNamespace(**json.loads(bench.call(sys.executable, "time", rows, "resiliparse")))
    assert list(found.seconds) == ["wcxb/1"]
    assert 0 < found.seconds["wcxb/1"] < found.ready
