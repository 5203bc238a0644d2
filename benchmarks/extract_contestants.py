"""The extractors that `bench_extract.py` compares, and what it runs in processes of their own: by our Python or the peers'.

PYTHON benchmarks/extract_contestants.py extract|time|stages|versions [--name NAME] < list of pages, JSON lines
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE_SECONDS = 60  # a peer may take for a page; then it has failed
HUMAN = ("wcxb", "scrapinghub", "daniel", "zh_handcrafted")  # sets with gold made by people: what is timed
INPUTS = ("bytes", "decoded")
OURS = "auto"
SETTINGS: dict[str, dict[str, bool]] = {
    "trafilatura": {},
    "trafilatura, precision": {"favor_precision": True},
    "trafilatura, recall": {"favor_recall": True},
    "trafilatura, fast": {"fast": True},
}
OTHERS = ("resiliparse", "readability", "jusText")
CONTESTANTS = (OURS, *SETTINGS, *OTHERS)

Extract = Callable[[Any, Mapping[str, str]], str | None]  # page as bytes or str, and its row of the list


# ---- contestants; imports stand inside, as each runs alone


def make_ours() -> Extract:
    from curate.extract.auto.extractor import Auto
    from curate.extract.encoding import decode_html

    stage = Auto()
    return lambda page, row: stage.main_text(decode_html(page).text, row["url"])[0]


def make_trafilatura(settings: Mapping[str, Any]) -> Extract:
    import trafilatura

    return lambda page, _: trafilatura.extract(page, **settings)


def make_resiliparse() -> Extract:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    def extract(page: Any, _: Mapping[str, str]) -> str:
        html = (
            page if isinstance(page, str) else bytes_to_str(page, detect_encoding(page, from_html_meta=True) or "utf-8")
        )
        return str(extract_plain_text(html, main_content=True))

    return extract


def make_readability() -> Extract:
    import lxml.html
    from readability import Document

    lines = ("p", "div", "li", "h1", "h2", "h3", "h4", "h5", "h6", "td", "tr", "br", "pre", "blockquote")

    def extract(page: Any, _: Mapping[str, str]) -> str:
        tree = lxml.html.fromstring(Document(page).summary(html_partial=True))
        for element in tree.iter(*lines):  # it returns HTML: words of two blocks are not one word
            element.tail = "\n" + (element.tail or "")
        return str(tree.text_content())

    return extract


def make_justext() -> Extract:
    import justext

    words = {name: justext.get_stoplist(name) for name in sorted(justext.get_stoplists())} | {"": frozenset()}
    without = {
        "stopwords_low": 0.0,
        "stopwords_high": 0.0,
    }  # as jusText's own command does in a language without a list

    def extract(page: Any, row: Mapping[str, str]) -> str:
        name = row["stop_list"]
        paragraphs = justext.justext(page, words[name], **({} if name else without))
        return "\n".join(paragraph.text for paragraph in paragraphs if not paragraph.is_boilerplate)

    return extract


def make(name: str, settings: Mapping[str, bool]) -> Extract:
    if name in SETTINGS:
        return make_trafilatura({**SETTINGS[name], **settings})
    makers = {
        OURS: make_ours,
        "resiliparse": make_resiliparse,
        "readability": make_readability,
        "jusText": make_justext,
    }
    return makers[name]()


# ---- what runs in a process of its own


def read_page(row: Mapping[str, str], kind: str) -> bytes | str:
    content = Path(row["path"]).read_bytes()
    return Path(row["path"]).with_suffix(".txt").read_text(encoding="utf-8") if kind == "decoded" else content


def work_extract(name: str, kind: str, settings: Mapping[str, bool], rows: Sequence[Mapping[str, str]]) -> None:
    """Print for each page its id, its text, and the error if there was one, as JSON lines."""
    extract = make(name, settings)

    def too_late(*_: object) -> None:
        raise TimeoutError(f"{PAGE_SECONDS} s")

    signal.signal(signal.SIGALRM, too_late)
    for row in rows:
        text, error = "", ""
        signal.alarm(PAGE_SECONDS)
        try:
            text = extract(read_page(row, kind), row) or ""
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        signal.alarm(0)
        print(json.dumps({"id": row["id"], "text": text, "error": error}))


def work_time(name: str, kind: str, settings: Mapping[str, bool], rows: Sequence[Mapping[str, str]]) -> None:
    """Print CPU seconds of each page, and of all that came before the first, as one JSON object."""
    extract = make(name, settings)
    pages = [(read_page(row, kind), row) for row in rows]
    seconds = {}
    ready = 0.0
    for page, row in pages:
        if ready == 0.0 and row["set"] in HUMAN:
            ready = cpu_seconds()
        before = cpu_seconds()
        try:
            extract(page, row)
        except Exception as failure:
            print(f"{name}, {row['id']}: {failure}", file=sys.stderr)
        if row["set"] in HUMAN:  # the others come first: imports, tables and compiled code are loaded with them
            seconds[row["id"]] = cpu_seconds() - before
    print(json.dumps({"ready": ready, "seconds": seconds}))


def cpu_seconds() -> float:
    """User and system time of this process, all its threads, and its children."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


STAGES = (
    "decode",
    "scan",
    "page facts",
    "features",
    "trees 1",
    "context and trees 2",
    "choose",
    "render",
    "text in scripts",
)


def work_stages(rows: Sequence[Mapping[str, str]]) -> None:
    """Print CPU seconds of each stage of ours over all pages: the functions that the extractor calls, with a clock around."""
    from curate.extract import encoding
    from curate.extract.auto import model, render, scan, structured
    from curate.extract.auto.extractor import Auto
    from curate.extract.auto.trees import Trees

    spent = dict.fromkeys((*STAGES, "whole"), 0.0)

    def clocked(stage: str | Callable[[Any], str], function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            before = time.process_time()
            result = function(*arguments, **named)
            spent[stage if isinstance(stage, str) else stage(arguments[0])] += time.process_time() - before
            return result

        return run

    first = model.shipped_model().first
    patches: list[tuple[Any, str, str | Callable[[Any], str]]] = [
        (encoding, "decode_html", "decode"),
        (scan.Scanner, "__call__", "scan"),
        (model, "read_marks", "page facts"),
        (model, "page_facts", "page facts"),
        (model, "block_features", "features"),
        (Trees, "predict", lambda trees: "trees 1" if trees is first else "context and trees 2"),
        (model, "with_context", "context and trees 2"),
        (model, "choose", "choose"),
        (render, "render", "render"),
        (structured, "structured_text", "text in scripts"),
    ]
    for holder, name, stage in patches:
        setattr(holder, name, clocked(stage, getattr(holder, name)))
    extractor = Auto()
    for row in rows:
        if row["set"] not in HUMAN:
            spent.update(dict.fromkeys(spent, 0.0))
            extractor.main_text(encoding.decode_html(Path(row["path"]).read_bytes()).text, row["url"])
    spent.update(dict.fromkeys(spent, 0.0))
    human = [(Path(row["path"]).read_bytes(), row["url"]) for row in rows if row["set"] in HUMAN]
    before = time.process_time()
    for content, url in human:
        extractor.main_text(encoding.decode_html(content).text, url)
    spent["whole"] = time.process_time() - before
    print(json.dumps(spent))


def work_versions() -> None:
    packages = ("trafilatura", "resiliparse", "readability-lxml", "justext", "lxml", "lxml_html_clean", "chardet")
    found = {name: importlib.metadata.version(name) for name in packages}
    print(json.dumps({"python": platform.python_version()} | found))


def main() -> None:
    parser = argparse.ArgumentParser(description="One contestant in a process of its own")
    parser.add_argument("task", choices=("extract", "time", "stages", "versions"))
    parser.add_argument("--name", choices=CONTESTANTS, default=OURS)
    parser.add_argument("--input", choices=INPUTS, default="bytes")
    parser.add_argument("--settings", type=json.loads, default={})
    options = parser.parse_args()
    if options.task == "versions":
        work_versions()
        return
    rows = [json.loads(line) for line in sys.stdin]
    if options.task == "stages":
        work_stages(rows)
    elif options.task == "time":
        work_time(options.name, options.input, options.settings, rows)
    else:
        work_extract(options.name, options.input, options.settings, rows)


if __name__ == "__main__":
    main()
