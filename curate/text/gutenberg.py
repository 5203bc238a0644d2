"""Project Gutenberg's header, footer and licence, told from the book between them, in all forms since 1991.

Three layouts have to be told apart:

- until 2003 the header holds the "small print", and the book begins behind `*END*THE SMALL PRINT! ...*END*`;
- about 2002 to 2003 the small print stands behind the book, so its end marks nothing at the start;
- since 2003 `*** START OF THIS PROJECT GUTENBERG EBOOK ... ***` and `*** END OF ...`, with the full licence at the end.

Only whole lines of these forms count, so a book that mentions the project is left alone. Credits straight behind the
header go too, and so do transcribers' notes in front of the book and behind it: they are about the file, in the
transcriber's language and century. Notes inside the book stay where they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

HEAD_LINES = 700  # where a header may end: the longest small print takes some 300 lines
NOTE_CHARACTERS = 30_000  # the longest transcriber's note that is looked for behind a book

_START = re.compile(
    r"""(?imx) ^[ \t]* (?:
      \*{2,} [ ]? START [ ] OF [ ] (?: THE | THIS ) [ ] (?: COPYRIGHTED [ ] )? PROJECT [ ] GUTENBERG
        (?: [^*] | \*(?!\*) ){0,400}? (?: \*{3} | \n\s*\n )
      | \*{1,3} [ ]? END [ ]? \*{0,3} [ ]? (?: OF [ ] )? THE [ ] SMALL [ ] PRINT! [^\n]*
    ) [^\n]* \n?"""
)
_SMALL_PRINT = re.compile(r"(?im)^[ \t]*\*{2,}[ ]?START[ ]?\*{0,3}[ ]?THE SMALL PRINT!")
_END = re.compile(
    r"""(?imx) ^[ \t]* (?:
      \*{2,} [ ]? END [ ] OF [ ] (?: THE | THIS ) [ ] (?: COPYRIGHTED [ ] )? PROJECT [ ] GUTENBERG
      | \W{0,3} (?: THE [ ] )? END [ ] OF [ ] (?: (?: THE | THIS ) [ ] )? PROJECT [ ] GUTENBERG
        (?: ['’]?S\b | [ ] (?: E-?BOOK | E-?TEXT | EDITION ) )
      | (?: ENDE [ ] D(?: IES )? E[SR]? | FIN [ ] D[EU] | FINE [ ] D[IE]\w* | EINDE [ ] VAN ) [^\n]{0,40} PROJE[CK]T [ ] GUTENBERG
      | \*{3,} [ ]? START: [ ] FULL [ ] LICENSE
    ) [^\n]*"""
)
_STARRED_END = re.compile(r"(?i)[ \t]*\*{2,}[ ]?END OF")
_CREDITS = re.compile(
    r"""(?ix) \W{0,3} (?:
      (?: e-?text [ ] | this [ ] e-?(?:book|text) [ ] (?:was|is) [ ] )?
        (?: produced | prepared | scanned | transcribed | typed | proofread | digiti[sz]ed ) [ ] (?: by | from )
      | (?: html | ebook | text ) [ ] (?: version | file ) [ ] (?: produced | prepared | created ) [ ] by
      | note: \s project [ ] gutenberg
      | this [ ] text [ ] uses [ ] utf-8
      | credits: [ ] | updated: [ ] | this [ ] file [ ] (?: was | should [ ] be ) [ ] (?: produced | named )
      | images? [ ] of [ ] the [ ] original [ ] pages [ ] are [ ] available
    )"""
)
_NOTE = re.compile(r"(?i)[\[\s*_=+|-]{0,80}transcriber[’']?s?[’']?[ ]note")
_NOTE_HEADING = re.compile(r"(?im)^[\[\s*_=+|-]{0,80}transcriber[’']?s?[’']?[ ]notes?\b[^\w\n]*$")
_NOTE_START = re.compile(r"(?im)^[ \t]*\[?transcriber[’']?s?[’']?[ ]notes?[ ]?:")
_PARAGRAPH = re.compile(r"(?:[ \t]*\r?\n)*(?P<body>(?:[ \t]*\S[^\n]*(?:\n|\Z))+)")
_WIDE_GAP = re.compile(r"\n(?:[ \t]*\r?\n){3}")
_FIELD = re.compile(r"(?m)^(?P<name>[A-Z][A-Za-z ]{2,30}):[ \t]+(?P<value>\S[^\n]*(?:\n[ \t]+\S[^\n]*)*)")
_NUMBER = re.compile(r"(?i)\[?\s?(?:E-?BOOK|E-?TEXT)\s*\#\s?(\d{1,6})\s?\]?")
_OLD_TITLE = re.compile(
    r"(?is)\A\W*(?:The\s+)?Project\s+Gutenberg(?:['’]s|\s+(?:E-?Book|E-?text|Edition)\s+of)\s+(?P<title>.{1,200}?)"
    r"(?:,?\s+by\s+(?P<author>[^\n]{2,100}))?\s*(?:\n|\Z)"
)
_RELEASE = re.compile(r"(?im)^[ \t]*(?P<date>[A-Z][a-z]+,? (?:\d{1,2}, )?(?:19|20)\d\d)[ \t]+\[\s?E-?(?:book|text)")
_FIELDS = {
    "title": "title",
    "author": "author",
    "authors": "author",
    "editor": "editor",
    "translator": "translator",
    "illustrator": "illustrator",
    "language": "language",
    "release date": "release_date",
    "posting date": "posting_date",
    "original publication": "original_publication",
    "credits": "credits",
}


@dataclass(frozen=True, slots=True)
class Book:
    """The part of a text that is the book.

    Attributes:
        start, end: Where it begins and ends, in characters of the text; all of it if that is none of the project's.
        facts: What the header says: title, author, translator, language, release_date, ebook (a number) and so on, as
            written; `credits` and `transcriber_notes` (characters) if such were cut. Empty if nothing was cut.
    """

    start: int
    end: int
    facts: dict[str, Any] = field(default_factory=dict)


def find_book(text: str) -> Book:
    """Return where a book stands between Project Gutenberg's header, credits, notes, footer and licence."""
    start, end = _bounds(text)
    if (start, end) == (0, len(text)):
        return Book(start, end)
    facts = _facts(text[:start]) if start else {}
    body = text[start:end]
    if start:
        body, credits_ = _without_credits(body)
        if credits_:
            facts.setdefault("credits", " ".join(" ".join(credits_).split()))
    length = len(body)
    body = _without_first_note(body)
    start = end - len(body)
    body = _without_last_note(body)
    if length != len(body):
        facts["transcriber_notes"] = length - len(body)
    end = start + len(body.rstrip())
    return Book(start + len(body) - len(body.lstrip("\r\n")) if body.strip() else end, end, facts)


def _bounds(text: str) -> tuple[int, int]:
    """Return where the book begins and ends: 0 and the text's length where there is no mark."""
    head = _line_offset(text, HEAD_LINES)
    ends = [match.start() for match in _END.finditer(text)]
    starts = [match for match in _START.finditer(text, 0, head) if not ends or match.start() < ends[-1]]
    behind = [match.end() for match in starts if not any(end < match.start() for end in ends)]
    start = max(behind, default=0)
    ends = [end for end in ends if end >= start]
    small = [match.start() for match in _SMALL_PRINT.finditer(text, start)]
    if not ends:
        return start, small[0] if small and start else len(text)
    end = ([place for place in ends if _STARRED_END.match(text, place)] or ends)[-1]
    if not start and 2 * end < len(text):  # no header, and more text behind the mark than any licence has
        return 0, len(text)
    return start, min((place for place in ends if end - 1500 <= place < end), default=end)


def _line_offset(text: str, lines: int) -> int:
    place = -1
    for _ in range(lines):
        place = text.find("\n", place + 1)
        if place < 0:
            return len(text)
    return place


def _facts(header: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for match in _FIELD.finditer(header):
        name = _FIELDS.get(match["name"].lower())
        if name and name not in facts:
            facts[name] = " ".join(match["value"].split())
    if number := _NUMBER.search(header):
        facts["ebook"] = int(number[1])
    for name in facts.keys() & {"release_date", "posting_date"}:
        facts[name] = facts[name].partition("[")[0].strip()
    if "release_date" not in facts and (release := _RELEASE.search(header)):
        facts["release_date"] = release["date"]
    if "title" not in facts and (old := _OLD_TITLE.match(header)):
        facts["title"] = " ".join(old["title"].split()).strip(" ,")
        if old["author"]:
            facts.setdefault("author", " ".join(old["author"].split()).strip(" *,"))
    return facts


def _without_credits(body: str) -> tuple[str, list[str]]:
    """Return the book without the credits in front of it, and those."""
    cut: list[str] = []
    while (paragraph := _PARAGRAPH.match(body)) and _CREDITS.match(paragraph["body"]):
        cut.append(paragraph["body"])
        body = body[paragraph.end() :]
    return body, cut


def _without_first_note(body: str) -> str:
    """Return the book without a transcriber's note in front: one paragraph, or all of a bracket that it opens."""
    paragraph = _PARAGRAPH.match(body)
    if paragraph is None or not _NOTE.match(paragraph["body"]):
        return body
    if paragraph["body"].lstrip().startswith("["):
        closing = body.find("]", paragraph.start("body"))
        if 0 <= closing < NOTE_CHARACTERS:
            return body[closing + 1 :]
        return body
    rest = body[paragraph.end() :]
    if _NOTE_HEADING.match(paragraph["body"]) and paragraph["body"].strip().count("\n") == 0:
        following = _PARAGRAPH.match(
            rest
        )  # the heading stood alone: the note goes on to the next wide gap, if there is one
        if following is None:
            return rest
        gap = _WIDE_GAP.search(rest, following.start("body"), NOTE_CHARACTERS)
        return rest[gap.start() if gap is not None else following.end() :]
    return rest


def _without_last_note(body: str) -> str:
    """Return the book without a transcriber's note behind it: from its heading to the end, in the last quarter."""
    first = max(len(body) - NOTE_CHARACTERS, len(body) * 3 // 4)
    for pattern in (_NOTE_HEADING, _NOTE_START):
        if match := pattern.search(body, first):
            return body[: match.start()]
    return body
