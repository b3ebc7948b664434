"""A host whose agents are watched, and what was seen of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, field
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from treadle import Event, Host, SessionHeader
from treadle_adapters.telemetry import LogIds, Telemetry
from treadle_adapters.telemetry.outgoing import Outgoing
from treadle_adapters.telemetry.tracer import TracerSink, Tracing
from treadle_adapters.traces import Content, replay
from treadle_adapters.traces.spans import Silent, Span

Seen = tuple[tuple[str, ...], int, int, tuple[tuple[str, Any], ...]]
"""A span: the names from the root to it, its times in nanoseconds, its attributes."""


@define
class Watch:
    """What is watched, and where spans go.

    Attributes:
        telemetry: the telemetry under test.
        kept: keeps every span that was exported.
    """

    telemetry: Telemetry
    kept: InMemorySpanExporter

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """What was exported so far."""
        return self.kept.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        """The one span of that name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found


def watch(exporter: SpanExporter | None = None, *, ids: bool = True, **options: Any) -> Watch:
    """Telemetry into memory, and into another exporter if one is given."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(id_generator=LogIds() if ids else None)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    if exporter is not None:
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Watch(Telemetry(tracer_provider=provider, **options), kept)


@asynccontextmanager
async def watched_host(given: Watch, **options: Any) -> AsyncIterator[Host]:
    """A host that is watched; at its end everything has been exported, and no span is open."""
    async with Host(**options) as host:
        given.telemetry.install(host)
        yield host
    assert given.telemetry.open_spans == 0
    assert given.telemetry.failed == 0


def seen(spans: Sequence[ReadableSpan], *, without: Sequence[str] = ("maintenance", "flush")) -> list[Seen]:
    """Spans in a form in which they can be compared; those of which a log tells nothing are left out."""
    by_id = {span.context.span_id: span for span in spans if span.context is not None}

    def path(span: ReadableSpan) -> tuple[str, ...]:
        parent = by_id.get(span.parent.span_id) if span.parent is not None else None
        return (span.name,) if parent is None or parent.name in without else (*path(parent), span.name)

    out = [
        (path(span), span.start_time or 0, span.end_time or 0, tuple(sorted((span.attributes or {}).items())))
        for span in spans
        if span.name not in without
    ]
    return sorted(out, key=repr)


def afterwards(header: SessionHeader, events: Sequence[Event], content: Content | None = None) -> Watch:
    """The spans of a log, made by the same API after the fact."""
    given = watch()
    provider = TracerProvider(id_generator=LogIds())
    provider.add_span_processor(SimpleSpanProcessor(given.kept))
    outgoing = Outgoing(1_000_000)
    tracing = Tracing(provider.get_tracer("treadle"), outgoing)
    replay(header, events, TracerSink(tracing, lambda: None), content=content)
    assert outgoing.drain(60)
    assert tracing.open == 0
    return given


@define
class Tree(Silent):
    """Keeps the spans of a fold: those that have begun, and those that have ended."""

    begun: list[Span] = field(factory=list[Span])
    ended: list[Span] = field(factory=list[Span])

    def begin(self, span: Span) -> None:
        self.begun.append(span)

    def end(self, span: Span) -> None:
        self.ended.append(span)

    def of(self, kind: str) -> list[Span]:
        """The spans of a kind, in the order in which they began."""
        return [span for span in self.begun if span.kind == kind]


def tree_of(header: SessionHeader, events: Sequence[Event]) -> Tree:
    """The spans of a log."""
    tree = Tree()
    replay(header, events, tree)
    return tree
