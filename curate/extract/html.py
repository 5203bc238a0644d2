"""HTML to main text, by trafilatura or resiliparse, with their known losses made good before and after them.

Both get a page that is already decoded, within the limits on work, without what a reader never sees, and with the
characters and structures that they would lose put into a form that they keep.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from curate.extract.binary import why_no_text
from curate.extract.encoding import decode_html
from curate.stage import Extractor
from curate.text.languages import is_language_code

if TYPE_CHECKING:
    import pyarrow as pa
    from lxml.html import HtmlElement

MAX_BYTES = 16 << 20
MAX_ELEMENTS = 100_000
MAX_TABLES = 16  # nested tables; trafilatura goes through all cells once for each table around them
MAX_ROW = 1000  # cells in a row; trafilatura takes time quadratic in them
MAX_DEPTH = 100  # counted without tags that close one another (p, li, td): with them far less than libxml2's 2,048

HTML_TYPES = ("text/html", "application/xhtml+xml", "application/xml", "text/xml")
XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?=$|[-_])")
WHITE_SPACE = re.compile(r"\s+")
TITLE = re.compile(r"<title\b[^>]*>(.{0,2000}?)</title", re.IGNORECASE | re.DOTALL)
ENTITY_LIKE = re.compile(r"&(?=#?\w{1,32};)")
UNUSABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # no XML tree holds them
# Invisible characters with a meaning that trafilatura drops as unprintable: joiners, direction marks and isolates,
# soft hyphen, variation tags.
INVISIBLE = "\u200c\u200d\u200e\u200f\u061c\u00ad\u2060\u2066\u2067\u2068\u2069\u202a\u202b\u202c\u202d\u202e"
# Stand-ins: Linear A, letters that no page uses, so that no extractor touches them or splits a word at them.
STAND_INS = [chr(0x10600 + place) for place in range(len(INVISIBLE) + 1)]
PROTECT = dict(zip(map(ord, INVISIBLE), STAND_INS[1:], strict=True))
RESTORE = {ord(stand_in): character for character, stand_in in zip("&" + INVISIBLE, STAND_INS, strict=True)}
NEEDS_PROTECTION = re.compile(f"[{INVISIBLE}]|&#?\\w{{1,32}};|" + UNUSABLE.pattern)
# Tags that nest: not void, not closed by the next of their kind, not of a head, not written as one tag.
NESTING_TAG = re.compile(
    r"<(/?)(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr|p|li|dt|dd|tr|td|th|thead|tbody|"
    r"tfoot|option|optgroup|rp|rt|a|script|style|html|head|body|title)\b)([a-zA-Z][^\s/<>]*)",
    re.IGNORECASE,
)
WHOLE_TAG = re.compile(NESTING_TAG.pattern + r"[^<>]*(?<!/)>")
FLOW = {"p", "ul", "ol", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "table", "figure", "hr"}


class HtmlExtractor(Extractor):
    """What every extractor shares: decoding, limits on work, plain text, language and title.

    Attributes:
        max_bytes: Largest page in bytes. A larger one raises, and is removed as an error.
        max_elements: Most tags in a page. A page with more raises.
    """

    version: ClassVar[int] = 2

    max_bytes: int = Field(default=MAX_BYTES, ge=1)
    max_elements: int = Field(default=MAX_ELEMENTS, ge=1)

    def extract(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return columns `text`, `language` and `metadata`, same rows.

        `language` is the page's lang attribute (its primary subtag), else what the input declared. The metadata gain
        `title`; `decoded` if the page was not UTF-8; `flattened`, the number of tags nested too deeply, taken out; `no_text`,
        what a payload is that is no text (an image, an archive): it has none.

        Raises:
            ValueError: For a page above a limit, or on which the extractor fails.
        """
        import pyarrow as pa

        names = ("content", "text", "media_type", "charset", "language", "metadata", "url")
        columns = [batch.column(name).to_pylist() for name in names]
        rows = [self._row(*values) for values in zip(*columns, strict=True)]
        arrays = [pa.array(column, pa.large_string()) for column in zip(*rows, strict=True)] if rows else []
        fields = ["text", "language", "metadata"]
        return pa.RecordBatch.from_arrays(arrays or [pa.array([], pa.large_string())] * len(fields), names=fields)

    def _row(
        self,
        content: bytes | None,
        text: str | None,
        media_type: str | None,
        charset: str | None,
        language: str | None,
        metadata: str | None,
        url: str | None,
    ) -> tuple[str | None, str | None, str | None]:
        if content is None:
            return text, language, metadata
        if len(content) > self.max_bytes:
            raise ValueError(
                f"a page of {len(content)} bytes exceeds max_bytes={self.max_bytes}. Raise it, or let it go"
            )
        found: dict[str, Any] = {}
        decoded = decode_html(content, charset)
        if not decoded.exact:
            found["decoded"] = decoded.note
        extracted: str | None = None
        if why := why_no_text(content, decoded):
            found["no_text"] = why
        elif media_type is not None and media_type.startswith("text/") and media_type not in HTML_TYPES:
            extracted = decoded.text
        else:
            num_tags = decoded.text.count("<")
            if num_tags > self.max_elements:
                raise ValueError(
                    f"a page of {num_tags} tags exceeds max_elements={self.max_elements}. Raise it, or let it go"
                )
            language = page_language(decoded.text) or language
            title = page_title(decoded.text)
            try:
                extracted, facts = self.main_text(decoded.text, url or "")
            except Exception as error:
                raise ValueError(
                    f"{type(self).__name__} failed on the page: {type(error).__name__}: {error}"
                ) from error
            found |= facts | ({"title": title} if title else {})
        if found:
            known = json.loads(metadata) if metadata else {}
            metadata = json.dumps(known | found, ensure_ascii=False, separators=(",", ":"))
        return extracted or None, language, metadata

    @abstractmethod
    def main_text(self, html: str, url: str) -> tuple[str | None, dict[str, Any]]:
        """Return the main text of a decoded page, None if there is none, and facts for its metadata.

        Args:
            html: The page's source.
            url: Its address, or "".
        """


class Trafilatura(HtmlExtractor):
    """Main text by trafilatura (Barbaresi 2021, ACL demo, doi:10.18653/v1/2021.acl-demo.15).

    Attributes:
        mode: default, or more of one and less of the other: precision, recall.
        fast: Leave out the comparison with readability and jusText.
        comments: Whether readers' comments belong to the text.
        tables: Whether tables belong to the text.
        max_compared: Most elements of a page for which the comparison is made: jusText takes time quadratic in short
            paragraphs, minutes for a long index. A page with more is extracted as if `fast`, and its metadata say
            `fast`.
    """

    version: ClassVar[int] = 3
    libraries: ClassVar[tuple[str, ...]] = (
        "charset-normalizer",
        "jusText",
        "lxml",
        "lxml_html_clean",
        "resiliparse",
        "trafilatura",
    )

    mode: Literal["default", "precision", "recall"] = "default"
    fast: bool = False
    comments: bool = True
    tables: bool = True
    max_compared: int = Field(default=5000, ge=0)

    def main_text(self, html: str, url: str) -> tuple[str | None, dict[str, Any]]:
        """Return the main text of a decoded page, and what had to be done to get it."""
        import trafilatura

        del url
        page = Page(html)
        tree = page.tree()
        if tree is None:
            return None, page.metadata
        fast = self.fast or sum(1 for _ in tree.iter()) > self.max_compared
        if fast and not self.fast:
            page.metadata["fast"] = True
        text = trafilatura.extract(
            tree,
            fast=fast,
            favor_precision=self.mode == "precision",
            favor_recall=self.mode == "recall",
            include_comments=self.comments,
            include_tables=self.tables,
            deduplicate=False,  # its cache of repeats would make a page's text depend on the pages before it
            with_metadata=False,
            output_format="txt",
        )
        return None if text is None else text.translate(RESTORE), page.metadata


class Resiliparse(HtmlExtractor):
    """Main text by Resiliparse's rules (Bevendorff et al. 2018, ECIR, doi:10.1007/978-3-319-76941-7_83), 18 times as fast.

    Attributes:
        main_content: Leave out navigation and other boilerplate; off gives all visible text.
        preserve_formatting: Keep line breaks, list bullets and indentation; off gives one line.
    """

    version: ClassVar[int] = 3
    libraries: ClassVar[tuple[str, ...]] = ("charset-normalizer", "resiliparse")

    main_content: bool = True
    preserve_formatting: bool = True

    def main_text(self, html: str, url: str) -> tuple[str | None, dict[str, Any]]:
        """Return the main text of a decoded page, and what had to be done to get it."""
        from resiliparse.extract.html2text import extract_plain_text

        del url
        page = Page(html)
        text: str = extract_plain_text(
            page.html,
            main_content=self.main_content,
            preserve_formatting=self.preserve_formatting,
            alt_texts=False,
            noscript=True,
        )
        return text.strip() or None, page.metadata


def page_language(html: str) -> str | None:
    """Return the primary subtag of a page's lang attribute in lower case, or None if that is no code of a language."""
    tag = re.search(r"<html\b[^>]*>", html[:20_000], re.IGNORECASE)
    match = re.search(r"\b(?:xml:)?lang\s*=\s*[\"']?\s*([\w-]+)", tag[0], re.IGNORECASE) if tag else None
    primary = LANGUAGE.match(match[1]) if match else None
    code = primary[0].lower() if primary else ""
    return code if is_language_code(code) else None


def page_title(html: str) -> str:
    """Return the text of a page's first title element, white space folded, or ""."""
    import html as entities

    title = TITLE.search(html)
    if title is None:
        return ""
    return WHITE_SPACE.sub(" ", UNUSABLE.sub(" ", entities.unescape(title[1]))).strip()


class Page:
    """A decoded page, for extractors that build a tree of it.

    Attributes:
        html: Its source, without what no parser should see (NUL and other controls, an XML declaration).
        metadata: `flattened` if tags nested too deeply were taken out.
    """

    def __init__(self, html: str) -> None:
        self.html, num_flattened = flatten(XML_DECLARATION.sub("", UNUSABLE.sub(" ", html), count=1))
        self.metadata: dict[str, Any] = {"flattened": num_flattened} if num_flattened else {}

    def tree(self) -> HtmlElement | None:
        """Return the page as an lxml tree ready for trafilatura, or None if it holds no element."""
        from lxml import etree
        from lxml.html import HTMLParser

        parser = HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
        try:
            tree = etree.fromstring(self.html.encode("utf-8"), parser)
        except etree.ParserError:
            return None
        if tree is None:
            return None
        _drop_hidden(tree)
        _keep_lines_of_pre(tree)
        _flatten_cells(tree)
        _wrap_plain_body(tree)
        _map_text(tree, _protect)
        return tree


def flatten(html: str, max_depth: int = MAX_DEPTH) -> tuple[str, int]:
    """Take out tags nested deeper than `max_depth`; their text stays.

    libxml2 drops what is below its limit, and both parsers take time quadratic in the depth.

    Returns:
        The page, and the number of start tags taken out.
    """
    if html.count("<") <= max_depth or sum(not slash for slash, _ in NESTING_TAG.findall(html)) <= max_depth:
        return html, 0
    parts: list[str] = []
    stack: list[str] = []  # of names; a closing tag closes what was left open inside, as font in old pages
    num_open: Counter[str] = Counter()
    begin = num_flattened = 0
    for match in WHOLE_TAG.finditer(html):
        name = match[2].lower()
        closes = match[1] == "/"
        if not closes:
            stack.append(name)
            num_open[name] += 1
        elif not num_open[name]:
            continue
        if len(stack) > max_depth:
            parts += (html[begin : match.start()], " ")
            begin = match.end()
            num_flattened += not closes
        while closes and stack:
            closed = stack.pop()
            num_open[closed] -= 1
            closes = closed != name
    parts.append(html[begin:])
    return ("".join(parts), num_flattened) if num_flattened else (html, 0)


def _drop_hidden(tree: HtmlElement) -> None:
    """Remove templates and what has the hidden attribute; trafilatura itself knows `display: none`."""
    for element in list(tree.iter("template")):
        _drop(element)
    for element in tree.xpath("//body//*[@hidden and @hidden != 'until-found']"):
        _drop(element)


def _drop(element: HtmlElement) -> None:
    """Remove an element; the text behind it stays."""
    parent = element.getparent()
    if parent is None:
        return
    if element.tail:
        _append_text(element, element.tail)
    parent.remove(element)


def _append_text(element: HtmlElement, text: str) -> None:
    """Add text in front of `element`."""
    previous, parent = element.getprevious(), element.getparent()
    if previous is not None:
        previous.tail = (previous.tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def _keep_lines_of_pre(tree: HtmlElement) -> None:
    """Make `br` inside `pre` a line feed: as an element it costs the next line its indentation."""
    for element in tree.xpath("//pre//br"):
        element.tail = "\n" + (element.tail or "")
        _drop(element)


def _flatten_cells(tree: HtmlElement) -> None:
    """Unpack lists in cells, which come out empty, and tables too deep in tables; drop spans, which give empty cells."""
    for cell in tree.iter("td", "th"):
        for name in ("colspan", "rowspan"):
            cell.attrib.pop(name, None)
    for table in tree.xpath(f"//table[count(ancestor::table) >= {MAX_TABLES} or .//tr[count(*) > {MAX_ROW}]]"):
        for part in list(table.iter("table", "tbody", "thead", "tfoot", "tr", "td", "th")):
            part.tag = "div"
    for item in tree.xpath("//td//li | //th//li"):
        item.tag = "span"
        item.tail = " " + (item.tail or "")
    for block in tree.xpath("//td//ul | //td//ol | //th//ul | //th//ol"):
        block.drop_tag()


def _wrap_plain_body(tree: HtmlElement) -> None:
    """Wrap the content of a page without any container in an article: else lists between its paragraphs are lost."""
    from lxml import etree

    body = tree.find("body")
    if (
        body is None
        or body.find("p") is None
        or tree.xpath("boolean(//article | //main | //body/div | //body/section)")
    ):
        return
    children = list(body)
    if not any(child.tag in ("ul", "ol", "dl") for child in children):
        return
    flow = [place for place, child in enumerate(children) if child.tag in FLOW]
    article = etree.SubElement(body, "article")
    article.text, body.text = body.text, None
    for child in children[flow[0] : flow[-1] + 1]:
        article.append(child)
    body.insert(flow[0], article)


def _protect(text: str) -> str:
    """Put stand-ins for invisible characters, and for the `&` of what looks like an entity and is text."""
    if NEEDS_PROTECTION.search(text) is None:
        return text
    text = UNUSABLE.sub(" ", text)  # from character references
    return ENTITY_LIKE.sub(STAND_INS[0], text).translate(PROTECT)


def _map_text(tree: HtmlElement, function: Callable[[str], str]) -> None:
    for element in tree.iter():
        text, tail = element.text, element.tail
        if text and (changed := function(text)) is not text:
            element.text = changed
        if tail and (changed := function(tail)) is not tail:
            element.tail = changed
