"""What a recipe says under `dedup:` and `validation:`. Nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from curate.dedup.kinds import Against, Lines, Semantic, Spans
from curate.dedup.thresholds import choose_bands
from curate.stage import Settings, Stage
from curate.text.quantities import parse_count

KINDS = ("exact", "minhash", "lines", "spans", "against", "semantic")


class Exact(Settings):
    """Remove documents that equal another one.

    Attributes:
        by: What must be equal. `text`: the normalised text (`curate.dedup.exact.normal_form`). `url`: the address in
            canonical form; what a site serves under one address at several times. `payload`: the bytes of the record's body
            before extraction. Documents without an address, or whose input gives text and no payload, are equal to none.
    """

    by: Annotated[tuple[Literal["text", "url", "payload"], ...], Field(min_length=1)] = ("text",)

    @field_validator("by")
    @classmethod
    def _check_by(cls, by: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(by)) != len(by):
            raise ValueError(f"exact.by names one thing twice: {', '.join(by)}")
        return by


class MinHash(Settings):
    """Remove near copies: MinHash signatures cut into bands (Broder 1997; Leskovec et al., Mining of Massive Datasets, 3.4).

    Attributes:
        ngram: Words in a shingle. Where a script puts no spaces between words (Han, Kana, Thai, Lao, Khmer, Myanmar, Tibetan)
            each character with its marks is a word: a changed character breaks `ngram` shingles, as a changed word does elsewhere.
            FineWeb-2 takes five words of a tokenizer there, which are more characters.
        bands, rows: Two documents are compared if all rows of at least one band agree. Defaults as in FineWeb
            (Penedo et al. 2024, arXiv:2406.17557): 14 bands of 8 rows.
        threshold: In place of bands and rows: the similarity at which pairs are to be told apart. Bands and rows are then those
            of datasketch's MinHashLSH: the least area of false positives and false negatives, at equal weights.
        permutations: Values of a signature; by default bands * rows, or 128 with a threshold.
        variant: Hash functions: `curate`, or `datasketch`: values equal those of its MinHash of version 2 (scheme `affine32`,
            SHA-1) with the same seed and `num_perm`, of shingles whose words are joined by one space, in UTF-8; slower.
        verify: Smallest similarity of the two shingle sets, computed exactly, at which a compared pair is a pair of near
            copies; False: a shared band decides. By default 0.7, or the threshold.
        measure: What `verify` bounds: `jaccard`, |A and B| / |A or B|, or `containment`, |A and B| / min(|A|, |B|) (Broder
            1997). Bands find pairs by their Jaccard similarity all the same: a text that is contained in a much longer one is
            seldom compared with it.
        seed: Of the hash functions.
    """

    ngram: Annotated[int, Field(ge=1, le=1000)] = 5
    bands: Annotated[int, Field(ge=1, le=10_000)] = 14
    rows: Annotated[int, Field(ge=1, le=1000)] = 8
    verify: Annotated[float, Field(gt=0, le=1)] | Literal[False] = 0.7
    measure: Literal["jaccard", "containment"] = "jaccard"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    threshold: Annotated[float, Field(gt=0, lt=1)] | None = None
    permutations: Annotated[int, Field(ge=2, le=10_000)] | None = None
    variant: Literal["curate", "datasketch"] = "curate"

    @model_validator(mode="before")
    @classmethod
    def _choose_bands(cls, value: Any) -> Any:
        """Put the bands and rows of a threshold at their place, so that the recipe that is written shows them."""
        if not isinstance(value, Mapping) or value.get("threshold") is None:
            return value
        threshold, permutations = value["threshold"], value.get("permutations", 128)
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold < 1:
            raise ValueError(f"threshold lies between 0 and 1, both left out; got {threshold!r}")
        if isinstance(permutations, bool) or not isinstance(permutations, int) or not 2 <= permutations <= 4096:
            raise ValueError(f"permutations is 2 to 4096 where a threshold is given; got {permutations!r}")
        bands, rows = choose_bands(float(threshold), permutations)
        given = value.get("bands", bands), value.get("rows", rows)
        if given != (bands, rows):
            raise ValueError(
                f"threshold {threshold:g} with {permutations} permutations is {bands} bands of {rows} rows; "
                "leave out the threshold, or bands and rows"
            )
        return {"verify": threshold, **value, "bands": bands, "rows": rows, "permutations": permutations}

    @model_validator(mode="after")
    def _enough_permutations(self) -> MinHash:
        if self.bands * self.rows > 10_000:
            raise ValueError(
                f"{self.bands} bands of {self.rows} rows are {self.bands * self.rows} values; 10000 at most"
            )
        if self.num_permutations < self.bands * self.rows:
            raise ValueError(
                f"permutations is {self.permutations}, and {self.bands} bands of {self.rows} rows need {self.bands * self.rows}"
            )
        if self.variant == "datasketch" and self.seed >= 2**32:
            raise ValueError(f"variant: datasketch takes a seed below 4294967296; got {self.seed}")
        return self

    @property
    def num_permutations(self) -> int:
        """Values of a signature."""
        return self.permutations if self.permutations is not None else self.bands * self.rows

    @field_validator("verify", mode="before")
    @classmethod
    def _check_verify(cls, value: Any) -> Any:
        if value is False:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise ValueError(f"verify is a threshold above 0 and at most 1, or false; got {value!r}")
        return float(value)

    @model_validator(mode="after")
    def _measures_something(self) -> MinHash:
        if self.measure != "jaccard" and self.verify is False:
            raise ValueError("measure says what verify bounds, and verify is false: no pair is measured")
        return self


class Highest(Settings):
    """Documents with a higher measured number stay."""

    highest: str

    @property
    def column(self) -> str:
        """The measured column."""
        return self.highest


class Lowest(Settings):
    """Documents with a lower measured number stay."""

    lowest: str

    @property
    def column(self) -> str:
        """The measured column."""
        return self.lowest


Preference = Literal["longest", "shortest", "latest", "earliest", "id", "first"] | Highest | Lowest


def _listed(value: object) -> object:
    listed = tuple(value) if isinstance(value, list | tuple) else (value,)
    for one in listed:
        if isinstance(one, Mapping) and not (
            set(one) in ({"highest"}, {"lowest"}) and all(isinstance(name, str) for name in one.values())
        ):
            raise ValueError("a preference in braces is {highest: column} or {lowest: column}, of one measured column")
    return listed


class Keep(Settings):
    """Which copy stays.

    Attributes:
        order: Sources, those to keep first; sources not named follow in recipe order.
        then: Within a source, what decides next, one or several, the first that differs: `longest` or `shortest` text (UTF-8
            bytes); `latest` or `earliest` date (metadata `date`; documents without one come last); `{highest: column}` or
            `{lowest: column}` of a number that a step measures, such as `quality_score` (documents without one come last);
            `id`; `first`: nothing more. Ties go to the first by (path, offset).
    """

    order: tuple[str, ...] = ()
    then: Annotated[tuple[Preference, ...], BeforeValidator(_listed)] = ("longest",)

    @field_validator("order")
    @classmethod
    def _check_order(cls, order: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(order)) != len(order):
            raise ValueError(f"keep.order names a source twice: {', '.join(order)}")
        return order

    @field_validator("then")
    @classmethod
    def _check_then(cls, then: tuple[Preference, ...]) -> tuple[Preference, ...]:
        if not then:
            raise ValueError("keep.then names no preference; `first` is the order of documents")
        if len(set(then)) != len(then):
            raise ValueError("keep.then names a preference twice")
        for last in ("first", "id"):  # no two documents have the same place, or the same id
            if last in then[:-1]:
                raise ValueError(f"keep.then has something behind '{last}', which leaves nothing to decide")
        return then

    @property
    def stored(self) -> tuple[Preference, ...]:
        """The preferences whose numbers the files of documents that are compared carry for them: dates and measures."""
        return tuple(one for one in self.then if not isinstance(one, str) or one in ("latest", "earliest"))

    @property
    def dated(self) -> bool:
        """Whether dates decide."""
        return "latest" in self.then or "earliest" in self.then

    @property
    def columns(self) -> tuple[str, ...]:
        """The measured columns that decide."""
        return tuple(dict.fromkeys(one.column for one in self.then if isinstance(one, Highest | Lowest)))

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


class Dedup(Stage):
    """Deduplication over all sources. A kind that is not named is not done; if none is named, exact and minhash are."""

    version: ClassVar[int] = 1  # of components, clusters and the choice; signatures have their own

    exact: Exact | None = None
    minhash: MinHash | None = None
    lines: Lines | None = None
    spans: Spans | None = None
    against: Against | None = None
    semantic: Semantic | None = None
    keep: Keep = Keep()
    signatures: bool = False  # keep the signatures of the curated corpus in the run folder, for `against` of later runs

    @model_validator(mode="before")
    @classmethod
    def _both_unless_named(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and not set(KINDS) & value.keys():
            return {**value, "exact": Exact(), "minhash": MinHash()}
        return value

    @model_validator(mode="after")
    def _does_something(self) -> Dedup:
        if all(getattr(self, kind) is None for kind in KINDS):
            raise ValueError(f"dedup has none of {', '.join(KINDS)}; name one, or leave dedup out")
        return self

    @property
    def stores_signatures(self) -> bool:
        """Whether signatures are needed as such, not only the bands cut from them."""
        return self.signatures or self.against is not None

    @property
    def copies(self) -> Dedup | None:
        """The same settings as far as they are about copies of documents, or None if they are not."""
        if self.exact is None and self.minhash is None:
            return None
        return Dedup(exact=self.exact, minhash=self.minhash, keep=self.keep)


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
