"""Puts the demo corpus together and writes it: regular pages, code and books, with the planted documents among them."""

from __future__ import annotations

import json
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from curate.read.demo_parts import sites
from curate.read.demo_parts.archive import Page, write_warc
from curate.read.demo_parts.faults import Planted, benchmarks, plant
from curate.read.demo_parts.ingredients import Ingredients, write_prose
from curate.read.demo_parts.prose import num_words, sentences_only
from curate.read.demo_parts.sites import DOCS, FORUM, MANUAL, NOTES, WEEKLY

NUM_ARCHIVES = 6
MIN_PROSE_WORDS = 90  # of a page that is reduced to its sentences
SHARE_OF_REFERENCE = 10  # percent of the pages that are printed with their code
SHARE_OF_DRY_PAGES = 30  # percent of the pages without prose that are printed at all
VOLUME_BYTES = 24_000  # a book is divided here, at the next chapter, so that validation can draw some of it


def write_corpus(ingredients: Ingredients, folder: Path) -> None:
    """Write web/, code/, books/, benchmarks/ and truth.jsonl below `folder`."""
    prose = write_prose(ingredients)
    write_parts(folder, prose["articles"], prose["books"], ingredients.code)


def write_parts(
    folder: Path, articles: list[dict[str, Any]], books: list[dict[str, Any]], code: Sequence[tuple[str, Path]]
) -> None:
    """Write a corpus of these articles, books and source files, with all planted documents among them.

    Args:
        folder: An empty folder.
        articles: As `prose.py` writes them.
        books: As `prose.py` writes them.
        code: Path below `code/` and file.
    """
    library = Path(sysconfig.get_path("stdlib"))
    planted = plant(lambda name: (library / f"{name}.py").read_text(encoding="utf-8"))
    truth: list[dict[str, Any]] = []
    truth += _write_web(folder / "web", [*_regular_pages(articles), *planted.pages])
    truth += _write_code(folder / "code", code, planted)
    truth += _write_books(folder / "books", books, planted)
    (folder / "benchmarks").mkdir()
    for name, items in benchmarks().items():
        rows = []
        for item in items:
            row = {"id": item.id, "query": item.query, "choices": list(item.choices), "gold": item.gold}
            rows.append({"id": item.id, "passage": item.passage} | row if item.passage else row)
        _write_lines(folder / "benchmarks" / f"{name}.jsonl", rows)
    _write_lines(folder / "truth.jsonl", truth)


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _chosen(articles: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the pages to publish, each with its `host`, most of them reduced to their sentences.

    Reference pages full of signatures and examples are what Gopher's rules remove; a corpus of these alone would leave
    nothing to train on. So a magazine and a forum quote the prose, and the handbook prints everything.
    """
    for article in articles:
        key = article["key"]
        prose = sentences_only(article["blocks"])
        luck = sites.number(f"{key}/host", 100)
        numeric = key.startswith(("numpy.", "scipy.", "polars."))
        if num_words(prose) < MIN_PROSE_WORDS:
            if luck < SHARE_OF_DRY_PAGES and not numeric:
                yield article | {"host": DOCS}
        elif luck < SHARE_OF_REFERENCE:
            yield article | {"host": MANUAL if numeric else DOCS}
        else:
            host = WEEKLY if article["title"].startswith("About ") else FORUM if luck > 90 else NOTES
            yield article | {"host": host, "blocks": prose}


def _regular_pages(articles: list[dict[str, Any]]) -> Iterator[Page]:
    chosen = list(_chosen(articles))
    collections: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for article in chosen:
        collections[article["collection"]].append(article)
    addresses = {article["key"]: _address(article) for article in chosen}
    for article in chosen:
        key, title = article["key"], article["title"]
        siblings = collections[article["collection"]]
        first = sites.number(key, len(siblings))
        near = (siblings + siblings)[first : first + 14]
        links = [(other["title"], addresses[other["key"]]) for other in near if other["key"] != key]
        host = article["host"]
        if host == FORUM:
            page = sites.thread(key, title, article["blocks"], links[:6])
        elif host in (DOCS, MANUAL):
            page = sites.documentation(host, key, title, article["blocks"], links)
        else:
            page = sites.article(host, key, title, article["blocks"], links[:6])
        yield Page(addresses[key], page.encode(), place=f"5{sites.number(addresses[key], 10**12):012}")


def _address(article: dict[str, Any]) -> str:
    key, host = article["key"], article["host"]
    name = key.replace(".", "/")
    if host == FORUM:
        return f"https://{host}/t/{sites.number(key, 10**6):06}/{key.replace('.', '-').lower()}"
    return f"https://{host}/{name}.html" if host in (DOCS, MANUAL) else f"https://{host}/{name.lower()}"


def _write_web(folder: Path, pages: list[Page]) -> Iterator[dict[str, Any]]:
    folder.mkdir()
    pages = sorted(pages, key=lambda page: (page.place, page.kind, page.url))
    share = -(-len(pages) // NUM_ARCHIVES)
    for number in range(NUM_ARCHIVES):
        name = f"part-{number:05}.warc.gz"
        note = f"software: demo corpus\r\nformat: WARC File Format 1.0\r\nfilename: {name}\r\n"
        info = Page(
            name,
            note.encode(),
            kind="warcinfo",
            truth={"kind": "warcinfo_record", "expect": {"skipped": True}, "note": "a record about the file itself"},
        )
        for page, offset in write_warc(
            folder / name, [info, *pages[number * share : (number + 1) * share]], number * 1800
        ):
            if page.truth is not None:
                place = {"file": f"web/{name}", "source": "web", "path": name, "offset": offset, "url": page.url}
                yield place | {key: value for key, value in page.truth.items() if key != "cut_to"}


def _write_code(folder: Path, code: Sequence[tuple[str, Path]], planted: Planted) -> Iterator[dict[str, Any]]:
    for name, path in code:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(path.read_bytes())
    for name, data, truth in planted.code:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        if truth is not None:
            yield {"file": f"code/{name}", "source": "code", "path": name, "offset": 0} | truth


def _write_books(folder: Path, books: list[dict[str, Any]], planted: Planted) -> Iterator[dict[str, Any]]:
    import zstandard

    folder.mkdir()
    shelves: dict[str, list[tuple[dict[str, Any], dict[str, Any] | None]]] = {"reference": [], "handbooks": []}
    for book in books:
        volumes: list[list[str]] = [[]]
        for chapter in book["chapters"]:
            if sum(len(text.encode()) for text in volumes[-1]) > VOLUME_BYTES:
                volumes.append([])
            volumes[-1].append(chapter)
        shelf = "reference" if book["title"].startswith("The Python") else "handbooks"
        name = book["title"].lower().replace(":", "").replace(" ", "-")
        for number, chapters in enumerate(volumes, 1):
            row = {
                "id": f"{name}-{number}",
                "title": f"{book['title']}, volume {number}",
                "author": "",
                "language": "en",
            }
            shelves[shelf].append((row | {"text": "\n\n".join(chapters)}, None))
    shelves["stories"] = planted.books
    for shelf, rows in shelves.items():
        data, places = b"", []
        for row, truth in rows:
            places.append((len(data), row["id"], truth))
            data += json.dumps(row, ensure_ascii=False).encode() + b"\n"
        path = f"{shelf}.jsonl.zst"
        (folder / path).write_bytes(zstandard.ZstdCompressor(level=10, write_content_size=True).compress(data))
        for offset, name, truth in places:
            if truth is not None:
                yield {
                    "file": f"books/{path}",
                    "source": "books",
                    "path": path,
                    "offset": offset,
                    "source_id": name,
                } | truth
