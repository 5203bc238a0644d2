"""Hashes of the folded words of a whole batch: `curate.words.hash_word` of `curate.words.folded_words`, by one kernel.

A run without white space is left to the functions themselves, each distinct one of a batch once, if a character of it
folds to several, or if a word of it is longer than 128 bytes. What a run is folded to depends on that run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.text.characters import ASSIGNED, JOINERS, NUM_CODE_POINTS, SCRIPTS, Bytes, Int64s, Uint64s, decode, members

Uint32s = npt.NDArray[np.uint32]
_LONGEST = 128  # bytes of a word that is hashed here
# Bits of `_folding`, above those of the folded code point. All but the first are of that.
_CODE = (1 << 21) - 1
_SPACE, _GONE, _SEVERAL, _WORD, _UNSPACED, _ATTACHED = (1 << bit for bit in range(21, 27))


class _Found(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """What the kernel found; the room for runs is that of the words.

    Attributes:
        hashes: Of the words of runs that are not left over, in order.
        runs: Of each run left over, the number of hashes before it, its first byte and its end, shape (room, 3).
        num_hashes: Hashes up to the end of each row, from 0 on, shape (rows + 1,).
        num_runs: Runs left over up to the end of each row.
    """

    hashes: Uint64s
    runs: Int64s
    num_hashes: Int64s
    num_runs: Int64s


def folded_hashes(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    fold_sign: Callable[[str], str],
    hash_run: Callable[[str], Sequence[int]],
) -> tuple[Uint64s, Int64s]:
    """Return the hashes of the folded words of all rows, and where those of each row begin, shape (rows + 1,).

    Args:
        data: UTF-8 of all rows.
        starts: Where each row's text begins, shape (rows,).
        ends: Where it ends.
        fold_sign: Returns what a character is folded to: always the same function.
        hash_run: Returns the hashes of the folded words of a run without white space.
    """
    rows = len(starts)
    most = int((ends - starts).sum()) + rows
    counts = np.zeros(rows + 1, np.int64), np.zeros(rows + 1, np.int64)
    found = _Found(np.empty(most, np.uint64), np.empty((most, 3), np.int64), *counts)
    _hash_rows(data, starts, ends, _folding(fold_sign), _secret(), found)
    hashes, runs = found.hashes[: found.num_hashes[-1]], found.runs[: found.num_runs[-1]]
    if len(runs) == 0:
        return hashes.copy(), found.num_hashes
    memo: dict[bytes, Sequence[int]] = {}  # of this batch alone: nothing may depend on what was seen before, nor grow
    others: list[int] = []
    sizes = np.empty(len(runs), np.int64)
    for index, (first, end) in enumerate(runs[:, 1:].tolist()):
        run = data[first:end].tobytes()
        values = memo.get(run)
        if values is None:
            values = memo[run] = hash_run(run.decode())
        others += values
        sizes[index] = len(values)
    more = np.concatenate(([0], np.cumsum(sizes)))
    places = np.repeat(runs[:, 0], sizes)
    return np.insert(hashes, places, np.array(others, np.uint64)), found.num_hashes + more[found.num_runs]


@lru_cache(maxsize=1)
def _folding(fold_sign: Callable[[str], str]) -> Uint32s:
    """Return what each code point is folded to, and bits, shape (0x110000,)."""
    table = np.arange(NUM_CODE_POINTS, dtype=np.uint32)
    for codes in ASSIGNED:
        folded = [fold_sign(chr(code)) for code in codes]
        table[codes.start : codes.stop] = [
            ord(sign) if len(sign) == 1 else _SEVERAL if sign else _GONE for sign in folded
        ]
    several = table & np.uint32(_SEVERAL | _GONE) != 0
    bits = np.zeros(NUM_CODE_POINTS, np.uint32)
    bits[members(r"[\p{L}\p{N}\p{M}]")] |= np.uint32(_WORD)
    bits[members(f"[{SCRIPTS}]")] |= np.uint32(_UNSPACED)
    bits[members(rf"[\p{{M}}{JOINERS}]")] |= np.uint32(_ATTACHED)
    table |= np.where(several, np.uint32(0), bits[table & np.uint32(_CODE)])
    for codes in ASSIGNED:
        is_space = np.array([chr(code).isspace() for code in codes])
        table[codes.start : codes.stop][is_space] |= np.uint32(_SPACE)
    return table


@compiled
def _hash_rows(data: Bytes, starts: Int64s, ends: Int64s, folding: Uint32s, secret: Uint64s, found: _Found) -> None:
    word = np.zeros(_LONGEST + 4, np.uint8)
    num_hashes = num_runs = 0
    for row in range(len(starts)):
        i, stop = starts[row], ends[row]
        while i < stop:
            code, step = decode(data, i, stop)
            if folding[code] & _SPACE != 0:
                i += step
                continue
            first = i
            i, count = _hash_run(data, first, stop, folding, secret, word, found.hashes, num_hashes)
            if count >= 0:
                num_hashes = count
                continue
            found.runs[num_runs, 0] = num_hashes
            found.runs[num_runs, 1] = first
            found.runs[num_runs, 2] = i
            num_runs += 1
        found.num_hashes[row + 1] = num_hashes
        found.num_runs[row + 1] = num_runs


@compiled
def _hash_run(
    data: Bytes, i: int, stop: int, folding: Uint32s, secret: Uint64s, word: Bytes, hashes: Uint64s, count: int
) -> tuple[int, int]:
    """Write the hashes of the words of the run at `i`; return its end, and how many there are then, -1 if left over."""
    size = kept = 0  # bytes of the word, and up to its last letter, mark or digit
    is_unspaced = is_left = False  # whether the word began with a character of a script without spaces; is left over
    while i < stop:
        code, step = decode(data, i, stop)
        folded = int(folding[code])
        if folded & _SPACE != 0:
            break
        i += step
        if folded & _GONE != 0:
            continue
        is_left = is_left or folded & _SEVERAL != 0
        begins = folded & _UNSPACED != 0 and not (is_unspaced and folded & _ATTACHED != 0)
        if begins or (is_unspaced and folded & _ATTACHED == 0):
            if kept > 0:
                hashes[count] = _xxh3(word, kept, secret)
                count += 1
            size = kept = 0
            is_unspaced = begins
        if size > 0 or folded & _WORD != 0:
            if size >= _LONGEST - 3:
                is_left = True
                size = 0
            size = _encode(word, size, folded & _CODE)
            if folded & _WORD != 0:
                kept = size
    if is_left:
        return i, -1
    if kept > 0:
        hashes[count] = _xxh3(word, kept, secret)
        count += 1
    return i, count


@compiled
def _encode(word: Bytes, place: int, code: int) -> int:
    """Write a code point as UTF-8; return the place behind it."""
    if code < 0x80:
        word[place] = code
        return place + 1
    if code < 0x800:
        word[place] = 0xC0 | code >> 6
        word[place + 1] = 0x80 | code & 0x3F
        return place + 2
    if code < 0x10000:
        word[place] = 0xE0 | code >> 12
        word[place + 1] = 0x80 | code >> 6 & 0x3F
        word[place + 2] = 0x80 | code & 0x3F
        return place + 3
    word[place] = 0xF0 | code >> 18
    word[place + 1] = 0x80 | code >> 12 & 0x3F
    word[place + 2] = 0x80 | code >> 6 & 0x3F
    word[place + 3] = 0x80 | code & 0x3F
    return place + 4


# ---- XXH3, 64 bits, seed 0, up to 128 bytes (Collet, xxHash specification 0.2.0)

_SECRET = bytes.fromhex(  # the first 128 of the 192 bytes that xxHash has (BSD licence)
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
)


@lru_cache(maxsize=1)
def _secret() -> Uint64s:
    """Return the default secret of XXH3, as a 64-bit number at each of its bytes."""
    words = [int.from_bytes(_SECRET[place : place + 8], "little") for place in range(len(_SECRET) - 7)]
    return np.array(words, np.uint64)


_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_MX1, _MX2 = np.uint64(0x165667919E3779F9), np.uint64(0x9FB21C651E98DF25)
_LOW = np.uint64(0xFFFFFFFF)
_24, _28, _29, _32, _33, _35, _37, _49 = (np.uint64(bits) for bits in (24, 28, 29, 32, 33, 35, 37, 49))
_8, _15, _40 = np.uint64(8), np.uint64(15), np.uint64(40)


@compiled
def _read(word: Bytes, place: int, size: int) -> np.uint64:
    """Return `size` bytes at `place` as a little-endian number."""
    number = np.uint64(0)
    for offset in range(size - 1, -1, -1):
        number = number << _8 | np.uint64(word[place + offset])
    return number


@compiled
def _swapped(number: np.uint64) -> np.uint64:
    """Return a number with its eight bytes in the other order."""
    result = np.uint64(0)
    for _ in range(8):
        result = result << _8 | (number & np.uint64(0xFF))
        number >>= _8
    return result


@compiled
def _folded_product(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the exclusive or of both halves of the 128-bit product."""
    low_low = (a & _LOW) * (b & _LOW)
    high_low = (a >> _32) * (b & _LOW)
    low_high = (a & _LOW) * (b >> _32)
    cross = (low_low >> _32) + (high_low & _LOW) + low_high
    upper = (high_low >> _32) + (cross >> _32) + (a >> _32) * (b >> _32)
    return np.uint64((cross << _32 | (low_low & _LOW)) ^ upper)


@compiled
def _mixed(word: Bytes, place: int, secret: Uint64s, at: int) -> np.uint64:
    low, high = _read(word, place, 8) ^ secret[at], _read(word, place + 8, 8) ^ secret[at + 8]
    return _folded_product(low, high)


@compiled
def _avalanche(number: np.uint64) -> np.uint64:
    number = (number ^ (number >> _37)) * _MX1
    return number ^ (number >> _32)


@compiled
def _xxh3(word: Bytes, size: int, secret: Uint64s) -> np.uint64:
    """Return XXH3_64bits of the first `size` bytes, 1 to 128."""
    length = np.uint64(size)
    if size <= 3:
        number = np.uint64(word[0]) << np.uint64(16) | np.uint64(word[size >> 1]) << _24
        number |= np.uint64(word[size - 1]) | length << _8
        number ^= (secret[0] & _LOW) ^ (secret[4] & _LOW)
        number = (number ^ (number >> _33)) * _P2
        number = (number ^ (number >> _29)) * _P3
        return np.uint64(number ^ (number >> _32))
    if size <= 8:
        number = _read(word, size - 4, 4) + (_read(word, 0, 4) << _32)
        number ^= secret[8] ^ secret[16]
        number ^= (number << _49 | number >> _15) ^ (number << _24 | number >> _40)
        number *= _MX2
        number ^= (number >> _35) + length
        number *= _MX2
        return np.uint64(number ^ (number >> _28))
    if size <= 16:
        low = _read(word, 0, 8) ^ secret[24] ^ secret[32]
        high = _read(word, size - 8, 8) ^ secret[40] ^ secret[48]
        return _avalanche(length + _swapped(low) + high + _folded_product(low, high))
    total = length * _P1
    for part in range((size - 1) // 32, -1, -1):
        total += _mixed(word, 16 * part, secret, 32 * part) + _mixed(
            word, size - 16 * (part + 1), secret, 32 * part + 16
        )
    return _avalanche(total)
