"""Books: EPUB, TEI, HTML and plain text, by ending and content; whole, or one document a chapter."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from curate.read.epub import EpubError, read_epub
from curate.read.flow import Chapter, Flow
from curate.read.licenses import license_of_notice
from curate.read.markup import Event, MarkupError, decode_markup, page_events, parse_xml, root_name
from curate.read.rows import Rows
from curate.read.tei import ROOTS, read_tei
from curate.read.whole import Whole, bad_row, binary_row, is_binary, read_whole
from curate.read.xhtml import add_page
from curate.stage import Source
from curate.text.decoding import SURROGATE, decode
from curate.text.gutenberg import find_book

if TYPE_CHECKING:
    import pyarrow as pa

ZIP = (b"PK\x03\x04", b"PK\x05\x06")
MAX_BOOK_BYTES = 32 << 20  # an XML tree takes up to twenty times its file; the longest novels have four megabytes
MAX_CHAPTERS = 20_000
MAX_FACT_CHARACTERS = 1000  # of one of a book's statements about itself: some put a licence's whole text there

_HEADING_LINE = re.compile(
    r"""(?ix) [ \t]{0,40} [\[_*=]{0,3} [ \t]{0,4}
    (?: (?: the [ ] )? (?: first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last ) [ ] (?: chapter|book|part|canto ) \b
      | (?: chapter|book|part|volume|letter|canto|act|scene|stave|section
          |chapitre|livre|partie|lettre|kapitel|buch|teil|brief|akt
          |cap[ií]tulo|cap[ií]tol|libro|parte|carta|escena|acto
          |livro|cena|hoofdstuk|boek|deel|kapittel|luku|rozdział|глава|часть|книга ) [ ]
        (?: [ivxlcdm]{1,9} | \d{1,4}
          | (?:the[ ])? (?: first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|last )
          | one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen
          | (?: twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety ) (?: -[a-z]{3,5} )?
          | premi[eè]re?|deuxi[eè]me|troisi[eè]me|erste[rs]?|zweite[rs]?|dritte[rs]?|primeir[oa]|segund[oa]|terceir[oa]
          |primer[oa]?|tercer[oa]?
          | prim[oa]|second[oa]|terz[oa]|eerste|tweede|derde ) \b
      | (?: preface|prologue|epilogue|introduction|conclusion|afterword|foreword|appendix|postscript
          |préface|prólogo|epílogo|prefácio|vorwort
          |nachwort|voorrede ) \b (?=[^\w]{0,3}$)
      | [ivxlc]{1,7} [.:]? [ \t]{0,9} $
    ) [^\n]{0,80} $"""
)
# What a header or catalogue calls a language, where that is no code.
LANGUAGE_CODES = {
    "english": "en", "french": "fr", "german": "de", "spanish": "es", "portuguese": "pt", "italian": "it", "dutch": "nl",
    "latin": "la", "finnish": "fi", "swedish": "sv", "danish": "da", "norwegian": "no", "polish": "pl", "czech": "cs",
    "hungarian": "hu", "greek": "el", "russian": "ru", "chinese": "zh", "japanese": "ja", "esperanto": "eo",
    "catalan": "ca", "tagalog": "tl", "welsh": "cy", "irish": "ga", "icelandic": "is", "hebrew": "he", "arabic": "ar",
    "romanian": "ro", "bulgarian": "bg", "serbian": "sr", "galician": "gl", "korean": "ko", "turkish": "tr",
}  # fmt: skip
_CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")


@dataclass(slots=True)
class _Book:
    form: str
    facts: dict[str, Any] = field(default_factory=dict)
    parts: list[Chapter | str] = field(default_factory=list)  # a chapter, or why one cannot be read


class Books(Source):
    """Books, one file each: EPUB 2 and 3, TEI, HTML, plain text. Compressed ones (gzip, zstd, lz4) are unpacked.

    Attributes:
        chapters: One document a chapter, told apart by the sub-index of the id, in reading order: pages of an EPUB's
            spine, divisions of TEI, the highest headings of HTML that occur twice, heading lines (`CHAPTER IV`) of plain text.
            off: a book is one document, since what a model learns from books is their long coherence.
        gutenberg: Cut Project Gutenberg's header, footer, licence, credits and transcribers' notes
            (`curate.text.gutenberg`); what the header says goes to the metadata.
        max_bytes: Most bytes of a book after unpacking; a larger one is removed as `read.too_large`.

    The metadata holds format, title, creator, date, publisher, rights, license (if the rights name one) as the book
    states them, `gutenberg`, and of a chapter `chapter`: number, of, title. Language and identifier are columns.
    Rules: read.too_large, read.undecodable, read.truncated, read.bad_record (damaged zip or XML; a page of an EPUB
    that cannot be read costs itself, not the book), read.encrypted.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("charset-normalizer", "lxml", "lz4", "resiliparse", "zstandard")

    chapters: bool = False
    gutenberg: bool = True
    max_bytes: int = Field(default=MAX_BOOK_BYTES, ge=1)

    def read(self, file: IO[bytes], name: str) -> Iterator[pa.RecordBatch]:
        """Yield the documents of a book in RAW batches, in reading order."""
        rows = Rows()
        for part, values in enumerate(self._rows(file, name)):
            rows.add(0, part=part, **values)
            if rows.full:
                yield rows.flush()
        if len(rows):
            yield rows.flush()

    def _rows(self, file: IO[bytes], name: str) -> Iterator[dict[str, Any]]:
        try:
            found = self._books(file, name)
            if isinstance(found, dict):
                yield found
                return
            for book in found:
                yield from self._documents(book, name)
        except EpubError as error:
            yield bad_row(error.rule, name, error.message)
        except MarkupError as error:
            yield bad_row("read.bad_record", name, str(error))

    def _books(self, file: IO[bytes], name: str) -> Iterator[_Book] | dict[str, Any]:
        """Return the books of a file, or the row that says why there are none."""
        if file.seekable():
            head = file.read(4)
            file.seek(0)
            if head.startswith(ZIP):
                return self._zipped(file)
        whole = read_whole(file, name, self.max_bytes)
        if not isinstance(whole, Whole):
            return whole
        path = (name.rpartition(".")[0] if whole.is_packed else name).lower()
        if whole.content.startswith(ZIP):
            return self._zipped(io.BytesIO(whole.content))
        if path.endswith(".epub"):
            return bad_row("read.bad_record", name, "an EPUB is a zip file, and this is none. Fetch it again")
        if is_binary(whole.content):
            return binary_row(whole.content, name)
        return self._texts(whole.content, path)

    def _zipped(self, file: IO[bytes]) -> Iterator[_Book]:
        found = read_epub(file, self.max_bytes, without_notes=self.gutenberg)
        yield _Book("epub", found.facts, found.pages)

    def _texts(self, content: bytes, path: str) -> Iterator[_Book]:
        is_markup = b"<" in content[:4096]
        text = decode_markup(content) if is_markup else decode(content).text
        root = root_name(text) if is_markup else ""
        if root in ROOTS:
            for one in read_tei(parse_xml(text), by_chapter=self.chapters):
                yield _Book("tei", one.facts, list(one.chapters))
        elif root.lower() == "html" or path.endswith((".html", ".htm", ".xhtml")):
            yield _html(text, by_chapter=self.chapters, without_notes=self.gutenberg)
        elif path.endswith((".xml", ".tei")) and (root or text.lstrip().startswith("<")):
            what = f"its root element <{root}> is neither TEI nor XHTML" if root else "it has no root element"
            raise MarkupError(f"{what}. Take the file out of the paths")
        else:
            yield _Book("text", {}, [Chapter("", text)])

    def _documents(self, book: _Book, name: str) -> Iterator[dict[str, Any]]:
        parts, gutenberg = _without_gutenberg(book.parts) if self.gutenberg else (book.parts, {})
        if book.form == "text" and self.chapters:
            parts = [piece for part in parts if isinstance(part, Chapter) for piece in by_heading_lines(part.text)]
        facts, columns = _metadata(book, gutenberg)
        good = [part for part in parts if isinstance(part, Chapter)]
        if len(good) > MAX_CHAPTERS:
            yield bad_row("read.too_large", name, f"{len(good)} chapters; {MAX_CHAPTERS} are the most that are read")
            return
        if not self.chapters or not parts:
            text = SURROGATE.sub("\ufffd", "\n\n".join(part.text for part in good))
            if good or not parts:
                yield {**columns, "text": text, "metadata": _json(facts)}
        number = 0
        for part in parts:
            if isinstance(part, str):
                yield bad_row("read.bad_record", name, f"a chapter cannot be read: {part}")
            elif self.chapters:
                number += 1
                chapter = {"number": number, "of": len(good)} | ({"title": part.title} if part.title else {})
                text = SURROGATE.sub("\ufffd", part.text)
                yield {**columns, "text": text, "metadata": _json({**facts, "chapter": chapter})}


def _html(text: str, *, by_chapter: bool, without_notes: bool) -> _Book:
    """Return an HTML book: its text, and what its head says of it."""
    facts: dict[str, Any] = {}
    title: list[str] = []
    is_title = False

    def observed(events: Iterable[Event]) -> Iterator[Event]:
        nonlocal is_title
        for event in events:
            if event.name == "title" and event.kind != "text":
                is_title = event.kind == "start" and not title
            elif event.kind == "text" and is_title:
                title.append(event.name)
            elif event.kind == "start" and event.name == "html":
                language = event.attributes.get("xml:lang") or event.attributes.get("lang")
                facts.update({"language": language} if language else {})
            elif event.kind == "start" and event.name == "meta":
                name = event.attributes.get("name", "").lower().removeprefix("dc.").removeprefix("dcterms.")
                value = " ".join(event.attributes.get("content", "").split())
                if name in ("author", "creator") and value:
                    facts.setdefault("creator", []).append(value)
                elif name in ("title", "publisher", "date", "rights", "language", "identifier") and value:
                    facts.setdefault(name, value)
            yield event

    flow = Flow()
    is_xhtml = "<?xml" in text[:100] or "xmlns" in text[:4096]
    add_page(flow, observed(page_events(text, is_xhtml=is_xhtml)), without_notes=without_notes)
    if title:
        facts.setdefault("title", " ".join("".join(title).split()))
    levels = sorted(mark.level for mark in flow.marks)
    level = next((one for one in levels if levels.count(one) > 1), None) if by_chapter else None
    return _Book("html", facts, list(flow.chapters(level)))


def by_heading_lines(text: str) -> list[Chapter]:
    """Return a plain text cut at lines that are headings: a chapter's word and number, alone between empty lines.

    Headings with no text between them (a table of contents, a part and its first chapter) begin one chapter together.
    """
    lines = text.splitlines(keepends=True)
    empty = [not line.strip() for line in lines]
    cuts: list[tuple[int, str]] = [(0, "")]
    num_prose = 0  # lines since the last cut that are neither empty nor headings
    for number, line in enumerate(lines):
        if empty[number]:
            continue
        stands_alone = (number == 0 or empty[number - 1]) and (number + 1 == len(lines) or empty[number + 1])
        if not stands_alone or _HEADING_LINE.match(line.rstrip("\r\n")) is None:
            num_prose += 1
            continue
        title = " ".join(line.split())
        if num_prose:
            cuts.append((number, title))
        else:
            cuts[-1] = (cuts[-1][0], title)
        num_prose = 0
    ends = [*(place for place, _ in cuts[1:]), len(lines)]
    found = []
    for (start, title), end in zip(cuts, ends, strict=True):
        piece = "".join(lines[start:end]).strip("\r\n")
        if piece.strip():
            found.append(Chapter(title, piece))
    return found


def _without_gutenberg(parts: Sequence[Chapter | str]) -> tuple[list[Chapter | str], dict[str, Any]]:
    """Return the parts of a book without what Project Gutenberg added, which may fill parts of its own."""
    joint = "\n\n"
    texts = [part.text if isinstance(part, Chapter) else "" for part in parts]
    book = find_book(joint.join(texts))
    left: list[Chapter | str] = []
    place = 0
    for part, text in zip(parts, texts, strict=True):
        start, end = max(book.start - place, 0), max(min(book.end - place, len(text)), 0)
        place += len(text) + len(joint)
        if isinstance(part, str) or (start, end) == (0, len(text)):
            left.append(part)
        elif text[start:end].strip():
            left.append(Chapter(part.title if start == 0 else "", text[start:end].strip("\r\n")))
    return left, book.facts


def _metadata(book: _Book, gutenberg: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what goes to the metadata, and the columns source_id, language and media_type."""
    stated = dict(book.facts)
    identifier = stated.pop("identifier", None) or (str(gutenberg["ebook"]) if "ebook" in gutenberg else None)
    language = str(stated.pop("language", None) or gutenberg.get("language") or "")
    code = LANGUAGE_CODES.get(language.lower(), language.replace("_", "-") if _CODE.fullmatch(language) else None)
    facts: dict[str, Any] = {"format": book.form}
    if "title" in gutenberg:
        facts["title"] = gutenberg["title"]
    if "author" in gutenberg:
        facts["creator"] = [gutenberg["author"]]
    facts |= {name: value[:MAX_FACT_CHARACTERS] if isinstance(value, str) else value for name, value in stated.items()}
    if "title" in gutenberg and "gutenberg" in str(stated.get("title", "")).lower():
        facts["title"] = gutenberg["title"]
    if named := license_of_notice(f"{stated.get('license_url', '')} {stated.get('rights', '')}"):
        facts["license"] = named
    if gutenberg:
        facts["gutenberg"] = gutenberg
    media_type = {"epub": "application/epub+zip", "tei": "application/tei+xml", "html": "text/html"}
    columns = {"source_id": identifier, "language": code, "media_type": media_type.get(book.form, "text/plain")}
    return facts, columns


def _json(facts: dict[str, Any]) -> str:
    return SURROGATE.sub("\ufffd", json.dumps(facts, ensure_ascii=False, separators=(",", ":")))
