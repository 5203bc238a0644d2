"""Markdown in which nothing that comes from a recipe or from the web acts as markup (GitHub's dialect)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from curate.report.display import one_line

_MARKUP = re.compile(r"([\\`*\[\]#|~$@]|(?<!\w)_|_(?!\w)|(?<=[a-z]):(?=//)|(?<=www)\.|^[-+](?= )|(?<=^\d)[.)](?= ))")
_LONGEST = 300  # characters of one value


def text(value: Any, limit: int = _LONGEST) -> str:
    """Return a value as plain text on one line: every sign that Markdown or HTML would act upon is escaped."""
    plain = one_line(str(value), limit)
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\1", plain)


def code(value: Any, limit: int = _LONGEST) -> str:
    """Return a value as a code span, also inside a table; longer fences where it holds backticks itself."""
    plain = one_line(str(value), limit) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", plain)), default=0))
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return (fence + space + plain + space + fence).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table; a heading that ends in `:` is a column of numbers, aligned to the right. Cells are Markdown."""
    lines = ["| " + " | ".join(name.rstrip(":") for name in head) + " |"]
    lines.append("| " + " | ".join("---:" if name.endswith(":") else "---" for name in head) + " |")
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return [*lines, ""]


def fenced(content: str, language: str = "") -> list[str]:
    """Return a block of code."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", content)), default=2))
    return [fence + language, *content.rstrip("\n").split("\n"), fence, ""]
