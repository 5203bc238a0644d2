"""Input files: path patterns to a sorted list, each with its digest; large files in parts. Paths are fsspec URLs or local.

A path that exists is taken literally, whatever signs are in its name, and so is each folder on the way to it; a folder
means every file below it. Otherwise `*`, `?`, `[...]` and `**` (any number of folders) are a pattern, which never reaches
into the name of the recipe's own folder. `~` is the home folder. Links to folders are not followed (they may loop); a file
reached under two names is read once, under its first name.
"""

from __future__ import annotations

import functools
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from curate.errors import InputError
from curate.remote import BLOCK_BYTES, WAITS, NotInRanges, RangeReader, Remote, download, list_remote
from curate.stage import START, Cut

if TYPE_CHECKING:
    from curate.cache import Cache

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file to read.

    Attributes:
        url: Where it is: a local path or an fsspec URL.
        pattern: Index of the pattern that found it, or None if the source has one pattern.
        path: Name relative to the fixed prefix of the pattern, with forward slashes; part of every document id.
        bytes: Size.
        digest: sha256 of a local file; of URL, size and ETag, or time of the last change, for a remote one.
        remote: What its listing says, if it is remote.
        around: What the folders around it say of it, as `Source.surroundings` gives it.
    """

    url: str
    pattern: int | None
    path: str
    bytes: int
    digest: str
    remote: Remote | None = None
    around: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """What one task reads of a file: the records from `start` on that begin before `stop`, or all that follow."""

    file: InputFile
    start: Cut = START
    stop: Cut | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether it is all of the file."""
        return self.start == START and self.stop is None

    @property
    def last_byte(self) -> int:
        """Return the place in the stored file where it ends, but for the rest of its last record."""
        return self.file.bytes if self.stop is None else self.stop.byte

    @property
    def bytes(self) -> int:
        """Return its share of the stored file."""
        return self.last_byte - self.start.byte

    def identity(self) -> list[int | str | None]:
        """Return what it adds to the key of a result: file, content, and the range if there is one."""
        of_file: list[int | str | None] = [self.file.pattern, self.file.path, self.file.digest]
        of_file += [self.file.around] if self.file.around else []
        if self.is_whole:
            return of_file
        stop = [None, None] if self.stop is None else [self.stop.offset, self.stop.byte]
        return [*of_file, self.start.offset, self.start.byte, *stop]


def is_remote(path: str) -> bool:
    """Return whether a path is an fsspec URL other than file://."""
    return "://" in path and not path.startswith("file://")


def expand_variables(path: str) -> str:
    """Replace `${NAME}` and `${NAME:-default}` from the environment.

    Raises:
        ValueError: If a variable without a default is not set.
    """

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1], match[2])
        if found is None:
            raise ValueError(
                f"the environment variable {match[1]} is not set. Set it, or write ${{{match[1]}:-default}}."
            )
        return found

    return _VARIABLE.sub(value, path)


def _compile(pattern: str) -> re.Pattern[str]:
    out, position = "", 0
    while position < len(pattern):
        sign = pattern[position]
        if pattern.startswith("**/", position):
            out, position = out + r"(?:[^/]+/)*", position + 3
        elif pattern.startswith("**", position):
            out, position = out + r".*", position + 2
        elif sign == "*":
            out, position = out + r"[^/]*", position + 1
        elif sign == "?":
            out, position = out + r"[^/]", position + 1
        elif sign == "[" and (end := pattern.find("]", position + 2)) > 0:
            inside = pattern[position + 1 : end].replace("\\", r"\\")
            inside = "^" + inside[1:] if inside.startswith("!") else inside
            out, position = out + f"[{inside}]", end + 1
        else:
            out, position = out + re.escape(sign), position + 1
    return re.compile(out + r"\Z", re.DOTALL)


def _walk(folder: Path, enters: Callable[[str], bool] | None = None) -> Iterator[Path]:
    """Yield the files below a folder.

    Args:
        folder: Where to begin.
        enters: Tells whether a folder, by its path relative to `folder`, is looked into.

    Raises:
        InputError: If a folder that is looked into cannot be read: what it holds would be left out unsaid.
    """

    def refuse(error: OSError) -> None:
        problem = f"this folder cannot be read: {error.strerror}."
        raise InputError(str(error.filename), problem, "Give the right to read it, or name narrower paths.") from error

    for place, folders, files in os.walk(folder, followlinks=False, onerror=refuse):
        inside = Path(place).relative_to(folder)
        folders[:] = sorted(name for name in folders if enters is None or enters((inside / name).as_posix()))
        for name in sorted(files):
            yield Path(place, name)


def _may_lead(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether below a folder, by its relative path, a file may match the pattern."""
    parts = pattern.split("/")
    deep = next((place for place, part in enumerate(parts) if "**" in part or "[" in part), len(parts))
    matches = [_compile("/".join(parts[:depth])).match for depth in range(1, len(parts))]

    def may(folder: str) -> bool:
        depth = folder.count("/") + 1
        if depth > deep:  # below `**` any depth is possible; a class of signs may be cut apart by this splitting
            return not deep or matches[deep - 1]("/".join(folder.split("/")[:deep])) is not None
        return depth < len(parts) and matches[depth - 1](folder) is not None

    return may


def _split(base: Path, parts: Sequence[str]) -> tuple[Path, str]:
    """Split a path below `base` into its literal folder and the pattern behind that; the pattern is empty if no part is one.

    A folder that exists is taken literally, whatever signs are in its name.
    """
    for index, part in enumerate(parts):
        if any(sign in part for sign in "*?[") and not (base / Path(*parts[: index + 1])).is_dir():
            return base / Path(*parts[:index]), os.path.normpath("/".join(parts[index:]))  # x*/../y means y
    return base / Path(*parts), ""


def _local(path: str, base: Path) -> tuple[Path, list[Path]]:
    """Return the fixed prefix and the files of a local path or pattern, sorted by relative name.

    Args:
        path: What the user wrote: relative to `base`, absolute, below `~`, or a file:// URL.
        base: Folder of the recipe. No sign in its name is a pattern.

    Raises:
        InputError: If nothing, or nothing that can be read, is there.
    """
    own = path.removeprefix("file://")
    literal = base / own
    if own.startswith("~") and not literal.exists():
        literal = base / Path(own).expanduser()
    if literal.is_dir():
        files = list(_walk(literal))
        if not any(file.is_file() for file in files):
            raise InputError(path, "this folder holds no file.", "Put the input there, or name another path.")
        return literal, files
    if literal.is_file():
        return literal.parent, [literal]
    if literal.exists() or literal.is_symlink():
        raise InputError(path, f"this is {_what(literal)}, not a file.", "Copy what it gives to a file first.")
    # The recipe's folder is no pattern: only what stands behind it is split.
    inside = literal.parts[: len(base.parts)] == base.parts
    prefix, pattern = _split(base, literal.parts[len(base.parts) :] if inside else literal.parts)
    where = f"Relative paths start at the recipe's folder ({base.resolve()})."
    if not pattern:
        near = next(parent for parent in literal.parents if parent.is_dir())
        raise InputError(path, f"no file matches: there is nothing of this name in {near.resolve()}.", where)
    if not prefix.is_dir():
        raise InputError(path, f"no file matches: there is no folder {prefix}.", where)
    matches = _compile(pattern).match
    found = [file for file in _walk(prefix, _may_lead(pattern)) if matches(file.relative_to(prefix).as_posix())]
    if not found:
        folders = sorted(
            place
            for place in (Path(place) for place, *_ in os.walk(prefix))
            if matches(place.relative_to(prefix).as_posix())
        )
        if folders:
            remedy = "For the files below a folder, write ** behind it, as in folder/**."
            raise InputError(path, f"no file matches, only folders, such as {folders[0]}.", remedy)
        raise InputError(path, "no file matches.", where)
    if not any(file.is_file() for file in found):
        raise InputError(
            path, f"no file matches, only {_what(found[0])} ({found[0]}).", "Copy what it gives to a file."
        )
    return prefix, found


def _what(path: Path) -> str:
    """Return what a path is that is neither a file nor a folder."""
    if path.is_symlink() and not path.exists():
        return "a link to something that is not there"
    kinds = {
        "a named pipe": path.is_fifo,
        "a device": lambda: path.is_char_device() or path.is_block_device(),
        "a socket": path.is_socket,
    }
    return next((name for name, test in kinds.items() if test()), "something else")


def list_inputs(paths: Sequence[str], base: Path, cache: Cache | None) -> list[InputFile]:
    """Return the files that the paths of a source mean, in canonical order (pattern, then relative path).

    Args:
        paths: Paths or patterns with variables already expanded.
        base: Folder against which relative local paths are taken.
        cache: For digests; None leaves them empty (a check touches nothing).

    Raises:
        InputError: If a path or pattern matches nothing.
    """
    files: list[InputFile] = []
    seen: set[Path] = set()
    for index, path in enumerate(paths):
        pattern = index if len(paths) > 1 else None
        if is_remote(path):
            found = _remote(path, pattern)
        else:
            prefix, members = _local(path, base)
            found = []
            for member in sorted(members, key=lambda file: file.relative_to(prefix).as_posix()):
                real = member.resolve()
                if real not in seen and real.is_file():
                    seen.add(real)
                    _refuse_undecodable(member)
                    digest = cache.digest(member) if cache is not None else ""
                    name = member.relative_to(prefix).as_posix()
                    found.append(InputFile(str(member), pattern, name, member.stat().st_size, digest))
        if not found:
            remedy = "A file is read once, under the first path that matches it: take this path out."
            raise InputError(path, "every file that matches is matched by a path before this one.", remedy)
        files.extend(found)
    return files


def _refuse_undecodable(file: Path) -> None:
    """Raise InputError for a name that is no UTF-8: the path is part of every document id, and a stand-in could meet another's."""
    try:
        str(file).encode("utf-8")
    except UnicodeEncodeError as error:
        folder, name = (os.fsencode(part).decode("utf-8", "backslashreplace") for part in (file.parent, file.name))
        problem = (
            f"the file name '{name}' is not UTF-8" if folder == str(file.parent) else "this folder's name is not UTF-8"
        )
        remedy = "Rename it, or name narrower paths: names are part of the documents' ids."
        raise InputError(folder, f"{problem}.", remedy) from error


def _remote(path: str, pattern: int | None) -> list[InputFile]:
    return [InputFile(file.url, pattern, name, file.bytes, file.digest, file) for name, file in list_remote(path)]


def fetch(file: InputFile, folder: Path, waits: tuple[float, ...] = WAITS) -> Path:
    """Return a local copy of the file: itself if local, else downloaded whole into `folder`.

    Args:
        file: The file.
        folder: For a download.
        waits: Seconds before each further attempt.

    Raises:
        InputError: If the download does not arrive whole and right, after several attempts.
    """
    if file.remote is None:
        return Path(file.url.removeprefix("file://"))
    target = folder / _local_name(file)
    download(file.remote, target, waits)
    return target


def _local_name(file: InputFile) -> str:
    return re.sub(r"[^\w.\-]", "_", file.path)[-120:]


def open_part(
    part: Part, folder: Path, *, most: int | None = None, sparing: bool = False, waits: tuple[float, ...] = WAITS
) -> IO[bytes]:
    """Open the file that a part is of: a local one where it is, a remote one as a local copy of what is needed of it.

    Args:
        part: The part; a remote file that is wanted whole is downloaded first.
        folder: For local copies.
        most: Bytes of a remote file that may be read through ranges, for a look at it; NotInRanges is raised beyond.
        sparing: Whether reading may end early, so that a whole remote file is better not fetched at once.
        waits: Seconds before each further attempt at a transfer.

    Raises:
        InputError: As `fetch`, here and while a range is read.
    """
    remote = part.file.remote
    if remote is None or (part.is_whole and most is None and not (sparing and remote.bytes)):
        return open_input(fetch(part.file, folder, waits))
    reader = RangeReader(remote, folder / _local_name(part.file), part.last_byte, most, waits)
    stream = io.BufferedReader(reader, BLOCK_BYTES)
    if sparing and part.is_whole:
        try:
            stream.peek(1)
        except NotInRanges:
            stream.close()
            return open_input(fetch(part.file, folder, waits))
    return stream


def open_input(path: Path) -> IO[bytes]:
    """Open a local input file as stored."""
    return path.open("rb")


@functools.lru_cache
def fixed_shards(sizes: tuple[int, ...], most_bytes: int, most_files: int) -> tuple[tuple[int, ...], ...]:
    """Group part numbers into shards: neighbours together until a shard is full; a large part stands alone.

    Depends on the sizes alone, so the same inputs make the same shards on every machine.
    """
    shards: list[list[int]] = []
    filled = 0
    for number, size in enumerate(sizes):
        if not shards or filled + size > most_bytes or len(shards[-1]) >= most_files:
            shards.append([])
            filled = 0
        shards[-1].append(number)
        filled += size
    return tuple(tuple(shard) for shard in shards)


def parts_of(file: InputFile, cuts: Sequence[Cut]) -> list[Part]:
    """Return a file in parts, in order."""
    return [Part(file, start, stop) for start, stop in zip((START, *cuts), (*cuts, None), strict=True)]
