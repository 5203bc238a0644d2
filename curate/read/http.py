"""HTTP responses as crawlers store them: status line, header fields, and a body that may not be what they claim.

Crawlers store either what came over the wire or what the client made of it, and keep the header fields in both cases.
So a claim (chunked, gzip, br, ...) is believed only if the body bears it out, and a body that is text as it stands is
used as it stands, from its first byte. Sources: RFC 9110 (content codings), RFC 9112 section 7 (chunked).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

STATUS_LINE = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})(?:[ \t][^\n]*)?\r*\n?", re.IGNORECASE)
BLANK_LINE = re.compile(rb"\r?\n\r*\n")
CHUNK_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")  # compressed bytes hold one in nine
UNSUPPORTED = ("compress", "x-compress", "dcb", "dcz", "sdch")

BodyDecoder = Callable[[bytes, int], tuple[bytes, str]]  # (body, limit) -> (at most limit + 1 MiB, what went wrong)


@dataclass(frozen=True, slots=True)
class Response:
    """What a payload gives.

    Attributes:
        status: HTTP status, or None if the payload has no status line.
        headers: Field name in lower case to its last value.
        body: The body after transfer and content codings.
        problem: Why the body cannot be used; then `body` is empty.
        notes: What was found different from the claims, for the metadata.
    """

    status: int | None
    headers: dict[str, str]
    body: bytes
    problem: str = ""
    too_large: bool = False
    notes: dict[str, str] = field(default_factory=dict)


class BodyError(Exception):
    """A body that cannot be decoded."""

    def __init__(self, problem: str, too_large: bool = False) -> None:
        super().__init__(problem, too_large)
        self.problem = problem
        self.too_large = too_large


def parse_response(payload: bytes, max_bytes: int) -> Response:
    """Split an HTTP response and undo its codings.

    Args:
        payload: The record's block. Without a status line it is taken for a bare body.
        max_bytes: Most bytes that the body may decode to.
    """
    match = STATUS_LINE.match(payload)
    if match is None:
        return Response(None, {}, payload)
    end = BLANK_LINE.search(payload, match.end() - 1)
    head = payload[match.end() : end.start() if end else len(payload)]
    body = payload[end.end() :] if end else b""
    headers = parse_headers(head)
    notes: dict[str, str] = {}
    try:
        body = _decode_body(body, headers, max_bytes, notes)
    except BodyError as error:
        return Response(int(match[1]), headers, b"", error.problem, error.too_large, notes)
    return Response(int(match[1]), headers, body, notes=notes)


def payload_forms(block: bytes, max_bytes: int) -> Iterator[bytes]:
    """Yield what a payload digest may be of: the body as stored, without chunks, without any coding."""
    match = STATUS_LINE.match(block)
    end = match and BLANK_LINE.search(block, match.end() - 1)
    stored = block[end.end() :] if end else block if match is None else b""
    yield stored
    yield _dechunk(stored, {})
    yield parse_response(block, max_bytes).body


def parse_headers(head: bytes) -> dict[str, str]:
    """Return header fields by lower-case name; folded lines are joined, of a repeated field the last value stays.

    All values of `X-Robots-Tag` stay, one a line: each may speak to another crawler.
    Lines without a colon are no fields and are passed over, as clients do.
    """
    headers: dict[str, str] = {}
    name = ""
    for raw in head.split(b"\n"):
        line = raw.rstrip(b"\r").decode("utf-8", "replace")
        if line[:1] in (" ", "\t") and name:
            headers[name] = f"{headers[name]} {line.strip()}".strip()
            continue
        name, colon, value = line.partition(":")
        name = name.strip().lower() if colon else ""
        if name == "x-robots-tag" and name in headers:
            headers[name] += f"\n{value.strip()}"
        elif name:
            headers[name] = value.strip()
    return headers


def parse_media_type(value: str) -> tuple[str | None, str | None]:
    """Return media type (lower case, no parameters) and charset of a Content-Type value; None where absent."""
    media_type, *parameters = value.split(";")
    charset = None
    for parameter in parameters:
        key, _, setting = parameter.partition("=")
        if key.strip().lower() == "charset" and charset is None:
            charset = setting.strip().strip("\"'").strip().lower() or None
    return media_type.strip().lower() or None, charset


def _decode_body(body: bytes, headers: dict[str, str], max_bytes: int, notes: dict[str, str]) -> bytes:
    codings = _tokens(headers.get("content-encoding", "")) + _tokens(headers.get("transfer-encoding", ""))
    if "chunked" in codings:
        body = _dechunk(body, notes)
    for coding in reversed(codings):
        decoder = DECODERS.get(coding)
        if decoder is not None and body:
            body = _undo(coding, decoder, body, max_bytes, notes)
        elif coding in UNSUPPORTED and not is_text(body):
            raise BodyError(f"content encoding {coding} is not supported, and the body is no text as it stands")
    media_type, _ = parse_media_type(headers.get("content-type", ""))
    if body.startswith(b"\x1f\x8b\x08") and (media_type or "text/").startswith(("text/", "application/xhtml")):
        notes["content_encoding"] = "gzip, not declared"
        body = _undo("gzip", _gunzip, body, max_bytes, notes)
    return body


def _tokens(value: str) -> list[str]:
    return [token.strip().lower() for token in value.split(",") if token.strip()]


def _dechunk(body: bytes, notes: dict[str, str]) -> bytes:
    """Undo chunked coding as far as the body is really chunked; a body that is not comes back as it is."""
    parts: list[bytes] = []
    place = 0
    while True:
        match = CHUNK_SIZE.match(body, place)
        if match is None:
            break
        size, start = int(match[1], 16), match.end()
        if size == 0:
            return b"".join(parts)  # trailer fields behind it are no content
        chunk = body[start : start + size]
        behind = body[start + size : start + size + 2]
        if len(chunk) == size and behind and not behind.startswith((b"\r\n", b"\n")):
            break  # the size is wrong: from here it is not chunked
        parts.append(chunk)
        place = start + size + (2 if behind == b"\r\n" else 1 if behind.startswith(b"\n") else 0)
        if place >= len(body):
            notes["transfer_encoding"] = "chunked, without the last chunk"
            return b"".join(parts)
    if not parts:
        return body
    notes["transfer_encoding"] = f"chunked up to byte {place} of the body only"
    return b"".join(parts) + body[place:]


def _undo(coding: str, decoder: BodyDecoder, body: bytes, limit: int, notes: dict[str, str]) -> bytes:
    """Undo one content coding.

    Raises:
        BodyError: If nothing comes out and the body is no text either, or more than `limit` bytes would come out.
    """
    decoded, problem = decoder(body, limit)
    if len(decoded) > limit:
        raise BodyError(f"content encoding {coding}: the body exceeds the limit of {limit} bytes (max_bytes)", True)
    if not problem:
        return decoded
    if is_text(body):  # servers lie: the body was never encoded
        notes["content_encoding"] = f"{coding} declared, not applied"
        return body
    if not decoded:
        raise BodyError(f"content encoding {coding} cannot be undone ({problem}), and the body is no text as it stands")
    notes["truncated"] = f"content encoding {coding}: {problem}"
    return decoded


def is_text(data: bytes) -> bool:
    """Whether bytes may be text as they stand: UTF-16 by its mark, else no controls in the first 512 bytes."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    return CONTROL.search(data[:512]) is None


def _gunzip(data: bytes, limit: int) -> tuple[bytes, str]:
    return _inflate(data, limit, (31,))


def _inflate_any(data: bytes, limit: int) -> tuple[bytes, str]:
    # "deflate" is the zlib format by the RFC and raw deflate by many servers.
    return _inflate(data, limit, (15, -15))


def _inflate(data: bytes, limit: int, formats: tuple[int, ...]) -> tuple[bytes, str]:
    """Return what comes out, at most one byte over `limit`, and what went wrong."""
    problem = ""
    for window in formats:
        out = b""
        problem = ""
        rest = data
        while rest and len(out) <= limit:
            decoder = zlib.decompressobj(window)
            try:
                out += decoder.decompress(rest, limit + 1 - len(out))
            except zlib.error as error:
                problem = "" if out else str(error)  # bytes behind a complete member are padding
                break
            if not decoder.eof:
                problem = "incomplete" if len(out) <= limit else ""
                break
            rest = decoder.unused_data.lstrip(b"\0\r\n") if window == 31 else b""
        if out:
            return out, problem
    return b"", problem


def _unbrotli(data: bytes, limit: int) -> tuple[bytes, str]:
    import brotli

    decoder = brotli.Decompressor()
    parts: list[bytes] = []
    size = 0
    try:
        while size <= limit and not decoder.is_finished():
            out = decoder.process(data, output_buffer_limit=1 << 20)
            data = b""
            if not out:
                break
            parts.append(out)
            size += len(out)
    except brotli.error as error:
        return b"".join(parts), str(error)
    return b"".join(parts), "" if decoder.is_finished() or size > limit else "incomplete"


def _unzstd(data: bytes, limit: int) -> tuple[bytes, str]:
    import io

    import zstandard

    parts: list[bytes] = []
    size = 0
    try:
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
            while size <= limit and (out := reader.read(1 << 20)):
                parts.append(out)
                size += len(out)
    except zstandard.ZstdError as error:
        return b"".join(parts), str(error)
    return b"".join(parts), ""


DECODERS: dict[str, BodyDecoder] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _inflate_any,
    "br": _unbrotli,
    "zstd": _unzstd,
}
