"""Benchmark files to items: which fields of an item are looked for, and which never are.

A mapping says it (`curate.benchmarks.fields`, `mappings`). Without one a field's role comes from the names on its path (lower
case, `camelCase` split, anything but letters and digits as one underscore):

- A label (`LABELS`: ids, numbers, categories, links, gold labels) is not text of the item.
- A choice (`CHOICES`, lettered or numbered options) and an answer (`ANSWERS`, any name with the word "answer") are never
  looked for alone: a document that holds only an answer is no leak.
- A context (`CONTEXTS`: passages, articles) and every other string, however nested, which is question text, are looked for
  by themselves.

Names cover the schemas of lm-evaluation-harness, llm-foundry, HELM and the original releases of common benchmarks.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, get_args

from curate.benchmarks.fields import FieldError, Fields, Place, elements, leaves, role_texts
from curate.benchmarks.mappings import GENERAL, Shipped, called, chosen, recognised
from curate.benchmarks.records import own_items, records
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
_PLACES = re.compile(r"\.\d+(?=[.+]|\Z)")  # places in lists, on the path of a field
_SHOWN = 20  # names in a message
_MOST_FIELDS = 200  # in the facts: rows may be objects by id


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
        id: Its id-like field (`IDS`, first that is there) or that of the mapping, else its line or row number, 1-based; with
            file or line behind it where another item of the benchmark has the same.
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
    """The files of one benchmark, and how they are read.

    Attributes:
        paths: Local paths, in order.
        titles: Name of each in messages and ids; by default its file name.
        name: Of the benchmark, which may tell forms of a mapping apart.
        mapping: A shipped mapping, `general`, or empty: told by the columns.
        fields: The recipe's own mapping.
        also: Shipped mappings that are recognised besides (`FOR_TASKS`).
    """

    paths: tuple[str, ...]
    titles: tuple[str, ...] = ()
    name: str = ""
    mapping: str = ""
    fields: Fields | None = None
    also: tuple[Shipped, ...] = ()


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark as it was read.

    Attributes:
        items: In order.
        facts: JSON-able, for the report:
            `mapping`: what told its fields: a mapping's name, `fields`, or `general`; several are joined by commas;
            `mapping_by`: `recipe` or `recognised`, empty for the general rule;
            `files`: number of items by file;
            `parts`: number of texts by role, `items_with`: number of items that have one of the role;
            `fields`: by field (places in lists left out) and role the number of texts;
            `left_out`: fields that are not looked for, each with the reason;
            `repeated_ids`: items whose id another one has; `repeated_items`: items left out as another file has the same;
            `unfit`: by file, why it has the columns of a mapping and is read without.
    """

    items: list[Item]
    facts: dict[str, Any]


@dataclass(slots=True)
class _Reading:
    """What reading a benchmark brings together."""

    items: list[Item] = field(default_factory=list)
    ids: Counter[str] = field(default_factory=Counter)
    taken: set[str] = field(default_factory=set)  # ids in use
    mappings: dict[tuple[str, str], None] = field(default_factory=dict)  # name, and by what it came
    left_out: dict[str, str] = field(default_factory=dict)
    unfit: dict[str, str] = field(default_factory=dict)
    repeated: int = 0


@dataclass(frozen=True, slots=True)
class _Way:
    """How a file's rows become items: by a mapping, or without one.

    Attributes:
        fields: The mapping, or None for the general rule.
        form: The shipped mapping, if it is one.
        by: `recipe` or `recognised`, or empty for the rule.
    """

    fields: Fields | None
    form: Shipped | None
    by: str

    @property
    def by_key(self) -> bool:
        """Return whether items lie in an object by key, not in a list."""
        return self.fields is not None and (self.fields.each or "").startswith("*.")


def read_benchmark(files: BenchmarkFiles | str) -> Benchmark:
    """Return the items of a benchmark, and what the report says of how it was read.

    Labels that the benchmark's own form puts around a field ("Question: ...", "... Answer:") are taken off when at
    least half of the items carry them: a leak seldom does, and one more word hides an item shorter than an n-gram.

    Args:
        files: Its files; a path alone is a benchmark of one file.

    Raises:
        InputError: A file that cannot be read, a line that is no JSON object, a row that the recipe's mapping does not fit, or
            a file without an item: file, row, field, remedy.
    """
    files = BenchmarkFiles((files,)) if isinstance(files, str) else files
    reading = _Reading()
    counts: dict[str, int] = {}
    earlier: set[tuple[Part, ...]] = set()
    for path, title in zip(files.paths, files.titles or [Path(path).name for path in files.paths], strict=True):
        found = _read_file(path, title, files, reading)
        if not found:
            raise _without_items(path)
        new = [item for item in found if not item[2] or item[2] not in earlier]
        earlier.update(item[2] for item in found)
        reading.repeated += len(found) - len(new)
        counts[title] = len(new)
        for name, line, parts in new:
            reading.items.append(Item(_unique(name, line, title, files, reading), line, parts))
    items = _without_labels(reading.items)
    _refuse_empty(items, files)
    return Benchmark(items, _facts(items, counts, reading))


def read_items(path: str) -> list[Item]:
    """Return the items of a benchmark of one file."""
    return read_benchmark(path).items


def refuse_first(files: BenchmarkFiles) -> None:
    """Refuse before any work files that hold no row, whose first rows cannot be read, or do not fit the recipe's mapping.

    Raises:
        InputError: As `read_benchmark`.
    """
    for path, title in zip(files.paths, files.titles or [Path(path).name for path in files.paths], strict=True):
        rows = list(islice(records(path), 2))
        if not rows:
            raise _without_items(path)
        try:
            for _ in _items_of(path, title, files, _Reading(), iter(rows)):
                break
        except _UnfitError:  # a mapping that nobody asked for gives way
            pass


def _without_items(path: str) -> InputError:
    return InputError(path, "holds no benchmark item.", "Take it out of the recipe, or mend the file.")


def _unique(name: str, line: int, title: str, files: BenchmarkFiles, reading: _Reading) -> str:
    """Return an item's id, or where another item has it, one with its place behind."""
    several = len(files.paths) > 1
    if not name:
        name = f"{title}:{line}" if several else str(line)
    else:
        reading.ids[name] += 1
    place = f"{title}, line {line}" if several else f"line {line}"
    unique, number = name, 1
    while unique in reading.taken:
        unique = f"{name} ({place})" if number == 1 else f"{name} ({place}, item {number})"
        number += 1
    reading.taken.add(unique)
    return unique


Found = tuple[str, int, tuple[Part, ...]]  # id or nothing, line, parts


def _read_file(path: str, title: str, files: BenchmarkFiles, reading: _Reading) -> list[Found]:
    """Return the items of one file; a mapping that nobody asked for gives way where a row does not fit it."""
    try:
        return list(_items_of(path, title, files, reading, records(path)))
    except _UnfitError as error:
        reading.unfit[title] = str(error)
        return list(_items_of(path, title, files, reading, records(path), _Way(None, None, "")))


class _UnfitError(Exception):
    """A row that a mapping which was only recognised does not fit."""


def _items_of(
    path: str,
    title: str,
    files: BenchmarkFiles,
    reading: _Reading,
    rows: Iterator[tuple[int, dict[str, Any]]],
    given: _Way | None = None,
) -> Iterator[Found]:
    """Yield the items in a file's rows, read in the way that is given, or that the first row and the recipe tell.

    Raises:
        InputError: As `read_benchmark`.
        _UnfitError: A row does not fit the mapping that its columns seemed to have.
    """
    first = list(islice(rows, 2))
    if not first:
        return
    record = first[0][1]
    way = given or _way(record, title, files)
    inside = own_items(record) if len(first) == 1 and not _fits(way, record) else None
    if inside is not None:
        first, way = [], given or _way(inside[0], title, files)
        rows = iter(enumerate(inside, 1))
    left_out: dict[str, str] = {}
    seen: set[str] = set()
    name = called(way.form, f"{files.name} {title}") if way.form is not None else "fields" if way.fields else GENERAL
    columns = frozenset(record if inside is None else inside[0])
    for line, row in chain(first, rows):
        if way.by == "recognised" and way.form is not None and columns != row.keys():
            if recognised(row, f"{files.name} {title}", files.also) is not way.form:
                raise _UnfitError(f"has the columns of '{name}', but not in line {line}")
            columns = frozenset(row)
        _note_fields(row, "", way, left_out, seen)
        try:
            yield from _items_in(row, line, way)
        except FieldError as error:
            if way.by == "recognised":
                raise _UnfitError(
                    f"has the columns of '{name}', but in line {line} '{error.field}': {error.problem}"
                ) from error
            raise InputError(
                path, f"row {line}, field '{error.field}': {error.problem}.", _remedy(error, name)
            ) from error
    reading.mappings[name, way.by] = None
    reading.left_out |= left_out


def _way(record: Mapping[str, Any], title: str, files: BenchmarkFiles) -> _Way:
    if files.fields is not None:
        return _Way(files.fields, None, "recipe")
    if files.mapping == GENERAL:
        return _Way(None, None, "recipe")
    if files.mapping:
        form = chosen(files.mapping, record, files.also)
        return _Way(form.fields, form, "recipe")
    known = recognised(record, f"{files.name} {title}", files.also)
    return _Way(known.fields, known, "recognised") if known is not None else _Way(None, None, "")


def _fits(way: _Way, record: Mapping[str, Any]) -> bool:
    """Return whether the row has what a mapping names, so that it is no wrapping around the rows."""
    if way.fields is None:
        return False
    roots = {path.split(".")[0] for _, path in way.fields.uses() if not path.startswith("=") and not path.endswith("?")}
    return "*" in roots or roots <= set(record)


def _remedy(error: FieldError, name: str) -> str:
    """Return what to do about a row that a mapping does not fit."""
    wanted = re.split(r"'", error.problem)[1] if error.known else ""
    near = difflib.get_close_matches(wanted, error.known, n=1, cutoff=0.5)
    meant = f"Did you mean '{near[0]}'? " if near else ""
    known = f"There are: {', '.join(error.known[:_SHOWN])}. " if error.known else ""
    mend = f"Correct its `fields` in the recipe, or write '{error.field}?' if rows may lack it."
    if name != "fields":
        mend = f"The rows are not of the mapping '{name}': name another, write `fields`, or leave `mapping` out."
    return meant + known + (mend if error.known or name != "fields" else "Correct its `fields` in the recipe.")


def _items_in(row: Mapping[str, Any], line: int, way: _Way) -> Iterator[Found]:
    """Yield the items of a row: one, or one for each element of `each`."""
    if way.fields is None:
        yield _id_in(row), line, tuple(_strings(row, "", "question"))
        return
    places: list[Place] = elements(row, way.fields.each) if way.fields.each is not None else [()]
    for number, place in enumerate(places, 1):
        # Objects by id, as passages in DROP: the field is the same in each.
        key = f"{place[0]}." if way.by_key else ""
        parts = tuple(
            Part(_ROLES[role], f"*.{at[len(key) :]}" if key and at.startswith(key) else at, text)
            for role in ("question", "context", "choices", "answer")
            for at, text in role_texts(row, way.fields, role, place)
        )
        if way.fields.id is not None:
            ids = [str(value) for _, value in leaves(row, way.fields.id, place) if value not in (None, "")]
            name = ids[0] if ids else ""
        else:
            inner: Any = row
            for part in place:
                inner = inner[part]
            name = _id_in(inner)
        yield name or (f"{line}.{number}" if place else ""), line, parts


_ROLES: dict[str, Role] = {"question": "question", "context": "context", "choices": "choice", "answer": "answer"}


def _id_in(row: Mapping[str, Any]) -> str:
    return next((str(row[key]) for key in IDS if isinstance(row.get(key), str | int) and row[key] != ""), "")


def _refuse_empty(items: list[Item], files: BenchmarkFiles) -> None:
    """Refuse a role of the recipe's own mapping that holds no text in any row."""
    for role in ("question", "context") if files.fields is not None else ():
        paths = (
            [text if isinstance(text, str) else text.path for text in files.fields.role(role)] if files.fields else []
        )
        if paths and not any(part.role == role for item in items for part in item.parts):
            problem = f"none of its {len(items)} items has a text in {', '.join(paths)} ({role})."
            raise InputError(files.paths[0], problem, "Correct its `fields` in the recipe.")


def _note_fields(value: Any, path: str, way: _Way, left_out: dict[str, str], seen: set[str]) -> None:
    """Note which fields a row has that are no blank, and why those without a role are left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            here = f"{path}.{key}" if path else "*" if way.by_key else str(key)
            _note_fields(inner, here, way, left_out, seen)
    elif isinstance(value, list):
        for inner in value:
            _note_fields(inner, path, way, left_out, seen)
    elif value is not None and (not isinstance(value, str) or value.strip()) and path not in seen:
        seen.add(path)
        left_out[path] = _why(value, path, way)


def _why(value: Any, path: str, way: _Way) -> str:
    """Return why a field would be left out: what has a role is taken off the list in the end."""
    names = [_plain_name(name) for name in path.split(".")]
    if way.form is not None and (why := way.form.reason(path.split(".")[0])) is not None:
        return why
    if way.fields is not None:
        uses = {used.removesuffix("?"): role for role, used in way.fields.uses()}
        use = uses.get(path, "")
        known = {"gold": "tells which answer is gold", "id": "the item's id"}
        return known.get(use, "the mapping does not name it")
    if any(name in LABELS for name in names):
        return "a label by its name"
    return "no text" if not isinstance(value, str) else "nothing to look for"


def _facts(items: list[Item], counts: Mapping[str, int], reading: _Reading) -> dict[str, Any]:
    parts = [part for item in items for part in item.parts]
    number = Counter(part.role for part in parts)
    with_role = Counter(role for item in items for role in {part.role for part in item.parts})
    fields: dict[str, Counter[str]] = {}
    for part in parts:
        fields.setdefault(_PLACES.sub("", part.field), Counter())[part.role] += 1
    left_out = {name: why for name, why in reading.left_out.items() if name not in fields}
    return {
        "mapping": ", ".join(dict.fromkeys(name for name, _ in reading.mappings)),
        "mapping_by": ", ".join(dict.fromkeys(by for _, by in reading.mappings)),
        "files": dict(counts),
        "parts": {role: number[role] for role in get_args(Role)},
        "items_with": {role: with_role[role] for role in get_args(Role)},
        "fields": {name: dict(roles) for name, roles in islice(fields.items(), _MOST_FIELDS)},
        "left_out": dict(islice(left_out.items(), _MOST_FIELDS)),
        "repeated_ids": sum(count - 1 for count in reading.ids.values()),
        "repeated_items": reading.repeated,
        "unfit": reading.unfit,
    }


def _strings(value: Any, field: str, role: Role) -> Iterator[Part]:
    """Yield the texts below `value`, in the file's order."""
    if isinstance(value, str):
        if value.strip():
            yield Part(role, field, value)
    elif isinstance(value, dict):
        for key, part in value.items():
            name = _plain_name(str(key))
            if name not in LABELS:
                yield from _strings(part, f"{field}.{key}" if field else str(key), _role(name, role))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _strings(part, f"{field}.{number}", role)


def _plain_name(name: str) -> str:
    return _NOT_NAME.sub("_", _HUMP.sub("_", name).casefold()).strip("_")


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
