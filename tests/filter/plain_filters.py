"""What the kernels of the filters measure, said once more in plain Python over strings: the tests compare the two.

Each function takes a text and its words, and returns the columns of the step by name.
"""

import re
import unicodedata
from collections import Counter

import pyarrow as pa
import regex

from curate.text.characters import SENTENCE_ENDS, SYMBOLS
from curate.text.kinds import KIND_LETTER, KIND_PUNCTUATION, KIND_SENTENCE_END, KIND_SYMBOLS, KIND_WORD, PRIME
from curate.text.words import count_repeats, split_lines, split_paragraphs, split_sentences
from curate.words import folded_words, split_words, token_type

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


# Three stops or U+2026. Ours besides: spaced stops, the centred, vertical and ideographic forms.
ELLIPSIS_LINE = re.compile(r"(?:\.[ \u00a0]?\.[ \u00a0]?\.|…|⋯|︙|。。。)[\"'”’»)\]]*\Z")


def quality(text, words, variant, bullets, stop_words):
    ours = variant == "curate"
    classes = [[unicodedata.category(sign)[0] for sign in word] for word in words]
    if ours:
        counted = [word for word, found in zip(words, classes, strict=True) if {"L", "N"} & set(found)]
    else:
        counted = [word for word in words if not set(word) <= SYMBOLS | CONTROLS]
    lines = split_lines(text) if ours else text.splitlines()
    ends = (
        [ELLIPSIS_LINE.search(line, max(0, len(line) - 16)) is not None for line in lines]
        if ours
        else [line.rstrip().endswith(("...", "…")) for line in lines]
    )
    letters = sum(found.count("L") + found.count("M") for found in classes if "L" in found)
    tokens = max(len(words), 1)
    return {
        "num_words": len(counted),
        "mean_word_length": sum(map(len, counted)) / max(len(counted), 1),
        "hash_ratio": text.count("#") / tokens,
        "ellipsis_ratio": (text.count("...") + text.count("…")) / tokens,
        "bullet_line_fraction": sum(line.lstrip().startswith(bullets) for line in lines) / max(len(lines), 1),
        "ellipsis_line_fraction": sum(ends) / max(len(lines), 1),
        "alpha_word_fraction": sum(any(map(str.isalpha, word)) for word in words) / tokens,
        "letter_fraction": letters / max(sum(map(len, words)), 1),
        "num_stop_words": max(len(set(words) & set(listed)) for listed in stop_words.values()),
    }


def fineweb(text, words, variant, short, ends):
    ours = variant == "curate"
    lines = split_lines(text) if ours else [line for line in text.split("\n") if line.strip()]
    feeds = text.count("\n")
    _, _, again = count_repeats(lines)
    terminal = (
        regex.search(r"\p{Sentence_Terminal}\Z", line) is not None if ours else line.endswith(ends) for line in lines
    )
    return {
        "num_lines": len(lines),
        "terminal_line_fraction": sum(terminal) / max(len(lines), 1),
        "short_line_fraction": sum(len(line) <= short for line in lines) / max(len(lines), 1),
        "repeated_line_char_fraction": again / max(len(text) - feeds, 1),
        "newlines_per_word": feeds / max(len(words), 1) if lines else 0.0,
    }


CITATION = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")
POLICY = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")


def sentencizer(line):
    """Return the number of sentences that spaCy's sentencizer finds in a line split by `split_words`."""
    tokens, place = [], 0
    for word in [*split_words(line), ""]:
        behind = line.index(word, place) if word else len(line)
        gap = line[place:behind]
        tokens += [gap] * (gap not in ("", " "))
        tokens += [word] * bool(word)
        place = behind + len(word)
    starts, seen = {0}, False
    for position, found in enumerate(tokens):
        ends = found in SENTENCE_ENDS
        if seen and not ends and {unicodedata.category(sign)[0] for sign in found} != {"P"}:
            starts.add(position)
            seen = False
        elif ends:
            seen = True
    return len(starts)


def c4(text, step):
    ours = step.variant != "datatrove"
    row = {"text": ""} | dict.fromkeys(step.adds, 0)
    kept, judged = [], False
    for full_line in text.splitlines():
        line = full_line.strip()
        words = line.split()
        if step.max_word_length is not None and any(len(word) > step.max_word_length for word in words):
            row["num_lines_long_word"] += 1
            continue
        if step.citations:
            line = CITATION.sub("", line)
        if step.terminal_punctuation and (not line.endswith(step.terminal_marks) or line.endswith("...")):
            row["num_lines_unterminated"] += bool(line)
            continue
        if step.min_words_per_line is not None and len(words) < step.min_words_per_line:
            folded = len(folded_words(line)) if step.variant == "paper" and not line.isascii() else 0
            if folded < step.min_words_per_line:
                row["num_lines_few_words"] += bool(line)
                continue
        lowered = line.lower()
        if ours or (step.lorem_ipsum and not judged):
            row["num_lorem_ipsum"] += lowered.count("lorem ipsum")
            judged = judged or "lorem ipsum" in lowered
        if step.javascript and "javascript" in lowered:
            row["num_lines_javascript"] += 1
            continue
        if ours or (step.curly_bracket and not judged):
            row["num_curly_brackets"] += line.count("{")
            judged = judged or "{" in line
        if step.policy and any(phrase in lowered for phrase in POLICY):
            row["num_lines_policy"] += 1
            continue
        kept.append(line)
        row["num_lines_kept"] += bool(line)
        row["num_sentences"] += len(split_sentences(line)) if ours else sentencizer(line)
    return row | {"text": "\n".join(kept).strip()}
