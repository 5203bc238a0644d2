"""Arithmetic on 64-bit numbers that compiled code shares: the mix that our hashes are made of, and bits found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from curate.compiled import compiled

_Array = TypeVar("_Array", bound=np.ndarray[Any, Any])

GAMMA = 0x9E3779B97F4A7C15  # of SplitMix64: 2**64 over the golden ratio, odd
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31 = np.uint64(27), np.uint64(30), np.uint64(31)


@compiled
def mix(value: np.uint64) -> np.uint64:
    """Return the 64-bit finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection all of whose bits depend on all."""
    z = (value ^ (value >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return z ^ (z >> _31)


def eight_bytes(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return the number of eight bytes, little-endian, that begins at each byte but the last seven.

    For compiled code, which reads and writes such numbers wherever they begin. Without a copy, but for less than nine bytes:
    an array of one number is contiguous, another type to numba, and kernels would be compiled anew.
    """
    if len(data) < 9:
        longer = np.zeros(16, np.uint8)
        longer[: len(data)] = data
        longer.flags.writeable = data.flags.writeable
        data = longer
    return np.ndarray(len(data) - 7, "<u8", data, strides=(1,))


def _count_trailing_zeros(typing_context: Any, number: Any) -> Any:
    del typing_context, number

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))  # nobody asks for the zeros of 0

    return types.int64(types.uint64), generate


# How many bits of a number other than 0 are 0 below its lowest 1; compiled code only.
trailing_zeros = cast(Callable[[np.uint64], int], intrinsic(_count_trailing_zeros))


def _borrowed(typing_context: Any, array: Any) -> Any:
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.return_type)(context, builder, value=arguments[0])
        view.meminfo = ir.Constant(view.meminfo.type, None)
        return view._getvalue()

    return array(array), generate


# The same array without a count of references; compiled code only. Its callers keep the array: counting, which is atomic,
# costs as much as a word wherever an array is handed on to a function that is not inlined.
borrowed = cast(Callable[[_Array], _Array], intrinsic(_borrowed))
