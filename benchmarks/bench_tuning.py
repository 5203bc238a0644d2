"""A small pretrained model tuned on real questions: what is learned, measured on questions that no tuning saw.

    python benchmarks/bench_tuning.py WORK [--data 06_benchmarks] > benchmarks/results/tuning.md

WORK/run is a run folder whose train/0 is complete (`tokenizer/`, `train/0/`). A twentieth of the questions of ARC, PIQA
and OpenBookQA is set aside whole; the rest becomes pairs of question and gold answer, and preferences: the gold answer over a
wrong choice, and over its own words in reverse. What is finished is not done again.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from curate.tokens.answers import ANSWERS
from curate.tokens.tasks import TASKS
from curate.tokens.tokenizer import load_tokenizer

ROOT = Path(__file__).parents[1]
SETS = ("arc_easy", "arc_challenge", "openbook_qa", "piqa")
CONTEXT = 128  # of demo-1m
FILES = {"answers": "../../../gold.parquet", "tasks": "../../../tasks.parquet"}
RUNS = {
    "sft": ("sft", "../../train/0", {"steps": 120, "lr": 0.001, "eval_every": 60}, FILES),
    "dpo": ("dpo", "../sft", {"steps": 60, "lr": 0.0001, "beta": 0.1, "eval_every": 30}, FILES),
    "order": (
        "dpo",
        "../sft",
        {"steps": 60, "lr": 0.0002, "beta": 0.1, "eval_every": 30},
        {"answers": FILES["answers"]},
    ),
}


def number(*parts):
    return int(hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest(), 16)


def write_examples(work, data):
    """Write pairs, preferences, gold answers and tasks."""
    tokenizer = load_tokenizer(work / "run" / "tokenizer")
    rows = {"sft": [], "dpo": [], "order": []}
    gold, tasks = [], []

    def ids(text):
        return tokenizer.encode(text).tolist()

    for name in SETS:
        for item, line in enumerate(gzip.decompress((data / f"{name}.jsonl.gz").read_bytes()).splitlines()):
            row = json.loads(line)
            question, choices = row["query"].removeprefix("Question: ").strip(), row["choices"]
            right = choices[row["gold"]]
            others = [one for place, one in enumerate(choices) if place != row["gold"] and one.strip() and one != right]
            if not others:
                continue
            wrong = others[number(name, item) % len(others)]
            if number("split", question) % 20:
                rows["sft"].append({"prompt": question, "response": right})
                rows["dpo"].append({"prompt": question, "chosen": right, "rejected": wrong})
                words = right.split()
                if len(words) > 2:
                    rows["order"].append({"prompt": question, "chosen": right, "rejected": " ".join(reversed(words))})
                continue
            prompt, encoded = ids(f"User: {question}\n\nAssistant:"), [ids(f" {one}") for one in choices]
            if len(prompt) + max(map(len, encoded)) > CONTEXT:
                continue
            for group, text in (("gold", right), ("wrong", wrong)):
                gold.append({"benchmark": name, "item": str(item), "group": group, "prompt": prompt, "answer": ids(f" {text}"),
                             "bytes": len(f" {text}".encode())})  # fmt: skip
            tasks.append({"task": name, "version": 1, "groups": [], "metric": "accuracy_bytes", "item": str(item),
                          "prompts": [prompt], "choices": encoded, "bytes": [len(one.encode()) for one in choices],
                          "gold": row["gold"], "chance": 1 / len(choices)})  # fmt: skip
    for name, some in rows.items():
        (work / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in some))
    gold.sort(key=lambda one: one["group"])
    pq.write_table(pa.Table.from_pylist(gold, ANSWERS), work / "gold.parquet")
    pq.write_table(pa.Table.from_pylist(tasks, TASKS), work / "tasks.parquet")


def tune(work, name):
    """Run the trainer unless it is done; return what it measured before and after."""
    command, start, overrides, files = RUNS[name]
    folder = work / "run" / "tuned" / name
    folder.mkdir(parents=True, exist_ok=True)
    content = {"checkpoint": start, "data": [f"../../../{name}.jsonl"], "validation": 0.05, "seed": 0, **files}
    (folder / "config.json").write_text(json.dumps(content | {"overrides": overrides | {"device": "cpu"}}))
    subprocess.run([sys.executable, "-m", "train", command, str(folder / "config.json")], cwd=ROOT, check=True)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    found = {}
    for line in lines:
        for what in ("validation", "answers", "tasks"):
            if what in line:
                found.setdefault(what, []).append(line[what])
    return json.loads((folder / "summary.json").read_text()), {
        what: (all_[0], all_[-1]) for what, all_ in found.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path, default=Path("06_benchmarks"))
    options = parser.parse_args()
    write_examples(options.work, options.data)
    pretrained = json.loads((options.work / "run" / "train" / "0" / "summary.json").read_text())
    print("# Tuning a demo model\n")
    print(
        f"`{pretrained['preset']}`, {pretrained['tokens']:,} tokens of the demo corpus, then `bench_tuning.py`, on the CPU."
    )
    print(
        "Before and after, on questions that no tuning saw. Made for the code, not as evidence: one seed, a tiny model.\n"
    )
    print("* sft: the gold answer as the response; from the pretrained model.")
    print(
        "* dpo: the gold answer over a wrong choice, beta 0.1; from sft. A tie is not counted as right: before, all are ties."
    )
    print("* order: the gold answer over its own words in reverse; from sft.\n")
    print("| run | steps, examples a step | measured | before | after |\n| --- | ---: | --- | ---: | ---: |")
    for name in RUNS:
        summary, found = tune(options.work, name)
        facts = f"{summary['steps']}, 32"
        before, after = (one["held_out"] for one in found["validation"])
        count = f"{summary['held_out']} held-out examples"
        for figure in ("loss", "accuracy", "margin"):
            if figure in after:
                print(f"| {name} | {facts} | {figure} of {count} | {before[figure]:.4f} | {after[figure]:.4f} |")
        before, after = found["answers"]
        for group in after:
            what = f"bits per byte of {after[group]['items']} {group} answers"
            print(
                f"| {name} | {facts} | {what} | {before[group]['bits_per_byte']:.4f} | {after[group]['bits_per_byte']:.4f} |"
            )
        for task, (before, after) in ((t, [one[t] for one in found["tasks"]]) for t in found.get("tasks", [{}])[-1]):
            print(
                f"| {name} | {facts} | {task}, {after['items']} items: accuracy | {before['score']:.3f} | {after['score']:.3f} |"
            )


if __name__ == "__main__":
    main()
