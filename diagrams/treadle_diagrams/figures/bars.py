"""Times as bars: one chart per kind of thing, a bar per thing, from nothing to the median and on to the 95th percentile."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from treadle.printable import one_line

from ..drawing.markup import markup
from ..drawing.palette import MONO, Palette, Theme, themed
from ..drawing.units import duration

MARGIN, ROW, HEAD = 16, 26, 34
NAMES, TRACK, FIGURES = 200, 420, 130
WIDTH = 2 * MARGIN + NAMES + TRACK + FIGURES
LONGEST_NAME = 26


@frozen
class Bar:
    """One thing, and how long it took in seconds: the median and the 95th percentile; ``None`` where it never did."""

    name: str
    median: float | None
    late: float | None


@frozen
class Chart:
    """Things that can be compared; each chart has a scale of its own."""

    title: str
    bars: list[Bar]


def bars_svg(charts: Iterable[Chart], *, theme: Theme = "auto") -> str:
    """Draw charts, one below the other.

    Raises:
        MisuseError: there is no such theme.
    """
    style = themed(_SHAPES, _colours, theme)
    y, drawn = float(MARGIN), list[str]()
    for chart in charts:
        drawn += _chart(chart, y)
        y += HEAD + ROW * len(chart.bars)
    height = y + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="Times: median and 95th percentile">\n<style>\n{style}</style>\n'
        f'<rect class="paper" width="{WIDTH}" height="{height:g}"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _chart(chart: Chart, y: float) -> list[str]:
    longest = max([bar.late or 0.0 for bar in chart.bars], default=0.0)
    out = [f'<text class="head" x="{MARGIN}" y="{y + 18:g}">{markup(chart.title)}</text>']
    for index, bar in enumerate(chart.bars):
        out.append(_bar(bar, y + HEAD + index * ROW, longest))
    return out


def _bar(bar: Bar, y: float, longest: float) -> str:
    left = MARGIN + NAMES
    name = f'<text x="{MARGIN}" y="{y + 13:g}">{markup(one_line(bar.name, LONGEST_NAME))}</text>'
    if bar.median is None or bar.late is None:
        return f'<g>{name}<text class="faint" x="{left}" y="{y + 13:g}">never</text></g>'
    scale = TRACK / longest if longest > 0 else 0.0
    told = f"{duration(bar.median * 1000)} / {duration(bar.late * 1000)}"
    return (
        f"<g><title>{markup(f'{bar.name}: {told}')}</title>{name}"
        f'<rect class="late" x="{left}" y="{y + 2:g}" width="{max(1.0, bar.late * scale):.1f}" height="14" rx="2"/>'
        f'<rect class="median" x="{left}" y="{y + 2:g}" width="{max(1.0, bar.median * scale):.1f}" height="14" rx="2"/>'
        f'<text class="figure" x="{left + TRACK + 12}" y="{y + 13:g}">{told}</text></g>'
    )


_SHAPES = f"text{{font:12px {MONO}}}.head{{font-weight:600}}rect.late{{stroke-width:1}}\n"


def _colours(palette: Palette) -> str:
    return (
        f".paper{{fill:{palette.paper}}}text{{fill:{palette.ink}}}.faint{{fill:{palette.line}}}"
        f".late{{fill:{palette.run[0]};stroke:{palette.run[1]}}}.median{{fill:{palette.run[1]}}}\n"
    )
