"""How kernels are compiled: by numba, to machine code that is kept where there is a folder for it; tables that are kept beside it."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import unicodedata
import zipfile
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
import regex

_F = TypeVar("_F", bound=Callable[..., Any])

_IMPORT = re.compile(r"^(?:from|import) (curate[\w.]*)(?: import ([\w, ]+))?", re.MULTILINE)


def compiled(function: _F) -> _F:
    """Compile a function. No fast-math, no parallel loops: the same bits on every machine.

    The machine code is kept for as long as neither the function's file changes nor one that it imports: other kernels and
    constants are part of it. numba by itself looks at the function's own file alone, and would go on with the old ones.
    """
    try:
        kernel: Any = numba.njit(cache=True)(function)
        index = kernel._cache._cache_file
        assert hasattr(index, "_source_stamp"), "numba keeps the stamp of the source elsewhere"
    except (RuntimeError, AttributeError, AssertionError):  # nowhere to keep machine code, or no way to tell it is old
        return cast(_F, numba.njit(function))
    index._source_stamp = source_stamp(Path(function.__code__.co_filename))
    return cast(_F, kernel)


_Array = TypeVar("_Array", bound=np.ndarray[Any, Any])
_UNICODE = (unicodedata.unidata_version, regex.__version__)  # of the two sources of what is known of characters


def kept_table(build: Callable[[], _Array]) -> Callable[[], _Array]:
    """Return a function that gives the array that `build` makes: once per process, and once per machine where that can be kept.

    A table of all code points takes half a second to make, in each process. It is kept beside the machine code, for as
    long as neither the file of `build`, one that it imports, nor what is known of Unicode changes. It is read-only.
    """

    @cache
    @wraps(build)
    def table() -> _Array:
        source = Path(build.__code__.co_filename)
        name = f"{source.stem}.{build.__name__}"
        stamp = hashlib.sha256("|".join((source_stamp(source), *_UNICODE)).encode()).hexdigest()[:16]
        path = source.parent / "__pycache__" / f"{name}-{stamp}.npy"
        try:
            found = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):  # not there, or damaged
            found = build()
            _keep(path, found, name)
        found.setflags(write=False)
        return cast(_Array, found)

    return table


def _keep(path: Path, array: np.ndarray[Any, Any], name: str) -> None:
    """Write an array in one step, and remove what was kept before under its name; do without where that is not allowed."""
    try:
        path.parent.mkdir(exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            np.save(file, array)
        Path(temporary).replace(path)
        for old in path.parent.glob(f"{name}-*.npy"):
            if old != path:
                old.unlink(missing_ok=True)
    except OSError:
        return


@cache
def source_stamp(path: Path) -> str:
    """Return a digest of a file and of all files of curate that it imports, one through another."""
    root = Path(__file__).resolve().parents[1]
    texts: dict[str, bytes] = {}
    todo = [path]
    while todo:
        found = todo.pop()
        texts[str(found)] = found.read_bytes()
        for module, names in _IMPORT.findall(texts[str(found)].decode("utf-8")):
            # `from package import module` names a file, too
            inside = [name.split()[0] for name in names.split(",") if name.strip()]
            for path_of in (module, *(f"{module}.{name}" for name in inside)):
                file = root.joinpath(*path_of.split(".")).with_suffix(".py")
                if file.is_file() and str(file) not in texts:
                    todo.append(file)
    return hashlib.sha256(b"\0".join(texts[name] for name in sorted(texts))).hexdigest()
