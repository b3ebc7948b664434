"""Spans after the fact: whole logs, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle import Event, SessionHeader

from .content import Content
from .fold import Fold
from .spans import Link, Silent, Sink, Span

Log = tuple[SessionHeader, Sequence[Event]]


def replay(
    header: SessionHeader,
    events: Iterable[Event],
    sink: Sink,
    *,
    content: Content | None = None,
    agent_name: str | None = None,
    made_by: Link | None = None,
) -> None:
    """Give a sink the spans of a log. One that ends within a turn has its spans end with the last event."""
    fold = Fold(header, sink, content, agent_name)
    fold.made_by = made_by
    for entry in events:
        fold.take(entry)
    fold.cut()


class Family:
    """Finds, among several logs, the call in which a sub-agent was made.

    A log tells whose sub-agent its session is, and when it was created, but not by which call. So it is the one call of
    the parent that was under way then; if there were several, nothing is said.
    """

    def __init__(self, logs: Sequence[Log]) -> None:
        self._calls: dict[str, list[Span]] = {}
        parents = {header.parent_session for header, _ in logs if header.origin == "subagent"}
        for header, events in logs:
            if header.id in parents:
                calls = _Calls()
                replay(header, events, calls)
                self._calls[header.id] = calls.found

    def made_by(self, header: SessionHeader) -> Link | None:
        """The call that made this session, ``None`` where it is not known."""
        if header.origin != "subagent" or header.parent_session is None:
            return None
        at = header.created_at
        open_then = [
            span
            for span in self._calls.get(header.parent_session, ())
            if span.begin <= at and (span.end is None or at <= span.end)
        ]
        if len(open_then) != 1:
            return None
        return Link(open_then[0].ref, "subagent", open_then[0].root.ref)


class _Calls(Silent):
    def __init__(self) -> None:
        self.found: list[Span] = []

    def end(self, span: Span) -> None:
        if span.kind == "execute_tool":
            self.found.append(span)
