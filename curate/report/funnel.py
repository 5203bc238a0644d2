"""What became of each document: counts per source, stage and rule, whether they balance, and whom each rule removed.

The ledger of the manifest is what the run counted at the reader and from the files it wrote. Here the files are
counted once more, so that the page states a balance that it has checked and not one that it was told.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from curate.report.display import excerpt
from curate.report.run import RunFolder, count_rows
from curate.report.samples import Pick, decisions, draw, find_shard_texts, lowest

if TYPE_CHECKING:
    import polars as pl

STAGES = ("read", "gate", "extract", "filter", "decontaminate", "dedup", "validation", "quarantine")
SAMPLES_PER_RULE = 4
MAX_BOUNDS = 4  # a bound may differ by language; more than this many are summed up


@dataclass(slots=True)
class Counted:
    """What the decision files of one source say.

    Attributes:
        read, kept: Rows, and rows that are kept.
        removed: Documents by (stage, rule).
        alone: Documents by (stage, rule) on which no other rule fired.
        fired: Documents by rule on which it fired, as the reason or besides it.
        bounds: Documents by (stage, rule), then by bound.
        picks: The sample of each (stage, rule).
    """

    read: int = 0
    kept: int = 0
    removed: Counter[tuple[str, str]] = field(default_factory=Counter)
    alone: Counter[tuple[str, str]] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    bounds: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    picks: dict[tuple[str, str], list[Pick]] = field(default_factory=dict)


def count_decisions(run: RunFolder, source: str, seed: int) -> Counted:
    """Read the decisions of a source once, shard by shard."""
    import polars as pl

    counted = Counted()
    for shard, frame in decisions(run, source):
        counted.read += frame.height
        counted.kept += int(frame["kept"].sum())
        removed = frame.filter(~pl.col("kept")).with_columns(pl.col("stage", "rule").fill_null(""))
        for (stage, rule), group in sorted(removed.group_by("stage", "rule"), key=lambda item: str(item[0])):
            _count_rule(counted, source, shard, (str(stage), str(rule)), group, seed)
    return counted


def _count_rule(
    counted: Counted, source: str, shard: str, key: tuple[str, str], group: pl.DataFrame, seed: int
) -> None:
    counted.removed[key] += group.height
    counted.alone[key] += int((group["also_fired"].list.len().fill_null(0) == 0).sum())
    counted.fired[key[1]] += group.height
    for rule, count in group["also_fired"].explode().drop_nulls().value_counts().iter_rows():
        counted.fired[str(rule)] += count
    bounds = counted.bounds.setdefault(key, Counter())
    for bound, count in group["threshold"].drop_nulls().value_counts().iter_rows():
        bounds[str(bound)] += count
    places = [((draw(id, seed), id), index) for index, id in enumerate(group["id"])]
    first = sorted(places)[:SAMPLES_PER_RULE]
    drawn = [(place, Pick(source, shard, group.row(index, named=True))) for place, index in first]
    before = [((draw(pick.id, seed), pick.id), pick) for pick in counted.picks.get(key, [])]
    counted.picks[key] = lowest([*before, *drawn], SAMPLES_PER_RULE)


def funnel(run: RunFolder, source: str, counted: Counted) -> dict[str, Any]:
    """Return the funnel of one source: the ledger if the run wrote one, else what was counted from the decisions."""
    entry = run.manifest.get("ledger", {}).get(source)
    if entry is None:
        removed: dict[str, dict[str, int]] = {}
        for (stage, rule), documents in sorted(counted.removed.items()):
            removed.setdefault(stage, {})[rule] = documents
        entry = {"read": counted.read, "kept": counted.kept, "removed": removed}
    read, in_bytes = int(entry.get("read", 0)), entry.get("bytes", {})
    block_order = {block: place for place, block in enumerate(dict.fromkeys((*run.steps(source), *run.blocks(source))))}
    stages = []
    for stage in sorted(
        entry.get("removed", {}), key=lambda name: (STAGES.index(name) if name in STAGES else len(STAGES), name)
    ):
        by_rule = entry["removed"][stage]
        bytes_by_rule = in_bytes.get("removed", {}).get(stage, {})
        rules = []
        for rule in sorted(by_rule, key=lambda rule: (block_order.get(rule.split(".")[0], -1), -by_rule[rule], rule)):
            if not by_rule[rule]:
                continue
            bounds = counted.bounds.get((stage, rule), Counter())
            rules.append(
                {
                    "rule": rule,
                    "bounds": sorted(bounds, key=lambda bound: (-bounds[bound], bound))[:MAX_BOUNDS],
                    "num_bounds": len(bounds),
                    "documents": by_rule[rule],
                    "share": by_rule[rule] / read if read else 0.0,
                    "bytes": bytes_by_rule.get(rule),
                    "alone": counted.alone.get((stage, rule)),
                    "fired": counted.fired.get(rule),
                }
            )
        if rules:
            num_bytes = sum(row["bytes"] for row in rules) if all(row["bytes"] is not None for row in rules) else None
            stages.append(
                {
                    "stage": stage,
                    "documents": sum(row["documents"] for row in rules),
                    "bytes": num_bytes,
                    "rules": rules,
                }
            )
    return {
        "read": read,
        "kept": int(entry.get("kept", 0)),
        "skipped": dict(sorted(entry.get("skipped", {}).items())),
        "bytes_read": in_bytes.get("read"),
        "bytes_kept": in_bytes.get("kept"),
        "bytes_cut": in_bytes.get("cut"),
        "bytes_payload": in_bytes.get("payload"),
        "stages": stages,
    }


def balance(run: RunFolder, source: str, funnel: dict[str, Any], counted: Counted) -> list[dict[str, Any]]:
    """Return the checks of one source, each with both sides, their difference and whether they agree."""
    removed = sum(stage["documents"] for stage in funnel["stages"])
    checks = [_check("documents read = kept + removed", funnel["read"], funnel["kept"] + removed)]
    stage_bytes = [stage["bytes"] for stage in funnel["stages"]]
    sides = [funnel["bytes_kept"], funnel["bytes_cut"], *stage_bytes]
    if funnel["bytes_read"] is not None and all(side is not None for side in sides):
        checks.append(_check("bytes read = kept + removed + cut", funnel["bytes_read"], sum(sides)))
    if run.shards("decisions", source):
        checks.append(_check("documents read = rows in decisions/", funnel["read"], counted.read))
        by_rule = {
            (stage["stage"], row["rule"]): row["documents"] for stage in funnel["stages"] for row in stage["rules"]
        }
        apart = sum(
            abs(by_rule.get(key, 0) - counted.removed.get(key, 0)) for key in by_rule.keys() | counted.removed.keys()
        )
        checks.append(_check("documents by stage and rule = those in decisions/", removed, removed + apart))
    if (run.path / "documents" / source).is_dir():
        rows = sum(map(count_rows, run.shards("documents", source)))
        checks.append(_check("documents kept = rows in documents/", funnel["kept"], rows))
    return checks


def _check(statement: str, left: int, right: int) -> dict[str, Any]:
    return {"statement": statement, "left": left, "right": right, "difference": right - left, "holds": left == right}


def removed_samples(
    run: RunFolder, counted: dict[str, Counted], funnels: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return samples of the removed documents of each source and rule, in the funnel's order."""
    picks = [pick for source in counted.values() for group in source.picks.values() for pick in group]
    texts = find_shard_texts(run, "extracted", picks, ("id", "url", "path", "offset", "text"))
    groups = []
    for source, entry in funnels.items():
        for stage in entry["stages"]:
            for row in stage["rules"]:
                drawn = counted[source].picks.get((stage["stage"], row["rule"]), [])
                if drawn:
                    samples = [sample(pick, texts.get(pick.id)) for pick in drawn]
                    groups.append(
                        {
                            "source": source,
                            "stage": stage["stage"],
                            "rule": row["rule"],
                            "documents": row["documents"],
                            "samples": samples,
                        }
                    )
    return groups


def sample(pick: Pick, extracted: dict[str, Any] | None) -> dict[str, Any]:
    """Return what is shown of one document: where it is from, why it went, and how it begins."""
    row = pick.row
    shown: dict[str, Any] = {
        "id": pick.id,
        "value": row.get("value"),
        "value_label": row.get("value_label"),
        "bound": row.get("threshold"),
        "also_fired": list(row.get("also_fired") or ()),
        "kept_id": row.get("kept_id"),
        "similarity": row.get("similarity"),
        **{name: row.get(name) for name in ("url", "path", "offset")},
        "excerpt": None,
    }
    if extracted is not None:  # not for what was removed before it had a text
        shown |= {name: extracted.get(name) for name in ("url", "path", "offset")}
        shown["excerpt"] = excerpt(extracted["text"])
    return shown
