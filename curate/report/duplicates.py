"""Copies as the report shows them: clusters, who was removed in favour of whom, pairs side by side, how pairs are found."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from curate.report.display import excerpt, number
from curate.report.run import RunFolder
from curate.report.samples import draw, find_texts

if TYPE_CHECKING:
    import polars as pl

    from curate.dedup.settings import MinHash
    from curate.recipe import Recipe

NUM_PAIRS = {"near": 4, "exact": 1}
PAIRS_PER_RULE = 2  # of rules that compare something else than words: address, payload, meaning
NUM_CLUSTERS = 8
PAIR_CHARACTERS = 1200
CURVE_STEPS = 100
SHOWN_SIMILARITIES = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
_WORDS = re.compile(r"(\s*)(\S+|\Z)")
_EQUAL = {
    "dedup.exact": "the texts are equal",
    "dedup.earlier_exact": "the texts are equal",
    "dedup.url": "the address is equal",
    "dedup.payload": "the payload is equal",
}
_OF_WORDS = ("dedup.exact", "dedup.minhash", "validation.near_copy")  # rules whose pairs duplicates.parquet has


def duplicates(run: RunFolder, seed: int, recipe: Recipe | None) -> dict[str, Any] | None:
    """Return clusters by size, copies by rule and sources, the collision curve, the largest clusters and sampled pairs.

    Args:
        run: The run folder.
        seed: Of the sample.
        recipe: The run's recipe, or None if it cannot be read: then there is no curve.

    Returns:
        None without duplicates.parquet.
    """
    import polars as pl

    frame = run.table("duplicates.parquet")
    if frame is None:
        return None
    members = frame.filter(pl.col("cluster_size") > 1)
    clusters = members.group_by("cluster").agg(pl.col("cluster_size").max(), pl.len().alias("members"))
    sizes = clusters.group_by("cluster_size").len().sort("cluster_size")
    largest = clusters.sort("cluster_size", "cluster", descending=[True, False]).head(NUM_CLUSTERS)
    copies = members.filter(pl.col("kept_id").is_not_null() & (pl.col("kept_id") != pl.col("id")))
    removed = _removed_copies(run)
    # A document that something else removed has no pair to show; before anything is decided, any copy has.
    of_words = removed.filter(pl.col("rule").is_in(_OF_WORDS)).select("id", "rule")
    pool = copies.join(of_words, on="id", how="inner" if removed.height else "left", maintain_order="left")
    pairs = [
        *_drawn(pool.filter(pl.col("similarity") < 1), seed, NUM_PAIRS["near"]),
        *_drawn(pool.filter(pl.col("similarity") >= 1), seed, NUM_PAIRS["exact"]),
    ]
    for (rule,), rows in sorted(removed.group_by("rule"), key=lambda item: str(item[0])):
        if rule not in _OF_WORDS and not str(rule).startswith("dedup.earlier"):
            pairs += _drawn(rows, seed, PAIRS_PER_RULE)
    wanted = {*largest["cluster"], *(row[name] for row in pairs for name in ("id", "kept_id"))}
    texts = find_texts(run, "extracted", ((source, id) for source in run.sources for id in sorted(wanted)))
    return {
        "clusters": clusters.height,
        "documents": members.height,
        "copies": copies.height,
        "verified": int(copies["verified"].sum()) if "verified" in copies.columns else None,
        "sizes": [{"size": size, "clusters": count} for size, count in sizes.iter_rows()],
        "similarities": _similarities(copies),
        "num_removed": removed.height,
        "removed": _in_favour(run, removed),
        "compared": dict(run.manifest.get("dedup") or {}).get("compared"),
        "curve": collision_curve(recipe.dedup.minhash) if recipe and recipe.dedup and recipe.dedup.minhash else None,
        "largest": [_cluster(row, members, texts) for row in largest.iter_rows(named=True)],
        "pairs": [_pair(row, texts) for row in pairs],
    }


def _removed_copies(run: RunFolder) -> pl.DataFrame:
    """Return the documents that were removed because another one stands for them: source, id, rule, kept_id, similarity."""
    import polars as pl

    names = ("id", "rule", "kept_id", "similarity")
    empty = pl.DataFrame(schema={"source": pl.String, **dict.fromkeys(names[:3], pl.String), "similarity": pl.Float64})
    parts = [empty]
    for source in run.sources:
        for _, frame in run.scan("decisions", source, columns=(*names, "kept")):
            found = frame.filter(~pl.col("kept") & pl.col("kept_id").is_not_null())
            parts.append(found.select(pl.lit(source).alias("source"), *names))
    return pl.concat(parts)


def _in_favour(run: RunFolder, removed: pl.DataFrame) -> list[dict[str, Any]]:
    """Return how many documents of which source went by which rule in favour of one of which source.

    `earlier` says that the document that stands for them is in an earlier corpus; `kept_source` is then that corpus.
    """
    wanted = removed.select("kept_id").unique()
    places: dict[str, str] = {}
    for source in run.sources:
        for _, frame in run.scan("decisions", source, columns=("id",)):
            places |= dict.fromkeys(frame.join(wanted, left_on="id", right_on="kept_id", how="semi")["id"], source)
    earlier = run.table("earlier.parquet", ("id", "run"))
    held = {} if earlier is None else dict(earlier.select("id", "run").iter_rows())
    counts: dict[tuple[str, str, bool, str | None], int] = {}
    for source, id, rule, kept_id in removed.select("source", "id", "rule", "kept_id").iter_rows():
        of_earlier = rule.startswith("dedup.earlier")
        key = (rule, source, of_earlier, held.get(id) if of_earlier else places.get(kept_id))
        counts[key] = counts.get(key, 0) + 1
    order = sorted(counts, key=lambda key: (key[0], -counts[key], str(key)))
    names = ("rule", "source", "earlier", "kept_source")
    return [{**dict(zip(names, key, strict=True)), "documents": counts[key]} for key in order]


def collision_curve(minhash: MinHash) -> dict[str, Any]:
    """Return the probability that two documents are compared, by the similarity of their shingle sets.

    `points` cover 0 to 1; `shown` are those that the page tells in words, the threshold among them; `even` is the
    similarity at which it is one half.
    """
    from curate.dedup.minhash import collision_probability

    def chance(similarity: float) -> float:
        return collision_probability(similarity, num_bands=minhash.bands, rows_per_band=minhash.rows)

    verify = None if minhash.verify is False else float(minhash.verify)
    shown = sorted({*SHOWN_SIMILARITIES, *([] if verify is None else [verify])})
    return {
        "ngram": minhash.ngram,
        "bands": minhash.bands,
        "rows": minhash.rows,
        "threshold": minhash.threshold,
        "permutations": minhash.num_permutations,
        "measure": minhash.measure,
        "verify": verify,
        "even": (1 - 0.5 ** (1 / minhash.bands)) ** (1 / minhash.rows),
        "shown": [[similarity, chance(similarity)] for similarity in shown],
        "points": [[step / CURVE_STEPS, chance(step / CURVE_STEPS)] for step in range(CURVE_STEPS + 1)],
    }


def _drawn(frame: pl.DataFrame, seed: int, count: int) -> list[dict[str, Any]]:
    places = sorted((draw(id, seed), id, index) for index, id in enumerate(frame["id"]))
    return [frame.row(index, named=True) for _, _, index in places[:count]]


def _similarities(copies: pl.DataFrame) -> list[dict[str, Any]]:
    """Return how many copies have which similarity to the kept document: twentieths below 1, and 1 itself."""
    counts: dict[float, int] = {}
    for value in copies["similarity"].drop_nulls():
        edge = 1.0 if value >= 1 else int(value * 20) / 20
        counts[edge] = counts.get(edge, 0) + 1
    return [{"at_least": edge, "copies": counts[edge]} for edge in sorted(counts)]


def _cluster(row: Mapping[str, Any], members: pl.DataFrame, texts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    import polars as pl

    inside = members.filter(pl.col("cluster") == row["cluster"])
    kept = sorted({id for id in inside["kept_id"] if id is not None})
    first = texts.get(row["cluster"])
    return {
        "cluster": row["cluster"],
        "size": row["cluster_size"],
        "kept_ids": kept[:3],
        "lowest_similarity": inside["similarity"].min(),
        "excerpt": excerpt(" ".join(first["text"][:400].split()), 140) if first else None,
        "url": first.get("url") if first else None,
        "path": first.get("path") if first else None,
    }


def _pair(row: Mapping[str, Any], texts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    sides = [texts.get(row[name]) for name in ("kept_id", "id")]
    whole = [side["text"] if side else "" for side in sides]
    start = first_difference(*whole) if all(whole) else 0
    kept_runs, removed_runs = differences(*(text[start : start + PAIR_CHARACTERS] for text in whole))
    return {
        "rule": row["rule"],
        "similarity": row["similarity"],
        "verified": row.get("verified"),
        "cluster_size": row.get("cluster_size"),
        "equal_before": start,
        "kept": {"id": row["kept_id"], "runs": kept_runs, **_origin(sides[0])},
        "removed": {"id": row["id"], "runs": removed_runs, **_origin(sides[1])},
    }


def first_difference(left: str, right: str) -> int:
    """Return where to begin to show two texts: a little before they differ, or at the start."""
    same = next((place for place, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), None)
    if same is None or same < PAIR_CHARACTERS // 2:
        return 0
    line = left.rfind("\n", 0, same - 100)
    return line + 1 if line > same - PAIR_CHARACTERS // 2 else same - PAIR_CHARACTERS // 4


def likeness(rule: str | None, similarity: float | None, verified: bool | None) -> str:
    """Return in words how a removed document is like the one that stands for it.

    Args:
        rule: By which it was removed.
        similarity: As the decision states it; None where something else than the text is equal.
        verified: Whether the texts were compared; None if that is not known.
    """
    if rule in _EQUAL:
        return _EQUAL[rule]
    if similarity is None:
        return "similarity not measured"
    how = {"dedup.semantic": "cosine of the embeddings", "dedup.earlier": "estimated from signatures"}.get(rule or "")
    if how is None:
        how = "" if verified is None else "verified on the texts" if verified else "estimated from bands"
    return f"similarity {number(similarity)}" + (f", {how}" if how else "")


def what_differs(kept: str, removed: str, most: int = 5) -> tuple[list[str], list[str]]:
    """Return up to `most` pieces that only the kept text has and that only the removed one has, where they begin to differ."""
    start = first_difference(kept, removed)
    sides = differences(*(text[start : start + PAIR_CHARACTERS] for text in (kept, removed)))
    found = tuple([text for differs, text in runs if differs][:most] for runs in sides)
    return found[0], found[1]


def _origin(row: Mapping[str, Any] | None) -> dict[str, Any]:
    if row is None:
        return {"source": None, "url": None, "path": None, "characters": None}
    return {"source": row["source"], "url": row["url"], "path": row["path"], "characters": len(row["text"])}


def differences(left: str, right: str) -> tuple[list[list[Any]], list[list[Any]]]:
    """Return both texts as runs `[differs, text]`, compared word by word; white space never differs."""
    words = [_WORDS.findall(text) for text in (left, right)]  # (space before, word)
    matcher = difflib.SequenceMatcher(
        None, [word for _, word in words[0]], [word for _, word in words[1]], autojunk=False
    )
    runs: tuple[list[list[Any]], list[list[Any]]] = ([], [])
    for tag, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        for side, start, end in ((0, left_start, left_end), (1, right_start, right_end)):
            for index, (space, word) in enumerate(words[side][start:end]):
                differs = tag != "equal" and word != ""
                _extend(runs[side], differs and index > 0, space)
                _extend(runs[side], differs, word)
    return runs


def _extend(runs: list[list[Any]], differs: bool, text: str) -> None:
    if not text:
        return
    if runs and runs[-1][0] == differs:
        runs[-1][1] += text
    else:
        runs.append([differs, text])
