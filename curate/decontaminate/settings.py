"""What a recipe can say about decontamination."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from curate.stage import Stage


class Decontaminate(Stage):
    """Remove, cut or flag documents that hold benchmark items, by n-gram overlap (Brown et al. 2020, appendix C).

    An item's texts are cut into n-grams of folded words, so case, punctuation at word edges, line wraps, quotes and
    soft hyphens make no difference. The overlap of a document with an item is the share of the distinct n-grams of
    the item's best matching text that the document holds; n-grams that are template or common text count on neither
    side of the fraction.

    Attributes:
        benchmarks: Paths of JSON Lines (plain, gzip, zstd) or Parquet files, any schema; see `items.py` for the
            fields that are looked for.
        ngram: Words of an n-gram. 13 is the largest that Brown et al. use.
        min_ngram: A text shorter than `ngram` is one n-gram of its whole length, down to this many words; Brown et al.
            find that below 8 spurious collisions begin. Shorter items are tested as question and answer joined, and
            listed as untested where that is too short as well.
        threshold: Overlap from which a document counts as contaminated, in (0, 1]. One half, as in Tulu 3 (Lambert et
            al. 2024, section 3.2): one shared sentence inside a long passage is no leak, and an item that lost its
            middle to a small edit still is one.
        max_clusters: An n-gram in documents of more than this many distinct duplicate clusters is common text (licence
            notices, quotations), no trace of the benchmark. 10 as in Brown et al., who count documents; we count
            clusters, or a leak copied 500 times would pass as common.
        max_items: An n-gram in more than this many distinct items of one benchmark, or in more than half of them
            (at least 3), is its template. Items that repeat a whole text (questions about one passage) count once.
        action: `drop` removes the document, `cut` removes the matched spans with `margin`, `flag` only reports.
        margin: Words cut on each side of a matched span, as the answer stands beside the question. Brown et al. cut
            200 characters, about 40 words.
    """

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("regex", "xxhash")  # they make the word hashes
    decides: ClassVar[tuple[str, ...]] = ("benchmarks", "threshold", "max_clusters", "action", "margin")

    benchmarks: Annotated[tuple[str, ...], Field(min_length=1)]
    ngram: Annotated[int, Field(ge=2, le=64)] = 13
    min_ngram: Annotated[int, Field(ge=1, le=64)] = 8
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.5
    max_clusters: Annotated[int, Field(ge=1)] = 10
    max_items: Annotated[int, Field(ge=2)] = 20
    action: Literal["drop", "cut", "flag"] = "drop"
    margin: Annotated[int, Field(ge=0)] = 40

    @property
    def shortest(self) -> int:
        """Words of the shortest n-gram in use: `min_ngram`, or `ngram` where that is smaller."""
        return min(self.ngram, self.min_ngram)

    @model_validator(mode="after")
    def _lengths(self) -> Decontaminate:
        if "min_ngram" in self.model_fields_set and self.min_ngram > self.ngram:
            raise ValueError(
                f"min_ngram is {self.min_ngram}, more than ngram ({self.ngram}); choose 1 to {self.ngram}."
            )
        return self
