"""What a recipe can say about decontamination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from curate.benchmarks.sources import BenchmarkSource
from curate.decontaminate.canaries import Canaries
from curate.stage import Stage


class Decontaminate(Stage):
    """Remove, cut or flag documents that hold benchmark items, by n-gram overlap (Brown et al. 2020, appendix C).

    An item's texts are cut into n-grams of words in their normal form, so case, punctuation, line wraps, quotes and
    forms of digits make no difference. Where a document holds one, the words on both sides are compared as well: they
    make a run. The score of a document and an item is the share of the words of one of the item's texts that runs near
    one another cover; words that only template or common text covers count on neither side of the fraction.

    Attributes:
        benchmarks: Paths of benchmarks, or mappings with a path and what their rows hold (see `BenchmarkSource`). Without
            a mapping of fields a known form is recognised by its columns; of any other every string field is looked for,
            but for answers, labels and ids (see `items.py`).
        ngram: Words of the n-grams of a long text. 13 is the largest that Brown et al. use. Of a shorter one they have
            an eighth of its words, so that a leak of which every tenth word was changed, or whose sentences stand apart,
            still holds some.
        min_ngram: Words of the n-grams of a short text, or by default `ngram` if that is smaller. At 5 one word in 400 of
            clean text begins one; at 4 one in 70.
        min_words: Words of a text that a document must hold at least; twice as many where a word is a character, as in
            Chinese. Brown et al. find that below 8 spurious collisions begin. Shorter texts are tested as question and
            answer joined, and listed as untested where that is too short as well.
        answers: `together`: a question too short for half of it to be told is looked for with its answers and choices
            behind it as well. `apart`: questions alone are looked for. An answer alone never is.
        threshold: Score from which a document counts as contaminated, in (0, 1]: the share of a text's words that it
            holds. About a third: half of an item is a leak, also if some of its words were changed, and one shared
            sentence inside a long passage is none.
        max_clusters: An n-gram in documents of more than this many distinct duplicate clusters is common text (licence
            notices, quotations), no trace of the benchmark. 10 as in Brown et al., who count documents; we count
            clusters, or a leak copied 500 times would pass as common.
        max_items: An n-gram in more than this many distinct items of one benchmark, or in more than half of them
            (at least 3), is its template. Items that repeat a whole text (questions about one passage) count once.
        action: `drop` removes the document, `cut` removes the matched spans with `margin`, `flag` only reports.
        margin: Words cut on each side of a matched span, as the answer stands beside the question. Brown et al. cut
            200 characters, about 40 words.
        canaries: Benchmark items to leak on purpose, to measure what a leak does; for one variant of an ablation.
    """

    version: ClassVar[int] = 7
    libraries: ClassVar[tuple[str, ...]] = ("regex", "xxhash")  # they make the word hashes
    decides: ClassVar[tuple[str, ...]] = ("benchmarks", "threshold", "max_clusters", "action", "margin", "canaries")

    benchmarks: Annotated[tuple[str | BenchmarkSource, ...], Field(min_length=1)]
    ngram: Annotated[int, Field(ge=2, le=64)] = 13
    min_ngram: Annotated[int, Field(ge=1, le=64)] = 5
    min_words: Annotated[int, Field(ge=1)] = 8
    answers: Literal["together", "apart"] = "together"
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.35
    max_clusters: Annotated[int, Field(ge=1)] = 10
    max_items: Annotated[int, Field(ge=2)] = 20
    action: Literal["drop", "cut", "flag"] = "drop"
    margin: Annotated[int, Field(ge=0)] = 40
    canaries: Canaries | None = None

    @property
    def sources(self) -> tuple[BenchmarkSource, ...]:
        """Return the benchmarks, those given by a path alone as well."""
        return tuple(BenchmarkSource(path=one) if isinstance(one, str) else one for one in self.benchmarks)

    @property
    def shortest(self) -> int:
        """Words of the shortest n-gram in use."""
        return min(self.ngram, self.min_ngram, self.min_words)

    @model_validator(mode="after")
    def _names(self) -> Decontaminate:
        names = [one.name for one in self.sources if one.name is not None]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ValueError(f"two benchmarks are named '{twice[0]}': name them apart, or give one pattern for both")
        return self

    @model_validator(mode="before")
    @classmethod
    def _shorter(cls, given: Any) -> Any:
        """Let the default of `min_ngram` give way to a smaller `ngram`, so that the resolved recipe is one."""
        if isinstance(given, Mapping) and "min_ngram" not in given and isinstance(given.get("ngram"), int):
            return {**given, "min_ngram": max(1, min(given["ngram"], cls.model_fields["min_ngram"].default))}
        return given

    @model_validator(mode="after")
    def _lengths(self) -> Decontaminate:
        if self.min_ngram > self.ngram:
            raise ValueError(
                f"min_ngram is {self.min_ngram}, more than ngram ({self.ngram}); choose 1 to {self.ngram}."
            )
        return self
