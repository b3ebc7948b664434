"""How a cost grows, as curves: one panel per cost, sizes to the right by powers of ten, the cost upwards from nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, log10

from attrs import frozen

from treadle.printable import one_line

from ..drawing.markup import markup
from ..drawing.palette import MONO, Palette, Theme, themed

COLUMNS, MARGIN, GAP = 3, 16, 28
PANEL_WIDTH, PLOT_HEIGHT, LEFT, TOP, BOTTOM = 292, 120, 44, 46, 22
PANEL_HEIGHT = TOP + PLOT_HEIGHT + BOTTOM
WIDTH = 2 * MARGIN + COLUMNS * PANEL_WIDTH + (COLUMNS - 1) * GAP
LONGEST_TITLE = 40


@frozen
class Curve:
    """What a unit costs at growing sizes.

    Attributes:
        title: what grows.
        unit: of the cost.
        points: sizes above zero, in order, with the cost at each.
    """

    title: str
    unit: str
    points: Sequence[tuple[float, float]]


def curves_svg(curves: Iterable[Curve], *, theme: Theme = "auto") -> str:
    """Draw curves, three panels in a row, each with a scale of its own that begins at nothing.

    Raises:
        MisuseError: there is no such theme.
    """
    style = themed(_SHAPES, _colours, theme)
    drawn, rows = list[str](), 0
    for index, curve in enumerate(curves):
        row, column = divmod(index, COLUMNS)
        drawn += _panel(curve, MARGIN + column * (PANEL_WIDTH + GAP), MARGIN + row * (PANEL_HEIGHT + GAP))
        rows = row + 1
    height = 2 * MARGIN + rows * PANEL_HEIGHT + max(0, rows - 1) * GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="How costs grow">\n<style>\n{style}</style>\n'
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _panel(curve: Curve, x: float, y: float) -> list[str]:
    left, base = x + LEFT, y + TOP + PLOT_HEIGHT
    out = [
        f'<text class="head" x="{x:g}" y="{y + 14:g}">{markup(one_line(curve.title, LONGEST_TITLE))}</text>',
        f'<text class="faint" x="{x:g}" y="{y + 32:g}">{markup(one_line(curve.unit, LONGEST_TITLE))}</text>',
        f'<line class="base" x1="{left:g}" y1="{base:g}" x2="{x + PANEL_WIDTH:g}" y2="{base:g}"/>',
    ]
    if not curve.points:
        return [*out, f'<text class="faint" x="{left:g}" y="{base - 8:g}">not measured</text>']
    top = _round_up(max([cost for _, cost in curve.points]))
    for part in (0.5, 1.0):
        high = base - part * PLOT_HEIGHT
        out.append(f'<line class="rule" x1="{left:g}" y1="{high:g}" x2="{x + PANEL_WIDTH:g}" y2="{high:g}"/>')
        out.append(f'<text class="tick end" x="{left - 6:g}" y="{high + 4:g}">{_short(part * top)}</text>')
    places = [(_along(size, curve.points, left), base - cost / top * PLOT_HEIGHT) for size, cost in curve.points]
    path = " ".join([f"{across:.1f},{high:.1f}" for across, high in places])
    out.append(f'<polyline class="curve" points="{path}"/>')
    for (across, high), (size, cost) in zip(places, curve.points, strict=True):
        told = markup(f"{size:,g}: {cost:.3g} {curve.unit}")
        out.append(f'<circle class="point" cx="{across:.1f}" cy="{high:.1f}" r="3.5"><title>{told}</title></circle>')
        out.append(f'<text class="tick middle" x="{across:.1f}" y="{base + 16:g}">{_short(size)}</text>')
    return out


def _along(size: float, points: Sequence[tuple[float, float]], left: float) -> float:
    """Where a size stands: by its power of ten between those of the first and the last."""
    first, last = log10(points[0][0]), log10(points[-1][0])
    width = PANEL_WIDTH - LEFT - 24
    return left + 12 + (width * (log10(size) - first) / (last - first) if last > first else width / 2)


def _round_up(most: float) -> float:
    """A round number that is not less."""
    if most <= 0:
        return 1.0
    power = 10.0 ** floor(log10(most))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if most <= step * power * (1 + 1e-9))


def _short(number: float) -> str:
    """A number as a few characters: ``0.5``, ``40``, ``1k``, ``2.5M``."""
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{suffix}"
    return f"{number:g}"


_SHAPES = (
    f"text{{font:12px {MONO}}}.head{{font-weight:600}}.tick{{font-size:10px}}.end{{text-anchor:end}}"
    ".middle{text-anchor:middle}.curve{fill:none;stroke-width:2;stroke-linejoin:round}.base,.rule{stroke-width:1}\n"
)


def _colours(palette: Palette) -> str:
    return (
        f".paper{{fill:{palette.paper}}}text{{fill:{palette.ink}}}text.faint,text.tick{{fill:{palette.line}}}"
        f".base{{stroke:{palette.line}}}.rule{{stroke:{palette.faint}}}.curve{{stroke:{palette.run[1]}}}"
        f".point{{fill:{palette.run[1]};stroke:{palette.paper};stroke-width:1.5}}\n"
    )
