"""The mixture on the page: rows of sources and cells, groups by column, a bar for each stage; and what lacks all that."""

from __future__ import annotations

import re
from typing import Any

from curate.mix.plan import plan_mixture
from curate.mix.settings import Mixture
from curate.report.mixture import drawn_in, stage_bars, tables

WINDOWS = {"web/pt+best": 10, "web/pt+rest": 20, "web/rest+best": 0, "web/rest+rest": 40, "books": 30}


def mixture() -> dict[str, Any]:
    """Stage 1 asks books for 10 and web for 30 of 40 windows, stage 2 for the best of web alone."""
    best = {"by": "quality_bucket", "factors": {"best": {"of": "18-19", "factor": 2}}}
    settings = Mixture(
        weights={"web": 3, "books": 1},
        tokens=500,
        multiply=({"by": "language", "factors": {"pt": 1}, "sources": ("web",)}, {**best, "sources": ("web",)}),
        stages=({"until_tokens": 400}, {"weights": {"web": 1}, "multiply": ({"by": "quality_bucket", "factors": {"best": 1, "*": 0}},)}),
    )  # fmt: skip
    available = {name: 10 * count + 1 if count else 0 for name, count in WINDOWS.items()}
    return plan_mixture(settings, available, window=10, seed=1)


def test_rows_of_sources_cells_axes_and_stages():
    found = tables(mixture())
    assert found is not None
    books, web = found["sources"]
    assert (books["name"], books["cells"], books["idle"], books["row"]["windows_drawn"]) == ("books", [], [], 10)
    # 10 x 2, 20 and 40 of 80: 7.5, 7.5, 15 of 30, largest remainders: 8, 7, 15; then 10 of the best
    assert [(cell, row["windows_drawn"]) for cell, row in web["cells"]] == [
        ("pt+best", 18),
        ("pt+rest", 7),
        ("rest+rest", 15),
    ]
    assert web["idle"] == ["rest+best"]
    assert web["row"]["windows_drawn"] == 40
    assert web["row"]["epochs"] == 40 / 70
    assert {
        name: [(group, row["windows_drawn"]) for group, row in groups] for name, groups in found["axes"].items()
    } == {
        "language": [("pt", 25), ("rest", 15)],
        "quality_bucket": [("best", 18), ("rest", 22)],
    }
    assert found["most"] == 0.8
    assert len(found["stages"]) == 2
    assert [drawn_in(stage, "web")["tokens_drawn"] for stage in found["stages"]] == [300, 100]
    assert found["columns"] == {"repeat": True, "tokens_asked": True, "tokens_repeated": True}


def test_a_bar_has_the_shares_of_its_stage_with_names():
    (asked, drawing), (drawn, _) = stage_bars(mixture()["stages"][0], {"books": "c0", "web": "c1"}.__getitem__)
    assert (asked, drawn) == ("asked", "drawn")
    assert re.findall(r'class="fill (c\d)".*?<title>(.*?)</title>', drawing) == [
        ("c0", "books: 25.0%"), ("c1", "web/pt+best: 18.8%"), ("c1", "web/pt+rest: 18.8%"), ("c1", "web/rest+rest: 37.5%"),
    ]  # fmt: skip


def test_mixtures_of_earlier_versions_and_none():
    entry = {"weight_normalised": 0.5, "weight_realised": 0.5, "tokens_drawn": 10, "tokens_available": 20, "windows_drawn": 1,
             "windows_available": 2, "epochs": 0.5, "cap_hit": False}  # fmt: skip
    found = tables({"sources": {"web/high": entry, "web/low": entry}})
    assert found is not None
    assert (found["sources"][0]["row"]["tokens_drawn"], found["sources"][0]["row"]["epochs"]) == (20, 0.5)
    assert (found["axes"], found["stages"]) == ({}, [])
    assert tables(None) is tables({}) is None
