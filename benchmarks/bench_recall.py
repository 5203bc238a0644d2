"""Recall and precision of near-duplicate removal against brute force, on real texts with planted edits.

    python benchmarks/bench_recall.py [--pairs 4000] > benchmarks/results/recall.md

Texts of `$CURATE_DATA`: main texts of the pages in 03_raw_html by our extractor, gold texts of 02_gold, passages of
the books. No two are alike; each gets one edited copy, the wished similarity drawn by hash (`recall_pairs.plant`). The
truth is the exact similarity of all pairs of documents, from tuples of words, without a hash of ours. What is measured is
`curate run` as it is, from JSONL to duplicates.parquet: a pair is found if one of the two is removed in favour of the other.

Fails if a document was removed for a pair below the threshold, if a stated similarity is wrong, if what stands for a removed
document is removed, or if recall disagrees with the formula (chi-square over bins, p < 1e-4).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import itertools
import json
import os
import platform
import resource
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import recall_pairs as planted
from recall_pairs import Pair, Text, Truth
from scipy import stats

import curate

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
SEEDS = (1, 2, 3)
EDGES = np.linspace(0.5, 1.0, 11)
MIN_WORDS = 60
MOST_ALIKE = 0.1  # of two bases
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """Settings of `dedup.minhash`, and where they are from."""

    bands: int
    rows: int
    verify: float | None
    source: str
    measure: str = "jaccard"

    @property
    def name(self) -> str:
        verify = "verify false" if self.verify is None else f"verify {self.verify:g}"
        return f"{self.bands} bands of {self.rows}, {verify}" + (", containment" if self.measure != "jaccard" else "")

    def chance(self, similarity: Floats) -> Floats:
        """Return the probability that a pair shares a band: 1 - (1 - s^r)^b."""
        return 1 - (1 - similarity**self.rows) ** self.bands

    def recipe(self, paths: str, seed: int) -> str:
        verify = "false" if self.verify is None else self.verify
        return (
            f"name: recall\nsources:\n  own:\n    read: {{kind: jsonl, paths: {paths}}}\n"
            f"dedup:\n  exact: {{}}\n  minhash: {{bands: {self.bands}, rows: {self.rows}, verify: {verify}, "
            f"measure: {self.measure}, seed: {seed}}}\n"
        )


SETTINGS = (
    Setting(14, 8, 0.7, "FineWeb's bands and rows (Penedo et al. 2024), our default"),
    Setting(14, 8, None, "the same without verification, as FineWeb ran it"),
    Setting(9, 13, 0.8, "what datasketch picks for 0.8 with 128 permutations"),
    Setting(25, 5, 0.5, "datasketch's for 0.5 with 128 permutations"),
    Setting(20, 6, 0.6, "a low threshold with 120 permutations"),
    Setting(14, 8, 0.8, "the default's bands, verified by containment", "containment"),
)


# ---- documents


def page_texts(folder: Path) -> list[Text]:
    """Return the main texts of 03_raw_html, by our extractor."""
    recipe = folder / "pages.yaml"
    recipe.write_text(
        f"name: pages\nsources:\n  web:\n    read: {{kind: warc, paths: {DATA / '03_raw_html' / 'raw.warc.gz'}}}\n"
        "    extract: {kind: auto}\n"
    )
    curate.run(recipe, output=folder / "pages", cache=folder / "cache", until="extract", workers=1, quiet=True)
    rows = pq.read_table(folder / "pages" / "extracted", columns=["text", "language"]).to_pylist()
    return [Text(row["text"], row["language"] or "?", "page") for row in rows if row["text"]]


def group_of(text: str) -> str:
    """Return `han, kana` for texts in scripts that do not part words, else `other`."""
    of_text = planted.units(text)
    return "han, kana" if sum(len(unit.strip()) == 1 for unit in of_text) > len(of_text) / 2 else "other"


def documents_of(num_pairs: int, folder: Path) -> tuple[list[Text], list[Text], list[str], list[Pair]]:
    """Return all real texts, the bases, the planted corpus and its pairs."""
    real = planted.gold_texts(DATA) + page_texts(folder) + planted.book_texts(DATA, 40)
    real = [one for one in real if len(planted.folded_words(one.text)) >= MIN_WORDS]
    bases = planted.unlike(real, MOST_ALIKE)
    bases.sort(key=lambda one: hashlib.sha256(one.text.encode()).digest())
    bases = bases[:num_pairs]
    donors = planted.book_texts(DATA, 400, leave=40)
    if len(donors) < len(bases):
        raise SystemExit(f"{len(donors)} passages to insert for {len(bases)} texts: ask for fewer --pairs")
    documents, pairs = planted.plant(bases, donors, float(EDGES[0]) - 0.05)
    return real, bases, documents, pairs


def write_documents(texts: Sequence[str], path: Path) -> None:
    """Write the documents in an order by hash: what belongs together is not neighbours."""
    ranks = sorted(range(len(texts)), key=lambda place: planted.number(place, "place"))
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": str(place), "text": texts[place]}) + "\n" for place in ranks)


# ---- a run, and what it says


@dataclass(frozen=True)
class Removed:
    """What a run removed: by document, its number, the number of what stays, and the stated similarity."""

    removed: npt.NDArray[np.int64]
    kept: npt.NDArray[np.int64]
    similarity: Floats
    rule: list[str]
    compared: int
    cpu: float

    @classmethod
    def by(cls, setting: Setting, paths: str, seed: int, folder: Path) -> Removed:
        recipe = folder / "recall.yaml"
        recipe.write_text(setting.recipe(paths, seed))
        shutil.rmtree(folder / "run", ignore_errors=True)
        before = cpu_seconds()
        result = curate.run(
            recipe, output=folder / "run", cache=folder / "cache", until="collect", workers=1, quiet=True
        )
        cpu = cpu_seconds() - before
        extracted = pq.read_table(folder / "run" / "extracted", columns=["id", "source_id"])
        number_of = dict(zip(extracted["id"].to_pylist(), map(int, extracted["source_id"].to_pylist()), strict=True))
        rows = [row for row in pq.read_table(folder / "run" / "decisions").to_pylist() if not row["kept"]]
        assert all(row["rule"] in ("dedup.exact", "dedup.minhash") for row in rows), {row["rule"] for row in rows}
        return cls(
            np.array([number_of[row["id"]] for row in rows], np.int64),
            np.array([number_of[row["kept_id"]] for row in rows], np.int64),
            np.array([row["similarity"] for row in rows], np.float64),
            [row["rule"] for row in rows],
            result.manifest["dedup"]["compared"],
            cpu,
        )


def cpu_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def check(run: Removed, setting: Setting, truth: Truth) -> int:
    """Assert what must hold for every removed document; return how many there are."""
    assert not set(run.removed.tolist()) & set(run.kept.tolist()), "what stands for a removed document is removed"
    similarity, containment = truth.of(run.removed, run.kept)
    exact = containment if setting.measure == "containment" else similarity
    if setting.verify is not None:
        wrong = np.flatnonzero(exact < setting.verify)
        assert not len(wrong), f"{len(wrong)} removed below the threshold, the first at {exact[wrong[0]]}"
        assert np.array_equal(run.similarity, exact), "a stated similarity is not the exact one"
    return len(run.removed)


@dataclass(frozen=True)
class Bin:
    """Pairs of about one similarity, over all seeds."""

    low: float
    high: float
    count: int
    found: int
    expected: float
    variance: float

    @property
    def interval(self) -> tuple[float, float]:
        return planted.wilson(self.found, self.count)

    @property
    def covers(self) -> bool:
        low, high = self.interval
        return low <= self.expected / self.count <= high

    @property
    def deviation(self) -> float | None:
        """Return (found - expected) / standard deviation, or None where it is no normal variable."""
        enough = min(self.expected, self.count - self.expected) >= 5
        return (self.found - self.expected) / self.variance**0.5 if enough else None


def bins_of(setting: Setting, found: npt.NDArray[np.bool_], similarity: Floats, exact: Floats) -> list[Bin]:
    """Return the bins of pairs that the setting must find.

    Args:
        setting: The setting.
        found: Whether each pair was found, shape (seeds, pairs).
        similarity: Exact Jaccard similarity of each pair.
        exact: What is verified of each pair.
    """
    bins = []
    chances = setting.chance(similarity)
    for low, high in itertools.pairwise(EDGES.tolist()):
        inside = (similarity >= low) & (similarity < high) & (exact >= (setting.verify or 0))
        count = int(inside.sum()) * len(found)
        if count:
            p = chances[inside]
            expected, variance = len(found) * float(p.sum()), len(found) * float((p * (1 - p)).sum())
            bins.append(Bin(low, high, count, int(found[:, inside].sum()), expected, variance))
    return bins


def chi_square(bins: Sequence[Bin]) -> tuple[float, int, float]:
    """Return the sum of squared deviations, how many, and the probability of a larger one."""
    deviations = [one.deviation for one in bins if one.deviation is not None]
    total = sum(value * value for value in deviations)
    return total, len(deviations), float(stats.chi2.sf(total, len(deviations))) if deviations else 1.0


# ---- the report


def table_of(bins: Sequence[Bin]) -> list[str]:
    lines = [
        "| similarity | pairs | found | recall | 95% interval | formula | in it |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in bins:
        low, high = one.interval
        lines.append(
            f"| {one.low:.2f} to {one.high:.2f} | {one.count} | {one.found} | {one.found / one.count:.1%} "
            f"| {low:.1%} to {high:.1%} | {one.expected / one.count:.1%} | {'yes' if one.covers else '**no**'} |"
        )
    return lines


def told(setting: Setting, bins: Sequence[Bin]) -> str:
    total, count, p = chi_square(bins)
    assert p > 1e-4, f"{setting.name}: recall disagrees with the formula, p = {p}"
    return (
        f"{sum(one.covers for one in bins)} of {len(bins)} intervals hold the formula's value; chi-square {total:.1f} "
        f"on {count} bins, p = {p:.2f}."
    )


def upper_bound(count: int) -> str:
    """Return the highest rate that 0 of `count` leaves possible, one-sided 95% (Clopper and Pearson 1934)."""
    return f"{1 - 0.05 ** (1 / count):.2%}"


def groups_table(groups: dict[str, list[tuple[str, list[Bin]]]]) -> list[str]:
    lines = ["| | pairs | found | formula | deviations |", "| --- | --- | --- | --- | --- |"]
    for name, parts in groups.items():
        for part, bins in parts:
            expected, variance = sum(one.expected for one in bins), sum(one.variance for one in bins)
            found = sum(one.found for one in bins)
            lines.append(
                f"| {name}: {part} | {sum(one.count for one in bins)} | {found} | {expected:.0f} "
                f"| {(found - expected) / variance**0.5:+.1f} |"
            )
    return lines


def planted_part(documents: list[str], pairs: list[Pair], folder: Path) -> tuple[list[str], float]:
    """Return the report's lines about planted pairs, and the CPU seconds of the runs."""
    truth = planted.all_pairs(documents)
    checked = planted.check_sample(documents, truth, 4000, 5)
    base, edited = (np.array([getattr(pair, side) for pair in pairs]) for side in ("base", "edited"))
    similarity, containment = truth.of(base, edited)
    write_documents(documents, folder / "planted.jsonl")
    lines = [
        f"{len(pairs)} pairs, {len(documents)} documents; the truth is the similarity of all {len(truth.a)} pairs that share a shingle",
        f"(inverted index; {checked} pairs, half of them drawn from all, compared with sets of tuples). Each setting ran",
        f"with {len(SEEDS)} seeds of its hash functions. A bin's formula is 1 - (1 - s^r)^b, averaged over its pairs.",
        "",
    ]
    cpu, removed_in_all, covered = 0.0, 0, []
    details: list[str] = []
    below_unverified = 0
    for setting in SETTINGS:
        exact = containment if setting.measure == "containment" else similarity
        found = np.zeros((len(SEEDS), len(pairs)), bool)
        removed = compared = 0
        for place, seed in enumerate(SEEDS):
            run = Removed.by(setting, "planted.jsonl", seed, folder)
            cpu += run.cpu
            removed += check(run, setting, truth)
            compared += run.compared
            kept_of = np.full(len(documents), -1)
            kept_of[run.removed] = run.kept
            found[place] = (kept_of[base] == edited) | (kept_of[edited] == base)
            if setting.verify is None:
                below_unverified += int((truth.of(run.removed, run.kept)[0] < SETTINGS[0].verify).sum())
        bins = bins_of(setting, found, similarity, exact)
        covered += [one.covers for one in bins]
        removed_in_all += removed if setting.verify is not None else 0
        lines += [f"### {setting.name}", "", f"{setting.source[0].upper()}{setting.source[1:]}. {told(setting, bins)}"]
        if setting.verify is None:
            lines.append(f"{below_unverified} documents were removed at a similarity below 0.7: nothing verifies.")
        else:
            lines.append(
                f"{compared} pairs compared, {removed} documents removed: none below {setting.verify:g} (0 of {removed}; "
                f"at 95% confidence below {upper_bound(removed)}), every stated similarity is the exact one."
            )
        lines += ["", *table_of(bins), ""]
        if setting is SETTINGS[0]:
            details = groups_table(groups_of(setting, found, similarity, exact, pairs, documents))
    sure = stats.binom.cdf(sum(covered), len(covered), 0.95)
    head = [
        f"**{sum(covered)} of {len(covered)} bins' 95% intervals hold the value of the formula** (so few or fewer: probability "
        f"{sure:.2f}). **Under verification {removed_in_all} documents were removed, none below its threshold.**",
        "",
    ]
    tail = [
        f"## By edit, origin and script ({SETTINGS[0].name})",
        "",
        "Deviations: found minus expected, in standard deviations.",
        "",
    ]
    return [*head, *lines, *tail, *details, ""], cpu


def groups_of(
    setting: Setting,
    found: npt.NDArray[np.bool_],
    similarity: Floats,
    exact: Floats,
    pairs: Sequence[Pair],
    documents: Sequence[str],
) -> dict[str, list[tuple[str, list[Bin]]]]:
    """Return the bins by edit, by origin and by script."""
    labels = {
        "edit": [pair.edit for pair in pairs],
        "origin": [pair.kind for pair in pairs],
        "script": [group_of(documents[pair.base]) for pair in pairs],
    }
    groups: dict[str, list[tuple[str, list[Bin]]]] = {}
    for name, values in labels.items():
        for value in sorted(set(values)):
            inside = np.array([one == value for one in values])
            bins = bins_of(setting, found[:, inside], similarity[inside], exact[inside])
            groups.setdefault(name, []).append((value, bins))
    return groups


def real_part(real: list[Text], folder: Path) -> list[str]:
    """Return the report's lines about the near copies that the texts have among themselves."""
    texts = [one.text for one in real]
    truth = planted.all_pairs(texts)
    write_documents(texts, folder / "real.jsonl")
    lines = [
        "| | pairs at or above verify | neither removed | formula | removed | below verify |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for setting in (one for one in SETTINGS if one.verify is not None and one.measure == "jaccard"):
        run = Removed.by(setting, "real.jsonl", SEEDS[0], folder)
        removed = check(run, setting, truth)
        stays = np.ones(len(texts), bool)
        stays[run.removed] = False
        alike = truth.similarity >= setting.verify
        missed = int((alike & stays[truth.a] & stays[truth.b]).sum())
        expected = float((1 - setting.chance(truth.similarity[alike])).sum())
        lines.append(f"| {setting.name} | {int(alike.sum())} | {missed} | at most {expected:.1f} | {removed} | 0 |")
    return [
        "## Copies that the texts have by themselves",
        "",
        f"All {len(texts)} texts, nothing planted, nothing left out: pages made from one template, editions of one book, pages that two",
        "collections hold. A pair is missed if both its documents stay. The formula's number of pairs that share no band is an",
        "upper bound: a document that is missed once may be a copy of another one too.",
        "",
        *lines,
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recall-") as name:
        folder = Path(name)
        real, bases, documents, pairs = documents_of(arguments.pairs, folder)
        print(f"{len(real)} texts, {len(bases)} bases, {len(pairs)} pairs", file=sys.stderr)
        body, cpu = planted_part(documents, pairs, folder)
        body += real_part(real, folder)
    kinds = {kind: sum(one.kind == kind for one in bases) for kind in ("page", "gold", "book")}
    digest = hashlib.sha256("\0".join(documents).encode()).hexdigest()[:16]
    sizes = np.array([len(text.encode()) for text in documents])
    edits = "words replaced, a block cut, a block inserted, blocks moved, header and footer, several of these"
    packages = ("numpy", "numba", "pyarrow", "scipy")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    print(f"""# Recall and precision of near copies

`python benchmarks/bench_recall.py`: `curate run`, from JSONL to the documents removed, against the exact similarity of all
pairs by brute force. {len(bases)} real texts, no two more alike than {MOST_ALIKE:g}: {kinds["page"]} main texts of pages,
{kinds["gold"]} gold texts, {kinds["book"]} passages of books; each with one edited copy ({edits}).
{sizes.sum() / 1e6:.1f} MB, {int(np.median(sizes))} bytes in the median; sha256 `{digest}`.
""")
    print("\n".join(body))
    print(f"""Versions: Python {platform.python_version()}, {versions}.
Machine: {platform.machine()}, {os.cpu_count()} cores, Linux; all runs took {cpu:.0f} CPU seconds; load {os.getloadavg()[0]:.1f}.""")


if __name__ == "__main__":
    main()
