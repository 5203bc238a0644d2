"""Records of a crawl, written as WARC 1.0 with one gzip member a record.

Only what the demo needs: every time, id and compression level is fixed, so that the same records give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_NAMESPACE = uuid.UUID("6b1cf1a0-9f5b-5d3e-8f6a-0c7a3a4f1d52")  # of the record ids: uuid5 below it
_REASONS = {200: "OK", 301: "Moved Permanently", 404: "Not Found", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True)
class Page:
    """One record.

    Attributes:
        url: WARC-Target-URI.
        body: The HTTP body as sent (already compressed or chunked where a header says so), or a whole block.
        kind: WARC-Type.
        content_type: HTTP Content-Type; empty: the header is left out.
        status: HTTP status.
        headers: Further HTTP headers.
        truth: What is planted here (see `faults.py`), or None.
        place: Sort key within the corpus: pages are spread over the files in the order of this key.
    """

    url: str
    body: bytes
    kind: str = "response"
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    truth: dict[str, Any] | None = field(default=None, compare=False)
    place: str = ""


def member(page: Page, clock: int) -> bytes:
    """Return the record as one gzip member; `clock` is its second within the crawl."""
    if page.kind in ("response", "revisit"):
        lines = [
            f"HTTP/1.1 {page.status} {_REASONS[page.status]}",
            "Server: demo",
            "Date: Wed, 21 Feb 2024 08:00:00 GMT",
        ]
        if page.content_type:
            lines.append(f"Content-Type: {page.content_type}")
        if not any(name == "Transfer-Encoding" for name, _ in page.headers):
            lines.append(f"Content-Length: {len(page.body)}")
        lines += [f"{name}: {value}" for name, value in page.headers]
        block = "\r\n".join(lines).encode() + b"\r\n\r\n" + page.body
        content_type = "application/http; msgtype=response"
    else:
        block = page.body
        content_type = "application/http; msgtype=request" if page.kind == "request" else "application/warc-fields"
    digest = base64.b32encode(hashlib.sha1(page.body, usedforsecurity=False).digest()).decode()
    hour, rest = divmod(clock, 3600)
    fields = {
        "WARC-Type": page.kind,
        "WARC-Record-ID": f"<urn:uuid:{uuid.uuid5(_NAMESPACE, f'{page.kind} {page.url} {clock}')}>",
        "WARC-Date": f"2024-02-21T{8 + hour:02}:{rest // 60:02}:{rest % 60:02}Z",
    }
    if page.kind != "warcinfo":
        fields["WARC-Target-URI"] = page.url
    if page.kind == "response":
        fields["WARC-Payload-Digest"] = f"sha1:{digest}"
    if page.kind == "revisit":
        fields["WARC-Profile"] = "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest"
        fields["WARC-Payload-Digest"] = f"sha1:{digest}"
    fields |= {"Content-Type": content_type, "Content-Length": str(len(block))}
    header = "WARC/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
    compressor = zlib.compressobj(6, zlib.DEFLATED, 31)  # gzip, its time field 0
    return compressor.compress(header.encode() + block + b"\r\n\r\n") + compressor.flush()


def write_warc(path: Path, pages: list[Page], first_clock: int) -> list[tuple[Page, int]]:
    """Write the pages and return each with the offset of its member.

    A page whose truth says `cut_to` loses the end of its member: the file ends there, as after a broken transfer.
    """
    placed = []
    with path.open("wb") as file:
        for clock, page in enumerate(pages, first_clock):
            placed.append((page, file.tell()))
            data = member(page, clock)
            cut = (page.truth or {}).get("cut_to")
            file.write(data if cut is None else data[: int(len(data) * cut)])
    return placed
