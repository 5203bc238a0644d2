"""How the kernels of the scanner are compiled: one entry is cached, all below it goes into its machine code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from curate.compiled import compiled

_compile: Any = numba.njit  # its types do not know `_nrt`

_F = TypeVar("_F", bound=Callable[..., Any])


def _once_for_constants(kernel: Any) -> Any:
    """Keep numba from compiling a kernel anew for each constant that another kernel calls it with; return the kernel.

    numba takes the type of a constant to be that constant: `f(d, 0)` and `f(d, 1)` are two functions beside `f(d, i)`, and
    one that a loop begins with is compiled in vain, as the variable turns out to be any number. It took a third of the time.
    """
    of_types = kernel.get_call_template
    plain: Any = numba.types.unliteral

    def get_call_template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return of_types(tuple(map(plain, args)), {name: plain(one) for name, one in kws.items()})

    kernel.get_call_template = get_call_template
    return kernel


def kernel(function: _F) -> _F:
    """Compile a function that other kernels call.

    Without numba's counting of references (`_nrt`): no kernel makes an array, and counting them at each call made the
    scan five times slower. Not cached by itself: numba's cache sees changes of the function's own file and no other.
    """
    return cast(_F, _once_for_constants(_compile(_nrt=False)(function)))


def inlined_kernel(function: _F) -> _F:
    """Compile a function into its callers, where it runs for every tag: handing over ten arrays costs more than it does."""
    return cast(_F, _once_for_constants(_compile(_nrt=False, forceinline=True)(function)))


def cached_kernel(function: _F) -> _F:
    """Compile the one kernel that Python calls. It must close over `source_stamp()`, which numba makes part of its key."""
    try:
        return cast(_F, _once_for_constants(_compile(cache=True, _nrt=False)(function)))
    except RuntimeError:  # no folder to cache machine code in: compile in each process
        return kernel(function)


def array_kernel(function: _F) -> _F:
    """Compile a function that makes arrays, and that other kernels call."""
    return cast(_F, _once_for_constants(_compile(function)))


def cached_array_kernel(function: _F) -> _F:
    """Compile a kernel that makes arrays and that Python calls. If it uses other files, it must close over their stamp."""
    return compiled(function)


SCANNER = ("kernel", "tags", "state", "characters", "markup", "blocks", "scan")


def source_stamp(*names: str) -> int:
    """Return a number that changes with the source of any of these files: by default those of the scanner."""
    digest = hashlib.sha256()
    for name in names or SCANNER:
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return int.from_bytes(digest.digest()[:4], "big")
