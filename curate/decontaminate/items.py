"""Benchmark files to items: which fields of an item are looked for, and which never are.

A field's role comes from the names on its path (lower case, `camelCase` split, anything but letters and digits as one underscore):

- A label (`LABELS`: ids, numbers, categories, links, gold labels) is not text of the item.
- A choice (`CHOICES`, lettered or numbered options) and an answer (`ANSWERS`, any name with the word "answer") are never
  looked for alone: a document that holds only an answer is no leak.
- A context (`CONTEXTS`: passages, articles) and every other string, however nested, which is question text, are looked for
  by themselves.

Names cover the schemas of lm-evaluation-harness, llm-foundry, HELM and the original releases of common benchmarks.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, get_args

from curate.errors import InputError

IDS = (
    "id",
    "task_id",
    "question_id",
    "qid",
    "item_id",
    "doc_id",
    "example_id",
    "uid",
    "guid",
    "uuid",
    "idx",
    "index",
    "ind",
)
# fmt: off
LABELS = frozenset({
    *IDS, "number", "native_id", "source_id", "passage_id", "context_id", "pid", "sha", "hash", "key", "url", "link",
    "source", "split", "dataset", "subset", "config", "type", "category", "subject", "subjects", "topic", "area",
    "domain", "exam", "year", "date", "author", "license", "difficulty", "level", "grade", "language", "lang", "title",
    "label", "labels", "gold", "gold_label", "gold_labels", "class", "entailment", "similarity", "score", "tags",
    "answer_key", "answer_idx", "answer_index", "answer_letter", "metadata", "entry_point", "activity_label",
    "alternatives_type", "answer_type", "associated_images",
})
CHOICES = frozenset({
    "choices", "choice", "options", "option", "alternatives", "endings", "candidates", "distractors", "mc1_targets",
    "mc2_targets",
})
ANSWERS = frozenset({
    "gold_text", "target", "targets", "solution", "solutions", "canonical_solution", "completion", "completions",
    "continuation", "continuations", "output", "outputs", "response", "responses", "reference", "references",
    "explanation", "rationale", "rationales", "proof", "support", "final", "hint",
})
CONTEXTS = frozenset({"context", "passage", "paragraph", "article", "story", "document"})
# fmt: on
_LETTERED = re.compile(r"(?:option|choice|ending|sol|op|ans|answer|alternative|distractor)?_?[a-e0-9]")
_NOT_NAME = re.compile(r"[\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")  # answerKey
_LEADING_LABEL = re.compile(r"\s*([^\W\d_]{1,20})\s*:(?=\s)")
_TRAILING_LABEL = re.compile(r"(?<=\s)([^\W\d_]{1,20})\s*:\s*$")
_MIN_LABELLED = 10  # items that must carry the same label before it counts as the benchmark's form
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


Role = Literal["question", "context", "choice", "answer"]


@dataclass(frozen=True, slots=True)
class Part:
    """One text of an item.

    Attributes:
        role: "question" and "context" are looked for; "choice" (offered, right or wrong) and "answer" (the gold answer, or
            one of unknown kind) only together with their question.
        field: Dotted path of its field.
        text: As it stands in the file, without the labels of the benchmark's form.
    """

    role: Role
    field: str
    text: str


@dataclass(frozen=True, slots=True)
class Item:
    """One benchmark item.

    Attributes:
        id: Its id-like field (`IDS`, first that is there), else its line or row number, 1-based.
        line: Line or row number, 1-based.
        parts: Its texts, in the order of the file.
    """

    id: str
    line: int
    parts: tuple[Part, ...]

    def of(self, *roles: Role) -> tuple[Part, ...]:
        """Return the parts that have one of the roles, in order."""
        return tuple(part for part in self.parts if part.role in roles)


@dataclass(frozen=True, slots=True)
class BenchmarkFiles:
    """The files of one benchmark.

    Attributes:
        paths: Local paths, in order.
    """

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark as it was read.

    Attributes:
        items: In order.
        facts: JSON-able, for the report: `parts` (number by role).
    """

    items: list[Item]
    facts: dict[str, Any]


def read_benchmark(files: BenchmarkFiles | str) -> Benchmark:
    """Return the items of a benchmark, and what the report says of how it was read.

    Labels that the benchmark's own form puts around a field ("Question: ...", "... Answer:") are taken off when at
    least half of the items carry them: a leak seldom does, and one more word hides an item shorter than an n-gram.

    Args:
        files: Its files; a path alone is a benchmark of one file.

    Raises:
        InputError: A file that cannot be read, a line that is no JSON object, or a file without an item.
    """
    files = BenchmarkFiles((files,)) if isinstance(files, str) else files
    items: list[Item] = []
    seen: set[str] = set()
    for path in files.paths:
        before = len(items)
        for line, record in _records(path):
            name = next(
                (str(record[key]) for key in IDS if isinstance(record.get(key), str | int) and record[key] != ""), ""
            )
            name = name or str(line)
            if name in seen:
                name = f"{name} (line {line})"
            seen.add(name)
            items.append(Item(name, line, tuple(_strings(record, "", "question"))))
        if len(items) == before:
            remedy = "Take it out of decontaminate.benchmarks, or mend the file."
            raise InputError(path, "holds no benchmark item.", remedy)
    items = _without_labels(items)
    counts = Counter(part.role for item in items for part in item.parts)
    return Benchmark(items, {"parts": {role: counts[role] for role in get_args(Role)}})


def read_items(path: str) -> list[Item]:
    """Return the items of a benchmark of one file."""
    return read_benchmark(path).items


def _records(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (1-based line or row, record) of a JSON Lines or Parquet file."""
    remedy = "Mend or remove that line: a benchmark that is read in part would let leaks through."
    with Path(path).open("rb") as file:
        if file.read(4) == b"PAR1":
            yield from _parquet_rows(path)
            return
        file.seek(0)
        lines, line = None, 0
        while True:
            try:
                lines = lines or _decompressed(file)
                data = lines.readline()
            except (OSError, EOFError, zlib.error) as error:
                raise InputError(
                    path, f"line {line + 1} cannot be decompressed ({error}).", "Fetch it again."
                ) from error
            if not data:
                return
            line += 1
            if line == 1:
                data = data.removeprefix(b"\xef\xbb\xbf")
            if not data.strip():
                continue
            try:
                record = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise InputError(path, f"line {line} is no JSON ({error}).", remedy) from error
            if not isinstance(record, dict):
                raise InputError(path, f"line {line} is no JSON object but {type(record).__name__}.", remedy)
            yield line, record


def _decompressed(file: IO[bytes]) -> IO[bytes] | gzip.GzipFile:
    """Return the plain bytes of `file`, told by its first bytes: names lie."""
    magic = file.read(4)
    file.seek(0)
    if magic.startswith(_GZIP):
        return gzip.GzipFile(fileobj=file)
    if magic == _ZSTD:
        return io.BytesIO(_zstd(file.read()))
    return file


def _zstd(data: bytes) -> bytes:
    """Return the content of zstd frames; a stream reader would take a cut-off frame for a whole one."""
    import zstandard

    parts: list[bytes] = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(data))
        except zstandard.ZstdError as error:
            raise OSError(str(error)) from error
        if not frame.eof:
            raise EOFError("the file ends inside a zstd frame")
        data = frame.unused_data
    return b"".join(parts)


def _parquet_rows(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        with pq.ParquetFile(path) as table:
            for batch in table.iter_batches(batch_size=1000):
                for record in batch.to_pylist():
                    row += 1
                    yield row, record
    except (pa.ArrowException, OSError) as error:
        raise InputError(path, f"row {row + 1} cannot be read ({error}).", "Fetch the file again.") from error


def _strings(value: Any, field: str, role: Role) -> Iterator[Part]:
    """Yield the texts below `value`, in the file's order."""
    if isinstance(value, str):
        if value.strip():
            yield Part(role, field, value)
    elif isinstance(value, dict):
        for key, part in value.items():
            name = _NOT_NAME.sub("_", _HUMP.sub("_", str(key)).casefold()).strip("_")
            if name not in LABELS:
                yield from _strings(part, f"{field}.{key}" if field else str(key), _role(name, role))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _strings(part, f"{field}.{number}", role)


def _role(name: str, around: Role) -> Role:
    """Return the role of a field by its name, in a field of the role `around`; nothing inside an answer is a question."""
    if around in ("choice", "answer"):
        return around
    if name in ANSWERS or {"answer", "answers"} & set(name.split("_")):
        return "answer"
    if name in CHOICES or _LETTERED.fullmatch(name):
        return "choice"
    return "context" if name in CONTEXTS else "question"


def _without_labels(items: list[Item]) -> list[Item]:
    counts: Counter[tuple[re.Pattern[str], str, str]] = Counter()
    for item in items:
        for part in item.of("question", "context"):
            for pattern in (_LEADING_LABEL, _TRAILING_LABEL):
                if match := pattern.search(part.text) if pattern is _TRAILING_LABEL else pattern.match(part.text):
                    counts[pattern, part.field, match[1]] += 1
    form = {key for key, count in counts.items() if count >= max(_MIN_LABELLED, len(items) / 2)}
    if not form:
        return items

    def strip(part: Part) -> Part:
        text = part.text
        if part.role in ("choice", "answer"):
            return part
        if (match := _LEADING_LABEL.match(text)) and (_LEADING_LABEL, part.field, match[1]) in form:
            text = text[match.end() :]
        if (match := _TRAILING_LABEL.search(text)) and (_TRAILING_LABEL, part.field, match[1]) in form:
            text = text[: match.start()]
        return Part(part.role, part.field, text.strip())

    return [Item(item.id, item.line, tuple(map(strip, item.parts))) for item in items]
