"""The recipes that come with the project: each loads, and each runs end to end, in small.

`common_crawl.yaml` names files of several gigabytes on public hosts. No test fetches them: a server on this machine
stands in for the hosts, under the very paths that the recipe names.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import curate
from curate.read.demo_parts import corpus, faults, sites
from curate.read.demo_parts.archive import Page, write_warc
from curate.read.demo_parts.ingredients import find_ingredients
from curate.report.truth import compare_truth

ROOT = Path(__file__).resolve().parent.parent
RECIPES = ROOT / "recipes"
DATA = Path(os.environ.get("CURATE_DATA", ROOT.parent / "shared" / "data"))


def run(recipe: Path, folder: Path, **options: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {"output": folder / "run", "cache": folder / "cache", "workers": 2, "quiet": True}
    return curate.run(recipe, **(arguments | options)).manifest


def kept(folder: Path, source: str) -> list[dict[str, Any]]:
    return pq.read_table(folder / "run" / "documents" / source).to_pylist()


def rules(manifest: dict[str, Any], source: str) -> dict[str, int]:
    removed = manifest["ledger"][source]["removed"]
    return {rule: count for stage in removed.values() for rule, count in stage.items()}


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_recipe_loads(path: Path) -> None:
    recipe = curate.load(path)
    assert recipe.name == path.stem
    # What the loader writes as resolved loads to the same recipe.
    assert recipe.sources


def test_the_recipes_are_these() -> None:
    assert {path.stem for path in RECIPES.glob("*.yaml")} == {
        "web_code_books",
        "common_crawl",
        "fineweb",
        "fineweb2",
        "recommended",
        "portuguese",
        "dedup_only",
    }


def test_web_code_books_is_the_recipe_of_the_contract() -> None:
    recipe = curate.load(RECIPES / "web_code_books.yaml")
    assert [source.name for source in recipe.sources] == ["web", "code", "books"]
    web = recipe.source("web")
    steps = ["language", "gopher_quality", "gopher_repetition", "c4_lines", "fineweb", "where", "pii"]
    assert [block.kind for block in web.steps] == steps
    assert web.paths == ("demo://web/*.warc.gz",)
    assert recipe.mixture is not None
    assert recipe.mixture.weights == {"web": 0.6, "code": 0.25, "books": 0.15}
    assert recipe.mixture.tokens == 1_000_000
    assert recipe.train is not None
    assert recipe.train.seeds == (0, 1, 2)


# web_code_books


PLANTED_CODE = ("textwrap", "bisect", "heapq", "shlex", "fnmatch", "cmd", "difflib", "string", "sched")


def demo_sets(folder: Path) -> list[str]:
    return [
        f"sources.web.read.paths={folder}/web/*.warc.gz",
        f"sources.code.read.paths={folder}/code/**/*",
        f"sources.books.read.paths={folder}/books/*.jsonl.zst",
        f"decontaminate.benchmarks=['{folder}/benchmarks/*.jsonl']",
    ]


def test_every_planted_document_of_the_demo_fares_as_it_should(tmp_path: Path) -> None:
    """Run web_code_books on the demo corpus without its regular pages, which the truth table says nothing about."""
    demo = tmp_path / "demo"
    demo.mkdir()
    code = [
        (name, path) for name, path in find_ingredients().code if path.stem in PLANTED_CODE and path.parent.name != "re"
    ]
    corpus.write_parts(demo, [], [], code)
    manifest = run(RECIPES / "web_code_books.yaml", tmp_path, sets=demo_sets(demo), until="collect")
    rows = compare_truth(tmp_path / "run", demo / "truth.jsonl")
    assert [miss for row in rows for miss in row.misses] == []
    assert sum(row.planted for row in rows) == sum(row.as_expected for row in rows) == 197
    assert manifest["ledger"]["web"]["skipped"] == {"metadata": 1, "request": 3, "revisit": 2, "warcinfo": 6}


@pytest.mark.slow
def test_web_code_books_on_the_whole_demo(tmp_path: Path) -> None:
    manifest = run(RECIPES / "web_code_books.yaml", tmp_path, until="mix")
    [demo] = (tmp_path / "cache").glob("demo-v*")
    assert [miss for row in compare_truth(tmp_path / "run", demo / "truth.jsonl") for miss in row.misses] == []
    mixture = json.loads((tmp_path / "run" / "mixture.json").read_text())
    assert mixture["shortfall_tokens"] == 0
    assert sum(source["tokens_available"] for source in mixture["sources"].values()) >= 1_300_000
    assert all(source["epochs"] < 2.5 for source in mixture["sources"].values())
    assert manifest["reproducible"] is True


# common_crawl


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing: pytest shows what matters."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Serve a folder under the address of all hosts; yields the folder."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{httpd.server_address[1]}"
        for name in ("CC_BASE", "HF_BASE", "GH_BASE"):
            monkeypatch.setenv(name, address)
        yield folder
        httpd.shutdown()
        thread.join()


def served(folder: Path, path: str) -> Path:
    """Return the file under `folder` that stands for a path of the recipe."""
    target = folder / path.partition("}/")[2]
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def essay_page(url: str, essay: faults.Essay, more: str = "") -> Page:
    blocks = [*essay.blocks, *([["p", more]] if more else [])]
    return Page(url, sites.article(sites.JOURNAL, essay.slug, essay.title, blocks, []).encode())


def test_common_crawl_through_a_local_server(server: Path, tmp_path: Path) -> None:
    recipe = curate.load(RECIPES / "common_crawl.yaml")
    english, portuguese, other = (faults.essays(name) for name in ("en", "pt", "other"))
    question = (
        "A mason lays fourteen rows of nineteen bricks each day and breaks three of them; how many whole bricks has he "
        "laid after a week of seven days?"
    )

    first, second = recipe.source("web").paths
    good = [essay_page(f"https://one.example/{essay.slug}", essay) for essay in (*english[:6], *portuguese[:4])]
    write_warc(served(server, first), good, 0)
    bad = [
        essay_page("https://two.example/copy", english[0]),
        essay_page("https://two.example/leak", english[6], question),
        essay_page("https://two.example/french", other[0]),
        Page("https://two.example/missing", b"<p>gone</p>", status=404),
        Page("https://two.example/picture", b"\x89PNG\r\n", content_type="image/png"),
    ]
    write_warc(served(server, second), bad, 100)

    library = {
        name: path for name, path in find_ingredients().code if name in ("stdlib/textwrap.py", "stdlib/heapq.py")
    }
    rows = [
        {
            "code": path.read_text(),
            "repo_name": "a/b",
            "path": name,
            "language": "Python",
            "license": license,
            "size": 1,
        }
        for (name, path), license in zip(sorted(library.items()), ("mit", "gpl-3.0"), strict=True)
    ]
    pq.write_table(pa.Table.from_pylist(rows), served(server, recipe.source("code").paths[0]))

    novel = "\n\n".join(essay.text for essay in english[7:14])
    books = [
        {"id": "1-0", "text": novel},
        {"id": "2-0", "text": "Too short for a book, but in good English and all true."},
    ]
    pq.write_table(pa.Table.from_pylist(books), served(server, recipe.source("books").paths[0]))

    assert recipe.decontaminate is not None
    human_eval, gsm8k = recipe.decontaminate.benchmarks
    prompt = 'def turns(n):\n    """Return the turns that a wheel of n teeth makes while its neighbour with twelve teeth makes ten."""\n'
    served(server, human_eval).write_bytes(
        gzip.compress(json.dumps({"task_id": "HumanEval/0", "prompt": prompt}).encode())
    )
    served(server, gsm8k).write_text(json.dumps({"question": question, "answer": "1841"}) + "\n")

    sets = ["tokenizer.train.vocab_size=700", "mixture.window=64", "train=~"]
    manifest = run(RECIPES / "common_crawl.yaml", tmp_path, sets=sets, until="mix")

    assert manifest["ledger"]["web"]["read"] == 15
    assert rules(manifest, "web") == {
        "gate.status": 1,
        "gate.media_type": 1,
        "language.keep": 1,
        "decontaminate.ngram": 1,
        "dedup.exact": 1,
    }
    urls = {row["url"] for row in kept(tmp_path, "web")}
    assert urls == {page.url for page in good}  # the copy in the second file went, not the first
    assert rules(manifest, "code") == {"code.license": 1}
    assert [json.loads(row["metadata"])["license"] for row in kept(tmp_path, "code")] == ["mit"]
    assert len(kept(tmp_path, "books")) == 1
    assert sum(rules(manifest, "books").values()) == 1
    mixture = json.loads((tmp_path / "run" / "mixture.json").read_text())
    assert mixture["tokens"] > 0
    assert set(mixture["sources"]) == {"web", "code", "books"}


def test_common_crawl_says_which_remote_file_is_missing(server: Path, tmp_path: Path) -> None:
    with pytest.raises(curate.errors.CurateError, match=r"CC-MAIN-20240220211055-20240221001055-00000\.warc\.gz"):
        run(RECIPES / "common_crawl.yaml", tmp_path, until="extract")


# dedup_only


def test_dedup_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    essays = faults.essays("en")
    edited = essays[1].text.replace("patience", "haste").replace("stone", "rock", 1) + " Again."
    texts = {"a": essays[0].text, "b": essays[0].text, "c": essays[1].text, "d": edited, "e": essays[2].text}
    (tmp_path / "mine.jsonl").write_text(
        "".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items())
    )
    monkeypatch.setenv("MY_DATA", str(tmp_path / "*.jsonl"))
    manifest = run(RECIPES / "dedup_only.yaml", tmp_path)
    assert rules(manifest, "mine") == {"dedup.exact": 1, "dedup.minhash": 1}
    extracted = {
        row["id"]: row["source_id"] for row in pq.read_table(tmp_path / "run" / "extracted" / "mine").to_pylist()
    }
    assert {extracted[row["id"]] for row in kept(tmp_path, "mine")} == {"a", "d", "e"}  # d is longer than c


# portuguese


@pytest.mark.skipif(not (DATA / "03_raw_html").is_dir(), reason=f"no real inputs in {DATA}: set CURATE_DATA")
def test_portuguese_begins_on_real_pages_and_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_DATA", str(DATA))
    manifest = run(RECIPES / "portuguese.yaml", tmp_path, until="extract", limit=60)
    assert manifest["stages"]["extract"]["sources"]["web"]["documents_in"] == 60
    books = pq.read_table(tmp_path / "run" / "extracted" / "books").to_pylist()
    assert {row["language"] for row in books} == {"pt"}
    assert len(books) == 20  # of 53: the others are in five more languages
    assert manifest["stages"]["extract"]["sources"]["books"]["removed"] == {"gate.language": 33}


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "03_raw_html").is_dir(), reason=f"no real inputs in {DATA}: set CURATE_DATA")
def test_portuguese_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_DATA", str(DATA))
    run(RECIPES / "portuguese.yaml", tmp_path)
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    steps = [json.loads(line) for line in (tmp_path / "run" / "train" / "0" / "metrics.jsonl").read_text().splitlines()]
    losses = [step["loss"] for step in steps if "loss" in step]
    assert losses[-1] < losses[0] - 1  # nats
    assert {row["language"] for row in kept(tmp_path, "web")} == {"pt"}
