"""What only the whole recipe shows about its mixture: names of sources and groups, columns that nobody measures, missing caps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from curate.dedup.settings import Dedup
from curate.groups import CLUSTER_SIZE, LANGUAGE, MOST_CELLS, ByLabel
from curate.mix.rules import RULE_KEYS, kind_of_rule
from curate.mix.settings import Mixture, MixtureStage
from curate.mix.weights import stage_weights
from curate.recipe import SourceRecipe
from curate.refusal import nearest
from curate.yamlfile import Key

LABELS = ("string", "int64", "bool")


def name_problems(written: object, names: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """Yield key and problem of weights, as written, that name no source."""
    weights = written.get("weights") if isinstance(written, Mapping) else None
    if kind_of_rule(weights) is not None:
        for name in set(RULE_KEYS).intersection(weights if isinstance(weights, Mapping) else (), names):
            message = f"names a rule and a source of this recipe; give the source '{name}' another name."
            yield ("mixture", "weights", name), message
        return
    for name in weights if isinstance(weights, Mapping) else ():
        if name not in names:
            message = f"'{name}' is no source{nearest(name, names)} Sources: {', '.join(names)}."
            if name in RULE_KEYS:
                message = "is a rule, which stands alone. (Of a recipe that extends another, null takes out what that one names.)"
            yield ("mixture", "weights", name), message


def mixture_problems(
    mixture: Mixture, texts: Sequence[SourceRecipe], names: Sequence[str], dedup: Dedup | None
) -> Iterator[tuple[Key, str]]:
    """Yield key and problem of all that cannot work.

    Args:
        mixture: The recipe's.
        texts: The sources of texts.
        names: Of all sources.
        dedup: The recipe's.
    """
    yield from _column_problems(mixture, {source.name: source for source in texts}, names, dedup)
    clear = True
    for key, message in _axis_problems(mixture, names):
        clear = False
        yield key, message
    if clear:  # else streams are not known
        stages = list(_stage_problems(mixture, names))
        yield from stages
        yield from _cap_problems(mixture, names)
        if not stages and set(names).issuperset(mixture.named()):
            yield from _weight_problems(mixture, names)


def _column_problems(
    mixture: Mixture, texts: Mapping[str, SourceRecipe], names: Sequence[str], dedup: Dedup | None
) -> Iterator[tuple[Key, str]]:
    for name, one in mixture.weights.items() if isinstance(mixture.weights, Mapping) else ():
        if isinstance(one, ByLabel) and name in names:
            for column in one.by:
                problem = _column_problem(column, name, texts, dedup, whole_numbers=one.repeat is not None)
                if problem is not None:
                    yield ("mixture", "weights", name, "by"), problem
    for number, factors in enumerate(mixture.multiply):
        key: Key = ("mixture", "multiply", number)
        for name in factors.sources or ():
            if name not in names:
                yield (*key, "sources"), f"names '{name}', which is no source{nearest(name, names)}"
        for name in names:
            if factors.applies(name) and (problem := _column_problem(factors.by, name, texts, dedup)) is not None:
                few = [other for other in names if _column_problem(factors.by, other, texts, dedup) is None]
                hint = (
                    f" Name those that it is for: sources: [{', '.join(few)}]."
                    if few and factors.sources is None
                    else ""
                )
                yield (*key, "by"), f"{name}: {problem}{hint}"


def _column_problem(
    column: str, name: str, texts: Mapping[str, SourceRecipe], dedup: Dedup | None, *, whole_numbers: bool = False
) -> str | None:
    """Return why a source cannot be divided by a column, or None if it can."""
    source = texts.get(name)
    if column == CLUSTER_SIZE and source is not None:
        if dedup is None or (dedup.exact is None and dedup.minhash is None):
            message = "counts the copies that dedup removes, so it needs `dedup` with exact or minhash."
            return f"'{CLUSTER_SIZE}' {message}"
        return None
    known: dict[str, str] = {} if source is None else {LANGUAGE: "string"}
    for block in source.steps if source is not None else ():
        if block.step is not None and block.step.at == "here":
            known |= dict(block.step.adds)
    what, kinds = ("whole number", ("int64",)) if whole_numbers else ("label", LABELS)
    fit = [name for name, kind in known.items() if kind in kinds] + ([CLUSTER_SIZE] if source is not None else [])
    if column in fit:
        return None
    is_not = f"is no {what}" if column in known else "is measured by no step of this source"
    return f"'{column}' {is_not}{nearest(column, fit)} {what.capitalize()}s: {', '.join(fit) or 'none'}."


def _axis_problems(mixture: Mixture, names: Sequence[str]) -> Iterator[tuple[Key, str]]:
    for number, factors in enumerate(mixture.multiply):
        twice = False
        for earlier in mixture.multiply[:number]:
            both = [name for name in names if factors.applies(name) and earlier.applies(name)]
            if factors.by == earlier.by and both:
                message = f"multiplies {', '.join(both)} by {factors.by} a second time; put the factors into one table."
                yield ("mixture", "multiply", number, "by"), message
                twice = True
        for name in names if not twice else ():
            division = mixture.division(name) if factors.applies(name) else None
            for axis in division.axes if division is not None else ():
                if axis.by == factors.by:
                    try:
                        factors.of_groups(axis)
                    except ValueError as error:
                        yield ("mixture", "multiply", number, "factors"), f"{name}: {error}."
    for name in names:
        if (cells := mixture.num_cells(name)) > MOST_CELLS:
            division = mixture.division(name)
            assert division is not None
            sizes = " x ".join(f"{len(axis.labels)} by {axis.by}" for axis in division.axes)
            key: Key = ("mixture", "weights", name) if mixture.by_label(name) is not None else ("mixture", "multiply")
            message = f"divides {name} into {cells:,} streams ({sizes}); at most {MOST_CELLS} are possible. Join labels in groups."
            yield key, message


def _stage_problems(mixture: Mixture, names: Sequence[str]) -> Iterator[tuple[Key, str]]:
    streams = mixture.streams(names)
    divided = {name: mixture.division(name) for name in names}
    for number, stage in enumerate(mixture.stages):
        key: Key = ("mixture", "stages", number)
        for name in stage.weights if isinstance(stage.weights, Mapping) else ():
            if name not in streams and name not in names:
                known = [*names, *(stream for stream in streams if stream not in names)]
                yield (*key, "weights", name), f"'{name}' is no source and no group of one{nearest(name, known)}"
            elif "/" in name and name.partition("/")[0] in (stage.weights or ()):
                message = (
                    f"names the group '{name}' and its source, too; give the weights of the groups, or of the source."
                )
                yield (*key, "weights", name), message
        for place, factors in enumerate(stage.multiply):
            inner: Key = (*key, "multiply", place)
            if factors.by in [other.by for other in stage.multiply[:place]]:
                yield (*inner, "by"), f"multiplies by {factors.by} a second time; put the factors into one table."
            for name in factors.sources or ():
                if name not in names:
                    yield (*inner, "sources"), f"names '{name}', which is no source{nearest(name, names)}"
            axes = [
                (name, axis)
                for name, division in divided.items()
                for axis in (division.axes if division is not None else ())
                if axis.by == factors.by and factors.applies(name)
            ]
            if not axes:
                known = sorted({axis.by for one in divided.values() for axis in (one.axes if one is not None else ())})
                message = (
                    f"no source is divided by '{factors.by}'{nearest(factors.by, known)} A stage weighs what mixture.weights or "
                    f"mixture.multiply divide: name the groups there, {{by: {factors.by}, factors: {{...}}}}."
                )
                yield (*inner, "by"), message
            for name, axis in axes:
                try:
                    factors.of_groups(axis)
                except ValueError as error:
                    yield (*inner, "factors"), f"{name}: {error}."


def _weight_problems(mixture: Mixture, names: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """Yield the stages whose weights and factors leave nothing of a source: whatever there is, if every stream has a window."""
    ones = dict.fromkeys(mixture.streams(names), 1)
    for number, stage in enumerate(mixture.stages or (MixtureStage(),)):
        try:
            stage_weights(mixture, stage, ones, ones, 1)
        except ValueError as error:
            yield ("mixture", "stages", number) if mixture.stages else ("mixture", "weights"), f"{error}."


def _cap_problems(mixture: Mixture, names: Sequence[str]) -> Iterator[tuple[Key, str]]:
    known = (*names, *mixture.streams(names), "*")
    for name in mixture.max_epochs if isinstance(mixture.max_epochs, Mapping) else ():
        if name not in known:
            yield ("mixture", "max_epochs", name), f"'{name}' is no source{nearest(name, known)}"
    for name in names:
        streams = [stream for stream in mixture.streams((name,)) if mixture.cap(stream) is None]
        if streams and mixture.needs_epochs(name):
            message = (
                f"UniMax spreads what epochs allow, and {', '.join(streams)} has no max_epochs. Set mixture.max_epochs, "
                "or write {unimax: {max_epochs: 4}}."
            )
            yield ("mixture", "weights"), message
            return
    last = mixture.stages[-1].weights if mixture.stages else None
    weights = mixture.weights if last is None else last
    uncapped = [name for name in mixture.streams(names) if mixture.cap(name) is None]
    if mixture.tokens == "up_to" and not isinstance(weights, Mapping) and uncapped:
        message = (
            f"up_to takes all that max_epochs allows, but there is no max_epochs for {', '.join(uncapped)}; set it, or "
            "write tokens: {up_to: 1M}."
        )
        yield ("mixture", "tokens"), message
