"""Real pages, books and code from archive to training order, recounted from the files themselves.

Inputs lie in the folder named by CURATE_DATA (default: ../shared/data beside the checkout); nothing of them is committed.
The fast run reads some hundred documents of each source, the slow one everything (about four minutes on two cores).
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pyarrow.parquet as pq
import pytest

import curate
from curate.tokens.order import Plan

DATA = Path(os.environ.get("CURATE_DATA", machine.ROOT.parent / "shared" / "data"))
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"real inputs are not at {DATA}: set CURATE_DATA")

LIMIT = 300
SOURCES = ("web", "code", "books")
WEIGHTS = {"web": 0.2, "code": 0.3, "books": 0.5}
RECIPE = f"""\
name: real
seed: 11
sources:
  web:
    read: {{kind: warc, paths: "{DATA}/03_raw_html/raw.warc.gz"}}
    extract: {{kind: trafilatura}}
    repair: {{kind: ftfy}}
    steps:
      - language: {{keep: [en, pt, de, fr, es], min_score: 0.65}}
      - gopher_quality: {{}}
      - gopher_repetition: {{}}
      - c4_lines: {{terminal_punctuation: off, curly_bracket: off}}
      - fineweb: {{}}
      - where: "num_words >= 50"
      - pii: {{at: collect}}
  code:
    read: {{kind: jsonl, paths: "{DATA}/05_code/code.jsonl.gz", metadata: [path, repo, license, tags]}}
    steps: [{{code: {{}}}}]
  books:
    read: {{kind: jsonl, paths: "{DATA}/04_books/books.jsonl.gz"}}
    steps: [{{gopher_quality: {{max_words: off}}}}]
dedup:
  exact: {{}}
  minhash: {{ngram: 5, bands: 14, rows: 8, verify: 0.7}}
  keep: {{order: [books, code, web], then: longest}}
decontaminate: {{benchmarks: ["{DATA}/06_benchmarks/BENCHMARKS.jsonl.gz"], ngram: 13, action: drop}}
tokenizer: {{train: {{kind: sentencepiece, vocab_size: 4096, sample_bytes: 2M}}}}
validation: {{tokens: 20k, min_documents: 10}}
mixture: {{weights: {json.dumps(WEIGHTS)}, tokens: {{up_to: 1M}}, max_epochs: 4, window: 512}}
"""


class Finished:
    """A run, and what is in its files."""

    def __init__(self, folder: Path, limit: int | None) -> None:
        folder.mkdir(exist_ok=True)
        self.benchmarks = "[efh]*" if limit is not None else "*"  # an index of all takes longer than the documents
        (folder / "recipe.yaml").write_text(RECIPE.replace("BENCHMARKS", self.benchmarks))
        self.limit = limit
        self.folder = folder / "run"
        self.manifest = curate.run(
            folder / "recipe.yaml", output=self.folder, cache=folder / "cache", workers=2, limit=limit, quiet=True
        ).manifest

    def rows(self, kind: str, source: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.folder / kind / source).to_pylist()
        return rows

    def extracted(self, source: str) -> dict[str, dict[str, Any]]:
        return {row["id"]: row for row in self.rows("extracted", source)}

    def kept(self, source: str) -> dict[str, dict[str, Any]]:
        return {row["id"]: row for row in self.rows("documents", source)}


@pytest.fixture(scope="module", params=[LIMIT, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return Finished(tmp_path_factory.mktemp("real"), request.param)


def num_records(source: str) -> int:
    """Return the records of an input, counted without the readers."""
    if source == "web":
        with gzip.open(DATA / "03_raw_html" / "raw.warc.gz") as file:
            return sum(line == b"WARC-Type: response\r\n" for line in file)
    path = DATA / ("05_code/code.jsonl.gz" if source == "code" else "04_books/books.jsonl.gz")
    with gzip.open(path) as file:
        return sum(1 for _ in file)


@pytest.mark.parametrize("source", SOURCES)
def test_the_ledger_is_what_the_files_hold(finished: Finished, source: str) -> None:
    ledger = finished.manifest["ledger"][source]
    records = num_records(source)
    assert ledger["read"] == (records if finished.limit is None else min(records, finished.limit))
    decisions = finished.rows("decisions", source)
    assert len(decisions) == len({row["id"] for row in decisions}) == ledger["read"]
    documents, extracted = finished.kept(source), finished.extracted(source)
    assert len(documents) == ledger["kept"]
    assert {row["id"] for row in decisions if row["kept"]} == set(documents)

    counts: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for row in decisions:
        if not row["kept"]:
            counts[row["stage"], row["rule"]] += 1
            sizes[row["stage"], row["rule"]] += (
                len(extracted[row["id"]]["text"].encode()) if row["id"] in extracted else 0
            )
    assert _flat(ledger["removed"]) == counts
    assert _flat(ledger["bytes"]["removed"]) == sizes

    read = sum(len(row["text"].encode()) for row in extracted.values())
    kept = sum(len(row["text"].encode()) for row in documents.values())
    assert ledger["bytes"]["read"] == read
    assert ledger["bytes"]["kept"] == kept
    assert ledger["bytes"]["cut"] == sum(len(extracted[name]["text"].encode()) for name in documents) - kept
    assert read == kept + ledger["bytes"]["cut"] + sizes.total()


def _flat(tally: dict[str, dict[str, int]]) -> dict[tuple[str, str], int]:
    return {(stage, rule): count for stage, rules in tally.items() for rule, count in rules.items()}


def test_good_documents_stay(finished: Finished) -> None:
    ledger = finished.manifest["ledger"]
    for source in ("code", "books"):
        assert ledger[source]["kept"] > 0.75 * ledger[source]["read"], source
    assert ledger["web"]["kept"] > 0.1 * ledger["web"]["read"]
    assert finished.manifest["reproducible"] is True


@pytest.mark.parametrize("source", ["code", "books"])
def test_texts_that_nothing_rewrites_stay_as_they_are(finished: Finished, source: str) -> None:
    path = DATA / ("05_code/code.jsonl.gz" if source == "code" else "04_books/books.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        originals = {row["id"]: row["text"] for row in map(json.loads, itertools.islice(file, finished.limit))}
    extracted = finished.extracted(source)
    assert len(extracted) == len(originals)
    for name, document in finished.kept(source).items():
        assert document["text"] == originals[extracted[name]["source_id"]]


MOJIBAKE = ("Ã©", "Ã£", "Ã§", "Ã¼", "â€™", "â€œ", "â€“", "ï»¿")  # UTF-8 read as Windows-1252


def test_no_text_is_garbled(finished: Finished) -> None:
    for source in SOURCES:
        texts = [row["text"] for row in finished.kept(source).values()]
        assert sum("\ufffd" in text for text in texts) <= len(texts) // 200, source
        assert sum(any(sign in text for sign in MOJIBAKE) for text in texts) <= len(texts) // 100, source


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[start : start + 5]) for start in range(len(words) - 4)}


def similar(one: str, other: str) -> float:
    """Return the Jaccard similarity of two texts over plain words: a little below what the product counts."""
    first, second = shingles(one), shingles(other)
    return len(first & second) / len(first | second) if first and second else 0.0


def test_editions_of_a_book_are_found(finished: Finished) -> None:
    """Texts of one GITenberg repository: pg-<number>-<file>."""
    books = finished.extracted("books")
    kept = finished.kept("books")
    editions: dict[str, list[str]] = {}
    for name, row in books.items():
        if row["source_id"].startswith("pg-"):
            editions.setdefault(row["source_id"].split("-")[1], []).append(name)
    pairs = [pair for group in editions.values() for pair in itertools.combinations(group, 2)]
    near = [(one, other) for one, other in pairs if similar(books[one]["text"], books[other]["text"]) >= 0.8]
    assert len(near) >= 3
    assert [pair for pair in near if kept.keys() >= set(pair)] == []
    clusters = {row["id"]: row["cluster"] for row in pq.read_table(finished.folder / "duplicates.parquet").to_pylist()}
    assert all(clusters[one] == clusters[other] for one, other in near)
    # Pride and Prejudice three times, Alice in Wonderland and The Devil's Dictionary twice.
    for number, count in (("1342", 3), ("11", 2), ("972", 2)):
        assert len(editions[number]) == count
        assert len(kept.keys() & set(editions[number])) <= 1


def test_vendored_packages_and_minified_files(finished: Finished) -> None:
    if finished.limit is not None:
        pytest.skip("the first files are those of one package; the slow run reads all")
    code = finished.extracted("code")
    metadata = {name: json.loads(row["metadata"]) for name, row in code.items()}
    kept = finished.kept("code")
    packages: dict[str, dict[str, str]] = {}
    for name, about in metadata.items():
        packages.setdefault(about["repo"], {})[about["path"]] = name
    pairs = []
    for package in ("requests", "urllib3"):
        for path, name in packages[f"PyPI:{package}"].items():
            inside = f"/{package}/" + path.partition(f"{package}/")[2]
            vendored = [other for place, other in packages["PyPI:pip"].items() if place.endswith(f"_vendor{inside}")]
            pairs += [(name, other) for other in vendored if similar(code[name]["text"], code[other]["text"]) >= 0.9]
    assert len(pairs) >= 5
    assert [pair for pair in pairs if kept.keys() >= set(pair)] == []

    minified = {name for name, about in metadata.items() if "minified" in about["tags"]}
    assert len(minified) == 22
    assert not minified & kept.keys()
    generated = {name for name, about in metadata.items() if "generated" in about["tags"]}
    assert len(generated & kept.keys()) < 0.25 * len(generated)


def test_every_benchmark_is_looked_for(finished: Finished) -> None:
    benchmarks = finished.manifest["decontamination"]["benchmarks"]
    paths = (DATA / "06_benchmarks").glob(f"{finished.benchmarks}.jsonl.gz")
    files = {path.name.partition(".")[0] for path in paths}
    assert len(files) == (16 if finished.limit is None else 3)
    assert set(benchmarks) == files
    for name, about in benchmarks.items():
        with gzip.open(DATA / "06_benchmarks" / f"{name}.jsonl.gz") as file:
            assert about["items"] == sum(1 for _ in file)
        assert about["items_tested"] > 0.5 * about["items"], name


def test_tokens_are_the_documents(finished: Finished) -> None:
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(finished.folder / "tokenizer" / "tokenizer.model"))
    for source in SOURCES:
        documents = finished.kept(source)
        seen: list[str] = []
        for split in ("train", "validation"):
            for name, size, ids in runs(finished.folder / "tokens" / source, split):
                text, number = documents[name]["text"], len(seen)
                assert documents[name]["split"] == split
                assert size == len(text.encode())
                seen.append(name)
                if number % 7 == 0 and "\u2581" not in text:  # sentencepiece's own decoding makes a space of it
                    assert model.decode(ids) == text, name
        assert sorted(seen) == sorted(documents)


def runs(folder: Path, split: str) -> Iterator[tuple[str, int, list[int]]]:
    """Yield id, bytes and tokens of each document of a split, read by the contract of the format alone."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for shard in manifest["shards"]:
        if shard["split"] == split:
            tokens = np.fromfile(folder / f"{shard['name']}.bin", f"<u{int(manifest['dtype'][4:]) // 8}")
            ends = np.fromfile(folder / f"{shard['name']}.idx", "<u8").astype(int).tolist()
            assert np.flatnonzero(tokens == manifest["eos_id"]).tolist() == [end - 1 for end in ends]
            table = pq.read_table(folder / f"{shard['name']}.docs.parquet").to_pylist()
            for row, start, end in zip(table, [0, *ends], ends, strict=False):
                yield row["id"], row["bytes"], tokens[start : end - 1].tolist()


def test_the_mixture_is_what_was_asked(finished: Finished) -> None:
    mixture = json.loads((finished.folder / "mixture.json").read_text())
    sources, slots = mixture["sources"], mixture["num_slots"]
    assert sum(about["windows_drawn"] for about in sources.values()) == slots
    assert 0 < mixture["tokens"] == slots * mixture["window"] <= 1_000_000
    for name, about in sources.items():
        if not about["cap_hit"]:
            assert abs(about["windows_drawn"] - WEIGHTS[name] * slots) < 1 + len(sources), name
        assert about["windows_drawn"] <= 4 * about["windows_available"]


def test_training_shows_no_validation_document(finished: Finished) -> None:
    plan = Plan.load(finished.folder / "mixture.json")
    sources, windows = plan.slots(np.arange(plan.num_slots))
    shown = 0
    for number, source in enumerate(plan.names):
        train = list(runs(finished.folder / "tokens" / source, "train"))
        held_out = {name for name, _, _ in runs(finished.folder / "tokens" / source, "validation")}
        assert held_out == {name for name, row in finished.kept(source).items() if row["split"] == "validation"}
        ends = np.cumsum([len(ids) + 1 for _, _, ids in train])
        for window in np.unique(windows[sources == number]).tolist():
            start, stop = plan.token_span(window)
            first, last = np.searchsorted(ends, [start, stop - 1], side="right").tolist()
            names = {name for name, _, _ in train[first : last + 1]}
            assert names
            assert not names & held_out
            shown += 1
        texts = {row["text"] for name, row in finished.kept(source).items() if name in held_out}
        assert not [
            name for name, row in finished.kept(source).items() if name not in held_out and row["text"] in texts
        ]
    assert shown > 0


@pytest.mark.slow
def test_portuguese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_DATA", str(DATA))
    recipe = machine.ROOT / "recipes" / "portuguese.yaml"
    result = curate.run(
        recipe, output=tmp_path / "run", cache=tmp_path / "cache", workers=2, until="mix", train=False, quiet=True
    )
    ledger = result.manifest["ledger"]
    assert ledger["books"]["read"] == num_records("books")
    assert ledger["books"]["removed"]["gate"] == {"gate.language": 53 - 20}
    assert ledger["books"]["kept"] > 0.75 * 20
    # 187 pages of the archive's Portuguese packages, and some of the web's.
    assert 50 < ledger["web"]["kept"] < 300
    for source in ("web", "books"):
        languages = Counter(row["language"] for row in pq.read_table(result.output / "documents" / source).to_pylist())
        assert set(languages) == {"pt"}
    mixture = json.loads((result.output / "mixture.json").read_text())
    assert 0 < mixture["tokens"] <= 1_000_000
