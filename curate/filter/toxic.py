"""Words that are toxic or for adults, by language: C4's rule on bad words (Raffel et al. 2020, arXiv:1910.10683, section 2.2).

The lists are those that C4 used: LDNOOBW (List of Dirty, Naughty, Obscene, and Otherwise Bad Words; Shutterstock, CC BY 4.0),
28 languages, in `ldnoobw.txt` beside this file. C4 removes a page with any of them; mC4's lists for languages without spaces
leave out four words that are parts of common ones there.

Such lists know no context: they hold words of anatomy, of law and of names of places, and removing every page with one takes
pages about health and about minorities (Dodge et al. 2021, arXiv:2104.08758, section 5.3). So only the variant `c4` removes at the
first word; ours asks that listed words make up a share of the text.

Variants:

- `c4`: decides as datatrove's `C4BadWordsFilter`. The text is made small, the entries are not, so that entries with capitals
  are never found (61 of the Spanish list's 68). An entry stands between characters that are no letter, digit or `_`; in
  Japanese, Thai and Chinese it may stand anywhere.
- `curate`: the same, without case on both sides, and a combining mark belongs to the letter before it, so that no entry is found
  at the beginning of a longer word of an Indic script.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from curate.errors import InputError
from curate.filter.bounds import AtMostNumber, AtMostShare, Filter, is_off
from curate.stage import Rule
from curate.text.hashing import choice_hash

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

LANGUAGES = (
    *(
        "ar",
        "cs",
        "da",
        "de",
        "en",
        "eo",
        "es",
        "fa",
        "fi",
        "fil",
        "fr",
        "fr-CA-u-sd-caqc",
        "hi",
        "hu",
        "it",
        "ja",
        "kab",
    ),
    *("ko", "nl", "no", "pl", "pt", "ru", "sv", "th", "tlh", "tr", "zh"),
)
_UNSPACED = frozenset({"ja", "th", "zh"})
# Common parts of longer words: each alone is in more than a tenth of the pages of its language (mC4, as in datatrove).
_ALLOWED = frozenset({"sm", "グロ", "女の子", "性"})
_ALIASES = {"tl": "fil", "nb": "no", "nn": "no"}  # labels of languages whose list goes by another name
_EVERY = "*"  # section of a list of one's own that has none
_SHIPPED = Path(__file__).with_name("ldnoobw.txt")


def _names(value: Any) -> Any:
    if is_off(value):
        return ()
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


class BadWords(Filter):
    """Counts listed words and phrases, by the language of the document.

    Attributes:
        variant: `curate` or `c4`, see above.
        languages: Languages whose lists are looked for in every document. None: the list of the language that the input states
            for the document; where it has none, nothing is found.
        default_language: Stands for a document whose language is not stated.
        lists: Text files that replace the shipped lists: one word or phrase a line, `#` begins a comment, a line such as `[pt]` says
            that what follows is for that language. Lines before the first such line are for all languages.
        max_matches: Most listed words that a page may have and stay. c4: 0; ours: off.
        max_char_fraction: Largest share of a text's characters that may stand in listed words. c4: off; ours: 0.01.
        keep_fraction: Share of the documents beyond `max_matches` that stay all the same, drawn by seed and id.
        seed: Of that draw.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("id", "language")
    files: ClassVar[tuple[str, ...]] = ("lists",)
    adds: ClassVar[Mapping[str, str]] = {
        "num_bad_words": "int64",
        "bad_word_char_fraction": "float64",
        "bad_words_draw": "float64",
    }
    decides: ClassVar[tuple[str, ...]] = ("max_matches", "max_char_fraction", "keep_fraction", "by")

    variant: Literal["curate", "c4"] = "curate"
    languages: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    default_language: str = "en"
    lists: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    max_matches: AtMostNumber = 0.0  # each variant has its own, see `_bounds_of_variant`
    max_char_fraction: AtMostShare = 0.01
    keep_fraction: float = Field(default=0.0, ge=0.0, lt=1.0)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _bounds_of_variant(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        if values.get("variant", "curate") == "c4":
            return {"max_matches": 0.0, "max_char_fraction": None, **values}
        return {"max_matches": None, "max_char_fraction": 0.01, **values}

    @model_validator(mode="after")
    def _lists_are_known(self) -> BadWords:
        unknown = sorted({*self.languages, self.default_language} - set(LANGUAGES))
        if unknown and not self.lists:
            raise ValueError(f"no list for {', '.join(unknown)}; there are lists for {', '.join(LANGUAGES)}")
        if self.keep_fraction and (self.max_matches is None or isinstance(self.max_matches, Mapping)):
            raise ValueError("keep_fraction needs one number for max_matches, such as max_matches: 0")
        return self

    def model_digest(self) -> str | None:
        """Return the sha256 of the lists: the shipped ones, or those of `lists`.

        Raises:
            InputError: If a file cannot be read.
        """
        import hashlib

        digest = hashlib.sha256()
        for path in self.lists or (_SHIPPED,):
            digest.update(hashlib.sha256(_content(str(path))).digest())
        return digest.hexdigest()

    def prepare(self) -> None:
        """Read the lists and make the trees that most documents need."""
        stamps = _stamps(self.lists)
        for language in self.languages or (self.default_language,):
            _words_of(self.variant, self.lists, stamps, language)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`; 0 for a document whose language has no list."""
        import pyarrow as pa

        rows, stamps = [], _stamps(self.lists)
        for text, language in zip(batch["text"].to_pylist(), batch["language"].to_pylist(), strict=True):
            names = self.languages or (language or self.default_language,)
            rows.append(self._row(text or "", names, stamps))
        draws = [choice_hash(self.seed, name or "", "bad_words") / 2**64 for name in batch["id"].to_pylist()]
        return pa.record_batch(
            {
                "num_bad_words": pa.array([count for count, _ in rows], pa.int64()),
                "bad_word_char_fraction": pa.array([share for _, share in rows], pa.float64()),
                "bad_words_draw": pa.array(draws, pa.float64()),
            }
        )

    def _row(self, text: str, languages: Iterable[str], stamps: tuple[tuple[int, int], ...]) -> tuple[int, float]:
        lowered = text if text.isascii() else text.lower()  # the kernel makes ASCII small
        data = lowered.encode("utf-8", "surrogatepass")
        found: set[tuple[int, int]] = set()
        for language in languages:
            words = _words_of(self.variant, self.lists, stamps, language)
            if words is not None:
                found |= words.places(data, self.variant == "curate")
        count = num_chars = end = 0
        for start, stop in sorted(found, key=lambda place: (place[0], -place[1])):
            if start >= end:  # of words inside one another the first and longest counts
                count, end = count + 1, stop
                num_chars += len(data[start:stop].decode("utf-8", "surrogatepass"))
        return count, num_chars / max(len(lowered), 1)

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return the rules that are on."""
        rules = []
        if self.keep_fraction:
            drawn = f"num_bad_words <= {self.max_matches:g} OR bad_words_draw < {self.keep_fraction!r}"
            rules.append(Rule(f"{block}.num_bad_words", expression=drawn))
        elif self.max_matches is not None:
            rules.append(self.rule(f"{block}.num_bad_words", "num_bad_words", None, self.max_matches))
        if self.max_char_fraction is not None:
            name = f"{block}.bad_word_char_fraction"
            rules.append(self.rule(name, "bad_word_char_fraction", None, self.max_char_fraction))
        return tuple(rules)


class _Words(NamedTuple):
    """The entries of a language, made to be looked for all at once.

    Attributes:
        tree: Of their bytes, see `toxic_kernel`.
        stand_alone: Whether an entry has to stand between characters that belong to no word.
    """

    tree: NDArray[np.int32]
    stand_alone: bool

    def places(self, data: bytes, marks_join: bool) -> set[tuple[int, int]]:
        """Return first byte and end of every entry in `data`, overlapping ones too.

        Args:
            data: UTF-8; what is not ASCII in small letters.
            marks_join: Whether a combining mark belongs to the letter before it.
        """
        from curate.filter import toxic_kernel

        return {
            (start, end)
            for start, end in toxic_kernel.places(data, self.tree, self.stand_alone).tolist()
            if not self.stand_alone or (not _ends_in_word(data, start) and not _begins_in_word(data, end, marks_join))
        }


_ASCII_WORD = bytes(chr(byte).isalnum() or byte == 0x5F for byte in range(128))


def _is_word(char: str) -> bool:  # what `\w` matches
    return char.isalnum() or char == "_"


def _ends_in_word(data: bytes, end: int) -> bool:
    """Whether the character before `end` belongs to a word."""
    if end == 0:
        return False
    if data[end - 1] < 0x80:
        return bool(_ASCII_WORD[data[end - 1]])
    start = end - 1
    while data[start] & 0xC0 == 0x80:
        start -= 1
    return _is_word(data[start:end].decode("utf-8", "surrogatepass"))


def _begins_in_word(data: bytes, start: int, marks_join: bool) -> bool:
    """Whether the character at `start` belongs to a word."""
    if start == len(data):
        return False
    if data[start] < 0x80:
        return bool(_ASCII_WORD[data[start]])
    end = start + 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    char = data[start:end].decode("utf-8", "surrogatepass")
    return _is_word(char) or (marks_join and unicodedata.category(char).startswith("M"))


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            path, f"cannot be read: {error.strerror}.", "Give a text file with one entry a line."
        ) from error


def _stamps(paths: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Return what changes when a file does, so that no list that was read before stands for another."""
    found = []
    for path in paths:
        try:
            status = Path(path).stat()
        except OSError as error:
            raise InputError(
                path, f"cannot be read: {error.strerror}.", "Give a text file with one entry a line."
            ) from error
        found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


@functools.cache
def _sections(paths: tuple[str, ...], stamps: tuple[tuple[int, int], ...]) -> Mapping[str, tuple[str, ...]]:
    """Return the entries of the files by language; `*` is for all."""
    del stamps
    found: dict[str, dict[str, None]] = {}
    for path in paths:
        section = _EVERY
        for line in _content(path).decode("utf-8", "replace").splitlines():
            entry = line.partition("#")[0].strip()
            if entry.startswith("[") and entry.endswith("]"):
                section = entry[1:-1].strip()
            elif entry:
                found.setdefault(section, {})[entry] = None
    return {section: tuple(entries) for section, entries in found.items()}


@functools.cache
def _words_of(
    variant: str, lists: tuple[str, ...], stamps: tuple[tuple[int, int], ...], language: str
) -> _Words | None:
    """Return what looks for the entries of a language, or None if there is no entry."""
    from curate.filter import toxic_kernel

    sections = _sections(lists or (str(_SHIPPED),), stamps)
    if language not in sections:
        language = _ALIASES.get(language.partition("-")[0].lower(), language.partition("-")[0].lower())
    listed = dict.fromkeys((*sections.get(_EVERY, ()), *sections.get(language, ())))
    if not lists:
        listed = dict.fromkeys(entry for entry in listed if entry not in _ALLOWED)
    entries = listed if variant == "c4" else dict.fromkeys(entry.lower() for entry in listed)
    if not entries:
        return None
    return _Words(toxic_kernel.tree_of(entry.encode() for entry in entries), language not in _UNSPACED)
