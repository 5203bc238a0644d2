"""Token files that other tools wrote, as a source that needs no text: ids in a row, split into documents.

| written by | files | documents end |
| --- | --- | --- |
| datatrove | `.ds` with `.ds.index` | where the index says |
| curate | `.bin` with `.idx` | where the index says |
| OLMo-core, nanoGPT | `.npy`, `.bin`: ids without a header | at each EOS |
| numpy | `.npy` with a header | at each EOS |
| llm.c | `.bin` with a header of 1,024 bytes | before each EOS |

An EOS at the end of a document is no part of it; it stands nowhere else. Between two EOS without a token lies no document.
Megatron's `.bin` and `.idx` are not read.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from curate.errors import InputError
from curate.stage import Stage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ids = npt.NDArray[np.integer[Any]]  # shape (tokens,)
    Ends = npt.NDArray[np.uint64]  # shape (documents,), ascending

_BESIDE = (".index", ".idx", ".metadata", ".json", ".parquet", ".loss", ".txt", ".md", ".csv", ".csv.gz", ".model")
_COMPRESSED = (".gz", ".zst", ".lz4", ".xz", ".bz2")
_NUMPY = b"\x93NUMPY"
_MEGATRON = b"MMIDIDX"
_LLMC = {(20240520, 1): "<u2", (20240801, 7): "<u4"}  # magic and version to what follows: GPT-2's ids, Llama 3's
_LLMC_HEADER = 1024  # bytes
_CHUNK = 1 << 20  # tokens looked at at once
_FEWEST = 64  # tokens from which zeros in every second place are no chance


class TokenFiles(Stage):
    """Files of token ids, made by the tokenizer that the recipe loads.

    Attributes:
        dtype: Of ids in a file without a header; `auto` takes what an index beside it demands, else uint16 for a
            vocabulary of up to 65,536 and uint32 above.

    An index is found under the name of its file with `.index` behind it, or with `.idx` for `.bin`.
    """

    version: ClassVar[int] = 1

    dtype: Literal["auto", "uint16", "uint32"] = "auto"

    def passes_over(self, path: str) -> str:
        """Return why a file is not read, or an empty string."""
        name = path.lower()
        if name.endswith(_BESIDE):
            return "beside token files"
        return "compressed" if name.endswith(_COMPRESSED) else ""


def index_names(path: str) -> tuple[str, ...]:
    """Return the names under which the index of a token file may lie."""
    return (f"{path}.index", *([path.removesuffix(".bin") + ".idx"] if path.endswith(".bin") else []))


@dataclass(frozen=True, slots=True)
class TokenFile:
    """An open token file.

    Attributes:
        name: For messages.
        ids: Mapped into memory.
        ends: End of each document in tokens, or None where EOS ends them.
    """

    name: str
    ids: Ids
    ends: Ends | None

    def documents(self, eos_id: int) -> Iterator[tuple[int, int]]:
        """Yield where each document starts and ends, in tokens, its EOS not counted."""
        if self.ends is None:
            yield from _between(self.ids, eos_id)
            return
        start = 0
        for first in range(0, len(self.ends), _CHUNK):
            for end in self.ends[first : first + _CHUNK].tolist():
                yield start, end - (end > start and int(self.ids[end - 1]) == eos_id)
                start = end

    def run(self, start: int, stop: int, vocab_size: int, eos_id: int) -> Ids:
        """Return the ids of one document, checked.

        Raises:
            InputError: If an id is none of the tokenizer's, or EOS stands inside.
        """
        run = self.ids[start:stop]
        if len(run):
            lowest, highest = int(run.min()), int(run.max())
            if lowest < 0 or highest >= vocab_size:
                bad = lowest if lowest < 0 else highest
                problem = f"token {start + int((run == bad).argmax())} has the id {bad}, and the tokenizer {vocab_size:,} ids."
                raise InputError(self.name, problem, "Load the tokenizer that made the file, or set `dtype` of `read`.")
            if self.ends is not None and (run == eos_id).any():
                problem = f"EOS ({eos_id}) stands inside the document of tokens {start} to {stop}."
                raise InputError(self.name, problem, "Check `tokenizer.eos`, or leave the index out of the folder.")
        return run


def _between(ids: Ids, eos_id: int) -> Iterator[tuple[int, int]]:
    import numpy as np

    start = 0
    for first in range(0, len(ids), _CHUNK):
        for place in (np.flatnonzero(ids[first : first + _CHUNK] == eos_id) + first).tolist():
            if place > start:
                yield start, place
            start = place + 1
    if start < len(ids):
        yield start, len(ids)


def open_tokens(path: Path, name: str, index: Path | None, settings: TokenFiles, vocab_size: int) -> TokenFile:
    """Open a token file.

    Args:
        path: The file.
        name: For messages.
        index: Its index, if it has one.
        settings: How to read it.
        vocab_size: Of the tokenizer.

    Raises:
        InputError: If the file contradicts itself, its index or the settings.
    """
    import numpy as np

    size = path.stat().st_size
    ends: Ends | None = None
    if index is not None:
        with index.open("rb") as file:
            if file.read(len(_MEGATRON)) == _MEGATRON:
                raise InputError(name, "it is Megatron's, whose files are not read.", "Take it out of `paths`.")
        if index.stat().st_size % 8:
            raise InputError(name, "its index is no row of 64-bit numbers.", "Fetch or write it again.")
        ends = _mapped(index, "<u8", 0)
        if len(ends) and (ends[1:] < ends[:-1]).any():
            raise InputError(name, "its index does not ascend.", "Fetch or write it again.")
    dtype, offset = _form(path, name, size, ends, settings, vocab_size)
    width = np.dtype(dtype).itemsize
    if (size - offset) % width:
        problem = (
            f"{size - offset} bytes are no whole number of {width}-byte ids: it is truncated, or of another dtype."
        )
        raise InputError(name, problem, "Fetch the file again, or set `dtype` of `read`.")
    ids = _mapped(path, dtype, offset)
    last = int(ends[-1]) if ends is not None and len(ends) else 0
    if ends is not None and last != len(ids):
        raise InputError(name, f"it has {len(ids)} tokens and its index {last}.", "Fetch or write both again.")
    if ends is None and dtype == "<u2" and len(ids) >= _FEWEST and not ids[1 : 2 * _CHUNK : 2].any():
        problem = "every second id is 0: these are most likely 32-bit ids."
        raise InputError(name, problem, "Set `dtype: uint32` of `read`.")
    return TokenFile(name, ids, ends)


def _mapped(path: Path, dtype: str, offset: int) -> Any:
    import numpy as np

    if path.stat().st_size <= offset:
        return np.zeros(0, dtype)  # an empty file cannot be mapped
    return np.memmap(path, dtype, "r", offset).view(np.ndarray)


def _form(
    path: Path, name: str, size: int, ends: Ends | None, settings: TokenFiles, vocab_size: int
) -> tuple[str, int]:
    """Return the numpy dtype of the ids and the byte at which they begin."""
    with path.open("rb") as file:
        head = file.read(_LLMC_HEADER)
    if head.startswith(_NUMPY):
        return _numpy_form(head, name)
    if len(head) == _LLMC_HEADER:
        known = _LLMC.get(struct.unpack_from("<2i", head))
        tokens = struct.unpack_from("<i", head, 8)[0]
        if known is not None and size == _LLMC_HEADER + tokens * int(known[-1]):
            return known, _LLMC_HEADER
    if ends is not None and len(ends) and int(ends[-1]):
        width, rest = divmod(size, int(ends[-1]))
        if rest or width not in (2, 4) or settings.dtype not in ("auto", f"uint{8 * width}"):
            wanted = "2 or 4" if settings.dtype == "auto" else int(settings.dtype[4:]) // 8
            problem = f"its index counts {int(ends[-1])} tokens of {wanted} bytes, and the file has {size} bytes."
            raise InputError(name, problem, "Fetch or write both again, or mend `dtype` of `read`.")
        return f"<u{width}", 0
    if settings.dtype != "auto":
        return f"<u{int(settings.dtype[4:]) // 8}", 0
    return ("<u2" if vocab_size <= 1 << 16 else "<u4"), 0


def _numpy_form(head: bytes, name: str) -> tuple[str, int]:
    """Return dtype and data offset of a .npy file (format 1.0 to 3.0)."""
    start, form = (10, "<H") if head[6] == 1 else (12, "<I")
    length = struct.unpack_from(form, head, 8)[0]
    try:
        facts = ast.literal_eval(head[start : start + length].decode("utf-8").strip())
        dtype, shape = str(facts["descr"]), tuple(facts["shape"])
    except (ValueError, SyntaxError, KeyError, TypeError) as error:
        raise InputError(name, f"its numpy header cannot be read ({error}).", "Write it again.") from None
    if len(shape) != 1 or dtype.lstrip("<>|=") not in ("u2", "u4", "u8", "i2", "i4", "i8"):
        problem = f"it holds {dtype} of shape {shape}; token ids are whole numbers in one row."
        raise InputError(name, problem, "Flatten it.")
    return dtype, start + length
