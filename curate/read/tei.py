"""TEI documents (P3 to P5) to text: the header to metadata; front, body and back in order.

What is printed is read, in the form an editor gave it for reading: of `choice` the corrected, regularised, expanded
form; of an apparatus the lemma. Notes stand behind the paragraph or stanza that they are about, in the order of their
references, with the reference's number in brackets where there is one. Left out: running heads and catchwords (`fw`),
page and column numbers, deletions, descriptions of figures, facsimiles. A gap is `[…]`.

A printed line's end inside a word (`lb`, `pb` or `cb` with `break="no"`, or behind a hyphen that a small letter
follows) is joined; at any other the words are parted. Verse lines, speakers, list items and table rows end a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from curate.read.flow import Chapter, Flow

if TYPE_CHECKING:
    from lxml.etree import _Element

ROOTS = frozenset(("TEI", "TEI.2", "teiCorpus", "teiCorpus.2", "TEI.1"))


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


_SKIPPED = _set("""teiHeader fw del surplus figDesc facsimile sourceDoc standOff certainty index interp interpGrp spanGrp span
    linkGrp joinGrp altGrp timeline metamark listTranspose""")
_PARAGRAPHS = _set("""p ab lg list table sp stage argument epigraph opener closer dateline salute signed trailer byline titlePage
    docTitle titlePart docAuthor docImprint docEdition docDate imprimatur castList castGroup div div0 div1 div2 div3
    div4 div5 div6 div7 front body back group text floatingText postscript figure eg egXML listBibl set
    performance prologue epilogue""")
_LINES = _set("l speaker item row castItem")
_DIVISIONS = frozenset(("div", *(f"div{number}" for number in range(8))))
_WHOLE = _set("front body back group text")
_BREAKS = _set("lb pb cb gb milestone")
_PREFERRED = {
    "choice": ("corr", "reg", "expan", "unclear", "seg"),
    "app": ("lem", "rdg"),
    "subst": ("add", "corr"),
}
_CHAPTER = re.compile(
    r"(?i)chap|kapitel|cap[ií]tulo|hoofdstuk|letter|lettre|brief|carta|canto"
    r"|poem|poème|gedicht|scene|story|essay|liminal|notes"
)
_PREPRINTED = _set("p ab lg head sp list table l")
_INLINE_NOTES = ("inline", "inter", "interlinear")


@dataclass(slots=True)
class TeiText:
    """One text of a TEI file: the facts of its header, and its chapters in order."""

    facts: dict[str, Any] = field(default_factory=dict)
    chapters: list[Chapter] = field(default_factory=list)


def read_tei(root: _Element, *, by_chapter: bool) -> Iterator[TeiText]:
    """Yield the texts of a TEI document: one, or those of a corpus in order.

    Args:
        root: As `curate.read.markup.parse_xml` gives it.
        by_chapter: Cut each text into its chapters.
    """
    corpus = local(root).startswith("teiCorpus")
    members = [element for element in root if local(element) in ROOTS] if corpus else [root]
    for member in members:
        if local(member).startswith("teiCorpus"):
            yield from read_tei(member, by_chapter=by_chapter)
            continue
        reader = _Reader()
        for child in member:
            if local(child) == "text":
                reader.add(child, _chapters(child) if by_chapter else {})
        yield TeiText(_header(member), reader.flow.chapters(1 if by_chapter else None))


def local(element: Any) -> str:
    """Return an element's name without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _chapters(text: _Element) -> set[_Element]:
    """Return the divisions that begin a chapter: those typed as one if any are, else the outermost with text.

    A division that only holds divisions and headings (a volume, a part) is entered. It begins a chapter as well: what
    stands in it before the first chapter, a heading most often, goes with that one.
    """
    divisions = [element for element in text.iter() if local(element) in _DIVISIONS]
    typed = [one for one in divisions if _CHAPTER.search(one.get("type", ""))]
    if typed:
        chosen = set(typed)
        return {one for one in divisions if not any(parent in chosen for parent in one.iterancestors())}
    found: set[_Element] = set()
    waiting = [text]
    while waiting:
        element = waiting.pop()
        for child in element:
            name = local(child)
            if name in _DIVISIONS:
                found.add(child)
                inner_names = {local(one) for one in child}
                if inner_names & _DIVISIONS and not inner_names & _PREPRINTED - {"head"}:
                    waiting.append(child)
            elif name in _WHOLE:
                waiting.append(child)
    return found


class _Reader:
    """Walks a text once, without recursion."""

    def __init__(self) -> None:
        self.flow = Flow()
        self._flows = [self.flow]  # the text's, and those of notes inside notes
        self._notes: list[str] = []
        self._blocks = 0  # open paragraphs, stanzas, lists ... of the text itself

    def add(self, text: _Element, chapters: Iterable[_Element] | dict[Any, Any]) -> None:
        """Add a `text` element; a chapter begins at each of `chapters`."""
        from lxml import etree

        starts = set(chapters)
        preferred: set[Any] = set()
        walk = etree.iterwalk(text, events=("start", "end"))
        for action, element in walk:
            name = local(element)
            if action == "start":
                choice = _PREFERRED.get(local(element.getparent())) if element is not text else None
                if name in _SKIPPED or (choice and element not in preferred):
                    walk.skip_subtree()
                    continue  # its end comes all the same
                if name in _PREFERRED:
                    preferred.update(_best(element))
                if element in starts:
                    self.flow.paragraph()
                    self.flow.mark(1)
                self._start(name, element)
                if element.text:
                    self._flows[-1].text(element.text)
            else:
                choice = _PREFERRED.get(local(element.getparent())) if element is not text else None
                if not (name in _SKIPPED or (choice and element not in preferred)):
                    self._end(name, element)
                if element.tail and element is not text:
                    self._flows[-1].text(element.tail)
        self._put_notes()

    def _start(self, name: str, element: _Element) -> None:
        flow = self._flows[-1]
        if name == "note" and element.get("place", "") not in _INLINE_NOTES:
            self._start_note(element)
        elif name in _BREAKS:
            if element.get("break") == "no":
                flow.join(is_certain=True)
            elif element.get("break") == "yes":
                flow.space()
            else:
                flow.join(is_certain=False)
        elif name == "head" and len(self._flows) == 1:
            flow.begin_heading(2, is_mark=False)
        elif name == "gap":
            flow.space()
            flow.text("[…]")
        elif name in ("space", "cell"):
            flow.tab() if name == "cell" else flow.space()
        elif name in _PARAGRAPHS or name == "head":
            flow.paragraph()
        elif name in _LINES:
            flow.line()
        if name in _PREPRINTED and len(self._flows) == 1:
            self._blocks += 1

    def _end(self, name: str, element: _Element) -> None:
        if name == "note" and element.get("place", "") not in _INLINE_NOTES:
            self._end_note(element)
            return
        flow = self._flows[-1]
        if name == "head" and len(self._flows) == 1:
            flow.end_heading()
        elif name in _PARAGRAPHS or name == "head":
            flow.paragraph()
        elif name in _LINES:
            flow.line()
        if name in _PREPRINTED and len(self._flows) == 1:
            self._blocks -= 1
            if not self._blocks:
                self._put_notes()

    def _start_note(self, element: _Element) -> None:
        number = element.get("n", "").strip()
        if number and self._blocks:
            self._flows[-1].text(f"[{number}]")
        self._flows.append(Flow())

    def _end_note(self, element: _Element) -> None:
        number = element.get("n", "").strip()
        parts = self._flows.pop().chapters(None)
        text = "\n\n".join(part.text for part in parts)
        if text:
            self._notes.append(f"[{number}] {text}" if number else text)
        if not self._blocks and len(self._flows) == 1:
            self._put_notes()

    def _put_notes(self) -> None:
        if self._notes:
            notes, self._notes = self._notes, []
            for note in notes:
                self.flow.paragraph()
                self.flow.text(note, is_preformatted=True)
            self.flow.paragraph()


def _best(element: _Element) -> list[_Element]:
    """Return the alternatives of a `choice`, `app` or `subst` that are read."""
    children = [child for child in element if isinstance(child.tag, str)]
    for name in _PREFERRED[local(element)]:
        found = [child for child in children if local(child) == name]
        if found:
            return found if local(element) == "subst" else found[:1]
    return children[:1]


# ---- header


def _header(document: _Element) -> dict[str, Any]:
    """Return title, creator, editor, date, language, publisher, license or rights, and identifier of a TEI header."""
    header = next((child for child in document if local(child) == "teiHeader"), None)
    if header is None:
        return {}
    facts: dict[str, Any] = {}
    statement = _find(header, "fileDesc", "titleStmt")
    if statement is not None:
        titles = [child for child in statement if local(child) == "title"]
        main = [one for one in titles if one.get("type") in (None, "main")] or titles
        _put(facts, "title", [_text(one) for one in main[:1]])
        for name, key in (("author", "creator"), ("editor", "editor")):
            _put(facts, key, [_name(child) for child in statement if local(child) == name], is_list=True)
    publication = _find(header, "fileDesc", "publicationStmt")
    if publication is not None:
        _put(facts, "publisher", [_text(one) for one in _all(publication, "publisher")])
        _put(facts, "identifier", [_text(one) for one in _all(publication, "idno")])
        licences = _all(publication, "licence") or _all(publication, "license")
        _put(facts, "license_url", [one.get("target", "") for one in licences])
        _put(facts, "rights", [_text(one) for one in (licences or _all(publication, "availability"))])
    source = _find(header, "fileDesc", "sourceDesc")
    dates = [one for part in (source, publication) if part is not None for one in _all(part, "date")]
    _put(facts, "date", [one.get("when") or _text(one) for one in dates])
    language = next((one.get("ident") or _text(one) for one in _all(header, "language")), None)
    text = next((child for child in document if local(child) == "text"), document)
    space = "{http://www.w3.org/XML/1998/namespace}lang"
    declared = text.get(space) or text.get("lang") or document.get(space) or document.get("lang") or language
    _put(facts, "language", [declared or ""])
    return facts


def _put(facts: dict[str, Any], key: str, values: list[str], *, is_list: bool = False) -> None:
    values = [value for value in values if value]
    if values:
        facts[key] = values if is_list else values[0]


def _find(element: _Element, *names: str) -> _Element | None:
    for name in names:
        element = next((child for child in element if local(child) == name), None)
        if element is None:
            return None
    return element


def _all(element: _Element, name: str) -> list[_Element]:
    return [one for one in element.iter() if local(one) == name]


def _text(element: _Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _name(element: _Element) -> str:
    """Return a person's name: surname and forename in reading order, else the element's text."""
    parts = [_text(one) for kind in ("forename", "nameLink", "surname") for one in _all(element, kind)]
    return " ".join(parts) if parts else _text(element)
