"""What a recipe says under `dedup:` of lines, spans, earlier corpora and meaning. Nothing heavy is imported here."""

from __future__ import annotations

import re
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

    What is cut are the tokens that a suffix array with this shortest length gives, across documents: a span that only one
    document repeats is left alone. The tool of Lee et al. strikes all copies, `keep_first: false`.

    Attributes:
        min_tokens: Fewest tokens of a span; a token is a word, a number or a sign (`curate.words.split_words`), case counts.
        min_documents: Fewest documents that hold a span; copies of one text (a cluster) count as one document.
        action: `cut` the span as edits, or `flag` it: it is recorded only.
        keep_first: Leave each span where it stands first: in the first document that holds it, by the order of `keep`, then
            (path, offset), and in the copies of that document; else it is cut everywhere.
        max_share: A document of which a larger share of the text (UTF-8 bytes of its tokens) would be cut is removed, and what
            only it holds with it. `off`: only a document of which nothing would stay is.
        sources: The sources that are looked at; all if none is named.
    """

    min_tokens: Annotated[int, Field(ge=4, le=100_000)] = 50
    min_documents: Annotated[int, Field(ge=2)] = 2
    action: Literal["cut", "flag"] = "cut"
    keep_first: bool = True
    max_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    sources: tuple[str, ...] = ()

    @field_validator("max_share", mode="before")
    @classmethod
    def _read_off(cls, value: Any) -> Any:
        return None if isinstance(value, str) and value.lower() == "off" else value

    @model_validator(mode="after")
    def _share_removes(self) -> Spans:
        if self.max_share is not None and self.action == "flag":
            raise ValueError(
                "max_share removes documents, and action is flag, which only records; leave one of them out"
            )
        return self

    def looks_at(self, source: str) -> bool:
        """Return whether the documents of this source are looked at."""
        return not self.sources or source in self.sources


class Against(Settings):
    """Remove documents that an earlier corpus holds already, by its stored signatures: its text is not needed.

    Attributes:
        runs: Run folders, or folders of signatures that runs with `dedup: {signatures: true}` wrote.
        similarity: Smallest estimated similarity at which a document counts as a near copy of an earlier one.
    """

    runs: Annotated[tuple[str, ...], Field(min_length=1)]
    similarity: Annotated[float, Field(gt=0, le=1)] = 0.8


class Semantic(Settings):
    """Remove documents that say nearly the same as another (SemDeDup, Abbas et al. 2023, arXiv:2303.09540).

    Each document is a vector, and is compared with those of its group: of two whose vectors are at least `similarity`
    alike, the one of higher priority stays. Groups are found by k-means. How alike texts look is the model's word: the mean of
    word vectors sees subject and vocabulary, neither order nor negation, and hardly a number.

    Attributes:
        model: Path or address of a fastText model, word vectors or a classifier (.bin, .ftz); a document's vector is the one
            of `get_sentence_vector`.
        sha256: Digest that the model file must have.
        embeddings: In place of a model, Parquet files with `id` (of the document) or `source_id` (of the input), and
            `embedding`, a list of numbers. A document that they do not name is left alone.
        similarity: Smallest cosine of the angle between two vectors of one pair. There is no default, as each model has its own
            scale: look at pairs in semantic.parquet, and begin high.
        subtract_mean: Whether vectors are compared without the mean of all. By default with a model: the mean of word vectors
            points nearly the same way for all texts (Mu and Viswanath 2018, arXiv:1702.01417), so that strangers are 0.99 alike.
            The mean of a few documents says little, so neither does what is left: it takes hundreds.
        clusters: Number of groups within which documents are compared; by default the square root of the number of
            documents. 1 compares all with all.
        sources: The sources that are looked at; all if none is named.
    """

    model: str | None = None
    sha256: str | None = None
    embeddings: tuple[str, ...] = ()
    similarity: Annotated[float, Field(gt=0, le=1)]
    subtract_mean: bool | None = None
    clusters: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    sources: tuple[str, ...] = ()

    @field_validator("embeddings", mode="before")
    @classmethod
    def _one_path(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("sha256")
    @classmethod
    def _is_digest(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[0-9a-f]{64}", value):
            raise ValueError(f"{value!r} is no sha256: 64 of the digits 0 to 9 and a to f")
        return value

    @model_validator(mode="after")
    def _model_or_embeddings(self) -> Semantic:
        if (self.model is None) == (not self.embeddings):
            both = "names both" if self.embeddings else "needs one of"
            raise ValueError(
                f"semantic {both} model (a fastText file) and embeddings (Parquet files): give one of them"
            )
        if self.sha256 is not None and self.model is None:
            raise ValueError("sha256 is that of `model`; embeddings have none")
        return self

    @property
    def subtracts_mean(self) -> bool:
        """Whether vectors are compared without the mean of all."""
        return self.model is not None if self.subtract_mean is None else self.subtract_mean

    def looks_at(self, source: str) -> bool:
        """Return whether the documents of this source are looked at."""
        return not self.sources or source in self.sources
