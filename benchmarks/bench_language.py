"""Language identification beside the fastText library: CPU time, identity, accuracy by language, and its share of curating a page.

    python benchmarks/bench_language.py [--rounds N] > benchmarks/results/language.md

Texts: `$CURATE_DATA` (02_gold, 03_raw_html by our extractor, 09_langid). Batches go through every contestant in turn, in an
order that rotates; a contestant's time is the sum over batches of the least CPU time of the rounds. Labels and probabilities
are compared with the library's in the same run. Writes Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import io
import json
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fasttext
import numba
import numpy as np
import pyarrow as pa

from curate.filter.language import Language, _model_path
from curate.filter.language_labels import LID_176
from curate.text.fasttext_model import load_model, predict

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
BATCH_ROWS = 256
PAGES = 800  # of the crawl, for the profile


# ---- texts


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for line in content.split(b"\n"):
        if line:
            yield json.loads(line)


def gold_pages() -> list[dict[str, Any]]:
    pages = [row for path in sorted((DATA / "02_gold").glob("*/gold.jsonl")) for row in read_lines(path)]
    return [row for row in pages if row.get("text")]


def raw_pages() -> list[str]:
    from curate.extract.auto.extractor import Auto
    from curate.read.warc import Warc

    texts: list[str] = []
    with (DATA / "03_raw_html" / "raw.warc.gz").open("rb") as file, contextlib.redirect_stderr(io.StringIO()):
        for batch in Warc().read(file, "raw.warc.gz"):
            texts += [text for text in Auto().extract(batch)["text"].to_pylist() if text]
    return texts


def batches(texts: list[str]) -> list[pa.RecordBatch]:
    column = pa.array(texts, pa.large_string())
    return [pa.record_batch({"text": column.slice(start, BATCH_ROWS)}) for start in range(0, len(texts), BATCH_ROWS)]


def size_of(texts: list[str]) -> float:
    return sum(len(text.encode()) for text in texts) / 1e6


# ---- contestants: a batch's texts in, labels out


def contestants() -> dict[str, Callable[[pa.RecordBatch], Any]]:
    path = _model_path(None)
    library = fasttext.load_model(path).f.predict
    model = load_model(path, "")

    def theirs(batch: pa.RecordBatch) -> Any:
        return [library(text.replace("\n", " ") + "\n", 1, 0.0, "strict") for text in batch["text"].to_pylist()]

    return {
        "fastText": theirs,
        "kernel": lambda batch: predict(model, batch["text"]),
        "scripts": Language(second_look=False).apply,
        "step": Language().apply,
        "paragraphs": Language(paragraphs=True).apply,
    }


def times(
    functions: dict[str, Callable[[pa.RecordBatch], Any]], parts: list[pa.RecordBatch], rounds: int
) -> dict[str, float]:
    """Return the CPU seconds of each contestant."""
    names = list(functions)
    total = dict.fromkeys(names, 0.0)
    for number, part in enumerate(parts):
        least = dict.fromkeys(names, float("inf"))
        for turn in range(rounds):
            for place in range(len(names)):
                name = names[(place + number + turn) % len(names)]
                start = time.process_time()
                functions[name](part)
                least[name] = min(least[name], time.process_time() - start)
        for name in names:
            total[name] += least[name]
    return total


def differences(
    functions: dict[str, Callable[[pa.RecordBatch], Any]], parts: list[pa.RecordBatch]
) -> tuple[int, float]:
    """Return how many labels differ from the library's, and the greatest difference of a probability."""
    labels = load_model(_model_path(None), "").labels
    different, most = 0, 0.0
    for part in parts:
        for found, label, score in zip(functions["fastText"](part), *functions["kernel"](part), strict=True):
            if not found:
                different += label >= 0
                continue
            different += labels[label] != found[0][1]
            most = max(most, abs(float(score) - found[0][0]))
    return different, most


def speed(corpora: dict[str, list[str]], rounds: int) -> None:
    functions = contestants()
    for function in functions.values():
        function(batches(["The barge left the town before noon."])[0])
    print(
        "| texts | documents | MB | fastText | kernel | labels that differ | greatest difference of a probability |",
        end="",
    )
    print(" with scripts | the step as it is by default | with paragraphs |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, texts in corpora.items():
        parts, size = batches(texts), size_of(texts)
        different, most = differences(functions, parts)
        took = times(functions, parts, rounds)
        cells = [f"{size / took['fastText']:.1f} MB/s"]
        ratio = {one: took["fastText"] / took[one] for one in took}
        cells += [f"{size / took['kernel']:.1f} MB/s, {ratio['kernel']:.1f}x", f"{different}", f"{most:.1e}"]
        cells += [f"{size / took[one]:.1f} MB/s, {ratio[one]:.1f}x" for one in ("scripts", "step", "paragraphs")]
        print(f"| {name} | {len(texts):,} | {size:.1f} | {' | '.join(cells)} |", flush=True)


# ---- accuracy


def labelled(texts: list[str], step: Language) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for part in batches(texts):
        rows = step.apply(part)
        found += zip(rows["language"].to_pylist(), rows["language_score"].to_pylist(), strict=True)
    return found


def accuracy(rows: list[dict[str, Any]]) -> None:
    wanted = ["no" if row["lang"] == "nb" else row["lang"] for row in rows]
    texts = [row["text"] for row in rows]
    developed = np.array([int(hashlib.sha256(text.encode()).hexdigest(), 16) % 2 == 0 for text in texts])
    alone = labelled(texts, Language(second_look=False, min_letters=1))
    looked = labelled(texts, Language())
    print("| | all | half that set the weight | other half | Portuguese | share with a score of .65 | of them right |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    right: dict[str, np.ndarray] = {}
    for name, found in (("lid.176 alone", alone), ("the step by default", looked)):
        ok = np.array([label == want for (label, _), want in zip(found, wanted, strict=True)])
        sure = np.array([score >= 0.65 for _, score in found])
        portuguese = np.array([want == "pt" for want in wanted])
        shares = (
            ok.mean(),
            ok[developed].mean(),
            ok[~developed].mean(),
            ok[portuguese].mean(),
            sure.mean(),
            ok[sure].mean(),
        )
        print(f"| {name} | {' | '.join(f'{share:.4f}' for share in shares)} |")
        right[name] = ok
    before, after = right.values()
    print(
        "\nLanguages whose accuracy is below .95 with either, and what their sentences are taken for with the second look:\n"
    )
    print("| | alone | with second look | taken for | | alone | with second look | taken for |")
    print("| --- | ---: | ---: | --- | --- | ---: | ---: | --- |")
    cells = []
    for language in sorted(set(wanted)):
        mine = np.array([want == language for want in wanted])
        one, two = before[mine].mean(), after[mine].mean()
        if min(one, two) < 0.95:
            wrong = Counter(
                label for (label, _), is_it in zip(looked, mine, strict=True) if is_it and label != language
            )
            cells.append(
                f"{language} | {one:.3f} | {two:.3f} | {', '.join(f'{label} {n}' for label, n in wrong.most_common(3))}"
            )
    cells += [" | | | "] * (len(cells) % 2)
    half = len(cells) // 2
    for left, other in zip(cells[:half], cells[half:], strict=True):
        print(f"| {left} | {other} |")


def pages_accuracy(pages: list[dict[str, Any]]) -> None:
    known = [(row["lang"][:2], row["text"]) for row in pages if row["lang"] != "?"]
    lines = [(language, line) for language, text in known for line in text.split("\n") if len(line) >= 20]
    print(
        "| | texts | alone | with second look | rightly changed | wrongly changed | of those with a score of .8 changed |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, texts in (("pages", known), ("their lines of 20 characters and more", lines)):
        alone = labelled([text for _, text in texts], Language(second_look=False))
        looked = labelled([text for _, text in texts], Language())
        triples = [(want, one, two) for (want, _), one, two in zip(texts, alone, looked, strict=True)]
        better = sum(one[0] != want and two[0] == want for want, one, two in triples)
        worse = sum(one[0] == want and two[0] != want for want, one, two in triples)
        sure = sum(one[1] >= 0.8 and one != two for _, one, two in triples)
        shares = [
            sum(found[0] == want for want, found in zip((w for w, *_ in triples), some, strict=True))
            for some in (alone, looked)
        ]
        cells = " | ".join(f"{share / len(texts):.4f}" for share in shares)
        print(f"| {name} | {len(texts):,} | {cells} | {better} | {worse} | {sure} |")


# ---- the profile


def profile() -> None:
    """Print the CPU time of each stage of a page's way, with the library and with the kernel."""
    from curate.extract.auto.extractor import Auto
    from curate.extract.repair import Ftfy
    from curate.filter.c4 import C4Lines
    from curate.filter.fineweb import FineWeb
    from curate.filter.gopher.quality import GopherQuality
    from curate.filter.gopher.repetition import GopherRepetition
    from curate.read.warc import Warc
    from curate.words import with_words

    took: Counter[str] = Counter()

    def timed(name: str, function: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = function()
        took[name] += time.process_time() - start
        return result

    steps = [GopherRepetition(), GopherQuality(), C4Lines(), FineWeb()]
    functions = contestants()
    columns = tuple(dict.fromkeys(name for step in steps for name in step.reads))

    def one(batch: pa.RecordBatch) -> None:
        text = timed("extract", lambda: Auto().extract(batch))["text"]
        text = text.filter(text.is_valid())
        rows = pa.record_batch({"text": text})
        rows = pa.record_batch({"text": timed("repair", lambda: Ftfy().repair(rows))["text"]})
        timed("language: fastText", lambda: functions["fastText"](rows))
        timed("language: the step", lambda: functions["step"](rows))
        rows = timed("words", lambda: with_words(rows, columns))
        for step in steps:
            timed("filters", lambda step=step: step.apply(rows))

    pages = 0
    for turn in range(2):  # the first warms
        took.clear()
        pages = 0
        with (DATA / "03_raw_html" / "raw.warc.gz").open("rb") as file, contextlib.redirect_stderr(io.StringIO()):
            reader = Warc().read(file, "raw.warc.gz")
            while pages < (50 if turn == 0 else PAGES):
                batch = timed("read", lambda reader=reader: next(reader, None))
                if batch is None:
                    break
                pages += batch.num_rows
                one(batch)
    print("| | ms a page | share with fastText | share with our step |\n| --- | ---: | ---: | ---: |")
    rest = sum(value for name, value in took.items() if not name.startswith("language"))
    for name, value in took.items():
        with_theirs = value / (rest + took["language: fastText"]) if name != "language: the step" else None
        with_ours = value / (rest + took["language: the step"]) if name != "language: fastText" else None
        cells = [f"{share:.1%}" if share is not None else "" for share in (with_theirs, with_ours)]
        print(f"| {name} | {1000 * value / pages:.3f} | {' | '.join(cells)} |")


# ---- the page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    if not (DATA / "09_langid").is_dir():
        sys.exit(f"real inputs are absent: {DATA}. Set CURATE_DATA to the folder that holds them.")
    sentences, declarations = (
        list(read_lines(DATA / "09_langid" / f"{name}.jsonl.gz")) for name in ("sentences", "udhr")
    )
    pages = gold_pages()
    corpora = {
        "crawled pages, extracted": raw_pages(),
        "gold pages": [page["text"] for page in pages],
        "sentences, 75 languages": [row["text"] for row in sentences],
        "declarations, 528 editions": [row["text"] for row in declarations],
    }
    digest = hashlib.sha256("".join(text for texts in corpora.values() for text in texts).encode()).hexdigest()
    print("# Language identification\n")
    print(
        "`python benchmarks/bench_language.py`: CPU time in one run, contestants in turn; lid.176.ftz on both sides. fastText is"
    )
    print("called as its binding is fastest (`model.f.predict` on str); ours goes from Arrow batch to Arrow batch.\n")
    speed(corpora, chosen.rounds)
    print(
        "\nWith scripts: and the check of scripts; by default: and the second look. Paragraphs are off by default.",
        end=" ",
    )
    print("Short texts cost both sides more a byte, ours the second look besides: a fourth of the sentences get one.")
    known = [row for row in sentences if row["lang"] == "nb" or row["lang"] in LID_176]
    print(
        f"\n## Accuracy\n\n{len(known):,} sentences of 67 languages that lid.176 has; nb counts as no. The weight of the second look",
        end=" ",
    )
    print("was set on one half (by hash), its table learned from the declarations alone.", end=" ")
    print(
        "Lengths of n-grams, size of the table and the gate were chosen with both halves in view: no half is untouched.\n"
    )
    accuracy(known)
    print("\nPages of known language (02_gold; some have untranslated parts, so no classifier reaches 1):\n")
    pages_accuracy(pages)
    print(
        f"\n## Profile\n\nA page from WARC on, {PAGES} crawled pages, everything kept; words are split once for all filters.\n"
    )
    profile()
    print(
        f"\nInput sha256 {digest[:16]}; Python {platform.python_version()}, fastText 0.9.3, pyarrow {pa.__version__},",
        end=" ",
    )
    print(f"numba {numba.__version__}; {platform.machine()}, {processor()}, one core.")


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


if __name__ == "__main__":
    main()
