"""Times as bars."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from treadle import MisuseError
from treadle_diagrams import Bar, Chart, bars_svg


def widths(drawing: str, kind: str) -> list[float]:
    return [float(width) for width in re.findall(rf'class="{kind}"[^>]* width="([\d.]+)"', drawing)]


def test_each_chart_has_a_scale_of_its_own_and_the_longest_fills_it() -> None:
    charts = [Chart("a", [Bar("x", 1.0, 2.0), Bar("y", 0.5, 4.0)]), Chart("b", [Bar("z", 0.001, 0.002)])]
    drawing = bars_svg(charts)
    assert widths(drawing, "late") == [210.0, 420.0, 420.0]
    assert widths(drawing, "median") == [105.0, 52.5, 210.0]
    assert "1.0s / 2.0s" in drawing


@pytest.mark.parametrize(
    "charts", [[], [Chart("none", [])], [Chart("zero", [Bar("x", 0.0, 0.0), Bar("y", None, None)])]]
)
def test_of_nothing_there_is_a_picture_as_well(charts: list[Chart]) -> None:
    assert ET.fromstring(bars_svg(charts)).tag.endswith("svg")


def test_names_act_nowhere_and_are_cut() -> None:
    drawing = bars_svg([Chart("<b>", [Bar('"<script>\x1b' + "x" * 100, 1.0, 1.0)])])
    ET.fromstring(drawing)
    assert "<script>" not in drawing
    assert "\x1b" not in drawing


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
def test_it_is_light_and_dark(theme: str) -> None:
    assert ("prefers-color-scheme" in bars_svg([], theme=theme)) == (theme == "auto")  # type: ignore[arg-type]


def test_an_unknown_theme_is_refused() -> None:
    with pytest.raises(MisuseError, match="theme"):
        bars_svg([], theme="blue")  # type: ignore[arg-type]
