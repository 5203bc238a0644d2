"""EPUB 2 and 3 (EPUB 3.3, W3C): the pages of the spine in reading order, within fixed limits.

Navigation documents, and pages of EPUB 2 that are called a table of contents and are mostly links, are no pages of the
book. A page that is missing or damaged costs itself. Books under digital rights management are told by
`META-INF/encryption.xml`: whatever it names beside obfuscated fonts is ciphertext. Sizes stated in a zip file are not
believed: what comes out is counted.
"""

from __future__ import annotations

import posixpath
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from curate.read.flow import Chapter, Flow
from curate.read.markup import MarkupError, decode_markup, page_events, parse_xml
from curate.read.xhtml import add_page, link_share

if TYPE_CHECKING:
    from lxml.etree import _Element

MAX_MEMBERS = 20_000
MAX_LIST_BYTES = 8 << 20
MAX_PAGES = 10_000
MOST_LINKS = 0.5  # share of characters in links: some books put their preface on the page of contents
_CHUNK = 64 << 10

_PAGES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document", "application/x-dtbook+xml")
_OBFUSCATED_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_FONT = re.compile(r"(?i)\.(?:otf|ttf|ttc|woff2?)$")
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, ValueError, NotImplementedError, OSError, KeyError)
_END_OF_ZIP = b"PK\x05\x06"


class EpubError(Exception):
    """A book that cannot be read.

    Attributes:
        rule: `read.encrypted`, `read.truncated`, `read.too_large` or `read.bad_record`.
    """

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(rule, message)
        self.rule = rule
        self.message = message


@dataclass(slots=True)
class EpubText:
    """The facts of a book's package document, its pages in order, and what is wrong with pages that are not among them."""

    facts: dict[str, Any] = field(default_factory=dict)
    pages: list[Chapter | str] = field(default_factory=list)  # a page's text, or why it cannot be read


@dataclass(frozen=True, slots=True)
class _Item:
    name: str  # of the member
    media_type: str
    properties: tuple[str, ...]
    fallback: str


def read_epub(file: IO[bytes], max_bytes: int, *, without_notes: bool = False) -> EpubText:
    """Return the text of an EPUB.

    Args:
        file: Seekable.
        max_bytes: Most bytes that the members read may unpack to, together.
        without_notes: As in `curate.read.xhtml.add_page`.

    Raises:
        EpubError: If there is no book to be read.
    """
    container = _Container(file, max_bytes)
    container.refuse_encrypted()
    package_name = container.package_name()
    try:
        package = parse_xml(decode_markup(container.read(package_name)))
    except MarkupError as error:
        raise EpubError("read.bad_record", f"its package document {package_name}: {error}") from error
    items = _manifest(package, posixpath.dirname(package_name))
    contents = _contents_pages(package, posixpath.dirname(package_name))
    spine = [element for element in package.iter() if _local(element) == "itemref"]
    if len(spine) > MAX_PAGES:
        raise EpubError("read.too_large", f"its spine has {len(spine)} entries; {MAX_PAGES} are the most that are read")
    book = EpubText(_facts(package))
    seen: set[str] = set()
    for reference in spine:
        item = _page_item(items, reference.get("idref", ""))
        if isinstance(item, str):
            book.pages.append(item)
            continue
        if item is None or "nav" in item.properties or item.name in seen:
            continue
        seen.add(item.name)
        page = _page(container, item, may_be_contents=item.name in contents, without_notes=without_notes)
        if isinstance(page, str) or page.text.strip():
            book.pages.append(page)
    if not book.pages:
        raise EpubError("read.bad_record", "its spine names no page with text")
    return book


def _open_zip(file: IO[bytes]) -> zipfile.ZipFile:
    size = file.seek(0, 2)
    file.seek(max(0, size - (1 << 16) - 22))
    tail = file.read()
    end = tail.rfind(_END_OF_ZIP)
    if end < 0:
        what = "its list of members is missing: the file is truncated. Fetch or write the file again"
        raise EpubError("read.truncated", what)
    listed = int.from_bytes(tail[end + 12 : end + 16], "little")
    if listed > MAX_LIST_BYTES:  # zipfile reads all of it, whatever it holds
        raise EpubError("read.too_large", f"its list of members takes {listed} bytes, more than a book's ever does")
    try:
        return zipfile.ZipFile(file)
    except _DAMAGE as error:
        problem = f"the zip file is damaged: {str(error).rstrip('.')}. Fetch or write the file again"
        raise EpubError("read.bad_record", problem) from error


class _Container:
    """The zip file, read within its limits."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes
        self._zip = _open_zip(file)
        members = self._zip.infolist()
        if len(members) > MAX_MEMBERS:
            raise EpubError(
                "read.too_large", f"it has {len(members)} members; {MAX_MEMBERS} are the most that are read"
            )
        self._members = {member.filename: member for member in members}
        self._folded = {name.lower(): member for name, member in self._members.items()}

    def find(self, name: str) -> zipfile.ZipInfo | None:
        """Return a member by its name; case is not looked at if the name is not there as written."""
        return self._members.get(name) or self._folded.get(name.lower())

    def read(self, name: str) -> bytes:
        """Return the bytes of a member.

        Raises:
            EpubError: `read.bad_record` if it is missing or damaged, `read.too_large` if the limit is passed,
                `read.encrypted` if the zip file says so.
        """
        member = self.find(name)
        if member is None:
            raise EpubError("read.bad_record", f"{name} is not in the file")
        if member.flag_bits & 1:
            raise EpubError("read.encrypted", f"{name} is encrypted by a password of the zip file. Leave the book out")
        parts = []
        try:
            with self._zip.open(member) as stream:
                while part := stream.read(_CHUNK):
                    parts.append(part)
                    self._left -= len(part)
                    if self._left < 0:
                        limit = f"it unpacks to more than the limit of {self._max_bytes} bytes (max_bytes)"
                        raise EpubError("read.too_large", f"{limit}. Raise max_bytes to read it")
        except EpubError:
            raise
        except _DAMAGE as error:
            raise EpubError("read.bad_record", f"{name} is damaged: {error}") from error
        except RuntimeError as error:  # zipfile's word for encryption it does not know
            raise EpubError("read.encrypted", f"{name}: {error}") from error
        return b"".join(parts)

    def package_name(self) -> str:
        """Return the name of the package document: the container's first, else the first that ends in .opf."""
        if self.find("META-INF/container.xml") is not None:
            try:
                root = parse_xml(decode_markup(self.read("META-INF/container.xml")))
            except MarkupError:
                root = None
            for element in root.iter() if root is not None else ():
                name = unquote(element.get("full-path", "")).lstrip("/")
                if _local(element) == "rootfile" and self.find(name) is not None:
                    return name
        found = sorted(name for name in self._members if name.lower().endswith(".opf"))
        if not found:
            raise EpubError("read.bad_record", "this zip archive holds no EPUB: it has no package document (.opf)")
        return found[0]

    def refuse_encrypted(self) -> None:
        """Raise EpubError if anything beside fonts is encrypted."""
        if self.find("META-INF/encryption.xml") is None:
            return
        try:
            root = parse_xml(decode_markup(self.read("META-INF/encryption.xml")))
        except MarkupError as error:
            raise EpubError("read.bad_record", f"META-INF/encryption.xml: {error}") from error
        for data in root.iter():
            if _local(data) != "EncryptedData":
                continue
            method = next((one.get("Algorithm", "") for one in data.iter() if _local(one) == "EncryptionMethod"), "")
            names = [one.get("URI", "") for one in data.iter() if _local(one) == "CipherReference"]
            secret = [name for name in names if not _FONT.search(unquote(name))]
            if secret and method not in _OBFUSCATED_FONTS:
                raise EpubError(
                    "read.encrypted",
                    f"{secret[0]} and more is encrypted ({method or 'no algorithm stated'}): digital rights management. "
                    "Leave the book out, or get a copy without it",
                )


def _page(container: _Container, item: _Item, *, may_be_contents: bool, without_notes: bool) -> Chapter | str:
    """Return a page, empty if it is a table of contents, or why it cannot be read."""
    try:
        data = container.read(item.name)
    except EpubError as error:
        if error.rule != "read.bad_record":
            raise
        return error.message
    flow = Flow()
    text = decode_markup(data)
    if may_be_contents and link_share(page_events(text, is_xhtml=True)) > MOST_LINKS:
        return Chapter("", "")
    add_page(flow, page_events(text, is_xhtml=True), without_notes=without_notes)
    chapters = flow.chapters(None)
    title = next((mark.title for mark in flow.marks if mark.title), "")
    return Chapter(title, chapters[0].text) if chapters else Chapter("", "")


def _local(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _resolve(folder: str, reference: str) -> str:
    """Return the member that a reference in a document of `folder` means."""
    try:
        path = urlsplit(reference).path
    except ValueError:
        path = reference.partition("#")[0]
    return posixpath.normpath(posixpath.join(folder, unquote(path))).lstrip("/")


def _manifest(package: _Element, folder: str) -> dict[str, _Item]:
    items = {}
    for element in package.iter():
        if _local(element) == "item" and element.get("id") and element.get("href"):
            items[element.get("id")] = _Item(
                _resolve(folder, element.get("href")),
                element.get("media-type", "").strip().lower(),
                tuple(element.get("properties", "").split()),
                element.get("fallback", ""),
            )
    return items


def _page_item(items: dict[str, _Item], name: str) -> _Item | str | None:
    """Return the page that a spine entry means, why there is none, or None for a picture and the like."""
    if name not in items:
        return f"its spine names {name!r}, which the manifest does not hold"
    tried: set[str] = set()
    while name in items and name not in tried:
        tried.add(name)
        item = items[name]
        if item.media_type in _PAGES or (
            not item.media_type and item.name.lower().endswith((".xhtml", ".html", ".htm"))
        ):
            return item
        name = item.fallback
    return None


def _contents_pages(package: _Element, folder: str) -> set[str]:
    """Return the pages that EPUB 2's guide calls a table of contents."""
    guide = [
        (element.get("type", "").lower(), _resolve(folder, element.get("href", "")))
        for element in package.iter()
        if _local(element) == "reference"
    ]
    return {name for kind, name in guide if kind == "toc"}


def _facts(package: _Element) -> dict[str, Any]:
    """Return title, creator, contributor, language, date, publisher, identifier and rights of the package document."""
    facts: dict[str, Any] = {}
    unique = package.get("unique-identifier")
    for element in package.iter():
        if "purl.org/dc/" not in str(element.tag):
            continue
        name, value = _local(element).lower(), " ".join("".join(element.itertext()).split())
        if not value or value.lower() in ("unknown", "none", "n/a"):
            continue
        if name in ("creator", "contributor", "subject"):
            facts.setdefault(name, []).append(value)
        elif name == "identifier":
            if element.get("id") == unique or name not in facts:
                facts[name] = value
        elif name in ("title", "language", "date", "publisher", "rights", "source"):
            facts.setdefault(name, value)
    return facts
