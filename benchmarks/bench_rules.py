"""What rule sets remove: of main texts that people verified, of site furniture, of planted junk.

    python benchmarks/bench_rules.py $CURATE_DATA

Each rule set is a recipe's list of steps; all see the same texts. Where a step has learned from pages (`junk`), its score of
a page comes from a model that has not seen the page's site. Documents: `rule_documents.py`, and the planted faults of the demo
corpus as the recipe's own extraction gives them.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from fit_junk import out_of_fold_scores, stop_words
from rule_documents import FURNITURE, GOOD, PLANTED, RuleDocument, load_documents

from curate.loading import load
from curate.phases.decide import Judged, verdicts
from curate.pipeline import add_words, replace_text
from curate.recipe import StepBlock

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "rules.md"
RULE_SETS = {"FineWeb": "fineweb.yaml", "recommended": "recommended.yaml"}
# Steps that judge something else than the text: the texts here have a language, and no address.
_LEFT_OUT = ("language", "url", "pii")
KINDS = ("article", "forum", "service", "documentation", "product", "collection", "listing")
OTHER_GOOD = (
    "scrapinghub",
    "daniel",
    "zh_handcrafted",
    "readability",
    "template_docs",
    "template_docs_ptbr",
    "labelled",
)
OTHER_GOOD += ("labelled_news", "books")


def blocks_of(recipe: str) -> tuple[StepBlock, ...]:
    """Return the steps of a recipe's web source that judge text."""
    steps = load(ROOT / "recipes" / recipe).source("web").steps
    return tuple(step for step in steps if step.kind not in _LEFT_OUT)


def fired(blocks: Sequence[StepBlock], documents: Sequence[RuleDocument], scores: np.ndarray) -> dict[str, np.ndarray]:
    """Return rule -> documents that it removes; the text that a block sees is that which the blocks before it leave."""
    batch = pa.record_batch({"text": pa.array([one.text for one in documents], pa.large_string())})
    tables: dict[str, pa.Table] = {}
    for block in blocks:
        if block.step is None:
            continue
        result = block.step.apply(add_words(batch, block.step.reads))
        if block.step.rewrites:
            batch = replace_text(batch, result["text"])
            result = result.drop_columns(["text"])
        if block.kind == "junk":
            place = result.schema.get_field_index("main_text_score")
            judged = result["main_text_score"].is_null().to_numpy(zero_copy_only=False)
            result = result.set_column(place, "main_text_score", pa.array(scores, mask=judged))
        nothing = pa.nulls(len(documents), pa.string())
        tables[block.name] = pa.Table.from_batches([result]).append_column("failure", nothing)
        tables[block.name] = tables[block.name].append_column("failure_message", nothing)
    judged = [Judged(block.name, block.name if block.step else None, block.rules()) for block in blocks]
    return {one.rule: np.asarray(one.mask, bool) for one in verdicts(judged, tables, len(documents))}


def share(mask: np.ndarray, chosen: np.ndarray) -> str:
    """Return how much of the chosen documents a mask removes: percent and count."""
    number = int(chosen.sum())
    gone = int((mask & chosen).sum())
    return f"{100 * gone / number:.1f}% ({gone}/{number})" if number else ""


def table(rows: Sequence[tuple[str, np.ndarray]], removed: Mapping[str, np.ndarray], heading: str) -> list[str]:
    lines = [f"| {heading} | " + " | ".join(removed) + " |", "| --- |" + " ---: |" * len(removed)]
    for name, chosen in rows:
        lines.append(f"| {name} | " + " | ".join(share(mask, chosen) for mask in removed.values()) + " |")
    return lines


def books(data: Path) -> list[RuleDocument]:
    """Return the books, cut to their first 200,000 characters."""
    import gzip
    import json

    found = []
    for path in sorted((data / "04_books").glob("*.jsonl*")):
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        found += [
            RuleDocument(f"books/{number}", GOOD, "books", row.get("lang", "?"), -1, "", row["text"][:200_000])
            for number, row in enumerate(rows)
        ]
    return found


def report(data: Path) -> str:
    documents = [one for one in (*load_documents(data), *books(data)) if one.text.strip()]
    scores = out_of_fold_scores(documents, stop_words(data))
    kind = np.array([one.kind for one in documents])
    group = np.array([one.group for one in documents])
    english = np.array([one.language == "en" for one in documents])
    by_rule = {name: fired(blocks_of(recipe), documents, scores) for name, recipe in RULE_SETS.items()}
    removed = {name: np.logical_or.reduce(list(rules.values())) for name, rules in by_rule.items()}
    digest = hashlib.sha256("\0".join(one.text for one in documents).encode("utf-8", "surrogatepass")).hexdigest()
    good, furniture, planted = kind == GOOD, kind == FURNITURE, kind == PLANTED
    lines = [
        "# What rule sets remove",
        "",
        f"{datetime.date.today()}, Python {platform.python_version()}; `python benchmarks/bench_rules.py $CURATE_DATA`; "
        f"{len(documents):,} texts, sha256 `{digest[:16]}`. Rule sets: `recipes/fineweb.yaml` (the published numbers, "
        "datatrove's decisions), `recipes/recommended.yaml`; the same texts for both, steps on language, address and personal "
        "data left out.",
        "",
        "## Good documents destroyed",
        "",
        "Main text of pages of WCXB by page kind, as people marked it:",
        "",
        *table([(name, good & (group == name)) for name in KINDS], removed, "page kind"),
        "",
        "Other sets. FineWeb's rules are for English; on other languages they are shown because people run them there.",
        "",
        *table([(name, good & (group == name)) for name in OTHER_GOOD], removed, "set"),
        "",
        "## Junk removed",
        "",
        "Site furniture is what real pages hold besides their main text; planted junk is of our own writing.",
        "",
        *table(
            [
                ("site furniture, English", furniture & english),
                ("site furniture, all languages", furniture),
                *((f"planted: {name.replace('_', ' ')}", group == name) for name in sorted(set(group[planted]))),
            ],
            removed,
            "junk",
        ),
        "",
        "The recommended set leaves the rule on lists of goods off (the planted ones go for their repeated buttons): with "
        f"`junk: {{min_prose_words_per_price: 1}}` it would remove {_product_lists(documents, scores, kind, group)}.",
        "",
        "## Rule by rule",
        "",
        "Alone: documents that no other rule of the set removes.",
    ]
    for name, rules in by_rule.items():
        lines += [
            "",
            f"### {name}",
            "",
            "| rule | good | alone | site furniture | planted |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        times = np.sum(list(rules.values()), axis=0)
        for rule, mask in rules.items():
            if mask.any():
                alone = int((mask & (times == 1) & good).sum())
                counts = [int((mask & chosen).sum()) for chosen in (good, furniture, planted)]
                lines.append(f"| {rule} | {counts[0]} | {alone} | {counts[1]} | {counts[2]} |")
    return "\n".join(lines) + "\n"


def _product_lists(documents: Sequence[RuleDocument], scores: np.ndarray, kind: np.ndarray, group: np.ndarray) -> str:
    """Say what the rule that is off would do."""
    from curate.filter.junk.step import Junk

    block = StepBlock("junk", "junk", Junk(min_prose_words_per_price=1.0))
    mask = fired([block], documents, scores)["junk.product_list"]
    parts = (
        f"{share(mask, group == 'product_list')} of the planted ones",
        f"{share(mask, (kind == GOOD) & (group == 'collection'))} of collection pages",
        f"{share(mask, (kind == GOOD) & (group == 'listing'))} of listing pages",
    )
    return ", ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of real inputs")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the tables go")
    options = parser.parse_args()
    text = report(options.data)
    options.output.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
