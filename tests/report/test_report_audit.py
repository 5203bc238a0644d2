"""The page of `curate audit`: every number stands in it, hostile text does nothing, a browser opens it in silence."""

import re
from pathlib import Path
from typing import Any

import pytest
from report_run import HOSTILE_RULE, HOSTILE_TEXT, HOSTILE_URL
from test_report_browser import Visit
from test_report_page import Page

from curate.report.page import loosest, render_audit


def group(by: str, name: str, documents: int, removed: int) -> dict[str, Any]:
    tops = [{"rule": HOSTILE_RULE, "documents": removed}] if removed else []
    shares = {"share": removed / documents, "share_of_wanted": removed / documents}
    return {
        "by": by, "name": name, "documents": documents, "removed": removed, "removed_by_label": 0, "top_rules": tops, **shares,
    }  # fmt: skip


def rule(name: str, documents: int, keeps: Any, samples: Any = ()) -> dict[str, Any]:
    return {
        "rule": name, "bound": ">= 50", "documents": documents, "share": documents / 8, "share_of_wanted": documents / 8,
        "alone": 1, "reason": documents, "groups": {"kind": {"forum": documents}}, "keeps": keeps, "samples": list(samples),
    }  # fmt: skip


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    ends = {"all": {"at_least": 31.0, "at_most": None}, "labels": {}}
    ends["kinds"] = {"forum": {"at_least": 12.0, "at_most": None}, "article": {"at_least": 40.0, "at_most": None}}
    sample = {
        "id": "d1", "url": HOSTILE_URL, "collection": "web", "kind": "forum", "language": "en", "value": 23,
        "bound": ">= 50", "also_fired": [HOSTILE_RULE], "begins": HOSTILE_TEXT,
    }  # fmt: skip
    return {
        "recipe": HOSTILE_RULE,
        "good": "good/</script>",
        "left_out": {"<b>wrong</b>.jsonl: not JSON": 2},
        "documents": 8,
        "groups": {"kind": {"article": 6, "forum": 2}, "language": {"en": 8}},
        "keep_in_100": 99,
        "sources": {
            "web": {
                "documents": 8, "removed": 2, "removed_by_label": 0, "not_judged": [],
                "groups": [group("kind", "article", 6, 0), group("kind", "forum", 2, 2), group("language", "en", 8, 2)],
                "rules": [rule("gopher_quality.num_words", 2, ends, [sample]), rule("silent.rule", 0, None)],
                "overlap": [{"rules": ["a.b", HOSTILE_RULE], "documents": 2, "of_first": 1.0, "of_second": 0.5}],
            }
        },
    }  # fmt: skip


def test_the_loosest_bound_serves_every_kind() -> None:
    kinds = {
        "a": {"at_least": 4.0, "at_most": 0.3},
        "b": {"at_least": 2.0, "at_most": 0.5},
        "c": {"at_least": None, "at_most": None},
    }
    assert loosest({"kinds": kinds}) == {"at_least": 2.0, "at_most": 0.5}
    assert loosest({"kinds": {}}) == {"at_least": None, "at_most": None}


def test_the_page_shows_what_was_found(answer: dict[str, Any]) -> None:
    html = render_audit(answer)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.partition("<body>")[2]))
    assert "2 of 8 would go ( 25.0% )" in text or "2 of 8 would go (25.0%)" in text
    assert "≥ 31" in text
    assert "≥ 12" in text  # of every kind
    assert "Never fired: silent.rule" in text
    assert "100.0%" in text  # of the forums


def test_hostile_text_stays_text(answer: dict[str, Any]) -> None:
    html = render_audit(answer)
    assert "<script" not in html
    page = Page(html)
    assert not [tag for tag, _ in page.elements if tag in ("script", "img", "iframe", "object")]
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert "\u202e" not in html


@pytest.mark.browser
def test_the_page_opens_in_silence(answer: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    page.write_text(render_audit(answer))
    visit = Visit(page, tmp_path / "profile")
    assert visit.console == []
    assert visit.requests == []
    assert visit.dom.count("<table") == 4
