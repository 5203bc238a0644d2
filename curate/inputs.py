"""Input files: path patterns to a sorted list, each with its digest. Paths are fsspec URLs or local paths.

A path that exists is taken literally, whatever signs are in its name, and so is each folder on the way to it; a folder
means every file below it. Otherwise `*`, `?`, `[...]` and `**` (any number of folders) are a pattern, which never reaches
into the name of the recipe's own folder. `~` is the home folder. Links to folders are not followed (they may loop); a file
reached under two names is read once, under its first name.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from curate.errors import InputError

if TYPE_CHECKING:
    from curate.cache import Cache

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_RETRIES = 4
_HEAD_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file to read.

    Attributes:
        url: Where it is: a local path or an fsspec URL.
        pattern: Index of the pattern that found it, or None if the source has one pattern.
        path: Name relative to the fixed prefix of the pattern, with forward slashes; part of every document id.
        bytes: Size.
        digest: sha256 of a local file; of URL, size and ETag, or time of the last change, for a remote one.
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
    found = [file for file in _walk(prefix) if matches(file.relative_to(prefix).as_posix())]
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
                    digest = cache.digest(member) if cache is not None else ""
                    name = member.relative_to(prefix).as_posix()
                    found.append(InputFile(str(member), pattern, name, member.stat().st_size, digest))
        if not found:
            remedy = "A file is read once, under the first path that matches it: take this path out."
            raise InputError(path, "every file that matches is matched by a path before this one.", remedy)
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
            url = filesystem.unstrip_protocol(name)
            size = int(facts.get("size") or 0)
            found.append(InputFile(url, pattern, name.removeprefix(prefix), size, _remote_digest(url, size, facts)))
    except Exception as error:
        problem = f"cannot be listed: {type(error).__name__}: {str(error).rstrip('.')}."
        raise InputError(path, problem, "Check the address and the network.") from error
    if not found:
        raise InputError(path, "no file matches.", "Check the address.")
    return found


# What file systems call the time of the last change, in the order in which one is believed.
_CHANGED = ("Last-Modified", "LastModified", "last_modified", "updated", "mtime", "generation", "created")
_CHECKSUMS = ("ETag", "etag", "Content-MD5", "content_md5", "md5Hash", "Digest", "sha", "checksum")


def _remote_digest(url: str, size: int, facts: Mapping[str, Any]) -> str:
    """Return what tells this version of a remote file from another without reading it.

    That is its address, its size, and its ETag or another checksum; where the server gives none, when it was last
    changed. A server that tells neither can change a file unseen, as long as its size stays.
    """
    import hashlib

    version = _version(facts)
    if not version and url.startswith(("http://", "https://")):
        version = _version(_headers(url))
    return hashlib.sha256(f"{url}\n{size}\n{version}".encode()).hexdigest()


def _version(facts: Mapping[str, Any]) -> str:
    return next((str(facts[name]) for name in (*_CHECKSUMS, *_CHANGED) if facts.get(name)), "")


def _headers(url: str) -> Mapping[str, str]:
    """Return the headers of an HTTP address, for file systems that keep none of them; empty if it does not answer."""
    import urllib.request

    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=_HEAD_SECONDS) as answer:
            return dict(answer.headers.items())
    except (OSError, ValueError):
        return {}


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
            problem = f"{type(error).__name__}: {str(error).rstrip('.')}"
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
