"""Charts as inline SVG: no library, no script needed, colours from the page's style sheet.

Each function returns safe markup: all text goes through `safe`. Colours are classes (`c0` ... for sources and seeds,
`s-<stage>` for stages), so that dark, light and print are one style sheet's business. No `style` attributes: the page's
content security policy forbids them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from curate.report.display import compact, number, plain, share

NUM_COLOURS = 8
LABEL_PITCH = 17.0  # least distance of two labels in a column


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart: a name, a colour class, and (x, y) points in order of x."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    strong: bool = False


def safe(text: str) -> str:
    """Return `text` for SVG: escaped, and without elements, as an HTML element would end the drawing."""
    return str(escape(plain(text)))


def colour(index: int) -> str:
    """Return the colour class of the source or seed at this place."""
    return f"c{index % NUM_COLOURS}"


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about `count` round numbers inside [low, high], steps of 1, 2, 2.5 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _svg(width: float, height: float, label: str, body: str, css: str = "chart", extra: str = "") -> Markup:
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return Markup(f'<svg class="{css}" {size} role="img" aria-label="{safe(label)}"{extra}>{body}</svg>')


def _rect(x: float, y: float, width: float, height: float, css: str, title: str = "") -> str:
    tip = f"<title>{safe(title)}</title>" if title else ""
    return f'<rect class="{safe(css)}" x="{x:.2f}" y="{y:.2f}" width="{max(width, 0):.2f}" height="{max(height, 0):.2f}">{tip}</rect>'


def _text(x: float, y: float, text: str, css: str = "", anchor: str = "start") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{safe(text)}</text>'


def _clipped(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"


def flows(funnels: Mapping[str, Mapping[str, Any]], unit: str) -> Markup | None:
    """Return a flow diagram from sources to what became of them; None if there is nothing to draw.

    Args:
        funnels: The report's funnel, by source.
        unit: `documents` or `bytes`.
    """
    links: list[tuple[int, str, float]] = []
    for index, entry in enumerate(funnels.values()):
        kept = entry["kept"] if unit == "documents" else entry["bytes_kept"]
        links.append((index, "kept", kept or 0))
        links += [(index, stage["stage"], stage[unit] or 0) for stage in entry["stages"]]
        if unit == "bytes" and (entry["bytes_cut"] or 0) > 0:
            links.append((index, "cut by rewrites", entry["bytes_cut"]))
    links = [link for link in links if link[2] > 0]
    total = sum(amount for *_, amount in links)
    if not total:
        return None
    names, fates = list(funnels), list(dict.fromkeys(["kept", *(fate for _, fate, _ in links)]))
    height, left, right, width = 230.0, 104.0, 336.0, 560.0
    scale = (height - 12 * max(len(names), len(fates))) / total if len(fates) < 12 else height / 2 / total

    def column(sizes: Sequence[float], gap: float) -> list[float]:
        tops, y = [], 4.0
        for size in sizes:
            tops.append(y)
            y += max(size * scale + gap, LABEL_PITCH + 2)
        return tops

    source_sizes = [sum(amount for place, _, amount in links if place == index) for index in range(len(names))]
    fate_sizes = [sum(amount for _, other, amount in links if other == fate) for fate in fates]
    source_tops, fate_tops = column(source_sizes, 12), column(fate_sizes, 8)
    bottom = (
        max(
            source_tops[-1] + max(source_sizes[-1] * scale, LABEL_PITCH),
            fate_tops[-1] + max(fate_sizes[-1] * scale, LABEL_PITCH),
        )
        + 6
    )
    shapes, source_y, fate_y = [], list(source_tops), list(fate_tops)
    for index, fate, amount in links:
        thick, place = amount * scale, fates.index(fate)
        a, b, middle = source_y[index], fate_y[place], (left + 10 + right) / 2
        source_y[index] += thick
        fate_y[place] += thick
        path = (
            f"M{left + 10:.1f},{a:.2f}C{middle:.1f},{a:.2f} {middle:.1f},{b:.2f} {right:.1f},{b:.2f}V{b + max(thick, 0.6):.2f}"
            f"C{middle:.1f},{b + thick:.2f} {middle:.1f},{a + thick:.2f} {left + 10:.1f},{a + max(thick, 0.6):.2f}Z"
        )
        tip = f"{names[index]} → {fate}: {number(int(amount))} {unit} ({share(amount, source_sizes[index])} of {names[index]})"
        shapes.append(
            f'<path class="flow {colour(index)}{" kept" if fate == "kept" else ""}" d="{path}"><title>{safe(tip)}</title></path>'
        )
    for index, name in enumerate(names):
        size = source_sizes[index]
        shapes.append(
            _rect(
                left,
                source_tops[index],
                10,
                max(size * scale, 1),
                f"node {colour(index)}",
                f"{name}: {number(int(size))} {unit}",
            )
        )
        y = source_tops[index] + max(size * scale, LABEL_PITCH) / 2
        shapes += [
            _text(left - 8, y - 1, _clipped(name, 14), "name", "end"),
            _text(left - 8, y + 12, compact(size), "quiet", "end"),
        ]
    for place, fate in enumerate(fates):
        size = fate_sizes[place]
        shapes.append(
            _rect(
                right,
                fate_tops[place],
                10,
                max(size * scale, 1),
                f"node s-{fate.split()[0]}",
                f"{fate}: {number(int(size))} {unit}",
            )
        )
        y = fate_tops[place] + max(size * scale, 11) / 2 + 4
        shapes.append(
            f'<text x="{right + 18:.1f}" y="{y:.1f}"><tspan class="name">{safe(_clipped(fate, 16))}</tspan>'
            f'<tspan class="quiet" dx="6">{compact(size)} · {share(size, total)}</tspan></text>'
        )
    label = f"Flow of {unit} from {len(names)} sources: {share(fate_sizes[0], total)} kept; the tables below give all numbers."
    return _svg(width, bottom, label, "".join(shapes))


def cascade(before: float, removed: float, total: float, stage: str) -> Markup:
    """Return a table cell's bar: what was still there before a rule, and the part that the rule took."""
    width = 80.0
    if not total:
        return Markup("")
    after, gone = width * (before - removed) / total, width * removed / total
    body = (
        _rect(0, 5, width, 6, "track")
        + _rect(0, 5, after, 6, "rest")
        + _rect(min(after, width - 1.5), 1, max(gone, 1.5), 14, f"fill s-{stage}")
    )
    return Markup(
        f'<svg class="cell" viewBox="0 0 {width:g} 16" width="{width:g}" height="16" aria-hidden="true">{body}</svg>'
    )


def stacked(parts: Sequence[tuple[str, float]], unit: str) -> Markup:
    """Return one bar of the parts of a whole: (stage or `kept` or `cut`, amount)."""
    total = sum(amount for _, amount in parts)
    if not total:
        return Markup("")
    width, x, shapes = 1000.0, 0.0, []
    for name, amount in parts:
        piece = width * amount / total
        shapes.append(
            _rect(
                x,
                0,
                piece,
                26,
                f"fill s-{name.split()[0]}",
                f"{name}: {number(int(amount))} {unit} ({share(amount, total)})",
            )
        )
        x += piece
    label = f"{unit}: " + ", ".join(f"{name} {share(amount, total)}" for name, amount in parts if amount)
    return _svg(width, 26, label, "".join(shapes), "stack", ' preserveAspectRatio="none"')


def shares(parts: Sequence[tuple[str, str, float]], title: str) -> Markup:
    """Return one bar of the shares of a whole: (name, style, share from 0 to 1); neighbours of one style stay apart."""
    width, x, shapes = 1000.0, 0.0, []
    for name, css, part in parts:
        shapes.append(
            _rect(x, 0, max(width * part - 1.5, width * part / 2), 26, f"fill {css}", f"{name}: {share(part, 1)}")
        )
        x += width * part
    label = f"{title}: " + ", ".join(f"{name} {share(part, 1)}" for name, _, part in parts)
    return _svg(width, 26, label, "".join(shapes), "stack", ' preserveAspectRatio="none"')


def columns(bars: Sequence[tuple[str, float]], label: str, unit: str, log: bool = False) -> Markup:
    """Return a column chart of (label, amount); with `log`, heights follow log10(1 + amount)."""
    width, height, base = 560.0, 190.0, 150.0
    if not bars:
        return Markup("")
    scaled = [math.log10(1 + amount) if log else amount for _, amount in bars]
    top, pitch = max(scaled) or 1, (width - 16) / len(bars)
    thick, shapes = (
        min(pitch * 0.78, 54),
        [f'<line class="axis" x1="8" x2="{width - 8:g}" y1="{base:g}" y2="{base:g}"/>'],
    )
    for index, ((name, amount), value) in enumerate(zip(bars, scaled, strict=True)):
        tall, centre = max(value / top * (base - 26), 1 if amount else 0), 8 + pitch * (index + 0.5)
        shapes.append(
            _rect(centre - thick / 2, base - tall, thick, tall, "fill c0", f"{name}: {number(int(amount))} {unit}")
        )
        shapes.append(_text(centre, base - tall - 6, compact(amount), "quiet", "middle"))
        shapes.append(_text(centre, base + 16, _clipped(name, 12), "", "middle"))
    return _svg(width, height - 16, label, "".join(shapes))


def bar(amount: float, most: float, css: str, width: float = 130.0) -> Markup:
    """Return a table cell's plain bar."""
    body = _rect(0, 3, width, 10, "track") + _rect(0, 3, width * amount / most if most else 0, 10, f"fill {css}")
    return Markup(
        f'<svg class="cell" viewBox="0 0 {width:g} 16" width="{width:g}" height="16" aria-hidden="true">{body}</svg>'
    )


def histogram(entry: Mapping[str, Any]) -> Markup:
    """Return a small histogram of one measured column (see `curate.report.spread`) with the bounds of its rules."""
    width, height = 250.0, 64.0
    counts, low, high = entry["histogram"]["counts"], entry["histogram"]["low"], entry["histogram"]["high"]
    span, most, pitch = high - low, max(counts), width / len(counts)
    bars = (
        f"M{index * pitch:.1f},{height:g}v{-height * math.sqrt(count / most):.1f}h{pitch * 0.9:.1f}V{height:g}Z"
        for index, count in enumerate(counts)
        if count
    )
    shapes = []
    for bound in entry["bounds"]:
        for edge, below in ((bound["at_least"], True), (bound["at_most"], False)):
            if edge is None:
                continue
            x = min(max((edge - low) / span if span else float(edge > low), 0.0), 1.0) * width
            shapes.append(_rect(0 if below else x, 0, x if below else width - x, height, "beyond"))
            if 0 < x < width:
                shapes.append(f'<line class="bound" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height:g}"/>')
    shapes.append(f'<path class="fill c0" d="{"".join(bars)}"/>')
    shapes.append(f'<line class="axis" x1="0" x2="{width:g}" y1="{height:g}" y2="{height:g}"/>')
    label = f"{entry['block']}: {entry['column']}, from {number(low)} to {number(high)}"
    return _svg(width, height, label, "".join(shapes), "spread", ' preserveAspectRatio="none"')


def curves(name: str, series: Sequence[Series], band: Sequence[Sequence[float]], x_label: str, label: str) -> Markup:
    """Return a line chart.

    Args:
        name: Id of the chart; the page's script finds its data by it.
        series: The lines.
        band: (x, mean, lowest, highest) of the seeds, or nothing.
        x_label: Axis title.
        label: What the chart shows, for those who do not see it.
    """
    frame = chart_frame(series, band)
    if frame is None:
        return Markup("")
    (x0, x1, y0, y1), (left, right, top, bottom) = frame, PLOT

    def at(x: float, y: float) -> str:
        return (
            f"{left + (x - x0) / (x1 - x0) * (right - left):.1f},{bottom - (y - y0) / (y1 - y0) * (bottom - top):.1f}"
        )

    shapes = []
    for tick in nice_ticks(y0, y1):
        place = at(x0, tick).split(",")[1]
        shapes.append(
            f'<line class="grid" x1="{left}" x2="{right}" y1="{place}" y2="{place}"/>'
            + _text(left - 7, float(place) + 4, f"{tick:g}", "quiet", "end")
        )
    ticks = [(tick, float(at(tick, y0).split(",")[0])) for tick in nice_ticks(x0, x1)]
    shapes += [_text(x, bottom + 18, compact(tick), "quiet", "middle") for tick, x in ticks]
    shapes.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    if band:
        edge = [at(point[0], point[3]) for point in band] + [at(point[0], point[2]) for point in reversed(band)]
        shapes.append(f'<polygon class="band" points="{" ".join(edge)}"/>')
    for line in series:
        points = " ".join(at(x, y) for x, y in line.points)
        css = f"line {line.colour}" + (" strong" if line.strong else "")
        shapes.append(f'<polyline class="{css}" points="{points}"><title>{safe(line.name)}</title></polyline>')
        if len(line.points) == 1:
            x, y = at(*line.points[0]).split(",")
            shapes.append(f'<circle class="fill {line.colour}" cx="{x}" cy="{y}" r="3"/>')
    shapes.append(_text(right, bottom + 34, x_label, "quiet", "end"))
    shapes.append(f'<line class="cursor" x1="0" x2="0" y1="{top}" y2="{bottom}" visibility="hidden"/>')
    return _svg(560, 300, label, "".join(shapes), "chart curves", f' tabindex="0" data-chart="{safe(name)}"')


def collision(curve: Mapping[str, Any]) -> Markup:
    """Return the curve of `curate.report.duplicates.collision_curve`, with the threshold and what it means marked."""
    left, right, top, bottom = PLOT

    def at(similarity: float, chance: float) -> tuple[float, float]:
        return left + similarity * (right - left), bottom - chance * (bottom - top)

    shapes = []
    for tick in range(0, 101, 25):
        y = at(0, tick / 100)[1]
        shapes.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        shapes.append(_text(left - 7, y + 4, f"{tick}%", "quiet", "end"))
    shapes += [_text(at(tick / 10, 0)[0], bottom + 18, f"{tick / 10:g}", "quiet", "middle") for tick in range(0, 11, 2)]
    shapes.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    marked = curve["verify"] if curve["measure"] == "jaccard" else None
    if marked is not None:
        x, _ = at(marked, 0)
        shapes.append(
            _rect(left, top, x - left, bottom - top, "beyond", "below the threshold: compared, and left alone")
        )
        shapes.append(f'<line class="bound" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
        shapes.append(_text(x - 6, top + 14, f"verify {marked:g}", "name", "end"))
    points = " ".join("{:.1f},{:.1f}".format(*at(*point)) for point in curve["points"])
    shapes.append(f'<polyline class="line c0 strong" points="{points}"/>')
    for similarity, chance in curve["shown"]:
        x, y = at(similarity, chance)
        tip = f"a pair at {similarity:g} is compared with probability {share(chance, 1)}"
        shapes.append(f'<circle class="fill c0" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{safe(tip)}</title></circle>')
    shapes.append(_text(right, bottom + 34, "Jaccard similarity of the two documents' shingles", "quiet", "end"))
    label = (
        f"Probability that two documents share one of {curve['bands']} bands of {curve['rows']} rows, by similarity."
    )
    return _svg(560, 300, label, "".join(shapes), "chart")


PLOT = (52, 548, 8, 258)  # left, right, top, bottom of the plotting area


def chart_frame(series: Sequence[Series], band: Sequence[Sequence[float]]) -> tuple[float, float, float, float] | None:
    """Return the ranges (x0, x1, y0, y1) that a chart covers; None without points."""
    xs = [x for line in series for x, _ in line.points]
    ys = [y for line in series for _, y in line.points] + [value for point in band for value in point[2:4]]
    if not xs:
        return None
    low, high = min(ys), max(ys)
    pad = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    return min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1, low - pad, high + pad


def curve_data(series: Sequence[Series], band: Sequence[Sequence[float]], x_label: str) -> dict[str, Any] | None:
    """Return what the page's script needs to read values off a chart."""
    frame = chart_frame(series, band)
    if frame is None:
        return None
    lines = [
        {"name": line.name, "colour": line.colour, "points": [list(point) for point in line.points]} for line in series
    ]
    return {"x": list(frame[:2]), "plot": list(PLOT[:2]), "x_label": x_label, "series": lines}
