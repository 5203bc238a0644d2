"""Run datatrove's C4BadWordsFilter once over real documents and write down what it decided.

    python record_bad_words.py        # in an environment that has datatrove; writes bad_words.json.gz beside this file

The word lists are those of `$CURATE_DATA/08_wordlists`, put where datatrove would keep what it downloads. No text is kept: a document
is a file of `$CURATE_DATA`, a row, a range of characters, and the digest of what stands there.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = Path(os.environ.get("CURATE_DATA") or HERE.parents[3] / "shared" / "data")
CHUNK = 20_000  # characters of a book


def documents(data: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield place (file, row, start, language) and text of each document."""
    for path in sorted((data / "02_gold").glob("*/gold.jsonl")):
        with path.open(encoding="utf-8") as file:
            for row, line in enumerate(file):
                page = json.loads(line)
                if page.get("text"):
                    language = page["lang"] if len(page.get("lang") or "") == 2 else "en"
                    yield _place(data, path, row, 0, language, page["text"]), page["text"]
    path = data / "04_books" / "books.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row, line in enumerate(file):
            book = json.loads(line)
            for start in range(0, min(len(book["text"]), 6 * CHUNK), 2 * CHUNK):
                text = book["text"][start : start + CHUNK]
                yield _place(data, path, row, start, book["language"], text), text
    path = data / "05_code" / "code.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row, line in enumerate(file):
            if row % 20 == 0:
                text = json.loads(line)["text"]
                yield _place(data, path, row, 0, "en", text), text


def _place(data: Path, path: Path, row: int, start: int, language: str, text: str) -> dict[str, Any]:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    name = path.relative_to(data).as_posix()
    return {"file": name, "row": row, "start": start, "language": language, "sha256": digest}


def main() -> None:
    """Write bad_words.json.gz."""
    import datatrove.pipeline.filters.c4_filters as c4
    from datatrove.data import Document

    lists = json.loads((DATA / "08_wordlists" / "ldnoobw.json").read_text(encoding="utf-8"))
    folder = Path(tempfile.mkdtemp())
    for language, words in lists.items():
        (folder / language).write_text("\n".join(words), encoding="utf-8")
    c4.cached_asset_path_or_download = lambda address, **_: str(folder / address.rpartition("/")[2])
    step = c4.C4BadWordsFilter(fail_on_missing_language=False)
    rows = []
    for place, text in documents(DATA):
        answer = step.filter(Document(text=text, id="", metadata={"language": place["language"]}))
        rows.append(place | {"kept": answer is True})
    made_by = f"datatrove {version('datatrove')} C4BadWordsFilter"
    data = json.dumps({"made_by": made_by, "documents": rows}, separators=(",", ":")).encode()
    (HERE / "bad_words.json.gz").write_bytes(gzip.compress(data, mtime=0))
    print(made_by, len(rows), "documents,", sum(not row["kept"] for row in rows), "removed")


if __name__ == "__main__":
    main()
