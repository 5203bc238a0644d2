"""Text of a book built from its markup: white space folded, paragraphs and lines kept, places where chapters begin."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

_SPACE = re.compile(r"[ \t\r\n\f]+")  # what markup folds; a no-break space and an ideographic one are text
_HYPHENS = ("-", "\u2010", "¬", "⸗")
_SOFT_HYPHEN = "\u00ad"


@dataclass(slots=True)
class Mark:
    """A place where a chapter may begin.

    Attributes:
        place: Characters of the text before it.
        prose: Characters written before it outside headings.
        level: Rank of the heading or division; 1 is the highest.
        title: Text of the heading.
    """

    place: int
    prose: int
    level: int
    title: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of a book: its heading (empty if it has none), and its text, which begins with the heading."""

    title: str
    text: str


class Flow:
    """Collects text with its breaks. The strongest break asked for between two words is the one that is written."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self._written = io.StringIO()  # one buffer: a book of small elements would take a gigabyte as a list of pieces
        self._size = 0
        self._last = ""  # the last piece, which may still lose a hyphen
        self._gap = 0  # 1: the next word begins a line, 2: a paragraph
        self._is_space_due = False
        self._is_tab_due = False
        self._join: str | None = None  # a word may go on over a line end: "hard" always, "soft" if it looks like it
        self._prose = 0
        self._headings = 0
        self._heading_pieces: list[str] = []

    def text(self, text: str, *, is_preformatted: bool = False) -> None:
        """Add characters of running text, or of text whose lines and spaces count."""
        text = text.replace(_SOFT_HYPHEN, "")
        if is_preformatted:
            text = text.replace("\r\n", "\n")
            text = text[1:] if self._gap and text.startswith("\n") else text
            if text:
                self._write(text)
            return
        folded = _SPACE.sub(" ", text)
        words = folded.strip(" ")
        if not words:
            self._is_space_due = self._is_space_due or bool(folded)
            return
        self._is_space_due = self._is_space_due or folded[0] == " "
        self._write(words)
        self._is_space_due = folded[-1] == " "

    def line(self) -> None:
        """End the line."""
        self._gap = max(self._gap, 1)

    def paragraph(self) -> None:
        """End the paragraph."""
        self._gap = 2

    def space(self) -> None:
        """Part the words here."""
        self._is_space_due = True

    def tab(self) -> None:
        """Part two cells of a row."""
        self._is_tab_due = True

    def join(self, *, is_certain: bool) -> None:
        """End a line of the printed page, inside a word if that is certain, or if a hyphen stands before it."""
        if is_certain:
            self._join = "hard"
        elif self._join is None and self._last.endswith(_HYPHENS):
            self._join = "soft"
        else:
            self._is_space_due = True

    def begin_heading(self, level: int, *, is_mark: bool = True) -> None:
        """Begin a heading, before which a chapter may begin."""
        self.paragraph()
        if is_mark:
            self.mark(level)
        if not self._headings:
            self._heading_pieces = []
        self._headings += 1

    def end_heading(self) -> None:
        """End a heading; it becomes the title of the chapter, if that has none yet."""
        self._headings -= 1
        title = " ".join("".join(self._heading_pieces).split())
        if not self._headings and self.marks and title:
            last = self.marks[-1]
            if not last.title and last.prose == self._prose:
                last.title = title
        self.paragraph()

    def mark(self, level: int) -> None:
        """Note that a chapter of this level may begin here."""
        self._end_preformatted()
        self.marks.append(Mark(self._size + len(self._last), self._prose, level))

    def chapters(self, level: int | None) -> list[Chapter]:
        """Return the text, cut at all marks up to a level; in one piece if that is None.

        Headings with no text between them (a part's and its first chapter's) begin one chapter together.
        """
        chosen = [Mark(0, 0, 0)]
        for mark in self.marks:
            if level is None or mark.level > level:
                continue
            if mark.prose == chosen[-1].prose:
                chosen[-1].title = mark.title or chosen[-1].title
            else:
                chosen.append(Mark(mark.place, mark.prose, mark.level, mark.title))
        whole = self._written.getvalue() + self._last
        ends = [*(mark.place for mark in chosen[1:]), len(whole)]
        texts = [whole[mark.place : end].strip("\n") for mark, end in zip(chosen, ends, strict=True)]
        return [Chapter(mark.title, text) for mark, text in zip(chosen, texts, strict=True) if text.strip()]

    def _write(self, text: str) -> None:
        between = ""
        if self._join is not None and self._last and not self._gap:
            if self._last.endswith(_HYPHENS) and (
                self._join == "hard" or self._last.endswith("¬") or _goes_on(self._last, text)
            ):
                self._last = self._last[:-1]
        elif (self._last or self._size) and self._gap:
            self._end_preformatted()
            between = "\n" * self._gap
        elif self._last and (self._is_tab_due or self._is_space_due):
            between = "\t" if self._is_tab_due else " "
        self._gap, self._is_space_due, self._is_tab_due, self._join = 0, False, False, None
        self._size += self._written.write(self._last)
        self._last = between + text
        if self._headings:
            self._heading_pieces.append(self._last)
        else:
            self._prose += len(text)

    def _end_preformatted(self) -> None:
        """Take the line ends off the last piece that a pending break stands for."""
        if self._gap:
            self._last = self._last.rstrip("\n")


def _goes_on(before: str, after: str) -> bool:
    """Whether a word divided by a hyphen goes on: letters on both sides, a small one behind."""
    return before[-2:-1].isalpha() and after[:1].islower()
