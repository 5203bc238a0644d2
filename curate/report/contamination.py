"""Benchmark items found in documents, as the report shows them: counts of each benchmark, and both texts side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from curate.report.display import number, one_line
from curate.report.run import RunFolder
from curate.report.samples import find_texts

CONTEXT_BYTES = 240  # shown on either side of a matched span
MAX_SPAN_BYTES = 600
MAX_SPANS = 12
MAX_PHRASES = 6  # of ignored phrases and untested items; manifest.json has more
MAX_REASONS = 4


def contamination(run: RunFolder) -> dict[str, Any] | None:
    """Return what was found of each benchmark and the worst items; None if nothing was looked for.

    What was looked for (items, untested ones, phrases that were ignored) and which items are the worst is what the
    manifest says.
    """
    frame = run.table("contamination.parquet")
    asked = run.manifest.get("decontamination") or {}
    if frame is None or (frame.is_empty() and not asked):  # without `decontaminate` the file is there, empty
        return None
    found: dict[str, dict[str, Any]] = {}
    for (name,), rows in sorted(frame.group_by("benchmark"), key=lambda item: str(item[0])):
        found[str(name)] = {
            "found": rows["item"].n_unique(),
            "whole": rows.filter(rows["overlap"] >= 1)["item"].n_unique(),
            "documents": rows["id"].n_unique(),
            "highest_overlap": rows["overlap"].max(),
        }
    names = dict.fromkeys([*(asked.get("benchmarks") or {}), *found])
    worst = list(asked.get("worst") or ())
    texts = find_texts(run, "extracted", ((source, row["id"]) for source in run.sources for row in worst))
    return {
        "documents": frame["id"].n_unique(),
        "benchmarks": {
            name: _benchmark((asked.get("benchmarks") or {}).get(name) or {}, found.get(name)) for name in names
        },
        "common_ngrams": asked.get("common_ngrams"),
        "common_phrases": list(asked.get("common_phrases") or ())[:MAX_PHRASES],
        "num_common_items": len(asked.get("common_items") or ()),
        "common_items": list(asked.get("common_items") or ())[:MAX_PHRASES],
        "worst": [_leak(row, texts.get(row["id"])) for row in worst],
    }


def _benchmark(asked: Mapping[str, Any], found: Mapping[str, Any] | None) -> dict[str, Any]:
    untested = list(asked.get("untested") or ())
    reasons = Counter(str(item["reason"]) for item in untested)
    counts = found or {"found": 0, "whole": 0, "documents": 0, "highest_overlap": None}
    items = asked.get("items")
    return {
        "items": items,
        "tested": asked.get("items_tested"),
        **counts,
        "share": counts["found"] / items if items else None,
        "num_untested": len(untested),
        "reasons": [{"reason": reason, "items": count} for reason, count in reasons.most_common(MAX_REASONS)],
        "untested": untested[:MAX_PHRASES],
        "template_phrases": list(asked.get("template_phrases") or ())[:MAX_PHRASES],
        **_reading(asked),
    }


def _reading(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a benchmark's files were read: by which mapping, what each field was taken for, what is left out and why."""
    reasons: dict[str, list[str]] = {}
    for field, reason in (asked.get("left_out") or {}).items():
        reasons.setdefault(str(reason), []).append(str(field))
    return {
        "mapping": asked.get("mapping"),
        "mapping_by": asked.get("mapping_by"),
        "fields": asked.get("fields") or {},
        "left_out": reasons,
        "unfit": asked.get("unfit") or {},
        "repeated_items": asked.get("repeated_items") or 0,
        "passed_over": asked.get("passed_over") or {},
    }


def _leak(row: Mapping[str, Any], extracted: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("id", "benchmark", "item", "field", "overlap", "words", "documents")},
        "source": extracted["source"] if extracted else None,
        "url": extracted["url"] if extracted else None,
        "path": extracted["path"] if extracted else None,
        "there": {"runs": marked(row["item_text"], [(span["start"], span["end"]) for span in row["item_spans"]])},
        "here": {"runs": list(_document(row, extracted["text"] if extracted else None))},
    }


def _document(row: Mapping[str, Any], text: str | None) -> list[list[Any]]:
    """Return the document's text around what was matched; only what was matched where the text is another one.

    Spans count UTF-8 bytes of the last text revision; `text` is the first. Where a rewrite has moved what was matched,
    the longest span is searched and shown alone.
    """
    wanted = row["span"].encode("utf-8", "surrogatepass")
    data = (text or "").encode("utf-8", "surrogatepass")
    spans = [(span["start"], span["end"]) for span in row["spans"]]
    if data[row["start"] : row["end"]] == wanted:
        return marked(data, spans)
    start = data.find(wanted)
    if start < 0:
        return marked(wanted, [(0, len(wanted))])
    return marked(data, [(start, start + len(wanted))])


def leak_lines(row: Mapping[str, Any], indent: str, lead: str = "") -> Iterator[str]:
    """Yield lines for a terminal on one row of contamination.parquet: item, score, spans, both texts.

    Args:
        row: The row.
        indent: Before each line.
        lead: What the first line begins with.
    """
    spans = row["spans"]
    where = ", ".join(f"{number(span['start'])} to {number(span['end'])}" for span in spans[:MAX_SPANS])
    more = f" and {number(len(spans) - MAX_SPANS)} more" if len(spans) > MAX_SPANS else ""
    yield (
        f"{indent}{lead}{one_line(row['benchmark'])}, item {one_line(row['item'])}: overlap {number(row['overlap'])}, "
        f"{number(row['words'])} words of {one_line(row['field'])}, bytes {where}{more}"
    )
    yield f"{indent}  item │ {one_line(row['item_text'])}"
    yield f"{indent}  here │ {one_line(row['span'])}"


def marked(text: str | bytes, spans: Sequence[tuple[int, int]]) -> list[list[Any]]:
    """Return pieces of a text, each with whether it was matched: the spans and what stands around them.

    Args:
        text: The text, or its UTF-8.
        spans: Start and end in UTF-8 bytes, ascending, apart from one another.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return [[is_match, piece.decode("utf-8", "ignore")] for is_match, piece in _pieces(data, spans) if piece]


def _pieces(data: bytes, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[bool, bytes]]:
    gap = " […] ".encode()
    shown = spans[:MAX_SPANS]
    at = 0
    for place, (start, end) in enumerate(shown):
        if start - at > (2 if place else 1) * CONTEXT_BYTES:  # before the first span nothing needs an end
            yield False, (data[at : at + CONTEXT_BYTES] if place else b"") + gap + data[start - CONTEXT_BYTES : start]
        else:
            yield False, data[at:start]
        if end - start > MAX_SPAN_BYTES:
            yield True, data[start : start + MAX_SPAN_BYTES // 2]
            yield False, gap
            yield True, data[end - MAX_SPAN_BYTES // 2 : end]
        else:
            yield True, data[start:end]
        at = end
    yield False, data[at : at + CONTEXT_BYTES] + (gap if at + CONTEXT_BYTES < len(data) else b"")
