"""What a recipe is: names to settings by one visible dictionary, and the frozen typed objects that `curate.loading` makes.

This is the one file that knows all families. It loads none of their heavy libraries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from curate.classify.settings import Classifier
from curate.decontaminate.settings import Decontaminate
from curate.dedup.settings import Dedup, Validation
from curate.evaluate.settings import Evaluate
from curate.extract.auto.extractor import Auto
from curate.extract.html import Resiliparse, Trafilatura
from curate.extract.justext import JusText
from curate.extract.repair import Ftfy
from curate.filter.buckets import QualityBuckets
from curate.filter.c4 import C4Lines
from curate.filter.ccnet import CCNet
from curate.filter.code import Code
from curate.filter.extraction import Extraction
from curate.filter.fineweb import FineWeb
from curate.filter.gopher.quality import GopherQuality
from curate.filter.gopher.repetition import GopherRepetition
from curate.filter.junk.step import Junk
from curate.filter.language import Language
from curate.filter.madlad import Madlad
from curate.filter.quality import Quality
from curate.filter.refinedweb import RefinedWebLines
from curate.filter.topic import Topic
from curate.filter.toxic import BadWords
from curate.filter.url import Url
from curate.gate import Gate
from curate.mix.settings import Mixture
from curate.read.books import Books
from curate.read.files import Files
from curate.read.huggingface import HuggingFace
from curate.read.jsonl import Jsonl
from curate.read.parquet import Parquet
from curate.read.token_files import TokenFiles
from curate.read.warc import Warc
from curate.rewrite.pii import Pii
from curate.stage import Extractor, Repair, Rule, Settings, Source, Step
from curate.stated import Stated
from curate.tokens.settings import TokenizerSettings
from curate.yamlfile import dump, plain

READERS: Mapping[str, type[Source]] = {
    "warc": Warc,
    "jsonl": Jsonl,
    "parquet": Parquet,
    "files": Files,
    "books": Books,
    "huggingface": HuggingFace,
}
TOKENS = "tokens"  # the kind of a source that is tokenised already
EXTRACTORS: Mapping[str, type[Extractor]] = {
    "auto": Auto,  # the default
    "trafilatura": Trafilatura,
    "resiliparse": Resiliparse,
    "justext": JusText,
}
REPAIRS: Mapping[str, type[Repair]] = {"ftfy": Ftfy}
STEPS: Mapping[str, type[Step]] = {
    "extraction": Extraction,
    "url": Url,
    "language": Language,
    "gopher_quality": GopherQuality,
    "gopher_repetition": GopherRepetition,
    "c4_lines": C4Lines,
    "refinedweb_lines": RefinedWebLines,
    "fineweb": FineWeb,
    "madlad": Madlad,
    "ccnet": CCNet,
    "code": Code,
    "bad_words": BadWords,
    "junk": Junk,
    "quality": Quality,
    "topic": Topic,
    "quality_buckets": QualityBuckets,
    "pii": Pii,
}
# Presets of the trainer and the context of each, in tokens. The trainer is another program; a test compares.
DEFAULT_WINDOW = 2048
PRESET_CONTEXT = {"demo-1m": 128, "15m": 2048, "30m": 2048, "60m": 2048, "150m": 2048, "400m": 2048, "1b": 2048}


class Train(Settings):
    """The ablation training runs.

    Attributes:
        preset: Size of the model with its learning rate and batch size.
        seeds: One run for each; a seed sets the initial weights.
        overrides: Settings of the preset to replace, such as {lr: 1e-3}; the trainer's help lists them.
    """

    preset: Literal["demo-1m", "15m", "30m", "60m", "150m", "400m", "1b"] = "demo-1m"
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**63)], ...], Field(min_length=1)] = (0,)
    overrides: Mapping[str, bool | int | float | str | tuple[bool | int | float | str, ...]] = {}

    @property
    def context(self) -> int:
        """Return the tokens of one sequence."""
        override = self.overrides.get("context")
        return override if isinstance(override, int) else PRESET_CONTEXT[self.preset]


@dataclass(frozen=True, slots=True)
class StepBlock:
    """A step under its name in the recipe; `expression` is set for `where`.

    `written` is the step as the recipe has it, where `step` holds a model's path that is resolved against the recipe's folder.
    """

    name: str
    kind: str
    step: Step | None
    expression: str | None = None
    written: Step | None = None

    def rules(self) -> tuple[Rule, ...]:
        """Return the block's rules."""
        if self.expression is not None:
            return (Rule(f"{self.name}.expression", expression=self.expression),)
        assert self.step is not None
        return self.step.rules(self.name)

    def measured(self) -> tuple[str, ...]:
        """Return the columns that the block measures."""
        return tuple(self.step.adds) if self.step is not None else ()


@dataclass(frozen=True, slots=True)
class SourceRecipe:
    """One source."""

    name: str
    kind: str
    paths: tuple[str, ...]  # as written, variables unexpanded
    reader: Source
    gate: Gate
    extractor: Extractor | None
    extractor_kind: str | None
    repair: Repair | None
    repair_kind: str | None
    steps: tuple[StepBlock, ...]
    stated: Stated


@dataclass(frozen=True, slots=True)
class TokenSourceRecipe:
    """A source that is tokenised already: it enters where token shards are arranged."""

    name: str
    paths: tuple[str, ...]  # as written, variables unexpanded
    reader: TokenFiles
    stated: Stated


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe that passed every check.

    Attributes:
        sources: Those of texts.
        token_sources: Those of token files.
        base: Folder against which relative paths are taken: that of the recipe file.
        modules: Plug-in modules, name to file; only with `allow_code`.
        places: Where the paths of inputs stand, for errors that only running shows: dotted key
            (`sources.<name>.read.paths`, `decontaminate.benchmarks`, `tokenizer.load`, ...) to `file:line` or `--set ...`.
    """

    name: str
    seed: int
    max_errors: int
    sources: tuple[SourceRecipe, ...]
    dedup: Dedup | None
    decontaminate: Decontaminate | None
    tokenizer: TokenizerSettings | None
    validation: Validation | None
    mixture: Mixture | None
    train: Train | None
    base: Path
    modules: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict, compare=False)
    token_sources: tuple[TokenSourceRecipe, ...] = ()
    classifier: Classifier | None = None
    evaluate: Evaluate | None = None

    def names(self) -> tuple[str, ...]:
        """Return the names of all sources, those of texts first."""
        return (*(source.name for source in self.sources), *(source.name for source in self.token_sources))

    def source(self, name: str) -> SourceRecipe:
        """Return a source by name."""
        return next(source for source in self.sources if source.name == name)

    def window(self) -> int:
        """Return the tokens of a window of training: the mixture's, else the context of the trainer."""
        if self.mixture is not None and self.mixture.window is not None:
            return self.mixture.window
        if self.train is None:
            return DEFAULT_WINDOW
        return self.train.context

    def as_yaml(self) -> str:
        """Return the resolved recipe: `extends` and `--set` applied, defaults filled in; loads back to an equal recipe."""
        head = (
            "# The resolved recipe: extends and --set applied, defaults filled in.\n"
            "# Relative paths start at the folder of the recipe that was run.\n"
        )
        return head + dump(self.as_values())

    def as_values(self) -> dict[str, Any]:
        """Return the resolved recipe as plain values."""
        values: dict[str, Any] = {"name": self.name, "seed": self.seed, "max_errors": self.max_errors, "sources": {}}
        for source in self.sources:
            block: dict[str, Any] = {
                "read": {"kind": source.kind, "paths": list(source.paths), **plain(source.reader)},
                "gate": plain(source.gate),
            }
            if source.extractor is not None:
                block["extract"] = {"kind": source.extractor_kind, **plain(source.extractor)}
            if source.repair is not None:
                block["repair"] = {"kind": source.repair_kind, **plain(source.repair)}
            block["steps"] = [_step_values(step) for step in source.steps]
            block |= source.stated.values()
            values["sources"][source.name] = block
        for one in self.token_sources:
            read = {"kind": TOKENS, "paths": list(one.paths), **plain(one.reader)}
            values["sources"][one.name] = {"read": read, **one.stated.values()}
        for name in ("dedup", "decontaminate", "tokenizer", "validation", "mixture", "train", "classifier", "evaluate"):
            section = getattr(self, name)
            if section is not None:
                values[name] = plain(section)
        return values


def _step_values(block: StepBlock) -> dict[str, Any]:
    if block.expression is not None:
        inside: Any = block.expression
        return (
            {block.kind: {"expression": inside, "name": block.name}}
            if block.name != block.kind
            else {block.kind: inside}
        )
    assert block.step is not None
    inside = plain(block.written or block.step)
    if block.name != block.kind:
        inside["name"] = block.name
    return {block.kind: inside}
