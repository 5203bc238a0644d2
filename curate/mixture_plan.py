"""`curate mixture plan`: what a recipe's mixture would draw, from what a run has, from stated numbers, or from the inputs' size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.decontaminate.canaries import STREAM
from curate.errors import StageError, UsageError
from curate.groups import CLUSTER_SIZE, LANGUAGE, Axis, group_finder
from curate.inputs import expand_variables, list_inputs
from curate.loading import load
from curate.mix.plan import plan_mixture
from curate.mix.planted import with_planted
from curate.mix.settings import Mixture
from curate.mix.weights import BYTES_PER_TOKEN
from curate.mixture_estimate import PAGES, RATIO, text_bytes
from curate.recipe import Recipe, SourceRecipe, TokenSourceRecipe
from curate.refusal import nearest
from curate.report.display import compact, one_line
from curate.report.run import RunFolder, read_names
from curate.text.quantities import parse_count

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_BY_ESTIMATES = "By these estimates: "
_COLUMNS = ("available", "asked", "drawn", "asked", "drawn", "epochs", "repeat", "cap")


def plan(
    path: str | Path,
    *,
    budget: str | None = None,
    available: str | None = None,
    run: Path | None = None,
    sets: Iterable[str] = (),
    allow_code: bool = False,
) -> dict[str, Any]:
    """Return what `mixture.json` would hold, with `available`: where the numbers of tokens are from.

    `estimated` tells whether they are estimates: then all that follows from them is, too (epochs, caps, shares that a rule
    decides), and every warning says so.

    Canaries come on top. How many windows they take is known from a run that planted the same; else `planted` has None for its
    windows, and no other number counts them.

    Args:
        path: The recipe.
        budget: In place of `mixture.tokens`, such as 10B.
        available: Tokens of sources, or of groups of them: `web=2T,code=300B`.
        run: A run folder to take them from.
        sets: Overrides as of `curate run`.
        allow_code: Whether the recipe may name Python code in its folder.

    Raises:
        UsageError: If the recipe has no mixture, or the tokens of a stream cannot be known.
        RecipeError: If the recipe cannot work.
        StageError: If the caps do not allow the budget; the largest feasible one is named.
    """
    if available is not None and run is not None:
        raise UsageError("mixture plan: give --available or --run, not both.")
    if budget is not None:
        try:
            sets = (*sets, f"mixture.tokens={parse_count(budget)}")
        except ValueError as error:
            raise UsageError(f"--budget {error}.") from error
    recipe = load(path, sets=sets, allow_code=allow_code)
    mixture = recipe.mixture
    if mixture is None:
        raise UsageError(f"{path}: has no `mixture`, such as mixture: {{weights: {{web: 1}}, tokens: 1B}}.")
    if available is not None:
        origin, tokens = "as stated", _stated(available, mixture, recipe.names())
    elif run is not None:
        origin, tokens = f"training tokens of the run {run}", _of_run(RunFolder.open(run), recipe, mixture, allow_code)
    else:
        origin = (
            f"estimated: bytes of the input files / {BYTES_PER_TOKEN}, before any filter (compressed ones: the plain size that "
            f"they state, else {RATIO} times theirs; of WARC 1/{PAGES}, as most of it is markup)"
        )
        tokens = _estimated(recipe, mixture)
    estimated = available is None and run is None
    try:
        result = plan_mixture(mixture, tokens, window=recipe.window(), seed=recipe.seed)
    except StageError as error:
        if not estimated:
            raise
        problem = f"{_BY_ESTIMATES}{error.problem}"
        raise StageError(error.source, error.stage, error.place, problem, error.remedy) from error
    if estimated:
        result["warnings"] = [f"{_BY_ESTIMATES}{warning}" for warning in result["warnings"]]
    if _plants(recipe):
        planted = None if run is None else _planted_of(RunFolder.open(run), recipe, allow_code)
        result = _without_planted(result, recipe) if planted is None else with_planted(result, STREAM, planted)
    return {"recipe": recipe.name, "available": origin, **(_told(mixture) if estimated else {}), **result}


def _told(mixture: Mixture) -> dict[str, bool]:
    """Return what a plan from estimates says of itself: also whether its shares are those that the recipe states."""
    written = [mixture.weights, *(stage.weights for stage in mixture.stages if stage.weights is not None)]
    return {"estimated": True, "stated_shares": all(isinstance(weights, Mapping) for weights in written)}


# -- canaries ----------------------------------------------------------------------------------------------------------


def _plants(recipe: Recipe) -> bool:
    return bool(recipe.decontaminate and recipe.decontaminate.canaries and recipe.decontaminate.canaries.copies)


def _planted_of(run: RunFolder, recipe: Recipe, allow_code: bool) -> int | None:
    """Return the tokens of the canaries that a run has planted, or None if it planted others."""
    before = load(run.path / "recipe.yaml", allow_code=allow_code, base=run.base)
    if not _plants(before) or STREAM not in run.streams:
        return None
    same = all(_canaries_follow(before)[name] == value for name, value in _canaries_follow(recipe).items())
    return _train_tokens(run, STREAM) if same else None


def _canaries_follow(recipe: Recipe) -> dict[str, Any]:
    """Return what of a recipe decides what canaries are planted."""
    settings = recipe.decontaminate
    assert settings is not None
    return {
        "canaries": settings.canaries,
        "benchmarks": settings.benchmarks,
        "seed": recipe.seed,
        "window": recipe.window(),
    }


def _without_planted(result: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Return a plan which says that canaries are not counted in it."""
    assert recipe.decontaminate is not None
    assert recipe.decontaminate.canaries is not None
    settings = recipe.decontaminate.canaries
    text = (
        f"Canaries (decontaminate.canaries) come on top of the budget and are not counted here: at least {settings.copies:,} "
        f"copies of up to {settings.items // 2:,} items of each benchmark. How many windows they take is known only when the "
        "benchmarks are read: name a run with the same canaries (--run)."
    )
    planted = {"stream": STREAM, "windows": None, "tokens": None, "share": None, "before": result["tokens"]}
    return result | {"planted": planted, "warnings": [*result["warnings"], text]}


# -- what there is -----------------------------------------------------------------------------------------------------


def _stated(text: str, mixture: Mixture, names: Sequence[str]) -> dict[str, int]:
    """Return the tokens that `--available` states for every stream."""
    streams = mixture.streams(names)
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, count = part.strip().partition("=")
        if not equals:
            raise UsageError(f"--available {part.strip()!r}: write source=tokens, such as web=2T,code=300B.")
        if name in names and name not in streams:
            cells = [stream for stream in streams if stream.startswith(f"{name}/")]
            raise UsageError(
                f"--available {name}: {_divided(name, cells)} State the tokens of each: {_example(cells)}."
            )
        if name not in streams:
            raise UsageError(f"--available {name}: is no source and no group of one{nearest(name, streams)}")
        if name in found:
            raise UsageError(f"--available {name}: is stated twice.")
        try:
            found[name] = 0 if count.strip() == "0" else parse_count(count)
        except ValueError as error:
            raise UsageError(f"--available {name}: {error}.") from error
    missing = [stream for stream in streams if stream not in found]
    if missing:
        raise UsageError(
            f"--available: says nothing of {', '.join(missing)}. State all streams, 0 for those that are empty."
        )
    return found


def _divided(name: str, cells: Sequence[str]) -> str:
    return (
        f"the mixture divides {name} into {len(cells)} streams, and how much is in each decides about epochs and caps."
    )


def _example(cells: Sequence[str]) -> str:
    return ",".join(f"{cell}=1T" for cell in cells[:3]) + (",... (all of them)" if len(cells) > 3 else "")


def _estimated(recipe: Recipe, mixture: Mixture) -> dict[str, int]:
    """Return about how many tokens the input files hold, from their sizes.

    Raises:
        UsageError: If a source is remote, made on first use, or divided: nothing is known of its groups before a run.
    """
    from curate.read.warc import Warc
    from curate.runner import check

    found: dict[str, int] = {}
    streams = mixture.streams(recipe.names())
    checked = check(recipe).sources
    every: tuple[SourceRecipe | TokenSourceRecipe, ...] = (*recipe.sources, *recipe.token_sources)
    sources = {source.name: source for source in every}
    for name in recipe.names():
        cells = [stream for stream, (source, _) in streams.items() if source == name]
        if cells != [name]:
            remedy = f"Name a run of it (--run), or state them: --available {_example(cells)}."
            raise UsageError(f"mixture plan: {_divided(name, cells)} The inputs do not tell. {remedy}")
        if checked[name] is None:
            what = "is remote or made on first use, so its size is not known"
            raise UsageError(
                f"mixture plan: source '{name}' {what}. Name a run (--run), or state it: --available {name}=1T."
            )
        source = sources[name]
        files = list_inputs([expand_variables(path) for path in source.paths], recipe.base, None)
        read = [file for file in files if not source.reader.passes_over(file.path)]
        found[name] = text_bytes(read, pages=isinstance(source.reader, Warc)) // BYTES_PER_TOKEN
    return found


def _of_run(run: RunFolder, recipe: Recipe, mixture: Mixture, allow_code: bool) -> dict[str, int]:
    """Return the training tokens of every stream, as the run has them or, where it divides a source otherwise, counted anew."""
    before = load(run.path / "recipe.yaml", allow_code=allow_code, base=run.base)
    found: dict[str, int] = {}
    for name in recipe.names():
        streams = [stream for stream in run.streams if stream.partition("/")[0] == name]
        if not streams:
            problem = "no tokens of it" if name in run.sources else "no such source"
            raise UsageError(
                f"{run.path}: source '{name}': the run has {problem}. Run it up to the phase arrange, or use --available."
            )
        tokens = {stream: _train_tokens(run, stream) for stream in streams}
        division = mixture.division(name)
        if division is None:
            found[name] = sum(tokens.values())
        elif before.mixture is not None and before.mixture.division(name) == division:
            found |= {f"{name}/{cell}": tokens.get(f"{name}/{cell}", 0) for cell in division.cells()}
        else:
            counts = _count_cells(run, name, streams, division.axes)
            found |= {f"{name}/{cell}": count for cell, count in zip(division.cells(), counts, strict=True)}
    return found


def _train_tokens(run: RunFolder, stream: str) -> int:
    shards = run.json(f"tokens/{stream}/manifest.json").get("shards", [])
    return sum(int(shard["tokens"]) for shard in shards if shard["split"] == "train")


def _count_cells(run: RunFolder, source: str, streams: Sequence[str], axes: Sequence[Axis]) -> list[int]:
    """Return the training tokens of each cell, counted document by document; about 40 bytes of memory for each of them."""
    import numpy as np
    import pyarrow.parquet as pq

    from curate.tokens.shard import TokenSource

    ids, cells = _cells_of_documents(run, source, axes)
    counts = np.zeros(int(np.prod([len(axis.labels) for axis in axes])), np.int64)
    for stream in streams:
        place = run.path / "tokens" / stream
        opened = TokenSource.open(place, "train")
        ends, first, start = opened.document_ends, 0, 0
        for shard in opened.shards:
            here = ends[first : first + shard.documents]
            lengths = np.diff(here, prepend=start).astype(np.int64)
            names = np.array(
                pq.read_table(place / f"{shard.name}.docs.parquet", columns=["id"])["id"].to_pylist(), "S32"
            )
            counts += np.bincount(cells[np.searchsorted(ids, names)], weights=lengths, minlength=len(counts)).astype(
                np.int64
            )
            first += shard.documents
            start = int(here[-1]) if len(here) else start
    return [int(count) for count in counts]


def _cells_of_documents(
    run: RunFolder, source: str, axes: Sequence[Axis]
) -> tuple[npt.NDArray[np.bytes_], npt.NDArray[np.int64]]:
    """Return the ids of a source's kept documents, sorted, and the number of each one's cell."""
    import numpy as np

    ids = np.array([id for _, frame in run.scan("documents", source, columns=("id",)) for id in frame["id"]], "S32")
    order = np.argsort(ids)
    ids = ids[order]
    cells = np.zeros(len(ids), np.int64)
    for axis in axes:
        group_of = group_finder(list(axis.labels.values()))
        groups = np.full(len(ids), -1, np.int64)
        for _, frame in run.scan(*_place_of(run, source, axis.by), columns=("id", axis.by)):
            names = np.array(frame["id"].to_list(), "S32")
            at = np.minimum(np.searchsorted(ids, names), max(0, len(ids) - 1))
            kept = ids[at] == names if len(ids) else np.zeros(len(names), bool)
            found = [group_of(value) for value, ours in zip(frame[axis.by].to_list(), kept, strict=True) if ours]
            groups[at[kept]] = found
        if (groups < 0).any():
            raise UsageError(
                f"{run.path}: source '{source}': {axis.by} was not measured on all kept documents. Run it again."
            )
        cells = cells * len(axis.labels) + groups
    return ids, cells


def _place_of(run: RunFolder, source: str, column: str) -> tuple[str, ...]:
    """Return the folder of the run with a column of a source's documents: that of the last block that measures it."""
    for block in reversed(run.blocks(source)) if column != CLUSTER_SIZE else ():
        shards = run.shards("measurements", source, block)
        if shards and column in read_names(shards[0]):
            return "measurements", source, block
    if column in (CLUSTER_SIZE, LANGUAGE):
        return "documents", source
    raise UsageError(
        f"{run.path}: source '{source}': the run measures no {column}. Run the recipe up to the phase arrange."
    )


# -- telling it --------------------------------------------------------------------------------------------------------


def plan_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the plan as a table for a terminal."""
    estimated, follows = result.get("estimated", False), _drawn_follow(result)
    tokens = _about(f"{result['tokens']:,}", estimated and _gives_way(result))
    budget = f"{tokens} tokens in {result['num_slots']:,} windows of {result['window']:,}"
    planted, on_top = result.get("planted"), ""
    if planted is not None and planted["windows"] is None:
        on_top = ", and canaries on top"
    elif planted is not None:
        share = _percent(planted["share"])
        on_top = f", of which canaries, on top of the budget: {planted['tokens']:,} in {planted['windows']:,}, {share}"
    yield f"{one_line(result['recipe'])}: {budget}{on_top}; order: {result['order']}."
    yield f"Available: {result['available']}."
    if estimated:
        what = "shares and tokens drawn, epochs and caps" if follows else "epochs and caps"
        yield f"Where it says about, a number is an estimate: {what} follow from the sizes. Name a run (--run) for counts."
    yield ""
    rows = [("", "tokens", "", "", "share", "", "", "", ""), ("source", *_COLUMNS), *_rows(result)]
    yield from _table(rows)
    for number, stage in enumerate(result["stages"], 1) if len(result["stages"]) > 1 else ():
        yield ""
        yield f"Stage {number}, to {stage['until_tokens']:,} tokens: {stage['num_slots']:,} windows."
        drawn = [
            (
                name,
                *(_about(text, follows) for text in _shares(one)),
            )
            for name, one in stage["sources"].items()
            if one["tokens_asked"] or one["tokens_drawn"]
        ]
        yield from _table([("source", "asked", "drawn", "asked", "drawn"), *drawn])
    if result["shortfall_tokens"]:
        yield ""
        short = _about(f"{result['shortfall_tokens']:,}", estimated)
        yield f"{short} tokens that caps and empty sources could not give were given by others."
    for warning in result["warnings"]:
        yield f"  note: {one_line(warning)}"


def _rows(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    estimated, follows = result.get("estimated", False), _drawn_follow(result)
    cells: dict[str, list[str]] = {}
    for name in result["sources"]:
        cells.setdefault(name.partition("/")[0], []).append(name)
    for source, names in cells.items():
        if names == [source]:
            yield _row(source, result["sources"][source], estimated, follows)
            continue
        yield _row(source, result["by_source"][source], estimated, follows)
        for name in names:
            yield _row(f"  {name.partition('/')[2]}", result["sources"][name], estimated, follows)


def _row(name: str, one: Mapping[str, Any], estimated: bool, follows: bool) -> tuple[str, ...]:
    repeat = f"x{one['repeat']:g}" if "repeat" in one else ""
    return (
        one_line(name) if name.strip() == name else f"  {one_line(name.strip())}",
        _about(compact(one["tokens_available"]), estimated),
        *(_about(text, follows) for text in _shares(one)),
        _about(f"{one['epochs']:.3g}", estimated),
        repeat,
        _about("hit", estimated) if one.get("cap_hit") else "",
    )


def _shares(one: Mapping[str, Any]) -> tuple[str, ...]:
    tokens = compact(one["tokens_asked"]), compact(one["tokens_drawn"])
    return *tokens, _percent(one["weight_normalised"]), _percent(one["weight_realised"])


def _about(text: str, estimated: bool) -> str:
    return f"about {text}" if estimated else text


def _gives_way(result: Mapping[str, Any]) -> bool:
    return not isinstance(result["tokens_asked"], int)


def _drawn_follow(result: Mapping[str, Any]) -> bool:
    """Return whether what is drawn follows from estimates: by a rule, a budget that gives way, caps or empty sources."""
    stated = result.get("stated_shares", False)
    return bool(result.get("estimated")) and (not stated or _gives_way(result) or bool(result["shortfall_tokens"]))


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield "  ".join(cells).rstrip()


def plan_json(result: Mapping[str, Any]) -> str:
    """Return the plan as JSON."""
    return json.dumps(result, indent=2, ensure_ascii=False)
