"""Lays a graph out: hand-chosen places and routes where there are some, its own for everything else."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from attrs import frozen

from .graph import Arrow, Graph
from .layout import BOX_HEIGHT, PLACES, ROUTES, Anchor, Place, Point, Route, Spot, loop_of

CHAR = 7.83
"""Width of one character of a label: 0.602 of its 13 units, as monospaced faces have it."""
SMALL_CHAR = 6.63
"""Width of one character of what stands behind a label, at 11 units."""
LINE = 16.0
"""From one label's base line to the next."""
BENDS = (0.25, -0.25, 0.4, -0.4, 0.6, -0.6, 0.12, 0.85, -0.85)
"""How far curves leave the straight line, in the order in which they are tried."""
COLUMNS = (125.0, 390.0, 645.0, 880.0)
"""Where states without a place of their own stand."""


@frozen
class Rect:
    """An upright rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Rect) -> float:
        """The area they share."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(wide, 0.0) * max(high, 0.0)


@frozen
class Label:
    """One trigger's text: its base line's left end, and the room it takes.

    ``suffix`` stands behind it, smaller, or ``below`` it, at the point given.
    """

    x: float
    y: float
    text: str
    suffix: str
    rect: Rect
    below: Point | None = None


@frozen
class Line:
    """An arrow on paper, with one label per move, in order."""

    arrow: Arrow
    route: Route
    labels: tuple[Label, ...]


@frozen
class Plan:
    """The whole drawing on paper."""

    places: Mapping[str, Place]
    lines: tuple[Line, ...]
    bounds: Rect


def plan_of(graph: Graph, suffixes: Mapping[tuple[str, str], str] | None = None) -> Plan:
    """Lay a graph out.

    Args:
        graph: what to draw.
        suffixes: what stands behind the label of a move, by its key.
    """
    places = place_states(graph.states)
    boxes = [box_of(place) for place in places.values()]
    routes = {arrow: route_of(arrow, places) for arrow in graph.arrows}
    taken = list(boxes)
    lines: dict[Arrow, Line] = {}
    for arrow in sorted(graph.arrows, key=lambda arrow: (arrow.source, arrow.dest) not in ROUTES):
        texts = [(move.trigger, (suffixes or {}).get(move.key, "")) for move in arrow.moves]
        labels = _best(texts, routes[arrow], taken)
        taken += [label.rect for label in labels]
        lines[arrow] = Line(arrow, routes[arrow], labels)
    corners = [Rect(x, y, x, y) for route in routes.values() for x, y in route.points]
    return Plan(places, tuple(lines[arrow] for arrow in graph.arrows), _around([*taken, *corners]))


# --- states -----------------------------------------------------------------------------------------------------------


def box_of(place: Place) -> Rect:
    """The rectangle of a state."""
    wide, high = place.width / 2, place.height / 2
    return Rect(place.x - wide, place.y - high, place.x + wide, place.y + high)


def place_states(states: Sequence[str]) -> dict[str, Place]:
    """A place for every state; those unknown here stand in rows below the known ones."""
    known = {state: PLACES[state] for state in states if state in PLACES}
    foreign = [state for state in states if state not in PLACES]
    top = max((place.y for place in known.values()), default=-60.0) + 180.0
    for index, state in enumerate(foreign):
        row, column = divmod(index, len(COLUMNS))
        width = max(90.0, 8.6 * len(state) + 26)
        known[state] = Place(COLUMNS[column], top + 130 * row, width, "foreign", BOX_HEIGHT)
    return known


# --- arrows -----------------------------------------------------------------------------------------------------------


def route_of(arrow: Arrow, places: Mapping[str, Place]) -> Route:
    """The way of an arrow: by hand where it is known, else a loop or a curve beside the straight line."""
    by_hand = ROUTES.get((arrow.source, arrow.dest))
    if by_hand is not None:
        return by_hand
    if arrow.loops:
        return loop_of(places[arrow.source])
    source, dest = places[arrow.source], places[arrow.dest]
    others = [box_of(place) for state, place in places.items() if state not in (arrow.source, arrow.dest)]
    return min((_curve(source, dest, bend) for bend in BENDS), key=lambda route: _hidden(route, others))


def _curve(source: Place, dest: Place, bend: float) -> Route:
    """A curve that leaves the straight line by ``bend``, as part of its length, to the left of the way."""
    away_x, away_y = dest.x - source.x, dest.y - source.y
    middle = (source.x + dest.x) / 2 + bend * away_y, (source.y + dest.y) / 2 - bend * away_x
    points = (_border(source, middle), middle, _border(dest, middle))
    return Route(points, Spot(*_along(points, 0.5, curved=True), "middle"), curved=True)


def _hidden(route: Route, boxes: Sequence[Rect]) -> int:
    """How much of a curve lies under boxes."""
    spots = [_along(route.points, part / 40, curved=True) for part in range(41)]
    return sum(box.overlap(Rect(x - 6, y - 6, x + 6, y + 6)) > 0 for x, y in spots for box in boxes)


def _border(place: Place, toward: Point) -> Point:
    """Where the line from a box's centre to ``toward`` leaves the box."""
    away_x, away_y = toward[0] - place.x, toward[1] - place.y
    scale = min(
        place.width / 2 / abs(away_x) if away_x else math.inf,
        place.height / 2 / abs(away_y) if away_y else math.inf,
    )
    return place.x + away_x * scale, place.y + away_y * scale


def _along(points: Sequence[Point], part: float, *, curved: bool) -> Point:
    """The point that lies ``part`` (0–1) of the way along a route."""
    if curved:
        (ax, ay), (bx, by), (cx, cy) = points
        start, bent, end = (1 - part) ** 2, 2 * part * (1 - part), part**2
        return start * ax + bent * bx + end * cx, start * ay + bent * by + end * cy
    legs = [math.dist(one, other) for one, other in pairwise(points)]
    rest = part * sum(legs)
    for ((ax, ay), (bx, by)), leg in zip(pairwise(points), legs, strict=True):
        if rest <= leg and leg:
            return ax + (bx - ax) * rest / leg, ay + (by - ay) * rest / leg
        rest -= leg
    return points[-1]


# --- labels -----------------------------------------------------------------------------------------------------------


def _best(texts: Sequence[tuple[str, str]], route: Route, taken: Sequence[Rect]) -> tuple[Label, ...]:
    """The labels at the first spot where they overlap nothing, else where they overlap least."""
    best: tuple[Label, ...] = ()
    least = math.inf
    for spot in _spots(route):
        labels = _stack(texts, spot)
        overlap = sum(label.rect.overlap(other) for label in labels for other in taken)
        if overlap < least:
            best, least = labels, overlap
        if not overlap:
            break
    return best


def _spots(route: Route) -> Iterator[Spot]:
    """The route's own spot, then others beside it, the middle first."""
    yield route.spot
    sides: tuple[tuple[Anchor, float, float], ...] = (("start", 8, 4), ("end", -8, 4), ("middle", 0, -7))
    for shift in (0, -LINE, LINE, -2 * LINE, 2 * LINE):
        for part in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9):
            x, y = _along(route.points, part, curved=route.curved)
            for anchor, across, down in sides:
                yield Spot(x + across, y + down + shift, anchor, upwards=anchor == "middle")


def _stack(texts: Sequence[tuple[str, str]], spot: Spot) -> tuple[Label, ...]:
    """Labels one below the other; a narrow spot gives every suffix a line of its own."""
    heights = [LINE * (1 + bool(suffix and spot.narrow)) for _, suffix in texts]
    y = spot.y - (sum(heights) - LINE) if spot.upwards else spot.y
    labels: list[Label] = []
    for (text, suffix), height in zip(texts, heights, strict=True):
        labels.append(_narrow(text, suffix, spot, y) if height > LINE else _label(text, suffix, spot, y))
        y += height
    return tuple(labels)


def _label(text: str, suffix: str, spot: Spot, y: float) -> Label:
    width = CHAR * len(text) + (SMALL_CHAR * (len(suffix) + 1) if suffix else 0)
    x = _left(spot, width)
    return Label(x, y, text, suffix, Rect(x - 2, y - 11, x + width + 2, y + 4))


def _narrow(text: str, suffix: str, spot: Spot, y: float) -> Label:
    wide, small = CHAR * len(text), SMALL_CHAR * len(suffix)
    x, below = _left(spot, wide), (_left(spot, small), y + LINE - 2)
    right = max(x + wide, below[0] + small)
    return Label(x, y, text, suffix, Rect(min(x, below[0]) - 2, y - 11, right + 2, below[1] + 4), below)


def _left(spot: Spot, width: float) -> float:
    return spot.x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[spot.anchor]


def _around(rects: Sequence[Rect]) -> Rect:
    """The rectangle around all of them."""
    return Rect(
        min((rect.left for rect in rects), default=0.0),
        min((rect.top for rect in rects), default=0.0),
        max((rect.right for rect in rects), default=0.0),
        max((rect.bottom for rect in rects), default=0.0),
    )
