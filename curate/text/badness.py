"""What ftfy's badness expression looks for, as tables of an automaton that `curate.text.scan` runs over UTF-8.

Nothing of the expression is written down here: it is read from the installed ftfy, so that the automaton accepts
exactly what `ftfy.badness.is_bad` accepts. The same pass over the text answers two more questions, so their answers
stand in the tables too: which characters `curate.text.controls.CONTROL` matches, and whether a line is surely in NFC
(the quick check of Unicode Standard Annex 15, section 9).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from curate.text import controls

Bytes = npt.NDArray[np.uint8]
Uint16s = npt.NDArray[np.uint16]
Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NUM_CODE_POINTS = 0x110000
CONTROL, NEVER_NFC, COMPOSES_BACK, COMPOSES_ON, CLASS_UNIT = 1, 2, 4, 8, 16  # of `Tables.properties`
_ACCEPT, _AT_START, _INSIDE = 0, 1, 2  # numbers of the states that have a name
_MOST_CLASSES = 256
_MOST_STATES = 2048
_MOST_MEMORY = 16
_LONGEST_REPEAT = 4


class Tables(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """The automaton and what else the scan must know of a character.

    Attributes:
        classes: Class of each code point, shape (0x110000,): characters of one class are treated alike.
        steps: Next state, at state + class; a state is the place of its row, so states count by the number of classes.
        accept: The state that says yes, and is never left.
        at_start: The state at the start of a line.
        inside: The state inside a line with nothing begun.
        properties: Bits of each class: CONTROL is removed from text; NEVER_NFC does not occur in NFC; COMPOSES_BACK may
            compose with the starter before it; COMPOSES_ON is a starter with which, or with a part of which, others
            do; above them, times CLASS_UNIT, the canonical combining class.
        memory: ASCII characters after which the state is the same whatever was before them, if it is not `accept`.
    """

    classes: Bytes
    steps: Uint16s
    accept: int
    at_start: int
    inside: int
    properties: Uint16s
    memory: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """One alternative of the expression: a character of each set, in order.

    Attributes:
        sets: Number of each set, into the list of sets.
        anchored: Whether it matches at the start of a line only.
    """

    sets: tuple[int, ...]
    anchored: bool


class _UnknownError(ValueError):
    """The expression holds something that is no sequence of character sets."""


@lru_cache(maxsize=1)
def tables() -> Tables:
    """Return the tables for the installed ftfy and Python's Unicode data (half a second at the first call)."""
    from ftfy.badness import BADNESS_RE

    return build(BADNESS_RE, controls.CONTROL)


def build(bad: re.Pattern[str], control: re.Pattern[str]) -> Tables:
    """Return the tables that find what `bad` finds and mark the characters that `control` matches.

    If `bad` is no alternation of short sequences of character sets, or can match ASCII alone (which ftfy never
    touches), then every character outside ASCII is accepted: more lines are looked at, none is missed.
    """
    everything = "".join(map(chr, range(NUM_CODE_POINTS)))
    try:
        sets, alternatives = _alternatives(bad, everything)
        made = _automaton(sets, alternatives, control, everything)
    except _UnknownError:
        outside = np.arange(NUM_CODE_POINTS) > 0x7F
        made = _automaton([outside], [Alternative((0,), anchored=False)], control, everything)
    return made


# ---- the expression as sequences of sets


def _alternatives(bad: re.Pattern[str], everything: str) -> tuple[list[Flags], list[Alternative]]:
    if bad.flags & ~(re.VERBOSE | re.UNICODE):
        raise _UnknownError("flags that change what a set matches")
    try:
        from re import _parser  # type: ignore[attr-defined]
    except ImportError as error:
        raise _UnknownError("no parser of expressions") from error
    numbers: dict[bytes, int] = {}
    sets: list[Flags] = []

    def number(members: Flags) -> int:
        key = np.packbits(members).tobytes()
        if key not in numbers:
            numbers[key] = len(sets)
            sets.append(members)
        return numbers[key]

    found = []
    for items in _written_out(list(_parser.parse(bad.pattern, bad.flags))):
        anchored = bool(items) and str(items[0][0]) == "AT" and str(items[0][1]) == "AT_BEGINNING"
        rest = items[1:] if anchored else items
        if not rest:
            raise _UnknownError("an empty alternative")
        found.append(Alternative(tuple(number(_members(item, everything)) for item in rest), anchored))
    return sets, found


def _written_out(items: Sequence[Any]) -> list[list[Any]]:
    """Return the sequences that parsed items stand for: alternations, groups and short repetitions written out."""
    results: list[list[Any]] = [[]]
    for item in items:
        operation, argument = str(item[0]), item[1]
        if operation == "BRANCH":
            choices = [tail for branch in argument[1] for tail in _written_out(list(branch))]
        elif operation == "SUBPATTERN" and not argument[1] and not argument[2]:  # no flags of its own
            choices = _written_out(list(argument[-1]))
        elif operation in ("MAX_REPEAT", "MIN_REPEAT") and int(argument[1]) <= _LONGEST_REPEAT:
            inner = _written_out(list(argument[2]))
            if len(inner) != 1:
                raise _UnknownError("a repeated alternation")
            choices = [inner[0] * times for times in range(int(argument[0]), int(argument[1]) + 1)]
        else:
            choices = [[item]]
        results = [[*head, *tail] for head in results for tail in choices]
    return results


def _members(item: Any, everything: str) -> Flags:
    """Return which code points a parsed one-character item matches, shape (0x110000,)."""
    operation, argument = str(item[0]), item[1]
    members = np.zeros(NUM_CODE_POINTS, np.bool_)
    if operation == "LITERAL":
        members[argument] = True
    elif operation == "NOT_LITERAL":
        members[argument] = True
        members = ~members
    elif operation == "RANGE":
        members[argument[0] : argument[1] + 1] = True
    elif operation == "ANY":
        members[ord("\n")] = True
        members = ~members
    elif operation == "CATEGORY":
        members = _matched(re.compile(_category(str(argument))), everything)
    elif operation == "IN":
        negated = str(argument[0][0]) == "NEGATE"
        for part in argument[negated:]:
            members |= _members(part, everything)
        members = ~members if negated else members
    else:
        raise _UnknownError(operation)
    return members


def _category(name: str) -> str:
    known = {"SPACE": r"\s", "WORD": r"\w", "DIGIT": r"\d"}
    known |= {f"NOT_{kind}": escape.upper() for kind, escape in known.items()}
    try:
        return known[name.removeprefix("CATEGORY_")]
    except KeyError as error:
        raise _UnknownError(name) from error


def _matched(one: re.Pattern[str], everything: str) -> Flags:
    members = np.zeros(NUM_CODE_POINTS, np.bool_)
    found = "".join(one.findall(everything)).encode("utf-32-le", "surrogatepass")
    members[np.frombuffer(found, np.uint32)] = True
    return members


# ---- sequences as an automaton over classes of characters


def _automaton(
    sets: Sequence[Flags], alternatives: Sequence[Alternative], control: re.Pattern[str], everything: str
) -> Tables:
    properties = _normal_form(everything)
    properties[_matched(control, everything)] |= CONTROL
    columns = [properties.astype(np.uint64)]
    for start in range(0, len(sets), 64):
        column = np.zeros(NUM_CODE_POINTS, np.uint64)
        for place, members in enumerate(sets[start : start + 64]):
            column |= members.astype(np.uint64) << np.uint64(place)
        columns.append(column)
    changes = np.ones(NUM_CODE_POINTS, np.bool_)
    changes[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    firsts = np.flatnonzero(changes)
    _, examples, numbers = np.unique(
        np.stack([column[firsts] for column in columns], axis=1), axis=0, return_index=True, return_inverse=True
    )
    if len(examples) > _MOST_CLASSES:
        raise _UnknownError("too many kinds of characters")
    classes = np.repeat(numbers.reshape(-1), np.diff(np.append(firsts, NUM_CODE_POINTS))).astype(np.uint8)
    some = firsts[examples]  # one code point of each class
    rows = _rows([members[some] for members in sets], alternatives, len(some))
    if rows.size > np.iinfo(np.uint16).max:
        raise _UnknownError("too many states")
    return Tables(
        classes=classes,
        steps=(rows * len(some)).astype(np.uint16).reshape(-1),
        accept=_ACCEPT * len(some),
        at_start=_AT_START * len(some),
        inside=_INSIDE * len(some),
        properties=properties[some],
        memory=_memory(rows[:, np.unique(classes[:128])]),
    )


def _rows(sets: Sequence[Flags], alternatives: Sequence[Alternative], num_classes: int) -> Int64s:
    """Return the next state, shape (states, classes), by the subset construction.

    A state is the set of places reached: (alternative, characters of it matched).
    """
    places = frozenset[tuple[int, int]]
    begun_anywhere = [(number, 0) for number, alternative in enumerate(alternatives) if not alternative.anchored]
    begun_at_start = [(number, 0) for number in range(len(alternatives))]
    numbers: dict[places, int] = {}  # _INSIDE is the empty set; _AT_START is no set, as no step leads there
    order: list[places] = []

    def number(state: places) -> int:
        if state not in numbers:
            numbers[state] = len(order) + _INSIDE
            order.append(state)
        return numbers[state]

    def after(state: Sequence[tuple[int, int]], character: int) -> int:
        reached = []
        for which, done in state:
            if sets[alternatives[which].sets[done]][character]:
                if done + 1 == len(alternatives[which].sets):
                    return _ACCEPT
                reached.append((which, done + 1))
        return number(frozenset(reached))

    number(frozenset())
    rows = [[_ACCEPT] * num_classes, [after(begun_at_start, character) for character in range(num_classes)]]
    done = 0
    while done < len(order):
        state = [*order[done], *begun_anywhere]
        rows.append([after(state, character) for character in range(num_classes)])
        done += 1
        if len(order) > _MOST_STATES:
            raise _UnknownError("too many states")
    return np.array(rows, np.int64)


def _memory(rows: Int64s) -> int:
    """Return after how many characters the state is the same whatever it was before, if it is not `_ACCEPT`.

    Args:
        rows: Next state for ASCII, shape (states, classes of ASCII).

    Raises:
        _UnknownError: If ASCII alone is accepted, which the scan would pass over, or the past is never forgotten.
    """
    reached = todo = {_AT_START, _INSIDE}
    while todo:
        todo = set(rows[sorted(todo)].reshape(-1).tolist()) - reached
        reached = reached | todo
    if _ACCEPT in reached:
        raise _UnknownError("a match of ASCII characters alone")
    pairs = {(state, _INSIDE) for state in range(len(rows))}
    for length in range(_MOST_MEMORY):
        pairs = {(state, other) for state, other in pairs if state not in (_ACCEPT, other)}
        if not pairs:
            return max(length, 1)  # the normal form looks back at one character
        pairs = {
            pair for state, other in pairs for pair in zip(rows[state].tolist(), rows[other].tolist(), strict=True)
        }
    raise _UnknownError("a match without bound")


# ---- the normal form


def _normal_form(everything: str) -> Uint16s:
    """Return the properties of each code point but CONTROL, shape (0x110000,)."""
    properties = np.fromiter(map(unicodedata.combining, everything), np.uint16, NUM_CODE_POINTS) * np.uint16(CLASS_UNIT)
    decomposed = []
    for code, decomposition in enumerate(map(unicodedata.decomposition, everything)):
        if not decomposition or decomposition.startswith("<"):
            continue
        decomposed.append(code)
        parts = [int(part, 16) for part in decomposition.split()]
        if unicodedata.normalize("NFC", chr(code)) != chr(code):
            properties[code] |= NEVER_NFC
        elif len(parts) == 2:
            properties[parts[0]] |= COMPOSES_ON
            properties[parts[1]] |= COMPOSES_BACK
    for code in decomposed:  # A with grave, which composes with nothing, and a dot below: A with dot below, grave
        if any(properties[ord(part)] & COMPOSES_ON for part in unicodedata.normalize("NFD", chr(code))):
            properties[code] |= COMPOSES_ON
    # Hangul composes by arithmetic (Unicode Standard, section 3.12): L + V, LV + T.
    properties[0x1100:0x1113] |= COMPOSES_ON
    properties[0xAC00:0xD7A4:28] |= COMPOSES_ON
    properties[0x1161:0x1176] |= COMPOSES_BACK
    properties[0x11A8:0x11C3] |= COMPOSES_BACK
    return properties
