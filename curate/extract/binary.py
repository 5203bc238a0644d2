"""Payloads that are no text, whatever their label says: images, archives, PDF, damage."""

from __future__ import annotations

from curate.text.decoding import Decoded

# First bytes of formats that are served as text/html now and then. None of them begins a page.
SIGNATURES = (
    (b"%PDF-", "PDF"),
    (b"\x89PNG\r\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x00\x00\x01\x00", "ICO"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
    (b"OggS\x00", "Ogg"),
    (b"ID3\x02", "MP3"),
    (b"ID3\x03", "MP3"),
    (b"ID3\x04", "MP3"),
    (b"fLaC\x00", "FLAC"),
    (b"FLV\x01", "FLV"),
    (b"\x1aE\xdf\xa3", "Matroska"),
    (b"PK\x03\x04", "ZIP"),
    (b"PK\x05\x06", "ZIP"),
    (b"\x1f\x8b\x08", "gzip"),
    (b"(\xb5/\xfd", "Zstandard"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"7z\xbc\xaf'\x1c", "7z"),
    (b"Rar!\x1a\x07", "RAR"),
    (b"BZh91AY&SY", "bzip2"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
    (b"wOFF", "WOFF"),
    (b"wOF2", "WOFF2"),
    (b"\x7fELF", "ELF"),
    (b"\xca\xfe\xba\xbe", "Java"),
    (b"\x00asm", "WebAssembly"),
    (b"SQLite format 3\x00", "SQLite"),
)
STARTS = tuple(start for start, _ in SIGNATURES)
MOST_REPLACED = 0.1  # of the characters; damaged pages that still say something hold fewer
MOST_CONTROLS = 0.05  # of the characters; random bytes under an 8-bit code page hold 0.11, text none
CONTROLS = bytes(code for code in range(0x20) if code not in b"\t\n\f\r")


def why_no_text(content: bytes, decoded: Decoded) -> str:
    """Return what a payload is if it is no text, in a few words, or an empty string.

    Args:
        content: Its bytes.
        decoded: What decoding made of them.
    """
    if content.startswith(STARTS):
        return next(name for start, name in SIGNATURES if content.startswith(start))
    if content[:4] == b"RIFF" and content[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return content[8:12].decode("ascii").strip()
    if content[4:8] == b"ftyp" and content[:1] == b"\0":
        return "MP4"
    text = decoded.text
    num_replaced = text.count("\ufffd")
    data = content if decoded.exact else text.encode("utf-8", "replace")
    num_low = _num_low(data)  # with tabs and line ends, and fast: most pages need no closer look
    if not _are_too_many(num_replaced, num_low, len(text)):
        return ""
    num_controls = len(data) - len(data.translate(None, CONTROLS))
    if not _are_too_many(num_replaced, num_controls, len(text)):
        return ""
    return f"{num_replaced} of {len(text)} characters undecodable, {num_controls} controls"


def _are_too_many(num_replaced: int, num_controls: int, num_characters: int) -> bool:
    together = num_replaced + num_controls
    return together > MOST_REPLACED * num_characters or num_controls > MOST_CONTROLS * num_characters


def _num_low(data: bytes) -> int:
    import numpy as np

    return int(np.count_nonzero(np.frombuffer(data, np.uint8) < 0x20))
