"""The monitor of one log, and the checks of a live session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InvariantViolated
from ..words import events as ev
from ..words.events import Event
from . import history, inbox, requests, turns
from .state import Breach, LogState

if TYPE_CHECKING:
    from ..models.adapter import ModelRequest
    from ..session.log import Session, SessionHeader

_TAKERS: dict[type, Callable[[LogState, Any, Event], None]] = {
    ev.TurnStart: turns.turn_start,
    ev.TurnEnd: turns.turn_end,
    ev.StepStart: turns.step_start,
    ev.StepEnd: turns.step_end,
    ev.AssistantMessageAdded: turns.answer,
    ev.AssistantAttempt: turns.attempt,
    ev.ToolCallStarted: turns.tool_call,
    ev.ToolResultAdded: turns.tool_result,
    ev.InboxSpliced: inbox.spliced,
    ev.UserMessageAdded: inbox.user_message,
    ev.SystemMessageAdded: requests.system_message,
    ev.RequestHeader: requests.header,
    ev.RequestContext: requests.context,
    ev.RetryScheduled: requests.retry_scheduled,
    ev.RetryStarted: requests.retry_started,
    ev.EndSeed: requests.end_seed,
    ev.PresetSelected: requests.preset_selected,
}
_AT_ONCE = (ev.InboxSpliced, ev.TurnEnd, ev.StepStart)
"""Events that settle by themselves what must follow at once."""
_BARE = frozenset([kind for kind in _TAKERS if not ev.BY_CLASS[kind].surface])
"""Events that carry no surface metadata."""


_NONE: tuple[Breach, ...] = ()


class LogMonitor:
    """Reads a log, event by event, and notes every broken rule.

    It goes on after a breach as well as it can. What it notes holds of logs by any writer of this vocabulary.
    """

    __slots__ = ("_log",)

    def __init__(self) -> None:
        self._log = LogState()

    @property
    def log(self) -> LogState:
        """What it remembers of the events so far; for what keeps that and begins from it again (S11)."""
        return self._log

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """Every broken rule so far, in the order of their events, but for those that only a turn's end shows."""
        return tuple(self._log.breaches)

    def take(self, entry: Event) -> Sequence[Breach]:
        """Take the next event; returns the rules that it breaks."""
        log, seq = self._log, entry.seq
        known = len(log.breaches)
        if seq != log.seq:
            log.note("N6", f"number {seq} stands where {log.seq} is due", seq)
            log.seq = seq
        data = entry.data
        kind: type[object] = data.__class__
        if log.moving is not None and kind is not ev.InboxSpliced:
            inbox.settle_move(log)
        if log.turn.due and kind not in _AT_ONCE:
            log.doubt("I5", f"{entry.type} precedes the claim that the turn begins with")
            log.turn.due.clear()
        if kind not in _BARE or entry.surface_op is not None or entry.source_event_seqs is not None:
            history.surface(log, entry)
        taker = _TAKERS.get(kind)
        if taker is not None:
            taker(log, data, entry)
        elif kind is dict and not entry.ignorable:
            log.note("S2", f"type {entry.type!r} is unknown here and not ignorable")
        log.seq = seq + 1
        return log.breaches[known:] if len(log.breaches) > known else _NONE

    @property
    def unfinished(self) -> str | None:
        """What is left open at the end of the events so far, ``None`` when nothing is."""
        turn, step = self._log.turn, self._log.step
        if not turn.open:
            return None
        return f"step {turn.number}.{step.number}" if step.open else f"turn {turn.number}"

    def misfit(self, header: SessionHeader) -> str | None:
        """How the session's header contradicts the events so far, ``None`` when it does not (S5)."""
        found = self._log.inherited
        if header.inherited == found:
            return None
        return f"the header says that {header.inherited} events were inherited, and the log says {found}"

    def compare(self, request: ModelRequest) -> str | None:
        """How a request differs from the one that the events so far give, ``None`` when it does not (Q1, N1)."""
        log = self._log
        if log.header is None:
            return "no request header was recorded"
        if request.config != log.header.config:
            return f"its config is {request.config}, and the log's header says {log.header.config}"
        if request.tools != log.header.tools:
            return "its tools are not those of the log's header"
        broken = history.unanswered(log.history)
        if broken:
            return f"these calls or results lack their other half: {', '.join(broken)} (N1)"
        return history.difference(log.history, list(request.messages))


class SessionChecks:
    """The checks of one live session: every event as it is committed, every request as it is made.

    Args:
        session: what it holds already is taken in first; breaches of the past are not raised.
        monitor: what has taken that in already, where something has.
    """

    __slots__ = ("_monitor", "_session")

    def __init__(self, session: Session, monitor: LogMonitor | None = None) -> None:
        self._session = session
        self._monitor = LogMonitor() if monitor is None else monitor
        if monitor is None:
            for entry in session.events:
                self._monitor.take(entry)

    def take(self, entry: Event) -> None:
        """Check the event that was just committed.

        Raises:
            InvariantViolated: it breaks a rule.
        """
        breaches = self._monitor.take(entry)
        if breaches:
            first = breaches[0]
            raise InvariantViolated(first.rule, first.message, first.seq)

    def check_request(self, request: ModelRequest) -> None:
        """Check a request against the log (Q1, N1).

        Raises:
            InvariantViolated: it is not the request that the log gives.
        """
        _compare(self._monitor, request, len(self._session))


def check_request(session: Session, request: ModelRequest) -> None:
    """Rebuild a request from the whole log and compare (Q1, N1). ``SessionChecks`` does so at the cost of the new events.

    Raises:
        InvariantViolated: it is not the request that the log gives.
    """
    monitor = LogMonitor()
    for entry in session.events:
        monitor.take(entry)
    _compare(monitor, request, len(session))


def _compare(monitor: LogMonitor, request: ModelRequest, seq: int) -> None:
    wrong = monitor.compare(request)
    if wrong is not None:
        raise InvariantViolated("Q1", f"a request does not rebuild from the log: {wrong}", seq)
