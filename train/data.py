"""Token shards to batches. A batch is a pure function of (mixture, step): there is no position to lose.

    slot g of the mixture  ->  (source, window w)  ->  tokens [w C, w C + C + 1) of the source's train split
    step s                 ->  slots [s B, s B + B)  ->  B C / T sequences of T tokens, each with its next tokens as targets

B = windows of one step, C = window of the mixture, T = context of the model, which divides C. Micro-batches are cut from
the batch afterwards, so neither their size nor the number of devices changes what a step trains on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curate.tokens.answers import Answer, read_answers
from curate.tokens.order import Plan, num_windows
from curate.tokens.shard import TokenSource
from curate.tokens.tasks import TaskItem, read_tasks
from train.config import ConfigError, Settings, TrainError

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The train splits of all sources, in the order of the mixture.

    Attributes:
        sources: By name.
        plan: Which window of which source stands in which slot.
        context: Tokens of a sequence.
        batch_windows: Windows of one step.
        num_slots: Slots that are trained on: the first of the plan, or all.
    """

    sources: Mapping[str, TokenSource]
    plan: Plan
    context: int
    batch_windows: int
    num_slots: int

    @property
    def num_steps(self) -> int:
        """Return the number of whole batches."""
        return self.num_slots // self.batch_windows

    @property
    def batch_tokens(self) -> int:
        """Return the tokens of one step."""
        return self.batch_windows * self.plan.window

    def slots(self, step: int) -> list[tuple[str, int]]:
        """Return source and window of each slot of batch `step`, counted from 0."""
        if not 0 <= step < self.num_steps:
            raise ValueError(f"step must be in [0, {self.num_steps}), is {step}")
        sources, windows = self.plan.slots(np.arange(step * self.batch_windows, (step + 1) * self.batch_windows))
        return [(self.plan.names[source], window) for source, window in zip(sources, windows.tolist(), strict=True)]

    def begins_stage(self, step: int) -> bool:
        """Return whether batch `step` is the first one of a later stage of the mixture."""
        stages = (self.plan.stage_of(batch * self.batch_windows) for batch in (step - 1, step))
        return step > 0 and len(set(stages)) > 1

    def batch(self, step: int) -> tuple[IntArray, IntArray]:
        """Return inputs and targets of batch `step`, each of shape (batch_windows * window / context, context)."""
        window = self.plan.window
        rows = np.empty((self.batch_windows, window + 1), dtype=np.int64)
        for row, (source, index) in zip(rows, self.slots(step), strict=True):
            row[:] = self.sources[source].tokens(index * window, index * window + window + 1)
        return rows[:, :-1].reshape(-1, self.context), rows[:, 1:].reshape(-1, self.context)

    def epochs(self, draws: Mapping[str, int]) -> dict[str, float]:
        """Return how often each source was seen: windows drawn over windows there are."""
        available = {source.name: source.windows_available for source in self.plan.sources}
        return {name: count / available[name] if count else 0.0 for name, count in draws.items()}


@dataclass(frozen=True, slots=True)
class ValidationData:
    """The validation split of one source, every token a target exactly once.

    A document stands by itself, behind an EOS as in training, but not behind another document. One that is longer than the
    context is cut into windows from its own start, each behind the last token of the one before. So its code length does not
    depend on the documents around it, and can be compared between runs whose validation sets share it.
    """

    source: TokenSource
    context: int

    def windows(self) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Yield document, the token before (none at its start) and tokens of each window: at most the context, EOS included."""
        start = 0
        for document, end in enumerate(self.source.document_ends.tolist()):
            tokens = self.source.tokens(start, end)
            for first in range(0, len(tokens), self.context):
                yield document, tokens[max(0, first - 1) : first], tokens[first : first + self.context]
            start = end


@dataclass(frozen=True, slots=True)
class Data:
    """All that a run reads.

    Attributes:
        train: Batches by step.
        validation: By source; without those in `skipped`.
        skipped: Sources that are not evaluated, and why.
        vocab_size: Of the tokenizer, not padded.
        digests: sha256 by shard or file: what a checkpoint was trained on.
        answers: Gold answers to measure.
        tasks: Items of tasks to measure.
        eos_id, tokenizer_sha256: Of the tokenizer.
    """

    train: TrainingData
    validation: Mapping[str, ValidationData]
    skipped: Mapping[str, str]
    vocab_size: int
    digests: Mapping[str, str]
    answers: tuple[Answer, ...]
    tasks: tuple[TaskItem, ...]
    eos_id: int
    tokenizer_sha256: str

    def verify(self) -> None:
        """Read every shard once: ids within the vocabulary, contents as the manifest says.

        Raises:
            curate.errors.InputError: Names the shard and the id.
        """
        for source in self.train.sources.values():
            source.verify()
        for validation in self.validation.values():
            validation.source.verify()


def open_data(
    tokens: Path, mixture: Path, settings: Settings, *, answers: Path | None = None, tasks: Path | None = None
) -> Data:
    """Open shards, mixture, gold answers and tasks, and check that they can be trained on, or measured.

    Raises:
        ConfigError: If tokens, mixture, answers or tasks are not there, or settings do not fit them.
        TrainError: If sources differ in tokenizer, or a source or the mixture is too short.
        curate.errors.InputError: If a file is damaged.
    """
    if not tokens.is_dir():
        raise ConfigError(
            f"{tokens}: there is no such folder. Set `tokens` to the folder of token shards, or make them."
        )
    _check_there("mixture", mixture)
    plan = Plan.load(mixture)
    if plan.window % settings.context:
        raise ConfigError(
            f"{mixture}: its window of {plan.window} tokens is not a multiple of the context {settings.context}. "
            "Set mixture.window or the override `context`."
        )
    sources = {name: TokenSource.open(tokens / name, "train") for name in plan.names}
    _check_alike(tokens, sources)
    _check_lengths(tokens, mixture, sources, plan)
    batch_windows = settings.batch_windows or max(1, round(settings.batch_tokens / plan.window))
    num_slots = _first_slots(mixture, plan, settings.max_tokens)
    train = TrainingData(sources, plan, settings.context, batch_windows, num_slots)
    if train.num_steps == 0:
        raise ConfigError(
            f"{mixture}: {num_slots} windows of {plan.window} tokens do not fill one batch of {batch_windows} windows. "
            "Raise mixture.tokens or the override `max_tokens`, or lower the override `batch_windows`."
        )
    validation, skipped = {}, {}
    for name in plan.names:
        split = TokenSource.open(tokens / name, "validation")
        if split.num_tokens < settings.context:
            skipped[name] = (
                f"the validation split has {split.num_tokens} tokens, less than one window of {settings.context}: "
                "not evaluated"
            )
        else:
            validation[name] = ValidationData(split, settings.context)
    digests = {
        f"{tokens.name}/{name}/{shard.name}.bin": shard.sha256
        for name in plan.names
        for split in (sources[name], *([validation[name].source] if name in validation else []))
        for shard in split.shards
    }
    digests[mixture.name] = hashlib.sha256(mixture.read_bytes()).hexdigest()
    first = next(iter(sources.values()))
    gold = () if answers is None else read_gold(answers, first.vocab_size, settings.context)
    items = () if tasks is None else read_items(tasks, first.vocab_size, settings.context)
    for measured in (answers, tasks):
        if measured is not None:
            digests[measured.name] = hashlib.sha256(measured.read_bytes()).hexdigest()
    known = first.vocab_size, digests, gold, items, first.eos_id, first.tokenizer_sha256
    return Data(train, validation, skipped, *known)


def _first_slots(mixture: Path, plan: Plan, max_tokens: int | None) -> int:
    """Return how many slots of the plan `max_tokens` are."""
    there = plan.num_slots * plan.window
    if max_tokens is None:
        return plan.num_slots
    if max_tokens > there:
        raise ConfigError(
            f"{mixture}: max_tokens is {max_tokens:,}, the mixture has {there:,} ({plan.num_slots:,} windows of {plan.window}). "
            "Lower the override `max_tokens`, or raise mixture.tokens."
        )
    return max_tokens // plan.window


def read_gold(path: Path, vocab_size: int, context: int) -> tuple[Answer, ...]:
    """Return the gold answers of a file, all of which fit the context."""
    _check_there("answers", path)
    answers = read_answers(path, vocab_size)
    for one in answers:
        _check_fits(one.answer.size, f"{path}: the answer of item {one.item} of {one.benchmark}", context)
    return answers


def read_items(path: Path, vocab_size: int, context: int) -> tuple[TaskItem, ...]:
    """Return the task items of a file, every choice of which fits the context."""
    _check_there("tasks", path)
    items = read_tasks(path, vocab_size)
    for one in items:
        longest = max(choice.size for choice in one.choices)
        _check_fits(longest, f"{path}: a choice of item {one.item} of {one.task}", context)
    return items


def _check_there(key: str, path: Path) -> None:
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file. Set `{key}` to where it is, or make it.")


def _check_fits(size: int, what: str, context: int) -> None:
    if size > context:
        raise ConfigError(
            f"{what} has {size} tokens, the context {context}. Take the item out, or set a longer `context`."
        )


def _check_alike(tokens: Path, sources: Mapping[str, TokenSource]) -> None:
    names = list(sources)
    if not names:
        raise TrainError(f"{tokens}: the mixture names no source. Give it one with a weight above 0.")
    first = sources[names[0]]
    for name in names[1:]:
        for field in ("vocab_size", "eos_id", "tokenizer_sha256"):
            here, there = getattr(sources[name], field), getattr(first, field)
            if here != there:
                raise TrainError(
                    f"{tokens / name}: {field} is {here}, that of source '{names[0]}' is {there}. "
                    "Encode all sources with one tokenizer."
                )


def _check_lengths(tokens: Path, mixture: Path, sources: Mapping[str, TokenSource], plan: Plan) -> None:
    for draws in plan.sources:
        found = num_windows(sources[draws.name].num_tokens, plan.window)
        if found != draws.windows_available:
            raise TrainError(
                f"{tokens / draws.name}: the train split has {found} windows of {plan.window} tokens, {mixture.name} was made "
                f"for {draws.windows_available}. Run the recipe's mix phase again."
            )
    if plan.num_slots == 0:
        lengths = ", ".join(f"'{name}' has {source.num_tokens} tokens" for name, source in sources.items())
        raise TrainError(
            f"{mixture}: there is no window to train on: {lengths}; one window needs {plan.window} and one more as the last "
            "target. Add text, or lower mixture.window and the override `context`."
        )
