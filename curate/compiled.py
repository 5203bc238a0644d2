"""How kernels are compiled: by numba, to machine code that is kept where there is a folder for it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., Any])

_IMPORT = re.compile(r"^(?:from|import) (curate[\w.]*)", re.MULTILINE)


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


@cache
def source_stamp(path: Path) -> str:
    """Return a digest of a file and of all files of curate that it imports, one through another."""
    root = Path(__file__).resolve().parents[1]
    texts: dict[str, bytes] = {}
    todo = [path]
    while todo:
        found = todo.pop()
        texts[str(found)] = found.read_bytes()
        for name in _IMPORT.findall(texts[str(found)].decode("utf-8")):
            file = root.joinpath(*name.split(".")).with_suffix(".py")
            if file.is_file() and str(file) not in texts:
                todo.append(file)
    return hashlib.sha256(b"\0".join(texts[name] for name in sorted(texts))).hexdigest()
