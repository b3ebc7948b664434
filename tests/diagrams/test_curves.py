"""Costs as curves."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from treadle import MisuseError
from treadle_diagrams import Curve, curves_svg


def points(drawing: str) -> list[list[tuple[float, float]]]:
    found = re.findall(r'<polyline class="curve" points="([^"]+)"', drawing)
    return [[(float(x), float(y)) for x, _, y in (pair.partition(",") for pair in line.split())] for line in found]


def test_sizes_stand_by_their_power_of_ten_and_costs_by_their_height_above_nothing() -> None:
    drawing = curves_svg([Curve("turns", "µs/turn", [(10, 1.0), (100, 2.0), (1000, 4.0)])])
    [line] = points(drawing)
    steps = [after[0] - before[0] for before, after in pairwise(line)]
    assert steps[0] == pytest.approx(steps[1], abs=0.2)
    base = float(re.findall(r'class="base"[^>]* y1="([\d.]+)"', drawing)[0])
    heights = [base - y for _, y in line]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert heights[2] == pytest.approx(4 * heights[0], abs=0.2)


@pytest.mark.parametrize(
    ("most", "top"), [(4.0, "4"), (4.1, "5"), (0.095, "0.1"), (1001.0, "1.5k"), (2_000_000.0, "2M")]
)
def test_the_scale_ends_at_a_round_number_that_no_cost_exceeds(most: float, top: str) -> None:
    drawing = curves_svg([Curve("a", "b", [(1, most)])])
    assert re.findall(r'class="tick end"[^>]*>([^<]+)<', drawing)[1] == top


def test_panels_do_not_meet_and_are_within_the_picture() -> None:
    drawing = curves_svg([Curve(str(number), "u", [(1, 1.0), (10, 2.0)]) for number in range(7)])
    lines = points(drawing)
    assert len({(line[0]) for line in lines}) == 7
    width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing)[0])
    assert all(0 < x < width and 0 < y < height for line in lines for x, y in line)


@pytest.mark.parametrize("curves", [[], [Curve("none", "u", [])], [Curve("zero", "u", [(1, 0.0)])]])
def test_of_nothing_there_is_a_picture_as_well(curves: list[Curve]) -> None:
    assert ET.fromstring(curves_svg(curves)).tag.endswith("svg")


def test_names_act_nowhere_and_are_cut() -> None:
    drawing = curves_svg([Curve('"<script>\x1b' + "x" * 100, "<u>", [(1, 1.0)])])
    ET.fromstring(drawing)
    assert "<script>" not in drawing
    assert "\x1b" not in drawing


def test_an_unknown_theme_is_refused() -> None:
    with pytest.raises(MisuseError, match="theme"):
        curves_svg([], theme="blue")  # type: ignore[arg-type]
