"""Files of the Arrow format, with an index or as a stream: told by their first bytes, read batch by batch, each checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_END_OF_STREAM = (b"\xff\xff\xff\xff\0\0\0\0", b"\0\0\0\0")  # the second before Arrow 0.15
_CONTINUATION = b"\xff\xff\xff\xff"


def kind_of(file: IO[bytes]) -> str:
    """Return parquet, arrow (file with an index), stream, or an empty string for anything else; rewinds the file."""
    file.seek(0)
    head = file.read(8)
    file.seek(0)
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "arrow"
    return "stream" if head.startswith(_CONTINUATION) else ""


def arrow_batches(file: IO[bytes], kind: str) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of an Arrow file, each checked: offsets out of range would end the process.

    Strings that are not UTF-8 are no fault here: whoever reads them decodes them.

    Raises:
        pa.ArrowException: If a batch cannot be read, or its buffers contradict each other.
    """
    import pyarrow as pa

    source = pa.PythonFile(file, mode="r")
    if kind == "stream":
        with pa.ipc.open_stream(source) as stream:
            batches = iter(stream)
            yield from map(_checked, batches)
        return
    with pa.ipc.open_file(source) as reader:
        for number in range(reader.num_record_batches):
            yield _checked(reader.get_batch(number))


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    raw = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    for column in batch.columns:
        (column.view(raw[column.type]) if column.type in raw else column).validate(full=True)
    return batch


def stream_ends(file: IO[bytes]) -> bool:
    """Return whether a stream has its end mark; without one it may have been cut off."""
    size = file.seek(0, 2)
    file.seek(max(0, size - len(_END_OF_STREAM[0])))
    return file.read().endswith(_END_OF_STREAM)
