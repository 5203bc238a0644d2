from xml.etree import ElementTree

import pytest

from curate.report.chart import Series, cascade, columns, curve_data, curves, flows, nice_ticks, stacked


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (2.97, 4.1, [3, 3.25, 3.5, 3.75, 4]),
        (5, 5, [5]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
    ],
)
def test_ticks_are_round_and_inside(low: float, high: float, ticks: list[float]) -> None:
    assert nice_ticks(low, high) == pytest.approx(ticks)


def numbers(svg: str, tag: str, attribute: str) -> list[float]:
    return [
        float(element.attrib[attribute])
        for element in ElementTree.fromstring(svg).iter(tag)
        if attribute in element.attrib
    ]


def test_parts_of_a_bar_fill_it() -> None:
    svg = stacked([("kept", 50), ("filter", 30), ("dedup", 20)], "documents")
    assert numbers(svg, "rect", "width") == [500, 300, 200]
    assert numbers(svg, "rect", "x") == [0, 500, 800]
    assert stacked([("kept", 0)], "documents") == ""


def test_a_cascade_bar_ends_where_the_next_begins() -> None:
    first, second = cascade(100, 20, 100, "filter"), cascade(80, 30, 100, "dedup")
    # rectangles: track, what is left, what was removed; 80 wide
    assert numbers(first, "rect", "width") == [80, 64, 16]
    assert numbers(first, "rect", "x")[2] == 64
    assert numbers(second, "rect", "width") == [80, 40, 24]
    assert numbers(second, "rect", "x")[2] + numbers(second, "rect", "width")[2] == 64


def test_a_cascade_of_nothing_is_empty() -> None:
    assert cascade(0, 0, 0, "filter") == ""


FUNNELS = {
    "a<b>": {
        "kept": 60,
        "bytes_kept": None,
        "bytes_cut": None,
        "stages": [{"stage": "filter", "documents": 40, "bytes": None}],
    },
    "b": {"kept": 100, "bytes_kept": None, "bytes_cut": None, "stages": []},
}


def test_flows_keep_proportion() -> None:
    svg = str(flows(FUNNELS, "documents"))
    heights = numbers(svg, "rect", "height")  # sources 100 and 100; fates kept 160, filter 40
    assert heights[0] == heights[1]
    assert heights[2] == pytest.approx(4 * heights[3], rel=0.01)
    assert "a&lt;b&gt; → filter: 40 documents (40.0% of a&lt;b&gt;)" in svg


def test_flows_of_nothing() -> None:
    assert flows({}, "documents") is None
    assert flows(FUNNELS, "bytes") is None


def test_columns_are_as_high_as_their_amounts() -> None:
    heights = numbers(columns([("2", 10), ("3", 5), ("4", 0)], "sizes", "clusters"), "rect", "height")
    assert heights == pytest.approx([124, 62, 0])
    assert columns([], "sizes", "clusters") == ""


def test_a_curve_spans_its_plot() -> None:
    svg = curves("loss", [Series("seed 0", "c0", [(0, 2.0), (10, 1.0)])], [], "step", "loss")
    line = next(ElementTree.fromstring(svg).iter("polyline")).attrib["points"].split()
    (x0, y0), (x1, y1) = ([float(part) for part in point.split(",")] for point in line)
    assert (x0, x1) == (52, 548)
    assert y0 == pytest.approx(
        8 + 250 * 0.06 / 1.12, abs=0.06
    )  # six hundredths of the range are left free on either side
    assert y1 == pytest.approx(8 + 250 * 1.06 / 1.12, abs=0.06)


def test_one_point_is_shown() -> None:
    svg = curves("loss", [Series("seed 0", "c0", [(5, 2.0)])], [], "step", "loss")
    assert "<circle" in svg


def test_a_chart_without_points_is_none() -> None:
    assert curves("loss", [], [], "step", "loss") == ""
    assert curve_data([], [], "step") is None


def test_text_in_a_chart_cannot_end_it() -> None:
    svg = curves("loss", [Series('</svg><script>\u202e"', "c0", [(0, 1.0), (1, 2.0)])], [], "step", '"><script>')
    assert "<script" not in svg
    assert "<span" not in svg  # an HTML element would end the drawing
    assert "&lt;U+202E&gt;" in svg
