"""Write what the README shows of a demo run: `python benchmarks/demo_results.py runs/web_code_books`.

Reads a finished run folder; writes benchmarks/results/web_code_books.md and web_code_books_loss.svg beside this file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
COLOURS = ("#2f6fde", "#d9682b", "#2b9a66", "#8a5cd1", "#c23b6f")


def funnel(manifest: dict[str, Any]) -> str:
    """Return the funnel by source and stage as a Markdown table."""
    lines = [
        "| source | read | gate, read | extract | filter | decontaminate | dedup | validation | kept | text kept |"
    ]
    lines.append("| --- |" + " ---: |" * 9)
    for source, ledger in manifest["ledger"].items():
        gone = {stage: sum(rules.values()) for stage, rules in ledger["removed"].items()}
        early = gone.get("gate", 0) + gone.get("read", 0)
        stages = [gone.get(stage, 0) for stage in ("extract", "filter", "decontaminate", "dedup", "validation")]
        size = ledger["bytes"]
        cells = [ledger["read"], early, *stages, ledger["kept"]]
        shares = f"{size['kept'] / 1e6:.2f} of {size['read'] / 1e6:.2f} MB"
        lines.append(f"| {source} | " + " | ".join(f"{cell:,}" for cell in cells) + f" | {shares} |")
    return "\n".join(lines)


def truth(planted: dict[str, Any]) -> str:
    """Return the comparison with the truth table as a Markdown table, kinds side by side."""
    rows = [(kind["kind"].replace("_", " "), kind["planted"], kind["as_expected"]) for kind in planted["kinds"]]
    rows.sort(key=lambda row: (-row[1], row[0]))
    columns = 3
    height = -(-len(rows) // columns)
    lines = [
        "| " + " | ".join(["fault", "planted", "as expected"] * columns) + " |",
        "| " + " | ".join(["---", "---:", "---:"] * columns) + " |",
    ]
    for index in range(height):
        cells: list[str] = []
        for column in range(columns):
            place = column * height + index
            cells += [str(cell) for cell in rows[place]] if place < len(rows) else ["", "", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def curves(run: Path) -> dict[str, list[dict[str, Any]]]:
    """Return seed -> lines of metrics.jsonl."""
    return {
        folder.name: [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in sorted((run / "train").iterdir(), key=lambda folder: int(folder.name))
    }


def losses(metrics: dict[str, list[dict[str, Any]]]) -> str:
    """Return validation loss by step, source and seed as a Markdown table."""
    steps = [line["step"] for line in next(iter(metrics.values())) if "validation" in line]
    sources = list(next(line for line in next(iter(metrics.values())) if "validation" in line)["validation"])
    shown = sorted({steps[0], steps[len(steps) // 3], steps[2 * len(steps) // 3], steps[-1]})
    lines = ["| step | " + " | ".join(f"{source}, seed {seed}" for source in sources for seed in metrics) + " |"]
    lines.append("| ---: |" + " ---: |" * (len(sources) * len(metrics)))
    for step in shown:
        cells = []
        for source in sources:
            for entries in metrics.values():
                found = next(line for line in entries if line["step"] == step and "validation" in line)["validation"][
                    source
                ]
                cells.append(f"{found['loss']:.3f} ({found['bits_per_byte']:.3f})")
        lines.append(f"| {step} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def svg(metrics: dict[str, list[dict[str, Any]]]) -> str:
    """Return the training loss of all seeds as one picture that needs nothing else."""
    width, height, left, bottom = 760, 280, 52, 34
    series = {
        seed: [(line["step"], line["loss"]) for line in entries if "loss" in line] for seed, entries in metrics.items()
    }
    last = max(step for points in series.values() for step, _ in points)
    low = int(min(loss for points in series.values() for _, loss in points))
    high = int(max(loss for points in series.values() for _, loss in points)) + 1

    def x(step: float) -> float:
        return left + (width - left - 12) * step / last

    def y(loss: float) -> float:
        return 10 + (height - bottom - 10) * (high - loss) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="#667">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for loss in range(low, high + 1):
        parts.append(f'<path d="M{left} {y(loss):.1f}H{width - 12}" stroke="#dde"/>')
        parts.append(f'<text x="{left - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss}</text>')
    for number in range(5):
        step = round(last * number / 4)
        parts.append(f'<text x="{x(step):.1f}" y="{height - 14}" text-anchor="middle">{step}</text>')
    parts.append(
        f'<text x="{width - 12}" y="{height - 1}" text-anchor="end">step</text><text x="{left + 6}" y="24">nats per token</text>'
    )
    for index, (seed, points) in enumerate(series.items()):
        path = "M" + "L".join(f"{x(step):.1f} {y(loss):.1f}" for step, loss in points)
        colour = COLOURS[index % len(COLOURS)]
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
        parts.append(f'<text x="{width - 90}" y="{30 + 16 * index}" fill="{colour}">seed {seed}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Write the results of the run folder named on the command line."""
    run = Path(sys.argv[1])
    manifest = json.loads((run / "manifest.json").read_text())
    report = json.loads((run / "report.json").read_text())
    timings = json.loads((run / "timings.json").read_text())
    summary = json.loads(next((run / "train").glob("*/summary.json")).read_text())
    metrics = curves(run)
    phases = ", ".join(
        f"{name} {phase['seconds']:.0f}" for name, phase in timings["phases"].items() if phase["seconds"] >= 0.5
    )
    libraries = ", ".join(f"{name} {version}" for name, version in manifest["libraries"].items())
    environment = timings["environment"]
    facts = {
        "machine": f"{environment['platform']}, {timings['workers']} workers",
        "libraries": libraries,
        "input digest (stage key of extract)": manifest["stages"]["extract"]["key"],
        "seconds": f"{timings['seconds']:.0f} in all: {phases}",
        "peak memory of a worker": f"{max(phase['peak_rss_bytes'] for phase in timings['phases'].values()) / 1e6:.0f} MB",
        "parameters": f"{summary['parameters']:,}",
        "training tokens": f"{summary['tokens']:,}",
    }
    sections = [
        "# The demo, as the README shows it",
        "Written by `benchmarks/demo_results.py` from a finished run of `recipes/web_code_books.yaml`.",
        "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts.items())]),
        "## Funnel (documents)\n\n" + funnel(manifest),
        f"## Planted documents: {report['planted']['as_expected']} of {report['planted']['planted']} as expected\n\n"
        + truth(report["planted"]),
        "## Validation loss, nats per token (bits per byte)\n\n" + losses(metrics),
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "web_code_books.md").write_text("\n\n".join(sections) + "\n")
    (RESULTS / "web_code_books_loss.svg").write_text(svg(metrics))


if __name__ == "__main__":
    main()
