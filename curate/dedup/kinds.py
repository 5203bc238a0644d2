"""What a recipe says under `dedup:` of lines, spans, earlier corpora and meaning. Nothing heavy is imported here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from curate.stage import Settings


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


class Spans(Settings):
    """Cut the spans of text that several documents share word for word (Lee et al. 2022, arXiv:2107.06499).

    Attributes:
        min_tokens: Fewest tokens of a span; a token is a word, a number or a sign (`curate.words.split_words`), case counts.
        min_documents: Fewest documents that hold a span; copies of one text (a cluster) count as one document.
        action: `cut` the span as edits, or `flag` it: it is recorded only.
        keep_first: Leave each span where it stands first, in the order of `keep`, then (path, offset); else it is cut
            everywhere.
        max_share: A document of which a larger share of the text is repeated is removed, not cut. `off`: only a document of
            which nothing would stay is.
        sources: The sources that are looked at; all if none is named.
    """

    min_tokens: Annotated[int, Field(ge=4, le=100_000)] = 50
    min_documents: Annotated[int, Field(ge=2)] = 2
    action: Literal["cut", "flag"] = "cut"
    keep_first: bool = True
    max_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    sources: tuple[str, ...] = ()


class Against(Settings):
    """Remove documents that an earlier corpus holds already, by its stored signatures: its text is not needed.

    Attributes:
        runs: Run folders, or folders of signatures that runs with `dedup: {signatures: true}` wrote.
        similarity: Smallest estimated similarity at which a document counts as a near copy of an earlier one.
    """

    runs: Annotated[tuple[str, ...], Field(min_length=1)]
    similarity: Annotated[float, Field(gt=0, le=1)] = 0.8


class Semantic(Settings):
    """Remove documents that say nearly the same as another in other words (SemDeDup, Abbas et al. 2023, arXiv:2303.09540).

    Attributes:
        model: A fastText model: a document's embedding is the mean of its words' vectors.
        embeddings: Parquet files with columns `id` or `source_id`, and `embedding`, in place of a model.
        similarity: Smallest cosine similarity of a pair.
        clusters: Groups within which documents are compared, by k-means; by default the square root of their number.
    """

    model: str | None = None
    embeddings: tuple[str, ...] = ()
    similarity: Annotated[float, Field(gt=0, le=1)] = 0.95
    clusters: Annotated[int, Field(ge=1)] | None = None
