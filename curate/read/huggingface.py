"""Datasets of the Hugging Face hub and of `datasets.save_to_disk`: Arrow, Parquet and JSON Lines files, told by content.

No dataset script is run. On the hub (`hf://datasets/<owner>/<name>/...`, with the extra `huggingface`) every public
dataset also has a copy in Parquet: `hf://datasets/<owner>/<name>@~parquet/<config>/<split>/*.parquet`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, ClassVar

from curate.arrow_files import arrow_batches, kind_of, stream_ends
from curate.read.jsonl import Jsonl
from curate.read.parquet import Parquet, records
from curate.read.rows import MAX_BYTES, MAX_ROWS, Rows
from curate.read.values import is_text
from curate.stage import START, Cut

if TYPE_CHECKING:
    import pyarrow as pa

_DATA = re.compile(r"\.(?:parquet|arrow|(?:jsonl|ndjson|json)(?:\.(?:gz|zst|lz4))?)\Z", re.IGNORECASE)
_ABOUT = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
_SHARD = re.compile(r"(.+?)-\d{5}-of-\d{5}\b")
# What the library `datasets` takes for the name of a split, in file names and folders.
_KEYWORDS = {
    "train": "train|training",
    "validation": "validation|valid|dev|val",
    "test": "test|testing|eval|evaluation",
}
_KEYWORD = re.compile(
    r"(?:\A|(?<=[ ._\-0-9]))(?:"
    + "|".join(f"(?P<{name}>{words})" for name, words in _KEYWORDS.items())
    + r")(?=[ ._\-0-9]|\Z)"
)


class HuggingFace(Parquet):
    """The data files of one split of a dataset; one row is one document.

    Attributes:
        split: Name of the split, several, or `all`. A file belongs to the split that its name or its folder says
            (`train-00000-of-00002.parquet`, `validation/data-00000-of-00001.arrow`, `my_test.jsonl`), else to `train`.
        config: Folder in which the files of a configuration lie, at any depth; without it every folder's are read.

    Files of other splits and configurations, and what holds no rows (`dataset_info.json`, `README.md`, CSV, images), are
    passed over and counted. Offsets are row numbers; in JSON Lines, bytes. Damage in an Arrow file ends the reading of it.
    Rules: those of the readers jsonl and parquet.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("charset-normalizer", "lz4", "pyarrow", "resiliparse", "zstandard")

    split: str | tuple[str, ...] = "train"
    config: str | None = None

    def passes_over(self, path: str) -> str:
        """Return why a file is not read."""
        *folders, name = path.split("/")
        if name in _ABOUT:
            return "about the dataset"
        if not _DATA.search(name):
            return "neither Parquet, Arrow nor JSON Lines"
        if self.config is not None and self.config not in folders:
            return "of another config"
        split = split_of(path)
        wanted = (self.split,) if isinstance(self.split, str) else self.split
        return "" if "all" in wanted or split in wanted else f"of split {split}"

    def cuts(self, file: IO[bytes], name: str, every: int) -> tuple[Cut, ...]:
        """Return cuts as the readers of the format do; Arrow files stay whole."""
        kind = kind_of(file)
        if not kind:
            return self._jsonl().cuts(file, name, every)
        return super().cuts(file, name, every) if kind == "parquet" else ()

    def read_part(self, file: IO[bytes], name: str, start: Cut, stop: Cut | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows between two cuts."""
        kind = kind_of(file)
        if not kind:
            yield from self._jsonl().read_part(file, name, start, stop)
            return
        if kind == "parquet":
            yield from super().read_part(file, name, start, stop)
            return
        assert (start, stop) == (START, None)
        rows = Rows()
        for offset, values in self._arrow_rows(file, name, kind):
            rows.add(offset, **values)
            if rows.full:
                yield rows.flush()
        if len(rows):
            yield rows.flush()

    def _jsonl(self) -> Jsonl:
        return Jsonl(**{name: getattr(self, name) for name in Jsonl.model_fields})

    def _arrow_rows(self, file: IO[bytes], name: str, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
        import pyarrow as pa

        row = 0
        try:
            for batch in arrow_batches(file, kind):
                names = batch.schema.names
                field = self.text if self.html is None else self.html
                holds_text = [is_text(column.type) for column in batch.schema if column.name == field][-1:] != [False]
                columns = self._columns(names)
                step = max(1, min(MAX_ROWS, MAX_BYTES * batch.num_rows // max(batch.nbytes, 1)))
                for first in range(0, batch.num_rows, step):
                    for record in records(batch.select(columns).slice(first, step)):
                        yield row, self._values(record, f"{name}, row {row}", names, holds_text)
                        row += 1
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last for names of columns
            detail = f"{name}, row {row}: cannot be read from here on ({error}). Fetch or write the file again"
            yield row, {"rule": "read.truncated" if row else "read.undecodable", "detail": detail}
            return
        if kind == "stream" and not stream_ends(file):
            detail = f"{name}, row {row}: the stream has no end mark: it is truncated. Fetch or write the file again"
            yield row, {"rule": "read.truncated", "detail": detail}


def split_of(path: str) -> str:
    """Return the split to which a file belongs by the conventions of the library `datasets`."""
    *folders, name = path.split("/")
    shard = _SHARD.match(name)
    if shard is not None and shard[1] != "data":
        return _canonical(shard[1])
    if shard is not None and folders and folders[-1] != "data":
        return _canonical(folders[-1])
    for part in (name, *reversed(folders)):
        found = _KEYWORD.search(part.lower())
        if found is not None:
            return str(found.lastgroup)
    return "train"


def _canonical(name: str) -> str:
    found = _KEYWORD.fullmatch(name.lower())
    return name if found is None else str(found.lastgroup)
