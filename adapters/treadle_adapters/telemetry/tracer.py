"""Spans by OpenTelemetry's API: begun in the agent's thread, so that their ids are there, and ended in another."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from itertools import islice

from attrs import define, field
from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from ..traces import names
from ..traces.otlp import span_id, trace_id
from ..traces.spans import Kind, Link, Ref, Span, Value
from .ids import WANTED
from .outgoing import Outgoing

REMEMBERED = 1_000
"""How many turns are kept in mind for links to them."""

_KINDS: dict[Kind, SpanKind] = {"chat": SpanKind.CLIENT}


@define(eq=False)
class Tracing:
    """What all agents share: the tracer, and the turns that links may lead to.

    Attributes:
        tracer: makes spans.
        outgoing: where they are ended, which is when exporters come in.
        open: spans that have begun and not ended.
        known: turns and calls of this process.
        follows: whether ids follow from the log, see ``LogIds``.
    """

    tracer: trace.Tracer
    outgoing: Outgoing
    open: int = 0
    known: OrderedDict[Ref, SpanContext] = field(factory=OrderedDict[Ref, SpanContext])
    follows: bool = False

    def remember(self, ref: Ref, context: SpanContext) -> None:
        """Keep where links to a span have to lead."""
        if not self.known:
            self.follows = context.span_id == int(span_id(ref), 16)
        self.known[ref] = context
        if len(self.known) > REMEMBERED:
            self.known.popitem(last=False)

    def link(self, link: Link) -> trace.Link | None:
        """A link to a span of this process, or of another one where ids follow from the log; none that leads nowhere."""
        context = self.known.get(link.ref)
        if context is None and self.follows:
            ids = int(trace_id(link.root), 16), int(span_id(link.ref), 16)
            context = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
        return None if context is None else trace.Link(context, {names.LINK: link.why})


class TracerSink:
    """A sink that makes spans of a tracer.

    Args:
        tracing: what all agents share.
        around: the context in which a root begins, such as that of who sent the message.
    """

    def __init__(self, tracing: Tracing, around: Callable[[], otel.Context | None]) -> None:
        self._tracing = tracing
        self._around = around

    def begin(self, span: Span) -> None:
        """See ``Sink.begin``."""
        wanted = WANTED.set(span)
        try:
            made = self._tracing.tracer.start_span(
                span.name,
                context=self._context(span),
                kind=_KINDS.get(span.kind, SpanKind.INTERNAL),
                attributes=span.attributes,
                links=[link for each in span.links if (link := self._tracing.link(each)) is not None],
                start_time=span.begin * 1_000_000,
            )
        except Exception as error:
            self._tracing.outgoing.told(error, "starting a span")
            return
        finally:
            WANTED.reset(wanted)
        span.live = made
        span.told = len(span.attributes)
        self._tracing.open += 1
        if span.kind in ("invoke_agent", "execute_tool"):
            self._tracing.remember(span.ref, made.get_span_context())

    def end(self, span: Span) -> None:
        """See ``Sink.end``."""
        made: trace.Span | None = span.live
        if made is None:
            return
        self._tracing.open -= 1
        if not made.is_recording():
            return

        def finish() -> None:
            made.set_attributes(dict(islice(span.attributes.items(), span.told, None)))
            if span.late:
                made.set_attributes(span.told_late())
            if span.error is not None:
                made.set_status(Status(StatusCode.ERROR, span.error))
            made.end((span.end or span.begin) * 1_000_000)

        self._tracing.outgoing.put(finish)

    def link(self, span: Span, link: Link) -> None:
        """See ``Sink.link``."""
        found = self._tracing.link(link)
        if span.live is not None and found is not None:
            span.live.add_link(found.context, found.attributes)

    def note(self, span: Span, name: str, time: int, attributes: Mapping[str, Value]) -> None:
        """See ``Sink.note``."""
        if span.live is not None:
            span.live.add_event(name, attributes, time * 1_000_000)

    def claimed(self, span: Span, waited: float) -> None:
        """See ``Sink.claimed``."""

    def _context(self, span: Span) -> otel.Context | None:
        above = span.parent
        while above is not None:
            if above.live is not None:
                return trace.set_span_in_context(above.live, otel.Context())
            above = above.parent
        return self._around() or otel.Context()
