"""What happens, told to stdlib ``logging``; and where a record belongs, for any handler or structlog.

The tree of loggers. Nothing that was said, no argument, no result and no failure's text is in any record: ids, names,
codes and durations only.

| logger | tells | levels |
| --- | --- | --- |
| ``treadle`` | what the core has to say | as there; at DEBUG with what tools raised, whatever that says |
| ``treadle.turn`` | turns | ERROR: it failed; INFO: it ended otherwise; DEBUG: it began |
| ``treadle.model`` | attempts | WARNING: it failed, or is tried again; DEBUG: it gave an answer, or was stopped |
| ``treadle.tool`` | calls | WARNING: it failed; DEBUG: it gave a result, or was stopped |
| ``treadle.telemetry`` | telemetry itself | WARNING: something was dropped, or an exporter failed |
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any

from attrs import frozen
from opentelemetry import trace

from treadle.agent import current_initiator

from ..traces import names
from ..traces.spans import Link, Span, Value

TURNS = logging.getLogger("treadle.turn")
MODELS = logging.getLogger("treadle.model")
TOOLS = logging.getLogger("treadle.tool")

_STOPPED = frozenset({"interrupted", "ABORTED", "ABORTED_BEFORE_DISPATCH"})


@frozen
class Where:
    """The turn and step that code runs for."""

    session: str
    turn: int
    step: int


WHERE: ContextVar[Where | None] = ContextVar("treadle_where", default=None)
"""Where the running task belongs: set in attempts, tools, and whatever they start."""


class LogSink:
    """A sink that tells a logger."""

    def begin(self, span: Span) -> None:
        """See ``Sink.begin``."""
        if span.kind == "turn" and TURNS.isEnabledFor(logging.DEBUG):
            TURNS.debug("%s of %s began", span.name, span.ref.session, extra=_extra(span))

    def end(self, span: Span) -> None:
        """See ``Sink.end``."""
        match span.kind:
            case "turn":
                level = logging.ERROR if span.error is not None else logging.INFO
                self._tell(TURNS, level, span, str(span.attributes.get(names.TURN_END)))
            case "chat":
                self._tell(MODELS, _level(span), span, "answered")
            case "execute_tool":
                self._tell(TOOLS, _level(span), span, "done")
            case _:
                pass

    def link(self, span: Span, link: Link) -> None:
        """See ``Sink.link``."""

    def note(self, span: Span, name: str, time: int, attributes: Mapping[str, Value]) -> None:  # noqa: ARG002 - the interface
        """See ``Sink.note``."""
        if name == "retry" and MODELS.isEnabledFor(logging.WARNING):
            delay, code = attributes[names.DELAY], attributes[names.ERROR]
            MODELS.warning(
                "%s of %s: %s, again in %.1f s", span.name, span.ref.session, code, delay, extra=_extra(span)
            )

    def claimed(self, span: Span, waited: float) -> None:
        """See ``Sink.claimed``."""

    def _tell(self, logger: logging.Logger, level: int, span: Span, went: str) -> None:
        if logger.isEnabledFor(level):
            ended = f"{went} ({span.error})" if span.error is not None and span.kind == "turn" else span.error or went
            logger.log(
                level, "%s of %s: %s after %.3f s", span.name, span.ref.session, ended, span.seconds, extra=_extra(span)
            )


def _level(span: Span) -> int:
    return logging.DEBUG if span.error is None or span.error in _STOPPED else logging.WARNING


def _extra(span: Span) -> dict[str, Any]:
    """Where a record of a span belongs: it is told later, and from another place."""
    context = span.live.get_span_context() if span.live is not None else trace.INVALID_SPAN_CONTEXT
    turn = span.attributes.get(names.TURN) or (span.parent and span.parent.attributes.get(names.TURN)) or 0
    return _fields(context, span.ref.session, turn, span.attributes.get(names.STEP, 0))


def _fields(context: trace.SpanContext, session: str, turn: Any, step: Any) -> dict[str, Any]:
    return {
        "trace_id": trace.format_trace_id(context.trace_id) if context.is_valid else "",
        "span_id": trace.format_span_id(context.span_id) if context.is_valid else "",
        "session": session,
        "turn": turn,
        "step": step,
    }


def where() -> dict[str, Any]:
    """Where the running code belongs: ``trace_id``, ``span_id``, ``session``, ``turn``, ``step``; empty or 0 if nowhere."""
    agent, at = current_initiator(), WHERE.get()
    session = at.session if at is not None else str(agent.id) if agent is not None else ""
    turn, step = (at.turn, at.step) if at is not None else (0, 0)
    return _fields(trace.get_current_span().get_span_context(), session, turn, step)


class RecordContext(logging.Filter):
    """Puts ``where`` into every record that passes a handler: for ``handler.addFilter(RecordContext())``."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add what the record does not have yet; lets all pass."""
        for name, value in where().items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


def record_context(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The same as a processor of structlog: what is not empty is added to the event."""
    for name, value in where().items():
        if value:
            event.setdefault(name, value)
    return event
