"""The columns of a block's features: their names in order, where each group begins, and tags as the model sees them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from curate.extract.auto.page import PAGE_FACTS
from curate.extract.auto.tags import NUM_TAGS, TAG

DEEP = 60  # depths and differences of depth end here: no page that the model learned from goes further
MOST_STEPS = 2000  # outwards from a block, for its containers
NUM_LEVELS = 4  # containers around a block that are looked at
LEADING_WORDS = 16  # of a block, that its learned word score is taken from
ANCESTORS = (
    "article", "main", "nav", "header", "footer", "aside", "form", "table", "list", "figure", "pre",
    "quote", "button", "noscript", "hidden", "details", "dl", "label", "heading", "custom",
)  # fmt: skip

OWN = [
    "words",
    "chars",
    "link_density",
    "mean_word_length",
    "stop_words",
    "upper",
    "digits",
    "commas",
    "sentences",
    "long_words",
    "end_mark",
    "links",
    "breaks",
    "inline_tags",
    "tag_class",
    "heading_level",
]
PLACE = ["depth", "kid", "chars_before", "words_before", "index", "blocks_left", "num_blocks"]
CLASS_WORDS = ["class_own", "class_near", "class_sum", "class_min", "class_max"]
TEXT_WORDS = ["text_mean", "text_min", "text_max", "text_num", "title_share"]
REPEATS = [
    "same_text",
    "signature_blocks",
    "signature_words",
    "signature_mean_words",
    "signature_link_density",
    "container_twins",
    "container_twin_words",
    "seen_before",
    "seen_after",
]
HEADING = ["heading_distance", "heading_words", "heading_above", "heading_text"]
FLOW = [
    "forward_5",
    "forward_8",
    "forward_95",
    "backward_5",
    "backward_8",
    "backward_95",
    "links_forward",
    "links_backward",
]
BEST = ["in_best", "best_share", "best_place", "best_ancestor"]
TITLE_BLOCK = ["title_match", "title_distance", "title_tag", "title_ancestor", "title_ancestor_share", "h1_distance"]
PAGE = [
    "page_words",
    "page_link_density",
    "page_prose",
    "page_items",
    "page_cells",
    "page_paragraphs",
    "page_h1",
    "page_largest_signature",
    "page_largest_mean",
    "page_stop_words",
    "page_best",
    "page_forms",
]
CONTAINER = ["share", "link_density", "prose", "blocks", "commas", "class"]
NEIGHBOUR = ["words", "link_density", "tag_class", "same_signature", "end_mark", "class"]
NEIGHBOURS = (-2, -1, 1, 2)

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("own", tuple(OWN)),
    ("place", tuple(PLACE)),
    ("class", tuple(CLASS_WORDS)),
    ("text", tuple(TEXT_WORDS)),
    ("repeats", tuple(REPEATS)),
    ("heading", tuple(HEADING)),
    ("flow", tuple(FLOW)),
    ("best", tuple(BEST)),
    ("title", tuple(TITLE_BLOCK)),
    ("page", tuple(PAGE)),
    ("facts", PAGE_FACTS),
    ("ancestors", tuple(f"in_{name}" for name in ANCESTORS)),
    ("containers", tuple(f"container_{level}_{name}" for level in range(1, NUM_LEVELS + 1) for name in CONTAINER)),
    ("neighbours", tuple(f"at{offset:+d}_{name}" for offset in NEIGHBOURS for name in NEIGHBOUR)),
)
FEATURES: tuple[str, ...] = tuple(name for _, names in GROUPS for name in names)
NUM_FEATURES = len(FEATURES)


def first_column(group: str) -> int:
    """Return the first column of a group."""
    start = 0
    for name, columns in GROUPS:
        if name == group:
            return start
        start += len(columns)
    raise KeyError(group)


AT_OWN, AT_PLACE, AT_CLASS, AT_TEXT = map(first_column, ("own", "place", "class", "text"))
AT_REPEATS, AT_HEADING, AT_FLOW, AT_BEST = map(first_column, ("repeats", "heading", "flow", "best"))
AT_TITLE, AT_PAGE, AT_FACTS, AT_ANCESTORS = map(first_column, ("title", "page", "facts", "ancestors"))
AT_CONTAINERS, AT_NEIGHBOURS = map(first_column, ("containers", "neighbours"))
COLUMN_HEADING_LEVEL = AT_OWN + OWN.index("heading_level")
COLUMN_SEEN_BEFORE = AT_REPEATS + REPEATS.index("seen_before")
COLUMN_HIDDEN = AT_ANCESTORS + ANCESTORS.index("hidden")

# ---- tags as the model sees them

_CLASSES = (
    "p", "li", "h1", "h2", "h3", "h4 h5 h6", "td th tr caption", "pre", "dt dd", "figcaption figure",
    "button label legend summary", "blockquote", "a", "address", "title",
)  # fmt: skip
IS_P, IS_LI, IS_H1, IS_CELL, IS_CONTROL = 1, 2, 3, 7, 11
_LANDMARKS = {
    "ul": "list", "ol": "list", "menu": "list", "figcaption": "figure", "blockquote": "quote",
    **{f"h{level}": "heading" for level in range(1, 7)},
}  # fmt: skip
TAG_CLASS: npt.NDArray[np.int64] = np.zeros(NUM_TAGS, np.int64)
TAG_LANDMARK: npt.NDArray[np.int64] = np.zeros(NUM_TAGS, np.int64)  # bit of ANCESTORS
for _number, _names in enumerate(_CLASSES, 1):
    for _name in _names.split():
        if _name in TAG:
            TAG_CLASS[TAG[_name]] = _number
for _name, _tag in TAG.items():
    _landmark = _LANDMARKS.get(_name, _name)
    if _landmark in ANCESTORS:
        TAG_LANDMARK[_tag] = 1 << ANCESTORS.index(_landmark)
HIDDEN_BIT = 1 << ANCESTORS.index("hidden")
NUM_ANCESTORS = len(ANCESTORS)
