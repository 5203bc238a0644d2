"""What a stage is: settings from the recipe, and one call over a RecordBatch.

Readers give RAW batches, an extractor turns content into text, a rewrite makes the next text revision, a measure
gives numbers, rules compare numbers with bounds. Only the pipeline removes rows. This file imports nothing heavy:
`curate check` builds every settings object without loading Arrow, fastText or trafilatura.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    import pyarrow as pa

MEASURED_TYPES = ("float64", "int64", "bool", "string", "list<uint64>")  # Arrow types, of `Step.adds`


class Settings(BaseModel):
    """Base of everything a recipe can say: frozen, strict, no unknown keys.

    Sequences are tuples (the recipe loader turns YAML lists into tuples). Refuse bad values with pydantic constraints
    or validators that raise ValueError with the value and the allowed range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Share(Settings):
    """A bound that the documents set: resolved, before anything is decided, over those that all earlier blocks keep.

    Attributes:
        keep: Share of them that stays.
        quantile: Instead: the share of their values that lies below the bound (`at_least`), or up to it (`at_most`).
    """

    keep: float | None = None
    quantile: float | None = None

    def kept(self, documents: int, *, least: bool) -> int:
        """Return how many of the documents with a value stay, but for others that equal the last of them.

        A keep-rate is rounded up to a whole document, so is what a quantile keeps. The numbers count as written (0.1 is one
        tenth), so that no rounding of binary floats decides about a document.
        """
        share = Fraction(repr(self.keep if self.keep is not None else self.quantile))
        return ceil((share if self.keep is not None or not least else 1 - share) * documents)

    def __str__(self) -> str:
        return f"keep {self.keep:g}" if self.keep is not None else f"quantile {self.quantile:g}"


Bound = float | Share | Mapping[str, float | Share] | None  # a number, a share, a map by a label column, or off


class Stage(Settings):
    """A part of the pipeline whose result depends on its settings, its code and its libraries.

    Attributes:
        version: Raise by one whenever the code changes its results; it is part of every cache key.
        libraries: Distributions whose version shapes the result; their versions are part of the key.
        decides: Settings that only bounds use: with another value of these, stored measurements are decided anew, so
            they are no part of the key of what is measured.
        files: Settings that name files, of those that the class has: a path, several, or `Listed`. Relative paths start at the
            recipe's folder. `model_digest` covers these settings: they count by content, not by path.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ()
    decides: ClassVar[tuple[str, ...]] = ()
    files: ClassVar[tuple[str, ...]] = ("model",)

    def model_digest(self) -> str | None:
        """Return the digest of the files that shape the result (sha256, 64 hex digits), or None if there are none."""
        return None

    def file_problem(self) -> str:
        """Return in what a local file and the other settings disagree, or an empty string: asked when a recipe is read.

        Without heavy libraries; what takes them is found out when the run starts.
        """
        return ""

    def prepare(self) -> None:
        """Load and compile what the first row would, in a worker before its rows: the limit on a row's time is not for that."""


@dataclass(frozen=True, slots=True, order=True)
class Cut:
    """A place in a file where its records are divided among tasks.

    Attributes:
        offset: In the units of RAW.offset: a record that starts here or later belongs behind the cut.
        byte: Where in the stored file a reader of what lies behind may begin; the same number where offsets are bytes
            of the stored file.
    """

    offset: int
    byte: int


START = Cut(0, 0)  # of a file


def even_cuts(size: int, every: int) -> tuple[Cut, ...]:
    """Return the multiples of `every` in a file of `size` bytes, but for one that leaves no more than half a part."""
    return tuple(Cut(place, place) for place in range(every, size - every // 2, every))


class Source(Stage):
    """A reader: one input file to RAW batches (see `curate.document`).

    A reader that can begin inside a file overrides `cuts` and `read_part`; of every other the files are read whole.
    """

    @abstractmethod
    def read(self, file: IO[bytes], name: str) -> Iterator[pa.RecordBatch]:
        """Yield the file's records in order, as RAW batches of bounded size.

        Args:
            file: The file's bytes as stored (still compressed), seekable if local.
            name: Path shown in messages; its ending tells the compression.

        A damaged record becomes a row with `rule` set; reading goes on behind it wherever that is possible.
        Nothing that was met is left out silently.
        """

    def passes_over(self, path: str) -> str:
        """Return why a file that the paths of a source mean is not read, in a few words, or an empty string if it is.

        For files whose name tells that they hold other things than documents, or documents that the settings leave out:
        they are never opened or fetched. The manifest counts them.

        Args:
            path: Relative to the fixed prefix of its pattern, with forward slashes.
        """
        del path
        return ""

    def surroundings(self, files: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Return what the folders around a source's files say of them: a JSON object for each file, or an empty string.

        For facts that no file holds itself, such as the licence of a folder. They are part of the keys of what is read from the
        file, and go to the metadata of its documents, except where the file's own metadata says otherwise.

        Args:
            files: Address and path, relative to the fixed prefix of its pattern, of each file that is read.
        """
        return ("",) * len(files)

    def cuts(self, file: IO[bytes], name: str, every: int) -> tuple[Cut, ...]:
        """Return where a large file may be cut into parts of about `every` stored bytes; nothing if it stays whole.

        Args:
            file: As in `read`, seekable. It may be remote: read little of it, or give no cuts.
            name: Path shown in messages.
            every: Stored bytes of a part. Where the format allows it, the cuts are the multiples of this, so that they
                depend on the file's size alone; no cut is START, and each lies behind the one before.
        """
        del file, name, every
        return ()

    def read_part(self, file: IO[bytes], name: str, start: Cut, stop: Cut | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `read` whose offset lies in [start.offset, stop.offset), in order and in every column the same.

        Args:
            file: As in `read`, seekable; its position says nothing.
            name: Path shown in messages.
            start: START or one of the file's cuts.
            stop: One of the file's cuts, or None for the end of the file. A record may reach beyond it: its bytes are
                read from there, as few as it needs.
        """
        assert (start, stop) == (START, None), f"{type(self).__name__} reads whole files"
        return self.read(file, name)


class Extractor(Stage):
    """Content bytes to main text. Rows with `content` null pass through unchanged."""

    @abstractmethod
    def extract(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return columns `text` (large_string, null where nothing was found), `language` and `metadata`, same rows."""


class Repair(Stage):
    """Text to repaired text: encoding accidents undone, nothing else changed."""

    @abstractmethod
    def repair(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return columns `text` (large_string) and `repairs` (map of string to int64: what was done, how often)."""


class Step(Stage):
    """An entry of a source's `steps`: a measure, a rewrite, or both at once.

    Attributes:
        reads: Columns needed besides `text`: extracted columns, or transient ones (`curate.words.TRANSIENT`).
        adds: Columns measured, name to Arrow type name (see `MEASURED_TYPES`).
        rewrites: Whether the step makes a new text revision.
    """

    reads: ClassVar[tuple[str, ...]] = ()
    adds: ClassVar[Mapping[str, str]] = {}
    rewrites: ClassVar[bool] = False

    at: Literal["here", "collect"] = "here"

    @abstractmethod
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`, after a column `text` if the step rewrites: same rows, same order.

        The answer for a row depends on that row alone. Raise ValueError for a row that cannot be handled: the pipeline
        replays the batch row by row and removes that row as `<block>.error`.
        """

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return the rules of the block named `block`; the first that fires, in this order, is the reason."""
        del block
        return ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A column and its bounds. Both ends are kept: a document goes if value < at_least or value > at_most.

    Attributes:
        name: `<recipe block>.<rule>`.
        column: The measured column. Unused if `expression` is given.
        at_least, at_most: A number, a map from the label in column `by` to a number (key "*": all others), or None. A
            `Share` in place of a number is resolved before the rule is applied.
        one_of: For label columns: the labels that stay.
        by: The label column that selects from a map bound.
        expression: A polars SQL expression over measured columns; the document goes where it is false or null.
        resolved: What a share that was resolved asked for, in words.
    """

    name: str
    column: str = ""
    at_least: Bound = None
    at_most: Bound = None
    one_of: tuple[str, ...] | None = None
    by: str | None = None
    expression: str | None = None
    resolved: str = ""

    @property
    def shares(self) -> bool:
        """Return whether a bound is still to be resolved."""
        return any(
            isinstance(one, Share)
            for bound in (self.at_least, self.at_most)
            for one in (bound.values() if isinstance(bound, Mapping) else (bound,))
        )

    def threshold(self, label: str | None = None) -> str:
        """Return the bound in words, as the ledger shows it: `>= 50`, `3 to 10`, `in en, pt`."""
        if self.expression is not None:
            return self.expression
        if self.one_of is not None:
            return "in " + ", ".join(self.one_of)
        bounds = bound_for(self.at_least, label), bound_for(self.at_most, label)
        digits = ".9g" if self.resolved else "g"
        low, high = (format(one, digits) if isinstance(one, int | float) else one and f"({one})" for one in bounds)
        words = f"{low} to {high}" if low and high else f">= {low}" if low else f"<= {high}" if high else "off"
        return f"{words} ({self.resolved})" if self.resolved else words


def null_divisions(expression: str) -> str:
    """Return a SQL expression whose divisions by zero give null, as SQL databases do; polars gives NaN, which passes `>`.

    Each divisor that is a column, a call or in brackets is wrapped: `a / b` becomes `a / NULLIF(b, 0)`.
    """
    out, position = "", 0
    while position < len(expression):
        sign = expression[position]
        if sign in "'\"":
            end = expression.find(sign, position + 1)
            end = len(expression) if end < 0 else end + 1
            out, position = out + expression[position:end], end
        elif sign == "/":
            match = _DIVISOR.match(expression, position + 1)
            start = position + 1 + len(match[1]) if match is not None else position + 1
            end = match.end() if match is not None else start
            if expression[end : end + 1] == "(":
                end = _closing(expression, end)
            if end == start:  # a number, or nothing that can be told
                out, position = out + sign, position + 1
            else:
                inner = null_divisions(expression[start:end])
                out, position = f"{out}/{expression[position + 1 : start]}NULLIF({inner}, 0)", end
        else:
            out, position = out + sign, position + 1
    return out


_DIVISOR = re.compile(r"(\s*)([A-Za-z_]\w*|\"[^\"]*\")?\s*?(?=\(|\b|\s|$)")


def _closing(text: str, start: int) -> int:
    """Return the place behind the bracket that closes the one at `start`, or the end of the text."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position + 1
    return len(text)


def bound_for(bound: Bound, label: str | None) -> float | Share | None:
    """Return the number (or share) that `bound` means for a document with this label, or None for no bound."""
    if bound is None or isinstance(bound, int | float | Share):
        return bound
    if label is not None and label in bound:
        return bound[label]
    return bound.get("*")


def canonical(value: Any) -> Any:
    """Return settings as plain JSON values, for cache keys and for the resolved recipe."""
    if isinstance(value, BaseModel):
        return {"kind": type(value).__name__} | {
            name: canonical(getattr(value, name)) for name in type(value).model_fields
        }
    if isinstance(value, Mapping):
        return {str(key): canonical(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [canonical(item) for item in value]
    return value
