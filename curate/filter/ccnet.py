"""CCNet's perplexity and its buckets (Wenzek et al. 2020, arXiv:1911.00359, section 3.4; cc_net `perplexity.py`, `cutoff.csv`).

The model is a KenLM file, ARPA or binary, which the user brings: CCNet's own are 5-grams of Wikipedia in pieces of
sentencepiece, one pair of files a language (`pt.arpa.bin`, `pt.sp.model`). Needs the extra `kenlm`.

As CCNet does it, to the digit:

- The text is normalised: white space stripped at its ends, lower case, accents off, each digit 0, punctuation of other scripts
  as ASCII, control characters out. Line ends are control characters: with a tokenizer, words on both sides of one grow
  together.
- With a tokenizer the whole text is one sentence of pieces. Without one each line is a sentence of words, an empty line, too.
- perplexity = 10 ^ (-log10 p / (tokens + 1 a sentence)), rounded to one decimal.
- head < the 30th percentile of the language <= middle < the 60th <= tail. The cutoffs are those of CCNet's models; with another
  model give your own, or bound `max_perplexity` by a quantile. A text that is empty has perplexity 0, bucket `all`, and stays.
"""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, model_validator

from curate.errors import CurateError, InputError
from curate.filter.bounds import AtLeastNumber, AtMostNumber, Filter, is_off
from curate.stage import Bound, Rule

if TYPE_CHECKING:
    import pyarrow as pa

# language: 30th and 60th percentile of `cutoff.csv` (cc_net, MIT)
_CUTOFFS = (
    "de 370 590 it 220 360 fr 180 330 nl 430 650 pl 160 260 pt 170 270 es 180 290 no 430 680 da 380 600 id 600 970 lt 190 270 "
    "fi 1110 1500 en 340 520 hu 80 140 ro 180 270 ko 920 2130 ar 490 790 bn 190 300 fa 370 700 ru 210 310 uk 140 220 "
    "ml 2430 3220 my 2530 3040 lv 1130 1480 is 850 1190 ca 210 330 ne 860 1130 et 1270 1620 hy 750 1080 ja 1110 1450 "
    "hr 720 910 hi 480 790 az 600 950 el 450 670 cs 820 1140 bg 450 680 he 1280 1710 zh 1460 1950 ka 910 1310 km 1040 2180 "
    "gu 1110 1570 mk 530 740 kn 2210 2800 mr 1380 1870 af 540 770 mn 680 1010 kk 610 930 be 670 910"
)
_PAIRS = _CUTOFFS.split()
CUTOFFS: Mapping[str, tuple[float, float]] = {
    language: (float(head), float(middle)) for language, head, middle in zip(*[iter(_PAIRS)] * 3, strict=True)
}

_DIGIT = re.compile(r"\d")
_NO_PRINT = dict.fromkeys([*range(32), *range(127, 160)])
_PUNCTUATION = str.maketrans(
    {
        **dict.fromkeys("，、", ","),
        **dict.fromkeys("„”“«»」「《》１", '"'),
        **dict.fromkeys("´’", "'"),
        **dict.fromkeys("∶：", ":"),
        **dict.fromkeys("–━►", "-"),
        "。": ".",
        "？": "?",
        "！": "!",
        "（": "(",
        "）": ")",
        "；": ";",
        "—": " - ",
        "．": ". ",
        "～": "~",
        "…": "...",
        "〈": "<",
        "〉": ">",
        "【": "[",
        "】": "]",
        "％": "%",
    }
)


def _pair(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(float(one) if type(one) is int else one for one in value)
    return None if is_off(value) else value


class CCNet(Filter):
    """Perplexity by a language model, and the bucket that it falls into. One block for each language.

    Attributes:
        model: A KenLM file.
        tokenizer: A sentencepiece model; without one the words of the normalised text are scored.
        language: The language of the model, by the label of which documents are judged; off: all documents.
        cutoffs: Perplexities at which `middle` and `tail` begin; by default CCNet's for the language, if it has any.
        keep: The worst bucket that stays: `head`, or `middle` (RedPajama-v2 keeps both); off: all.
        max_perplexity: A number, or a share such as {quantile: 0.6}.
        min_chars: Characters (CCNet: 300), before normalisation.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("kenlm", "sentencepiece")
    files: ClassVar[tuple[str, ...]] = ("model", "tokenizer")
    adds: ClassVar[Mapping[str, str]] = {"perplexity": "float64", "perplexity_bucket": "string", "num_chars": "int64"}
    decides: ClassVar[tuple[str, ...]] = ("keep", "max_perplexity", "min_chars", "by")

    model: str
    tokenizer: Annotated[str | None, BeforeValidator(lambda value: None if is_off(value) else value)] = None
    language: Annotated[str | None, BeforeValidator(lambda value: None if is_off(value) else value)] = None
    cutoffs: Annotated[tuple[float, float] | None, BeforeValidator(_pair)] = None
    keep: Annotated[
        Literal["head", "middle"] | None, BeforeValidator(lambda value: None if is_off(value) else value)
    ] = None
    max_perplexity: AtMostNumber = None
    min_chars: AtLeastNumber = 300.0

    @model_validator(mode="before")
    @classmethod
    def _cutoffs_of_language(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or "cutoffs" in values or not isinstance(values.get("language"), str):
            return values
        return {**values, "cutoffs": CUTOFFS.get(values["language"])}

    @model_validator(mode="after")
    def _buckets_known(self) -> CCNet:
        if self.cutoffs is not None and not 0 < self.cutoffs[0] <= self.cutoffs[1]:
            raise ValueError(f"cutoffs are {self.cutoffs[0]:g} and {self.cutoffs[1]:g}; they must rise from above 0")
        if self.keep is not None and self.cutoffs is None:
            known = ", ".join(sorted(CUTOFFS))
            raise ValueError(
                f"keep needs cutoffs: give two perplexities, or a language that CCNet has some for ({known})"
            )
        return self

    def model_digest(self) -> str:
        """Return the sha256 over the files.

        Raises:
            CurateError: If KenLM is not installed.
            InputError: If a file cannot be read.
        """
        import hashlib
        import importlib.util

        if importlib.util.find_spec("kenlm") is None:
            raise CurateError("perplexity needs KenLM. Install it with `pip install 'curate[kenlm]'`.")
        parts = [_digest_of(path, *_state(path)) for path in (self.model, self.tokenizer) if path is not None]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def prepare(self) -> None:
        """Load the model."""
        _scorer(self.model, self.tokenizer, self.model_digest())

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`."""
        import pyarrow as pa

        score = _scorer(self.model, self.tokenizer, self.model_digest())
        texts = [text or "" for text in batch["text"].to_pylist()]
        perplexities = [score(text) if text else 0.0 for text in texts]
        return pa.record_batch(
            {
                "perplexity": pa.array(perplexities, pa.float64()),
                "perplexity_bucket": pa.array(map(self._bucket, perplexities), pa.string()),
                "num_chars": pa.array(map(len, texts), pa.int64()),
            }
        )

    def _bucket(self, perplexity: float) -> str:
        if self.cutoffs is None or not perplexity:
            return "all"
        head, middle = self.cutoffs
        return "head" if perplexity < head else "middle" if perplexity < middle else "tail"

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return the rules that are on."""
        rules = (
            [self.rule(f"{block}.min_chars", "num_chars", self.min_chars, None)] if self.min_chars is not None else []
        )
        if self.keep is not None:
            assert self.cutoffs is not None
            below = self.cutoffs[0 if self.keep == "head" else 1]
            bound = math.nextafter(below, 0.0)  # the next bucket begins at the cutoff; rules keep their bound
            rules.append(self.rule(f"{block}.bucket", "perplexity", None, self._for_language(bound)))
        if self.max_perplexity is not None:
            most = self._for_language(self.max_perplexity)
            rules.append(self.rule(f"{block}.perplexity", "perplexity", None, most))
        return tuple(rules)

    def _for_language(self, bound: Bound) -> Bound:
        is_one = self.language is not None and bound is not None and not isinstance(bound, Mapping)
        return {self.language: bound} if is_one else bound  # type: ignore[dict-item]


def normalised(text: str) -> str:
    """Return a text as CCNet's models were trained to see it (`text_normalizer.normalize`)."""
    text = text.strip().lower()
    if not text.isascii():
        text = "".join(sign for sign in unicodedata.normalize("NFD", text) if unicodedata.category(sign) != "Mn")
    return _DIGIT.sub("0", text).translate(_PUNCTUATION).translate(_NO_PRINT)


def _state(path: str) -> tuple[int, int]:
    try:
        stat = Path(path).stat()
    except OSError as error:
        raise InputError(
            path, f"the model cannot be read: {error.strerror}.", "Correct the path in the ccnet block."
        ) from error
    return stat.st_size, stat.st_mtime_ns


@functools.lru_cache(maxsize=16)
def _digest_of(path: str, size: int, mtime_ns: int) -> str:
    import hashlib

    del size, mtime_ns  # they are part of the key: another file under the same name is read again
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@functools.lru_cache(maxsize=4)
def _scorer(model: str, tokenizer: str | None, digest: str) -> Callable[[str], float]:
    """Load the model once per process and return the function from a text to its perplexity."""
    import kenlm

    del digest  # part of the key
    quiet = kenlm.Config()
    quiet.show_progress, quiet.arpa_complain = False, kenlm.ARPALoadComplain.NONE
    try:
        scored = kenlm.Model(model, quiet)
    except OSError as error:
        problem = f"this is no KenLM model: {str(error).splitlines()[0]}"
        raise InputError(
            model, problem, "Name an ARPA file or a binary of KenLM in `model` of the ccnet block."
        ) from error
    if tokenizer is None:
        return lambda text: _perplexity(scored.score, [normalised(line) for line in text.split("\n")])
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=tokenizer)

    def of_pieces(text: str) -> float:
        sentence = " ".join(pieces.encode(normalised(text), out_type=str))
        return _perplexity(scored.score, [sentence]) if sentence else 0.0

    return of_pieces


def _perplexity(score: Callable[[str], float], sentences: list[str]) -> float:
    """Return 10 ^ (-log10 p / length), where the end of a sentence counts as a token."""
    length = sum(len(sentence.split()) + 1 for sentence in sentences)
    return float(round(10.0 ** (-sum(map(score, sentences)) / length), 1))
