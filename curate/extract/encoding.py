"""HTML bytes to str: what the page declares of itself, added to what `curate.text.decoding` does for any bytes."""

from __future__ import annotations

import re

from curate.text.decoding import Decoded, decode, decode_plain

PRESCAN_BYTES = 4096  # the HTML standard (13.2.3.2) looks at 1,024; long license comments push the label further
META = re.compile(rb"<meta[\s/][^>]*?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
XML_DECLARATION = re.compile(rb"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)


def declared_charset(content: bytes) -> str | None:
    """Return the encoding label in a page's meta element or XML declaration, or None.

    Labels inside comments do not count.
    """
    head = COMMENT.sub(b"", content[:PRESCAN_BYTES])
    match = META.search(head) or XML_DECLARATION.search(head)
    return match[1].decode("ascii") if match else None


def decode_html(content: bytes, charset: str | None = None) -> Decoded:
    """Return the text of a page.

    In order: byte order mark; UTF-8, if the bytes are that; the transport's label; the page's own; detection. A
    label that contradicts the bytes is passed over (see `curate.text.decoding`). A page that says UTF-16 in ASCII is
    taken for UTF-8, as the HTML standard says.

    Args:
        content: The page's bytes.
        charset: The label of the HTTP header.
    """
    if (plain := decode_plain(content)) is not None:
        return plain
    labels = tuple(label for label in (charset, declared_charset(content)) if label)
    return decode(content, labels)
