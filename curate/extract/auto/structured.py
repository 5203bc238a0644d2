"""Text that a page holds as data only: JSON-LD, and the state that its scripts draw it from.

Pages built by scripts carry their text in `<script type="application/ld+json">` (schema.org: articleBody, text, reviewBody),
in `<script type="application/json">` (Next.js, Nuxt, Discourse), in `window.__INITIAL_STATE__ = {...}`, or in an attribute
(`data-preloaded`). Read where the markup holds no text to speak of; the work is bounded, and nothing here raises.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

MAX_BYTES = 8 << 20  # of one page that are looked at
MAX_NODES = 200_000  # of one page's data that are looked at
MAX_DEPTH = 400  # json itself gives up at the interpreter's limit
MAX_NESTED = 3  # JSON inside strings of JSON
MAX_FAILURES = 50  # assignments of one script that are no JSON
MAX_TEXTS = 500  # longest strings that are compared with one another
MAX_TEXT = 1 << 20  # characters of the text that comes out
MIN_WORDS = 12  # of a string that counts as prose
MIN_TOTAL_WORDS = 40  # fewer are a caption or a notice, not a page

_SCRIPT = re.compile(r"<script\b([^>]{0,2000})>", re.IGNORECASE)
_SCRIPT_END = re.compile(r"</script", re.IGNORECASE)
_TYPE = re.compile(r"""\btype\s*=\s*["']?\s*([\w.+/-]+)""", re.IGNORECASE)
_STATE = re.compile(r"(?:window|self|globalThis)(?:\.\w+|\[[\"']\w+[\"']\])\s*=\s*(?=[{\[])|\b__\w+__\s*=\s*(?=[{\[])")
_DATA_ATTRIBUTE = re.compile(r"""\sdata-(?:preloaded|page|state|props)\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_BLOCKS = "br|hr|p|div|li|ul|ol|dl|dt|dd|h[1-6]|tr|td|table|blockquote|pre|section|article"
_BLOCK_END = re.compile(rf"</?(?:{_BLOCKS})\b[^<>]*>", re.IGNORECASE)
# What is left open goes to the end: no part of a string is looked at twice.
_TAG = re.compile(
    r"<!--(?:.*?-->|.*)|<(script|style)\b(?:.*?</\1\b[^<>]*>|.*)|</?[a-zA-Z][^<>]*>", re.IGNORECASE | re.DOTALL
)
_SPACES = re.compile(r"[ \t\r\f\v\u00a0]+")
_LINES = re.compile(r" ?\n[ \n]*")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_CODE = re.compile(r"[{};=<>\\|]|https?://|function\b")
_BODIES = ("articleBody", "reviewBody", "text", "description")
_NEVER = {
    "styles",
    "css",
    "js",
    "script",
    "url",
    "href",
    "src",
    "svg",
    "translations",
    "i18n",
    "messages",
    "locale",
    "locales",
}


def structured_text(page: str) -> str | None:
    """Return the text in the data of a decoded page, its strings in order, paragraphs parted by a blank line.

    The bodies that JSON-LD names come first and alone, if there are any; else the prose in the page's state.

    Returns:
        The text, or None if it has fewer than MIN_TOTAL_WORDS words.
    """
    page = page[:MAX_BYTES]
    budget = _Budget()
    linked: list[Any] = []
    states: list[Any] = []
    for attributes, content in _scripts(page):
        kind = _TYPE.search(attributes)
        name = kind[1].lower() if kind else "text/javascript"
        if name == "application/ld+json":
            linked += _parse(content)
        elif name.endswith("json"):
            states += _parse(content)
        elif "javascript" in name or name == "module":
            states += _assigned(content)
    for double, single in _DATA_ATTRIBUTE.findall(page):
        states += _parse(html.unescape(double or single))
    for found in (_bodies(linked, budget), _prose(states, budget)):
        texts = _without_repeats(found)
        if sum(map(_num_words, texts)) >= MIN_TOTAL_WORDS:
            return "\n\n".join(texts)
    return None


def _scripts(page: str) -> Iterator[tuple[str, str]]:
    """Yield attributes and content of the scripts."""
    begin = _SCRIPT.search(page)
    while begin is not None:
        end = _SCRIPT_END.search(page, begin.end())
        if end is None:
            return
        yield begin[1], page[begin.end() : end.start()]
        begin = _SCRIPT.search(page, end.end())


class _Budget:
    """How many more nodes may be looked at."""

    def __init__(self) -> None:
        self.nodes = MAX_NODES

    def spend(self) -> bool:
        self.nodes -= 1
        return self.nodes >= 0


def _parse(content: str) -> list[Any]:
    """Return the value of a JSON text in a list, or an empty one."""
    content = content.strip().removeprefix("<!--").removesuffix("-->").strip().removesuffix(";")
    if not content.startswith(("{", "[")):
        return []
    try:
        return [json.loads(content, strict=False)]
    except (ValueError, RecursionError):
        return []


def _assigned(script: str) -> Iterator[Any]:
    """Yield the JSON values that a script assigns to its state."""
    decoder = json.JSONDecoder(strict=False)
    end = failures = 0
    for match in _STATE.finditer(script):
        if match.end() < end or failures >= MAX_FAILURES:
            continue
        try:
            value, end = decoder.raw_decode(script, match.end())
        except (ValueError, RecursionError):
            failures += 1
            continue
        yield value


def _walk(roots: list[Any], budget: _Budget) -> Iterator[tuple[str, str]]:
    """Yield keys and strings of the values in order; strings that hold JSON are opened."""
    stack: list[tuple[str, Any, int, int]] = [("", root, 0, 0) for root in reversed(roots)]
    while stack and budget.spend():
        key, value, depth, nested = stack.pop()
        if isinstance(value, str):
            opened = _parse(value) if nested < MAX_NESTED and len(value) > 40 and value[:1] in "{[" else []
            if opened:
                stack.append((key, opened[0], depth, nested + 1))
            else:
                yield key, value
        elif depth < MAX_DEPTH and isinstance(value, dict):
            stack += [
                (str(k), v, depth + 1, nested) for k, v in reversed(value.items()) if str(k).lower() not in _NEVER
            ]
        elif depth < MAX_DEPTH and isinstance(value, list):
            stack += [(key, v, depth + 1, nested) for v in reversed(value)]


def _bodies(linked: list[Any], budget: _Budget) -> list[str]:
    """Return the texts of the first property of _BODIES that JSON-LD has; a description only if it is prose."""
    found: dict[str, list[str]] = {name: [] for name in _BODIES}
    for key, value in _walk(linked, budget):
        if key in found:
            found[key].append(_plain(value))
    bodies = found["articleBody"] + found["reviewBody"] + found["text"]
    return bodies or [text for text in found["description"] if _num_words(text) >= MIN_TOTAL_WORDS]


def _prose(states: list[Any], budget: _Budget) -> list[str]:
    texts = (
        _plain(value) for _, value in _walk(states, budget) if len(value) >= 4 * MIN_WORDS or _UNSPACED.search(value)
    )
    return [text for text in texts if _is_prose(text)]


def _plain(value: str) -> str:
    """Return a string without markup, if it has any: one line a block, references decoded."""
    if "<" in value and ">" in value:
        value = html.unescape(_TAG.sub("", _BLOCK_END.sub("\n", value)))
    elif "&" in value:
        value = html.unescape(value)
    return _LINES.sub("\n", _SPACES.sub(" ", value)).strip()


def _num_words(text: str) -> int:
    unspaced = len(_UNSPACED.findall(text))
    return unspaced // 2 + len(text.split())


def _is_prose(text: str) -> bool:
    """Say whether a string is sentences: long enough, with little of what code and addresses hold."""
    words = _num_words(text)
    if words < MIN_WORDS or len(_CODE.findall(text)) * 12 > words:
        return False
    letters = sum(character.isalpha() for character in text[:4000])
    return letters >= 0.6 * len(text[:4000].replace(" ", ""))


def _without_repeats(texts: list[str]) -> list[str]:
    """Return the texts that are not empty and do not stand whole in another: states hold a body and its beginning."""
    longest: list[str] = []
    room = MAX_TEXT
    for text in sorted(dict.fromkeys(filter(None, texts)), key=len, reverse=True)[:MAX_TEXTS]:
        if len(text) <= room and not any(text in other for other in longest):
            longest.append(text)
            room -= len(text)
    kept = set(longest)
    return [text for text in dict.fromkeys(texts) if text in kept]
