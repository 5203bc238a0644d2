"""What `bench_extract.py` found, as Markdown."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from extract_contestants import CONTESTANTS, HUMAN, OURS, PAGE_SECONDS, STAGES

AS_GB18030 = "zh_handcrafted as GB18030"
PEERS = ("trafilatura==2.3.1", "lxml_html_clean==0.4.6", "resiliparse==2.0.1", "cssselect==1.6.0", "chardet==7.7.0")
PEERS_ALONE = ("readability-lxml==0.9", "justext==3.0.2")  # without what they depend on: they ask for lxml[html_clean]

BOUNDS = (("wcxb", 0.87), ("scrapinghub", 0.96), ("daniel", 0.88), ("zh_handcrafted", 0.92), (AS_GB18030, 0.92))
TIMES_TRAFILATURA = 20

Row = Mapping[str, Any]


def write(quality: Row, speed: Row) -> None:
    """Print all tables."""
    scores = quality["scores"]
    say("# Main text")
    say("By `benchmarks/bench_extract.py`; the commands stand at the end.")
    table(("target", "bound", "measured", ""), targets_of(scores, speed["speed"]))
    write_method(quality)
    say("## F1 by set")
    write_f1("set", scores["set"])
    write_differences(scores["differences"])
    say("Precision / recall:")
    write_pairs("set", scores["set"])
    say("## F1 by kind of page, wcxb")
    write_f1("kind", scores["kind"])
    say("## F1 by declared language")
    say("All sets with text together (but the copy as GB18030); languages with enough pages.")
    languages = sorted(scores["language"].items(), key=lambda item: (-item[1]["pages"], item[0]))
    write_f1("language", dict(languages))
    say("## Snippets")
    say("Wanted found / unwanted found: share of all snippets of a set; white space does not count.")
    write_pairs("set", scores["snippets"])
    say("## Failures")
    say(f"Of {quality['pages']:,} pages: an error ({PAGE_SECONDS} s for a page are one), or no text.")
    failures = scores["failures"]
    rows = [[kind, *(str(failures[name][kind]) for name in CONTESTANTS)] for kind in ("error", "no text")]
    table(("failure", *CONTESTANTS), rows)
    write_confidence(scores["confidence"])
    write_speed(speed)
    write_facts(quality, speed)


def say(text: str) -> None:
    print(text + "\n")


def figure(value: float) -> str:
    """Three digits, without the 0 in front of the point."""
    return f"{value:.3f}".removeprefix("0")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print("| " + " | ".join(head) + " |")
    print("| --- |" + " ---: |" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def write_f1(label: str, groups: Mapping[str, Row]) -> None:
    """A row for each group; what is best to three digits is bold."""
    rows = []
    for name, row in groups.items():
        shown = {one: figure(row[one][2]) for one in CONTESTANTS}
        best = figure(max(row[one][2] for one in CONTESTANTS))
        marked = [f"**{value}**" if value == best else value for value in shown.values()]
        rows.append((name, str(row["pages"]), *marked))
    table((label, "pages", *CONTESTANTS), rows)


def write_pairs(label: str, groups: Mapping[str, Row]) -> None:
    """A row for each group with the first two figures of each contestant."""
    pairs = {
        name: [f"{figure(row[one][0])} / {figure(row[one][1])}" for one in CONTESTANTS] for name, row in groups.items()
    }
    table((label, "pages", *CONTESTANTS), [(name, str(groups[name]["pages"]), *pairs[name]) for name in groups])


def targets_of(scores: Row, speed: Row) -> list[tuple[str, str, str, str]]:
    """Return what was asked for: what, bound, measured, whether it is met."""
    found: list[tuple[str, str, str, bool]] = []
    for name, bound in BOUNDS:
        if name not in scores["set"]:  # a run on few pages
            continue
        f1 = scores["set"][name][OURS][2]
        found.append((f"{name}, F1", f"at least {figure(bound)}", figure(f1), f1 >= bound))
    ours, theirs = (scores["snippets"]["trafilatura"][name] for name in (OURS, "trafilatura"))
    wanted, unwanted = f"at least trafilatura's {figure(theirs[0])}", f"at most trafilatura's {figure(theirs[1])}"
    found.append(("snippets, wanted found", wanted, figure(ours[0]), ours[0] >= theirs[0]))
    found.append(("snippets, unwanted found", unwanted, figure(ours[1]), ours[1] <= theirs[1]))
    for name, bound in (("trafilatura", TIMES_TRAFILATURA), ("resiliparse", 1)):
        ratio = speed[name]["pooled"]
        found.append((f"CPU of {name} / ours, all rounds", f"at least {bound}", f"{ratio:.2f}", ratio >= bound))
    return [(*row, "met" if met else "**missed**") for *row, met in found]  # type: ignore[misc]


def write_method(quality: Row) -> None:
    from curate.extract.auto.training.gold import GOLD_SETS, NUM_FOLDS

    unseen = ", ".join(gold.name for gold in GOLD_SETS if not gold.weight and gold.name in quality["scores"]["set"])
    folds = quality["folds"]
    say("## How")
    say(
        f"Word F1 of a page as bags of words (characters in Chinese), macro over pages; {quality['pages']:,} pages of "
        f"{quality['sites']:,} sites, each in the denominator, a failure counts 0. Ours: the extractor as it ships with "
        f"the model of the page's fold, one of {NUM_FOLDS} by registered domain, which saw no page of its site. The model "
        f"of a fold is trained on the other folds of {folds['pages']:,} pages, {folds['labelled']:,} of them labelled for "
        f"this project and not measured here. Never trained on: {unseen}. Silver, not human gold: readability "
        "(accepted output of that tool), template_docs and template_docs_ptbr (the main container of a known template). "
        "goose3 is left out: its gold is the beginning of the text. zh_handcrafted as GB18030: its pages once more, the "
        "bytes and the label of their charset changed."
    )
    say(
        "A peer gets the page's bytes, or the text that we decode from them: whichever gives it the higher F1 on the pages "
        f"with human gold ({', '.join(HUMAN)}); trafilatura with or without comments by the same rule, tried with its "
        "default setting and used in all four. Nothing else of a peer is set. readability returns HTML, of which the text "
        "is taken, a line for each block; jusText gets its list of words of the page's declared language, and where there "
        "is none runs without one, as its own command does."
    )
    rows = []
    for name, choice in quality["chosen"].items():
        for one in choice["tried"]:
            comments = "" if name != "trafilatura" else ", without comments" if one["settings"] else ", with comments"
            used = one["input"] == choice["input"] and one["settings"] == choice["settings"]
            rows.append((name, one["input"] + comments, figure(one["f1"]), "used" if used else ""))
    table(("peer", "input", "F1, human gold", ""), rows)


def write_differences(differences: Mapping[str, Row]) -> None:
    say("Ours less the best peer of each set; the 95% interval is a bootstrap over sites:")
    rows = [
        (name, one["peer"], f"{one['mean']:+.3f}", f"{one['low']:+.3f} to {one['high']:+.3f}", str(one["sites"]))
        for name, one in differences.items()
        if one["sites"] > 1
    ]
    table(("set", "best peer", "difference", "interval", "sites"), rows)


def write_confidence(confidence: Row) -> None:
    say("## Confidence")
    say("`extract_confidence` is the F1 that the model expects of its choice: out of fold, beside the true F1.")
    rows = []
    for name, one in confidence["correlation"].items():
        means = (figure(one["expected"]), figure(one["true"]))
        rows.append((name, str(one["pages"]), f"{one['r']:.2f}", f"{one['ranks']:.2f}", *means))
    table(("pages of", "pages", "correlation", "of ranks", "mean expected F1", "mean true F1"), rows)
    say("Human gold, by bands of confidence:")
    bands = []
    for band in confidence["bands"]:
        span = f"{band['low']:.2f} to {band['high']:.2f}"
        bands.append((span, str(band["pages"]), figure(band["true"]), f"{band['below_half']:.0%}"))
    table(("confidence", "pages", "mean true F1", "true F1 below .5"), bands)


def write_speed(speed: Row) -> None:
    size = speed["bytes"] / speed["pages"] / 1000
    say("## Speed, one core")
    say(
        f"CPU time (user, system, children) of the {speed['pages']:,} pages with human gold, {size:.0f} KB a page, from "
        "bytes to text; a peer that gets decoded text (see above) has the decoding for free. Processes of one thread take turns, in "
        f"{speed['rounds']} rounds; {'; '.join(speed['every_page'])}: all pages in each round, the others a share, "
        "so that they read each page once. Ratio: CPU of it / CPU of ours on the same pages in the same round, the median "
        "and the range over the rounds; pooled: of the sums over all rounds. Start: CPU seconds before the first measured "
        "page (imports, model, compiled code from disk, some other pages), not part of the other figures."
    )
    rows = []
    for name, one in speed["speed"].items():
        rates = (f"{one['each_round']:,.0f}", f"{one['all_rounds']:,.0f}", f"{1000 / one['all_rounds']:.2f}")
        ratios = (f"{one['ratio']:.2f}", f"{one['least']:.2f} to {one['most']:.2f}", f"{one['pooled']:.2f}")
        rows.append((name, *rates, *ratios, f"{one['ready']:.2f}"))
    head = (
        "extractor",
        "pages/s, median of rounds",
        "pages/s, all rounds",
        "ms a page",
        "ratio to ours",
        "range",
        "pooled",
    )
    table((*head, "start, s"), rows)
    say(f"Start of ours with nothing compiled yet: {speed['cold']:.0f} CPU s, once for a machine and version.")
    say("Where our time goes, in processes of their own with a clock around each function:")
    stages = speed["stages"]
    parts = {stage: stages[stage] for stage in STAGES}
    parts |= {"the rest": stages["whole"] - sum(parts.values()), "all": stages["whole"]}
    split = [(stage, f"{1000 * part:.3f}", f"{part / stages['whole']:.0%}") for stage, part in parts.items()]
    table(("stage", "ms a page", "share"), split)


def write_facts(quality: Row, speed: Row) -> None:
    libraries = ("numpy", "numba", "lightgbm", "resiliparse", "charset-normalizer", "pyarrow")
    ours = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in libraries)
    peers = ", ".join(f"{name} {version}" for name, version in quality["versions"].items() if name != "python")
    folds = quality["folds"]
    models = ", ".join(f"`{one[:16]}`" for one in folds["models"])
    codes = f"folds `{folds['code'][:16]}`, quality `{quality['code'][:16]}`, speed `{speed['code'][:16]}`"
    say("## Facts")
    print(f"- Quality of {quality['date']}, speed of {speed['date']} (load of the machine then: {speed['load']:.1f}).")
    print(
        f"- Ours: Python {platform.python_version()}, {ours}. Peers: Python {quality['versions']['python']}, {peers}."
    )
    print(f"- Machine: {processor()}, {os.cpu_count()} cores, {platform.system()}.")
    print(f"- Pages and gold, sha256: `{quality['digest']}`; those of speed `{speed['digest']}`.")
    print(f"- Shipped model, which is timed, sha256: `{speed['model']}`.")
    print(f"- Models of the folds ({folds['seconds']:.0f} CPU s), sha256: {models}.")
    say(f"- Code of `auto`, sha256: {codes}.")
    commands = (
        "python -m venv PEERS",
        *requirements(),
        "python benchmarks/bench_extract.py all WORK --peers-python PEERS/bin/python > benchmarks/results/extract.md",
    )
    print("\n".join(("```", *commands, "```")))


def requirements() -> list[str]:
    return [f"PEERS/bin/pip install {' '.join(PEERS)}", f"PEERS/bin/pip install --no-deps {' '.join(PEERS_ALONE)}"]


def processor() -> str:
    """Return the name that the system gives its processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
