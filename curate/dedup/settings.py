"""What a recipe says under `dedup:` and `validation:`. Nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from curate.stage import Settings, Stage
from curate.text.quantities import parse_count


class Exact(Settings):
    """Remove documents whose normalised text (`curate.dedup.exact.normal_form`) equals that of another."""


class MinHash(Settings):
    """Remove near copies: MinHash signatures cut into bands (Broder 1997; Leskovec et al., Mining of Massive Datasets, 3.4).

    Attributes:
        ngram: Words in a shingle.
        bands, rows: Two documents are compared if all rows of at least one band agree. Defaults as in FineWeb
            (Penedo et al. 2024, arXiv:2406.17557): 14 bands of 8 rows.
        verify: Smallest Jaccard similarity of the two shingle sets, computed exactly, at which a compared pair is a
            pair of near copies; False: a shared band decides.
        seed: Of the hash functions.
    """

    ngram: Annotated[int, Field(ge=1, le=1000)] = 5
    bands: Annotated[int, Field(ge=1, le=10_000)] = 14
    rows: Annotated[int, Field(ge=1, le=1000)] = 8
    verify: Annotated[float, Field(gt=0, le=1)] | Literal[False] = 0.7
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1

    @field_validator("verify", mode="before")
    @classmethod
    def _check_verify(cls, value: Any) -> Any:
        if value is False:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise ValueError(f"verify is a threshold above 0 and at most 1, or false; got {value!r}")
        return float(value)


class Keep(Settings):
    """Which copy stays.

    Attributes:
        order: Sources, those to keep first; sources not named follow in recipe order.
        then: Within a source the longest text (UTF-8 bytes) or the first; ties go to the first by (path, offset).
    """

    order: tuple[str, ...] = ()
    then: Literal["longest", "first"] = "longest"

    @field_validator("order")
    @classmethod
    def _check_order(cls, order: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(order)) != len(order):
            raise ValueError(f"keep.order names a source twice: {', '.join(order)}")
        return order

    def ranks(self, sources: Sequence[str]) -> dict[str, int]:
        """Return the priority of each source, 0 first.

        Args:
            sources: All sources of the recipe, in its order.

        Raises:
            ValueError: If `order` names a source that the recipe does not have.
        """
        unknown = [name for name in self.order if name not in sources]
        if unknown:
            raise ValueError(f"keep.order names {', '.join(unknown)}; the recipe's sources are {', '.join(sources)}")
        ordered = [*self.order, *(name for name in sources if name not in self.order)]
        return {name: rank for rank, name in enumerate(ordered)}


class Lines(Settings):
    """Cut the lines that a site, a source or the whole corpus repeats: menus, notices, teasers that extraction left in.

    Lines are equal if they agree in Unicode NFC, with white space folded and without regard to case; digits count. Copies
    of one text (a cluster of exact or near copies) count as one document, or a page that was crawled three times would
    be a page of repeated lines.

    Attributes:
        within: Where a line must be repeated: on the pages of one `site` (the host of their address, without `www.` or `www2.`;
            documents without an address are left alone), in one `source`, or in the `corpus`.
        folders: Leading folders of the path that belong to a site's name, for hosts that carry many sites.
        unit: What is compared and cut: a `line`, or a `paragraph`: the lines between two empty ones, together.
        min_documents: Fewest documents that hold a repeated line.
        min_share: Smallest share of the site's documents (of the source's, of the corpus's) that hold it, 0 to 1.
        min_words: Fewest words of a line that is cut; words are what white space parts. 0 suits news sites, whose furniture is
            short; on manuals it also cuts the headings and table cells that most pages share ("Parameters"), 4 few of them.
        keep_first: Leave the line where it stands first: in the first document that holds it, by the order of
            `keep`, then (path, offset), and in the copies of that document.
        max_share: A document of which a larger share of the text (UTF-8 bytes of its lines) is repeated is removed, not
            cut. `off`: only a document of which nothing would stay is.
        sources: The sources that are looked at; all if none is named.
    """

    within: Literal["site", "source", "corpus"] = "site"
    folders: Annotated[int, Field(ge=0, le=32)] = 0
    unit: Literal["line", "paragraph"] = "line"
    min_documents: Annotated[int, Field(ge=2)] = 3
    min_share: Annotated[float, Field(ge=0, le=1)] = 0.4
    min_words: Annotated[int, Field(ge=0)] = 0
    keep_first: bool = False
    max_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    sources: tuple[str, ...] = ()

    @field_validator("max_share", mode="before")
    @classmethod
    def _read_off(cls, value: Any) -> Any:
        return None if isinstance(value, str) and value.lower() == "off" else value

    @model_validator(mode="after")
    def _folders_of_sites(self) -> Lines:
        if self.folders and self.within != "site":
            raise ValueError(f"folders name sites, and within is {self.within}; leave folders out")
        return self

    def looks_at(self, source: str) -> bool:
        """Return whether the documents of this source are looked at."""
        return not self.sources or source in self.sources


class Dedup(Stage):
    """Deduplication over all sources. A kind that is not named is not done; if none is named, exact and minhash are."""

    version: ClassVar[int] = 1  # of components, clusters and the choice; signatures have their own

    exact: Exact | None = None
    minhash: MinHash | None = None
    lines: Lines | None = None
    keep: Keep = Keep()

    @model_validator(mode="before")
    @classmethod
    def _both_unless_named(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and not {"exact", "minhash", "lines"} & value.keys():
            return {**value, "exact": Exact(), "minhash": MinHash()}
        return value

    @model_validator(mode="after")
    def _does_something(self) -> Dedup:
        if self.exact is None and self.minhash is None and self.lines is None:
            raise ValueError("dedup has neither exact nor minhash nor lines; name one, or leave dedup out")
        return self

    @property
    def copies(self) -> Dedup | None:
        """The same settings as far as they are about copies of documents, or None if they are about lines alone."""
        if self.exact is None and self.minhash is None:
            return None
        return self.model_copy(update={"lines": None})


def clustering(dedup: Dedup | None) -> Dedup:
    """Return the settings by which clusters are found, whatever is removed by them.

    Validation and decontamination ask for near copies also where the recipe removes none, or exact copies only: what
    the recipe leaves out is filled in with defaults.
    """
    if dedup is None:
        return Dedup()
    return Dedup(exact=dedup.exact or Exact(), minhash=dedup.minhash or MinHash(), keep=dedup.keep)


class Validation(Stage):
    """Documents of each source set aside to measure loss on.

    Attributes:
        tokens: Smallest size per source, in tokens (UTF-8 bytes / 4: no tokenizer exists yet). "20k" and "1M" are read.
        min_documents: Smallest number of documents per source.
    """

    version: ClassVar[int] = 1

    tokens: Annotated[int, Field(ge=1)] = 20_000
    min_documents: Annotated[int, Field(ge=1)] = 20

    @field_validator("tokens", mode="before")
    @classmethod
    def _read_count(cls, value: Any) -> int:
        return parse_count(value)
