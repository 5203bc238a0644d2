"""`curate audit`: what the filters of a recipe would destroy among documents that are known to be good.

The steps of each source run over the good documents as `curate run` runs them, into a folder that is thrown away:
rewrites and what measures the text behind them, plug-ins, expressions. Their measurements stay in the cache, so another
bound is answered at once.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from curate.errors import UsageError
from curate.gate import Gate
from curate.good import GoodDocument, good_documents, good_files
from curate.loading import load
from curate.measured import MeasuredSource, Part, columns_of, read_all
from curate.phases.decide import Verdict, verdicts
from curate.read.jsonl import Jsonl
from curate.recipe import Recipe, SourceRecipe
from curate.report.display import number, one_line, share
from curate.report.page import loosest
from curate.report.run import RunFolder
from curate.runner import run
from curate.stage import Rule, bound_for
from curate.what_if import bound_of

KEEP_IN_100 = 99  # of the good documents: what the suggested bounds keep
GROUPS = ("kind", "language", "collection")
_FILE_BYTES = 1 << 20  # of the good documents in one file: their shards go over the workers
_PAIRS = 20
_TOLD = 8  # reasons why good documents were left out
_DRAW = "collection", "kind", "language"


@dataclass(slots=True)
class _Good:
    """The good documents, in order, but for their texts."""

    documents: list[GoodDocument]
    paths: list[str]

    def groups(self, by: str) -> dict[str, np.ndarray]:
        """Return the name of each group and which documents are in it, the largest group first."""
        labels = np.array([getattr(document, by) for document in self.documents], dtype=object)
        names, counts = np.unique(labels.astype(str), return_counts=True)
        order = sorted(zip(-counts, names, strict=True))
        return {str(name): labels == name for _, name in order}


def audit(
    recipe: Recipe | str | Path,
    *,
    good: Path | None = None,
    source: str | None = None,
    sample: int = 3,
    sets: Iterable[str] = (),
    allow_code: bool = False,
    cache: Path | None = None,
    workers: int | None = None,
) -> dict[str, Any]:
    """Return what a recipe's filters do to known-good documents, as plain JSON values.

    Args:
        recipe: A recipe, or the path of one.
        good: Folder of good documents; None: those below $CURATE_DATA.
        source: Only this source's steps.
        sample: Documents to show for each rule.
        sets: Overrides, if a path is given.
        allow_code: Whether the recipe may name Python code in its folder.
        cache: Where results are kept; default as for `curate run`.
        workers: Worker processes; default the number of cores.

    Raises:
        UsageError: If there are no good documents, or no steps to audit.
        RecipeError: If the recipe cannot work.
    """
    if not isinstance(recipe, Recipe):
        recipe = load(recipe, sets=sets, allow_code=allow_code)
    names = [one.name for one in recipe.sources if one.steps]
    chosen = [one for one in recipe.sources if one.steps and source in (None, one.name)]
    if not chosen:
        known = f"Sources with steps: {', '.join(names)}." if names else "No source has steps."
        raise UsageError(f"audit: {'nothing to audit' if source is None else f'--source {source}'}. {known}")
    files = good_files(good)
    with tempfile.TemporaryDirectory(prefix="curate-audit-") as temporary:
        folder = Path(temporary)
        left_out: Counter[str] = Counter()
        documents = _write(folder / "good", good_documents(files, left_out))
        if not documents.documents:
            why = "; ".join([*left_out][:5])
            raise UsageError(
                f"audit: no document with a text in {', '.join(str(path) for _, path in files)}"
                + f" ({why})." * bool(why)
            )
        asked = _over(recipe, chosen, folder / "good")
        run(asked, output=folder / "run", cache=cache, workers=workers, until="decide", quiet=True)
        found = RunFolder.open(folder / "run")
        sources = {one.name: _Audit(found, one, documents).result(sample) for one in asked.sources}
    return {
        "recipe": recipe.name,
        "good": str(good) if good is not None else "$CURATE_DATA",
        "documents": len(documents.documents),
        "left_out": dict(left_out),
        "groups": {by: {name: int(mask.sum()) for name, mask in documents.groups(by).items()} for by in GROUPS},
        "keep_in_100": KEEP_IN_100,
        "sources": sources,
    }


def _write(folder: Path, documents: Iterable[GoodDocument]) -> _Good:
    """Write the documents as files that a source reads, their place as id; return them without their texts."""
    folder.mkdir()
    kept = _Good([], [])
    rows: list[str] = []
    size = 0

    def flush() -> None:
        nonlocal size
        path = folder / f"{len(kept.paths):05d}.jsonl"
        path.write_text("".join(rows), "utf-8")
        kept.paths.append(path.name)
        rows.clear()
        size = 0

    for place, one in enumerate(documents):
        row = {"id": str(place), "text": one.text, "url": one.url, "language": one.language}
        rows.append(json.dumps({name: value for name, value in row.items() if value not in (None, "unknown")}) + "\n")
        size += len(rows[-1])
        kept.documents.append(dataclasses.replace(one, text=one.text[:400]))
        if size >= _FILE_BYTES:
            flush()
    if rows:
        flush()
    return kept


def _over(recipe: Recipe, sources: Sequence[SourceRecipe], folder: Path) -> Recipe:
    """Return a recipe that takes the good documents through the steps of each source, and nothing else."""
    replaced = [
        dataclasses.replace(
            source,
            kind="jsonl",
            paths=(str(folder / "*.jsonl"),),
            reader=Jsonl(),
            gate=Gate(),
            extractor=None,
            extractor_kind=None,
            repair=None,
            repair_kind=None,
        )
        for source in sources
    ]
    nothing: dict[str, Any] = dict.fromkeys(
        ("dedup", "decontaminate", "tokenizer", "validation", "mixture", "train"), None
    )
    return dataclasses.replace(recipe, name="audit", sources=tuple(replaced), token_sources=(), **nothing)


class _Audit:
    """What the rules of one source say of the good documents."""

    def __init__(self, run: RunFolder, source: SourceRecipe, good: _Good) -> None:
        measured = MeasuredSource(run, source)
        ranks = {name for block in measured.layout.rankings for name in block.step.adds}

        def of_corpus(rule: Rule) -> bool:  # a share or a rank is set by a corpus, and good documents are none
            return bool(rule.shares or columns_of([rule]) & ranks)

        every = [rule for block in measured.layout.judged for rule in block.rules]
        self.not_judged = [rule.name for rule in every if of_corpus(rule)]
        judged = [
            dataclasses.replace(block, rules=tuple(rule for rule in block.rules if not of_corpus(rule)))
            for block in measured.layout.judged
        ]
        parts = list(measured.parts([rule for block in judged for rule in block.rules], decided=False))
        paths = [run.path / "extracted" / source.name / name for name in measured.shards]
        order = read_all(paths, ["source_id"])["source_id"].cast(pl.Int64).to_numpy()
        self.good = _Good([good.documents[place] for place in order], good.paths)
        self.rows = len(order)
        found = [verdicts(judged, part.judged_by(judged, measured.folders), part.rows) for part in parts]
        self.rules = list(dict.fromkeys(one.rule for block in found for one in block))
        self.mask = np.zeros((len(self.rules), self.rows), bool)
        self.values: dict[str, list[tuple[Part, Verdict, int]]] = {}
        start = 0
        for part, block in zip(parts, found, strict=True):
            for one in block:
                self.mask[self.rules.index(one.rule), start : start + part.rows] = one.mask
                self.values.setdefault(one.rule, []).append((part, one, start))
            start += part.rows
        self.reason = np.where(self.mask.any(0), self.mask.argmax(0), -1)
        self.alone = self.mask.sum(0) == 1
        bounds = [self._bounds(rule) for rule in self.rules]
        labels = np.array([one is not None and one.one_of is not None for one in bounds], bool)
        self.by_label = self.mask[labels].any(0)  # what the recipe does not want, such as another language

    def _bounds(self, rule: str) -> Rule | None:
        return self.values[rule][0][1].bounds

    def result(self, sample: int) -> dict[str, Any]:
        """Return the source's part of the answer."""
        gone = self.reason >= 0
        groups = {by: self.good.groups(by) for by in GROUPS}
        return {
            "documents": self.rows,
            "removed": int(gone.sum()),
            "removed_by_label": int(self.by_label.sum()),
            "not_judged": self.not_judged,
            "groups": [self._group(by, name, mask, gone) for by in GROUPS for name, mask in groups[by].items()],
            "rules": [self._rule(place, groups, sample) for place in range(len(self.rules))],
            "overlap": self._overlap(),
        }

    def _group(self, by: str, name: str, mask: np.ndarray, gone: np.ndarray) -> dict[str, Any]:
        fired = (self.mask & mask).sum(1)
        order = sorted(np.flatnonzero(fired), key=lambda place: (-fired[place], place))
        return {
            "by": by,
            "name": name,
            "documents": int(mask.sum()),
            "removed": int((gone & mask).sum()),
            "removed_by_label": int((self.by_label & mask).sum()),
            "share": float((gone & mask).sum() / mask.sum()),
            "share_of_wanted": _share_of(gone & mask & ~self.by_label, mask & ~self.by_label),
            "top_rules": [{"rule": self.rules[place], "documents": int(fired[place])} for place in order[:3]],
        }

    def _rule(self, place: int, groups: Mapping[str, Mapping[str, np.ndarray]], sample: int) -> dict[str, Any]:
        name, fired = self.rules[place], self.mask[place]
        rule = self._bounds(name)
        shares = {
            by: {group: int((fired & mask).sum()) for group, mask in groups[by].items() if (fired & mask).any()}
            for by in GROUPS
        }
        return {
            "rule": name,
            "bound": bound_of(rule) if rule is not None else None,
            "documents": int(fired.sum()),
            "share": float(fired.mean()),
            "share_of_wanted": _share_of(fired & ~self.by_label, ~self.by_label),
            "alone": int((fired & self.alone).sum()),
            "reason": int((self.reason == place).sum()),
            "groups": shares,
            "keeps": self._keeps(name, groups["kind"]),
            "samples": self._samples(name, fired, sample),
        }

    def _keeps(self, name: str, kinds: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
        """Return the bounds that keep KEEP_IN_100 of 100 documents: of all, of each kind, and of each label of a map.

        Documents that a label removes do not count: no bound keeps them.
        """
        rule = self._bounds(name)
        if rule is None or rule.one_of is not None or rule.expression is not None:
            return None
        values = np.full(self.rows, np.nan)
        labels = np.full(self.rows, None, dtype=object)
        for part, verdict, start in self.values[name]:
            stop = start + part.rows
            values[start:stop] = verdict.values.cast("float64", safe=False).to_numpy()
            if verdict.labels is not None:
                labels[start:stop] = verdict.labels.to_pylist()
        # An end that destroys nothing needs no other number.
        ends = [
            np.array([bound_for(end, label) for label in labels], np.float64) for end in (rule.at_least, rule.at_most)
        ]
        sides = (bool((values < ends[0]).any()), bool((values > ends[1]).any()))
        wanted = ~self.by_label
        return {
            "all": keeping(values[wanted], *sides),
            "kinds": {kind: keeping(values[mask & wanted], *sides) for kind, mask in kinds.items()},
            "labels": {
                str(label): keeping(values[(labels == label) & wanted], *sides)
                for label in sorted({label for label in labels[wanted] if label is not None})
            },
        }

    def _samples(self, name: str, fired: np.ndarray, sample: int) -> list[dict[str, Any]]:
        """Return some of the documents that a rule removes, of as many groups as there are."""
        rows = np.flatnonzero(fired).tolist()
        met: dict[tuple[str, ...], int] = {}
        ranked = []
        for row in rows:
            group = tuple(getattr(self.good.documents[row], by) for by in _DRAW)
            met[group] = met.get(group, 0) + 1
            ranked.append((met[group], row))
        shown = []
        for _, row in sorted(ranked)[:sample]:
            one = self.good.documents[row]
            verdict, start = next(
                (verdict, start) for part, verdict, start in self.values[name] if start <= row < start + part.rows
            )
            also = [self.rules[place] for place in np.flatnonzero(self.mask[:, row]) if self.rules[place] != name]
            shown.append(
                {
                    "id": one.id,
                    "url": one.url,
                    **{by: getattr(one, by) for by in _DRAW},
                    "value": verdict.values[row - start].as_py(),
                    "bound": verdict.threshold(row - start),
                    "also_fired": also,
                    "begins": one_line(one.text, 120),
                }
            )
        return shown

    def _overlap(self) -> list[dict[str, Any]]:
        """Return the pairs of rules that fire together most often."""
        both = self.mask.astype(np.int64) @ self.mask.T.astype(np.int64)
        pairs = [
            (int(both[one, other]), one, other)
            for one in range(len(self.rules))
            for other in range(one + 1, len(self.rules))
            if both[one, other]
        ]
        pairs.sort(key=lambda pair: (-pair[0], pair[1], pair[2]))
        return [
            {
                "rules": [self.rules[one], self.rules[other]],
                "documents": count,
                "of_first": count / int(both[one, one]),
                "of_second": count / int(both[other, other]),
            }
            for count, one, other in pairs[:_PAIRS]
        ]


def _share_of(some: np.ndarray, whole: np.ndarray) -> float | None:
    return float(some.sum() / whole.sum()) if whole.any() else None


def keeping(values: np.ndarray, low: bool, high: bool) -> dict[str, float | None]:
    """Return the tightest bounds that keep KEEP_IN_100 of 100 documents; of two bounds each may cost half of the rest.

    A value at the bound stays. A document without a value stays whatever the bound.

    Args:
        values: The measured values, NaN where nothing was measured.
        low: Whether there is a lower bound.
        high: Whether there is an upper bound.
    """
    spared = (100 - KEEP_IN_100) * len(values) // (200 if low and high else 100)
    ordered = np.sort(values[~np.isnan(values)])
    some = len(ordered) > spared
    return {
        "at_least": float(ordered[spared]) if low and some else None,
        "at_most": float(ordered[-1 - spared]) if high and some else None,
    }


def audit_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the answer as a terminal shows it."""
    kinds = ", ".join(f"{name} {count:,}" for name, count in result["groups"]["kind"].items())
    lines = [
        f"{result['recipe']}: its filters over {result['documents']:,} known-good documents ({result['good']}): "
        f"{kinds}."
    ]
    if result["left_out"]:
        lines.append(f"Left out: {sum(result['left_out'].values()):,} records that could not be read or hold no text.")
        told = [*result["left_out"].items()]
        lines += [
            f"  {one_line(why, 110)}" + (f" ({count:,} times)" if count > 1 else "") for why, count in told[:_TOLD]
        ]
        if len(told) > _TOLD:
            lines.append(f"  and {len(told) - _TOLD:,} more reasons")
    for name, entry in result["sources"].items():
        lines += ["", *_source_lines(name, entry)]
    return lines


def _source_lines(name: str, entry: Mapping[str, Any]) -> list[str]:
    total = entry["documents"]
    lines = [
        f"{name}: {entry['removed']:,} of {total:,} would go ({share(entry['removed'], total)})"
        + (
            f", {entry['removed_by_label']:,} of them by a label such as the language"
            if entry["removed_by_label"]
            else ""
        )
        + "."
    ]
    if entry["removed_by_label"]:
        lines.append("  Second share: of those that no label removes.")
    if entry["not_judged"]:
        lines.append(f"  Not judged, as a whole corpus sets their bounds: {', '.join(entry['not_judged'])}.")
    for by in GROUPS:
        rows = [group for group in entry["groups"] if group["by"] == by]
        width = max(len(group["name"]) for group in rows)
        lines.append(f"  by {by}:")
        for group in rows:
            tops = ", ".join(
                f"{top['rule']} {share(top['documents'], group['documents'])}" for top in group["top_rules"]
            )
            removed = f"{group['removed']:,} of {group['documents']:,}"
            wanted = f"{share(group['share_of_wanted'], 1):>6}" if entry["removed_by_label"] else ""
            lines.append(
                f"    {group['name']:<{width}}  {share(group['removed'], group['documents']):>6}  {removed:>14}  "
                f"{wanted}  {tops}"
            )
    fired = [rule for rule in entry["rules"] if rule["documents"]]
    silent = [rule["rule"] for rule in entry["rules"] if not rule["documents"]]
    if fired:
        width = max(len(rule["rule"]) for rule in fired)
        lines.append(
            f"  {'rule':<{width}}  {'destroys':>8}  {'wanted':>6}  {'alone':>6}  {'bound':<16}  "
            f"bound that keeps {KEEP_IN_100}%"
        )
        lines += [
            f"  {rule['rule']:<{width}}  {share(rule['documents'], total):>8}  "
            f"{share(rule['share_of_wanted'], 1):>6}  {share(rule['alone'], total):>6}  "
            f"{one_line(rule['bound'] or '', 16):<16}  {_keeping(rule['keeps'])}"
            for rule in sorted(fired, key=lambda rule: -rule["documents"])
        ]
    if silent:
        lines.append(f"  never fired: {', '.join(silent)}")
    if entry["overlap"]:
        lines.append("  fire together most often:")
        for pair in entry["overlap"][:8]:
            one, other = pair["rules"]
            lines.append(
                f"    {pair['documents']:>6,}  {one} ({share(pair['of_first'], 1)} of its) and {other} "
                f"({share(pair['of_second'], 1)})"
            )
    for rule in fired:
        for one in rule["samples"]:
            where = one_line(one["url"] or one["id"], 90)
            value = one["value"] if isinstance(one["value"], str) else number(one["value"])
            lines.append(
                f"  {rule['rule']} {one_line(value, 60)} ({one['bound']}): {one['kind']}, {one['language']}  {where}"
            )
            lines.append(f"      {one['begins']}")
    return lines


def _keeping(keeps: Mapping[str, Any] | None) -> str:
    if keeps is None:
        return "–"
    kinds = loosest(keeps)
    words = []
    for side, sign in (("at_least", ">="), ("at_most", "<=")):
        if keeps["all"][side] is not None:
            words.append(f"{sign} {number(keeps['all'][side])} (of every kind: {number(kinds[side])})")
    return ", ".join(words)
