"""Source code and plain text: one document a file, with what is known of its language, licence, origin and making."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from curate.read.code_marks import code_marks
from curate.read.languages import programming_language
from curate.read.licenses import license_of_header, spdx_tag
from curate.read.rows import MAX_RECORD_BYTES, Rows
from curate.read.source_tree import look_around
from curate.read.whole import Whole, binary_row, is_binary, read_whole
from curate.stage import Source
from curate.text.decoding import decode

if TYPE_CHECKING:
    import pyarrow as pa

TAG_CHARACTERS = 16 << 10  # of a file, in which an SPDX tag is looked for
NOTICE_CHARACTERS = 4 << 10  # and a licence or a notice in words, which below would be about something else


class Files(Source):
    """Files that are documents: source code, plain text. Compressed ones (gzip, zstd, lz4) are unpacked.

    Attributes:
        max_bytes: Largest file after unpacking; a larger one is removed as `read.too_large`.

    The text is unchanged but for its encoding. The metadata holds, as far as it is known:

    - programming_language: by file name, ending, interpreter line, mode line and content (`curate.read.languages`).
    - license, license_source: an SPDX expression, and what says so: `spdx` (a tag in the first 16 KiB), `notice` (words
      in the first 4 KiB), else the path of the nearest licence file or package metadata (`curate.read.source_tree`).
      NOASSERTION is a licence that is not known here.
    - repository: the folder of the repository or package, relative to the pattern's fixed prefix.
    - generated, vendored, minified: by which rule (`curate.read.code_marks`). They remove nothing.
    - decoded: if it is not plain UTF-8.

    Rules: read.too_large, read.undecodable (binary files), read.truncated, read.bad_record.
    """

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("charset-normalizer", "lz4", "resiliparse", "zstandard")

    max_bytes: int = Field(default=MAX_RECORD_BYTES, ge=1)

    def surroundings(self, files: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Return license, license_source and repository by the folders around each file."""
        return look_around(files)

    def read(self, file: IO[bytes], name: str) -> Iterator[pa.RecordBatch]:
        """Yield one RAW batch of one row."""
        rows = Rows()
        rows.add(0, **self._values(file, name))
        yield rows.flush()

    def _values(self, file: IO[bytes], name: str) -> dict[str, Any]:
        whole = read_whole(file, name, self.max_bytes)
        if not isinstance(whole, Whole):
            return whole
        if is_binary(whole.content):
            return binary_row(whole.content, name)
        decoded = decode(whole.content)
        path = PurePosixPath(name.replace("\\", "/"))
        path = path.with_suffix("") if whole.is_packed else path
        metadata = source_facts(path.as_posix(), decoded.text)
        if not decoded.exact:
            metadata["decoded"] = decoded.note
        return {
            "text": decoded.text,
            "media_type": "text/plain",
            "metadata": json.dumps(metadata, ensure_ascii=False, separators=(",", ":")) if metadata else None,
        }


def source_facts(path: str, text: str) -> dict[str, Any]:
    """Return what a source file itself says: programming_language, license, license_source, and its marks.

    Args:
        path: Relative path with forward slashes, without the ending of a compression.
        text: All of its text.
    """
    facts: dict[str, Any] = {}
    language = programming_language(path.rpartition("/")[2], text)
    if language:
        facts["programming_language"] = language
    if tag := spdx_tag(text[:TAG_CHARACTERS]):
        facts |= {"license": tag, "license_source": "spdx"}
    elif notice := license_of_header(text[:NOTICE_CHARACTERS]):
        facts |= {"license": notice, "license_source": "notice"}
    return facts | code_marks(path, text, language)
