"""The current span of an agent's own code, and how it is handed to servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import context as otel
from opentelemetry import propagate, trace
from opentelemetry.trace import INVALID_SPAN, Span, SpanContext, Status, StatusCode
from opentelemetry.util.types import Attributes, AttributeValue

from treadle import ModelRequest


class Innermost(Span):
    """Stands for the innermost open span of an agent, whenever it is asked.

    A span that stayed current in the agent's task would still be current when it has long ended, and one held over a
    ``yield`` leaks to whoever reads the stream. This one looks each time.
    """

    def __init__(self, find: Callable[[], Span | None]) -> None:
        self._find = find

    def _now(self) -> Span:
        return self._find() or INVALID_SPAN

    def end(self, end_time: int | None = None) -> None:
        """Not for others to end."""

    def get_span_context(self) -> SpanContext:
        """Of the innermost span."""
        return self._now().get_span_context()

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        """On the innermost span."""
        self._now().set_attributes(attributes)

    def set_attribute(self, key: str, value: AttributeValue) -> None:
        """On the innermost span."""
        self._now().set_attribute(key, value)

    def add_event(self, name: str, attributes: Attributes = None, timestamp: int | None = None) -> None:
        """On the innermost span."""
        self._now().add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        """On the innermost span."""
        self._now().add_link(context, attributes)

    def update_name(self, name: str) -> None:
        """Names follow the conventions."""

    def is_recording(self) -> bool:
        """Whether the innermost span is recorded."""
        return self._now().is_recording()

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """On the innermost span."""
        self._now().set_status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """On the innermost span."""
        self._now().record_exception(exception, attributes, timestamp, escaped)


def make_current(span: Span) -> Any:
    """Make a span current in the running task from here on; returns what ``stop_being_current`` takes."""
    return otel.attach(trace.set_span_in_context(span))


def stop_being_current(token: Any) -> None:
    """Make current again what was before."""
    otel.detach(token)


def trace_headers(_request: ModelRequest | None = None) -> dict[str, str]:
    """The headers that hand the current span on: ``traceparent``, and what else the global propagator has.

    For ``attempt_headers`` of a model adapter, and for HTTP requests of your own tools.
    """
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {name: value for name, value in carrier.items() if value.isascii() and value.isprintable()}


def trace_meta() -> dict[str, str]:
    """The same for ``params._meta`` of an MCP request, where the conventions want ``traceparent`` and ``tracestate``."""
    return trace_headers()
