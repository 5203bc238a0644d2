"""Marks by which a page asks not to be used for training: robots directives and the reservation of text and data mining.

- Robots directives, in the HTTP header `X-Robots-Tag` or `<meta name="robots">`: `noai` and `noimageai` (DeviantArt 2022),
  `noml` (noml.info), and the older `noindex`, `noarchive`, `nosnippet`, which say nothing of training; `none` means noindex.
  A directive addressed to one crawler by name (`googlebot: noai`) does not count.
- `tdm`: the header or `<meta name="tdm-reservation">` with the value 1 (TDM Reservation Protocol, W3C community group,
  2024). Where header and page disagree, the reservation counts. The protocol's third place, the file
  `/.well-known/tdmrep.json` of a site, is in no page: give such sites as a list in `remove`.

Headers are looked for in a document's metadata (`x_robots_tag`, `tdm_reservation`), where the WARC reader puts them;
meta elements in the first `HEAD_BYTES` of an undecoded page, outside comments and scripts.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Iterator
from typing import Literal, get_args

Mark = Literal["noai", "noml", "tdm", "noimageai", "noindex", "noarchive", "nosnippet"]
MARKS: tuple[str, ...] = get_args(Mark)
HEAD_BYTES = 64 << 10  # of a page; browsers too look for its declarations at its start

_WORDS = {"tdm": (b"tdm-reservation",), "noindex": (b"noindex", b"none")}  # what a page with the mark holds
# A comment or a script without an end reaches to the end of what is looked at: no page can make the search quadratic.
_ELEMENT = re.compile(
    r"<!--.*?(?:-->|\Z)|<(?P<raw>script|style|noscript|template)\b.*?(?:</(?P=raw)\b|\Z)"
    r"|<meta\b(?P<meta>(?:[^>\"']++|\"[^\"]{0,1000}+\"|'[^']{0,1000}+')*+)",
    re.IGNORECASE | re.DOTALL,
)
_ATTRIBUTE = re.compile(r"([a-z\-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
_ADDRESSED = re.compile(r"\s*([A-Za-z0-9_.*\-]+)\s*:(.*)", re.DOTALL)
_WITH_VALUE = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


def header_marks(metadata: str | None) -> Iterator[tuple[str, str]]:
    """Yield mark and place for each mark in the stored HTTP headers of a document.

    Args:
        metadata: A JSON object; `x_robots_tag` holds the values of the header one a line.
    """
    if metadata is None or ("x_robots_tag" not in metadata and "tdm_reservation" not in metadata):
        return
    known = json.loads(metadata)
    for value in str(known.get("x_robots_tag") or "").split("\n"):
        for mark in _directives(value):
            yield mark, "header X-Robots-Tag"
    if str(known.get("tdm_reservation", "")).strip() == "1":
        yield "tdm", "header tdm-reservation"


def page_marks(content: bytes | None, wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield mark and place for each mark in the meta elements at the start of a page.

    Args:
        content: The page as it came.
        wanted: The marks that matter; a page that holds none of their words is not looked at further.
    """
    if not content:
        return
    head = content[:HEAD_BYTES]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        head = head.decode("utf-16", "replace").encode("utf-8", "replace")
    lower = head.lower()
    if not any(word in lower for mark in wanted for word in _WORDS.get(mark, (mark.encode(),))):
        return
    for element in _ELEMENT.finditer(head.decode("latin-1")):  # the marks are ASCII, whatever the page is
        if element["meta"] is None:
            continue
        given: dict[str, str] = {}
        for attribute in _ATTRIBUTE.finditer(element["meta"]):
            value = next((group for group in attribute.groups()[1:] if group is not None), "")
            given.setdefault(attribute[1].lower(), html.unescape(value))
        name = given.get("name", "").strip().lower()
        if name == "robots":
            for mark in _directives(given.get("content", "")):
                yield mark, "meta robots"
        elif name == "tdm-reservation" and given.get("content", "").strip() == "1":
            yield "tdm", "meta tdm-reservation"


def _directives(value: str) -> Iterator[str]:
    """Yield the marks of a list of robots directives that is addressed to all crawlers."""
    for token in value.split(","):
        addressed = _ADDRESSED.fullmatch(token)
        if addressed is not None and addressed[1].lower() not in _WITH_VALUE:
            if addressed[1] == "*":
                token = addressed[2]
            else:
                return  # what follows, too, is for that crawler
        directive = token.strip().lower()
        if directive == "none":
            directive = "noindex"
        if directive in MARKS:
            yield directive
