"""What is known of a page as a whole: its kind by a linear model, what it says of itself, the shape of its address."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import xxhash

from curate.extract.auto.kernel import cached_array_kernel, source_stamp
from curate.extract.auto.scan import Page
from curate.extract.auto.tags import BLOCK_FIRST_WORD, BLOCK_WORDS, NUM_CLASS_BUCKETS

Int64s = npt.NDArray[np.int64]
Uint16s = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]

KINDS = ("article", "forum", "product", "collection", "listing", "documentation", "service")
SCHEMAS = {  # schema.org types that tell what a page is
    "article": ("Article", "NewsArticle", "BlogPosting", "ReportageNewsArticle"),
    "product": ("Product", "Offer", "ProductGroup"),
    "forum": ("DiscussionForumPosting", "QAPage", "Question"),
    "list": ("ItemList", "CollectionPage", "OfferCatalog"),
}
PAGE_FACTS: tuple[str, ...] = (
    *(f"kind_{kind}" for kind in KINDS),  # probability of each
    "og_type",  # 0 none, 1 article, 2 website, 3 product, 4 another
    *(f"schema_{name}" for name in SCHEMAS),
    *(f"address_{name}" for name in ("segments", "last", "hyphens", "digits", "query")),  # -1 without an address
)
NUM_PAGE_FACTS = len(PAGE_FACTS)

SHORT_BLOCK = 6  # words; such blocks tell of menus, buttons, labels: of the kind of page
_SHORT_BUCKETS = 8192
_MARK_BUCKETS = 4096
NUM_KIND_BUCKETS = NUM_CLASS_BUCKETS + _SHORT_BUCKETS + _MARK_BUCKETS
_AT_MARKS = NUM_CLASS_BUCKETS + _SHORT_BUCKETS

HEAD_BYTES = 60_000  # og:type stands in the head
MOST_TYPES = 40
MOST_SIGNS = 1000  # places where a type may stand that are looked at
_OG_TYPE = re.compile(
    rb"og:type[\"'][^>]{0,40}content=[\"']([\w.:]+)|content=[\"']([\w.:]+)[\"'][^>]{0,40}og:type", re.IGNORECASE
)
_LINKED_TYPE = re.compile(rb"@type\"\s*:\s*\"(\w+)\"")
_ITEM_TYPE = re.compile(rb"schema\.org/(\w+)[\"']")
_ADDRESS_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Marks:
    """What a page says of itself.

    Attributes:
        facts: The last ten of PAGE_FACTS.
        buckets: Of the words of its address, its og:type and its schema.org types, for the model of its kind.
    """

    facts: tuple[float, ...]
    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KindModel:
    """A multinomial linear model of the kind of a page over hashed words.

    Attributes:
        weights: Shape (NUM_KIND_BUCKETS, len(KINDS)).
        bias: Shape (len(KINDS),).
    """

    weights: Floats
    bias: Floats


def page_facts(page: Page, marks: Marks, model: KindModel) -> Floats:
    """Return PAGE_FACTS: shape (NUM_PAGE_FACTS,)."""
    facts: Floats = np.empty(NUM_PAGE_FACTS, np.float32)
    _kind(kind_bag(page, marks), model.weights, model.bias, facts)
    facts[len(KINDS) :] = marks.facts
    return facts


def read_marks(source: bytes, url: str) -> Marks:
    """Return what a page says of itself.

    Args:
        source: The page, UTF-8.
        url: Its address, or "" if that is not known.
    """
    place = source.find(b"og:type", 0, HEAD_BYTES)
    match = _OG_TYPE.search(source, max(0, place - 100), place + 100) if place >= 0 else None
    og_type = (match[1] or match[2]).decode("ascii").lower() if match is not None else ""
    if not og_type:
        og = 0
    elif og_type.startswith("article"):
        og = 1
    elif og_type == "website":
        og = 2
    else:
        og = 3 if "product" in og_type else 4
    types = _schema_types(source)
    schemas = [float(not types.isdisjoint(names)) for names in SCHEMAS.values()]
    words = [f"u:{word}" for word in _ADDRESS_WORD.findall(url.lower())]
    words += [f"t:{name}" for name in sorted(types)]
    words.append(f"og:{og_type}")
    buckets = {_AT_MARKS + xxhash.xxh64_intdigest(word.encode()) % _MARK_BUCKETS for word in words}
    return Marks((float(og), *schemas, *_address_shape(url)), tuple(sorted(buckets)))


def _schema_types(source: bytes) -> set[str]:
    """Return the schema.org types that a page names: in JSON-LD, or if it has none in microdata."""
    types: set[str] = set()
    # One byte is found much faster than several, and an @ is rare.
    for sign, pattern in ((b"@", _LINKED_TYPE), (b"schema.org/", _ITEM_TYPE)):
        place = source.find(sign)
        for _ in range(MOST_SIGNS):
            if place < 0 or len(types) == MOST_TYPES:
                break
            match = pattern.match(source, place)
            if match is not None:
                types.add(match[1].decode("ascii"))
            place = source.find(sign, place + len(sign))
        if types:
            break
    return types


def _address_shape(url: str) -> tuple[float, ...]:
    """Return segments of the path, length of the last, its hyphens, digits of the path, length of the query; -1s if none."""
    try:
        parts = urlsplit(url)
    except ValueError:  # such as an unclosed bracket in the host
        return (-1.0,) * 5
    segments = [segment for segment in parts.path.split("/") if segment]
    if not segments and not parts.query:
        return (-1.0,) * 5
    last = segments[-1] if segments else ""
    digits = sum(character.isdigit() for character in parts.path)
    return (
        float(len(segments)),
        float(len(last)),
        float(last.count("-") + last.count("_")),
        float(digits),
        float(len(parts.query)),
    )


def kind_bag(page: Page, marks: Marks) -> Int64s:
    """Return the buckets that the model of the kind looks at, each once: class words, words of short blocks, marks."""
    return _bag(page.blocks, page.class_words, page.words, np.array(marks.buckets, np.int64))


def _compile_bag(stamp: int) -> Callable[..., Int64s]:
    def bag(blocks: Int64s, class_words: Uint16s, words: Uint16s, marks: Int64s) -> Int64s:
        assert stamp >= 0
        used = np.zeros(NUM_KIND_BUCKETS, np.bool_)
        for bucket in class_words:
            used[bucket] = True
        for block in range(len(blocks)):
            if blocks[block, BLOCK_WORDS] <= SHORT_BLOCK:
                end = blocks[block + 1, BLOCK_FIRST_WORD] if block + 1 < len(blocks) else len(words)
                for place in range(blocks[block, BLOCK_FIRST_WORD], end):
                    used[NUM_CLASS_BUCKETS + (words[place] & (_SHORT_BUCKETS - 1))] = True
        for bucket in marks:
            used[bucket] = True
        return np.flatnonzero(used)

    return cached_array_kernel(bag)


_bag = _compile_bag(source_stamp("kernel", "tags", "page"))


@cached_array_kernel
def _kind(bag: Int64s, weights: Floats, bias: Floats, facts: Floats) -> None:
    """Write the probability of each kind (softmax); the bag has unit length."""
    num_kinds = len(bias)
    scores = np.zeros(num_kinds, np.float64)
    for bucket in bag:
        for kind in range(num_kinds):
            scores[kind] += weights[bucket, kind]
    scale = 1.0 / math.sqrt(max(len(bag), 1))
    most = -np.inf
    for kind in range(num_kinds):
        scores[kind] = scores[kind] * scale + bias[kind]
        most = max(most, scores[kind])
    total = 0.0
    for kind in range(num_kinds):
        scores[kind] = math.exp(scores[kind] - most)
        total += scores[kind]
    for kind in range(num_kinds):
        facts[kind] = scores[kind] / total
