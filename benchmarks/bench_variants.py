"""How the variants of Gopher's rules differ on pages whose main text people verified.

    python benchmarks/bench_variants.py $CURATE_DATA

Each variant decides with its publisher's numbers on the gold texts of WCXB with 50 words or more, by page type, and on other gold
sets. Agreement is the share of the texts removed by one of two variants that both remove.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from curate.filter.bounds import Filter
from curate.filter.gopher.quality import GopherQuality
from curate.filter.gopher.repetition import GopherRepetition
from curate.filter.gopher.variants_agreement import Agreement, agreement

RESULTS = Path(__file__).resolve().parent / "results" / "variants.md"
SETS = ("wcxb", "scrapinghub", "template_docs", "template_docs_ptbr", "readability")
LEAST_WORDS = 50
FIVE = ("datatrove", "dclm", "dolma_v2", "redpajama", "curator")  # one formula each


class Page(NamedTuple):
    """A gold text."""

    kind: str  # page type of WCXB, or the name of the set
    text: str


def pages(data: Path) -> list[Page]:
    """Return the gold texts of `SETS` with `LEAST_WORDS` words or more."""
    found = []
    for name in SETS:
        with (data / "02_gold" / name / "gold.jsonl").open(encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                if len(row["text"].split()) >= LEAST_WORDS:
                    found.append(Page(row.get("page_type") or name if name == "wcxb" else name, row["text"]))
    return found


def ngrams_alone(variant: str) -> GopherRepetition:
    """Return a variant without its rules on lines and paragraphs, and with those on the most frequent n-grams."""
    step = GopherRepetition(variant=variant)
    off = {f"max_{name}": "off" for name in step.adds if name.startswith("duplicate")}
    return GopherRepetition(variant=variant, **off)


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.1f}"


def by_kind(found: Agreement, kinds: Sequence[str]) -> list[str]:
    """Return the rows of a table: what each block removes, by kind of page."""
    names = list(dict.fromkeys(kinds))
    of_kind = np.array(kinds)
    lines = ["| page type | texts | " + " | ".join(found.names) + " |", "| --- | ---: |" + " ---: |" * len(found.names)]
    for name in names:
        chosen = of_kind == name
        shares = found.of(chosen).shares().values()
        lines.append(f"| {name} | {chosen.sum()} | " + " | ".join(map(percent, shares)) + " |")
    return lines


def matrix(found: Agreement) -> list[str]:
    """Return the rows of a table: the agreement of each two blocks."""
    lines = ["| | " + " | ".join(found.names) + " |", "| --- |" + " ---: |" * len(found.names)]
    for name, row in zip(found.names, found.matrix(), strict=True):
        lines.append(f"| {name} | " + " | ".join(f"{share:.2f}" for share in row) + " |")
    return lines


def section(title: str, said: str, blocks: Mapping[str, Filter], texts: Sequence[Page]) -> list[str]:
    """Return a section of the report."""
    found = agreement([page.text for page in texts], blocks)
    wcxb = np.array([page.kind not in SETS for page in texts])
    gold = found.of(wcxb)
    every, one = gold.overall()
    lines = [f"## {title}", "", said, ""]
    lines += by_kind(found, [page.kind for page in texts])
    shares = " | ".join(map(percent, gold.shares().values()))
    lines += [f"| **all of WCXB** | {wcxb.sum()} | {shares} |", ""]
    lines += [
        f"On WCXB all of them remove {every} texts, at least one removes {one}: agreement {every / max(one, 1):.2f}.",
        "",
    ]
    if set(FIVE) <= set(found.names):
        chosen = Agreement(FIVE, gold.removed[[found.names.index(name) for name in FIVE]])
        every, one = chosen.overall()
        lines += [f"Of the five formulas ({', '.join(FIVE)}): {every} of {one}, {every / max(one, 1):.2f}.", ""]
    return [*lines, "Agreement of each two, on WCXB:", "", *matrix(gold), ""]


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the real inputs")
    texts = pages(parser.parse_args().data)
    digest = hashlib.sha256("\0".join(page.text for page in texts).encode()).hexdigest()[:16]
    names = tuple(GopherRepetition.variants)
    lines = [
        "# Variants of Gopher's rules on verified main texts",
        "",
        f"`benchmarks/bench_variants.py`, {datetime.date.today()}, Python {platform.python_version()}; {len(texts)} texts, "
        f"sha256 {digest}. Percent of the texts removed: each is a page's main text as people or the page's own template "
        "have it, so what is removed is lost.",
        "",
    ]
    lines += section(
        "Repetition, as published",
        "`dolma` is the tagger `gopher_v1`, to which blank lines are repeated lines; `dolma_v2` passes them over. RedPajama has "
        "no rules on lines and paragraphs.",
        {name: GopherRepetition(variant=name) for name in names},
        texts,
    )
    lines += section(
        "Repetition, n-grams alone",
        "Without the rules on lines and paragraphs: five formulas for the same nine numbers.",
        {name: ngrams_alone(name) for name in ("curate", *FIVE)},
        texts,
    )
    lines += section(
        "Quality, as published",
        "DCLM and Dolma count occurrences of stop words, and split at spaces, so that punctuation is no word without a letter.",
        {name: GopherQuality(variant=name) for name in GopherQuality.variants},
        texts,
    )
    RESULTS.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
