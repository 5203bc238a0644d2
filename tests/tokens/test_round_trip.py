"""decode(encode(text)) == text on every text of the real inputs, in both kinds of model and both formats."""

import gzip
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import curate
from curate.tokens.encoding.model_file import read_model
from curate.tokens.sentencepiece_training import train_tokenizer
from curate.tokens.settings import SentencePiece, TokenizerSettings
from curate.tokens.tokenizer import Tokenizer, load_tokenizer
from curate.tokens.transformers_files import tokenizer_definition

DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")
FORMS = ("bpe", "unigram", "bpe as tokenizer.json", "unigram as tokenizer.json")
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"real inputs are absent: no {DATA}; set CURATE_DATA")


def texts(value: Any) -> Iterator[str]:
    """Every string of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def texts_of(folder: str) -> Iterator[str]:
    for path in sorted((DATA / folder).rglob("*.jsonl*")):
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for line in file:
                yield from texts(json.loads(line))


@cache
def awkward() -> tuple[str, ...]:
    """Mojibake and what repairs it, all of it; some of the short texts in very many languages."""
    found = [text for folder in ("07_unicode", "09_langid") for text in texts_of(folder) if said(text)]
    return (*found[:900], *found[900::40])


@cache
def trained(form: str) -> Tokenizer:
    sample = [text[:2000] for folder in ("04_books", "09_langid", "10_small_corpus") for text in texts_of(folder)]
    settings = SentencePiece(vocab_size=4000, model=form.split()[0], sample_bytes="400k", character_coverage=0.999)
    tokenizer = load_tokenizer(
        train_tokenizer(sample[:: len(sample) // 800 + 1], TokenizerSettings(train=settings)).model
    )
    if "json" not in form:
        return tokenizer
    return load_tokenizer(json.dumps(tokenizer_definition(read_model(tokenizer.model))).encode(), eos="</s>")


def assert_all_come_back(tokenizer: Tokenizer, found: list[str]) -> None:
    marks = {0, 1, 2}
    for start in range(0, len(found), 256):
        part = found[start : start + 256]
        for text, ids in zip(part, tokenizer.encode_batch(part), strict=True):
            assert tokenizer.decode(ids) == text
            assert not marks & set(ids.tolist())


def said(text: str) -> bool:
    """Whether UTF-8 can say it; half a surrogate pair it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@pytest.mark.parametrize("form", FORMS)
def test_awkward_real_texts_come_back(form: str) -> None:
    assert len(awkward()) > 2000
    assert_all_come_back(trained(form), list(awkward()))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_real_text_comes_back(form: str) -> None:
    """Fields of all JSON Lines: books, code, benchmarks, mojibake, labelled languages, the small corpus."""
    folders = ("04_books", "05_code", "06_benchmarks", "07_unicode", "09_langid", "10_small_corpus")
    found = [text for folder in folders for text in texts_of(folder) if said(text)]
    print(f"{form}: {len(found):,} texts, {sum(len(text.encode()) for text in found):,} bytes")
    assert len(found) > 60_000
    assert_all_come_back(trained(form), found)


@pytest.mark.slow
def test_every_page_comes_back_after_extraction(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    recipe = {
        "name": "pages",
        "sources": {"web": {"read": {"kind": "warc", "paths": str(DATA / "03_raw_html" / "*.warc.gz")}, "extract": {}}},
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    options: dict[str, Any] = {"output": tmp_path / "run", "cache": tmp_path / "cache", "quiet": True}
    curate.run(tmp_path / "recipe.yaml", until="collect", **options)
    found = pq.read_table(tmp_path / "run" / "documents" / "web", columns=["text"])["text"].to_pylist()
    print(f"{len(found):,} pages, {sum(len(text.encode()) for text in found):,} bytes")
    assert len(found) > 500
    for form in FORMS:
        assert_all_come_back(trained(form), found)
