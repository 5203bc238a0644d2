"""Which fields of a benchmark's rows hold its questions, contexts, choices and gold answers.

A path names a field: `question`, `question.stem`, `choices.text`. A list on the way is walked, so that `paragraphs.qas.question`
is every question of every paragraph; a number is a place in a list (`answers.0`), `*` every value of an object. A key that
holds dots is found as it is. `?` behind a path: rows may lack the field. `=` before it: no path but the text itself.

What no field holds as it is, is made of fields (`Derived`): the gold answer picked from the choices, a blank filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from curate.stage import Settings

Place = tuple[str | int, ...]  # keys and places in lists from the row to a value
Leaf = tuple[Place, Any]  # a value and where it stands
_LETTER = re.compile(r"\(?([A-Za-z])[).]?")
_WHOLE = re.compile(r"-?\d{1,9}")
_HIDDEN = ("", "-1")  # gold labels of test sets whose answers are kept secret
_KINDS = {"pick": ("of", "by", "first"), "where": ("of",), "fill": ("of", "blank"), "split": ("at",)}
_KINDS |= {"between": ("after", "before")}


def _checked_path(path: str) -> str:
    if not path.startswith("=") and not all(part.strip() for part in path.removesuffix("?").split(".")):
        raise ValueError(f"'{path}' is no path of a field: write names with dots between them, such as question.stem")
    return path


Path = Annotated[str, AfterValidator(_checked_path)]


class Derived(Settings):
    """A text that is made of fields: one of `pick`, `where`, `fill`, `split`, `between`, and what belongs to it.

    Attributes:
        pick: Path of what says which choice is gold: its number, its letter, its label or key, or its text. Null, an
            empty text and -1 mean that the answer is kept secret.
        where: Path of marks beside the choices: those marked 1 or true are gold.
        of: Choices: a path or a list of paths; for `pick` and `where` by default those of the mapping.
        by: Path of the labels beside the choices, for `pick`.
        first: Number of the first choice, for `pick`.
        fill: Path of a text with a blank: it is looked for as it is, and with each choice filled in.
        blank: What stands for the blank.
        split: Path of a text that holds several.
        at: What stands between them.
        between: Path of a text that holds several parts under headings: what stands behind `after` and ahead of `before`; a
            heading that the text lacks cuts nothing off.
    """

    pick: Path | None = None
    where: Path | None = None
    of: Path | tuple[Path, ...] = ()
    by: Path | None = None
    first: Literal[0, 1] = 0
    fill: Path | None = None
    blank: Annotated[str, Field(min_length=1)] = "_"
    split: Path | None = None
    at: Annotated[str, Field(min_length=1)] = ";"
    between: Path | None = None
    after: str | None = None
    before: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Derived:
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            said = f"has {' and '.join(given)}" if given else "has none of them"
            raise ValueError(f"must have one of {', '.join(_KINDS)}, such as {{pick: answer}}; it {said}")
        foreign = sorted(self.model_fields_set - {given[0], *_KINDS[given[0]]})
        if foreign:
            known = ", ".join(_KINDS[given[0]])
            raise ValueError(f"'{foreign[0]}' does not belong to `{given[0]}`, which knows {known}")
        if self.fill is not None and not self.of:
            raise ValueError("`fill` needs `of`: the paths of what is filled in, such as of: [option1, option2]")
        if self.between is not None and not (self.after or self.before):
            raise ValueError("`between` needs `after` or `before`: the heading that the text begins or ends at")
        return self

    @property
    def kind(self) -> str:
        """Return which of its five forms it is."""
        return next(kind for kind in _KINDS if getattr(self, kind) is not None)

    @property
    def path(self) -> str:
        """Return the path that its form names."""
        return str(getattr(self, self.kind))


Text = Path | Derived
Texts = Text | tuple[Text, ...]


class Fields(Settings):
    """The fields of a benchmark's rows by their role.

    Attributes:
        question: What is asked; the first of several is the prompt.
        context: What the question is about: a passage, an article.
        choices: The answers offered, right and wrong, in order.
        answer: The gold answer, or several.
        id: Path of the item's id; by default the first id-like field.
        each: Path of a list of which every element is an item of its own, as `data.paragraphs.qas` in SQuAD. The other
            paths begin at the row all the same, and mean what stands around that element.
    """

    question: Texts = ()
    context: Texts = ()
    choices: Texts = ()
    answer: Texts = ()
    id: Path | None = None
    each: Path | None = None

    @model_validator(mode="after")
    def _something_to_look_for(self) -> Fields:
        if not self.question and not self.context:
            raise ValueError("must name `question` or `context`: nothing else is looked for by itself")
        return self

    def role(self, name: str) -> tuple[Text, ...]:
        """Return the texts of a role: question, context, choices or answer."""
        texts: Texts = getattr(self, name)
        return texts if isinstance(texts, tuple) else (texts,)

    def uses(self) -> Iterator[tuple[str, str]]:
        """Yield each path with what it is used for: a role, `gold` for what tells the answer, `id` or `each`."""
        for role in ("question", "context", "choices", "answer"):
            for text in self.role(role):
                if isinstance(text, str):
                    yield role, text
                    continue
                yield ("gold" if text.kind in ("pick", "where") else role), text.path
                if text.by is not None:
                    yield "gold", text.by
                for path in (text.of,) if isinstance(text.of, str) else text.of:
                    yield (role if text.kind == "fill" else "choices"), path
        if self.id is not None:
            yield "id", self.id
        if self.each is not None:
            yield "each", self.each


class FieldError(ValueError):
    """A row that a mapping does not fit.

    Attributes:
        field: Path in the mapping.
        problem: What the row has there.
        known: Names of the fields that stand where one was missing.
    """

    def __init__(self, field: str, problem: str, known: tuple[str, ...] = ()) -> None:
        super().__init__(field, problem, known)
        self.field = field
        self.problem = problem
        self.known = known


def elements(record: Mapping[str, Any], each: str) -> list[Place]:
    """Return where the elements of `each` stand in a row.

    Raises:
        FieldError: The row has no such field, or no list of objects there.
    """
    found = []
    for at, value in leaves(record, each, ()):
        if value is not None and not isinstance(value, dict):
            raise FieldError(each, f"is {_what(value)}, where a list of objects belongs")
        if value is not None:
            found.append(at)
    return found


def leaves(record: Mapping[str, Any], path: str, element: Place) -> Iterator[Leaf]:
    """Yield the values that a path means in a row, nulls too; lists are walked.

    Args:
        record: The row.
        path: A path; `=text` is that text.
        element: Where the item stands in the row: on the way to it only what leads there is entered.

    Raises:
        FieldError: The row lacks the field, and the path has no `?`.
    """
    if path.startswith("="):
        yield (path,), path[1:]
        return
    optional = path.endswith("?")
    yield from _walk(record, path.removesuffix("?").split("."), (), element, path, optional=optional)


def _walk(
    value: Any,
    rest: Sequence[str],
    at: Place,
    element: Place,
    path: str,
    *,
    optional: bool,
) -> Iterator[Leaf]:
    leads = len(at) < len(element) and at == element[: len(at)]
    if isinstance(value, list):
        places: Sequence[Any] = (element[len(at)],) if leads else range(len(value))
        if rest and rest[0].isdigit() and not leads:
            places, rest = [int(rest[0])], rest[1:]
            if places[0] >= len(value):
                if not optional:
                    raise FieldError(path, f"'{_shown(at)}' has {len(value)} elements")
                return
        for place in places:
            yield from _walk(value[place], rest, (*at, place), element, path, optional=optional)
    elif not rest:
        yield at, value
    elif isinstance(value, dict):
        if rest[0] == "*":
            for key in (element[len(at)],) if leads else value:
                yield from _walk(value[key], rest[1:], (*at, key), element, path, optional=optional)
            return
        for length in range(len(rest), 0, -1):
            key = ".".join(rest[:length])
            if key in value:
                yield from _walk(value[key], rest[length:], (*at, key), element, path, optional=optional)
                return
        if not optional:
            where = f" in '{_shown(at)}'" if at else ""
            raise FieldError(path, f"there is no '{rest[0]}'{where}", tuple(map(str, value)))
    elif value is not None and not optional:
        raise FieldError(path, f"'{_shown(at)}' is {_what(value)}, and has no '{rest[0]}'")


def _shown(at: Sequence[str | int]) -> str:
    return ".".join(map(str, at))


def _what(value: Any) -> str:
    kinds = {str: "a text", bool: "true or false", int: "a number", float: "a number", dict: "an object"}
    return kinds.get(type(value), type(value).__name__)


def role_texts(record: Mapping[str, Any], fields: Fields, role: str, element: Place = ()) -> Iterator[tuple[str, str]]:
    """Yield field and text of what a role holds in a row; nothing where it is null or blank.

    Raises:
        FieldError: The row does not fit the mapping.
    """
    for text in fields.role(role):
        for at, value in _made(record, text, fields, element, objects=role in ("choices", "answer")):
            if value.strip():
                yield _shown(at), value


def _made(
    record: Mapping[str, Any], text: Text, fields: Fields, element: Place, *, objects: bool
) -> Iterator[tuple[Place, str]]:
    if isinstance(text, str):
        yield from _written(leaves(record, text, element), text, objects=objects)
    elif text.kind == "pick":
        yield from _picked(record, text, fields, element)
    elif text.kind == "where":
        choices = _choices(record, text, fields, element)
        marks = [value for _, value in leaves(record, text.path, element)]
        if len(marks) != len(choices):
            raise FieldError(text.path, f"there are {len(marks)} marks beside {len(choices)} choices")
        yield from (choice for choice, mark in zip(choices, marks, strict=True) if mark in (1, "1", "true"))
    else:
        for at, value in _written(leaves(record, text.path, element), text.path, objects=False):
            if text.kind == "fill":
                yield at, value
                if text.blank in value:
                    for place, choice in _choices(record, text, fields, element):
                        yield (f"{_shown(at)}+{_shown(place)}",), value.replace(text.blank, choice)
            elif text.kind == "split":
                yield from (((*at, number), part.strip()) for number, part in enumerate(value.split(text.at)))
            else:
                yield at, _between(value, text.after or "", text.before or "")


def _between(text: str, after: str, before: str) -> str:
    """Return what stands behind the first `after` and ahead of the last `before`; a heading that is not there cuts nothing."""
    start = text.find(after)
    rest = text[start + len(after) :] if start >= 0 else text
    end = rest.rfind(before) if before else -1
    return (rest[:end] if end >= 0 else rest).strip()


def _written(found: Iterable[Leaf], path: str, *, objects: bool) -> Iterator[tuple[Place, str]]:
    """Yield the texts in values, blank ones for nulls: numbers as written, of an object what is in it, if it may be one."""
    for at, value in found:
        if value is None or isinstance(value, str):
            yield at, value or ""
        elif isinstance(value, dict):
            if not objects:
                inside = ", ".join(map(str, value))
                raise FieldError(path, f"'{_shown(at)}' is an object, no text; name a field in it ({inside})")
            for key, inner in value.items():
                yield from _written(_walk(inner, (), (*at, key), (), path, optional=False), path, objects=True)
        elif isinstance(value, bool):
            yield at, "true" if value else "false"
        elif isinstance(value, int | float):
            yield at, str(value)
        else:
            raise FieldError(path, f"'{_shown(at)}' is {_what(value)}, no text")


def _choices(record: Mapping[str, Any], text: Derived, fields: Fields, element: Place) -> list[tuple[Place, str]]:
    if not text.of:
        each = fields.role("choices")
        return [choice for one in each for choice in _made(record, one, fields, element, objects=True)]
    each = (text.of,) if isinstance(text.of, str) else text.of
    return [one for path in each for one in _written(leaves(record, path, element), path, objects=True)]


def _picked(record: Mapping[str, Any], text: Derived, fields: Fields, element: Place) -> Iterator[tuple[Place, str]]:
    choices = _choices(record, text, fields, element)
    labels = [str(value) for _, value in leaves(record, text.by, element)] if text.by is not None else None
    if labels is not None and len(labels) != len(choices):
        raise FieldError(text.by or "", f"there are {len(labels)} labels beside {len(choices)} choices")
    for _, gold in leaves(record, text.path, element):
        if gold is None or str(gold).strip() in _HIDDEN or not choices:
            continue
        number = _number_of(gold, choices, labels, text.first)
        if number is None:
            raise FieldError(text.path, f"{gold!r} names none of the {len(choices)} choices")
        yield choices[number]


def _number_of(gold: Any, choices: Sequence[tuple[Place, str]], labels: Sequence[str] | None, first: int) -> int | None:
    """Return which choice a gold label means: by label or key, else by number, else by letter, else by its text."""
    said = str(int(gold) if isinstance(gold, bool) or (isinstance(gold, float) and gold.is_integer()) else gold).strip()
    names = (
        labels if labels is not None else [str(at[-1]) if at and isinstance(at[-1], str) else "" for at, _ in choices]
    )
    if said in names:
        return names.index(said)
    if labels is None:
        letter = _LETTER.fullmatch(said)
        number = int(said) - first if _WHOLE.fullmatch(said) else ord(letter[1].upper()) - ord("A") if letter else -1
        if 0 <= number < len(choices):
            return number
    texts = [value.strip() for _, value in choices]
    return texts.index(said) if said in texts else None
