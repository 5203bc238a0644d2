"""Articles and chapters out of docstrings, topics and package descriptions: the program of a clean Python process.

`demo_parts.ingredients` starts this file with `python -I`, so that no variable of the user's environment and no module
of the user's folder shapes the text. It imports the standard library only, reads one JSON object (see `main`) from
standard input and writes one to standard output. Source files are parsed, never imported; the exception are modules
written in C, whose documentation exists in the running interpreter alone.

A block is a list whose first entry names its kind: `["h", text]`, `["p", text]`, `["pre", text]`, `["ul", [item, ...]]`,
`["dl", [[term, text], ...]]`. Text keeps its reStructuredText marks for code (two back quotes).
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Block = list[Any]
Entry = dict[str, Any]  # name, signature, doc
Article = dict[str, Any]  # key, title, collection, blocks

_BULLET = re.compile(r"^(\s*)(?:[-*+•]|\(?\d{1,2}[.)])\s+(?=\S)")
_UNDERLINE = re.compile(r"^\s*([-=~^*\"#+])\1{2,}\s*$")
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]{4,}")
_ROLE = re.compile(r":(?:py:|c:)?[a-z]+:`~?([^`<]+?)(?:\s*<[^`>]*>)?`")
_TOKEN = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_LETTERS = re.compile(r"[^\W\d_]| ")
_FOOTNOTE = re.compile(r"\s?\[\d{1,2}\]_")

MIN_PAGE_WORDS = 70  # below, an entry shares the page of its module
MAX_PAGE_WORDS = 900  # above, a page is continued on a second one


def plain(text: str) -> str:
    """Return one line of text without reStructuredText roles, footnotes, escapes and runs of spaces."""
    text = _ROLE.sub(r"``\1``", text)
    text = _FOOTNOTE.sub("", text).replace(":: ", ": ").replace("\\ ", "").replace("\\*", "*").replace("\\_", "_")
    return " ".join(text.split())


def blocks(doc: str) -> list[Block]:
    """Split a docstring (or any text with blank lines between its parts) into blocks."""
    lines = inspect.cleandoc(_ADDRESS.sub("", doc).replace("\f", "\n")).expandtabs(8).splitlines()
    chunks: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            chunks[-1].append(line.rstrip())
        elif chunks[-1]:
            chunks.append([])
    found: list[Block] = []
    literal = False  # the last paragraph ended with "::"
    for chunk in chunks:
        if chunk:
            literal = _chunk(chunk, found, literal)
    return found


def _chunk(chunk: list[str], found: list[Block], literal: bool) -> bool:
    """Append the blocks of one chunk; return whether an indented chunk that follows is literal."""
    if len(chunk) >= 2 and _UNDERLINE.match(chunk[1]) and not _UNDERLINE.match(chunk[0]):
        found.append(["h", plain(chunk[0])])
        return bool(chunk[2:]) and _chunk(chunk[2:], found, False)
    indent = min(len(line) - len(line.lstrip()) for line in chunk)
    first = chunk[0].lstrip()
    if first.startswith((".. ", "..\n")):  # a directive: its argument is layout, not prose
        return True
    if first.startswith((">>>", "$ ", "In [")) or (literal and indent > 0) or _is_drawing(chunk):
        text = "\n".join(line[indent:] for line in chunk)
        if found and found[-1][0] == "pre" and not literal:
            found[-1][1] += "\n\n" + text
        else:
            found.append(["pre", text])
        return literal and indent > 0
    if _BULLET.match(chunk[0]):
        _items(chunk, found)
        return False
    bullets = [number for number, line in enumerate(chunk) if _BULLET.match(line)]
    if len(bullets) > 1:  # a list that follows its introduction without a blank line
        _chunk(chunk[: bullets[0]], found, literal)
        return _chunk(chunk[bullets[0] :], found, False)
    if _is_definitions(chunk, indent):
        _definitions([line[indent:] for line in chunk], found)
        return False
    text = plain(" ".join(chunk))
    opens = text.endswith("::")
    if opens:
        text = text[:-1] if len(text) > 2 and text[-3] != " " else text[:-2].rstrip()
    if text:
        previous = found[-1] if found else None
        if indent >= 3 and previous is not None and previous[0] == "ul":  # the second paragraph of a list item
            previous[1][-1] += " " + text
        else:
            found.append(["p", text])
    return opens


def _is_drawing(chunk: list[str]) -> bool:
    """Whether the lines are a table or a drawing: most of them have gaps inside, or few letters."""
    gaps = sum(bool(re.search(r"\S {3,}\S", line)) for line in chunk)
    letters = sum(len(_LETTERS.findall(line.strip())) for line in chunk)
    return (len(chunk) > 1 and gaps * 2 > len(chunk)) or letters * 2 < sum(len(line.strip()) for line in chunk)


def _is_definitions(chunk: list[str], indent: int) -> bool:
    """Whether the chunk reads as `term` lines, each with an indented explanation under it."""
    flush = [line for line in chunk if len(line) - len(line.lstrip()) == indent]
    if (
        len(chunk) < 2
        or chunk[0] != flush[0]
        or len(flush) == len(chunk)
        or len(chunk[1]) - len(chunk[1].lstrip()) <= indent
    ):
        return False
    return all(len(line.split()) <= 9 and not line.rstrip().endswith((".", ",")) for line in flush)


def _items(chunk: list[str], found: list[Block]) -> None:
    items: list[str] = []
    level = len(chunk[0]) - len(chunk[0].lstrip())
    for line in chunk:
        match = _BULLET.match(line)
        if match and len(match[1]) <= level + 1:
            items.append(line[match.end() :])
        else:
            items[-1] += " " + line.strip()
    items = [plain(item) for item in items]
    if found and found[-1][0] == "ul":
        found[-1][1].extend(items)
    else:
        found.append(["ul", items])


def _definitions(lines: list[str], found: list[Block]) -> None:
    pairs: list[list[str]] = []
    for line in lines:
        if line[0] != " ":
            pairs.append([plain(line), ""])
        else:
            pairs[-1][1] += " " + line.strip()
    pairs = [[term, plain(text)] for term, text in pairs]
    if found and found[-1][0] == "dl":
        found[-1][1].extend(pairs)
    else:
        found.append(["dl", pairs])


def num_words(page: list[Block]) -> int:
    """Return the words of a page, code left out."""
    total = 0
    for kind, content in page:
        if kind in ("p", "h"):
            total += len(content.split())
        elif kind == "ul":
            total += sum(len(item.split()) for item in content)
        elif kind == "dl":
            total += sum(len(text.split()) for _, text in content)
    return total


def sentences_only(page: list[Block]) -> list[Block]:
    """Return what a magazine would print of a page: headings, and paragraphs and items that are sentences, each once."""
    kept: list[Block] = []
    seen: set[str] = set()

    def is_new_prose(text: str) -> bool:
        if text in seen or not _is_prose(text):
            return False
        seen.add(text)
        return True

    for kind, content in page:
        if kind == "h" or (kind == "p" and is_new_prose(content)):
            kept.append([kind, content])
        elif kind in ("ul", "dl"):
            items = content if kind == "ul" else [text for _, text in content]
            if items := [item for item in items if is_new_prose(item)]:
                kept.append(["ul", items])
    following = [block[0] for block in kept[1:]] + ["h"]
    return [
        block for block, after in zip(kept, following, strict=False) if block[0] != "h" or after != "h"
    ]  # no bare heading


def _is_prose(text: str) -> bool:
    """Whether the text is at least 8 words, closed by a full stop, and at most a fifth of it punctuation or numbers."""
    tokens = _TOKEN.findall(text.replace("`", ""))
    letters = sum(any(char.isalpha() for char in token) for token in tokens)
    return len(text.split()) >= 8 and text.rstrip("`").endswith((".", "?", "!")) and 5 * letters >= 4 * len(tokens)


# From source files to entries: parsed, not imported.


def source_entries(source: str) -> tuple[str, list[Entry]]:
    """Return the module's docstring and its documented public classes and functions, in source order."""
    tree = ast.parse(source)
    return ast.get_docstring(tree) or "", list(_members(tree, ""))


def _members(node: ast.AST, prefix: str) -> Iterator[Entry]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.If, ast.Try)):
            yield from _members(child, prefix)
        elif isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and child.name[0] != "_":
            doc = ast.get_docstring(child) or ""
            if isinstance(child, ast.ClassDef):
                yield {"name": prefix + child.name, "signature": "", "doc": doc, "opens": not prefix}
                yield from _members(child, prefix + child.name + ".")
            elif doc:
                arguments = ast.unparse(child.args)
                signature = f"{child.name}({arguments})" if len(arguments) < 200 else f"{child.name}(...)"
                yield {"name": prefix + child.name, "signature": signature, "doc": doc, "opens": not prefix}


def builtin_entries(name: str, strip: list[str]) -> tuple[str, list[Entry]]:
    """Return the same for a module written in C, which has documentation in the running interpreter only.

    Args:
        name: The module.
        strip: Paths of this machine, longest first, that no text may show.
    """
    module = importlib.import_module(name)

    def neutral(doc: str) -> str:
        for path in strip:
            doc = doc.replace(path, "/usr")
        return doc

    entries: list[Entry] = []
    for member in sorted(vars(module)):
        value = vars(module)[member]
        doc = getattr(value, "__doc__", None)
        if member[0] == "_" or not isinstance(doc, str) or not (inspect.isclass(value) or inspect.isbuiltin(value)):
            continue
        entries.append({"name": member, "signature": "", "doc": neutral(doc), "opens": True})
        if inspect.isclass(value):
            for method in sorted(vars(value)):
                text = getattr(vars(value)[method], "__doc__", None)
                if method[0] != "_" and isinstance(text, str):
                    entries.append(
                        {"name": f"{member}.{method}", "signature": "", "doc": neutral(text), "opens": False}
                    )
    return neutral(module.__doc__ or ""), entries


def module_articles(module: str, overview: str, entries: list[Entry]) -> list[Article]:
    """Return the pages of one module: one for each class or long function, one for all that is short."""
    groups: list[list[Entry]] = []
    for entry in entries:
        if entry["opens"] or not groups:
            groups.append([entry])
        else:
            groups[-1].append(entry)
    articles: list[Article] = []
    main = blocks(overview)
    for group in groups:
        head = group[0]
        page = blocks(head["doc"])
        if head["signature"]:
            page = [["pre", head["signature"]], *page]
        for entry in group[1:]:
            page += [["h", entry["name"].rpartition(".")[2]], *_signed(entry)]
        if num_words(page) >= MIN_PAGE_WORDS:
            articles += _paged(f"{module}.{head['name']}", f"{module}.{head['name']}", module, page)
        elif num_words(page) > 5:
            main += [["h", head["name"]], *page]
    if num_words(main) >= MIN_PAGE_WORDS:
        articles = _paged(module, f"The module {module}", module, main) + articles
    return articles


def _signed(entry: Entry) -> list[Block]:
    body = blocks(entry["doc"])
    return [["pre", entry["signature"]], *body] if entry["signature"] else body


def _paged(key: str, title: str, collection: str, page: list[Block]) -> list[Article]:
    """Cut a long page at headings (or before a block, where no heading comes) and number the parts."""
    parts: list[list[Block]] = [[]]
    words = 0  # of the last part
    for block in page:
        if words > MAX_PAGE_WORDS or (words > MAX_PAGE_WORDS // 2 and block[0] == "h"):
            parts.append([])
            words = 0
        parts[-1].append(block)
        words += num_words([block])
    if len(parts) > 1 and num_words(parts[-1]) < MIN_PAGE_WORDS:
        last = parts.pop()
        parts[-1] += last
    return [
        {
            "key": key if not number else f"{key}.{number + 1}",
            "title": title if not number else f"{title}, part {number + 1}",
            "collection": collection,
            "blocks": part,
        }
        for number, part in enumerate(parts)
    ]


# Package descriptions: Markdown or reStructuredText as their authors wrote it.


def description_articles(package: str, text: str, max_words: int) -> list[Article]:
    """Return the pages of a package's long description, at most `max_words` words of it."""
    text = re.sub(r"<!--.*?-->|<[^>\n]{1,300}>", " ", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)  # images: badges
    text = re.sub(r"\[!\[[^\n]*", " ", text)
    text = re.sub(r"\[([^\]\n]*)\]\([^)\n]*\)", r"\1", text)  # links keep their words
    text = re.sub(r"`([^`<\n]+?)\s*<[^>`\n]+>`__?", r"\1", text)
    text = re.sub(r"^\.\. [^\n]*(?:\n[ \t]+[^\n]*)*", "", text, flags=re.MULTILINE)
    page: list[Block] = []
    fence: list[str] | None = None
    pending: list[str] = []
    for line in text.replace("\r", "").splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            if fence is None:
                page += blocks("\n".join(pending))
                pending, fence = [], []
            else:
                page.append(["pre", "\n".join(fence)])
                fence = None
        elif fence is not None:
            fence.append(line)
        elif line.startswith("#"):
            page += blocks("\n".join(pending))
            pending = []
            page.append(["h", plain(line.strip("# "))])
        else:
            pending.append(line)
    page += blocks("\n".join(pending))
    kept: list[Block] = []
    for block in page:
        if num_words(kept) >= max_words:
            break
        if block[0] != "pre" or block[1].strip():
            kept.append(block)
    return [a for a in _paged(package, f"About {package}", package, kept) if num_words(a["blocks"]) >= MIN_PAGE_WORDS]


# Books: prose alone.


def chapter_text(page: list[Block], seen: set[str]) -> str:
    """Return a page as plain paragraphs, code and repeated paragraphs left out.

    Args:
        page: The blocks.
        seen: Paragraphs met so far; those of this page are added.
    """
    parts: list[str] = []

    def add(text: str, words: int) -> None:
        text = text.replace("``", "").replace("`", "")
        if len(text.split()) >= words and text not in seen:
            seen.add(text)
            parts.append(text)

    for kind, content in page:
        if kind == "p":
            add(content, 6)
        elif kind == "ul":
            for item in content:
                add(item, 6)
        elif kind == "dl":
            for term, text in content:
                if len(text.split()) >= 8:
                    add(f"{term.split(' : ')[0]}: {text}", 8)
    return "\n\n".join(parts)


def main() -> None:
    """Read the order from standard input, write articles and books to standard output.

    The order: `modules` and `files` (lists of [name, path]), `builtins` (names), `descriptions` ([name, text]),
    `topics` (names for pages), `books` (list of {title, topics} or {title, files}), `strip` (machine paths).
    """
    gc.disable()  # syntax trees are cyclic garbage by the million; the process is short
    order = json.load(sys.stdin)
    topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    articles: list[Article] = []
    for name, path in order["modules"]:
        articles += module_articles(name, *source_entries(Path(path).read_text(encoding="utf-8")))
    for name in order["builtins"]:
        articles += module_articles(name, *builtin_entries(name, order["strip"]))
    for name in order["topics"]:
        if name in topics:
            articles += _paged(f"topic.{name}", _title(topics[name]), "reference", blocks(topics[name]))
    for name, text in order["descriptions"]:
        articles += description_articles(name, text, order["max_description_words"])
    books = []
    seen: set[str] = set()
    for book in order["books"]:
        chapters = [chapter_text(blocks(topics[name]), seen) for name in book.get("topics", ()) if name in topics]
        for _, path in book.get("files", ()):
            overview, entries = source_entries(Path(path).read_text(encoding="utf-8"))
            pages = [blocks(overview), *(blocks(entry["doc"]) for entry in entries)]
            chapters += [text for page in pages if len((text := chapter_text(page, seen)).split()) >= 60]
        books.append({"title": book["title"], "chapters": [text for text in chapters if text]})
    answer = json.dumps({"articles": articles, "books": books}, ensure_ascii=False)
    sys.stdout.buffer.write(answer.encode("utf-8", "replace"))


def _title(topic: str) -> str:
    return topic.lstrip().splitlines()[0].strip("* ")


if __name__ == "__main__":
    main()
