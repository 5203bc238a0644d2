"""How kernels are compiled: by numba, to machine code that is kept where there is a folder for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., Any])


def compiled(function: _F) -> _F:
    """Compile a function. No fast-math, no parallel loops: the same bits on every machine."""
    try:
        return cast(_F, numba.njit(cache=True)(function))
    except RuntimeError:  # no folder to keep machine code in: compile in each process
        return cast(_F, numba.njit(function))
