"""Input files: path patterns to a sorted list, each with its digest. Paths are fsspec URLs or local paths.

A path that exists is taken literally, whatever signs are in its name; a folder means every file below it. Otherwise
`*`, `?`, `[...]` and `**` (any number of folders) are a pattern. Links to folders are not followed (they may loop); a file
reached under two names is read once, under its first name.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from curate.errors import InputError

if TYPE_CHECKING:
    from curate.cache import Cache

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_RETRIES = 4


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file to read.

    Attributes:
        url: Where it is: a local path or an fsspec URL.
        pattern: Index of the pattern that found it, or None if the source has one pattern.
        path: Name relative to the fixed prefix of the pattern, with forward slashes; part of every document id.
        bytes: Size.
        digest: sha256 of a local file; of URL, size and etag for a remote one.
    """

    url: str
    pattern: int | None
    path: str
    bytes: int
    digest: str


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


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(files):
            yield Path(place, name)


def _local(path: str) -> tuple[Path, list[Path]]:
    """Return the fixed prefix and the files of a local path or pattern, sorted by relative name."""
    literal = Path(path.removeprefix("file://"))
    if literal.is_dir():
        return literal, list(_walk(literal))
    if literal.exists():
        return literal.parent, [literal]
    parts = literal.parts
    first = next((index for index, part in enumerate(parts) if any(sign in part for sign in "*?[")), None)
    if first is None:
        return literal.parent, []
    prefix = Path(*parts[:first]) if first else Path()
    matches = _compile("/".join(parts[first:])).match
    return prefix, [file for file in _walk(prefix) if matches(file.relative_to(prefix).as_posix())]


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
            prefix, members = _local(os.path.join(base, path))  # noqa: PTH118 (Path would collapse a leading dash or //)
            found = []
            for member in sorted(members, key=lambda file: file.relative_to(prefix).as_posix()):
                real = member.resolve()
                if real not in seen and real.is_file():
                    seen.add(real)
                    digest = cache.digest(member) if cache is not None else ""
                    name = member.relative_to(prefix).as_posix()
                    found.append(InputFile(str(member), pattern, name, member.stat().st_size, digest))
        if not found:
            raise InputError(path, "no file matches.", f"Relative paths start at the recipe's folder, {base}.")
        files.extend(found)
    return files


def _remote(path: str, pattern: int | None) -> list[InputFile]:
    import fsspec

    try:
        filesystem, location = fsspec.core.url_to_fs(path)
        names = sorted(filesystem.glob(location)) if any(sign in path for sign in "*[") else [location]
        prefix = location[: min((location.find(sign) for sign in "*[" if sign in location), default=len(location))]
        prefix = prefix[: prefix.rfind("/") + 1]
        found = []
        for name in names:
            facts = filesystem.info(name)
            etag = facts.get("ETag") or facts.get("etag") or facts.get("mtime") or ""
            url = filesystem.unstrip_protocol(name)
            digest = _remote_digest(url, int(facts.get("size") or 0), str(etag))
            found.append(InputFile(url, pattern, name.removeprefix(prefix), int(facts.get("size") or 0), digest))
    except Exception as error:
        raise InputError(
            path, f"cannot be listed: {type(error).__name__}: {error}.", "Check the address and the network."
        ) from error
    return found


def _remote_digest(url: str, size: int, etag: str) -> str:
    import hashlib

    return hashlib.sha256(f"{url}\n{size}\n{etag}".encode()).hexdigest()


def fetch(file: InputFile, folder: Path) -> Path:
    """Return a local copy of the file: itself if local, else downloaded whole into `folder`.

    Raises:
        InputError: If the download stays shorter than the size that the server stated, after several attempts.
    """
    if not is_remote(file.url):
        return Path(file.url.removeprefix("file://"))
    import shutil

    import fsspec

    target = folder / re.sub(r"[^\w.\-]", "_", file.path)[-120:]
    problem = ""
    for _ in range(_RETRIES):
        try:
            with fsspec.open(file.url, "rb") as remote, target.open("wb") as local:
                shutil.copyfileobj(remote, local, 1 << 20)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            continue
        got = target.stat().st_size
        if not file.bytes or got == file.bytes:
            return target
        problem = f"{got} of {file.bytes} bytes arrived"
    raise InputError(file.url, f"cannot be downloaded: {problem}.", "Run again: what is finished stays.")


def open_input(path: Path) -> IO[bytes]:
    """Open a local input file as stored."""
    return path.open("rb")


@functools.lru_cache
def fixed_shards(sizes: tuple[int, ...], most_bytes: int, most_files: int) -> tuple[tuple[int, ...], ...]:
    """Group file numbers into shards: neighbours together until a shard is full; a large file stands alone.

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
