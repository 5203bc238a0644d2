"""English tokens as spaCy 3.8 gives them (`spacy.blank("en")`), without spaCy: the reference, on str.

A text is cut at white space into chunks. From a chunk, prefixes and suffixes are taken off, one of each at a time,
until nothing is left to take or the rest is a known exception ("don't", "U.S.", ":-)"). What remains is one token if it
is an exception or an address (a URL or e-mail), and is cut at infixes otherwise. At last exceptions that were taken
apart are put together again wherever their parts stand side by side: "f(x):" ends in the emoticon "):".

The last step looks at a whole text: parts on both sides of a single space also count as side by side. They are never
put together, but the longest run of parts is looked at first, and hides the shorter ones that overlap it: in "a:) )"
the colon and the brackets stay apart, because ":))" is an exception.

datatrove 0.10 splits by this, and takes tokens of white space out. It also splits a text that holds "IS_ALPHA" anew
without that word where spaCy fails over it; whether it does depends on what spaCy has seen before, so here it never does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_DIGITS_BEFORE = "(?<=[0-9])"
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Rules:
    """What spaCy knows of English, as `spacy.json` has it.

    Attributes:
        exceptions: Chunk to its tokens.
        prefix: Matches at the start of a chunk what is taken off.
        suffix: Finds what is taken off at the end.
        infix: Finds what cuts the rest.
        address: Matches a chunk that is a URL or an e-mail address.
        parts: The tokens that an exception would be if it were none, to the exception; of those that affixes or
            infixes take apart.
        longest_parts: Tokens in the longest of these.
        data: The file itself.
    """

    exceptions: dict[str, tuple[str, ...]]
    prefix: re.Pattern[str]
    suffix: re.Pattern[str]
    infix: re.Pattern[str]
    address: re.Pattern[str]
    parts: dict[tuple[str, ...], str]
    longest_parts: int
    data: dict[str, Any]


@lru_cache(maxsize=1)
def rules() -> Rules:
    """Return the rules; read once a process."""
    data = json.loads((Path(__file__).parent / "spacy.json").read_text(encoding="utf-8"))
    alpha, lower, upper, icons, before_stop, quotes = (
        _as_class(data[name]) for name in ("alpha", "lower", "upper", "icons", "before_stop", "quote_class")
    )
    punctuation, marks, currency, units, hyphens = (
        "|".join(map(re.escape, data[name])) for name in ("punctuation", "quotes", "currency", "units", "hyphens")
    )
    both = rf"{punctuation}|\.\.+|…|{marks}|[{icons}]"
    prefix = rf"[§%=—–]|\+(?![0-9])|{both}|{currency}"
    suffix = (
        rf"(?:{both}|['’][sS]|[—–]|{_DIGITS_BEFORE}(?:\+|{currency}|{units})"
        rf"|(?:(?<=°[FfCcKk])|(?<=[{before_stop}])|(?<=[{upper}][{upper}]))\.)$"
    )
    infix = (
        rf"\.\.+|…|[{icons}]|{_DIGITS_BEFORE}[+\-*^](?=[0-9\-])|(?<=[{lower}{quotes}])\.(?=[{upper}{quotes}])"
        rf"|(?<=[{alpha}]),(?=[{alpha}])|(?<=[{alpha}0-9])(?:{hyphens}|[:<>=/])(?=[{alpha}])"
    )
    exceptions = {chunk: tuple(tokens) for chunk, tokens in data["exceptions"].items()}
    made = Rules(exceptions, re.compile(prefix), re.compile(suffix), re.compile(infix), _address(lower), {}, 0, data)
    apart = {chunk: tuple(_split(chunk, made, {})) for chunk in exceptions if _is_taken_apart(chunk, made)}
    parts = {tokens: chunk for chunk, tokens in apart.items()}
    return Rules(*(exceptions, made.prefix, made.suffix, made.infix, made.address, parts, max(map(len, parts)), data))


def _as_class(bounds: Sequence[int]) -> str:
    pairs = zip(bounds[::2], bounds[1::2], strict=True)
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in pairs)


def _address(lower: str) -> re.Pattern[str]:
    """Return the expression of an address: scheme, user, an IPv4 address or a host, port and path.

    An IPv4 address is none if it is private, or its first number is above 223, or its last is 0 or 255. Between the
    stops of a host stand letters, digits and whatever lies beyond U+00A0; its last part is in lower case.
    """
    letter = r"A-Za-z0-9\u00a1-\uffff"
    private = (
        r"(?:10|127)(?:\.\d{1,3}){3}|(?:169\.254|192\.168)(?:\.\d{1,3}){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2}"
    )
    number = r"(?:1?\d{1,2}|2[0-4]\d|25[0-5])"
    ip = rf"(?!{private})(?:[1-9]\d?|1\d\d|2[01]\d|22[0-3])(?:\.{number}){{2}}\.(?:[1-9]\d?|1\d\d|2[0-4]\d|25[0-4])"
    host = rf"(?:(?:[{letter}][{letter}_-]{{0,62}})?[{letter}]\.)+[{lower}]{{2,63}}"
    return re.compile(rf"(?:[\w+\-.]{{2,}}://)?(?:\S+(?::\S*)?@)?(?:{ip}|{host})(?::\d{{2,5}})?(?:[/?#]\S*)?$")


def _is_taken_apart(chunk: str, given: Rules) -> bool:
    return (
        any(pattern.search(chunk) for pattern in (given.infix, given.suffix)) or given.prefix.match(chunk) is not None
    )


def split_chunk(chunk: str) -> list[str]:
    """Return the tokens of a chunk without white space, before exceptions are put together again."""
    given = rules()
    return _split(chunk, given, given.exceptions)


def _split(chunk: str, given: Rules, exceptions: dict[str, tuple[str, ...]]) -> list[str]:
    before: list[str] = []
    behind: list[str] = []
    while chunk and chunk not in exceptions:
        match = given.prefix.match(chunk)
        prefix = match.end() if match else 0
        if prefix and chunk[prefix:] in exceptions:
            before.append(chunk[:prefix])
            chunk = chunk[prefix:]
            break
        match = given.suffix.search(chunk[prefix:])  # what stands before the prefix is not looked at
        suffix = match.end() - match.start() if match else 0
        if suffix and chunk[:-suffix] in exceptions:
            behind.append(chunk[-suffix:])
            chunk = chunk[:-suffix]
            break
        if not prefix and not suffix:
            break
        if prefix:
            before.append(chunk[:prefix])
        if suffix:
            behind.append(chunk[-suffix:])
        chunk = chunk[prefix : len(chunk) - suffix]
    return [*before, *_split_rest(chunk, given, exceptions), *reversed(behind)]


def _split_rest(rest: str, given: Rules, exceptions: dict[str, tuple[str, ...]]) -> Iterator[str]:
    if rest in exceptions:
        yield from exceptions[rest]
    elif given.address.match(rest):
        yield rest
    elif rest:
        start = 0
        for match in given.infix.finditer(rest):
            if match.start() == 0:
                continue  # nothing stands before it
            if match.start() != start:
                yield rest[start : match.start()]
            yield match[0]
            start = match.end()
        if start < len(rest):
            yield rest[start:]


def english_words(text: str) -> list[str]:
    """Return the tokens of a text in order."""
    words: list[str] = []
    for run in _runs(text):
        tokens: list[str] = []
        ends: list[bool] = []  # whether a chunk ends with the token
        for chunk in run.split(" "):
            found = split_chunk(chunk)
            tokens += found
            ends += [False] * (len(found) - 1) + [True]
        words += put_together(tokens, ends)
    return words


def _runs(text: str) -> Iterator[str]:
    """Yield chunks with single spaces between them; other white space is a token of its own, between those beside it."""
    start = 0
    for match in _SPACE.finditer(text):
        if match[0] != " ":
            if match.start() > start:
                yield text[start : match.start()]
            start = match.end()
        elif match.start() == start:
            start = match.end()
    if text[start:].rstrip():
        yield text[start:].rstrip()


def put_together(tokens: Sequence[str], ends: Sequence[bool]) -> Iterator[str]:
    """Yield the tokens of chunks that stand side by side, with exceptions that were taken apart put together again.

    Args:
        tokens: Of `split_chunk`, one chunk behind the other.
        ends: Whether a chunk ends with the token.
    """
    given = rules()
    found = [
        (-size, start)
        for start in range(len(tokens))
        for size in range(1, min(given.longest_parts, len(tokens) - start) + 1)
        if tuple(tokens[start : start + size]) in given.parts
    ]
    taken: set[int] = set()
    spans = {}
    for negative, start in sorted(found):
        stop = start - negative
        if start not in taken and stop - 1 not in taken:
            spans[start] = stop
        taken.update(range(start, stop))
    place = 0
    while place < len(tokens):
        stop = spans.get(place, place + 1)
        together = tuple(tokens[place:stop])
        if place in spans and not any(ends[place : stop - 1]):
            yield from given.exceptions[given.parts[together]]
        else:
            yield from together
        place = stop
