"""Main text by `auto` beside trafilatura, resiliparse, readability-lxml and jusText: quality on gold pages, and speed.

    python benchmarks/bench_extract.py requirements                    # how to make the peers' environment
    python benchmarks/bench_extract.py folds WORK                      # a model for each fold: some minutes
    python benchmarks/bench_extract.py quality WORK --peers-python PEERS/bin/python
    python benchmarks/bench_extract.py speed WORK --peers-python PEERS/bin/python
    python benchmarks/bench_extract.py write WORK > benchmarks/results/extract.md

Pages: `$CURATE_DATA`/02_gold. WORK keeps what a step found, so that a step can be made again alone. Ours is the extractor
as it ships, with the model of the page's fold: one that saw no page of its site. Peers run in an environment of their
own, as processes that read pages and write JSON lines; their texts are made again when pages or versions change.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from extract_contestants import CONTESTANTS, HUMAN, INPUTS, OURS, SETTINGS, STAGES
from extract_tables import AS_GB18030, requirements, write

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS", "ARROW_NUM_THREADS"), "1"
)
TEXT_SETS = (*HUMAN, AS_GB18030, "readability", "newspaper4k", "template_docs", "template_docs_ptbr")
FEWEST_PAGES = 5  # of a language, for a row
BANDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.01)  # of confidence
FROM_BYTES = "resiliparse, from bytes"  # with its own detection of the charset, whatever it does better with
TIMED = (OURS, "trafilatura", "trafilatura, fast", "resiliparse", FROM_BYTES, "readability", "jusText")
EVERY_PAGE = (
    OURS,
    "resiliparse",
    FROM_BYTES,
)  # read all pages in each round; the slow ones a share, another in each round

Score = tuple[float, float, float]  # precision, recall, F1


def call(
    python: str,
    task: str,
    rows: Iterable[Mapping[str, str]] = (),
    name: str = OURS,
    kind: str = "bytes",
    settings: Mapping[str, bool] | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run this file as a process of another Python; return what it printed."""
    script = str(ROOT / "benchmarks" / "extract_contestants.py")
    command = [python, script, task, "--name", name, "--input", kind, "--settings", json.dumps(settings or {})]
    run = subprocess.run(
        command,
        env=os.environ | ONE_THREAD | {"PYTHONPATH": str(ROOT)} | dict(environment or {}),
        input="".join(json.dumps(row) + "\n" for row in rows),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return run.stdout


# ---- pages


def load_pages() -> list[Any]:
    """Return the gold pages that are measured, and the Chinese ones once more as GB18030."""
    from curate.extract.auto.training.gold import GOLD_SETS, load_gold

    pages = load_gold(DATA / "02_gold", [gold for gold in GOLD_SETS if gold.kind != "prefix"])
    return pages + [as_gb18030(page) for page in pages if page.set == "zh_handcrafted"]


def as_gb18030(page: Any) -> Any:
    """Return a page with its bytes, and what they say of their charset, in GB18030."""
    from dataclasses import replace

    label = re.compile(r"(<meta[\s/][^>]*?charset\s*=\s*[\"']?\s*)[A-Za-z0-9_:.-]{1,40}", re.IGNORECASE)
    html = label.sub(r"\1gb18030", page.html)
    return replace(page, set=AS_GB18030, id=f"{page.id} as GB18030", content=html.encode("gb18030"), html=html)


def digest_of(pages: Iterable[Any]) -> str:
    """Return the sha256 of the pages' bytes and gold, in the order of their ids."""
    digest = hashlib.sha256()
    for page in sorted(pages, key=lambda page: str(page.id)):
        for part in (
            page.id.encode(),
            page.content,
            page.text.encode(),
            json.dumps([page.wanted, page.unwanted]).encode(),
        ):
            digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def write_pages(pages: Iterable[Any], folder: Path) -> list[dict[str, str]]:
    """Write each page as served and as we decode it; return the list that the processes read."""
    from curate.extract.justext import LISTS

    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for page in pages:
        path = folder / f"{hashlib.sha256(page.id.encode()).hexdigest()[:16]}.html"
        path.write_bytes(page.content)
        path.with_suffix(".txt").write_bytes(page.html.encode("utf-8", "replace"))
        stop_list = LISTS.get(page.language, "")
        rows.append({"id": page.id, "set": page.set, "url": page.url, "path": str(path), "stop_list": stop_list})
    return rows


# ---- ours, out of fold


def code_digest() -> str:
    """Return a digest of the code and the labels that make a model."""
    folder = ROOT / "curate" / "extract" / "auto"
    digest = hashlib.sha256()
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.jsonl")]):
        digest.update(str(path.relative_to(folder)).encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def train_folds(work_folder: Path) -> None:
    """Train a model for each fold on the pages of the others, as the training command does to validate itself."""
    from curate.extract.auto.model import save_model
    from curate.extract.auto.scan import stop_table
    from curate.extract.auto.training.__main__ import load_samples, read_stop_words
    from curate.extract.auto.training.fit import Setup, train
    from curate.extract.auto.training.gold import NUM_FOLDS

    code = code_digest()
    stop_words = stop_table(read_stop_words(DATA / "08_wordlists" / "stopwords-iso.json"))
    samples = load_samples(DATA, stop_words)
    start = time.process_time()
    digests = []
    for fold in range(NUM_FOLDS):
        model = train(samples, stop_words, Setup(), without=(fold,))
        digests.append(save_model(model, work_folder / f"fold-{fold}.npz"))
        print(f"fold {fold + 1} of {NUM_FOLDS}: {time.process_time() - start:.0f} CPU s", file=sys.stderr, flush=True)
    trained_on = [sample for sample in samples if sample.weights.any()]
    facts = {
        "code": code,
        "models": digests,
        "pages": len(trained_on),
        "labelled": sum(sample.gold.set.startswith("labelled") for sample in trained_on),
        "seconds": time.process_time() - start,
    }
    (work_folder / "folds.json").write_text(json.dumps(facts))


def extract_ours(pages: Sequence[Any], work_folder: Path) -> dict[str, dict[str, Any]]:
    """Return text and confidence of each page by the extractor that ships, with the model of the page's fold."""
    from curate.extract.auto.extractor import Auto
    from curate.extract.auto.model import open_model
    from curate.extract.auto.scan import Scanner

    stage = Auto()
    texts: dict[str, dict[str, Any]] = {}
    for fold in sorted({page.fold for page in pages}):
        model = open_model(work_folder / f"fold-{fold}.npz")
        scanner = Scanner(model.stop_words)
        for page in (page for page in pages if page.fold == fold):
            row = {"id": page.id, "text": "", "error": "", "confidence": None}
            try:
                text, facts = stage.judged_text(model, scanner(page.html), page.html, page.url)
                row |= {"text": text or "", "confidence": facts["extract_confidence"]}
            except Exception as error:
                row["error"] = f"{type(error).__name__}: {error}"
            texts[page.id] = row
    return texts


# ---- quality


def measure_quality(work_folder: Path, python: str, limit: int) -> None:
    pages = load_pages()[:: max(1, limit)]
    digest = digest_of(pages)
    versions = json.loads(call(python, "versions"))
    rows = write_pages(pages, work_folder / "pages")
    texts: dict[str, dict[str, dict[str, Any]]] = {}
    chosen: dict[str, Any] = {}
    decoded = hashlib.sha256("\0".join(page.html for page in pages).encode("utf-8", "replace")).hexdigest()
    stamp = {"pages": digest, "decoded": decoded, "versions": versions}

    def peer(name: str, kind: str, settings: dict[str, bool]) -> dict[str, dict[str, Any]]:
        return peer_texts(work_folder, python, name, kind, settings, rows, stamp)

    for name in CONTESTANTS[1:]:
        if name in SETTINGS and name != "trafilatura":
            kind, settings = chosen["trafilatura"]["input"], chosen["trafilatura"]["settings"]
            texts[name] = peer(name, kind, settings)
            continue
        choices: list[dict[str, bool]] = [{}, {"include_comments": False}] if name == "trafilatura" else [{}]
        tried: list[dict[str, Any]] = []
        for settings in choices:
            for kind in INPUTS:
                found = peer(name, kind, settings)
                f1 = statistics.fmean(score[2] for score in scores_of(pages, found, HUMAN).values())
                tried.append({"input": kind, "settings": settings, "f1": f1})
                print(f"{name}, {kind}, {settings}: {f1:.4f}", file=sys.stderr, flush=True)
        best = max(tried, key=lambda one: float(one["f1"]))
        chosen[name] = best | {"tried": tried}
        texts[name] = peer(name, best["input"], best["settings"])
    texts[OURS] = extract_ours(pages, work_folder)
    write_lines(work_folder / "texts-auto.jsonl", texts[OURS].values())
    facts = {
        "pages": len(pages),
        "sites": len({page.site for page in pages}),
        "digest": digest,
        "versions": versions,
        "chosen": chosen,
        "folds": json.loads((work_folder / "folds.json").read_text()),
        "code": code_digest(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    (work_folder / "quality.json").write_text(json.dumps(facts | {"scores": summarise(pages, texts)}))


def peer_texts(
    work_folder: Path,
    python: str,
    name: str,
    kind: str,
    settings: Mapping[str, bool],
    rows: Sequence[Mapping[str, str]],
    stamp: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Return what a peer makes of each page; kept in a file while pages and versions are the same."""
    parts = [name.replace(", ", "-"), kind, *settings]
    path = work_folder / f"texts-{'-'.join(parts)}.jsonl"
    wanted = json.loads(json.dumps(dict(stamp)))
    if path.exists():
        head, *kept = read_lines(path)
        if head == wanted:
            return {row["id"]: row for row in kept}
    found = [json.loads(line) for line in call(python, "extract", rows, name, kind, settings).splitlines()]
    write_lines(path, [wanted, *found])
    return {row["id"]: row for row in found}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def scores_of(pages: Iterable[Any], texts: Mapping[str, Any], sets: Sequence[str] = TEXT_SETS) -> dict[str, Score]:
    """Return precision, recall and F1 of each page of some sets that has a gold text; a failure is 0."""
    from curate.extract.auto.training.gold import word_scores

    return {page.id: word_scores(texts[page.id]["text"], page) for page in pages if page.set in sets and page.text}


def summarise(pages: Sequence[Any], texts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return all that the tables show of quality."""
    from curate.extract.auto.training.gold import snippet_hits

    scored = [page for name in TEXT_SETS for page in pages if page.set == name and page.text]
    scores = {name: scores_of(pages, found) for name, found in texts.items()}
    groups: dict[str, dict[str, list[Any]]] = {"set": defaultdict(list), "kind": defaultdict(list)}
    groups["language"] = defaultdict(list)
    for page in scored:
        groups["set"][page.set].append(page)
        if page.set == "wcxb":
            groups["kind"][page.kind].append(page)
        if page.set != AS_GB18030:
            declared = "not declared" if page.language in ("", "?") else page.language
            groups["language"][declared].append(page)
    result: dict[str, Any] = {}
    for group, members in groups.items():
        result[group] = {
            label: {"pages": len(own)}
            | {
                name: [statistics.fmean(scores[name][page.id][part] for page in own) for part in range(3)]
                for name in texts
            }
            for label, own in members.items()
            if group != "language" or len(own) >= FEWEST_PAGES
        }
    snippets = [page for page in pages if page.set in ("wcxb", "trafilatura") and (page.wanted or page.unwanted)]
    result["snippets"] = {}
    for label in dict.fromkeys(page.set for page in snippets):
        own = [page for page in snippets if page.set == label]
        result["snippets"][label] = {"pages": len(own)} | {
            name: [
                statistics.fmean(
                    hit for page in own for hit in snippet_hits(found[page.id]["text"], getattr(page, which))
                )
                for which in ("wanted", "unwanted")
            ]
            for name, found in texts.items()
        }
    result["failures"] = {
        name: {
            "error": sum(bool(found[page.id]["error"]) for page in pages),
            "no text": sum(not found[page.id]["text"].strip() and not found[page.id]["error"] for page in pages),
        }
        for name, found in texts.items()
    }
    result["differences"] = {
        label: difference(own, scores, best_peer(result["set"][label])) for label, own in groups["set"].items()
    }
    result["confidence"] = judge_confidence(scored, scores[OURS], texts[OURS])
    return result


def best_peer(row: Mapping[str, Any]) -> str:
    return max((name for name in CONTESTANTS[1:] if name in row), key=lambda name: float(row[name][2]))


def difference(pages: Sequence[Any], scores: Mapping[str, Mapping[str, Score]], peer: str) -> dict[str, Any]:
    """Return the mean difference in F1 to a peer and its 95% interval: a bootstrap of whole sites, 10,000 draws."""
    import numpy as np

    by_site: dict[str, list[float]] = defaultdict(list)
    for page in pages:
        by_site[page.site].append(scores[OURS][page.id][2] - scores[peer][page.id][2])
    sums, counts = np.array([(sum(own), len(own)) for own in by_site.values()]).T
    draws = np.random.default_rng(7).integers(0, len(sums), (10_000, len(sums)))
    low, high = np.quantile(sums[draws].sum(1) / counts[draws].sum(1), (0.025, 0.975))
    return {"peer": peer, "mean": sums.sum() / counts.sum(), "low": low, "high": high, "sites": len(sums)}


def judge_confidence(
    pages: Sequence[Any], scores: Mapping[str, Score], texts: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return how the expected F1 goes with the true one: correlation, and by bands. Pages without a confidence are left out."""
    from scipy.stats import spearmanr

    told = [(page.set, texts[page.id]["confidence"], scores[page.id][2]) for page in pages if page.set != AS_GB18030]
    told = [one for one in told if one[1] is not None]
    by_set = {name: [one for one in told if one[0] == name] for name in dict.fromkeys(one[0] for one in told)}
    human = [one for one in told if one[0] in HUMAN]
    result: dict[str, Any] = {"correlation": {}, "bands": []}
    for label, own in {"all": told, "human gold": human, **by_set}.items():
        expected, true = [one[1] for one in own], [one[2] for one in own]
        if len(set(expected)) > 1 and len(set(true)) > 1:
            result["correlation"][label] = {
                "pages": len(own),
                "r": statistics.correlation(expected, true),
                "ranks": float(spearmanr(expected, true).statistic),
                "expected": statistics.fmean(expected),
                "true": statistics.fmean(true),
            }
    for low, high in itertools.pairwise(BANDS):
        inside = [one for one in human if low <= one[1] < high]
        if inside:
            true = sorted(one[2] for one in inside)
            band = {"low": low, "high": min(high, 1.0), "pages": len(inside), "true": statistics.fmean(true)}
            result["bands"].append(band | {"below_half": sum(f1 < 0.5 for f1 in true) / len(true)})
    return result


# ---- speed


def measure_speed(work_folder: Path, python: str, rounds: int, limit: int) -> None:
    """Time the contestants in turn, each slice in a process of its own; the first of a round changes."""
    pages = load_pages()
    rows = write_pages(pages, work_folder / "pages")
    human = [row for row in rows if row["set"] in HUMAN][:: max(1, limit)]
    human.sort(key=lambda row: hashlib.sha256(row["id"].encode()).digest())  # each share holds pages of all sets
    warm_up = [row for row in rows if row["set"] == "readability"][::4]
    chosen = json.loads((work_folder / "quality.json").read_text())["chosen"]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TIMED}
    stages: list[dict[str, float]] = []
    call(sys.executable, "time", warm_up)  # compiles what is not compiled yet
    for turn in range(rounds):
        stages.append(json.loads(call(sys.executable, "stages", warm_up + human)))
        for place in range(len(TIMED)):
            name = TIMED[(turn + place) % len(TIMED)]
            share = human if name in EVERY_PAGE else human[turn::rounds]
            choice = chosen.get("trafilatura" if name in SETTINGS else name, {"input": "bytes", "settings": {}})
            runner = sys.executable if name == OURS else python
            contestant = "resiliparse" if name == FROM_BYTES else name
            printed = call(runner, "time", warm_up + share, contestant, choice["input"], choice["settings"])
            found[name].append(json.loads(printed))
        print(f"round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as empty:
        cold = json.loads(call(sys.executable, "time", warm_up + human[:1], environment={"NUMBA_CACHE_DIR": empty}))
    facts = {
        "rounds": rounds,
        "every_page": EVERY_PAGE,
        "pages": len(human),
        "bytes": sum(Path(row["path"]).stat().st_size for row in human),
        "digest": digest_of(page for page in pages if page.id in {row["id"] for row in human}),
        "versions": json.loads(call(python, "versions")),
        "model": hashlib.sha256((ROOT / "curate/extract/auto/model.npz").read_bytes()).hexdigest(),
        "code": code_digest(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "load": os.getloadavg()[2],
        "speed": {name: compare_speed(found[name], found[OURS]) for name in TIMED},
        "stages": {stage: statistics.median(one[stage] for one in stages) / len(human) for stage in (*STAGES, "whole")},
        "cold": cold["ready"],
    }
    (work_folder / "speed.json").write_text(json.dumps(facts))


def compare_speed(theirs: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return pages a CPU second, and how many times as long as ours a contestant takes for the same pages, by round."""
    ratios = [
        sum(one["seconds"].values()) / sum(mine["seconds"][page] for page in one["seconds"])
        for one, mine in zip(theirs, ours, strict=True)
    ]
    num_pages = sum(len(one["seconds"]) for one in theirs)
    seconds = sum(sum(one["seconds"].values()) for one in theirs)
    own = sum(mine["seconds"][page] for one, mine in zip(theirs, ours, strict=True) for page in one["seconds"])
    return {
        "timed": num_pages,
        "each_round": statistics.median(len(one["seconds"]) / sum(one["seconds"].values()) for one in theirs),
        "all_rounds": num_pages / seconds,
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "pooled": seconds / own,
        "ready": statistics.median(one["ready"] for one in theirs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Main text: quality and speed beside peers")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("requirements", help="print how to make the peers' environment")
    for name, told in (
        ("folds", "train a model for each fold"),
        ("quality", "extract and score all pages"),
        ("speed", "time the contestants; needs the choices of quality"),
        ("write", "print the tables"),
        ("all", "all of it"),
    ):
        one = commands.add_parser(name, help=told)
        one.add_argument("work", type=Path, help="folder that keeps what was found")
        if name in ("quality", "speed", "all"):
            one.add_argument("--peers-python", required=True, help="Python of an environment with the peers")
            one.add_argument("--every", type=int, default=1, help="only each so manieth page: for trying")
        if name in ("speed", "all"):
            one.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    if options.command == "requirements":
        print("\n".join(requirements()))
        return
    options.work.mkdir(parents=True, exist_ok=True)
    if options.command in ("folds", "all"):
        train_folds(options.work)
    if options.command in ("quality", "all"):
        measure_quality(options.work, options.peers_python, options.every)
    if options.command in ("speed", "all"):
        measure_speed(options.work, options.peers_python, options.rounds, options.every)
    if options.command in ("write", "all"):
        write(*(json.loads((options.work / f"{name}.json").read_text()) for name in ("quality", "speed")))


if __name__ == "__main__":
    main()
