"""What the kernels of the filters measure, said once more in plain Python over strings: the tests compare the two.

Each function takes a text and its words, and returns the columns of the step by name.
"""

import re
import unicodedata
from collections import Counter

import pyarrow as pa

from curate.text.characters import SENTENCE_ENDS, SYMBOLS
from curate.text.kinds import KIND_LETTER, KIND_PUNCTUATION, KIND_SENTENCE_END, KIND_SYMBOLS, KIND_WORD, PRIME
from curate.text.words import count_repeats, split_lines, split_paragraphs
from curate.words import token_type

CONTROLS = frozenset(map(chr, (*range(9), 11, 12, *range(13, 32), *range(127, 160))))


def token_column(texts, words):
    """Return a column of tokens, worked out from the words of each text."""
    rows = []
    for text, found in zip(texts, words, strict=True):
        row, place = [], 0
        for word in found:
            place = text.index(word, place)
            row.append(token(word, len(text[:place].encode())))
            place += len(word)
        rows.append(row)
    return pa.array(rows, token_type())


def token(word, start):
    key, data = 0, word.encode()
    for byte in data:
        key = (key * PRIME + byte + 1) % 2**64
    classes = [unicodedata.category(sign)[0] for sign in word]
    kind = KIND_LETTER * ("L" in classes) | KIND_WORD * bool({"L", "N"} & set(classes))
    kind |= KIND_SYMBOLS * (set(word) <= SYMBOLS | CONTROLS) | KIND_SENTENCE_END * (word in SENTENCE_ENDS)
    kind |= KIND_PUNCTUATION * (set(classes) == {"P"})
    return {"key": key, "start": start, "size": len(data), "chars": len(word), "kind": kind}


TOP, REPEATED = (2, 3, 4), (5, 6, 7, 8, 9, 10)


def top_chars(words, n):
    """Return the characters in all occurrences of the most frequent n-gram; of equally frequent ones the first counts."""
    grams = [" ".join(words[start : start + n]) for start in range(len(words) - n + 1)]
    if not grams:
        return 0
    counts = Counter(grams)
    most = max(counts.values())
    return next(len(gram) * most for gram in grams if counts[gram] == most)


def reread_chars(words, n, identity):
    """Return the characters in n-grams that were read before; a counted one is skipped as a whole."""
    read, position, chars = set(), 0, 0
    while position + n <= len(words):
        gram = identity(words[position : position + n])
        if gram in read:
            chars += sum(map(len, words[position : position + n]))
            position += n
        else:
            read.add(gram)
            position += 1
    return chars


def repetition(text, words, variant):
    names = [f"duplicate_{unit}_{share}" for share in ("fraction", "char_fraction") for unit in ("line", "paragraph")]
    names += [f"top_{n}gram_char_fraction" for n in TOP] + [f"repeated_{n}gram_char_fraction" for n in REPEATED]
    if not text:
        return {"num_chars": 0} | dict.fromkeys(names, 0.0)
    if variant == "datatrove":
        lines, blocks, identity = re.split(r"\n+", text), re.split(r"\n{2,}", text.strip()), "".join
    else:
        lines, blocks, identity = split_lines(text), split_paragraphs(text), tuple
    chars = len(text)
    (num_lines, lines_again, line_chars), (num_blocks, blocks_again, block_chars) = map(count_repeats, (lines, blocks))
    values = [
        lines_again / max(num_lines, 1),
        blocks_again / max(num_blocks, 1),
        line_chars / chars,
        block_chars / chars,
    ]
    values += [top_chars(words, n) / chars for n in TOP]
    values += [reread_chars(words, n, identity) / chars for n in REPEATED]
    return {"num_chars": chars} | dict(zip(names, values, strict=True))
