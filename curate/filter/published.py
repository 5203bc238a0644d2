"""A filter that several implementations publish: one name, other formulas and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from pydantic import field_validator, model_validator

from curate.filter.bounds import Filter

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from curate.words import Texts, Tokens

_Arrays = TypeVar("_Arrays", bound="Texts | Tokens")

ENGLISH: Mapping[str, Any] = {"words": "english"}  # what datatrove splits with
OWN: Mapping[str, Any] = {"words": "own"}


def frozen(arrays: _Arrays) -> _Arrays:
    """Return arrays that nobody may write to: compiled code has one form for these and another for those one may."""
    for array in arrays:
        array.flags.writeable = False
    return arrays


class Published(Filter):
    """A filter with a setting `variant`, which a class narrows to the names it has.

    Attributes:
        variants: By name of a variant, the settings that it brings; those in the recipe win. The first is the default.
        words: How the text is split: `fast` (`curate.words.split_words`) or `english` (spaCy's English tokenizer). By default
            what the variant's publisher used; `own` is that of a publisher whose formulas are tied to it.
    """

    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    words: Literal["fast", "english", "own"] = "fast"

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]  # which words, is a setting
        """The column of words that the step needs."""
        return {"english": ("english_tokens",), "fast": ("tokens",), "own": ()}[self.words]

    def prepare(self) -> None:
        """Compile the kernels, on a text of two lines: each takes a path of its own through C4."""
        import pyarrow as pa

        from curate.words import with_words

        texts = pa.array(["The lock opened at dawn.\nThe barge left at noon.[1]"], pa.large_string())
        self.apply(with_words(pa.record_batch({"text": texts}), self.reads))

    def texts(self, batch: pa.RecordBatch) -> Texts:
        """Return the texts of a batch as the kernels take them."""
        from curate.words import text_arrays

        return frozen(text_arrays(batch["text"]))

    def tokens(self, batch: pa.RecordBatch) -> Tokens:
        """Return the words of a batch as the kernels take them."""
        from curate.words import token_arrays

        return frozen(token_arrays(batch[self.reads[0]]))

    def columns(self, values: NDArray[np.float64]) -> pa.RecordBatch:
        """Return measured values as the columns of `adds`.

        Args:
            values: Counts are whole numbers; shape (rows, columns).
        """
        import pyarrow as pa

        arrays = [pa.array(column, pa.float64()) for column in values.T]
        return pa.record_batch(
            {
                name: array.cast(pa.int64()) if kind == "int64" else array
                for (name, kind), array in zip(self.adds.items(), arrays, strict=True)
            }
        )

    @model_validator(mode="before")
    @classmethod
    def _settings_of_variant(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or not cls.variants:
            return values
        variant = values.get("variant", next(iter(cls.variants)))
        known = isinstance(variant, str) and variant in cls.variants
        return {**cls.variants[variant], **values} if known else values

    @field_validator("variant", mode="before", check_fields=False)
    @classmethod
    def _known_variant(cls, value: Any) -> Any:
        if value not in tuple(cls.variants):
            block = "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in cls.__name__).lstrip("_")
            raise ValueError(f"there is no variant {value!r} of {block}; there are: {', '.join(cls.variants)}")
        return value

    @model_validator(mode="after")
    def _words_of_variant(self) -> Published:
        brought = self.variants.get(getattr(self, "variant", ""), {}).get("words")
        if (self.words == "own") != (brought == "own"):
            remedy = "leave words out" if brought == "own" else "write fast or english"
            raise ValueError(f"variant {getattr(self, 'variant', '')} cannot have words: {self.words}; {remedy}")
        return self
