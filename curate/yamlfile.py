"""YAML 1.2 to plain values, with the line of every key: what a good error message needs.

`no` is a string, `1e-4` a number, a key given twice is a problem, a tag that asks for code is refused, and neither an alias
nor depth can be used to blow up memory or the stack. Sequences become tuples: settings are frozen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from curate.errors import Problem

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

Key = tuple[str | int, ...]  # path of a value: ("sources", "web", "steps", 0)

_MOST_NODES = 100_000
_DEEPEST = 64  # levels; a recipe has about eight. Each level costs the reader a few frames of Python's 1,000
_NESTED = f"nested more than {_DEEPEST} levels deep"
# YAML 1.2 core schema, section 10.3.2. ruamel.yaml also takes `1_000` for a number; 1.2 says it is a string.
# Whole numbers of more digits than any setting has are taken as fractions: Python refuses to convert thousands of digits.
_INT = re.compile(r"[-+]?[0-9]{1,100}\Z|0o[0-7]{1,100}\Z|0x[0-9a-fA-F]{1,100}\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
# What the parser finds an untagged scalar to be; `plain_scalar` decides again, by 1.2.
_PLAIN_TAGS = {
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value")
}
_SPECIAL = {".inf": float("inf"), "+.inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan")}


@dataclass(slots=True)
class Tree:
    """A parsed file (or several merged ones).

    Attributes:
        value: The plain value.
        places: Path of a key or list entry -> (file, 1-based line or None).
        problems: What was wrong with the YAML itself.
    """

    value: Any = None
    places: dict[Key, tuple[str, int | None]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, key: Key) -> tuple[str, int | None]:
        """Return file and line of a path, or of the nearest path above it."""
        for length in range(len(key), -1, -1):
            if key[:length] in self.places:
                return self.places[key[:length]]
        return "", None

    def shown_place(self, key: Key) -> str:
        """Return the place of a path as messages show it: `file:line`, or `--set ...`."""
        file, line = self.place(key)
        return file if line is None else f"{file}:{line}"

    def has(self, key: Key) -> bool:
        """Return whether a path of mapping keys is in the value."""
        value = self.value
        for part in key:
            if not isinstance(value, Mapping) or part not in value:
                return False
            value = value[part]
        return True


def dotted(key: Key) -> str:
    """Return a path as the user writes it: sources.web.steps.0."""
    return ".".join(map(str, key))


def read(path: Path, shown: str) -> Tree:
    """Parse a file; problems are collected in the tree, never raised.

    Args:
        path: The file.
        shown: Its name in messages.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        return Tree(problems=[Problem("", f"cannot be read: {reason}. Give the path of a recipe (YAML).", None, shown)])
    return parse(text, shown)


def parse(text: str, shown: str) -> Tree:
    """Parse YAML text (see `read`)."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    tree = Tree(places={(): (shown, 1)})
    yaml = YAML(typ="safe", pure=True)
    try:
        refused = _too_deep(yaml.parse(text), shown)
        if refused is not None:
            tree.problems.append(refused)
            return tree
        yaml.composer.warn_double_anchors = False  # an anchor may be set anew (YAML 1.2, section 3.2.2.2)
        node = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else None
        tree.problems.append(Problem("", f"not valid YAML: {error.problem or error.context}.", line, shown))
        return tree
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"not valid YAML: the character U+{error.character:04X} may not stand in a text file."
        tree.problems.append(Problem("", message, line, shown))
        return tree
    except YAMLError as error:
        tree.problems.append(Problem("", f"not valid YAML: {error}", None, shown))
        return tree
    if node is not None:
        _Builder(tree, shown).build(node, ())
    return tree


def _too_deep(events: Iterable[Any], shown: str) -> Problem | None:
    """Return the problem of a text that the composer, which recurses, cannot take: too deep, or an alias inside itself."""
    anchors: dict[str, int] = {}  # name -> number of the node that it was last set on
    open_nodes: list[int] = []  # around the current event, outermost first
    for number, event in enumerate(events):
        kind = type(event).__name__
        if kind == "AliasEvent" and anchors.get(event.anchor) in open_nodes:
            message = f"the alias *{event.anchor} stands inside what it repeats: that would never end. Write it out."
            return Problem("", message, event.start_mark.line + 1, shown)
        if kind in ("ScalarEvent", "SequenceStartEvent", "MappingStartEvent") and event.anchor is not None:
            anchors[event.anchor] = number
        if kind in ("SequenceStartEvent", "MappingStartEvent"):
            open_nodes.append(number)
            if len(open_nodes) > _DEEPEST:
                return Problem("", f"{_NESTED}.", event.start_mark.line + 1, shown)
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            open_nodes.pop()
    return None


class _Builder:
    def __init__(self, tree: Tree, shown: str) -> None:
        self.tree = tree
        self.shown = shown
        self.nodes = 0
        self.deep = False
        self.told: set[tuple[int, str]] = set()  # what an alias repeats is told once

    def build(self, node: Node, key: Key) -> None:
        self.tree.value = self._value(node, key)

    def _problem(self, node: Node, key: Key, message: str) -> None:
        if (id(node), message) in self.told:
            return
        self.told.add((id(node), message))
        self.tree.problems.append(Problem(dotted(key), message, node.start_mark.line + 1, self.shown))

    def _value(self, node: Node, key: Key) -> Any:
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            if self.nodes == _MOST_NODES + 1:
                self._problem(node, key[:1], f"more than {_MOST_NODES} values: aliases that multiply are refused.")
            return None
        if len(key) > _DEEPEST:  # by way of aliases: the text itself is not as deep
            if not self.deep:
                self._problem(node, key[:1], f"{_NESTED}, aliases written out.")
            self.deep = True
            return None
        kind = type(node).__name__
        expected = {"MappingNode": "map", "SequenceNode": "seq"}.get(kind)
        if expected is not None and node.tag not in (f"tag:yaml.org,2002:{expected}",):
            self._problem(node, key, f"the tag {node.tag} is refused: a recipe holds plain values and never runs code.")
            return None
        if kind == "MappingNode":
            return self._mapping(node, key)
        if kind == "SequenceNode":
            for index, item in enumerate(node.value):
                self.tree.places[*key, index] = (self.shown, item.start_mark.line + 1)
            return tuple(self._value(item, (*key, index)) for index, item in enumerate(node.value))
        return self._scalar(node, key)

    def _mapping(self, node: Node, key: Key) -> dict[str, Any]:
        found: dict[str, Any] = {}
        entries: dict[str, list[Node]] = {}
        for name_node, value_node in node.value:
            if type(name_node).__name__ != "ScalarNode":
                self._problem(name_node, key, "a key must be a plain word.")
                continue
            name = str(name_node.value)
            entries.setdefault(name, []).append(name_node)
            if len(entries[name]) == 1:
                self._characters(name_node, key)
                self.tree.places[*key, name] = (self.shown, name_node.start_mark.line + 1)
                found[name] = self._value(value_node, (*key, name))
        for name, nodes in entries.items():
            if len(nodes) > 1:
                times = "twice" if len(nodes) == 2 else f"{len(nodes)} times"
                first = f"first in line {nodes[0].start_mark.line + 1}"
                message = f"the key '{name}' stands here {times} ({first}): a duplicate key. Keep one."
                self._problem(nodes[1], (*key, name), message)
        return found

    def _scalar(self, node: Any, key: Key) -> Any:
        text = str(node.value)
        self._characters(node, key)
        if node.style in ("'", '"', "|", ">"):
            if node.tag != "tag:yaml.org,2002:str":
                self._problem(node, key, f"the tag {node.tag} is refused: a recipe holds plain values.")
            return text
        if node.tag in _PLAIN_TAGS:
            return plain_scalar(text)
        self._problem(node, key, f"the tag {node.tag} is refused: a recipe holds plain values and never runs code.")
        return None

    def _characters(self, node: Node, key: Key) -> None:
        """Refuse what an escape may say but no path, name or message can hold."""
        odd = re.search("[\0\ud800-\udfff]", str(node.value))
        if odd is not None:
            self._problem(node, key, f"the character U+{ord(odd[0]):04X} cannot be used in a recipe.")


def plain_scalar(text: str) -> Any:
    """Return the value of an unquoted scalar by the YAML 1.2 core schema."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    if _INT.match(text):
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)
    if _FLOAT.match(text):
        return float(text)
    return _SPECIAL.get(text.lower(), text)


def merge(base: Tree, variant: Tree) -> Tree:
    """Return `base` with what `variant` states differently: mappings merge key by key, anything else replaces.

    A null in the variant removes the key.
    """
    places = dict(base.places)

    def drop(key: Key) -> None:
        for known in [known for known in places if known[: len(key)] == key]:
            del places[known]

    def combine(one: Any, other: Any, key: Key) -> Any:
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            result = dict(one)
            for name, value in other.items():
                if value is None:
                    result.pop(name, None)
                    drop((*key, name))
                else:
                    result[name] = combine(one[name], value, (*key, name)) if name in one else value
                    places[*key, name] = variant.place((*key, name))
                    _copy(variant, places, (*key, name))
            return result
        drop(key)
        _copy(variant, places, key)
        return other

    value = combine(base.value or {}, variant.value or {}, ())
    return Tree(value, places, [*base.problems, *variant.problems])


def _copy(tree: Tree, places: dict[Key, tuple[str, int | None]], key: Key) -> None:
    places.update({known: place for known, place in tree.places.items() if known[: len(key)] == key})


def override(tree: Tree, assignment: str) -> None:
    """Apply one `--set a.b=value` to the tree; the value is YAML.

    A null removes the key. In a list of steps, a part of the path may be the name of a block:
    sources.web.steps.gopher_quality.min_words=60.
    """
    name, equals, text = assignment.partition("=")
    shown = f"--set {assignment}"
    if not equals or not name:
        tree.problems.append(Problem("", "write --set KEY=VALUE, such as --set dedup.minhash.verify=0.8.", None, shown))
        return
    parts = name.split(".")
    if len(parts) > _DEEPEST:
        tree.problems.append(Problem("", f"{_NESTED}.", None, shown))
        return
    parsed = parse(text, shown)
    for problem in parsed.problems:
        key = f"{name}.{problem.key}" if problem.key else name
        tree.problems.append(Problem(key, problem.message, None, shown))
    try:
        tree.value = _assign(tree.value if tree.value is not None else {}, parts, (), parsed.value, tree, shown)
    except ValueError as error:
        tree.problems.append(Problem(name, str(error), None, shown))


def _assign(value: Any, parts: list[str], key: Key, new: Any, tree: Tree, shown: str) -> Any:
    if not parts:
        for known in [known for known in tree.places if known[: len(key)] == key]:
            del tree.places[known]
        tree.places[key] = (shown, None)
        return new
    head, rest = parts[0], parts[1:]
    if isinstance(value, tuple):
        index = _entry(value, head)
        inside = (*key, index)
        entry = value[index]
        if not head.isdigit() and isinstance(entry, Mapping):
            changed: Any = {**entry, head: _assign(entry.get(head) or {}, rest, (*inside, head), new, tree, shown)}
        elif not head.isdigit():
            changed = {head: _assign({}, rest, (*inside, head), new, tree, shown)}
        else:
            changed = _assign(entry, rest, inside, new, tree, shown)
        return (*value[:index], changed, *value[index + 1 :])
    mapping = dict(value) if isinstance(value, Mapping) else {}
    if not rest and new is None:
        mapping.pop(head, None)
        return mapping
    mapping[head] = _assign(mapping.get(head), rest, (*key, head), new, tree, shown)
    return mapping


def _entry(entries: tuple[Any, ...], head: str) -> int:
    if head.isdigit() and int(head) < len(entries):
        return int(head)
    names = [next(iter(entry)) if isinstance(entry, Mapping) and entry else entry for entry in entries]
    if head in names:
        return names.index(head)
    raise ValueError(f"the list has no entry '{head}', only {', '.join(map(str, names))}.")


def dump(value: Any) -> str:
    """Return plain values as YAML text that `parse` reads back."""
    import io

    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(value, out)
    return out.getvalue()


def plain(settings: BaseModel) -> dict[str, Any]:
    """Return settings as the recipe writes them: what is off or absent is left out only where that is its default."""
    values: dict[str, Any] = {}
    for name, info in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value is None:
            if info.default is not None:
                values[name] = "off"
            continue
        values[name] = _plain_value(value)
    return values


def _plain_value(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return plain(value)
    if isinstance(value, Mapping):
        return {str(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [_plain_value(item) for item in value]
    return value
