"""The report on duplicates: who was removed in favour of whom, the collision curve, and every kind's table; hostile text is text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from report_run import HOSTILE_TEXT, write

from curate.dedup.settings import MinHash
from curate.document import DECISION, EARLIER, SEMANTIC
from curate.report.chart import collision
from curate.report.collect import build_report
from curate.report.duplicates import collision_curve
from curate.report.page import render

SCRIPT = "</td><script>alert('dup')</script>"
FACTS: dict[str, Any] = {
    "repeated_spans": {
        "action": "cut",
        "min_tokens": 50,
        "looked_at": 71,
        "spans": 13,
        "most": [{"documents": 9, "tokens": 217, "id": "0" * 32, "first_id": "1" * 32, "text": SCRIPT, "url": SCRIPT}],
    },
    "earlier": {
        "similarity": 0.8,
        "pairs": 4321,
        "permutations": 112,
        "standard_error": 0.0378,
        "runs": [{"run": f"old/{SCRIPT}", "sha256": "0", "documents": 8765, "exact": 19, "near": 23}],
        "crowded_keys": 3,
        "pairs_left_out": 29,
    },
    "semantic": {"looked_at": 67, "without": 5, "similarity": 0.95, "dimensions": 64, "clusters": 7, "largest": 31},
    "repeated_lines": {
        "looked_at": 61,
        "documents": 11,
        "lines": 37,
        "bytes": 4100,
        "most": [{"text": SCRIPT, "documents": 41, "of": 59, "url": None, "id": "2" * 32}],
    },
}


@pytest.fixture
def every_kind(run_copy: Path) -> Path:
    """Make the small run one in which documents of the source web went by rules of every kind."""
    manifest = json.loads((run_copy / "manifest.json").read_text())
    (run_copy / "manifest.json").write_text(json.dumps(manifest | FACTS | {"dedup": {"compared": 97}}))
    rules = iter(["dedup.url", "dedup.payload", "dedup.semantic", "dedup.earlier"])
    books = pl.read_parquet(run_copy / "documents" / "books" / "00000.parquet")["id"][0]
    for path in sorted((run_copy / "decisions" / "web").glob("*.parquet")):
        rows = pl.read_parquet(path).to_dicts()
        for row in rows:
            if row["rule"] == "dedup.minhash" and (rule := next(rules, None)):
                row["rule"] = rule
                row["kept_id"] = "e" * 32 if rule == "dedup.earlier" else books
                row["similarity"] = {"dedup.semantic": 0.96875, "dedup.earlier": 0.875}.get(rule)
                gone = row["id"]

        write(path, rows, DECISION)
    earlier = {"id": gone, "run": f"old/{SCRIPT}", "earlier_id": "e" * 32, "earlier_source": "web", "similarity": 0.875}
    write(run_copy / "earlier.parquet", [earlier | {"exact": False}], EARLIER)
    write(run_copy / "semantic.parquet", [], SEMANTIC)
    return run_copy


def test_who_was_removed_in_favour_of_whom(every_kind: Path) -> None:
    found = build_report(every_kind)["duplicates"]
    removed = {
        (row["rule"], row["source"], row["kept_source"], row["earlier"]): row["documents"] for row in found["removed"]
    }
    # The run has 4 exact and 5 near copies in web, of which four are made others here; 2 exact in code, 1 near in books.
    assert removed == {
        ("dedup.exact", "web", "web", False): 4,
        ("dedup.exact", "code", "code", False): 2,
        ("dedup.minhash", "web", "web", False): 1,
        ("dedup.minhash", "books", "books", False): 1,
        ("dedup.url", "web", "books", False): 1,
        ("dedup.payload", "web", "books", False): 1,
        ("dedup.semantic", "web", "books", False): 1,
        ("dedup.earlier", "web", f"old/{SCRIPT}", True): 1,
    }
    assert found["num_removed"] == 12
    assert found["compared"] == 97
    others = {
        pair["rule"]: pair
        for pair in found["pairs"]
        if pair["rule"] in ("dedup.url", "dedup.payload", "dedup.semantic")
    }
    assert set(others) == {"dedup.url", "dedup.payload", "dedup.semantic"}
    assert others["dedup.url"]["similarity"] is None
    assert others["dedup.semantic"]["similarity"] == 0.96875
    assert {pair["kept"]["source"] for pair in others.values()} == {"books"}
    assert not any(str(pair["rule"]).startswith("dedup.earlier") and pair["kept"]["source"] for pair in found["pairs"])


def test_every_kind_is_on_the_page_and_its_text_does_nothing(every_kind: Path) -> None:
    html = render(build_report(every_kind))
    assert "<script>alert(" not in html
    section = html[html.index('<section id="duplicates"') : html.index('<section id="contamination"')]
    for title in (
        "Repeated lines",
        "Repeated spans",
        "Earlier corpora",
        "Copies by meaning",
        "How near copies are found",
    ):
        assert f"<h3>{title}</h3>" in section
    for shown in (
        "4,321",
        "8,765",
        "0.0378",
        "217",
        "97 pairs",
        "one address",
        "one payload",
        "cosine",
        "&lt;script&gt;alert(&#39;dup&#39;)",
    ):
        assert shown in section, shown
    assert "a pair at 0.8 is compared with probability 92.4%" in section  # 1 - (1 - 0.8^8)^14
    assert "56.5%" in section  # of 0.7, the threshold
    assert HOSTILE_TEXT not in section


def test_only_what_is_there_is_shown(run_copy: Path) -> None:
    section = render(build_report(run_copy))
    for title in ("Repeated lines", "Repeated spans", "Earlier corpora", "Copies by meaning"):
        assert f"<h3>{title}</h3>" not in section


def test_the_curve_is_that_of_fineweb() -> None:
    """Probabilities that the FineWeb report gives for 14 bands of 8: 56, 77, 92, 98.8% at 0.7, 0.75, 0.8, 0.85."""
    curve = collision_curve(MinHash())
    shown = dict(curve["shown"])
    assert [round(shown[s], 3) for s in (0.7, 0.75, 0.8, 0.85)] == [0.565, 0.772, 0.924, 0.988]
    assert curve["points"][0] == [0.0, 0.0]
    assert curve["points"][-1] == [1.0, 1.0]
    assert 1 - (1 - curve["even"] ** 8) ** 14 == pytest.approx(0.5)
    assert curve["verify"] == 0.7


def test_the_threshold_is_marked_where_it_is_one_of_this_curve() -> None:
    svg = str(collision(collision_curve(MinHash(verify=0.75, bands=9, rows=13))))
    assert "verify 0.75" in svg
    assert 'x1="424.0"' in svg  # 52 + 0.75 * (548 - 52)
    assert "a pair at 0.75 is compared with probability 19.5%" in svg  # 1 - (1 - 0.75^13)^9 = 0.1946
    assert "verify" not in str(collision(collision_curve(MinHash(verify=False))))
    assert "verify" not in str(collision(collision_curve(MinHash(measure="containment"))))
    assert collision_curve(MinHash(verify=False))["verify"] is None


def test_bands_that_a_threshold_chose_are_those_of_the_curve() -> None:
    curve = collision_curve(MinHash(threshold=0.8))  # datasketch's choice with 128 permutations: 9 bands of 13 rows
    assert (curve["bands"], curve["rows"], curve["threshold"], curve["permutations"]) == (9, 13, 0.8, 128)
    assert dict(curve["shown"])[0.9] == pytest.approx(1 - (1 - 0.9**13) ** 9)
