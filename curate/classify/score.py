"""`curate classifier score`: the scores of documents that lie in files, written beside them and deciding nothing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from curate.classify.inputs import source_block
from curate.errors import UsageError
from curate.filter.classifier import Classifier, Reading, digest_of, load_classifier, reading_of, scores_of
from curate.inputs import InputFile, Part, list_inputs, open_part
from curate.pipeline import ParquetFile, split_by_bytes
from curate.recipe import EXTRACTORS, READERS

# Path as given, where the record starts (a row of Parquet, else bytes), part of it, the input's own id; the likeliest label
# with its probability, and the score if labels have numbers. Null label and 0: a text without a word. Nothing is null
# else; a record that cannot be read has `problem` instead of all three.
SCORES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("part", pa.int32(), nullable=False),
        pa.field("id", pa.large_string()),
        pa.field("label", pa.string()),
        pa.field("probability", pa.float64()),
        pa.field("score", pa.float64()),
        pa.field("problem", pa.string()),
    ]
)


def score_files(
    model: str,
    paths: Sequence[str],
    output: Path,
    *,
    text: str = "text",
    label: str | None = None,
    form: str | None = None,
) -> tuple[int, int]:
    """Score every document of some files; write Parquet, or JSON Lines where the name of `output` says so.

    Args:
        model: As for the step `quality`.
        paths: Paths or patterns; archives are extracted by `auto`.
        output: File to write, whole or not at all.
        text: Field that holds the text, of JSON Lines and Parquet.
        label: The label whose probability is the score, for a model without a card.
        form: Form of the text, for a model without a card.

    Returns:
        Documents scored, and records that could not be read.
    """
    if output.suffix not in (".parquet", ".jsonl"):
        raise UsageError(f"--output {output}: must end in .parquet or .jsonl.")
    reading = reading_of(model)
    if reading is not None and (label is not None or form is not None):
        raise UsageError("--label and --form: the model's card says how it is read. Leave them out.")
    if reading is None:
        reading = Reading(form or "line", {} if label is None else {label: 1.0})
    classifier = load_classifier(model, reading.text, digest_of(model))
    if missing := [one for one in reading.score if one not in classifier.labels]:
        raise UsageError(f"--label {missing[0]}: the model has {', '.join(classifier.labels[:20])}.")
    files = [(path, list_inputs([path], Path(), None)) for path in paths]
    scored = refused = 0
    temporary = output.with_name(f".{output.name}.tmp")
    try:
        with ExitStack() as stack:
            file: Any
            if output.suffix == ".parquet":
                file = stack.enter_context(ParquetFile(temporary, SCORES))
            else:
                file = _JsonLines(stack.enter_context(temporary.open("w", encoding="utf-8")))
            for path, found in files:
                for one in found:
                    for batch in _scores(path, one, text, classifier, reading):
                        refused += len(batch) - batch["problem"].null_count
                        scored += batch["problem"].null_count
                        file.write(batch)
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)
    return scored, refused


class _JsonLines:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            given = {name: value for name, value in row.items() if value is not None or name == "label"}
            self._file.write(json.dumps(given, ensure_ascii=False) + "\n")


def _scores(
    path: str, file: InputFile, text: str, classifier: Classifier, reading: Reading
) -> Iterator[pa.RecordBatch]:
    block = source_block(file.url, text)
    read = {name: value for name, value in block["read"].items() if name not in ("kind", "paths")}
    reader = READERS[block["read"]["kind"]](**read)
    extractor = EXTRACTORS["auto"]() if "extract" in block else None
    name = file.path if any(sign in path for sign in "*?[") or Path(path).is_dir() else path
    with tempfile.TemporaryDirectory() as folder, open_part(Part(file), Path(folder)) as stream:
        for whole in reader.read(stream, file.path):
            for batch in split_by_bytes(whole):
                rules = batch["rule"].to_pylist()
                kept = [row for row, rule in enumerate(rules) if not (rule or "").startswith("skipped.")]
                if not kept:
                    continue
                batch = batch.take(pa.array(kept))
                texts = batch["text"] if extractor is None else extractor.extract(batch)["text"]
                yield _rows(name, batch, texts.to_pylist(), classifier, reading)


def _rows(
    path: str, batch: pa.RecordBatch, texts: list[str | None], classifier: Classifier, reading: Reading
) -> pa.RecordBatch:
    lines = classifier.lines(texts)
    probabilities = classifier.probabilities(lines)
    best = probabilities.argmax(axis=1)
    problems = [
        rule and f"{rule}: {detail}"
        for rule, detail in zip(batch["rule"].to_pylist(), batch["detail"].to_pylist(), strict=True)
    ]
    bad = pa.array([problem is not None for problem in problems])
    labels = [classifier.labels[place] if line else None for place, line in zip(best, lines, strict=True)]
    values = scores_of(probabilities, classifier.labels, reading.score) if reading.score else [None] * len(labels)
    columns = [
        pa.array([path] * len(labels), pa.string()),
        batch["offset"],
        batch["part"],
        batch["source_id"],
        pa.array(labels, pa.string()),
        pa.array(probabilities.max(axis=1), pa.float64(), mask=bad.to_numpy(zero_copy_only=False)),
        pa.array(values, pa.float64(), mask=bad.to_numpy(zero_copy_only=False)),
        pa.array(problems, pa.string()),
    ]
    return pa.record_batch(columns, schema=SCORES)
