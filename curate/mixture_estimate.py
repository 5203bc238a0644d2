"""How much text input files hold, from their sizes and what their ends and heads state; nothing is unpacked."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from curate.inputs import InputFile

RATIO = 3  # plain bytes of a compressed one, where the file does not state them; English text by gzip has 2.5 to 4
PAGES = 10  # bytes of a crawl's records for one of text; real records: 13, with headers, markup, and what is no page
COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".lz4", ".br", ".zip", ".epub", ".parquet")
_MOST_GZIP = 1 << 30  # of a larger file the plain size may be over 4 GiB, which gzip states modulo 2^32
_MOST_DEFLATE = 1032  # times smaller, at most (RFC 1951: 258 bytes for two bits)
_LEAST = 0.9  # plain bytes of a compressed one: what grows more than so was not compressed as one member


def text_bytes(files: Sequence[InputFile], *, pages: bool) -> int:
    """Return about how many bytes of text local files hold, before any filter.

    Args:
        files: Of one source.
        pages: Whether they are records of a crawl, of which extraction leaves little.
    """
    plain = sum(_plain_bytes(Path(file.url), file.bytes) for file in files)
    return plain // PAGES if pages else plain


def _plain_bytes(path: Path, size: int) -> int:
    ending = path.suffix.lower()
    if ending not in COMPRESSED:
        return size
    stated = {".gz": _gzip, ".zst": _zstd, ".epub": _zip, ".zip": _zip, ".parquet": _parquet}.get(ending)
    try:
        found = stated(path) if stated is not None else None
    except (OSError, ValueError, zipfile.BadZipFile):  # damaged: that is for the run to tell
        found = None
    return RATIO * size if found is None else found


def _gzip(path: Path) -> int | None:
    """Return the size that the last member states (ISIZE, RFC 1952), if it can be that of the whole file."""
    size = path.stat().st_size
    if not 18 <= size < _MOST_GZIP:
        return None
    with path.open("rb") as file:
        file.seek(-4, 2)
        stated = int.from_bytes(file.read(4), "little")
    return stated if _LEAST * (size - 18) <= stated <= _MOST_DEFLATE * size else None


def _zstd(path: Path) -> int | None:
    """Return the size that the first frame states (RFC 8878), if it can be that of the whole file."""
    import zstandard

    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(18)
    try:
        stated = int(zstandard.frame_content_size(head))
    except zstandard.ZstdError:
        return None
    return stated if stated >= _LEAST * (size - 18) and stated else None


def _zip(path: Path) -> int | None:
    """Return the size of the pages that the directory names; of an archive without any, None."""
    with zipfile.ZipFile(path) as archive:
        pages = [
            one.file_size for one in archive.infolist() if one.filename.lower().endswith((".xhtml", ".html", ".htm"))
        ]
    return sum(pages) or None


def _parquet(path: Path) -> int | None:
    """Return the size of all columns before compression, as the footer states it."""
    import pyarrow.parquet as pq

    footer = pq.read_metadata(path)
    sizes = [int(footer.row_group(number).total_byte_size) for number in range(footer.num_row_groups)]
    return sum(sizes)
