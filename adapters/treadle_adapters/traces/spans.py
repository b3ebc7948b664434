"""A span, what it points to, and what takes spans as they begin and end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec
from attrs import define, field, frozen

from treadle.models import TimedStream

Kind = Literal["invoke_agent", "turn", "step", "chat", "execute_tool", "convergence", "maintenance", "flush"]
"""What a span is of: the first four are nested in this order, calls and attempts stand side by side in a step."""

Value = str | int | float | bool | tuple[str, ...]
"""What an attribute may be."""


class Ref(msgspec.Struct, frozen=True, gc=False):
    """Names one span of one session, wherever and whenever it is made: by the event with which it begins.

    Attributes:
        session: the session's id.
        seq: the event's position in the log.
        time: the event's time, in milliseconds since the epoch; it tells equal ids of different sessions apart.
        kind: of the span.
    """

    session: str
    seq: int
    time: int
    kind: Kind


class Link(msgspec.Struct, frozen=True, gc=False):
    """A span that another one has to do with.

    Attributes:
        ref: that span.
        why: how: ``fork``, ``resume`` or ``subagent``.
        root: the root of its trace.
    """

    ref: Ref
    why: Literal["fork", "resume", "subagent"]
    root: Ref


@define(eq=False)
class Span:
    """One thing that took time. Times are in milliseconds since the epoch, as the log has them, and never go back.

    Attributes:
        kind: what it is of.
        name: what it is called, by the conventions.
        ref: its name across processes.
        begin: when it began.
        parent: the span around it in its own session.
        attributes: what is known of it.
        links: what else it has to do with.
        end: when it ended; ``None`` while it is open.
        error: the code of what it failed with.
        stream: of an attempt, every chunk with its time.
        late: gives attributes that take long to make, asked for once it has ended.
        live: whatever a sink keeps with it.
        told: how many of its attributes that sink has been told; more are only ever added.
    """

    kind: Kind
    name: str
    ref: Ref
    begin: int
    parent: Span | None
    attributes: dict[str, Value]
    links: tuple[Link, ...] = ()
    end: int | None = None
    error: str | None = None
    stream: TimedStream | None = None
    late: list[Callable[[], Mapping[str, Value]]] = field(factory=list[Callable[[], Mapping[str, Value]]])
    live: Any = None
    told: int = 0

    @property
    def root(self) -> Span:
        """The outermost span around it."""
        span = self
        while span.parent is not None:
            span = span.parent
        return span

    @property
    def made_by(self) -> Link | None:
        """The call of another session that this root was made in: a sub-agent's job is part of its parent's trace."""
        for link in self.links:
            if link.why == "subagent":
                return link
        return None

    @property
    def seconds(self) -> float:
        """How long it took; 0 while it is open."""
        return 0.0 if self.end is None else (self.end - self.begin) / 1000

    def told_late(self) -> dict[str, Value]:
        """The attributes that were left for the end."""
        out: dict[str, Value] = {}
        for give in self.late:
            out.update(give())
        return out


class Sink(Protocol):
    """Takes spans as a fold makes them. A span's parent has begun before it."""

    def begin(self, span: Span) -> None:
        """A span begins."""
        ...

    def end(self, span: Span) -> None:
        """It has ended; its attributes are complete."""
        ...

    def link(self, span: Span, link: Link) -> None:
        """An open span turns out to have to do with another one."""
        ...

    def note(self, span: Span, name: str, time: int, attributes: Mapping[str, Value]) -> None:
        """Something happened in an open span."""
        ...

    def claimed(self, span: Span, waited: float) -> None:
        """The turn of this span took a message that had waited so many seconds."""
        ...


class Silent:
    """A sink that nobody hears."""

    def begin(self, span: Span) -> None:
        """See ``Sink.begin``."""

    def end(self, span: Span) -> None:
        """See ``Sink.end``."""

    def link(self, span: Span, link: Link) -> None:
        """See ``Sink.link``."""

    def note(self, span: Span, name: str, time: int, attributes: Mapping[str, Value]) -> None:
        """See ``Sink.note``."""

    def claimed(self, span: Span, waited: float) -> None:
        """See ``Sink.claimed``."""


SILENT: Sink = Silent()
"""Hears nothing."""


@frozen(eq=False)
class Several:
    """Hands everything to several sinks, in order."""

    sinks: tuple[Sink, ...]

    def begin(self, span: Span) -> None:
        """See ``Sink.begin``."""
        for sink in self.sinks:
            sink.begin(span)

    def end(self, span: Span) -> None:
        """See ``Sink.end``."""
        for sink in self.sinks:
            sink.end(span)

    def link(self, span: Span, link: Link) -> None:
        """See ``Sink.link``."""
        for sink in self.sinks:
            sink.link(span, link)

    def note(self, span: Span, name: str, time: int, attributes: Mapping[str, Value]) -> None:
        """See ``Sink.note``."""
        for sink in self.sinks:
            sink.note(span, name, time, attributes)

    def claimed(self, span: Span, waited: float) -> None:
        """See ``Sink.claimed``."""
        for sink in self.sinks:
            sink.claimed(span, waited)
