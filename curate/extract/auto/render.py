"""Chosen blocks to text, plain or Markdown.

What a language model should see of a page's form, and no more: a blank line between paragraphs, headings, lists, tables and
code; one line feed between the items of a list, the rows of a table, the lines of code and of an address. List marks, their
nesting and numbers stay in plain text too, since a numbered step without its number is another text. Cells are joined by
` | `, not by a tab: later steps fold white space, and a folded tab glues a row into a sentence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curate.extract.auto import tags as t
from curate.extract.auto.scan import Page

MAX_INDENT = 8  # levels of a list and of quotes that are shown: depth must not multiply text
MAX_COLUMNS = 40  # of a Markdown table; a wider one has its empty cells left out
LAYOUT_BLOCKS = 4  # a list item of so many blocks is a container: a post, a card
LAYOUT_WORDS = 50  # a cell of several blocks and so many words is one too
LINE_WORDS = 12  # short pieces that end no sentence stand on lines, not in paragraphs

_PARAGRAPH, _LINE, _ITEM, _ROW, _TERM = range(5)
_APART = {t.P, t.BLOCKQUOTE, t.FIGCAPTION, t.CAPTION, t.TITLE, t.PRE}


class _Piece(NamedTuple):
    text: str
    kind: int
    group: int  # pieces of one kind and group stand on lines of their own without a blank one
    cells: tuple[str, ...] = ()  # of a row of a Markdown table, whose text is made when the whole table is known


class _Block(NamedTuple):
    """A kept block: its text and words, and rows of elements around it; 0 where there is none."""

    text: str
    words: int
    end_mark: int
    element: int
    tag: int
    list: int
    item: int
    row: int
    cell: int
    table: int
    pre: int
    quotes: int
    heading: int


def render(page: Page, keep: npt.NDArray[np.bool_], markdown: bool = False) -> str:
    """Return the text of the kept blocks in page order.

    Args:
        page: The page.
        keep: Blocks that are kept, shape (blocks,).
        markdown: Marks of headings, quotes, tables and code besides those of lists.
    """
    blocks = _kept_blocks(page, keep)
    lists = _Lists(page, blocks)
    columns = _columns(page) if markdown else {}
    pieces: list[_Piece] = []
    k = 0
    while k < len(blocks):
        first, begin = blocks[k], k
        k += 1
        if first.pre:
            while k < len(blocks) and blocks[k].pre == first.pre:
                k += 1
            new = [_Piece(_code(blocks[begin:k], markdown), _PARAGRAPH, 0)]
        elif first.cell and not first.heading:
            while k < len(blocks) and blocks[k].row == first.row and not (blocks[k].pre or blocks[k].heading):
                k += 1
            new = _row(page, blocks[begin:k], markdown, lists, columns)
        else:
            new = [_piece(page, first, markdown, lists)]
        for piece in new:
            if markdown and first.quotes:
                marks = "> " * min(first.quotes, MAX_INDENT)
                piece = piece._replace(text="\n".join(marks + line for line in piece.text.split("\n")))
            pieces.append(piece)
    if markdown:
        _draw_tables(pieces)
    return _join(pieces)


def _kept_blocks(page: Page, keep: npt.NDArray[np.bool_]) -> list[_Block]:
    blocks = page.blocks[keep]
    numbers = blocks[:, [t.BLOCK_WORDS, t.BLOCK_END_MARK, t.BLOCK_ELEMENT]]
    places = page.elements[blocks[:, t.BLOCK_ELEMENT]][
        :,
        [
            t.ELEMENT_TAG,
            t.ELEMENT_LIST,
            t.ELEMENT_ITEM,
            t.ELEMENT_ROW,
            t.ELEMENT_CELL,
            t.ELEMENT_TABLE,
            t.ELEMENT_PRE,
            t.ELEMENT_QUOTES,
            t.ELEMENT_HEADING,
        ],
    ]
    spans = blocks[:, [t.BLOCK_TEXT_START, t.BLOCK_TEXT_END]].tolist()
    texts = (page.text[start:end].decode("utf-8", "replace") for start, end in spans)
    return [
        _Block(text, *own, *around) for text, own, around in zip(texts, numbers.tolist(), places.tolist(), strict=True)
    ]


class _Lists:
    """Which list items are items, and how deep they stand; the others are containers of a layout."""

    def __init__(self, page: Page, blocks: list[_Block]) -> None:
        self._elements = page.elements
        self._sizes: dict[int, int] = {}
        for block in blocks:
            if block.item:
                size = LAYOUT_BLOCKS if block.heading else 1
                self._sizes[block.item] = self._sizes.get(block.item, 0) + size
        self._base: dict[int, int] = {0: 0}  # item: lists around the nearest container that it is or stands in
        self.begun: set[int] = set()

    def is_container(self, item: int) -> bool:
        return self._sizes.get(item, 0) >= LAYOUT_BLOCKS

    def depth(self, item: int) -> int:
        """Return how many lists stand around the item, from the nearest container inwards; 1 for a simple list."""
        path = []
        at = item
        while at not in self._base:
            path.append(at)
            at = int(self._elements[self._elements[at, t.ELEMENT_PARENT], t.ELEMENT_ITEM])
        base = self._base[at]
        for at in reversed(path):
            if self.is_container(at):
                base = int(self._elements[at, t.ELEMENT_LIST_DEPTH])
            self._base[at] = base
        return max(int(self._elements[item, t.ELEMENT_LIST_DEPTH]) - base, 1)


def _piece(page: Page, block: _Block, markdown: bool, lists: _Lists) -> _Piece:
    """Return a heading, a list item or a paragraph."""
    if block.heading:
        text = " ".join(block.text.split("\n"))
        return _Piece("#" * block.heading + " " + text if markdown else text, _PARAGRAPH, 0)
    item = block.item
    if item > block.cell and not lists.is_container(item):
        tag = int(page.elements[item, t.ELEMENT_TAG])
        begins = item not in lists.begun
        lists.begun.add(item)
        if tag != t.LI:
            mark = ": " if markdown and tag == t.DD and begins else ""
            return _Piece(_indent(mark, "  " if mark else "", block.text), _TERM, block.list)
        depth = lists.depth(item)
        numbered = block.list and page.elements[block.list, t.ELEMENT_TAG] == t.OL
        mark = f"{page.elements[item, t.ELEMENT_ORDINAL]}. " if numbered else "- "
        margin = "  " * min(depth - 1, MAX_INDENT)
        if not begins:
            mark = " " * len(mark)
        return _Piece(
            _indent(margin + mark, margin + " " * len(mark), block.text), _ITEM, block.list if depth == 1 else 0
        )
    is_line = block.words <= LINE_WORDS and block.end_mark == 0 and block.tag not in _APART
    return _Piece(block.text, _LINE if is_line else _PARAGRAPH, block.element)


def _indent(first: str, others: str, text: str) -> str:
    return first + text.replace("\n", "\n" + others)


def _code(blocks: list[_Block], markdown: bool) -> str:
    """Return the lines of a pre; a number that stands in a cell before the line is none of it."""
    lines: list[str] = []
    for place, block in enumerate(blocks):
        if block.row and place and blocks[place - 1].row == block.row and blocks[place - 1].cell != block.cell:
            before = lines.pop()
            lines.append(block.text if before.strip().isdigit() else before + " " + block.text)
        else:
            lines.append(block.text)
    text = "\n".join(lines)
    if not markdown:
        return text
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _columns(page: Page) -> dict[int, int]:
    """Return the column of each cell, from 0, in the tables that have cells over several rows.

    Source: the HTML standard, section 4.9.12.1 (forming a table); overlaps are moved to the right.
    """
    elements = page.elements
    spans = elements[:, t.ELEMENT_ROWS] != 0
    if not spans.any():
        return {}
    tables = np.unique(elements[spans, t.ELEMENT_TABLE])
    wanted = (elements[:, t.ELEMENT_TAG] == t.TR) | (elements[:, t.ELEMENT_TAG] == t.TD)
    wanted |= elements[:, t.ELEMENT_TAG] == t.TH
    wanted &= np.isin(elements[:, t.ELEMENT_TABLE], tables)
    columns: dict[int, int] = {}
    parts: dict[int, int] = {}  # table: the tbody, thead, tfoot that it is in
    next_column: dict[int, int] = {}
    taken: dict[int, dict[int, int]] = {}  # table: column: rows that are taken, this one counted; -1: all
    for e in np.flatnonzero(wanted).tolist():
        tag, rows, width, parent, table = elements[
            e, [t.ELEMENT_TAG, t.ELEMENT_ROWS, t.ELEMENT_COLUMNS, t.ELEMENT_PARENT, t.ELEMENT_TABLE]
        ].tolist()
        if tag == t.TR:
            same_part = parts.get(table) == parent
            above = taken.get(table, {}) if same_part else {}
            taken[table] = {at: left - (left > 0) for at, left in above.items() if left != 1}
            parts[table], next_column[table] = parent, 0
            continue
        over = taken.setdefault(table, {})
        column = next_column.get(table, 0)
        while column in over:
            column += 1
        columns[e] = column
        behind = column + min(max(width, 1), MAX_COLUMNS)
        if rows:
            over.update(dict.fromkeys(range(column, min(behind, MAX_COLUMNS)), rows))
        next_column[table] = behind
    return columns


def _row(page: Page, blocks: list[_Block], markdown: bool, lists: _Lists, columns: dict[int, int]) -> list[_Piece]:
    """Return a table row as one piece, or what stands in it one by one if the table is a page's layout."""
    cells: dict[int, list[_Block]] = {}
    for block in blocks:
        cells.setdefault(block.cell, []).append(block)
    long = (len(inside) > 1 and sum(block.words for block in inside) >= LAYOUT_WORDS for inside in cells.values())
    if (len(cells) == 1 and len(blocks) > 1) or any(long):
        return [_piece(page, block, markdown, lists) for block in blocks]
    texts = {cell: " ".join(" ".join(block.text.split("\n")) for block in inside) for cell, inside in cells.items()}
    if not markdown:
        return [_Piece(" | ".join(texts.values()), _ROW, blocks[0].table)]
    places = [columns[cell] if cell in columns else int(page.elements[cell, t.ELEMENT_KID]) for cell in texts]
    row = [text.replace("|", "\\|") for text in texts.values()]
    if places[-1] < MAX_COLUMNS and places == sorted(set(places)):
        wide = [""] * (places[-1] + 1)
        for place, text in zip(places, row, strict=True):
            wide[place] = text
        row = wide
    return [_Piece("", _ROW, blocks[0].table, tuple(row))]


def _draw_tables(pieces: list[_Piece]) -> None:
    """Write the text of the rows: as many cells as the widest has, and the line that Markdown wants under the first."""
    end = 0
    while end < len(pieces):
        begin, first = end, pieces[end]
        end += 1
        if first.kind != _ROW:
            continue
        while end < len(pieces) and pieces[end].kind == _ROW and pieces[end].group == first.group:
            end += 1
        width = max(len(piece.cells) for piece in pieces[begin:end])
        for k in range(begin, end):
            row = pieces[k].cells
            row += ("",) * ((width if width <= MAX_COLUMNS else len(pieces[begin].cells)) - len(row))
            rule = f"\n{pieces[k].text}|" + " --- |" * len(row) if k == begin else ""
            pieces[k] = pieces[k]._replace(text=f"{pieces[k].text}| {' | '.join(row)} |{rule}")


def _join(pieces: list[_Piece]) -> str:
    parts: list[str] = []
    last: _Piece | None = None
    for piece in pieces:
        if last is not None:
            apart = piece.kind != last.kind or piece.kind == _PARAGRAPH
            if piece.kind == _LINE:
                apart |= piece.group == last.group  # parted by two br
            elif piece.kind == _ITEM:
                apart |= piece.group not in (0, last.group) and last.group != 0
            else:
                apart |= piece.group != last.group
            parts.append("\n\n" if apart else "\n")
        parts.append(piece.text)
        last = piece
    return "".join(parts)
