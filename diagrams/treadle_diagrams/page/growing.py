"""The newest turn of a log that grows, as the page's script draws it; and what a page that shows it live is made of."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from attrs import define, field

from treadle import Event
from treadle.session import TurnEnd, TurnStart
from treadle.testing import TABLE

from ..lifecycle.style import page_stylesheet
from ..lifecycle.svg import drawing
from ..log.clock import SteadyClock
from ..log.letters import Letter, Mail
from ..log.spans import Span, spans_of
from .data import letter_data, span_data

MOST_ROWS = 300
"""So many spans, and so many messages, of a turn are told: the last ones."""


@define(eq=False)
class GrowingTurn:
    """Follows a log, event by event, and tells its newest turn.

    It keeps the events of that turn and what became of each message, so that telling takes as long as the turn is, not as
    the log.
    """

    _clock: SteadyClock = field(factory=SteadyClock)
    _mail: Mail = field(factory=Mail)
    _turn: list[Event] = field(factory=list[Event])
    _over: bool = True

    def take(self, events: Iterable[Event]) -> None:
        """Follow the next events of the log."""
        for given in events:
            entry = self._clock.take(given)
            self._mail.take(entry)
            if isinstance(entry.data, TurnStart):
                self._turn, self._over = [], False
            if not self._over:
                self._turn.append(entry)
                self._over = isinstance(entry.data, TurnEnd)

    def told(self, now: int, *, attempting: bool = False) -> bytes:
        """The turn as JSON: ``number``, whether it is ``open``, how far it has come (``until``), its spans and messages.

        Times in it are milliseconds since the turn began.

        Args:
            now: the time of the wall clock, in milliseconds since the epoch.
            attempting: whether the model is being asked.
        """
        if not self._turn:
            return b'{"number":null}'
        began, last = self._turn[0], self._turn[-1]
        assert isinstance(began.data, TurnStart)
        until = last.time if self._over else max(last.time, now + self._clock.ahead)
        spans = spans_of(self._turn, attempting=attempting and not self._over)
        letters = [letter for letter in self._mail.letters if _concerns(letter, began)]
        data: dict[str, Any] = {
            "number": began.data.turn,
            "open": not self._over,
            "until": until - began.time,
            "spans": [span_data(span, began.time) for span in _shown(spans)],
            "letters": [letter_data(letter, began.time) for letter in letters[-MOST_ROWS:]],
            "leftOut": max(0, len(spans) - MOST_ROWS),
        }
        return json.dumps(data, separators=(",", ":")).encode()


def _shown(spans: list[Span]) -> list[Span]:
    """The turn itself, and the last of what is in it."""
    return [*spans[:1], *spans[1:][-(MOST_ROWS - 1) :]]


def _concerns(letter: Letter, began: Event) -> bool:
    """Whether a message was pending when the turn began, or came later."""
    gone = letter.claimed or letter.settled
    return gone is None or gone.seq >= began.seq or letter.turn == getattr(began.data, "turn", None)


class LivePictures:
    """What a page draws of a session while it runs: ``treadle_adapters.web.app(pictures=LivePictures())`` takes it.

    It is the drawing of the page that ``session_page`` makes of a log.

    Attributes:
        lifecycle: the lifecycle as SVG, without a style; ``data-state`` names each state, the class ``now`` marks one.
        style: the rules for the lifecycle and for a turn; the colours of the turn are variables of the page.
        script: a module that exports ``Lanes``, which draws a turn.
    """

    def __init__(self) -> None:
        self.lifecycle = drawing(TABLE, None, "faded", None, "")
        self.style = _static("lanes.css") + page_stylesheet()
        self.script = _static("lanes.js") + "\nexport { Lanes };\n"

    def turn(self) -> GrowingTurn:
        """Something that follows one log from its beginning."""
        return GrowingTurn()


def _static(name: str) -> str:
    return (files("treadle_diagrams.page") / "static" / name).read_text(encoding="utf-8")
