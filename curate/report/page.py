"""report.html: one self-contained page, made from report.json's values and nothing else.

Whatever comes from the web, a recipe or a file name is escaped (jinja2 autoescape and `visible`). A content security policy
names the hashes of the page's own style sheet and script, so that nothing else can run or load even if an escape failed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from curate.report import chart, display, mixture
from curate.report.chart import Series

_HERE = Path(__file__).parent
_SCRIPT_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
STAGE_MEANING = {
    "kept": "stays in the corpus",
    "read": "a damaged record",
    "gate": "refused before extraction",
    "extract": "no main text found",
    "filter": "out of a filter's bounds",
    "decontaminate": "holds benchmark items",
    "dedup": "a copy of a kept document",
    "validation": "near a validation document",
    "quarantine": "killed a worker",
    "cut": "taken out of kept documents by rewrites and edits",
}


def render(report: Mapping[str, Any]) -> str:
    """Return the page for the values of report.json."""
    style = (_HERE / "page.css").read_text("utf-8")
    script = (_HERE / "page.js").read_text("utf-8")
    environment = _environment()
    charts = loss_charts(report["training"])
    colours = {source: chart.colour(place) for place, source in enumerate(report["funnel"])}
    return environment.get_template("page.html").render(
        report=report,
        style=Markup(style),
        script=Markup(script),
        policy=content_security_policy(style, script),
        flow_charts=[
            flow for unit in ("documents", "bytes") if (flow := chart.flows(report["funnel"], unit)) is not None
        ],
        charts=charts,
        source_colour=lambda source: colours.get(source, chart.colour(len(colours))),
        chart_data=script_json({entry["name"]: entry["data"] for entry in charts}),
        size_bars=size_bars(report["duplicates"]),
        similarity_bars=similarity_bars(report["duplicates"]),
        phases=phases(report),
        original=original_command(report["timings"]),
        part_flags=part_flags(report),
        columns=chart.columns,
        mixed=mixture.tables(report["mixture"]),
        stage_bars=mixture.stage_bars,
        streams_of=mixture.streams_of,
        drawn_in=mixture.drawn_in,
    )


def render_audit(audit: Mapping[str, Any]) -> str:
    """Return the page for the answer of `curate audit`."""
    style = (_HERE / "page.css").read_text("utf-8")
    template = _environment().get_template("audit.html")
    policy = content_security_policy(style, "")
    return template.render(report=audit, style=Markup(style), policy=policy, loosest=loosest)


def loosest(keeps: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the bounds that keep enough documents of every kind: the loosest of those that the kinds need."""
    found: dict[str, float | None] = {}
    for side, choose in (("at_least", min), ("at_most", max)):
        bounds = [kind[side] for kind in keeps["kinds"].values() if kind[side] is not None]
        found[side] = choose(bounds) if bounds else None
    return found


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    filters: dict[str, Callable[..., Any]] = {
        "number": display.number,
        "num_bytes": display.num_bytes,
        "compact": display.compact,
        "seconds": display.seconds,
        "visible": display.visible,
        "plain": display.plain,
        "breakable": display.breakable,
        "as_table": as_table,
    }
    environment.filters |= filters
    environment.globals |= {
        "share": display.share,
        "cascade": chart.cascade,
        "stacked": chart.stacked,
        "bar": chart.bar,
        "colour": chart.colour,
        "histogram": chart.histogram,
        "collision": chart.collision,
        "stage_meaning": STAGE_MEANING,
    }
    return environment


def content_security_policy(style: str, script: str) -> str:
    """Return a policy that allows this style sheet, this script and inline images, and nothing else."""

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; style-src 'sha256-{digest(style)}'; script-src 'sha256-{digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def script_json(value: Any) -> Markup:
    """Return JSON that may stand in a script element: no character in it can end the element or a line."""
    return Markup(json.dumps(value, ensure_ascii=False, allow_nan=False).translate(_SCRIPT_ESCAPES))


def loss_charts(training: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the training chart and one validation chart per source: name, title, markup, data for the script, legend."""
    if not training:
        return []
    seeds = {entry["seed"]: place for place, entry in enumerate(training["seeds"])}
    lines = [
        Series(
            f"seed {entry['seed']}",
            chart.colour(seeds[entry["seed"]]),
            [(step, loss) for step, _, loss in entry["points"]],
        )
        for entry in training["seeds"]
        if entry["points"]
    ]
    smoothing = f", mean of {training['smoothing']} steps" if training["smoothing"] > 1 else ""
    charts = [_loss_chart("training-loss", "Training loss", lines, training["band"], f"nats per token{smoothing}")]
    for place, (source, entry) in enumerate(training["validation"].items()):
        lines = [
            Series(
                f"seed {line['seed']}",
                chart.colour(seeds.get(line["seed"], 0)),
                [(step, value) for step, value in line["points"]],
            )
            for line in entry["seeds"]
            if line["points"]
        ]
        charts.append(
            _loss_chart(f"validation-{place}", f"Validation: {source}", lines, entry["band"], "bits per byte")
        )
    return [entry for entry in charts if entry["data"]]


def _loss_chart(
    name: str, title: str, lines: list[Series], band: Sequence[Sequence[float]], unit: str
) -> dict[str, Any]:
    if band:
        lines = [*lines, Series("mean", "mean", [(point[0], point[1]) for point in band], strong=True)]
    label = f"{title} in {unit} over training steps, {len(lines)} lines; the table below gives the final values."
    return {
        "name": name,
        "title": title,
        "unit": unit,
        "svg": chart.curves(name, lines, band, "step", label),
        "data": chart.curve_data(lines, band, "step"),
        "legend": [(line.name, line.colour) for line in lines],
    }


def size_bars(duplicates: Mapping[str, Any] | None) -> list[tuple[str, int]]:
    """Return numbers of clusters by size: 2, 3, 4, then powers of two."""
    bars: dict[tuple[int, int], int] = {}
    for row in duplicates["sizes"] if duplicates else ():
        size = row["size"]
        low = size if size < 5 else max(5, 1 << (size.bit_length() - 1))
        high = size if size < 5 else (1 << size.bit_length()) - 1
        bars[low, high] = bars.get((low, high), 0) + row["clusters"]
    return [(str(low) if low == high else f"{low}–{high}", bars[low, high]) for low, high in sorted(bars)]


def similarity_bars(duplicates: Mapping[str, Any] | None) -> list[tuple[str, int]]:
    """Return numbers of copies by similarity."""
    rows = duplicates["similarities"] if duplicates else []
    return [("1" if row["at_least"] >= 1 else f"≥ {row['at_least']:.2f}", row["copies"]) for row in rows]


def part_flags(report: Mapping[str, Any]) -> list[str]:
    """Return the flags of a run that read a part of its inputs, as one gives them; none for a whole run."""
    return [f"--{name} {report[name]}" for name in ("limit", "sample") if report[name] is not None]


def original_command(timings: Mapping[str, Any]) -> str | None:
    """Return the command that made the run, as a shell takes it, from the folder where it was given; None if unknown."""
    command, folder = timings.get("command"), timings.get("folder")
    if not isinstance(command, list) or not command:
        return None
    line = shlex.join(map(str, command))
    return f"cd {shlex.quote(str(folder))}\n{line}" if folder else line


def phases(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row for each phase: its key from the manifest, its time and tasks from the timings.

    `reused` says that all of its tasks were, so that its time and memory tell nothing.
    """
    measured = report["timings"].get("phases") or {}
    rows = []
    for name in dict.fromkeys([*report["stages"], *measured]):
        row = {"phase": name, "key": (report["stages"].get(name) or {}).get("key"), **(measured.get(name) or {})}
        rows.append(row | {"reused": not row.get("tasks_run") and bool(row.get("tasks_reused"))})
    return rows


def as_table(entries: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return records by name (source to numbers) as columns and rows, inner records flattened; None if there are none."""
    records = {name: _flat(value) for name, value in (entries or {}).items() if isinstance(value, Mapping)}
    if not records:
        return None
    columns = list(dict.fromkeys(key for record in records.values() for key in record))
    inner = {column.split(" ")[0] for column in columns if " " in column}
    columns = [column for column in columns if column not in inner]  # null where others have an inner record
    rows = {name: [record.get(column) for column in columns] for name, record in records.items()}
    numeric = [any(isinstance(row[place], int | float) for row in rows.values()) for place in range(len(columns))]
    return {"columns": columns, "numeric": numeric, "rows": rows}


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat |= {f"{key} {inner}": item for inner, item in value.items()}
        else:
            flat[key] = value
    return flat
