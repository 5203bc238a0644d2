import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from curate.report.collect import build_report
from curate.report.page import (
    content_security_policy,
    original_command,
    phases,
    render,
    script_json,
    similarity_bars,
    size_bars,
)

URL_ATTRIBUTES = {
    "href",
    "src",
    "action",
    "formaction",
    "poster",
    "data",
    "srcset",
    "xlink:href",
    "background",
    "ping",
    "cite",
}
ELEMENTS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "link",
        "style",
        "script",
        "body",
        "header",
        "nav",
        "main",
        "section",
        "article",
        "footer",
    ),
    *(
        "div",
        "p",
        "h1",
        "h2",
        "h3",
        "h4",
        "a",
        "b",
        "strong",
        "small",
        "span",
        "bdi",
        "br",
        "mark",
        "code",
        "pre",
        "sup",
    ),
    *("ul", "ol", "li", "dl", "dt", "dd", "figure", "figcaption", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "wbr"),
    *("form", "label", "select", "option", "input", "output", "button"),
    *("svg", "rect", "path", "line", "polyline", "polygon", "circle", "text", "tspan"),
}


class Page(HTMLParser):
    """Collects what a browser would see: elements, attributes, contents of script and style."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.text: list[str] = []
        self._in: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in self.raw:
            self._in = tag
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._in:
            self._in = None

    def handle_data(self, data: str) -> None:
        if self._in is not None:
            self.raw[self._in][-1] += data
        else:
            self.text.append(data)


@pytest.fixture(scope="module")
def report(run_folder: Path) -> dict[str, Any]:
    return build_report(run_folder)


@pytest.fixture(scope="module")
def html(report: dict[str, Any]) -> str:
    return render(report)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_only_the_page_s_own_elements_and_attributes(page: Page) -> None:
    assert {tag for tag, _ in page.elements} <= ELEMENTS
    for tag, attributes in page.elements:
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)


def test_nothing_is_loaded_from_anywhere(page: Page) -> None:
    for tag, attributes in page.elements:
        for name in URL_ATTRIBUTES & attributes.keys():
            value = attributes[name] or ""
            assert value.startswith("#") or value == "data:,", (tag, name, value)
    assert not re.search(r"url\(|@import", page.raw["style"][0])
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|https?:", page.raw["script"][1])


def test_the_policy_names_exactly_this_style_and_script(page: Page) -> None:
    policy = next(
        attributes["content"]
        for tag, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for directive, text in (("style-src", page.raw["style"][0]), ("script-src", page.raw["script"][1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert content_security_policy("a", "b") != content_security_policy("a", "c")


def test_hostile_text_is_shown_and_does_nothing(page: Page, html: str) -> None:
    text = "".join(page.text)
    for shown in (
        "<script>alert(",
        "<img src=x onerror=alert(1)>.rule",
        "javascript:alert(document.domain)",
        "{{ 7*7 }}",
        "<i>mbpp</i>",
        "<u>gzip</u>",
    ):
        assert shown in text
    assert "{{ 7*7 }}" in html  # a template in a document is text
    assert len(page.raw["script"]) == 2
    for acting in "\x1b\x07\u202e\u2066\u2069\u2028\u2029\u200b":
        assert acting not in html
    assert "U+202E" in text
    assert "U+001B" in text


@pytest.mark.parametrize(
    "evil", ["</script><script>alert(1)</script>", "<!--", "\u2028\u2029", "&lt;", "]]>", "</SCRIPT >"]
)
def test_json_in_a_script_element_cannot_leave_it(evil: str) -> None:
    text = str(script_json({evil: [evil]}))
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == {evil: [evil]}


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>\u202e'


def poisoned(value: Any) -> Any:
    """Return the report with every text, and the keys that come from outside, made hostile."""
    if isinstance(value, dict):
        return {key: poisoned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    return HOSTILE + value if isinstance(value, str) else value


def renamed(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {HOSTILE + key if key in names else key: renamed(item, names) for key, item in value.items()}
    return [renamed(item, names) for item in value] if isinstance(value, list) else value


def test_every_text_of_the_report_may_be_hostile(report: dict[str, Any]) -> None:
    evil = poisoned(report)
    for source, entries in report["measurements"].items():
        for entry, safe in zip(evil["measurements"][source], entries, strict=True):
            entry["kind"] = safe["kind"]  # ours: number or label
    for group in evil["samples"]:
        assert group["rule"].startswith(HOSTILE)
    page = Page(render(evil))
    assert {tag for tag, _ in page.elements} <= ELEMENTS
    assert len(page.raw["script"]) == 2
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_every_name_may_be_hostile(report: dict[str, Any]) -> None:
    evil = renamed(report, {"web", "code", "books"})
    for section in ("libraries", "stages", "rewritten", "tokenizer", "validation"):
        evil[section] = renamed(evil[section], set(report[section]))
    for entry in evil["documents"].values():
        entry["splits"], entry["languages"] = renamed(entry["splits"], {"train"}), renamed(entry["languages"], {"en"})
    evil["contamination"]["benchmarks"] = renamed(evil["contamination"]["benchmarks"], {"piqa"})
    evil["funnel"][HOSTILE + "web"]["skipped"] = {HOSTILE: 1}
    page = Page(render(evil))
    assert {tag for tag, _ in page.elements} <= ELEMENTS
    assert len(page.raw["script"]) == 2
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_every_number_is_accessible_without_colour_or_script(page: Page) -> None:
    tables = sum(tag == "table" for tag, _ in page.elements)
    assert tables == sum(tag == "caption" for tag, _ in page.elements)
    assert all("scope" in attributes for tag, attributes in page.elements if tag == "th")
    for tag, attributes in page.elements:
        if tag == "svg":
            assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true"
    targets = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    for tag, attributes in page.elements:
        if tag == "a":
            assert (attributes["href"] or "")[1:] in targets


def test_ids_are_unique(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_page_tells_the_funnel_and_what_was_asked(page: Page, report: dict[str, Any]) -> None:
    text = re.sub(r"\s+", " ", "".join(page.text))
    assert "99 documents read, 52 kept (52.5%)" in text
    assert "Every document and byte is accounted for" in text
    assert "50 to 100000" in text
    assert "rules never fired" in text
    for library, version in report["libraries"].items():
        assert f"{library}{version}" in text.replace(" ", "")
    assert report["recipe_text"].splitlines()[0] in text


def test_the_page_is_small(html: str) -> None:
    assert len(html.encode()) < 400_000


def test_cluster_sizes_are_binned() -> None:
    sizes = [{"size": size, "clusters": 1} for size in (2, 3, 4, 5, 7, 8, 15, 16, 500)]
    assert size_bars({"sizes": sizes}) == [
        ("2", 1),
        ("3", 1),
        ("4", 1),
        ("5–7", 2),
        ("8–15", 2),
        ("16–31", 1),
        ("256–511", 1),
    ]
    assert size_bars(None) == []
    assert similarity_bars({"similarities": [{"at_least": 0.7, "copies": 2}, {"at_least": 1.0, "copies": 3}]}) == [
        ("≥ 0.70", 2),
        ("1", 3),
    ]


def text_of(report: dict[str, Any]) -> str:
    return " ".join(" ".join(Page(render(report)).text).split())


def test_a_run_of_a_part_says_so(report: dict[str, Any]) -> None:
    assert (report["limit"], report["sample"]) == (None, None)  # a folder from before these keys
    assert "Part of the inputs" not in text_of(report)
    shown = text_of(report | {"limit": 100, "sample": 0.25})
    assert "Part of the inputs: --limit 100 --sample 0.25" in shown
    assert "curate run recipe.yaml --output again --limit 100 --sample 0.25 diff" in shown
    assert "curate run recipe.yaml --output again --limit 0 diff" in text_of(report | {"limit": 0})


def test_the_command_is_shown_as_it_was_given(report: dict[str, Any]) -> None:
    assert original_command({}) is None
    assert original_command({"command": [], "folder": "/x"}) is None
    argv = ["curate", "run", "my recipe.yaml", "--set", "a=$b", "<i>"]
    assert original_command({"command": argv}) == "curate run 'my recipe.yaml' --set 'a=$b' '<i>'"
    timings = report["timings"] | {"command": argv, "folder": "/some/it's [1]"}
    shown = text_of(report | {"timings": timings})
    assert "cd '/some/it'\"'\"'s [1]' curate run 'my recipe.yaml' --set 'a=$b' '<i>'" in shown
    assert "This run was made with" not in text_of(report)
    for each in (shown, text_of(report)):
        assert "Relative paths in it start at the folder of the recipe that was run" in each


def test_a_reused_phase_has_no_time(report: dict[str, Any]) -> None:
    measured = {
        "extract": {"seconds": 0.0, "tasks_run": 0, "tasks_reused": 6, "peak_rss_bytes": 0},
        "measure": {"seconds": 2.0, "tasks_run": 1, "tasks_reused": 5, "peak_rss_bytes": 5_000_000},
        "mix": {"seconds": 0.25, "tasks_run": 0, "tasks_reused": 0, "peak_rss_bytes": 0},
    }
    changed = report | {"timings": report["timings"] | {"phases": measured}}
    assert [row["reused"] for row in phases(changed) if row["phase"] in measured] == [True, False, False]
    shown = text_of(changed)
    assert "extract reused 0 6 –" in shown
    assert "measure 2 s 1 5 5 MB" in shown
    assert "mix 0.25 s 0 0 –" in shown


def test_shortfall_and_bounds_are_explained(report: dict[str, Any]) -> None:
    whole = {"web": {"documents": 9, "bytes": 90, "shortfall": None}}
    short = whole | {"code": {"documents": 1, "bytes": 9, "shortfall": {"tokens": 3, "documents": 2}}}
    assert "Shortfall:" not in text_of(report | {"validation": whole})
    assert "Shortfall: how many tokens and documents" in text_of(report | {"validation": short})
    assert "with “< 0.7” what is less alike than 0.7 stays" in text_of(report)
