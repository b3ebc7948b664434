"""Where things lie: places of the known states and routes of the known arrows, chosen by hand, in SVG units.

The happy path is one row from left to right. What brings a turn back runs above it; what stops it, and what comes
after, lies below. States and arrows that are not listed here get a place by themselves (``routing``).
"""

from __future__ import annotations

from typing import Literal

from attrs import frozen

Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]
Kind = Literal["rest", "run", "cancel", "maintain", "end", "foreign"]

BOX_HEIGHT = 44.0
LOOP_WIDTH, LOOP_HEIGHT = 24.0, 20.0


@frozen
class Place:
    """A state's box, by its centre; ``kind`` chooses its colours."""

    x: float
    y: float
    width: float
    kind: Kind
    height: float = BOX_HEIGHT


@frozen
class Spot:
    """Where the labels of an arrow stand.

    Attributes:
        x: the side or middle that ``anchor`` names.
        y: the base line of the first label, or of the last line where they stack upwards.
        anchor: which part of each label lies at ``x``.
        upwards: whether further labels go above the first.
        narrow: whether what stands behind a label goes on a line of its own below it.
    """

    x: float
    y: float
    anchor: Anchor = "start"
    upwards: bool = False
    narrow: bool = False


@frozen
class Route:
    """The way of an arrow, from border to border, and its labels' spot."""

    points: tuple[Point, ...]
    spot: Spot
    curved: bool = False


# fmt: off
PLACES: dict[str, Place] = {
    "idle":               Place(125, 200, 110, "rest"),
    "admission":          Place(390, 200, 130, "run"),
    "step":               Place(645, 200, 110, "run"),
    "turn_stopping":      Place(880, 200, 140, "run"),
    "maintenance":        Place(125, 430, 130, "maintain"),
    "cancel_convergence": Place(390, 430, 180, "cancel"),
    "disposal":           Place(660, 430, 110, "end"),
    "disposed":           Place(880, 430, 110, "end"),
}
# fmt: on

HAPPY: frozenset[tuple[str, str]] = frozenset({("idle", "admission"), ("admission", "step"), ("step", "turn_stopping")})

INITIAL_DOT: Point = (38, 192)


def _loop(x: float, y: float, spot: Spot, *, below: bool = False) -> Route:
    """A small loop on a box's upper or lower side, beginning at ``(x, y)``."""
    far = y + LOOP_HEIGHT if below else y - LOOP_HEIGHT
    return Route(((x, y), (x, far), (x + LOOP_WIDTH, far), (x + LOOP_WIDTH, y)), spot)


def loop_of(place: Place) -> Route:
    """The loop of a box that has none chosen by hand: on its upper side, at the right."""
    x, y = place.x + place.width / 2 - LOOP_WIDTH - 10, place.y - place.height / 2
    return _loop(x, y, Spot(x + LOOP_WIDTH / 2, y - LOOP_HEIGHT - 7, "middle", upwards=True))


ROUTES: dict[tuple[str, str], Route] = {
    # the happy path
    ("idle", "admission"): Route(((180, 192), (325, 192)), Spot(246, 184, "middle", upwards=True)),
    ("admission", "step"): Route(((455, 192), (590, 192)), Spot(518, 184, "middle")),
    ("step", "turn_stopping"): Route(((700, 192), (810, 192)), Spot(751, 184, "middle")),
    # back, directly or over the top
    ("step", "admission"): Route(((590, 210), (455, 210)), Spot(526, 228, "middle")),
    ("turn_stopping", "admission"): Route(
        ((835, 178), (835, 105), (420, 105), (420, 178)), Spot(640, 97, upwards=True)
    ),
    ("turn_stopping", "idle"): Route(((880, 178), (880, 40), (140, 40), (140, 178)), Spot(890, 72)),
    ("step", "idle"): Route(((620, 178), (620, 40), (140, 40), (140, 178)), Spot(611, 72, "end")),
    ("admission", "idle"): Route(((355, 178), (355, 40), (140, 40), (140, 178)), Spot(346, 88, "end")),
    # a cancel, down and to one side, and back to rest
    ("admission", "cancel_convergence"): Route(((445, 222), (445, 408)), Spot(454, 268)),
    ("step", "cancel_convergence"): Route(((615, 222), (615, 315), (445, 315), (445, 408)), Spot(606, 290, "end")),
    ("turn_stopping", "cancel_convergence"): Route(
        ((835, 222), (835, 315), (445, 315), (445, 408)), Spot(826, 290, "end")
    ),
    ("maintenance", "cancel_convergence"): Route(((190, 440), (300, 440)), Spot(240, 458, "middle", narrow=True)),
    ("cancel_convergence", "idle"): Route(
        ((330, 408), (330, 350), (207, 350), (207, 210), (180, 210)), Spot(214, 262, narrow=True)
    ),
    # maintenance, between turns
    ("idle", "maintenance"): Route(((98, 222), (98, 408)), Spot(90, 312, "end", narrow=True)),
    ("maintenance", "idle"): Route(((132, 408), (132, 222)), Spot(140, 312, narrow=True)),
    ("maintenance", "admission"): Route(((190, 422), (284, 422), (284, 210), (325, 210)), Spot(292, 314, narrow=True)),
    # the end
    ("admission", "disposal"): Route(((424, 222), (424, 350), (668, 350), (668, 408)), Spot(470, 342)),
    ("step", "disposal"): Route(((668, 222), (668, 408)), Spot(677, 268)),
    ("turn_stopping", "disposal"): Route(((915, 222), (915, 350), (668, 350), (668, 408)), Spot(924, 268)),
    ("cancel_convergence", "disposal"): Route(
        ((480, 430), (605, 430)), Spot(538, 422, "middle", upwards=True, narrow=True)
    ),
    ("maintenance", "disposal"): Route(((150, 452), (150, 505), (660, 505), (660, 452)), Spot(175, 498)),
    ("disposal", "disposed"): Route(((715, 430), (825, 430)), Spot(766, 422, "middle", upwards=True, narrow=True)),
    ("idle", "disposed"): Route(((70, 210), (18, 210), (18, 532), (880, 532), (880, 452)), Spot(175, 525)),
    # small loops
    ("idle", "idle"): _loop(82, 178, Spot(94, 151, "middle", upwards=True)),
    ("admission", "admission"): _loop(340, 222, Spot(352, 257, "middle"), below=True),
    ("step", "step"): _loop(655, 178, Spot(667, 151, "middle", upwards=True)),
    ("turn_stopping", "turn_stopping"): _loop(905, 178, Spot(917, 151, "middle", upwards=True)),
    ("maintenance", "maintenance"): _loop(82, 452, Spot(94, 487, "middle"), below=True),
    ("cancel_convergence", "cancel_convergence"): _loop(330, 452, Spot(342, 487, "middle"), below=True),
}
