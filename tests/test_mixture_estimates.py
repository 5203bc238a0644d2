"""What `curate mixture plan` makes of the sizes of input files, and that it says of estimates that they are."""

from __future__ import annotations

import bz2
import gzip
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from machine import prose
from machine import write_jsonl as write

from curate.errors import StageError
from curate.inputs import InputFile
from curate.mixture_estimate import text_bytes
from curate.mixture_plan import plan, plan_lines

TEXT = "\n".join(prose(number, 8) for number in range(40)).encode()


def estimate(path: Path, *, pages: bool = False) -> int:
    return text_bytes([InputFile(str(path), None, path.name, path.stat().st_size, "")], pages=pages)


def test_plain_files_and_the_sizes_that_compressed_ones_state(tmp_path):
    written = {
        "plain.jsonl": TEXT,
        "one.gz": gzip.compress(TEXT),
        "one.zst": zstandard.compress(TEXT),
    }
    for name, data in written.items():
        (tmp_path / name).write_bytes(data)
        assert estimate(tmp_path / name) == len(TEXT), name
    assert estimate(tmp_path / "plain.jsonl", pages=True) == len(TEXT) // 10
    with zipfile.ZipFile(tmp_path / "a.epub", "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("text/1.xhtml", TEXT)
        book.writestr("cover.jpg", bytes(10_000))
    assert estimate(tmp_path / "a.epub") == len(TEXT)
    pq.write_table(
        pa.table({"text": [TEXT.decode()]}), tmp_path / "a.parquet", compression="zstd", use_dictionary=False
    )
    assert len(TEXT) <= estimate(tmp_path / "a.parquet") < len(TEXT) * 1.1


def test_what_states_no_size_is_three_times_what_it_is_compressed(tmp_path):
    record = gzip.compress(TEXT[:400])
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
    for name, data in {
        "members.gz": gzip.compress(TEXT) + record,  # its end tells of the last record alone
        "streamed.zst": streamed,
        "one.bz2": bz2.compress(TEXT),
        "damaged.epub": b"no archive",
        "damaged.parquet": b"no table",
        "empty.gz": b"",
    }.items():
        (tmp_path / name).write_bytes(data)
        assert estimate(tmp_path / name) == 3 * len(data), name


def recipe(folder: Path, mixture: str) -> Path:
    for source, size in (("web", 4000), ("books", 1000)):
        write(folder / f"{source}.jsonl", [{"text": "x" * (size - len('{"text": ""}\n'))}])
    path = folder / "recipe.yaml"
    path.write_text(
        "name: planned\nseed: 4\nsources:\n  web: {read: {kind: jsonl, paths: web.jsonl}}\n"
        "  books: {read: {kind: jsonl, paths: books.jsonl}}\n"
        f"tokenizer: {{train: {{kind: sentencepiece, vocab_size: 400}}}}\nmixture: {{window: 10, {mixture}}}\n"
    )
    return path


def cells(lines: list[str], name: str) -> list[str]:
    (line,) = [line for line in lines if line.startswith(name)]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_estimates_are_told_as_such(tmp_path):
    # 4,000 and 1,000 bytes are about 1,000 and 250 tokens: 99 and 24 windows. 75 and 25 of 100 windows are asked.
    result = plan(recipe(tmp_path, "weights: {web: 3, books: 1}, tokens: 1k"))
    lines = list(plan_lines(result))
    assert result["estimated"] is True
    assert lines[0] == "planned: 1,000 tokens in 100 windows of 10; order: shuffled."
    assert cells(lines, "books") == ["books", "about 250", "250", "250", "25%", "25%", "about 1.04"]
    assert all(text.startswith("By these estimates: ") for text in result["warnings"])
    assert "estimated" not in plan(tmp_path / "recipe.yaml", available="web=1k,books=250")


@pytest.mark.parametrize(
    ("mixture", "books", "total"),
    [
        # A cap: 24 of the 25 windows asked for.
        ("weights: {web: 3, books: 1}, max_epochs: 1, tokens: 1k", ["about 250", "about 240", "about 25%", "about 24%"], "1,000"),
        # A rule: 24 of 123 of 100 windows are 19.5.
        ("weights: proportional, tokens: 1k", ["about 195", "about 200", "about 19.5%", "about 20%"], "1,000"),
        # A budget that gives way: 123 windows.
        ("weights: {web: 3, books: 1}, max_epochs: 1, tokens: up_to", None, "about 1,230"),
    ],
)  # fmt: skip
def test_what_follows_from_estimates_is_one(tmp_path, mixture, books, total):
    lines = list(plan_lines(plan(recipe(tmp_path, mixture))))
    assert lines[0].startswith(f"planned: {total} tokens in ")
    if books is not None:
        assert cells(lines, "books")[2:6] == books


def test_a_budget_that_estimates_do_not_allow_is_refused_as_such(tmp_path):
    with pytest.raises(StageError, match="By these estimates: the budget of 1,000,000 tokens needs"):
        plan(recipe(tmp_path, "weights: {web: 3, books: 1}, max_epochs: 1, tokens: 1M"))
