"""XML and HTML of books as events, safely: no entity is fetched or nested, no depth or damage is an exception.

A DOCTYPE is taken out before the parser sees it. Its internal entities that stand for a few characters are put in, and
so are HTML's names (`&eacute;`); any other reference is an undefined entity, which the parser refuses. So there is
nothing to fetch and nothing that could grow.
"""

from __future__ import annotations

import html.entities
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from curate.text.decoding import decode

if TYPE_CHECKING:
    from lxml.etree import _Element

MOST_ENTITY_CHARACTERS = 32

_DECLARED = re.compile(rb"""\A[^<]{0,8}<\?xml\b[^>]{0,200}?\bencoding\s*=\s*["']([A-Za-z0-9._\-]+)""")
_META = re.compile(rb"""(?i)<meta\b[^>]{0,300}?\bcharset\s*=\s*["']?\s*([A-Za-z0-9._\-]+)""")
_PROLOG = re.compile(r"\s*<\?xml\b[^>]*\?>")
_DOCTYPE = re.compile(r"<!DOCTYPE\b[^\[>]*(?:\[(?P<subset>.*?)\]\s*)?>", re.DOTALL | re.IGNORECASE)
_DOCTYPE_START = re.compile(r"<!DOCTYPE\b", re.IGNORECASE)
_FIRST_ELEMENT = re.compile(r"<[A-Za-z_]")
_ELEMENT = re.compile(r"<(?:[\w.\-]+:)?([\w.\-]+)[\s/>]")
_ENTITY = re.compile(r"""<!ENTITY\s+([\w.\-]+)\s+(?:"([^"]{0,64})"|'([^']{0,64})')\s*>""")
_REFERENCE = re.compile(r"&([A-Za-z][\w.\-]*);")
_BUILT_IN = {"amp", "lt", "gt", "quot", "apos"}
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_SELF_CLOSED = re.compile(r"<(a|b|div|em|i|iframe|li|p|script|span|style|td|textarea|th|title|ul|ol)\b([^<>]*)/>", re.I)


class MarkupError(ValueError):
    """Markup that cannot be read, with the reason."""


class Event(NamedTuple):
    """Start of an element, its end, or characters.

    Attributes:
        kind: "start", "end" or "text". Every start has its end.
        name: Local name of the element, in lower case; of characters the characters.
        attributes: Of a start, by name: a namespace's prefix is kept for the ones of XML and of EPUB only (`xml:id`,
            `epub:type`).
    """

    kind: str
    name: str
    attributes: Mapping[str, str] = {}


def decode_markup(data: bytes) -> str:
    """Return the characters of an XML or HTML file by its mark, its declaration, or detection."""
    declared = _DECLARED.match(data[:400]) or _META.search(data[:4096])
    return decode(data, (declared[1].decode("ascii"),) if declared else ()).text


def root_name(text: str) -> str:
    """Return the local name of a document's first element behind declarations and comments; empty if text comes first."""
    place = 0
    while True:
        place += len(text[place : place + 4096]) - len(text[place : place + 4096].lstrip("\ufeff \t\r\n"))
        if text.startswith("<?", place):
            end = text.find("?>", place) + 2
        elif text.startswith("<!--", place):
            end = text.find("-->", place) + 3
        elif match := _DOCTYPE.match(text, place):
            end = match.end()
        else:
            element = _ELEMENT.match(text, place)
            return element[1] if element else ""
        if end <= place:
            return ""
        place = end


def parse_xml(text: str) -> _Element:
    """Return the root of an XML document.

    Raises:
        MarkupError: If it is not well-formed, refers to an entity that is declared elsewhere or holds markup or other
            entities, or is nested deeper than libxml2 allows.
    """
    from lxml import etree

    text = _NOT_XML.sub("", text)
    text, declared = _without_doctype(text)

    def character(match: re.Match[str]) -> str:
        name = match[1]
        if name in _BUILT_IN:
            return match[0]
        return declared.get(name) or html.escape(html.entities.html5.get(name + ";", "")) or match[0]

    text = _REFERENCE.sub(character, text)
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True,
        encoding="utf-8",
    )  # fmt: skip
    try:
        return etree.fromstring(text.encode("utf-8"), parser)
    except etree.XMLSyntaxError as error:
        raise MarkupError(_described(str(error))) from error


def _described(problem: str) -> str:
    if match := re.search(r"Entity '([^']+)' not defined", problem):
        return (
            f"the entity &{match[1]}; is declared outside the file, or with markup or other entities in it, and is not "
            "expanded. Write its characters into the file"
        )
    return f"the XML is not well-formed: {problem}"


def _without_doctype(text: str) -> tuple[str, dict[str, str]]:
    """Return a document without its XML and DOCTYPE declarations, and the characters its entities stand for."""
    if prolog := _PROLOG.match(text):
        text = text[prolog.end() :]
    first = _FIRST_ELEMENT.search(text)
    start = _DOCTYPE_START.search(text)
    if start is None or first is None or start.start() > first.start():
        return text, {}
    doctype = _DOCTYPE.match(text, start.start())
    if doctype is None:
        return text, {}
    declared: dict[str, str] = {}
    for name, double, single in _ENTITY.findall(doctype["subset"] or ""):
        value = double or single
        plain = html.unescape(value) if re.fullmatch(r"(?:[^&<%]|&#x?[0-9A-Fa-f]+;)*", value) else ""
        if plain and len(plain) <= MOST_ENTITY_CHARACTERS:
            declared.setdefault(name, html.escape(_NOT_XML.sub("", plain)))
    return text[: doctype.start()] + text[doctype.end() :], declared


def xml_events(root: _Element) -> Iterator[Event]:
    """Yield the events of an XML tree in document order."""
    from lxml import etree

    for action, element in etree.iterwalk(root, events=("start", "end")):
        name = element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""
        if action == "start":
            yield Event("start", name, _attributes(element.attrib))
            if element.text:
                yield Event("text", element.text)
        else:
            yield Event("end", name)
            if element.tail and element is not root:
                yield Event("text", element.tail)


def _attributes(attributes: Any) -> Mapping[str, str]:
    if not attributes:
        return {}
    return {_attribute_name(name): value for name, value in attributes.items()}


def _attribute_name(name: str) -> str:
    if name.startswith("{"):
        space, _, local = name[1:].partition("}")
        return (
            "xml:" + local if space.endswith("/XML/1998/namespace") else f"epub:{local}" if "/ops" in space else local
        )
    return name


def page_events(text: str, *, is_xhtml: bool) -> Iterator[Event]:
    """Yield the events of a page: XHTML as XML if it is well-formed; all else as a browser reads it."""
    if is_xhtml:
        try:
            root = parse_xml(text)
        except MarkupError:
            text, _ = _without_doctype(text)
            text = _without_cdata(_SELF_CLOSED.sub(r"<\1\2></\1>", text))
        else:
            yield from xml_events(root)
            return
    yield from _html_events(text)


def _without_cdata(text: str) -> str:
    """Return XHTML with its CDATA sections as HTML has them: escaped characters."""
    head, *sections = text.split("<![CDATA[")
    parts = [head]
    for section in sections:
        inside, closing, behind = section.partition("]]>")
        parts.append(html.escape(inside) + behind if closing else section)
    return "".join(parts)


def _html_events(text: str) -> Iterator[Event]:
    from resiliparse.parse.html import HTMLTree, NodeType

    if not text.strip():
        return
    root: Any = HTMLTree.parse(_NOT_XML.sub("", text)).document
    node = root
    while node is not None:
        if node.type == NodeType.TEXT:
            yield Event("text", node.text)
        elif node.type == NodeType.ELEMENT:
            names = node.attrs
            yield Event("start", node.tag, {name: node.getattr(name) or "" for name in names} if names else {})
        child = node.first_child if node.type in (NodeType.ELEMENT, NodeType.DOCUMENT) else None
        if child is not None:
            node = child
            continue
        if node.type == NodeType.ELEMENT:
            yield Event("end", node.tag)
        while node is not None and node != root and node.next is None:
            node = node.parent
            if node is not None and node.type == NodeType.ELEMENT:
                yield Event("end", node.tag)
        node = None if node is None or node == root else node.next
