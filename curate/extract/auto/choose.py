"""From probabilities to the blocks that stay: the set with the best expected F1, without repeats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from curate.extract.auto.columns import COLUMN_SEEN_BEFORE
from curate.extract.auto.features import Floats, Int64s, Uint16s, four_gram, gram_slot, table_size
from curate.extract.auto.kernel import cached_array_kernel, source_stamp
from curate.extract.auto.scan import Page
from curate.extract.auto.tags import (
    BLOCK_ELEMENT,
    BLOCK_FIRST_WORD,
    BLOCK_WORDS,
    ELEMENT_FLAGS,
    ELEMENT_PARENT,
    ELEMENT_TAG,
    FLAG_HIDDEN_ATTRIBUTE,
    FLAG_HIDDEN_STYLE,
    TITLE,
)

Mask = npt.NDArray[np.bool_]

PULL = 0.3  # how far the best cut is drawn towards 0.5: measured on the gold pages, it costs nothing and steadies odd pages
LEAST_WORDS, LEAST_SHARE = 100, 0.3  # a main text shorter than both, words and share of the page, is not believed
HIDDEN_SHARE = 0.5  # of the main text's words; hidden text up to it is spam, template code or instructions to machines
WORDLESS = 0.3  # what a block without a word weighs, in words
REPEATED_WORDS = 12  # shorter blocks may be said twice
REPEATED_SHARE = 0.85  # of a block's 4-grams that stand in kept blocks before it, for it to be a repeat
_OUT_OF_SIGHT = FLAG_HIDDEN_ATTRIBUTE | FLAG_HIDDEN_STYLE  # what only screen readers skip is in sight
_SEEN = 0.9  # of its 4-grams stand anywhere before it: cheap to see, and true of every repeat


def choose(
    page: Page, probabilities: Floats, features: Floats, beta: float = 1.0, hidden_text: bool = False
) -> tuple[Mask, float]:
    """Return which blocks stay, and the F1 that is expected of them.

    With beta 1 the set maximises 2 sum(p w) / (sum(w) + sum over all (p w)), w being words: with independent blocks nearly
    the expected F1 (Nan et al. 2012, ICML, "Optimizing F-measure", section 3). The set is a prefix in order of p; its cut
    is then drawn towards 0.5. Blocks of a page stand or fall together, which the formula does not know: where it expects next
    to nothing it would rest on a single sure line. So no less is expected than LEAST_WORDS or LEAST_SHARE of the page.

    Args:
        page: A scanned page.
        probabilities: That a block is main text, shape (blocks,).
        features: Of the first stage, shape (blocks, NUM_FEATURES).
        beta: How many times recall counts as much as precision (F-beta); the cut is drawn towards 1 / (1 + beta^2).
        hidden_text: Whether text that the page hides may stay. If not, it still does where it is most of the main text: such
            a page shows itself by a script.
    """
    mask: Mask = np.zeros(len(page.blocks), np.bool_)
    if not len(page.blocks):
        return mask, 0.0
    title = page.elements[page.blocks[:, BLOCK_ELEMENT], ELEMENT_TAG] == TITLE
    p = np.where(title, 0.0, probabilities.astype(np.float64))
    weights = page.blocks[:, BLOCK_WORDS] + WORDLESS
    expected = float((p * weights).sum())
    if expected <= 0:
        return mask, 0.0
    order = np.argsort(-p, kind="stable")
    hits, sizes = np.cumsum((p * weights)[order]), np.cumsum(weights[order])
    wanted = max(expected, min(LEAST_WORDS, LEAST_SHARE * float(weights.sum())))
    best = int(np.argmax(hits / (sizes + beta**2 * wanted)))
    cut = min(p[order[best]] ** (1 - PULL) * (1 / (1 + beta**2)) ** PULL, p.max())
    mask = p >= max(cut, 1e-6)
    if not hidden_text:
        hidden = mask & ((page.elements[page.blocks[:, BLOCK_ELEMENT], ELEMENT_FLAGS] & _OUT_OF_SIGHT) > 0)
        if weights[hidden].sum() <= HIDDEN_SHARE * weights[mask].sum():
            mask &= ~hidden
    suspects = mask & (features[:, COLUMN_SEEN_BEFORE] > _SEEN) & (page.blocks[:, BLOCK_WORDS] >= REPEATED_WORDS)
    if suspects.any():
        _drop_repeats(page.elements, page.blocks, page.words, suspects, mask)
    return mask, float(2 * hits[best] / (sizes[best] + expected))


def _compile_drop_repeats(stamp: int) -> Callable[..., None]:
    def drop_repeats(elements: Int64s, blocks: Int64s, words: Uint16s, suspects: Mask, mask: Mask) -> None:
        """Take out of the mask each suspect whose 4-grams were kept before it under another parent: pages hold hidden copies.

        Under the same parent a repeat is meant: verses, specimens, test pages. One pass: of each 4-gram kept so far the table
        knows one parent, or that there were several.
        """
        assert stamp >= 0
        several = -1
        size = table_size(len(words))
        keys = np.zeros(size, np.int64)
        parents = np.zeros(size, np.int64)
        for block in range(len(blocks)):
            if not mask[block]:
                continue
            parent = elements[blocks[block, BLOCK_ELEMENT], ELEMENT_PARENT]
            start = blocks[block, BLOCK_FIRST_WORD]
            end = (blocks[block + 1, BLOCK_FIRST_WORD] if block + 1 < len(blocks) else len(words)) - 3
            if suspects[block]:
                found = 0
                for place in range(start, end):
                    slot = gram_slot(keys, four_gram(words, place))
                    found += keys[slot] != 0 and (parents[slot] != parent or parent <= 0)
                if end > start and found > REPEATED_SHARE * (end - start):
                    mask[block] = False
                    continue
            for place in range(start, end):
                key = four_gram(words, place)
                slot = gram_slot(keys, key)
                parents[slot] = parent if keys[slot] == 0 or parents[slot] == parent else several
                keys[slot] = key

    return cached_array_kernel(drop_repeats)


_drop_repeats = _compile_drop_repeats(source_stamp("kernel", "tags", "page", "columns", "features", "choose"))
