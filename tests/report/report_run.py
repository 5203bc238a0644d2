"""A small, complete, hostile run folder, written with the schemas and writers of the product."""

import hashlib
import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curate.document import CONTAMINATION, CURATED, DECISION, DUPLICATES, EDITS, EXTRACTED, QUARANTINE
from curate.pipeline import SIZES
from curate.text.hashing import document_id
from curate.tokens.order import num_windows
from curate.tokens.shard import ShardWriter, write_manifest

SEED = 17
WINDOW = 16
HOSTILE_RULE = "<img src=x onerror=alert(1)>.rule"
HOSTILE_TEXT = (
    '</script><script>alert("text")</script> <img src=x onerror=alert(2)> &lt;b&gt; \u202egnp.exe\u202c '
    "left\u2066iso\u2069 line\u2028sep\u2029 esc\x1b[2J\x1b]0;title\x07 zero\u200bwidth {{ 7*7 }} {% raw %} ]]> <!-- "
)
HOSTILE_URL = 'javascript:alert(document.domain)//"><svg onload=alert(3)>'
WORDS = (
    "the",
    "data",
    "of",
    "a",
    "model",
    "is",
    "read",
    "before",
    "any",
    "filter",
    "measure",
    "what",
    "every",
    "rule",
    "fires",
)
RULES = {  # rule: stage, value or label, bound, text
    "read.bad_record": ("read", "gzip stream ends early", None),
    "gate.status": ("gate", 404.0, "in 200"),
    "extract.empty": ("extract", 0.0, ">= 1"),
    "language.keep": ("filter", "fr", "in en, pt"),
    "gopher_quality.num_words": ("filter", 23.0, "50 to 100000"),
    "gopher_quality.mean_word_length": ("filter", 11.25, "3 to 10"),
    "gopher_repetition.duplicate_lines": ("filter", 0.4375, "<= 0.3"),
    HOSTILE_RULE: ("filter", "<b>bold</b>", "</td><script>alert(4)</script>"),
    "where.expression": ("filter", None, "num_words >= 50"),
    "decontaminate.overlap": ("decontaminate", 0.875, "<= 0.5"),
    "dedup.exact": ("dedup", None, None),
    "dedup.minhash": ("dedup", 0.8125, "< 0.7"),
    "validation.near_copy": ("validation", 0.75, "< 0.7"),
}
REMOVED = {  # by source: how many documents of which rule
    "web": dict(zip(RULES, (2, 3, 4, 5, 6, 2, 3, 1, 2, 3, 4, 5, 1), strict=True)),
    "code": {"gopher_quality.num_words": 3, "dedup.exact": 2},
    "books": {"dedup.minhash": 1},
}
KEPT = {"web": 34, "code": 12, "books": 6}
BLOCKS = {"web": ("language", "gopher_quality", "gopher_repetition"), "code": ("gopher_quality",), "books": ()}
RECIPE = """\
name: web_code_books
seed: 17
max_errors: 100
sources:
  web:
    read: {kind: warc, paths: ["web/*.warc.gz"]}
    extract: {kind: trafilatura}
    repair: {kind: ftfy}
    steps:
      - language: {keep: [en, pt], min_score: 0.65}
      - gopher_quality: {}
      - gopher_repetition: {}
      - where: "num_words >= 50"
  code:
    read: {kind: files, paths: ["code/**/*"]}
    steps: [{gopher_quality: {}}]
  books:
    read: {kind: jsonl, paths: ["books/*.jsonl.zst"]}
dedup: {}
tokenizer: {train: {kind: sentencepiece, vocab_size: 4096}}
mixture: {weights: {web: 0.6, code: 0.25, books: 0.15}, tokens: 1M, max_epochs: 4}
train: {preset: demo-1m, seeds: [0, 1, 2]}
"""


@dataclass
class Doc:
    """One document of the run and what became of it."""

    id: str
    source: str
    path: str
    offset: int
    url: str | None
    text: str
    rule: str | None = None
    kept_id: str | None = None
    similarity: float | None = None
    also_fired: list[str] = field(default_factory=list)
    split: str = "train"

    @property
    def extracted(self) -> bool:
        return self.rule is None or RULES[self.rule][0] not in ("read", "gate", "extract")

    def place(self) -> dict[str, Any]:
        return {"id": self.id, "source": self.source, "path": self.path, "offset": self.offset, "url": self.url}


def prose(generator: random.Random, words: int) -> str:
    return " ".join(generator.choice(WORDS) for _ in range(words)).capitalize() + "."


def documents() -> list[Doc]:
    """Return the run's documents: hostile ones first, near copies with a kept copy, some in validation."""
    generator, docs = random.Random(7), []
    for source, kept in KEPT.items():
        rules: list[str | None] = [None] * kept + [
            rule for rule, count in REMOVED[source].items() for _ in range(count)
        ]
        for place, rule in enumerate(rules):
            path = f"{source}/part-{place % 2}.warc.gz"
            url = f"https://example.org/{source}/{place}" if source == "web" else None
            doc = Doc(
                document_id(source, None, path, place * 1000, 0),
                source,
                path,
                place * 1000,
                url,
                prose(generator, 30 + place * 3),
                rule,
            )
            if rule in ("gopher_quality.num_words", HOSTILE_RULE):
                doc.text, doc.url = HOSTILE_TEXT + doc.text, HOSTILE_URL + str(place)
                doc.also_fired = ["where.expression", "gopher_quality.mean_word_length"]
            if rule is None and place % 8 == 7:
                doc.split = "validation"
            docs.append(doc)
        firsts = [doc for doc in docs if doc.source == source and doc.rule is None][:2]
        for doc in (doc for doc in docs if doc.source == source and doc.rule in ("dedup.exact", "dedup.minhash")):
            first = firsts[doc.rule == "dedup.minhash"]
            doc.kept_id, doc.similarity = first.id, 1.0 if doc.rule == "dedup.exact" else 0.8125
            doc.text = first.text if doc.rule == "dedup.exact" else first.text.replace("model", "<em>pattern</em>")
    return docs


def write(path: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema), path
    )


def num_bytes(doc: Doc) -> int:
    return len(doc.text.encode()) if doc.extracted else 0


def decision(doc: Doc) -> dict[str, Any]:
    row: dict[str, Any] = {**doc.place(), "kept": doc.rule is None, "also_fired": doc.also_fired}
    if doc.rule is not None:
        stage, value, bound = RULES[doc.rule]
        label = value if isinstance(value, str) else None
        row |= {
            "stage": stage,
            "rule": doc.rule,
            "value": None if label else value,
            "value_label": label,
            "threshold": bound,
        }
        row |= {"kept_id": doc.kept_id, "similarity": doc.similarity}
    return row


def ledger(docs: list[Doc], cut: int) -> dict[str, Any]:
    removed: dict[str, dict[str, int]] = {}
    removed_bytes: dict[str, dict[str, int]] = {}
    for doc in docs:
        if doc.rule is not None:
            stage = RULES[doc.rule][0]
            for tally, amount in ((removed, 1), (removed_bytes, num_bytes(doc))):
                rules = tally.setdefault(stage, {})
                rules[doc.rule] = rules.get(doc.rule, 0) + amount
    kept = [doc for doc in docs if doc.rule is None]
    total = sum(num_bytes(doc) for doc in docs)
    return {
        "read": len(docs),
        "kept": len(kept),
        "removed": removed,
        "skipped": {"request": 4, "warcinfo": 1} if docs[0].source == "web" else {},
        "bytes": {
            "read": total,
            "kept": sum(map(num_bytes, kept)) - cut,
            "cut": cut,
            "payload": 9 * total,
            "removed": removed_bytes,
        },
    }


def measurement(block: str, place: int, schema_only: bool = False) -> dict[str, Any]:
    if block == "language":
        return {"language": ("en", "pt", "fr")[place % 3], "language_score": 0.5 + place % 5 / 10}
    if block == "gopher_quality":
        return {"num_words": 20 + place * 3, "mean_word_length": 4.0 + place % 7 / 4}
    return {"duplicate_line_share": place % 9 / 10}


def build_run(run: Path) -> list[Doc]:
    """Write the run folder and return its documents."""
    docs = documents()
    run.mkdir(parents=True)
    (run / "recipe.yaml").write_text(RECIPE)
    ledgers: dict[str, Any] = {}
    for source in KEPT:
        own = [doc for doc in docs if doc.source == source]
        cut = 120 if source == "web" else 0
        ledgers[source] = ledger(own, cut)
        for shard in (0, 1):  # the halves of a source, so that one document is looked for in several files
            name, part = f"{shard:05d}.parquet", own[shard::2]
            texts = [doc for doc in part if doc.extracted]
            rows = [
                {
                    **doc.place(),
                    "text": doc.text,
                    "source_id": f"n{doc.offset}",
                    "metadata": '{"title": "</script><b>"}',
                }
                for doc in texts
            ]
            write(run / "extracted" / source / name, rows, EXTRACTED)
            write(run / "sizes" / source / name, [{"id": doc.id, "bytes": num_bytes(doc)} for doc in texts], SIZES)
            write(run / "decisions" / source / name, [decision(doc) for doc in part], DECISION)
            kept = [doc for doc in part if doc.rule is None]
            rows = [
                {**doc.place(), "text": doc.text, "language": "en", "split": doc.split, "cluster_size": 1}
                for doc in kept
            ]
            write(run / "documents" / source / name, rows, CURATED)
            for block in BLOCKS[source]:
                columns = [
                    {"id": doc.id, **measurement(block, place), "failure": None} for place, doc in enumerate(texts)
                ]
                path = run / "measurements" / source / block / name
                path.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(pa.Table.from_pylist(columns), path)
        write_tokens(run / "tokens" / source, [doc for doc in own if doc.rule is None])
    copies = [doc for doc in docs if doc.kept_id is not None]
    rows = []
    for kept_id in dict.fromkeys(doc.kept_id for doc in copies):
        members = [doc for doc in copies if doc.kept_id == kept_id]
        common = {"cluster": kept_id, "cluster_size": len(members) + 1, "verified": True}
        rows.append({"id": kept_id, "kept_id": None, "similarity": None, **common})
        rows += [{"id": doc.id, "kept_id": kept_id, "similarity": doc.similarity, **common} for doc in members]
    write(run / "duplicates.parquet", rows, DUPLICATES)
    write(
        run / "contamination.parquet", [leak(doc) for doc in docs if doc.rule == "decontaminate.overlap"], CONTAMINATION
    )
    edited = [doc for doc in docs if doc.rule is None][:3]
    rows = [
        {"id": doc.id, "start": 5, "end": 45, "phase": "decontaminate", "rule": "decontaminate.overlap"}
        for doc in edited
    ]
    write(run / "edits" / "web" / "00000.parquet", rows, EDITS)
    write(run / "quarantine.parquet", [], QUARANTINE)
    write_mixture(run)
    write_training(run)
    (run / "tokenizer").mkdir()
    (run / "tokenizer" / "card.json").write_text(json.dumps({"kind": "sentencepiece", "vocab_size": 4096}))
    facts = manifest(ledgers)
    facts["decontamination"]["worst"] = [
        {"documents": 1, **leak(doc)} for doc in docs if doc.rule == "decontaminate.overlap"
    ]
    (run / "manifest.json").write_text(json.dumps(facts))
    (run / "timings.json").write_text(json.dumps(timings()))
    return docs


def leak(doc: Doc) -> dict[str, Any]:
    start, end = 10, 60
    span = doc.text.encode()[start:end].decode()
    return {
        "id": doc.id,
        "benchmark": "<i>mbpp</i>",
        "item": f"task-{doc.offset}",
        "overlap": 0.875,
        "start": start,
        "end": end,
        "span": span,
        "field": "prompt",
        "words": 9,
        "spans": [{"start": start, "end": end}],
        "item_text": f"Write <b>this</b>: {span}",
        "item_spans": [{"start": 19, "end": 19 + len(span.encode())}],
    }


def write_tokens(folder: Path, kept: list[Doc]) -> None:
    shards = []
    for split in ("train", "validation"):
        with ShardWriter(folder, split, dtype="uint16", eos_id=2, vocab_size=4096, shard_tokens=400) as writer:
            for doc in sorted((doc for doc in kept if doc.split == split), key=lambda doc: doc.id):
                writer.add(doc.id, num_bytes(doc), np.full(len(doc.text.split()), 7, np.int64))
            shards += writer.close()
    digest = hashlib.sha256(b"tokenizer").hexdigest()
    write_manifest(folder, dtype="uint16", vocab_size=4096, eos_id=2, tokenizer_sha256=digest, shards=shards)


def write_mixture(run: Path) -> None:
    sources: dict[str, Any] = {}
    asked = {"web": 0.6, "code": 0.25, "books": 0.15}
    for name, weight in asked.items():
        shards = json.loads((run / "tokens" / name / "manifest.json").read_text())["shards"]
        tokens = sum(shard["tokens"] for shard in shards if shard["split"] == "train")
        available = num_windows(tokens, WINDOW)
        drawn = min(round(200 * weight), 4 * available)
        sources[name] = {
            "weight_asked": weight,
            "weight_normalised": weight,
            "tokens_available": tokens,
            "windows_available": available,
            "tokens_drawn": drawn * WINDOW,
            "windows_drawn": drawn,
            "epochs": drawn / available,
            "cap_hit": drawn == 4 * available,
        }
    slots = sum(entry["windows_drawn"] for entry in sources.values())
    for entry in sources.values():
        entry["weight_realised"] = entry["windows_drawn"] / slots
    mixture = {
        "unit": "tokens",
        "window": WINDOW,
        "seed": SEED,
        "block": 1024,
        "tokens": 200 * WINDOW,
        "num_slots": slots,
    }
    mixture |= {"shortfall_tokens": (200 - slots) * WINDOW, "warnings": [], "sources": sources}
    (run / "mixture.json").write_text(json.dumps(mixture))


def write_training(run: Path) -> None:
    for seed in (0, 1, 2):
        folder, generator = run / "train" / str(seed), random.Random(seed)
        folder.mkdir(parents=True)
        lines: list[dict[str, Any]] = []
        for step in range(1, 401):
            loss = 3.4 + 4.9 * math.exp(-step / 60) + generator.gauss(0, 0.08) + seed * 0.02
            lines.append({"step": step, "tokens": step * 2048, "loss": loss, "lr": 1e-3})
            if step % 50 == 0:
                scores = {
                    source: 2.4 + 1.5 * math.exp(-step / 120) + place / 4 + seed / 50
                    for place, source in enumerate(KEPT)
                }
                measured = {
                    source: {"loss": value * 1.3, "perplexity": math.exp(value * 1.3), "bits_per_byte": value}
                    for source, value in scores.items()
                }
                lines.append({"step": step, "validation": measured})
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "resolved.json").write_text(json.dumps({"identity": {"batch_windows": 4, "steps": 40}}))
        (folder / "summary.json").write_text(
            json.dumps({"preset": "demo-1m", "parameters": 1262720, "seed": seed, "device": "cpu"})
        )
        (folder / "timings.jsonl").write_text(
            json.dumps({"step": 400, "seconds": 61.5, "tokens_per_second": 13320.3}) + "\n"
        )


def manifest(ledgers: dict[str, Any]) -> dict[str, Any]:
    def digest(*parts: str) -> str:
        return hashlib.sha256("/".join(parts).encode()).hexdigest()

    phases = (
        "extract",
        "measure",
        "decide",
        "cluster",
        "decontaminate",
        "choose",
        "collect",
        "encode",
        "arrange",
        "mix",
        "train",
    )
    files = {
        source: [
            {"path": f"{source}/part-{n}.warc.gz", "bytes": 10_000 + n, "sha256": digest(source, str(n))}
            for n in (0, 1)
        ]
        for source in KEPT
    }
    return {
        "curate": "0.1.0",
        "recipe": "web_code_books",
        "seed": SEED,
        "libraries": {"trafilatura": "2.0.0", "ftfy": "6.3.1", "lxml": "6.0"},
        "python": "3.11",
        "inputs": {source: {"files": rows} for source, rows in files.items()},
        "stages": {phase: {"key": digest(phase)} for phase in phases},
        "ledger": ledgers,
        "warnings": ["web/part-0.warc.gz, at 1000: read.bad_record: <u>gzip</u> stream ends early"],
        "validation": {
            source: {"documents": 4, "bytes": 2400, "asked_tokens": 5000, "near_copies_removed": 1} for source in KEPT
        },
        "decontamination": {
            "benchmarks": {
                "<i>mbpp</i>": {
                    "items": 60,
                    "items_tested": 59,
                    "untested": [{"item": "task-9", "reason": "fewer than 8 words", "text": "<s>short</s>"}],
                    "template_phrases": [{"text": "Write a <tt>function</tt>", "items": 40}],
                    "matches": {"task-60000": 1},
                    "mapping": "mbpp",
                    "mapping_by": "recognised",
                    "fields": {"<u>text</u>": {"question": 60}, "code": {"answer": 60}},
                    "left_out": {"task_id": "the item's id", "a": "a label by its name", "b": "a label by its name"},
                    "unfit": {"<q>b.jsonl</q>": "has the columns of 'mbpp', but not in line 7"},
                    "repeated_items": 1,
                    "passed_over": {"of split train": 2},
                },
                "piqa": {"items": 100, "items_tested": 100},
            },
            "common_ngrams": 2,
            "common_phrases": [{"text": "all rights reserved </ul>", "documents": 30, "items": ["piqa/3"]}],
            "common_items": ["piqa/3"],
        },
        "rewritten": {"web": {"pii.num_emails": 3, "pii.num_ip_addresses": 0}},
        "tokenizer": {"sha256": digest("tokenizer"), "bytes_per_token": {"web": 4.1, "code": 3.2, "books": 4.4}},
        "quarantined": 0,
        "reproducible": True,
    }


def timings() -> dict[str, Any]:
    seconds = {
        "extract": 41.2,
        "measure": 22.0,
        "decide": 0.9,
        "cluster": 6.4,
        "collect": 5.1,
        "encode": 3.3,
        "train": 185.0,
    }
    return {
        "seconds": 271.4,
        "workers": 2,
        "memory": "4G",
        "phases": {
            phase: {"seconds": value, "tasks_run": 6, "tasks_reused": 0, "peak_rss_bytes": 412_000_000}
            for phase, value in seconds.items()
        },
        "environment": {"machine": "x86_64", "cores": 2, "system": "Linux"},
    }
