"""Pages of a book, XHTML or HTML, to its text: all of it is the book, so nothing is judged, only laid out.

Paragraphs are parted by an empty line; list items, table rows and verse lines by a line end, cells by a tab. Left out:
scripts, styles, navigation (`nav`), page numbers, pronunciation (`rt`), pictures (but for an initial letter). A reference to a
note stands in brackets; notes stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from curate.read.flow import Flow
from curate.read.markup import Event


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


_SKIPPED = _set(
    "head title script style nav template noscript iframe object audio video canvas form button select map rt rp svg"
)
_PARAGRAPHS = _set("""address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer header
    hgroup hr html legend level level1 level2 level3 level4 level5 level6 main menu ol p poem pre section stanza summary
    table ul bodymatter frontmatter rearmatter book linegroup sidebar epigraph""")
_LINES = _set("li tr line linenum option")
_HEADING = re.compile(r"h([1-6d])|doctitle|docauthor")
_VERSE = re.compile(r"(?i)(?:^|[\s_-])(?:poem|poetry|stanza|verses?|strophe|line-?group|linegroup|lg)(?:[\s_\-\d]|$)")
_STANZA = re.compile(r"(?i)(?:^|[\s_-])(?:stanza|strophe|line-?group|linegroup|lg)(?:[\s_\-\d]|$)")
_PAGE_NUMBER = re.compile(r"(?i)(?:^|\s)(?:page-?num(?:ber)?s?|page-?no|pagebreak|pb|x-ebookmaker-pageno)(?:\s|$)")
_TRANSCRIBERS_NOTE = re.compile(r"(?i)(?:^|\s)(?:trans-?notes?|tnotes?|transcribers?-?notes?)(?:\s|$)")
_PAGE_ROLES = ("pagebreak", "doc-pagebreak", "page-list", "doc-pagelist", "toc", "doc-toc", "landmarks", "navigation")
_NOTE_ROLES = ("noteref", "doc-noteref")
_MOST_INITIAL = 2  # characters of a picture's alternative text that stands for an initial letter


def add_page(flow: Flow, events: Iterable[Event], *, without_notes: bool = False) -> None:
    """Add the text of a page to a flow.

    Args:
        flow: Gets the text.
        events: Of the page.
        without_notes: Leave transcribers' notes out, as Project Gutenberg's volunteers mark them.
    """
    _Page(flow, without_notes).add(events)


def link_share(events: Iterable[Event]) -> float:
    """Return the share of a page's characters outside its head that stand in links."""
    num_linked = num_characters = depth = in_head = 0
    for event in events:
        if event.kind == "text":
            size = 0 if in_head else len("".join(event.name.split()))
            num_characters += size
            num_linked += size if depth else 0
        elif event.name == "a":
            depth += 1 if event.kind == "start" else -1
        elif event.name == "head":
            in_head += 1 if event.kind == "start" else -1
    return num_linked / num_characters if num_characters else 0.0


class _Page:
    def __init__(self, flow: Flow, without_notes: bool) -> None:
        self._flow = flow
        self._without_notes = without_notes
        self._skipped = 0  # depth below an element that is left out
        self._preformatted = 0
        self._verse: list[str] = []  # open elements inside a poem, outermost first: "poem", "stanza" or ""
        self._notes: list[bool] = []  # of open links: whether a bracket was opened

    def add(self, events: Iterable[Event]) -> None:
        self._flow.paragraph()
        for event in events:
            if event.kind == "text":
                if not self._skipped:
                    self._flow.text(event.name, is_preformatted=self._preformatted > 0)
            elif self._skipped:
                self._skipped += 1 if event.kind == "start" else -1
            elif event.kind == "start":
                self._start(event)
            else:
                self._end(event.name)
        self._flow.paragraph()

    def _start(self, event: Event) -> None:
        name, attributes = event.name, event.attributes
        roles = f"{attributes.get('epub:type', '')} {attributes.get('role', '')}".split()
        kind = attributes.get("class", "")
        if name in _SKIPPED or _PAGE_NUMBER.search(kind) or any(role in _PAGE_ROLES for role in roles):
            self._skipped = 1
            return
        if self._without_notes and _TRANSCRIBERS_NOTE.search(kind):
            self._flow.paragraph()
            self._skipped = 1
            return
        if self._verse or _VERSE.search(kind) or name == "poem":
            self._start_verse(name, kind)
        elif name in _PARAGRAPHS:
            self._flow.paragraph()
        if name in _LINES or name == "br":
            self._flow.line()
        elif name in ("td", "th"):
            self._flow.tab()
        elif name == "img":
            initial = attributes.get("alt", "").strip()
            if len(initial) <= _MOST_INITIAL and initial.isalpha():
                self._flow.text(initial)
        elif name == "pre":
            self._preformatted += 1
        elif name == "a":
            is_note = any(role in _NOTE_ROLES for role in roles)
            self._notes.append(is_note)
            if is_note:
                self._flow.text("[")
        elif match := _HEADING.fullmatch(name):
            self._flow.begin_heading(int(match[1]) if match[1] and match[1].isdigit() else 1)

    def _start_verse(self, name: str, kind: str) -> None:
        """Part stanzas by an empty line, lines of a stanza by a line end, also where they are paragraphs."""
        is_stanza = bool(_STANZA.search(kind)) or name in ("stanza", "linegroup")
        if not self._verse or is_stanza or (name in _PARAGRAPHS and "stanza" not in self._verse and name != "div"):
            self._flow.paragraph() if name in _PARAGRAPHS or not self._verse else self._flow.line()
        elif name in _PARAGRAPHS:
            self._flow.line()
        self._verse.append("stanza" if is_stanza else "poem" if not self._verse else "")

    def _end(self, name: str) -> None:
        if self._verse:
            kind = self._verse.pop()
            if kind:
                self._flow.paragraph()
            elif name in _PARAGRAPHS:
                self._flow.line()
        elif name in _PARAGRAPHS:
            self._flow.paragraph()
        if name in _LINES:
            self._flow.line()
        elif name == "pre":
            self._preformatted -= 1
        elif name == "a" and self._notes and self._notes.pop():
            self._flow.text("]")
        elif _HEADING.fullmatch(name):
            self._flow.end_heading()
