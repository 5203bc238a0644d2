"""Unicode repair beside ftfy: CPU time, identity of the output, and what is repaired and damaged.

    python benchmarks/bench_repair.py [--limit MB] > benchmarks/results/repair.md

Texts: `$CURATE_DATA` (02_gold texts and pages, 03_raw_html, 04_books, 07_unicode), pages reduced to text by resiliparse.
Batches of about a megabyte go through every contestant in turn, in an order that rotates; each contestant's CPU time is
the sum over batches. Every output of ours is compared with that of ftfy under the same settings. Writes Markdown.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import platform
import re
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ftfy
import numba
import pyarrow as pa

from curate.extract.encoding import decode_html
from curate.extract.repair import Ftfy
from curate.text.controls import CONTROL, TERMINAL_CODE
from curate.text.unicode import ftfy_config, repair

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
BATCH_BYTES = 1 << 20
# Mojibake of real sentences: UTF-8 read as one of these. ftfy's names: "sloppy" leaves no byte without a character.
MISREAD = (
    "latin-1",
    "sloppy-windows-1252",
    "sloppy-windows-1250",
    "sloppy-windows-1251",
    "sloppy-windows-1253",
    "sloppy-windows-1254",
    "sloppy-windows-1257",
    "iso-8859-2",
    "macroman",
    "cp437",
)
LINE_END = re.compile("\r\n?|\x0c")
WINDOWS = {"iso-8859-1": "cp1252", "iso-8859-2": "cp1250", "iso-8859-9": "cp1254"}


# ---- texts


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for line in content.split(b"\n"):
        if line:
            yield json.loads(line)


def main_text(page: bytes) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    return str(extract_plain_text(decode_html(page).text, main_content=True))


def gold() -> Iterator[str]:
    for folder in sorted(path for path in (DATA / "02_gold").iterdir() if path.is_dir()):
        for entry in read_lines(folder / "gold.jsonl"):
            yield entry["text"]
            path = folder / entry["html"]
            yield main_text(gzip.decompress((path if path.exists() else folder.parent / entry["html"]).read_bytes()))


def raw_html() -> Iterator[str]:
    from fastwarc import ArchiveIterator, WarcRecordType

    with (DATA / "03_raw_html" / "raw.warc.gz").open("rb") as file:
        for record in ArchiveIterator(file, record_types=WarcRecordType.response, parse_http=True):
            yield main_text(record.reader.read())


def books() -> Iterator[str]:
    for entry in read_lines(DATA / "04_books" / "books.jsonl.gz"):
        yield entry["text"]


def declarations() -> Iterator[str]:
    """The UDHR in 89 editions by the right codec: where C1 controls come of it, the Windows page of the same letters."""
    for entry in read_lines(DATA / "07_unicode" / "encodings.jsonl"):
        if entry["python_codec"] is not None:
            data = gzip.decompress((DATA / "07_unicode" / entry["file"]).read_bytes())
            text = data.decode(entry["python_codec"])
            if re.search("[\x80-\x9f]", text):
                text = data.decode(WINDOWS[entry["python_codec"]], "c1_controls")
            yield text


def cases() -> list[dict[str, Any]]:
    return list(read_lines(DATA / "07_unicode" / "ftfy_cases.jsonl"))


# ---- contestants


def ftfy_same(texts: list[str]) -> list[str]:
    """ftfy under our settings, each text in whole, with our other repairs: what ours must equal."""
    config = ftfy_config()
    results = []
    for text in texts:
        text = TERMINAL_CODE.sub("", LINE_END.sub("\n", text))
        while True:
            fixed = CONTROL.sub("", ftfy.fix_text(text, config))
            if fixed == text:
                break
            text = fixed
        results.append(text)
    return results


def ftfy_once(texts: list[str]) -> list[str]:
    config = ftfy_config()
    return [ftfy.fix_text(text, config) for text in texts]


def ftfy_stock(texts: list[str]) -> list[str]:
    return [ftfy.fix_text(text) for text in texts]


def batches(texts: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text.encode())
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def timed(function: Callable[[Any], Any], argument: Any) -> tuple[Any, float]:
    start = time.process_time()
    result = function(argument)
    return result, time.process_time() - start


def race(texts: list[str]) -> tuple[dict[str, float], int, Counter[str], float]:
    """Return CPU seconds of each contestant, texts that differ, documents by repair, and share of texts touched."""
    stage = Ftfy()
    seconds = dict.fromkeys(("ours", "same", "once", "stock"), 0.0)
    others = {"same": ftfy_same, "once": ftfy_once, "stock": ftfy_stock}
    different, kinds, touched = 0, Counter[str](), 0
    for number, batch in enumerate(batches(texts)):
        column = pa.record_batch({"text": pa.array(batch, pa.large_string())})
        results: dict[str, Any] = {}
        names = ["ours", "same", "once", "stock"]
        for name in names[number % 4 :] + names[: number % 4]:
            if name == "ours":
                results[name], took = timed(stage.repair, column)
            else:
                results[name], took = timed(others[name], batch)
            seconds[name] += took
        ours = results["ours"]["text"].to_pylist()
        different += sum(one != other for one, other in zip(ours, results["same"], strict=True))
        for made in results["ours"]["repairs"].to_pylist():
            kinds.update(kind for kind, _ in made)
            touched += bool(made)
    return seconds, different, kinds, touched / max(1, len(texts))


# ---- what is repaired, and what is damaged


def broken_lines(texts: list[str]) -> dict[str, list[tuple[str, str]]]:
    """Return for each codec pairs (mojibake, right) of every distinct line outside ASCII."""
    lines = dict.fromkeys(
        line
        for text in texts
        for line in LINE_END.sub("\n", text).split("\n")
        if not line.isascii() and unicodedata.is_normalized("NFC", line) and not CONTROL.search(line)
    )
    return {codec: [(line.encode("utf-8").decode(codec), line) for line in lines] for codec in MISREAD}


def score(function: Callable[[str], str], pairs: list[tuple[str, str]]) -> tuple[int, int, int]:
    """Return how many come out right, unchanged, and wrong."""
    right = unchanged = 0
    for broken, line in pairs:
        result = function(broken)
        right += result == line
        unchanged += result == broken != line
    return right, unchanged, len(pairs) - right - unchanged


def changed_lines(function: Callable[[str], str], lines: list[str]) -> int:
    """Return how many right lines come out as other ones (canonically other: normal form and controls do not count)."""
    return sum(plain(function(line)) != plain(line) for line in lines)


def plain(text: str) -> str:
    return CONTROL.sub("", unicodedata.normalize("NFC", LINE_END.sub("\n", text)))


def as_they_are(text: str) -> str:
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description="Unicode repair beside ftfy")
    parser.add_argument("--limit", type=float, default=1e9, help="megabytes of each source")
    limit = parser.parse_args().limit * 1e6
    corpora: dict[str, list[str]] = {}
    for name, source in (("gold", gold), ("raw pages", raw_html), ("books", books), ("declarations", declarations)):
        corpora[name], size = [], 0
        for text in source():
            if size < limit:
                corpora[name].append(text)
                size += len(text.encode())
    corpora["ftfy's cases"] = [case["original"] for case in cases()]
    digest = hashlib.sha256()
    for texts in corpora.values():
        for text in texts:
            digest.update(text.encode() + b"\0")
    _, cold = timed(Ftfy().repair, pa.record_batch({"text": pa.array(["é"], pa.large_string())}))

    rows, total, different = [], Counter[str](), 0
    for name, texts in corpora.items():
        seconds, wrong, kinds, touched = race(texts)
        different += wrong
        size = sum(len(text.encode()) for text in texts)
        outside = sum(len(text.encode()) - len(text.encode("ascii", "ignore")) for text in texts) / size
        total.update(seconds)
        total["bytes"] += size
        made = ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items())) or "none"
        rows.append((name, len(texts), size, outside, seconds, touched, made))
        print(name, {key: round(value, 3) for key, value in seconds.items()}, "different", wrong, file=sys.stderr)
    if different:
        raise SystemExit(f"{different} texts differ from ftfy's")
    rows.append(("all", sum(row[1] for row in rows), total["bytes"], None, dict(total), None, ""))
    write(rows, digest.hexdigest(), cold, corpora)


def write(rows: list[Any], digest: str, cold: float, corpora: dict[str, list[str]]) -> None:
    print("# Unicode repair\n")
    print(
        "`python benchmarks/bench_repair.py`: CPU seconds in one run, batches in turn; ours from Arrow batch to Arrow"
    )
    print("batch, ftfy from str to str. Every text comes out as from ftfy with our settings (asserted in the run).\n")
    print("| texts | documents | MB | not ASCII | ours, s | ftfy, our settings | ftfy, defaults | ours | faster than |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for name, documents, size, outside, seconds, _, _ in rows:
        share = "" if outside is None else f"{outside:.1%}"
        ours = max(seconds["ours"], 1e-6)
        print(
            f"| {name} | {documents:,} | {size / 1e6:.2f} | {share} | {ours:.3f} | {seconds['once']:.2f} |"
            f" {seconds['stock']:.2f} | {size / 1e6 / ours:,.0f} MB/s |"
            f" {seconds['once'] / ours:.0f}x, {seconds['stock'] / ours:.0f}x |"
        )
    print(f"\nFirst call in a process (tables from ftfy's expression, compiled code from disk): {cold:.2f} s.\n")
    print("| texts | documents changed | of which |")
    print("| --- | ---: | --- |")
    for name, _, _, _, _, touched, made in rows[:-1]:
        print(f"| {name} | {touched:.2%} | {made} |")
    accuracy(corpora)
    print(f"\nInput sha256 {digest[:16]}; Python {platform.python_version()}, ftfy {ftfy.__version__},", end=" ")
    print(f"pyarrow {pa.__version__}, numba {numba.__version__}, Unicode {unicodedata.unidata_version};", end=" ")
    print(f"{platform.machine()}, {processor()}, one core.")


def accuracy(corpora: dict[str, list[str]]) -> None:
    def ours(text: str) -> str:
        return repair(text)[0]

    pairs = broken_lines(corpora["declarations"])
    total = sum(map(len, pairs.values()))
    clean = list(dict.fromkeys(line for text in corpora["declarations"] for line in text.split("\n") if line.strip()))
    proper = [case for case in cases() if case["expect"] == "pass"]
    contestants: list[tuple[str, Callable[[str], str]]] = [
        ("ours", ours),
        ("ftfy, defaults", ftfy.fix_text),
        ("no repair", as_they_are),
    ]
    print(
        f"\n## What is repaired\n\n{total:,} lines: the {total // len(MISREAD):,} distinct lines outside ASCII", end=" "
    )
    print(f"of the declarations, their UTF-8 read as each of {len(MISREAD)} codecs. Clean: all {len(clean):,}", end=" ")
    print("distinct lines as they are; changed means beyond NFC, controls and line ends. ftfy's own", end=" ")
    print(
        f"{len(proper)} cases: as it expects, or its encoding step alone. The defaults also straighten quotes and fold"
    )
    print("widths and ligatures, so that much of what they undo comes out as something else.\n")
    print("| | undone | left as it was | made into something else | clean lines changed | ftfy's cases |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    by_codec: dict[str, list[str]] = {codec: [] for codec in MISREAD}
    for name, function in contestants:
        scores = {codec: score(function, some) for codec, some in pairs.items()}
        right, unchanged, wrong = (sum(column) for column in zip(*scores.values(), strict=True))
        passed = sum(passes(function(case["original"]), case) for case in proper)
        changed = changed_lines(function, clean)
        print(f"| {name} | {right:,} ({right / total:.1%}) | {unchanged:,} | {wrong:,} | {changed:,} | {passed} |")
        for codec, (undone, _, other) in scores.items():
            by_codec[codec].append(f"{undone / len(pairs[codec]):.1%} | {other / len(pairs[codec]):.1%}")
    print("\n| UTF-8 read as | ours: undone | made wrong | defaults: undone | made wrong |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for codec, columns in by_codec.items():
        print(f"| {codec} | {columns[0]} | {columns[1]} |")


def passes(result: str, case: dict[str, Any]) -> bool:
    """Whether a result is what ftfy's case expects, but for a control that it leaves in."""
    expected = (case["fixed"].replace("\x1a", ""), case.get("fixed-encoding"))
    return result.replace("\x1a", "") in expected


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


if __name__ == "__main__":
    main()
