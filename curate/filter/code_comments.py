"""Comments in source code, by family of languages: one pass of a regular expression that knows strings, so that `//` in one is none.

Counts as pygments does, on which bigcode's and OpenCoder's numbers rest. Limits:

- A comment in a string that the language would interpolate, and a string in a template's `${}`, are taken for string.
- JavaScript: what is a regular expression is told from the sign or word before the slash.
- C: what stands between `#if 0` and `#endif` is neither comment nor code that is read.
- Rust: `///`, `//!`, `/**` and `/*!` are documentation, which bigcode does not count; nested comments are known.
- Shell: `#` begins a comment at the start of a word; text of here-documents is read like code.
- Languages that are not named in `FAMILIES` have no comments that are known here: nothing is measured for them.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser

_STRINGS = r'"(?:\\[\s\S]|[^"\\])*"'
_LINE_STRING = r'"(?:\\[\s\S]|[^"\\\n])*"?'  # ends with its line
_C_CHAR = r"'(?:\\[\s\S]|[^\\'\n])'|'\\x[0-9A-Fa-f]+'|'\\[0-7]{1,3}'"
_BLOCK = r"(?P<comment>/\*[\s\S]*?(?:\*/|\Z))"
_LINE = r"(?P<line>//[^\n]*)"
_REGEX_LITERAL = (
    r"(?:(?<=[(,=:\[!&|?{;+\-*%~^<>\n])|(?<=return)|(?<=typeof)|(?<=case)|\A)[ \t]*"
    r"(?P<regex>/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*)"
)
_SCANNERS = {
    # Directives are read as they are, quotes and all; a line comment takes its line feed along, but for one behind `#include`.
    "c": re.compile(
        r"^[ \t]*\#[ \t]*if[ \t]+0\b[\s\S]*?^[ \t]*\#[ \t]*(?:endif|else|elif)\b"
        r"|^[ \t]*\#[ \t]*include[ \t]*(?:\"[^\"\n]+\"|<[^>\n]+>)[ \t]*+(?!/\*)(?P<included>[^\n]*)"
        rf"|^[ \t]*\#(?:(?<=\\)\n|[^/\n]|/(?![*/]))*|{_LINE_STRING}|{_C_CHAR}"
        rf"|(?P<line>//(?:[^\n]|(?<=\\)\n)*\n?)|{_BLOCK}",
        re.MULTILINE,
    ),
    "java": re.compile(rf'"""[\s\S]*?"""|{_LINE_STRING}|{_C_CHAR}|{_LINE}|{_BLOCK}'),
    "javascript": re.compile(
        rf"(?P<hashbang>\A\#![^\n]*)|{_STRINGS}|'(?:\\[\s\S]|[^'\\])*'|`(?:\\[\s\S]|[^`\\])*`|{_LINE}|{_BLOCK}|{_REGEX_LITERAL}"
    ),
    "go": re.compile(rf"{_STRINGS}|`[^`]*`|{_C_CHAR}|{_LINE}|{_BLOCK}"),
    "rust": re.compile(
        rf"(?P<doc>//!.*\n?|///(?!/).*\n?)|b?{_STRINGS}|b?r(?P<fence>\#+)\"[\s\S]*?\"(?P=fence)|b?r\"[^\"]*\"|{_C_CHAR}"
        r"|(?P<line>//[^\n]*\n?)|(?P<nested>/\*)"
    ),
    "python": re.compile(
        r"(?P<hashbang>\A\#![^\n]+)|^[ \t]*[rRuUbB]{0,2}(?P<doc>(?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''))"
        r"|[rRuUbBfF]{0,2}(?:\"\"\"(?:\\[\s\S]|[^\\])*?\"\"\"|'''(?:\\[\s\S]|[^\\])*?''')"
        rf"|{_LINE_STRING}|'(?:\\[\s\S]|[^'\\\n])*'?|(?P<line>\#[^\n]*)",
        re.MULTILINE,
    ),
    "shell": re.compile(
        r"(?P<hashbang>\A\#![^\n]*)|\$?\"(?:\\[\s\S]|[^\"\\])*\"|'[^']*'|\\[\s\S]|\$\#|\$\{\#|(?P<line>(?<![^\s;&|()])\#[^\n]*)"
    ),
    "sql": re.compile(rf"'(?:''|[^'])*'|\"(?:\"\"|[^\"])*\"|(?P<line>--[^\n]*)|{_BLOCK}"),
    "html": re.compile(r"(?P<comment><!--[\s\S]*?(?:-->|\Z))"),
    "css": re.compile(rf"{_STRINGS}|'(?:\\[\s\S]|[^'\\])*'|{_BLOCK}"),
    "hash": re.compile(rf"{_LINE_STRING}|'[^'\n]*'|(?P<line>\#[^\n]*)"),
}
_NESTED = re.compile(r"/\*|\*/")

# Language names of linguist in small letters, and what they are written like.
FAMILIES = {
    **dict.fromkeys(("c", "c++", "cpp", "objective-c", "cuda", "opencl", "glsl"), "c"),
    **dict.fromkeys(("java", "c#", "c-sharp", "csharp", "kotlin", "scala", "groovy", "dart", "swift", "php"), "java"),
    **dict.fromkeys(("javascript", "typescript", "jsx", "tsx"), "javascript"),
    "go": "go",
    "rust": "rust",
    "python": "python",
    **dict.fromkeys(("shell", "bash", "sh", "zsh"), "shell"),
    "sql": "sql",
    **dict.fromkeys(("html", "xml", "xslt", "vue"), "html"),
    **dict.fromkeys(("css", "scss", "less"), "css"),
    **dict.fromkeys(
        ("ruby", "perl", "r", "makefile", "dockerfile", "yaml", "toml", "julia", "elixir", "cmake"), "hash"
    ),
}


@dataclass(frozen=True, slots=True)
class Parts:
    """A file divided into code and comments.

    Attributes:
        code: What is no comment, in order.
        comments: Comments, documentation and hash-bang line, in order.
        num_comment_chars: Of line and block comments alone, with their signs.
    """

    code: str
    comments: str
    num_comment_chars: int


def divide(text: str, language: str) -> Parts | None:
    """Return code and comments of a file, line ends made `\\n` and empty lines at both ends taken off, or None for an unknown language."""
    family = FAMILIES.get(language)
    if family is None:
        return None
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").removeprefix("\ufeff") + "\n"
    code, comments, count, done = [], [], 0, 0
    for start, end, is_documentation in _comments(text, _SCANNERS[family]):
        code.append(text[done:start])
        comments.append(text[start:end])
        count += 0 if is_documentation else end - start
        done = end
    return Parts("".join([*code, text[done:]]), "".join(comments), count)


def _comments(text: str, scanner: re.Pattern[str]) -> Iterator[tuple[int, int, bool]]:
    """Yield place of each comment, and whether it is documentation or a hash-bang line."""
    position = 0
    while (match := scanner.search(text, position)) is not None:
        kind = match.lastgroup
        position = max(match.end(), position + 1)
        if kind == "nested":
            begun = text[match.start() : match.start() + 4]
            position = _nested_end(text, match.end())
            is_doc = begun.startswith("/*!") or (begun.startswith("/**") and begun[3:4] not in ("/", "*"))
            yield match.start(), position, is_doc
        elif kind in ("line", "comment"):
            yield match.start(), match.end(), False
        elif kind == "included" and match.group(kind):
            yield match.start(kind), match.end(), False
        elif kind in ("doc", "hashbang"):
            yield match.start(kind), match.end(), True


def _nested_end(text: str, position: int) -> int:
    depth = 1
    while depth:
        match = _NESTED.search(text, position)
        if match is None:
            return len(text)
        depth += 1 if match.group() == "/*" else -1
        position = match.end()
    return position


def comment_fraction(text: str, language: str) -> float | None:
    """Return the share of a file's characters that stand in comments, as bigcode counts; None for an unknown language.

    Python: docstrings of the module, of classes and of functions, indentation taken off, and comments without their `#`;
    what does not parse has no docstrings, what cannot be split into tokens no comments. Other languages: line and block
    comments with their signs.
    """
    if not text:
        return None
    if language == "python":
        return len(_python_prose(text)) / len(text)
    parts = divide(text, language)
    return None if parts is None else parts.num_comment_chars / len(text)


def _python_prose(text: str) -> str:
    docstrings: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes that Python will refuse some day
            tree = ast.parse(text)
        documented = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module))
        docstrings = [ast.get_docstring(node) or "" for node in documented]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        docstrings = []
    comments: list[str] = []
    try:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments = [token.string.replace("#", "") for token in tokens if token.type == tokenize.COMMENT]
    except (SyntaxError, tokenize.TokenError):
        comments = []
    return ("\n".join(filter(None, docstrings)) + "\n" + "".join(comments)).strip()


_NOT_SHOWN = frozenset({"script", "style", "template", "rt", "rp"})
_KEEPS_SPACE = frozenset({"pre", "textarea"})
_HTML_SPACE = " \n\t\f\r"


class _Shown(HTMLParser):
    """Collects the text of a page as Beautiful Soup's `get_text` gives it over Python's own parser."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._data: list[str] = []
        self._open: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.flush()
        if tag in _NOT_SHOWN or tag in _KEEPS_SPACE:
            self._open[tag] = self._open.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        self.flush()
        if self._open.get(tag):
            self._open[tag] -= 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag, attrs
        self.flush()

    def handle_data(self, data: str) -> None:
        self._data.append(data)

    def handle_comment(self, data: str) -> None:
        del data
        self.flush()

    def handle_decl(self, decl: str) -> None:
        del decl
        self.flush()

    def handle_pi(self, data: str) -> None:
        del data
        self.flush()

    def flush(self) -> None:
        """End a run of text: one of white space alone counts as one sign, except where a page keeps it."""
        text = "".join(self._data)
        self._data.clear()
        if not text or any(self._open.get(tag) for tag in _NOT_SHOWN):
            return
        if not text.strip(_HTML_SPACE) and not any(self._open.get(tag) for tag in _KEEPS_SPACE):
            text = "\n" if "\n" in text else " "
        self.parts.append(text)


def visible_html(text: str) -> str:
    """Return what a page shows: no tags, comments, scripts, styles, templates."""
    parser = _Shown()
    parser.feed(text)
    parser.close()
    parser.flush()
    return "".join(parser.parts)
