"""Compile removal lists: text files and entries of the recipe to sorted 64-bit hashes, whatever their length."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from curate.dedup.spill import Sorter
from curate.errors import InputError
from curate.inputs import InputFile, fetch
from curate.plan import TaskContext
from curate.read.compression import read_chunks, refusal
from curate.removal import RemovalLists, listed_id
from curate.text.addresses import hash_of, listed_address

VERSION = 1  # raise when other hashes come out of the same lists; the canonical form has the version of `Gate`

_BATCH = 1 << 16  # hashes handed on at once
_COMMENT = re.compile(r"(?:\A|\s)#.*", re.DOTALL)
_LONGEST_LINE = 1 << 20  # bytes; a longer one is no address, and most likely no list


@dataclass(frozen=True, slots=True)
class ListInputs:
    """What one list of a recipe holds: files, and entries of the recipe."""

    files: tuple[InputFile, ...]
    entries: tuple[str, ...]


def compile_lists(context: TaskContext, key: str, ids: ListInputs | None, urls: ListInputs | None) -> None:
    """Write ids.u64 and urls.u64, of the lists that are there: ascending, distinct, little-endian."""
    with context.writing(key) as output:
        for name, inputs, form in (("ids", ids, listed_id), ("urls", urls, listed_address)):
            if inputs is not None:
                output.counts[name] = _compile(context, inputs, form, output.path(f"{name}.u64"))


def open_lists(context: TaskContext, key: str | None) -> RemovalLists | None:
    """Return compiled lists, mapped into memory: all workers share their pages."""
    if key is None:
        return None
    entry = context.entry(key)
    return RemovalLists(
        *(_mapped(entry.path(name)) if name in entry.files else None for name in ("ids.u64", "urls.u64"))
    )


def _mapped(path: Path) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    if not path.stat().st_size:
        return np.zeros(0, np.uint64)  # an empty file cannot be mapped
    return np.memmap(path, np.dtype("<u8"), "r").view(np.ndarray)


def _compile(context: TaskContext, inputs: ListInputs, form: Callable[[str], str], path: Path) -> int:
    """Write the hashes of a list and return how many there are."""
    written = 0
    with context.scratch() as folder, path.open("wb") as target:
        sorter = Sorter(1, context.memory // 2, str(folder), "list")
        waiting = [hash_of(form(entry)) for entry in inputs.entries]
        for file in inputs.files:
            for text, place in _lines(fetch(file, folder), file.path):
                try:
                    waiting.append(hash_of(form(text)))
                except ValueError as error:
                    problem = f"{place}: {text[:120]!r} cannot be compared: {error}."
                    remedy = "Mend the line, or put # before it: an entry that means nothing removes nothing."
                    raise InputError(file.path, problem, remedy) from None
                if len(waiting) == _BATCH:
                    sorter.append(np.array(waiting, np.uint64))
                    waiting = []
        sorter.append(np.array(waiting, np.uint64))
        last = np.zeros(0, np.uint64)
        for records in sorter.sorted():
            values = np.unique(records[:, 0])
            if len(last) and len(values) and values[0] == last[0]:
                values = values[1:]
            if len(values):
                last = values[-1:]
            values.astype("<u8").tofile(target)
            written += len(values)
    return written


def _lines(path: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of a list and their places: lines without comments, none of them empty.

    Raises:
        InputError: If the file is damaged or no text: half a list must not pass for one.
    """
    remedy = "Fetch or write the list again."
    number, rest = 0, b""
    with path.open("rb") as file:
        for chunk in read_chunks(file)[1]:
            if chunk.problem:
                raise InputError(name, f"the list is damaged: {chunk.problem}.", remedy)
            if not number and not rest and (why := refusal(chunk.data)):
                raise InputError(name, f"this is no list: {why}.", "Give a text file with one entry a line.")
            *whole, rest = (rest + chunk.data).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                raise InputError(
                    name, f"line {number + len(whole) + 1} is longer than 1 MiB.", "Write one entry a line."
                )
            for line in whole:
                number += 1
                yield from _entry(line, number)
    yield from _entry(rest, number + 1)


def _entry(line: bytes, number: int) -> Sequence[tuple[str, str]]:
    text = line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    text = _COMMENT.sub("", text).strip() if "#" in text else text.strip()
    return [(text, f"line {number}")] if text else []
