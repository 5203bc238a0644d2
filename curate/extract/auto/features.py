"""What the block model sees of a block: 161 numbers from the scanner's arrays and two tables of learned word scores.

The text is not touched again. Each function below fills one group of columns for all blocks of a page; `FEATURES` names
the columns in order. Numbers that cannot be known (no neighbour, no address) are -1 or as the group says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curate.extract.auto.columns import (
    AT_ANCESTORS,
    AT_BEST,
    AT_CLASS,
    AT_CONTAINERS,
    AT_FACTS,
    AT_FLOW,
    AT_HEADING,
    AT_NEIGHBOURS,
    AT_OWN,
    AT_PAGE,
    AT_PLACE,
    AT_REPEATS,
    AT_TEXT,
    AT_TITLE,
    COLUMN_HEADING_LEVEL,
    DEEP,
    HIDDEN_BIT,
    IS_CELL,
    IS_CONTROL,
    IS_H1,
    IS_LI,
    IS_P,
    LEADING_WORDS,
    MOST_STEPS,
    NUM_ANCESTORS,
    NUM_FEATURES,
    NUM_LEVELS,
    TAG_CLASS,
    TAG_LANDMARK,
)
from curate.extract.auto.kernel import array_kernel, cached_array_kernel, source_stamp
from curate.extract.auto.page import NUM_PAGE_FACTS
from curate.extract.auto.scan import Page
from curate.extract.auto.tags import (
    BLOCK_BREAKS,
    BLOCK_CHARS,
    BLOCK_COMMAS,
    BLOCK_DIGITS,
    BLOCK_ELEMENT,
    BLOCK_END_MARK,
    BLOCK_FIRST_WORD,
    BLOCK_HASH,
    BLOCK_INLINE_TAGS,
    BLOCK_LINK_CHARS,
    BLOCK_LINKS,
    BLOCK_LONG_WORDS,
    BLOCK_SENTENCES,
    BLOCK_STOP_WORDS,
    BLOCK_UPPER,
    BLOCK_WORDS,
    ELEMENT_BLOCKS,
    ELEMENT_CHARS,
    ELEMENT_CLASS_END,
    ELEMENT_CLASS_START,
    ELEMENT_COMMAS,
    ELEMENT_DEPTH,
    ELEMENT_FLAGS,
    ELEMENT_KID,
    ELEMENT_LINK_CHARS,
    ELEMENT_PARENT,
    ELEMENT_PROSE_WORDS,
    ELEMENT_SIGNATURE,
    ELEMENT_TAG,
    ELEMENT_WORDS,
    FLAG_HIDDEN,
    H1,
    H6,
    NUM_WORD_BUCKETS,
    TITLE,
)

Int64s = npt.NDArray[np.int64]
Uint16s = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tables:
    """Learned scores of words: smoothed log-odds, against the mean, that what stands under them is main text.

    Attributes:
        classes: By bucket of a word of class, id, role or itemprop: shape (NUM_CLASS_BUCKETS,).
        words: By bucket of a word among the first of a block: shape (NUM_WORD_BUCKETS,).
    """

    classes: Floats
    words: Floats


@dataclass(frozen=True, slots=True)
class BlockFeatures:
    """Features of a page's blocks.

    Attributes:
        values: Shape (blocks, NUM_FEATURES).
        levels: Rows of the NUM_LEVELS containers around each block: shape (blocks, NUM_LEVELS).
    """

    values: Floats
    levels: Int64s


def block_features(page: Page, facts: Floats, tables: Tables) -> BlockFeatures:
    """Return the first-stage features of a page.

    Args:
        page: A scanned page.
        facts: What is known of the page as a whole, as `curate.extract.auto.page.PAGE_FACTS`: shape (NUM_PAGE_FACTS,).
        tables: Learned scores.
    """
    values: Floats = np.zeros((len(page.blocks), NUM_FEATURES), np.float32)
    levels: Int64s = np.zeros((len(page.blocks), NUM_LEVELS), np.int64)
    assert facts.shape == (NUM_PAGE_FACTS,)
    if len(page.blocks):
        _fill(
            page.elements,
            page.blocks,
            page.class_words,
            page.words,
            tables.classes,
            tables.words,
            facts,
            values,
            levels,
        )
    return BlockFeatures(values, levels)


# ---- helpers


@array_kernel
def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


@array_kernel
def _word_end(blocks: Int64s, block: int, num_words: int) -> int:
    """Return where the words of a block end."""
    return blocks[block + 1, BLOCK_FIRST_WORD] if block + 1 < len(blocks) else num_words


@array_kernel
def _meetings(elements: Int64s, other: int) -> Int64s:
    """Return for each element the innermost one around both it and `other` (or one of them): shape (elements,)."""
    around = np.zeros(len(elements), np.bool_)
    around[0] = True
    element = other
    while element > 0:
        around[element] = True
        element = elements[element, ELEMENT_PARENT]
    meetings = np.zeros(len(elements), np.int64)
    for place in range(1, len(elements)):
        meetings[place] = place if around[place] else meetings[elements[place, ELEMENT_PARENT]]
    return meetings


@array_kernel
def _fill_levels(elements: Int64s, element: int, levels: Int64s) -> None:
    """Write the containers of a block: the nearest with two blocks or more, then each with twice those of the last.

    None is looked for further out than MOST_STEPS elements, so that the work is linear in the blocks however deep they lie.
    """
    steps = 0
    wanted = 2
    for level in range(NUM_LEVELS):
        while element > 0 and elements[element, ELEMENT_BLOCKS] < wanted:
            steps += 1
            element = elements[element, ELEMENT_PARENT] if steps < MOST_STEPS else 0
        levels[level] = element
        wanted = 2 * elements[element, ELEMENT_BLOCKS]


@array_kernel
def slot_of(keys: Int64s, key: int) -> int:
    """Return the slot of a key in an open-addressed table whose size is a power of two; put it there if it is new."""
    key |= 1  # 0 is an empty slot
    mask = len(keys) - 1
    slot = (key >> 7) & mask
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    keys[slot] = key
    return slot


@array_kernel
def table_size(num_keys: int) -> int:
    """Return a power of two of at least twice the number of keys."""
    size = 16
    while size < 2 * num_keys + 2:
        size *= 2
    return size


# ---- the groups


def _compile_fill(stamp: int) -> Callable[..., None]:
    def fill(
        elements: Int64s,
        blocks: Int64s,
        class_words: Uint16s,
        words: Uint16s,
        class_scores: Floats,
        word_scores: Floats,
        facts: Floats,
        values: Floats,
        levels: Int64s,
    ) -> None:
        assert stamp >= 0
        for block in range(len(blocks)):
            _fill_levels(elements, blocks[block, BLOCK_ELEMENT], levels[block])
        scores = _class_scores(elements, class_words, class_scores)
        title = _title_words(elements, blocks, words)
        best = _best_element(elements)
        _own_text(elements, blocks, values)
        totals = _page_totals(elements, blocks, best, values)
        _place(elements, blocks, totals, values)
        _class_columns(blocks, scores, values)
        _text_columns(blocks, words, word_scores, title, values)
        _signatures(elements, blocks, levels, totals[0], values)
        _seen_elsewhere(elements, blocks, words, values)
        _headings(blocks, values)
        _flow(blocks, values)
        _relation_to_best(elements, blocks, best, totals[0], values)
        _relation_to_title(elements, blocks, words, title, totals[0], values)
        _surroundings(elements, blocks, levels, scores, facts, totals[0], values)
        _neighbours(elements, blocks, scores, values)

    return cached_array_kernel(fill)


@array_kernel
def _class_scores(elements: Int64s, class_words: Uint16s, table: Floats) -> Floats:
    """Return scores of each element by its class words: own, nearest, and over the path: sum, minimum, maximum."""
    scores = np.zeros((len(elements), 5), np.float32)
    for element in range(1, len(elements)):
        parent = elements[element, ELEMENT_PARENT]
        start, end = elements[element, ELEMENT_CLASS_START], elements[element, ELEMENT_CLASS_END]
        low = high = np.float32(0)
        for place in range(start, end):
            score = table[class_words[place]]
            low, high = min(low, score), max(high, score)
        scores[element, 0] = low + high
        scores[element, 1] = low + high if end > start else scores[parent, 1]
        scores[element, 2] = scores[parent, 2] + low + high
        scores[element, 3] = min(scores[parent, 3], low)
        scores[element, 4] = max(scores[parent, 4], high)
    return scores


@array_kernel
def _title_words(elements: Int64s, blocks: Int64s, words: Uint16s) -> npt.NDArray[np.bool_]:
    """Return which word buckets the page's first title element holds."""
    title = np.zeros(NUM_WORD_BUCKETS, np.bool_)
    for block in range(len(blocks)):
        if elements[blocks[block, BLOCK_ELEMENT], ELEMENT_TAG] == TITLE:
            for place in range(blocks[block, BLOCK_FIRST_WORD], _word_end(blocks, block, len(words))):
                title[words[place]] = True
            break
    return title


@array_kernel
def _best_element(elements: Int64s) -> int:
    """Return the innermost element that holds 60% of the page's prose."""
    best = 0
    prose = elements[0, ELEMENT_PROSE_WORDS]
    for element in range(1, len(elements)):
        inside = elements[element, ELEMENT_PROSE_WORDS]
        if elements[element, ELEMENT_PARENT] == best and prose > 0 and inside * 10 >= prose * 6:
            best = element
    return best


@array_kernel
def _own_text(elements: Int64s, blocks: Int64s, values: Floats) -> None:
    for block in range(len(blocks)):
        row = blocks[block]
        out = values[block]
        chars, words = row[BLOCK_CHARS], max(row[BLOCK_WORDS], 1)
        out[AT_OWN] = row[BLOCK_WORDS]
        out[AT_OWN + 1] = chars
        out[AT_OWN + 2] = _ratio(row[BLOCK_LINK_CHARS], chars)
        out[AT_OWN + 3] = chars / words
        out[AT_OWN + 4] = row[BLOCK_STOP_WORDS] / words
        out[AT_OWN + 5] = _ratio(row[BLOCK_UPPER], chars)
        out[AT_OWN + 6] = _ratio(row[BLOCK_DIGITS], chars)
        out[AT_OWN + 7] = row[BLOCK_COMMAS] / words
        out[AT_OWN + 8] = row[BLOCK_SENTENCES]
        out[AT_OWN + 9] = row[BLOCK_LONG_WORDS] / words
        out[AT_OWN + 10] = row[BLOCK_END_MARK]
        out[AT_OWN + 11] = row[BLOCK_LINKS]
        out[AT_OWN + 12] = row[BLOCK_BREAKS]
        out[AT_OWN + 13] = row[BLOCK_INLINE_TAGS] / words
        element = row[BLOCK_ELEMENT]
        out[AT_OWN + 14] = TAG_CLASS[elements[element, ELEMENT_TAG]]
        for _ in range(3):  # a heading holds at most a wrapper or two
            tag = elements[element, ELEMENT_TAG]
            if H1 <= tag <= H6:
                out[AT_OWN + 15] = tag - H1 + 1
            if H1 <= tag <= H6 or element == 0:
                break
            element = elements[element, ELEMENT_PARENT]


@array_kernel
def _page_totals(elements: Int64s, blocks: Int64s, best: int, values: Floats) -> Int64s:
    """Fill the page's totals, and return its words and characters, both at least 1; the title does not count."""
    words = chars = link_chars = stop_words = items = cells = paragraphs = heads = forms = 0
    for block in range(len(blocks)):
        row = blocks[block]
        tag = elements[row[BLOCK_ELEMENT], ELEMENT_TAG]
        if tag == TITLE:
            continue
        words += row[BLOCK_WORDS]
        chars += row[BLOCK_CHARS]
        link_chars += row[BLOCK_LINK_CHARS]
        stop_words += row[BLOCK_STOP_WORDS]
        kind = TAG_CLASS[tag]
        items += row[BLOCK_WORDS] if kind == IS_LI else 0
        cells += row[BLOCK_WORDS] if kind == IS_CELL else 0
        paragraphs += row[BLOCK_WORDS] if kind == IS_P else 0
        heads += kind == IS_H1
        forms += kind == IS_CONTROL
    words, chars = max(words, 1), max(chars, 1)
    for block in range(len(blocks)):
        out = values[block]
        out[AT_PAGE] = words
        out[AT_PAGE + 1] = link_chars / chars
        out[AT_PAGE + 2] = elements[0, ELEMENT_PROSE_WORDS] / words
        out[AT_PAGE + 3] = items / words
        out[AT_PAGE + 4] = cells / words
        out[AT_PAGE + 5] = paragraphs / words
        out[AT_PAGE + 6] = heads
        out[AT_PAGE + 9] = stop_words / words
        out[AT_PAGE + 10] = _ratio(elements[best, ELEMENT_PROSE_WORDS], elements[best, ELEMENT_WORDS])
        out[AT_PAGE + 11] = forms
    return np.array([words, chars])


@array_kernel
def _place(elements: Int64s, blocks: Int64s, totals: Int64s, values: Floats) -> None:
    words_before = chars_before = 0
    for block in range(len(blocks)):
        out = values[block]
        element = blocks[block, BLOCK_ELEMENT]
        out[AT_PLACE] = min(elements[element, ELEMENT_DEPTH], DEEP)
        out[AT_PLACE + 1] = elements[element, ELEMENT_KID]
        out[AT_PLACE + 2] = chars_before / totals[1]
        out[AT_PLACE + 3] = words_before / totals[0]
        out[AT_PLACE + 4] = block
        out[AT_PLACE + 5] = len(blocks) - block
        out[AT_PLACE + 6] = len(blocks)
        words_before += blocks[block, BLOCK_WORDS]
        chars_before += blocks[block, BLOCK_CHARS]


@array_kernel
def _class_columns(blocks: Int64s, scores: Floats, values: Floats) -> None:
    for block in range(len(blocks)):
        for column in range(5):
            values[block, AT_CLASS + column] = scores[blocks[block, BLOCK_ELEMENT], column]


@array_kernel
def _text_columns(blocks: Int64s, words: Uint16s, table: Floats, title: npt.NDArray[np.bool_], values: Floats) -> None:
    for block in range(len(blocks)):
        out = values[block]
        start = blocks[block, BLOCK_FIRST_WORD]
        number = min(_word_end(blocks, block, len(words)) - start, LEADING_WORDS)
        total = low = high = np.float32(0)
        in_title = 0
        for place in range(start, start + number):
            score = table[words[place]]
            total += score
            low, high = min(low, score), max(high, score)
            in_title += title[words[place]]
        out[AT_TEXT] = total / number if number > 0 else 0
        out[AT_TEXT + 1] = low
        out[AT_TEXT + 2] = high
        out[AT_TEXT + 3] = number
        out[AT_TEXT + 4] = _ratio(in_title, number)


@array_kernel
def _signatures(elements: Int64s, blocks: Int64s, levels: Int64s, page_words: int, values: Floats) -> None:
    """Fill what blocks of the same text, of the same path of tags and classes, and of twin containers have in common."""
    size = table_size(len(blocks) + len(elements))
    texts = np.zeros(size, np.int64)
    text_blocks = np.zeros(size, np.int64)
    paths = np.zeros(size, np.int64)
    sums = np.zeros((size, 4), np.int64)  # blocks, words, link characters, characters
    slots = np.zeros((len(blocks), 2), np.int64)
    for block in range(len(blocks)):
        row = blocks[block]
        slot = slot_of(paths, elements[row[BLOCK_ELEMENT], ELEMENT_SIGNATURE])
        sums[slot, 0] += 1
        sums[slot, 1] += row[BLOCK_WORDS]
        sums[slot, 2] += row[BLOCK_LINK_CHARS]
        sums[slot, 3] += row[BLOCK_CHARS]
        slots[block, 0] = slot
        slot = slot_of(texts, row[BLOCK_HASH])
        text_blocks[slot] += 1
        slots[block, 1] = slot
    twins = np.zeros(size, np.int64)
    twin_sums = np.zeros((size, 2), np.int64)  # elements, words
    twin_slots = np.full(len(elements), -1, np.int64)
    for element in range(1, len(elements)):
        if elements[element, ELEMENT_BLOCKS] >= 1:
            slot = slot_of(twins, elements[element, ELEMENT_SIGNATURE])
            twin_sums[slot, 0] += 1
            twin_sums[slot, 1] += elements[element, ELEMENT_WORDS]
            twin_slots[element] = slot
    largest, largest_mean = 0, 0.0
    for slot in range(size):
        if sums[slot, 1] > largest and sums[slot, 0] > 2:
            largest, largest_mean = sums[slot, 1], sums[slot, 1] / sums[slot, 0]
    for block in range(len(blocks)):
        out = values[block]
        path = sums[slots[block, 0]]
        out[AT_REPEATS] = text_blocks[slots[block, 1]]
        out[AT_REPEATS + 1] = path[0]
        out[AT_REPEATS + 2] = path[1] / page_words
        out[AT_REPEATS + 3] = path[1] / path[0]
        out[AT_REPEATS + 4] = _ratio(path[2], path[3])
        twin = twin_slots[levels[block, 0]]
        out[AT_REPEATS + 5] = twin_sums[twin, 0] if twin >= 0 else 0
        out[AT_REPEATS + 6] = twin_sums[twin, 1] / twin_sums[twin, 0] if twin >= 0 else 0
        out[AT_PAGE + 7] = largest / page_words
        out[AT_PAGE + 8] = largest_mean


@array_kernel
def four_gram(words: Uint16s, place: int) -> int:
    """Return a hash of four words in a row, odd and not negative."""
    value = np.int64(words[place])
    for step in range(1, 4):
        value = value * (65_535 + 2 * step) + words[place + step]
    return int((value & 0x3FFFFFFFFFFFFFFF) | 1)


@array_kernel
def gram_slot(keys: Int64s, key: int) -> int:
    """Return the slot of a 4-gram, or the empty one where it would stand."""
    mask = len(keys) - 1
    slot = ((key * 0x61C8864680B583EB) >> 20) & mask
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@array_kernel
def _seen_elsewhere(elements: Int64s, blocks: Int64s, words: Uint16s, values: Floats) -> None:
    """Fill the share of a block's word 4-grams that stand in a block before it, and after it; -1 without a 4-gram."""
    size = table_size(len(words))
    keys = np.zeros(size, np.int64)
    spans = np.zeros((size, 2), np.int64)  # first and last block of a 4-gram
    begin = 1 if elements[blocks[0, BLOCK_ELEMENT], ELEMENT_TAG] == TITLE else 0
    for block in range(begin, len(blocks)):
        for place in range(blocks[block, BLOCK_FIRST_WORD], _word_end(blocks, block, len(words)) - 3):
            key = four_gram(words, place)
            slot = gram_slot(keys, key)
            if keys[slot] == 0:
                keys[slot] = key
                spans[slot, 0] = block
            spans[slot, 1] = block
    for block in range(len(blocks)):
        start, end = blocks[block, BLOCK_FIRST_WORD], _word_end(blocks, block, len(words)) - 3
        before = after = 0
        for place in range(start, end):
            slot = gram_slot(keys, four_gram(words, place))
            before += keys[slot] != 0 and spans[slot, 0] < block
            after += keys[slot] != 0 and spans[slot, 1] > block
        values[block, AT_REPEATS + 7] = before / (end - start) if end > start else -1
        values[block, AT_REPEATS + 8] = after / (end - start) if end > start else -1


@array_kernel
def _headings(blocks: Int64s, values: Floats) -> None:
    """Fill distance in blocks and words to the heading above, its level and the learned score of its words."""
    distance, words, level, score = 99, 0, np.float32(0), np.float32(0)
    for block in range(len(blocks)):
        out = values[block]
        out[AT_HEADING] = distance
        out[AT_HEADING + 1] = words
        out[AT_HEADING + 2] = level
        out[AT_HEADING + 3] = score
        if out[COLUMN_HEADING_LEVEL] > 0:
            distance, words, level = 0, 0, out[COLUMN_HEADING_LEVEL]
            score = out[AT_TEXT] + out[AT_TEXT + 1]
        else:
            distance += 1
            words += blocks[block, BLOCK_WORDS]


@array_kernel
def _flow(blocks: Int64s, values: Floats) -> None:
    """Fill exponential means, over the blocks before and after, of unlinked words and of link characters."""
    for direction in range(2):
        mean_5 = mean_8 = mean_95 = links = 0.0
        for step in range(len(blocks)):
            block = len(blocks) - 1 - step if direction else step
            row, out = blocks[block], values[block]
            out[AT_FLOW + 3 * direction] = mean_5
            out[AT_FLOW + 3 * direction + 1] = mean_8
            out[AT_FLOW + 3 * direction + 2] = mean_95
            out[AT_FLOW + 6 + direction] = links
            unlinked = row[BLOCK_WORDS] * (1 - _ratio(row[BLOCK_LINK_CHARS], row[BLOCK_CHARS]))
            mean_5 = 0.5 * mean_5 + 0.5 * unlinked
            mean_8 = 0.8 * mean_8 + 0.2 * unlinked
            mean_95 = 0.95 * mean_95 + 0.05 * unlinked
            links = 0.8 * links + 0.2 * row[BLOCK_LINK_CHARS]


@array_kernel
def _relation_to_best(elements: Int64s, blocks: Int64s, best: int, page_words: int, values: Floats) -> None:
    """Fill where a block stands to the element with most of the prose: in it, how far through it, how far above it."""
    first, last = -1, -1
    share = elements[best, ELEMENT_WORDS] / page_words
    meetings = _meetings(elements, best)
    for block in range(len(blocks)):
        out = values[block]
        common = meetings[blocks[block, BLOCK_ELEMENT]]
        out[AT_BEST] = common == best
        out[AT_BEST + 1] = share
        out[AT_BEST + 3] = min(elements[best, ELEMENT_DEPTH] - elements[common, ELEMENT_DEPTH], DEEP)
        if common == best:
            first = block if first < 0 else first
            last = block
    for block in range(len(blocks)):
        values[block, AT_BEST + 2] = (block - first) / (last - first + 1) if first >= 0 else 0


@array_kernel
def _title_block(
    elements: Int64s, blocks: Int64s, words: Uint16s, title: npt.NDArray[np.bool_], num_title: int
) -> tuple[int, float]:
    """Return the block most like the page's title and how like it is, or (-1, 0.45) if none is."""
    best, best_match = -1, 0.45
    for block in range(len(blocks)):
        row = blocks[block]
        tag = elements[row[BLOCK_ELEMENT], ELEMENT_TAG]
        start, end = row[BLOCK_FIRST_WORD], _word_end(blocks, block, len(words))
        number = end - start
        if tag == TITLE or num_title == 0 or number < 1 or number > 2 * num_title + 10:
            continue
        shared = 0
        for place in range(start, end):
            shared += title[words[place]]
        match = 2.0 * shared / (number + num_title) - 0.3 * _ratio(row[BLOCK_LINK_CHARS], row[BLOCK_CHARS])
        if H1 <= tag <= H6:
            match += 0.4 if tag == H1 else 0.3
        if match > best_match:
            best, best_match = block, match
    return best, best_match


@array_kernel
def _relation_to_title(
    elements: Int64s,
    blocks: Int64s,
    words: Uint16s,
    title: npt.NDArray[np.bool_],
    page_words: int,
    values: Floats,
) -> None:
    """Fill where a block stands to the one most like the title, and to the first h1; -9999 if there is none."""
    num_title, h1 = 0, -1
    for block in range(len(blocks)):
        tag = elements[blocks[block, BLOCK_ELEMENT], ELEMENT_TAG]
        if tag == TITLE and num_title == 0:
            num_title = _word_end(blocks, block, len(words)) - blocks[block, BLOCK_FIRST_WORD]
        elif tag == H1 and h1 < 0:
            h1 = block
    found, match = _title_block(elements, blocks, words, title, num_title)
    element = blocks[max(found, 0), BLOCK_ELEMENT]
    meetings = _meetings(elements, element)
    for block in range(len(blocks)):
        out = values[block]
        if found >= 0:
            common = meetings[blocks[block, BLOCK_ELEMENT]]
            out[AT_TITLE] = match
            out[AT_TITLE + 1] = block - found
            out[AT_TITLE + 2] = TAG_CLASS[elements[element, ELEMENT_TAG]]
            out[AT_TITLE + 3] = min(elements[element, ELEMENT_DEPTH] - elements[common, ELEMENT_DEPTH], DEEP)
            out[AT_TITLE + 4] = elements[common, ELEMENT_WORDS] / page_words
        else:
            out[AT_TITLE + 1] = -9999
            out[AT_TITLE + 2 : AT_TITLE + 5] = -1
        out[AT_TITLE + 5] = block - h1 if h1 >= 0 else -9999


@array_kernel
def _surroundings(
    elements: Int64s,
    blocks: Int64s,
    levels: Int64s,
    scores: Floats,
    facts: Floats,
    page_words: int,
    values: Floats,
) -> None:
    """Fill the landmarks and the containers around each block, and the facts of the page."""
    landmarks = np.zeros(len(elements), np.int64)
    for element in range(1, len(elements)):
        landmarks[element] = landmarks[elements[element, ELEMENT_PARENT]] | TAG_LANDMARK[elements[element, ELEMENT_TAG]]
        if elements[element, ELEMENT_FLAGS] & FLAG_HIDDEN:
            landmarks[element] |= HIDDEN_BIT
    for block in range(len(blocks)):
        out = values[block]
        out[AT_FACTS : AT_FACTS + len(facts)] = facts
        bits = landmarks[blocks[block, BLOCK_ELEMENT]]
        for number in range(NUM_ANCESTORS):
            out[AT_ANCESTORS + number] = (bits >> number) & 1
        for level in range(NUM_LEVELS):
            element = levels[block, level]
            around = elements[element]
            at = AT_CONTAINERS + 6 * level
            out[at] = around[ELEMENT_WORDS] / page_words
            out[at + 1] = _ratio(around[ELEMENT_LINK_CHARS], around[ELEMENT_CHARS])
            out[at + 2] = _ratio(around[ELEMENT_PROSE_WORDS], around[ELEMENT_WORDS])
            out[at + 3] = around[ELEMENT_BLOCKS]
            out[at + 4] = _ratio(around[ELEMENT_COMMAS], around[ELEMENT_WORDS])
            out[at + 5] = scores[element, 1]


@array_kernel
def _neighbours(elements: Int64s, blocks: Int64s, scores: Floats, values: Floats) -> None:
    for block in range(len(blocks)):
        signature = elements[blocks[block, BLOCK_ELEMENT], ELEMENT_SIGNATURE]
        for number in range(4):
            at = AT_NEIGHBOURS + 6 * number
            other = block + (number - 2 if number < 2 else number - 1)
            out = values[block, at : at + 6]
            if 0 <= other < len(blocks):
                element = blocks[other, BLOCK_ELEMENT]
                out[0] = blocks[other, BLOCK_WORDS]
                out[1] = _ratio(blocks[other, BLOCK_LINK_CHARS], blocks[other, BLOCK_CHARS])
                out[2] = TAG_CLASS[elements[element, ELEMENT_TAG]]
                out[3] = elements[element, ELEMENT_SIGNATURE] == signature
                out[4] = blocks[other, BLOCK_END_MARK]
                out[5] = scores[element, 1]
            else:
                out[:] = -1
                out[3] = out[5] = 0


_fill = _compile_fill(source_stamp("kernel", "tags", "page", "columns", "features"))
