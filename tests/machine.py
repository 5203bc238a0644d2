"""Small corpora and ways to run the product over them: as a library, as a command, killed at a chosen moment."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOUNS = tuple(
    "barge lock toll miller harbour ledger canal timber grain weir keeper guild mayor hive plateau orchard market bridge".split()
)
VERBS = tuple("carried opened raised repaired counted visited measured sold described watched closed painted".split())


def sentence(seed: int) -> str:
    """Return a sentence of its own for each seed: words chosen by hash."""
    digest = hashlib.sha256(str(seed).encode()).digest()
    pick = [NOUNS[byte % len(NOUNS)] for byte in digest[:4]]
    return f"The {pick[0]} {VERBS[digest[4] % len(VERBS)]} the {pick[1]} and the {pick[2]} that have been with number {seed} of {pick[3]}."


def prose(seed: int, sentences: int = 8) -> str:
    """Return a text that passes the quality rules."""
    return "\n".join(sentence(1000 * seed + number) for number in range(sentences))


def write_jsonl(path: Path, documents: list[dict[str, Any]]) -> None:
    """Write documents, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(document) + "\n" for document in documents), "utf-8")


def corpus(folder: Path, *, files: int = 12, documents: int = 50, first: int = 0) -> None:
    """Write JSONL files with good documents, a bad line, an empty text, short texts, exact and near copies in each."""
    for number in range(files):
        seeds = range(first + number * documents, first + (number + 1) * documents)
        rows: list[dict[str, Any]] = [{"id": f"d{seed}", "text": prose(seed)} for seed in seeds]
        rows[3]["text"] = "Too short."
        rows[4]["text"] = rows[5]["text"]
        rows[6]["text"] = rows[7]["text"].replace(
            sentence(1000 * (seeds[0] + 7)), "The copy has another first sentence that is with the others."
        )
        rows[8]["text"] = "  \n"
        if number:
            rows[9]["text"] = prose(first)  # the first document of the first file, again
        path = folder / f"part-{number:02d}.jsonl"
        write_jsonl(path, rows)
        with path.open("a") as file:
            file.write('{"id": "broken", "text": "unterminated\n')


RECIPE = """\
name: small
seed: 5
sources:
  one:
    read: {kind: jsonl, paths: "in/one/*.jsonl"}
    repair: {kind: ftfy}
    steps:
      - language: {keep: [en]}
      - gopher_quality: {min_words: 20}
      - c4_lines: {min_sentences: 3}
      - where: "num_words >= 25"
      - pii: {at: collect}
  two:
    read: {kind: jsonl, paths: "in/two/*.jsonl"}
    steps: [{gopher_quality: {min_words: 5}}]
dedup:
  exact: {}
  minhash: {verify: 0.7}
  keep: {order: [two, one], then: longest}
decontaminate: {benchmarks: ["in/benchmark.jsonl"]}
tokenizer: {train: {kind: sentencepiece, vocab_size: 400}}
validation: {tokens: 500, min_documents: 3}
mixture: {weights: {one: 2, two: 1}, tokens: 6k, max_epochs: 4, window: 64}
"""


def project(folder: Path, *, files: int = 12, documents: int = 50, recipe: str = RECIPE) -> Path:
    """Write a recipe with two sources and a benchmark; return the recipe's path."""
    corpus(folder / "in" / "one", files=files, documents=documents)
    corpus(folder / "in" / "two", files=max(1, files // 3), documents=documents, first=files * documents // 2)
    leaked = {"question": prose(11, 3).replace("\n", " "), "answer": "the miller"}
    write_jsonl(
        folder / "in" / "benchmark.jsonl",
        [
            leaked,
            {
                "question": "Which of the towns upstream of the weir burned down in the winter of the flood?",
                "answer": "none",
            },
        ],
    )
    path = folder / "recipe.yaml"
    path.write_text(recipe)
    return path


def command(
    *arguments: object, cwd: Path | None = None, environment: dict[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run `curate` with arguments in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "curate.cli", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | (environment or {}),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start(*arguments: object, cwd: Path | None = None, stderr: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Start `curate` with arguments in a process of its own and return at once."""
    return subprocess.Popen(
        [sys.executable, "-m", "curate.cli", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        text=True,
    )


# Timings differ between any two runs; the report shows them in a section of its own and is compared by its data.
VARYING = ("timings.json", "report.html", "report.json")


def contents(run: Path) -> dict[str, str]:
    """Return relative path -> sha256 of every file of a run folder that must be the same in two runs."""
    return {
        path.relative_to(run).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.relative_to(run).as_posix() not in VARYING
    }


def ids(run: Path, kind: str) -> list[str]:
    """Return all ids in documents/, decisions/ or extracted/."""
    import pyarrow.parquet as pq

    found: list[str] = []
    for path in sorted((run / kind).rglob("*.parquet")):
        found += pq.read_table(path, columns=["id"])["id"].to_pylist()
    return found


def run(recipe: Path, folder: Path, **options: Any) -> Any:
    """Run a recipe as a library does, on one worker: each costs a second and a half of imports."""
    arguments: dict[str, Any] = {"output": folder / "run", "cache": folder / "cache", "workers": 1, "quiet": True}
    import curate

    return curate.run(recipe, **(arguments | options))


def work(folder: Path) -> dict[str, tuple[int, int]]:
    """Return phase -> (tasks run, tasks reused) of the last run."""
    timings = json.loads((folder / "run" / "timings.json").read_text())
    return {name: (phase["tasks_run"], phase["tasks_reused"]) for name, phase in timings["phases"].items()}


LOSER = '''
from curate.stage import Step

class Loses(Step):
    """Forgets the last row of each batch."""
    rewrites = True

    def apply(self, batch):
        return batch.select(["text"]).slice(0, batch.num_rows - 1)

class Raises(Step):
    adds = {"length": "int64"}

    def apply(self, batch):
        import pyarrow as pa
        texts = batch["text"].to_pylist()
        if any("number 1003 " in text for text in texts):
            raise ValueError("cannot measure this one")
        return pa.record_batch({"length": pa.array([len(text) for text in texts], pa.int64())})

class Dies(Step):
    adds = {"length": "int64"}

    def apply(self, batch):
        import os, signal
        import pyarrow as pa
        texts = batch["text"].to_pylist()
        if any("number 1003 " in text for text in texts):
            os.kill(os.getpid(), signal.SIGKILL)
        return pa.record_batch({"length": pa.array([len(text) for text in texts], pa.int64())})
'''


def with_step(folder: Path, name: str, at: str = "") -> Path:
    """Return a project whose first source has a step from a file beside the recipe."""
    recipe = project(folder, files=2, documents=12)
    (folder / "mine.py").write_text(LOSER)
    text = recipe.read_text().replace(
        "      - pii: {at: collect}", f"      - mine:{name}: {{{at}}}\n      - pii: {{at: collect}}"
    )
    recipe.write_text(text)
    return recipe
