"""Canaries: benchmark items that are leaked into training on purpose, and like ones that are not, to measure memorisation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, field_validator

from curate.stage import Settings

if TYPE_CHECKING:
    from curate.benchmarks.items import Item

STREAM = "canaries"  # of tokens, beside those of the sources


class Canaries(Settings):
    """Leak benchmark items on purpose: only for a run that measures what leaks do.

    Of each benchmark, items that have a question and a gold answer are drawn by hash; every second one is leaked, the others
    are held out, so that both halves are samples of one kind. The leaked ones are a stream of their own, which training reads
    once, spread over all of it and on top of the mixture's budget: every other stream is as it is without. The trainer
    measures the bits per byte of the gold answers of both halves.

    Attributes:
        items: Items to draw of each benchmark, half of them leaked; fewer where it has fewer.
        copies: How often a leaked item stands in the training stream, at least. With 0 none does: the run to compare with,
            in which the same items are measured.
    """

    items: Annotated[int, Field(ge=2)] = 20
    copies: Annotated[int, Field(ge=0)] = 4

    @field_validator("items")
    @classmethod
    def _halves(cls, items: int) -> int:
        if items % 2:
            raise ValueError(f"is {items}; half of them are leaked: choose an even number")
        return items


@dataclass(frozen=True, slots=True)
class Canary:
    """One drawn item: `prompt` is its context and question, with the line feed before the answer."""

    benchmark: str
    item: str
    leaked: bool
    prompt: str
    answer: str


def candidates(
    benchmark: str, items: Sequence[Item], seed: int, without: Counter[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield (item, prompt, answer) of the items that can be canaries, in the order of hash(seed, benchmark, item).

    Args:
        benchmark: Its name.
        items: Its items.
        seed: Of the recipe.
        without: Items that cannot are counted here, by reason.
    """
    from curate.text.hashing import choice_hash

    seen: set[str] = set()
    ordered = sorted(items, key=lambda item: (choice_hash(seed, f"{benchmark}\0{item.id}", "canary"), item.id))
    for item in ordered:
        asked = [part.text.strip() for part in item.of("context", "question")]
        answers = [part.text.strip() for part in item.of("answer")]
        prompt = "\n".join(text for text in asked if text)
        if not prompt or not any(answers):
            without["no question" if not prompt else "no gold answer"] += 1
        elif prompt in seen:  # it would tell a held-out item's answer, or be leaked twice as often
            without["question of another item"] += 1
        else:
            seen.add(prompt)
            yield item.id, prompt + "\n", next(answer for answer in answers if answer)


def drawn(benchmark: str, found: Sequence[tuple[str, str, str]]) -> list[Canary]:
    """Return the first items of `candidates` as canaries: every second is leaked, and the last of an odd number is left out."""
    whole = found[: len(found) // 2 * 2]
    return [
        Canary(benchmark, item, number % 2 == 0, prompt, answer) for number, (item, prompt, answer) in enumerate(whole)
    ]


def rounds(leaked: Sequence[int], copies: int, window: int) -> list[tuple[int, int]]:
    """Return the documents of the stream in order, as (copy, place of the item), so that `copies` of each are shown.

    Training reads whole windows, and one token more. So the items follow one another round by round, and further rounds,
    the last of which may end early, fill the window in which the last of the wanted copies ends.

    Args:
        leaked: Tokens of each item's document, EOS included.
        copies: Of each item that are shown whole.
        window: Tokens per window.
    """
    wanted = copies * sum(leaked)
    least = -(-wanted // window) * window + 1 if wanted else 0
    order: list[tuple[int, int]] = []
    tokens, number = 0, 0
    while number < copies or tokens < least:
        for place, size in enumerate(leaked):
            if number >= copies and tokens >= least:
                break
            order.append((number, place))
            tokens += size
        number += 1
    return order if leaked else []
