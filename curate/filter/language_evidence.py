"""A second look at labels of which the model is not sure: how well a text's letters fit each language's declaration of human rights.

A naive Bayes classifier of character n-grams (Cavnar and Trenkle 1994 rank such n-grams, Dunning 1994 multiplies their
probabilities), learned from the Universal Declaration of Human Rights in the languages of lid.176: a hundred sentences each, the
same in all, so that no language is known better than another. It tells apart what lid.176 mixes up: Bosnian, Croatian and
Serbian, Malay and Indonesian, Norwegian and Danish, and it knows Somali and Yoruba, of which lid.176 has seen little.

    python -m curate.filter.language_evidence path/to/udhr.jsonl.gz

learns the table that ships beside this file.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import regex

from curate.compiled import compiled, kept_table
from curate.filter.language_labels import LID_176, language_of
from curate.text.characters import decode

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Uint32s = npt.NDArray[np.uint32]
Float64s = npt.NDArray[np.float64]

TABLE = Path(__file__).with_name("language_evidence.npz")
SHORTEST, LONGEST = 2, 4  # n-grams, with the word's start and end as characters
MOST_CHARACTERS = 2000  # of a text that are looked at
STEPS = 16  # of a stored logarithm to a nat
# Of the evidence beside the model's logarithm. On the development half .3 to .5 differ by .003; with .4 a score is right as
# often as it says.
WEIGHT = 0.4

_BITS = 14  # of a bucket's number
_MASS = 6000.0  # added counts of a language, over all buckets
_HASH_START, _HASH_PRIME = np.uint32(2166136261), np.uint32(16777619)  # FNV-1a, a character a step
_START, _END = np.uint32(0x3C), np.uint32(0x3E)
_NUM_CODE_POINTS = 0x110000
_CODES = {"zlm": "ms", "nob": "no"}  # of the declaration: lid.176 has one Norwegian beside Nynorsk
# Editions of another language, script or spelling than their code says.
_LEFT_OUT = frozenset({"041", "042", "054", "058", "062", "063", "067", "068", "ell_polytonic", "jpn_osaka", "vie_han"})


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was learned.

    Attributes:
        languages: As lid.176 names them.
        table: For each bucket and language the logarithm of the bucket's share, in steps above the least of all, shape
            (buckets, languages, and columns of zeros up to a multiple of 32: whole vectors of the machine).
        letters: The character in lower case for each code point of a word, 0 of all others, shape (0x110000,).
    """

    languages: tuple[str, ...]
    table: Bytes
    letters: Uint32s


@lru_cache(maxsize=1)
def load_evidence() -> Evidence:
    """Return the table that ships, once per process."""
    with np.load(TABLE) as stored:
        languages, table = tuple(stored["languages"].tolist()), stored["table"]
    return Evidence(languages, np.pad(table, ((0, 0), (0, -table.shape[1] % 32))), lower_letters())


@kept_table
def lower_letters() -> Uint32s:
    """Return `Evidence.letters`: letters and marks are words, all else stands between them."""
    everything = "".join(chr(code) for code in range(_NUM_CODE_POINTS) if not 0xD800 <= code < 0xE000)
    found = np.zeros(_NUM_CODE_POINTS, np.uint32)
    for letter in "".join(regex.findall(r"[\p{L}\p{M}]+", everything)):
        lower = letter.lower()
        found[ord(letter)] = ord(lower) if len(lower) == 1 else ord(letter)
    return found


# Languages that even a long text may leave in doubt. Other doubts about a long text are about its parts, which no further look
# at its beginning settles.
CLOSE = (
    ("bs", "hr", "sh", "sr"),
    ("id", "ms"),
    ("da", "nn", "no"),
    ("cs", "sk"),
    ("es", "gl", "pt"),
    ("be", "ru", "uk"),
    ("bg", "mk", "sr"),
    ("az", "tr"),
    ("af", "nl"),
    ("ca", "es", "oc"),
)


def weigh(evidence: Evidence, data: Bytes, starts: Int64s, ends: Int64s) -> Float64s:
    """Return the evidence for each language, in nats that stand beside the model's, shape (spans, languages).

    The sum of the n-grams' logarithms, divided by the root of their number: they are not independent.
    """
    sums = np.zeros((len(starts), len(evidence.languages)), np.int32)
    counts = np.zeros(len(starts), np.int64)
    _weigh(data, starts, ends, evidence.letters, evidence.table, sums, counts)
    scaled: Float64s = sums * (WEIGHT / STEPS) / np.sqrt(np.maximum(counts, 1))[:, None]
    return scaled


def learn(path: Path) -> dict[str, Any]:
    """Return what TABLE holds, learned from paragraphs of the declaration.

    Args:
        path: udhr.jsonl.gz: code, iso639_3 and text of each paragraph.
    """
    texts: dict[str, list[str]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            name = _CODES.get(row["iso639_3"]) or language_of(row["iso639_3"])
            if row["code"] not in _LEFT_OUT and name in LID_176:
                texts.setdefault(name, []).append(row["text"])
    languages = sorted(texts)
    counts = np.zeros((1 << _BITS, len(languages)), np.float64)
    for column, name in enumerate(languages):
        data = np.frombuffer("\n".join(texts[name]).encode(), np.uint8)
        buckets = np.empty((LONGEST - SHORTEST + 1) * (2 * len(data) + 2), np.int64)
        number = _buckets(data, 0, len(data), lower_letters(), len(data), buckets)
        counts[:, column] = np.bincount(buckets[:number], minlength=1 << _BITS)
    shares = np.log((counts + _MASS / len(counts)) / (counts.sum(axis=0) + _MASS))
    table = np.rint(STEPS * (shares - shares.min())).astype(np.uint8)
    return {
        "languages": np.array(languages),
        "table": table,
        "sha256": np.array(hashlib.sha256(path.read_bytes()).hexdigest()),
    }


@compiled
def _buckets(data: Bytes, start: int, end: int, letters: Uint32s, most: int, out: Int64s) -> int:
    """Write the buckets of the n-grams of the first `most` characters of words; return how many there are."""
    word = np.empty(LONGEST, np.uint32)  # the last characters
    count = 0
    seen = 0
    length = 0  # characters of the word so far, its start included
    place = start
    while True:
        code, size = decode(data, place, end) if place < end else (0, 1)
        letter = letters[code]
        place += size
        if not letter and not length:
            if place > end:
                return count
            continue
        if not length:
            word[0] = _START
            length = 1
        word[length % LONGEST] = letter if letter else _END
        length += 1
        for size in range(SHORTEST, min(LONGEST, length) + 1):
            state = _HASH_START
            for index in range(length - size, length):
                state = np.uint32((state ^ word[index % LONGEST]) * _HASH_PRIME)
            out[count] = np.int64(state >> np.uint32(32 - _BITS))
            count += 1
        if letter:
            seen += 1
        else:
            length = 0
        if place > end or (seen >= most and not length):
            return count


@compiled
def _weigh(
    data: Bytes, starts: Int64s, ends: Int64s, letters: Uint32s, table: Bytes, sums: Int32s, counts: Int64s
) -> None:
    total = np.zeros(table.shape[1], np.uint16)
    for span in range(len(starts)):
        room = np.empty((LONGEST - SHORTEST + 1) * (2 * (ends[span] - starts[span]) + 2), np.int64)
        counts[span] = _buckets(data, starts[span], ends[span], letters, MOST_CHARACTERS, room)
        # a sum of 256 bytes fits 16 bits, which are added faster
        for block in range(0, counts[span], 256):
            total[:] = np.uint16(0)
            for index in range(block, min(counts[span], block + 256)):
                row = room[index]
                for column in range(len(total)):
                    total[column] += np.uint16(table[row, column])
            for column in range(sums.shape[1]):
                sums[span, column] += np.int32(total[column])


if __name__ == "__main__":
    np.savez_compressed(TABLE, allow_pickle=False, **learn(Path(sys.argv[1])))
