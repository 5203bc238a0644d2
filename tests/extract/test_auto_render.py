import json
import re
from html import escape
from pathlib import Path

import numpy as np
import pytest

from curate.extract.auto import tags as t
from curate.extract.auto.render import render
from curate.extract.auto.scan import Scanner
from curate.extract.auto.structured import structured_text

ROOT = Path(__file__).resolve().parents[2]
CASES = [json.loads(line) for line in (ROOT / "tests/corpus/extract.jsonl").read_text("ascii").splitlines()]
SCANNER = Scanner(np.zeros(t.NUM_WORD_BUCKETS, np.bool_))
SENTENCE = "Barges carried grain and timber between the two inland towns for centuries, long before the railway came. "


def text_of(html, markdown=False):
    """Return all blocks that are shown, rendered."""
    page = SCANNER(html)
    rows = page.elements[page.blocks[:, t.BLOCK_ELEMENT]]
    keep = (rows[:, t.ELEMENT_FLAGS] & t.FLAG_HIDDEN == 0) & (rows[:, t.ELEMENT_TAG] != t.TITLE)
    return render(page, keep, markdown)


@pytest.mark.parametrize("markdown", [False, True], ids=["plain", "markdown"])
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_fault_cases(case, markdown):
    given, expect = case["input"], case["expect"]
    parts = given.get("parts", [])
    html = given["text"] if given["form"] == "text" else "".join(p.get("lit") or p["rep"] * p["times"] for p in parts)
    texts = {text_of(html, markdown) for _ in range(given.get("repeat", 1))}
    assert len(texts) == 1
    text = texts.pop()
    assert [wanted for wanted in expect.get("must_contain", []) if wanted not in text] == []
    assert [wanted for wanted in expect.get("must_not_contain", []) if wanted in text] == []
    assert [pattern for pattern in expect.get("must_not_match", []) if re.search(pattern, text)] == []
    assert all(text.count(words) <= most for words, most in expect.get("max_occurrences", {}).items())
    assert all(text.count(character) == n for character, n in expect.get("expected_char_counts", {}).items())
    place = 0
    for wanted in expect.get("must_contain_in_order", []):
        assert wanted in text[place:]
        place = text.index(wanted, place) + len(wanted)


@pytest.mark.parametrize(
    ("html", "plain", "markdown"),
    [
        ("", "", ""),
        ("<h2>a<br>b</h2><p>c<p>d<br>e", "a b\n\nc\n\nd\ne", "## a b\n\nc\n\nd\ne"),
        ("<ul><li>a<li>b<ul><li>c</ul></ul><p>d.", "- a\n- b\n  - c\n\nd.", "- a\n- b\n  - c\n\nd."),
        ("<ol start=3><li>a<li><p>b<p>c</ol>", "3. a\n4. b\n   c", "3. a\n4. b\n   c"),
        ("<ul><li>a</ul><ul><li>b</ul>", "- a\n\n- b", "- a\n\n- b"),
        ("<dl><dt>a<dd>b<dt>c</dl>", "a\nb\nc", "a\n: b\nc"),
        ("<pre>  a\n   b</pre><p>c.", "  a\n   b\n\nc.", "```\n  a\n   b\n```\n\nc."),
        ("<pre>a```b</pre>", "a```b", "````\na```b\n````"),
        ("<pre><div>a</div><div> b</div></pre>", "a\n b", "```\na\n b\n```"),
        (
            "<table><tr><th>a<th>b|c<tr><td><td>d<tr><td>e<br>f</table>",
            "a | b|c\nd\ne f",
            "| a | b\\|c |\n| --- | --- |\n|  | d |\n| e f |  |",
        ),
        ("<blockquote><p>a.<br>b</blockquote>c.", "a.\nb\n\nc.", "> a.\n> b\n\nc."),
        ("<div>a</div><div>b</div><p>c", "a\nb\n\nc", "a\nb\n\nc"),
        ("<div>a<br><br>b</div>", "a\n\nb", "a\n\nb"),
    ],
)
def test_forms(html, plain, markdown):
    assert text_of(html) == plain
    assert text_of(html, markdown=True) == markdown


@pytest.mark.parametrize(
    ("rows", "cells"),
    [
        ("<tr><td rowspan=2>Rome<td>1<td>2<tr><td>3<td>4<tr><td>Bari<td>5<td>6", ["Rome|1|2", "|3|4", "Bari|5|6"]),
        (
            "<thead><tr><th rowspan=2>City<th colspan=2>People<th rowspan=2>Area<tr><th>2010<th>2020<tbody><tr><td>Rome<td>1<td>2<td>3",
            ["City|People||Area", "|2010|2020|", "Rome|1|2|3"],
        ),
        ("<tr><td>a<td rowspan=2>b<td>c<tr><td>d<td>e", ["a|b|c", "d||e"]),
        ("<tr><td rowspan=3>a<td>b<tr><td rowspan=2>c<tr><td>d", ["a|b|", "|c|", "||d"]),
        (
            "<tr><td rowspan=0>a<td>b<tr><td>c<tr><td>d<tbody><tr><td>e",
            ["a|b", "|c", "|d", "e|"],
        ),  # to the end of its part
        ("<tr><td rowspan=2 colspan=2>a<td>b<tr><td>c", ["a||b", "||c"]),
        ("<tr><td rowspan=2>a<table><tr><td>x<td>y</table><td>b<tr><td>c", None),
        ("<tr><td rowspan=1>a<td colspan=2>b<tr><td>c<td>d", ["a|b", "c|d"]),  # as without
        ("<tr><td rowspan=x>a<td>b<tr><td>c<td>d", ["a|b", "c|d"]),
    ],
)
def test_cells_below_a_cell_of_several_rows_keep_their_columns(rows, cells):
    text = text_of(f"<table>{rows}</table>", markdown=True)
    if cells is None:
        assert text.endswith("|  | c |")
        return
    lines = text.split("\n")
    del lines[1]
    assert ["|".join(cell.strip() for cell in line[1:-1].split("|")) for line in lines] == cells


def test_wide_and_long_cells_cost_no_more_than_others():
    html = "<table>" + "<tr><td rowspan=999999 colspan=999999>a<td rowspan=0>b" * 20_000
    assert text_of(html, markdown=True).count("a") == 20_000


def test_tables_and_lists_of_a_layout_are_paragraphs():
    post = f"<p>{SENTENCE * 4}<p>{SENTENCE * 4}"
    assert text_of(f"<table><tr><td>name<td>{post}</table>").split("\n\n") == ["name", *[(SENTENCE * 4).strip()] * 2]
    items = text_of(f"<ol><li><h3>Title</h3>{post}<ul><li>a<li>b</ul></ol>")
    assert items.startswith("Title\n\nBarges")
    assert items.endswith("\n\n- a\n- b")


def test_only_what_is_kept_in_page_order():
    page = SCANNER("<p>a<ul><li>b<li>c</ul><p>d")
    assert render(page, np.array([False, True, False, True])) == "- b\n\nd"
    assert render(page, np.zeros(4, np.bool_)) == ""


def test_depth_does_not_multiply_text():
    html = "".join(f"<ul><li>{place}" for place in range(20_000)) + "<blockquote>" * 20_000 + "x"
    assert len(text_of(html, markdown=True)) <= 24 * 20_000 + 50  # margin of eight levels, mark, number, line feed


# ---- text in data

BODY = SENTENCE * 3


@pytest.mark.parametrize(
    "html",
    [
        f'<script type="application/ld+json">{json.dumps({"@graph": [{"articleBody": BODY}]})}</script>',
        f'<script id=x type="application/json">{json.dumps({"a": {"b": [{"cooked": f"<p>{BODY}</p>"}]}})}</script>',
        f"<script>window.__INITIAL_STATE__ = {json.dumps({'post': BODY})}; f()</script>",
        f'<div data-preloaded="{escape(json.dumps({"t": json.dumps({"cooked": BODY})}))}">',
    ],
    ids=["json-ld", "next", "state", "discourse"],
)
def test_text_in_data(html):
    assert structured_text(f"<html>{html}<p>short") == BODY.strip()


def test_data_without_prose_is_no_text():
    code = json.dumps({"a": "function f(x) { return x < 1 && y > 2; } " * 20, "b": "https://a.b/c?d=e " * 30})
    assert structured_text(f"<script type=application/json>{code}</script>") is None
    assert structured_text(f"<script type=application/json>{json.dumps(SENTENCE)}</script>") is None  # too short
    assert structured_text(f"<p>{BODY}") is None


@pytest.mark.parametrize(
    "html",
    [
        "<script type=application/json>" + "[" * 200_000 + "</script>",
        "<script type=application/json>" + "[" * 900 + "1" + "]" * 900 + "</script>",
        '<script type=application/json>{"a": NaN, "b": 1e999}</script>',
        "<script>" * 50_000,
        "<script>" + "window.a = {" * 20_000 + "</script>",
        "<script type=application/json>" + json.dumps("<!--" * 50_000 + "<p " * 50_000) + "</script>",
        "<div data-state='{'>",
        "",
    ],
    ids=lambda html: f"{html[:40]}...",
)
def test_data_that_leads_nowhere(html):
    assert structured_text(html) is None
