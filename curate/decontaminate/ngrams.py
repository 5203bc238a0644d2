"""Hashes of word n-grams over arrays of word hashes, and where a document's words stand in its text."""

from __future__ import annotations

import functools
import re

import numpy as np
from numpy.typing import NDArray

from curate.words import folded_words

BLOCK = 1 << 16  # positions hashed at a time: the working set stays in the processor's cache

# An odd multiplier has an inverse modulo 2^64, so prefix sums give the hash of any window. It is 3 modulo 8: of all
# odd numbers these and 5 modulo 8 have powers that differ in the lowest possible bits, which keeps swapped words apart.
_BASE = 0x9E3779B97F4A7C13
_MASK = (1 << 64) - 1
_LETTER_OR_DIGIT = re.compile("[A-Za-z0-9]")
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"), None) | {ord("’"): "'", ord("‘"): "'"}


@functools.cache
def _powers() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return powers of `_BASE` and of its inverse, enough for one block and the longest n-gram (64 words)."""
    inverse = pow(_BASE, -1, 1 << 64)
    up, down = [1], [1]
    for _ in range(BLOCK + 64):
        up.append(up[-1] * _BASE & _MASK)
        down.append(down[-1] * inverse & _MASK)
    return np.array(up, np.uint64), np.array(down, np.uint64)


def prefix_sums(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the running sums from which `windows` makes hashes; at most BLOCK + 64 word hashes."""
    sums = np.zeros(len(words) + 1, np.uint64)
    np.cumsum(words * _powers()[1][: len(words)], out=sums[1:])
    return sums


def windows(sums: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    """Return the hash of the n-gram at each word where one fits, from `prefix_sums` of the words."""
    if len(sums) <= n:
        return np.zeros(0, np.uint64)
    return finish((sums[n:] - sums[:-n]) * _powers()[0][n - 1 : len(sums) - 1], n)


def at_positions(words: NDArray[np.uint64], positions: NDArray[np.int64], n: int) -> NDArray[np.uint64]:
    """Return the hashes of the n-grams that start at `positions`; the same values as `windows`."""
    value = np.zeros(len(positions), np.uint64)
    base = np.uint64(_BASE)
    for step in range(n):
        value = value * base + words[positions + step]
    return finish(value, n)


def finish(value: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    """Mix the polynomial's bits (the finaliser of splitmix64, Steele et al. 2014); the length is part of the hash."""
    value = value + np.uint64(n * 0xD1B54A32D192ED03 & _MASK)
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(31)
    return value


def ngram_hashes(words: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    """Return the hash of each n-gram of one text, in order, of any length."""
    blocks = [windows(prefix_sums(words[at : at + BLOCK + n - 1]), n) for at in range(0, max(1, len(words)), BLOCK)]
    return np.concatenate(blocks)


def word_spans(text: str) -> NDArray[np.int64]:
    """Return where the folded words of `text` stand, shape (words, 2): UTF-8 byte offsets, start and end.

    The spans cover the text's runs without white space: outer punctuation belongs to the word that it surrounds.
    """
    words = folded_words(text)
    spans: list[tuple[int, int]] = []
    number = 0
    for run in re.finditer(r"\S+", text):
        if number == len(words):
            break
        word, done = words[number], 0  # the word being sought, and how much of it has been met
        if run.group().isascii() and _LETTER_OR_DIGIT.search(run.group()) and word in run.group().casefold():
            spans.append(run.span())  # such a run is one word
            number += 1
            continue
        first = number
        for at, character in enumerate(run.group(), run.start()):
            folded = character.translate(_INVISIBLE).casefold()
            if not folded or not word.startswith(folded, done):
                continue  # invisible, or outer punctuation: no word begins or goes on with it
            if done == 0:
                begin = at
            done += len(folded)
            if done == len(word):
                spans.append((begin, at + 1))
                number, done = number + 1, 0
                if number == len(words):
                    break
                word = words[number]
        if number > first:  # punctuation goes to the word before it, at the run's beginning to the first word
            for inner in range(first, number - 1):
                spans[inner] = (spans[inner][0], spans[inner + 1][0])
            spans[first] = (run.start(), spans[first][1])
            spans[number - 1] = (spans[number - 1][0], run.end())
    if number < len(words):
        raise AssertionError(f"word {number} of {len(words)} was not found again in its text")
    offsets = np.array(spans, np.int64).reshape(-1, 2)
    return offsets if text.isascii() else byte_offsets(text)[offsets]


def byte_offsets(text: str) -> NDArray[np.int64]:
    """Return the UTF-8 byte offset of each character of `text`, and of its end."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    sizes = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
