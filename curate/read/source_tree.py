"""What the folders around a source file say of it: its licence, and the repository it belongs to.

Looked at are the file's own folder and those above it, up to the fixed prefix of the input's path pattern and no
further: what lies outside the input says nothing. Licence files and package metadata count also where the pattern does
not match them (`code/**/*.py`); of a remote source, whose folders cannot be listed cheaply, only where it does.

- license: of the nearest folder that speaks of one (see `curate.read.licenses.license_of_folder`); license_source: the
  file that says so.
- repository: the nearest folder with a `.git`; else the prefix itself (`.`) if it holds package metadata; else the
  outermost folder below it that holds a file, so that `owner/name/...` is parted by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from curate.errors import InputError
from curate.read.licenses import LICENSE_FILE, MAX_LICENSE_BYTES, is_manifest, license_of_folder


@dataclass(slots=True)
class _Folder:
    """What a folder holds that says something, and what follows from that."""

    files: list[tuple[str, str]] = field(default_factory=list)  # name, address: licence files and package metadata
    is_repository: bool = False  # holds .git
    is_package: bool = False  # holds package metadata
    has_files: bool = False
    license: tuple[str, str] | None = None


def look_around(files: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return for each file a JSON object with license, license_source and repository, as far as they are known.

    Args:
        files: Address and path of every file of a source; the path is relative to its pattern's prefix.

    Raises:
        InputError: If a licence file cannot be read.
    """
    trees: dict[str, dict[str, _Folder]] = {}
    prefixes = [url[: len(url) - len(path)] if url.endswith(path) else "" for url, path in files]
    for prefix, (url, path) in zip(prefixes, files, strict=True):
        tree = trees.setdefault(prefix, {})
        for folder in _upward(path):
            if folder in tree:
                break
            tree[folder] = _Folder()
        if "://" in prefix:
            _note(tree[_parent(path)], path.rpartition("/")[2], url)
    for prefix, tree in trees.items():
        for name, one in tree.items():
            if "://" not in prefix and prefix:
                _list(prefix + name, one)
            one.license = _license(name, one)
    known: dict[tuple[str, str], str] = {}
    found = []
    for prefix, (_, path) in zip(prefixes, files, strict=True):
        place = (prefix, _parent(path))
        if place not in known:
            known[place] = _facts(trees[prefix], place[1])
        found.append(known[place])
    return tuple(found)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _upward(path: str) -> Iterable[str]:
    """Yield the folders of a path, the innermost first; the last is the prefix itself, an empty name."""
    folder = _parent(path)
    while folder:
        yield folder
        folder = _parent(folder)
    yield ""


def _note(folder: _Folder, name: str, url: str) -> None:
    folder.has_files = True
    folder.is_package = folder.is_package or is_manifest(name)
    if is_manifest(name) or LICENSE_FILE.match(name):
        folder.files.append((name, url))


def _list(place: str, folder: _Folder) -> None:
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name == ".git":
                    folder.is_repository = True
                elif entry.is_file():
                    _note(folder, entry.name, entry.path)
    except OSError as error:
        raise InputError(place, f"this folder cannot be listed: {error.strerror}.", "Check its permissions.") from error


def _license(name: str, folder: _Folder) -> tuple[str, str] | None:
    contents = [(file, _head(url)) for file, url in sorted(folder.files)]
    found = license_of_folder(contents)
    return None if found is None else (found[0], f"{name}/{found[1]}" if name else found[1])


def _head(url: str) -> bytes:
    import fsspec

    try:
        if "://" not in url:
            with open(url, "rb") as local:  # noqa: PTH123 - of an address that may be anything, as it was listed
                return local.read(MAX_LICENSE_BYTES)
        with fsspec.open(url, "rb") as remote:
            head = remote.read(MAX_LICENSE_BYTES)
            return bytes(head)
    except Exception as error:
        problem = f"this licence or package file cannot be read: {type(error).__name__}: {str(error).rstrip('.')}."
        raise InputError(url, problem, "Check its permissions, or the network.") from error


def _facts(tree: Mapping[str, _Folder], inner: str) -> str:
    facts: dict[str, str] = {}
    folders = list(_upward(inner + "/"))
    for folder in folders:
        if (found := tree[folder].license) is not None:
            facts["license"], facts["license_source"] = found
            break
    repository = next((folder for folder in folders if tree[folder].is_repository), None)
    if repository is None:
        below = reversed(folders[:-1])
        repository = "" if tree[""].is_package else next((folder for folder in below if tree[folder].has_files), None)
    if repository is not None:
        facts["repository"] = repository or "."
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":")) if facts else ""
