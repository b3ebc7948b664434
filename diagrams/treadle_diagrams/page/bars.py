"""The thin drawings of the page: what took time in a turn, and which state the agent was in at each event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..lifecycle.layout import PLACES
from ..log.passages import Reached
from ..log.spans import Span

MOST_RUNS = 1_500
"""So many changes of state are drawn one by one; where there are more, neighbours are joined."""


class Bar(NamedTuple):
    """One stretch of a turn, in parts of it from 0 to 1."""

    kind: str
    begin: float
    end: float


def bars_by_turn(spans: Iterable[Span]) -> dict[int, list[Bar]]:
    """What took time in each turn: attempts, tools, waits and convergence."""
    turns: dict[int, Span] = {}
    bars: dict[int, list[Bar]] = defaultdict(list)
    for span in spans:
        if span.turn is None:
            continue
        if span.kind == "turn":
            turns[span.turn] = span
        elif span.kind != "step" and span.end is not None and span.turn in turns:
            turn = turns[span.turn]
            whole = (turn.end.time if turn.end is not None else span.end.time) - turn.begin.time
            if whole > 0:
                begin = (span.begin.time - turn.begin.time) / whole
                bars[span.turn].append(
                    Bar(span.kind, max(0.0, begin), min(1.0, (span.end.time - turn.begin.time) / whole))
                )
    return bars


def bars_svg(bars: Sequence[Bar]) -> str:
    """A turn as one thin line, drawn in percent of the width there is; empty where nothing took time."""
    if not bars:
        return ""
    order = sorted(bars, key=lambda bar: bar.kind == "cancel", reverse=True)
    rects = [
        f'<rect class="{bar.kind}" x="{100 * bar.begin:.2f}%" width="{max(0.15, 100 * (bar.end - bar.begin)):.2f}%"'
        f' y="{0 if bar.kind == "cancel" else 1}" height="{6 if bar.kind == "cancel" else 4}"/>'
        for bar in order[:MOST_RUNS]
    ]
    return f'<svg class="bars" height="6" aria-hidden="true">{"".join(rects)}</svg>'


def strip_svg(reached: Sequence[Reached], first: int, count: int, turns: Sequence[tuple[int, int]]) -> str:
    """The whole session as one strip, event by event, coloured by state; turns are numbered below it.

    Args:
        reached: the states, in order.
        first: the seq of the first event.
        count: how many events there are.
        turns: number and first seq of each turn.
    """
    paths: dict[str, list[str]] = defaultdict(list)
    for kind, begin, width in _runs(reached, first, count):
        paths[kind].append(f"M{begin},0h{width}v1h{-width}z")
    drawn = "".join([f'<path class="{kind}" d="{"".join(data)}"/>' for kind, data in paths.items()])
    every = len(turns) // 36 + 1
    ticks = "".join(
        [f'<text x="{100 * (seq - first) / max(1, count):.2f}%" y="31">{turn}</text>' for turn, seq in turns[::every]]
    )
    return (
        f'<svg class="strip" aria-hidden="true"><svg width="100%" height="18" preserveAspectRatio="none"'
        f' viewBox="0 0 {max(1, count)} 1">{drawn}</svg>{ticks}</svg>'
    )


def _runs(reached: Sequence[Reached], first: int, count: int) -> list[tuple[str, int, int]]:
    """Stretches of events in states of one kind: kind, begin, length."""
    grain = max(1, -(-count // MOST_RUNS)) if len(reached) > MOST_RUNS else 1
    runs: list[tuple[str, int, int]] = []
    kind, begin = "rest", 0
    for at in [*reached, None]:
        place = (at.seq - first) // grain * grain if at is not None else count
        if place > begin:
            runs.append((kind, begin, place - begin))
            begin = place
        if at is not None:
            kind = f"{PLACES[at.state.value].kind} {at.state.value}" if at.state.value in PLACES else "foreign"
    return runs
