"""What the report shows of decontamination: what was found of each benchmark, and what was not looked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from curate.decontaminate.decide import Common
from curate.decontaminate.index import Index, phrases_at

_SHOWN = 20
_WORST = 4  # items of each benchmark
_OF_ROW = ("overlap", "words", "id", "field", "start", "end", "span", "spans", "item_text", "item_spans")


def summarise(
    built: Mapping[str, Any], contamination: Iterable[pa.RecordBatch], index: Index, common: Common
) -> dict[str, Any]:
    """Return what the report shows of decontamination.

    Args:
        built: What `build_index` returned.
        contamination: All rows, those of one document together.
        index: The index.
        common: The common n-grams.

    Returns:
        JSON-able: `benchmarks` (what `built` says of each, with `items_found`, `share` of all items, `documents`, and
        `matches`: item to number of documents), `worst` (of each benchmark the items in most documents, with the
        item's text and where the document with the highest score holds it),
        `common_ngrams`, `common_phrases` (ignored as common text: text, documents, items) and `common_items` (items
        that are common text throughout, so that nothing can be said about them).
    """
    matches: dict[tuple[str, str], dict[str, Any]] = {}
    documents: dict[str, int] = {}
    latest: dict[str, str] = {}
    for batch in contamination:
        for row in batch.to_pylist():
            name = row["benchmark"]
            if latest.get(name) != row["id"]:
                latest[name] = row["id"]
                documents[name] = documents.get(name, 0) + 1
            item = matches.setdefault((name, row["item"]), {"documents": 0, "overlap": 0.0, "words": 0})
            item["documents"] += 1
            if (row["overlap"], row["words"]) > (item["overlap"], item["words"]):
                item |= {key: row[key] for key in _OF_ROW}
    benchmarks: dict[str, Any] = {}
    for name, about in built["benchmarks"].items():
        found = {item: match["documents"] for (benchmark, item), match in matches.items() if benchmark == name}
        benchmarks[name] = {
            **about,
            "items_found": len(found),
            "share": len(found) / about["items"],
            "documents": documents.get(name, 0),
            "matches": found,
        }
    return {
        "benchmarks": benchmarks,
        "worst": _worst(matches, built["benchmarks"]),
        "common_ngrams": int(common.is_common.sum()),
        "common_phrases": _common_phrases(index, common),
        "common_items": _common_items(index, common),
    }


def _worst(matches: Mapping[tuple[str, str], Mapping[str, Any]], names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the items in most documents, those with the highest score first, by benchmark."""
    ranked = sorted(
        matches.items(), key=lambda pair: (-pair[1]["documents"], -pair[1]["overlap"], -pair[1]["words"], pair[0])
    )
    of: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for (name, item), about in ranked:
        of[name].append({"benchmark": name, "item": item, **about})
    return [entry for entries in of.values() for entry in entries[:_WORST]]


def _common_phrases(index: Index, common: Common) -> list[dict[str, Any]]:
    """Return the stretches of benchmark text that were ignored as common, those in most documents first."""
    phrases: dict[str, dict[str, Any]] = {}
    owned = np.repeat(common.is_common, np.diff(index.bounds))
    for number in np.unique(index.owners[owned]).tolist():
        grams = index.grams_of(number)
        is_common = common.is_common[grams]
        about = index.texts.slice(number, 1).to_pylist()[0]
        starts = np.array(about["starts"], np.int64)[is_common]
        for phrase in phrases_at(about["text"], starts, about["n"]):
            entry = phrases.setdefault(phrase, {"text": phrase, "documents": 0, "items": []})
            entry["documents"] = max(entry["documents"], int(common.documents[grams].max()))
            entry["items"].append(f"{about['benchmark']}/{about['item']}")
    ranked = sorted(phrases.values(), key=lambda entry: (-entry["documents"], entry["text"]))
    return [{**entry, "items": entry["items"][:_SHOWN]} for entry in ranked[:_SHOWN]]


def _common_items(index: Index, common: Common) -> list[str]:
    """Return the tested items of which every text is common throughout, or all but a few words of it."""
    evidence = np.diff(common.marks.evidence[index.words_at])
    is_left = (common.content > 0) & (evidence >= index.needs)
    tested: dict[str, bool] = {}
    columns = (index.texts[name].to_pylist() for name in ("benchmark", "item", "status"))
    for (benchmark, item, status), left in zip(zip(*columns, strict=True), is_left.tolist(), strict=True):
        if status == "tested":
            name = f"{benchmark}/{item}"
            tested[name] = tested.get(name, False) or left
    return [name for name, left in tested.items() if not left]
