"""`curate what-if`: other bounds over a finished run, decided from what it measured, without reading a text.

Up to the filters the answer is what a run with the same settings decides. Of the phases behind them it takes over what
the run decided, and estimates copies: a document that stays now goes as a copy if its cluster has a kept document, and
where the kept document of a cluster goes, one of its copies stays. Nothing is written into the run folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from curate.errors import InputError, UsageError
from curate.loading import load
from curate.measured import MeasuredSource, Part, beginnings, layout_of, reasons
from curate.phases.decide import Judged, Verdict, verdicts
from curate.recipe import Recipe, SourceRecipe
from curate.report.display import compact, num_bytes, number, one_line, share
from curate.report.run import RunFolder
from curate.stage import Rule, canonical

UNITS = ("documents", "bytes", "tokens")
BYTES_PER_TOKEN = 4.0  # where the run made no tokens: the design's estimate, that of `validation`
_SECTIONS = ("seed", "max_errors", "dedup", "decontaminate", "tokenizer", "validation", "mixture", "train")
_LEAKS = "decontaminate."  # these rules and the next look at all documents, also at those that a filter removes
_EARLIER = "dedup.earlier"
_NO_COPIES = ("dedup.lines", "dedup.spans", _EARLIER)  # what goes by these goes whichever copies stay


def what_if(path: Path, *, sets: Iterable[str], allow_code: bool = False, sample: int = 3) -> dict[str, Any]:
    """Return what a run would have kept with other settings, as plain JSON values.

    Args:
        path: The run folder.
        sets: Overrides such as `sources.web.steps.gopher_quality.min_words=40`.
        allow_code: Whether the recipe's own code may be imported.
        sample: Documents to show for each rule and direction.

    Raises:
        UsageError: If `path` is no run folder, nothing is set, or nothing can be answered without reading text.
        RecipeError: If the recipe cannot work with these settings.
        InputError: If the run lacks its measurements, or its decisions do not follow from them.
    """
    sets = tuple(sets)
    if not sets:
        raise UsageError("what-if: say what would be different, such as --set sources.web.steps.fineweb.min_...=0.1.")
    run = RunFolder.open(path)
    recipes = [load(path / "recipe.yaml", sets=some, allow_code=allow_code, base=run.base) for some in ((), sets)]
    before, after = recipes
    needs_text = [found for source in before.sources for found in _needs_text(source, after)]
    known = {source.name for source in before.sources}
    needs_text += [
        {"source": source.name, "step": None, "why": "the run has no such source, and that needs text"}
        for source in after.sources
        if source.name not in known
    ]
    unanswered = {entry["source"] for entry in needs_text}
    answered = [source for source in before.sources if source.name not in unanswered]
    if not answered:
        raise UsageError(f"what-if: {'; '.join(map(_needed, needs_text))}. Run it (curate run ... --set).")
    counted = [_Source(run, source, after.source(source.name), place) for place, source in enumerate(answered)]
    for one in counted:
        one.count(sample)
    _copies(run, counted, after)
    sources = {one.name: one.result(sample) for one in counted}
    return {
        "run": run.manifest.get("recipe") or before.name,
        "sets": list(sets),
        "needs_text": needs_text,
        "not_recomputed": [name for name in _SECTIONS if _section(before, name) != _section(after, name)],
        "sources": sources,
        "total": _total(sources),
    }


def _section(recipe: Recipe, name: str) -> Any:
    return canonical(getattr(recipe, name))


def _needs_text(source: SourceRecipe, after: Recipe) -> list[dict[str, Any]]:
    """Return what of a source is read, measured or ranked otherwise with the new settings."""
    if source.name not in {one.name for one in after.sources}:
        return [{"source": source.name, "step": None, "why": "it is left out"}]
    other = after.source(source.name)
    parts = ("paths", "reader", "gate", "extractor", "repair")
    changed = [part for part in parts if canonical(getattr(source, part)) != canonical(getattr(other, part))]
    if changed:
        return [{"source": source.name, "step": None, "why": f"{', '.join(changed)} would differ, and that needs text"}]
    layout = layout_of(source)
    known = {block.key for block in (*layout.blocks, *layout.rankings)}
    then = layout_of(other).judged
    missing = [
        {"source": source.name, "step": block.name, "why": f"{block.name} would measure anew, and that needs text"}
        for block in then
        if block.key is not None and block.key not in known
    ]
    return missing or _needs_ranks(source.name, layout.judged, then)


def _needs_ranks(source: str, before: Sequence[Judged], after: Sequence[Judged]) -> list[dict[str, Any]]:
    """Return the blocks that rank documents among those that earlier blocks keep, if other rules stand before them."""
    found = []
    for place, block in enumerate(after):
        if block.ranking is not None and [one.rules for one in after[:place]] != [one.rules for one in before[:place]]:
            why = f"{block.name} ranks the documents that the rules before it keep, and these would differ"
            found.append({"source": source, "step": block.name, "why": why})
    return found


def _needed(entry: Mapping[str, Any]) -> str:
    return f"{entry['source']}: {entry['why']}"


@dataclass(slots=True)
class _Rule:
    """What one rule does before and after, in documents, bytes and tokens where three numbers stand."""

    name: str
    bounds: list[str | None] = field(default_factory=lambda: [None, None])
    removed: list[np.ndarray] = field(default_factory=lambda: [np.zeros(3), np.zeros(3)])
    fired: list[int] = field(default_factory=lambda: [0, 0])
    gained: np.ndarray = field(default_factory=lambda: np.zeros(3))
    lost: np.ndarray = field(default_factory=lambda: np.zeros(3))


@dataclass(slots=True)
class _Pick:
    """A document that is shown."""

    id: str
    shard: str
    row: int
    size: int
    fired: list[dict[str, Any]]


class _Source:
    """One source, decided twice."""

    def __init__(self, run: RunFolder, before: SourceRecipe, after: SourceRecipe, place: int) -> None:
        self.run = run
        self.name = before.name
        self.place = place
        self.measured = MeasuredSource(run, before)
        both = (self.measured.layout.judged, layout_of(after).judged)
        self.judged: tuple[tuple[Judged, ...], ...] = tuple(map(self.measured.resolved, both))
        self.rules: dict[str, _Rule] = {}
        for side, judged in enumerate(self.judged):
            for rule in (rule for block in judged for rule in block.rules):
                self._rule(rule.name).bounds[side] = bound_of(rule)
        self.decided = bool(run.shards("decisions", self.name))
        self.bytes_per_token = self._bytes_per_token()
        self.extracted = np.zeros(3)
        self.passed = [np.zeros(3), np.zeros(3)]
        self.kept = [np.zeros(3), np.zeros(3)]
        self.gained, self.lost, self.moved = np.zeros(3), np.zeros(3), 0
        self.contaminated, self.earlier = np.zeros(3), np.zeros(3)
        self.copied, self.freed = np.zeros(3), np.zeros(3)
        self.clustered: list[pl.DataFrame] = []  # of documents that have copies
        self.picks: dict[tuple[str, str], list[_Pick]] = {}

    def _rule(self, name: str) -> _Rule:
        return self.rules.setdefault(name, _Rule(name))

    def _bytes_per_token(self) -> float:
        shards = self.run.json(f"tokens/{self.name}/manifest.json").get("shards") or ()
        tokens = sum(shard["tokens"] for shard in shards)
        return sum(shard["bytes"] for shard in shards) / tokens if tokens else BYTES_PER_TOKEN

    def count(self, sample: int) -> None:
        """Decide every document with both recipes."""
        rules = [rule for judged in self.judged for block in judged for rule in block.rules]
        table = _duplicates(self.run) if self.decided else None
        copies = table["id"] if table is not None else None
        for part in self.measured.parts(rules, decided=self.decided):
            found = [
                verdicts(judged, part.judged_by(judged, self.measured.folders), part.rows) for judged in self.judged
            ]
            first = [reasons(one, part.rows) for one in found]
            self._check(part, found[0], first[0])
            weights = np.stack([np.ones(part.rows), part.sizes, part.last_sizes / self.bytes_per_token])  # (3, rows)
            for side in (0, 1):
                self._count_rules(side, found[side], first[side], weights)
            passed = [one < 0 for one in first]
            gained, lost = passed[1] & ~passed[0], passed[0] & ~passed[1]
            self.extracted += weights.sum(1)
            self.gained += weights[:, gained].sum(1)
            self.lost += weights[:, lost].sum(1)
            self._changes(found, first, (gained, lost), weights)
            for side in (0, 1):
                self.passed[side] += weights[:, passed[side]].sum(1)
            self._behind(part, passed, gained, weights, copies)
            if sample:
                self._pick(part, "gained", found[0], first[0], gained, sample)
                self._pick(part, "lost", found[1], first[1], lost, sample)

    def _check(self, part: Part, found: Sequence[Verdict], first: np.ndarray) -> None:
        """Raise InputError unless the run's own bounds give the run's own decisions."""
        if part.decisions is None:
            return
        names = [one.rule for one in found]
        now = pl.Series([*names, None], dtype=pl.String).gather(pl.Series(np.where(first < 0, len(names), first)))
        then = part.decisions["rule"]
        then = pl.select(pl.when(then.is_in(names)).then(then))[:, 0].alias("")
        apart = int((~now.eq_missing(then)).sum())
        if apart:
            place = str(self.run.path / "decisions" / self.name)
            problem = f"{apart:,} decisions do not follow from the measurements: other code decided them."
            raise InputError(place, problem, "Run the recipe again; what is measured is reused.")

    def _count_rules(self, side: int, found: Sequence[Verdict], first: np.ndarray, weights: np.ndarray) -> None:
        for place, verdict in enumerate(found):
            rule = self._rule(verdict.rule)
            rule.fired[side] += int(verdict.mask.sum())
            rule.removed[side] += weights[:, first == place].sum(1)

    def _changes(
        self,
        found: Sequence[Sequence[Verdict]],
        first: Sequence[np.ndarray],
        changed: tuple[np.ndarray, np.ndarray],
        weights: np.ndarray,
    ) -> None:
        gained, lost = changed
        for place in np.unique(first[0][gained]):
            self._rule(found[0][place].rule).gained += weights[:, gained & (first[0] == place)].sum(1)
        for place in np.unique(first[1][lost]):
            self._rule(found[1][place].rule).lost += weights[:, lost & (first[1] == place)].sum(1)
        known = {name: place for place, name in enumerate(self.rules)}
        both = (first[0] >= 0) & (first[1] >= 0)
        sides = [np.array([known[one.rule] for one in found[side]], np.int32)[first[side][both]] for side in (0, 1)]
        self.moved += int((sides[0] != sides[1]).sum())

    def _behind(
        self,
        part: Part,
        passed: Sequence[np.ndarray],
        gained: np.ndarray,
        weights: np.ndarray,
        copies: pl.Series | None,
    ) -> None:
        """Count what is kept in the end, but for documents that have copies: those wait for `_copies`."""
        if part.decisions is None:
            for side in (0, 1):
                self.kept[side] += weights[:, passed[side]].sum(1)
            return
        kept = part.decisions["kept"].to_numpy()
        known = gained & _also_fired(part.decisions, _EARLIER)
        leaked = gained & ~known & _also_fired(part.decisions, _LEAKS)
        self.kept[0] += weights[:, kept].sum(1)
        self.earlier += weights[:, known].sum(1)
        self.contaminated += weights[:, leaked].sum(1)
        stays = kept & passed[1]
        fresh = gained & ~known & ~leaked
        waits = np.zeros(part.rows, bool)
        if copies is not None:
            waits = part.ids.is_in(copies.implode()).to_numpy()
            dropped = _removed_as_copies(part.decisions) & passed[1]
            some = waits & (kept | fresh | dropped)
            self.clustered.append(
                pl.DataFrame(
                    {
                        "id": part.ids.filter(pl.Series(some)),
                        "stays": stays[some],
                        "fresh": fresh[some],
                        "dropped": dropped[some],
                        **dict(zip(UNITS, weights[:, some], strict=True)),
                    }
                ).with_columns(source=pl.lit(self.place))
            )
        self.kept[1] += weights[:, (stays | fresh) & ~waits].sum(1)

    def _pick(
        self, part: Part, way: str, found: Sequence[Verdict], first: np.ndarray, chosen: np.ndarray, sample: int
    ) -> None:
        """Keep the documents with the lowest ids of each rule: an id is a hash, so they are drawn evenly."""
        for place in np.unique(first[chosen]):
            rows = np.flatnonzero(chosen & (first == place))
            ids = part.ids.gather(rows)
            drawn = rows[ids.arg_sort()[:sample].to_numpy()]
            picks = self.picks.setdefault((way, found[place].rule), [])
            for row in drawn.tolist():
                fired = [
                    {"rule": one.rule, "value": one.values[row].as_py(), "bound": one.threshold(row)}
                    for one in found
                    if one.mask[row]
                ]
                picks.append(_Pick(part.ids[row], *part.place(row), int(part.sizes[row]), fired))
            picks.sort(key=lambda pick: pick.id)
            del picks[sample:]

    def result(self, sample: int) -> dict[str, Any]:
        """Return the source's part of the answer."""
        amounts = {
            "extracted": self.extracted,
            "passed_before": self.passed[0],
            "passed_after": self.passed[1],
            "gained": self.gained,
            "lost": self.lost,
            "kept_before": self.kept[0],
            "kept_after": self.kept[1],
            "earlier": self.earlier,
            "contaminated": self.contaminated,
            "copies": self.copied,
            "copies_kept_instead": self.freed,
        }
        rules = [
            {
                "rule": rule.name,
                "bound_before": rule.bounds[0],
                "bound_after": rule.bounds[1],
                "fired_before": rule.fired[0],
                "fired_after": rule.fired[1],
                "removed_before": _units(rule.removed[0]),
                "removed_after": _units(rule.removed[1]),
                "gained": _units(rule.gained),
                "lost": _units(rule.lost),
            }
            for rule in self.rules.values()
        ]
        return {
            **{name: _units(amount) for name, amount in amounts.items()},
            "other_reason": self.moved,
            "decided": self.decided,
            "bytes_per_token": self.bytes_per_token,
            "rules": rules,
            "samples": self._samples() if sample else [],
        }

    def _samples(self) -> list[dict[str, Any]]:
        wanted: dict[str, list[int]] = {}
        for picks in self.picks.values():
            for pick in picks:
                wanted.setdefault(pick.shard, []).append(pick.row)
        texts = beginnings(self.run, self.name, wanted)
        groups = []
        for (way, rule), picks in sorted(self.picks.items()):
            shown = [
                {
                    "id": pick.id,
                    **{name: texts[pick.shard, pick.row][name] for name in ("url", "path")},
                    "bytes": pick.size,
                    "fired": pick.fired,
                    "begins": one_line(texts[pick.shard, pick.row]["text"][:400], 120),
                }
                for pick in picks
            ]
            groups.append({"change": way, "rule": rule, "samples": shown})
        return groups


def bound_of(rule: Rule) -> str:
    """Return the bound of a rule in words; a map as its entries."""
    sides = [(">=", rule.at_least), ("<=", rule.at_most)]
    if not any(isinstance(bound, Mapping) for _, bound in sides):
        return rule.threshold()
    words = []
    for sign, bound in sides:
        if isinstance(bound, Mapping):
            words.append(f"{sign} " + ", ".join(f"{label} {one:g}" for label, one in bound.items()))
        elif bound is not None:
            words.append(f"{sign} {bound:g}")
    return "; ".join(words)


def _units(amount: np.ndarray) -> dict[str, int]:
    return {name: round(float(value)) for name, value in zip(UNITS, amount, strict=True)}


def _also_fired(decisions: pl.DataFrame, beginning: str) -> np.ndarray:
    """Return which documents a rule would remove whose name begins so, had no other rule removed them before."""
    found = decisions["also_fired"].list.eval(pl.element().str.starts_with(beginning)).list.any()
    return np.asarray(found.fill_null(value=False).to_numpy(), bool)


def _removed_as_copies(decisions: pl.DataFrame) -> np.ndarray:
    found = (pl.col("stage") == "dedup") & ~pl.any_horizontal(pl.col("rule").str.starts_with(one) for one in _NO_COPIES)
    return np.asarray(decisions.select(found.fill_null(value=False))[:, 0].to_numpy(), bool)


def _duplicates(run: RunFolder) -> pl.DataFrame | None:
    """Return id, cluster and `same` of the documents that have copies, None if there are none.

    `same` is one for a kept document and those that go because their address or payload is equal to its own: they share no
    text that was compared, and the kept one may be in no cluster.
    """
    table = run.table("duplicates.parquet", ("id", "cluster", "kept_id", "similarity"))
    if table is None or not table.height:
        return None
    equal = pl.col("kept_id").is_not_null() & pl.col("similarity").is_null()
    table = table.with_columns(same=pl.when(equal).then("kept_id").otherwise("id"))
    alone = table.filter(equal).select(id=pl.col("kept_id")).unique(maintain_order=True)
    alone = alone.join(table, on="id", how="anti", maintain_order="left").with_columns(cluster="id", same="id")
    return pl.concat([table.select("id", "cluster", "same"), alone])


def _copies(run: RunFolder, sources: Sequence[_Source], after: Recipe) -> None:
    """Settle the documents that have copies: a cluster with a kept document keeps no other, else it keeps its first.

    Likewise of documents with an equal address or payload. Without `dedup` in the recipe copies are kept.
    """
    frames = [frame for source in sources for frame in source.clustered]
    table = _duplicates(run)
    if not frames or table is None:
        return
    frame = pl.concat(frames).join(table, on="id", how="left", maintain_order="left")
    if after.dedup is not None and after.dedup.copies is not None:
        stays = pl.col("stays").any()
        open_to = ~stays.over("cluster") & ~stays.over("same")
        frame = frame.with_columns(first=(pl.col("fresh") | pl.col("dropped")) & open_to)
        for group in ("cluster", "same"):
            frame = frame.with_columns(
                first=pl.col("first") & (pl.col("first").cast(pl.Int32).cum_sum().over(group) == 1)
            )
        frame = frame.with_columns(remains=pl.col("stays") | pl.col("first"))
    else:
        frame = frame.with_columns(remains=pl.col("stays") | pl.col("fresh"))
    for source in sources:
        own = frame.filter(pl.col("source") == source.place)
        for amount, rows in (
            (source.kept[1], own.filter("remains")),
            (source.copied, own.filter(pl.col("fresh") & ~pl.col("remains"))),
            (source.freed, own.filter(pl.col("dropped") & pl.col("remains"))),
        ):
            amount += np.array([float(rows[unit].sum()) for unit in UNITS])


def _total(sources: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    names = [name for name, value in next(iter(sources.values())).items() if isinstance(value, dict)]
    return {name: {unit: sum(source[name][unit] for source in sources.values()) for unit in UNITS} for name in names}


def what_if_lines(result: Mapping[str, Any], *, sample: int = 3) -> list[str]:
    """Return the answer as a terminal shows it."""
    lines = [f"{result['run']}, with {' '.join(result['sets'])}: decided from its measurements, nothing was run."]
    if result["not_recomputed"]:
        lines.append(f"  Not recomputed: {', '.join(result['not_recomputed'])}. Run it to see what that changes.")
    lines += [f"  {_needed(entry)}. Run it (curate run ... --set)." for entry in result["needs_text"]]
    for source, entry in result["sources"].items():
        lines += ["", *_source_lines(source, entry)]
        for group in entry["samples"] if sample else ():
            lines += _sample_lines(group)
    if len(result["sources"]) > 1:
        lines += ["", *_amount_lines("all sources", result["total"], decided=True)]
    lines.append("")
    lines.append(
        "Up to the filters this is what a run decides. Behind them: removals of the run stay; copies are estimated by "
        "its clusters; validation documents are not drawn again; tokens are bytes over the run's bytes per token."
    )
    return lines


def _source_lines(source: str, entry: Mapping[str, Any]) -> list[str]:
    lines = _amount_lines(source, entry, decided=entry["decided"])
    rows = [
        rule
        for rule in entry["rules"]
        if rule["bound_before"] != rule["bound_after"]
        or rule["removed_before"]["documents"] != rule["removed_after"]["documents"]
        or rule["gained"]["documents"]
        or rule["lost"]["documents"]
    ]
    if not rows:
        return [*lines, "  No rule removes more or less than before."]
    width = max(len(rule["rule"]) for rule in rows)
    lines.append(f"  {'rule':<{width}}  {'removes':>10} {'then':>10} {'gained':>9} {'lost':>9}  bound")
    for rule in rows:
        before, after = rule["bound_before"], rule["bound_after"]
        bound = before if before == after else f"{before or 'none'} -> {after or 'none'}"
        counts = [rule[name]["documents"] for name in ("removed_before", "removed_after", "gained", "lost")]
        lines.append(
            f"  {rule['rule']:<{width}}  {counts[0]:>10,} {counts[1]:>10,} {counts[2]:>9,} {counts[3]:>9,}  "
            f"{bound or ''}"
        )
    if entry["other_reason"]:
        lines.append(f"  {number(entry['other_reason'])} documents go as before, for another reason.")
    return lines


def _amount_lines(name: str, entry: Mapping[str, Any], *, decided: bool) -> list[str]:
    def shown(amount: Mapping[str, int]) -> str:
        parts = (number(amount["documents"]), num_bytes(amount["bytes"]), compact(amount["tokens"]))
        return "{} documents, {}, ~{} tokens".format(*parts)

    lines = [
        f"{name}: {shown(entry['extracted'])} judged",
        f"  pass the filters  {shown(entry['passed_before'])} ({_share(entry, 'passed_before')})",
        f"  would pass        {shown(entry['passed_after'])} ({_share(entry, 'passed_after')})",
        f"  gained            {shown(entry['gained'])}",
        f"  lost              {shown(entry['lost'])}",
    ]
    if decided:
        lines.append(f"  kept in the end   {shown(entry['kept_before'])}; then about {shown(entry['kept_after'])}")
        notes = (
            ("earlier", "of the gained are in earlier corpora and go"),
            ("contaminated", "of the gained hold benchmark items and go"),
            ("copies", "of the gained are copies of kept documents and go (estimated)"),
            ("copies_kept_instead", "copies stay in place of lost documents (estimated)"),
        )
        lines += [f"    {number(entry[key]['documents'])} {text}" for key, text in notes if entry[key]["documents"]]
    return lines


def _share(entry: Mapping[str, Any], name: str) -> str:
    return share(entry[name]["documents"], entry["extracted"]["documents"])


def _sample_lines(group: Mapping[str, Any]) -> list[str]:
    lines = [f"  {group['change']}, {group['rule']}:"]
    for one in group["samples"]:
        fired = "; ".join(f"{rule['rule']} {number(rule['value'])} ({rule['bound']})" for rule in one["fired"])
        lines.append(f"    {one['id']}  {one_line(one['url'] or one['path'], 100)}")
        lines.append(f"      {one_line(fired, 160)}")
        lines.append(f"      {one['begins']}")
    return lines
