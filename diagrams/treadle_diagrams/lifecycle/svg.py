"""The lifecycle as SVG: no graphviz, no browser, light and dark, verbs as tooltips, walks laid over it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Literal, get_args
from xml.sax.saxutils import escape, quoteattr

from attrs import frozen

from treadle import MisuseError
from treadle.testing import TABLE

from ..drawing.palette import Theme
from ..drawing.units import duration
from .graph import Graph, Move, Transition, shown
from .layout import HAPPY, INITIAL_DOT, PLACES, Place, Point
from .plan import Label, Line, Plan, Rect, plan_of
from .style import stylesheet
from .walk import Walk, walked_graph

Unwalked = Literal["faded", "missed"]

MARGIN = 16.0
CORNER = 10.0
HEAD = 9.0


@frozen
class _Overlay:
    """What a walk changes in the drawing; without one, nothing."""

    walk: Walk | None
    unwalked: Unwalked
    current: str | None = None

    def mark(self, moves: Iterable[Move]) -> str:
        """The class that a walk gives to moves, empty without a walk."""
        if self.walk is None:
            return ""
        return "walked" if any(self.walk.count(move.key) for move in moves) else self.unwalked

    def suffix(self, move: Move) -> str:
        """What stands behind a walked trigger: its count and time."""
        return self.walk.told(move.key) if self.walk is not None else ""


def svg(
    rows: Iterable[Transition] = TABLE,
    *,
    walked: Walk | None = None,
    unwalked: Unwalked = "faded",
    current: Enum | None = None,
    theme: Theme = "auto",
) -> str:
    """Draw a lifecycle table as SVG.

    Args:
        rows: the transitions. States and arrows that treadle's own table has lie where it has them; others get a
            place by themselves.
        walked: marks the walked rows with their counts and times.
        unwalked: how rows stand back that were not walked: ``faded`` for a session, ``missed`` for coverage.
        current: a state to mark: the one that an agent is in.
        theme: ``auto`` follows the reader's colour scheme.

    Raises:
        MisuseError: the walk has rows that the table has not, or there is no such ``unwalked`` or ``theme``.
    """
    return drawing(rows, walked, unwalked, current, stylesheet(theme))


def drawing(
    rows: Iterable[Transition], walked: Walk | None, unwalked: Unwalked, current: Enum | None, style: str
) -> str:
    """What ``svg`` draws, under rules of the caller's own; a page that has them gives none.

    Raises:
        MisuseError: as ``svg`` does.
    """
    if unwalked not in get_args(Unwalked):
        raise MisuseError(f"unwalked is 'faded' or 'missed', not {unwalked!r}")
    graph = walked_graph(rows, walked)
    overlay = _Overlay(walked, unwalked, shown(current) if current is not None else None)
    plan = plan_of(graph, {move.key: overlay.suffix(move) for move in graph.moves})
    lines = sorted(plan.lines, key=lambda line: _depth(line, overlay))
    parts = [
        f"<desc>{escape(_description(graph))}</desc>",
        f"<style>\n{style}</style>" if style else "",
        *[_arrow(line, overlay) for line in lines],
        _initial(graph),
        *[_state(state, place, graph, overlay) for state, place in plan.places.items()],
        *[_label(label, move, line, overlay) for line in plan.lines for label, move in _labelled(line)],
    ]
    caption = "" if walked is None else _caption(graph, walked)
    return _sheet(plan, parts, caption)


# --- the sheet --------------------------------------------------------------------------------------------------------


def _sheet(plan: Plan, parts: Sequence[str], caption: str) -> str:
    left, top = math.floor(plan.bounds.left - MARGIN), math.floor(plan.bounds.top - MARGIN)
    right, bottom = math.ceil(plan.bounds.right + MARGIN), math.ceil(plan.bounds.bottom + MARGIN)
    left, right = min(left, 0), max(right, 1000)
    if caption:
        parts = [*parts, f'<text class="caption" x="{left + 22}" y="{bottom + 6}">{escape(caption)}</text>']
        bottom += 22
    width, height = right - left, bottom - top
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" class="treadle" role="img"'
        f' width="{width}" height="{height}" viewBox="{left} {top} {width} {height}">'
    )
    paper = f'<rect class="paper" x="{left + 0.5}" y="{top + 0.5}" width="{width - 1}" height="{height - 1}" rx="10"/>'
    return "\n".join((head, "<title>The lifecycle of a treadle agent</title>", paper, *parts, "</svg>\n"))


def _description(graph: Graph) -> str:
    return f"{len(graph.states)} states, {len(graph.moves)} transitions. " + " ".join(
        f"{move.source}: {move.trigger} leads to {move.dest}." for move in graph.moves
    )


def _caption(graph: Graph, walk: Walk) -> str:
    taken = sum(walk.count(move.key) for move in graph.moves)
    visited = sum(walk.count(move.key) > 0 for move in graph.moves)
    transitions = "1 transition" if taken == 1 else f"{taken} transitions"
    return f"walked: {transitions}, {visited} of {len(graph.moves)} rows"


# --- arrows -----------------------------------------------------------------------------------------------------------


def _kind(line: Line) -> str:
    arrow = line.arrow
    if (arrow.source, arrow.dest) in HAPPY:
        return "main"
    kind = PLACES[arrow.dest].kind if arrow.dest in PLACES and not arrow.loops else "rest"
    return kind if kind in ("cancel", "end") else "plain"


def _depth(line: Line, overlay: _Overlay) -> int:
    """What is drawn later lies on top: what was walked, else the happy path."""
    mark = overlay.mark(line.arrow.moves) or _kind(line)
    return {"faded": 0, "missed": 1, "main": 2, "walked": 3}.get(mark, 1)


def _arrow(line: Line, overlay: _Overlay) -> str:
    kind = overlay.mark(line.arrow.moves) or _kind(line)
    track, head = _track(line)
    title = "\n".join(_told(move, overlay) for move in line.arrow.moves)
    keys = " ".join(".".join(move.key) for move in line.arrow.moves)
    return (
        f'<g class="arrow {kind}" data-moves={quoteattr(keys)}><title>{escape(title)}</title>'
        f'<path class="grip" d="{track}"/>'
        f'<path class="track" d="{track}"/><path class="head" d="{head}"/></g>'
    )


def _told(move: Move, overlay: _Overlay) -> str:
    """A move's tooltip: where it leads, what it runs, how it was walked."""
    verbs = ", ".join(move.verbs) or "nothing"
    told = f"{move.source}: {move.trigger} → {move.dest}\nruns {verbs}"
    if overlay.walk is None:
        return told
    return f"{told}\nwalked {overlay.suffix(move) or 'never'}"


def _track(line: Line) -> tuple[str, str]:
    """The path data of an arrow's line and of its head."""
    points = line.route.points
    tip, before = points[-1], points[-2]
    back = _toward(tip, before, HEAD)
    across_x, across_y = (tip[1] - back[1]) * 0.45, (back[0] - tip[0]) * 0.45
    head = (
        f"M{_at(tip)}L{_at((back[0] + across_x, back[1] + across_y))}L{_at((back[0] - across_x, back[1] - across_y))}Z"
    )
    end = _toward(tip, before, HEAD - 2)
    if line.route.curved:
        return f"M{_at(points[0])}Q{_at(points[1])} {_at(end)}", head
    return _rounded([*points[:-1], end]), head


def _rounded(points: Sequence[Point]) -> str:
    """A line through points with round corners."""
    data = f"M{_at(points[0])}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        radius = min(CORNER, math.dist(before, corner) / 2, math.dist(corner, after) / 2)
        data += f"L{_at(_toward(corner, before, radius))}Q{_at(corner)} {_at(_toward(corner, after, radius))}"
    return data + f"L{_at(points[-1])}"


def _toward(start: Point, end: Point, distance: float) -> Point:
    whole = math.dist(start, end) or 1.0
    return start[0] + (end[0] - start[0]) * distance / whole, start[1] + (end[1] - start[1]) * distance / whole


def _at(point: Point) -> str:
    return f"{_number(point[0])},{_number(point[1])}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


# --- states and labels ------------------------------------------------------------------------------------------------


def _initial(graph: Graph) -> str:
    if graph.initial is None or graph.initial not in PLACES:
        return ""
    x, y = INITIAL_DOT
    left = PLACES[graph.initial].x - PLACES[graph.initial].width / 2
    return (
        f'<g class="arrow main"><title>a new agent begins in {escape(graph.initial)}</title>'
        f'<path class="track" d="M{_at((x, y))}L{_at((left - HEAD + 2, y))}"/>'
        f'<path class="head" d="M{_at((left, y))}l-9,-4l0,8Z"/>'
        f'<circle class="head" cx="{_number(x)}" cy="{_number(y)}" r="5"/></g>'
    )


def _state(state: str, place: Place, graph: Graph, overlay: _Overlay) -> str:
    touching = [move for move in graph.moves if state in (move.source, move.dest)]
    faded = overlay.walk is not None and not any(overlay.walk.count(move.key) for move in touching)
    final = all(move.source != state for move in graph.moves)
    marks = " now" if state == overlay.current else " faded" if faded else ""
    box = Rect(place.x - place.width / 2, place.y - place.height / 2, place.width, place.height)
    spent = _spent(state, graph, overlay)
    lift = 7 if spent else 0
    head = f'<g class="state {place.kind}{marks}" data-state={quoteattr(state)}>'
    return "".join(
        (
            f"{head}<title>{escape(state)}{escape(spent)}</title>",
            _box(box, 0, 8),
            _box(box, 4, 5) if final else "",
            f'<text x="{_number(place.x)}" y="{_number(place.y + 5 - lift)}">{escape(state)}</text>',
            f'<text class="more" x="{_number(place.x)}" y="{_number(place.y + 14)}">{spent}</text>' if spent else "",
            "</g>",
        )
    )


def _box(box: Rect, inset: float, radius: float) -> str:
    """``box`` holds corner and size here."""
    return (
        f'<rect x="{_number(box.left + inset)}" y="{_number(box.top + inset)}"'
        f' width="{_number(box.right - 2 * inset)}" height="{_number(box.bottom - 2 * inset)}" rx="{_number(radius)}"/>'
    )


def _spent(state: str, graph: Graph, overlay: _Overlay) -> str:
    """The time spent in a state, as far as the walk knows it."""
    if overlay.walk is None:
        return ""
    visits = [overlay.walk.visits.get(move.key) for move in graph.moves if move.source == state]
    times = [visit.spent for visit in visits if visit and visit.spent is not None]
    return duration(sum(times)) if times else ""


def _labelled(line: Line) -> Iterable[tuple[Label, Move]]:
    return zip(line.labels, line.arrow.moves, strict=True)


def _label(label: Label, move: Move, line: Line, overlay: _Overlay) -> str:
    kind = overlay.mark([move]) or _kind(line)
    rect = label.rect
    place = 'dx="6.6"' if label.below is None else f'x="{_number(label.below[0])}" y="{_number(label.below[1])}"'
    suffix = f'<tspan class="suffix" {place}>{escape(label.suffix)}</tspan>' if label.suffix else ""
    return (
        f'<g class="label {kind}" data-move={quoteattr(".".join(move.key))}><title>{escape(_told(move, overlay))}</title>'
        f'<rect class="halo" x="{_number(rect.left)}" y="{_number(rect.top)}" width="{_number(rect.right - rect.left)}"'
        f' height="{_number(rect.bottom - rect.top)}" rx="3"/>'
        f'<text x="{_number(label.x)}" y="{_number(label.y)}">{escape(label.text)}{suffix}</text></g>'
    )
