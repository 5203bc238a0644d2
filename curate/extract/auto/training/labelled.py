"""Pages labelled by hand, block by block, for this project: `labels.jsonl` beside this file, the pages in a WARC of the user's.

A line holds the page's address and the sha256 of its payload, its kind, and the ranges of its words that are main text:
place of the first word, number of words, and the first eight hex digits of a hash of the range's first words. Words are
those of all blocks in order but the title, so that a range still finds its place when blocks are cut in another way.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from curate.extract.auto.scan import Page, Scanner
from curate.extract.auto.tags import BLOCK_ELEMENT, ELEMENT_TAG, TITLE
from curate.extract.auto.training.align import tokens
from curate.extract.auto.training.gold import GoldPage, site_of
from curate.extract.encoding import decode_html

LABELS = Path(__file__).with_name("labels.jsonl")
LABELLED = "labelled"  # name of the set
NEWS = "labelled_news"  # its pages that were chosen because they are news
CHECKED_WORDS = 4
MOST_SHIFT = 400  # words that a range may have moved since it was written

_LANGUAGE = re.compile(r"<html[^>]*\blang=[\"']?([a-zA-Z]{2})", re.IGNORECASE)
_HAN = re.compile("[\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A page labelled block by block.

    Attributes:
        page: The page; its text is that of its main blocks.
        kept: The blocks that are main text.
    """

    page: GoldPage
    kept: tuple[int, ...]


def words_by_block(page: Page) -> list[list[str]]:
    """Return the words of each block; the title has none."""
    tags = page.elements[page.blocks[:, BLOCK_ELEMENT], ELEMENT_TAG]
    return [[] if tag == TITLE else tokens(page.block_text(block)) for block, tag in enumerate(tags)]


def ranges_of(words: Sequence[Sequence[str]], kept: Sequence[int]) -> list[tuple[int, int, str]]:
    """Return kept blocks as ranges of words; neighbours make one range."""
    flat = [word for block in words for word in block]
    chosen = set(kept)
    ranges: list[list[int]] = []
    place = 0
    for block, own in enumerate(words):
        if block in chosen and own:
            if ranges and ranges[-1][0] + ranges[-1][1] == place:
                ranges[-1][1] += len(own)
            else:
                ranges.append([place, len(own)])
        place += len(own)
    return [(start, number, _stamp(flat[start : start + min(number, CHECKED_WORDS)])) for start, number in ranges]


def blocks_of(words: Sequence[Sequence[str]], ranges: Sequence[Sequence[Any]]) -> tuple[list[int], int]:
    """Return the blocks most of whose words lie in the ranges, and the number of ranges that found no place."""
    flat = [word for block in words for word in block]
    inside = np.zeros(len(flat), np.bool_)
    lost = 0
    for start, number, stamp in ranges:
        found = _place(flat, start, min(number, CHECKED_WORDS), stamp)
        if found is None:
            lost += 1
        else:
            inside[found : found + number] = True
    starts = np.cumsum([0, *map(len, words)])
    kept = [
        block
        for block, own in enumerate(words)
        if own and inside[starts[block] : starts[block + 1]].sum() * 2 > len(own)
    ]
    return kept, lost


def _stamp(words: Sequence[str]) -> str:
    return xxhash.xxh64_hexdigest(" ".join(words).encode())[:8]


def _place(flat: Sequence[str], start: int, number: int, stamp: str) -> int | None:
    """Return where a range begins: at its place, or at the nearest one that begins with the same words."""
    for shift in range(MOST_SHIFT):
        for place in {start + shift, start - shift}:
            if 0 <= place <= len(flat) - number and _stamp(flat[place : place + number]) == stamp:
                return place
    return None


def load_labelled(archive: Path, scanner: Scanner, labels: Path = LABELS) -> Iterator[Labelled]:
    """Yield the labelled pages that a WARC holds, in its order.

    Raises:
        ValueError: If more than one range in twenty of a page's finds no place: the labels are of another page.
    """
    by_payload = {row["sha256"]: row for row in map(json.loads, labels.read_text(encoding="utf-8").splitlines())}
    for url, content in _payloads(archive):
        row = by_payload.get(hashlib.sha256(content).hexdigest())
        if row is not None:
            yield _labelled(row, url, content, scanner)


def _labelled(row: Mapping[str, Any], url: str, content: bytes, scanner: Scanner) -> Labelled:
    html = decode_html(content).text
    page = scanner(html)
    kept, lost = blocks_of(words_by_block(page), row["kept"])
    if lost * 20 > len(row["kept"]):
        raise ValueError(f"{url}: {lost} of {len(row['kept'])} labelled ranges are not where they were: label it again")
    match = _LANGUAGE.search(html[:3000])
    language = match[1].lower() if match else "zh" if len(_HAN.findall(html)) > 300 else "?"
    text = "\n".join(page.block_text(block) for block in kept)
    gold = GoldPage(
        set=row["set"],
        id=f"{row['set']}/{row['sha256'][:12]}",
        url=url,
        language=language,
        kind=row["kind"],
        content=content,
        html=html,
        text=text,
        wanted=(),
        unwanted=(),
        site=site_of(url, html, row["sha256"]),
    )
    return Labelled(gold, tuple(kept))


def _payloads(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield address and payload of each response of an undamaged WARC."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    with archive.open("rb") as file:
        for record in ArchiveIterator(file, record_types=WarcRecordType.response):
            yield record.headers.get("WARC-Target-URI") or "", record.reader.read()
