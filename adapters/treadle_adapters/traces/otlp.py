"""Spans as OTLP/JSON: what a collector reads from a file, one request per line, or takes at ``/v1/traces``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

import treadle

from . import names
from .spans import Kind, Link, Ref, Silent, Span, Value

BATCH = 1_000
"""How many spans one request holds."""

_KINDS: dict[Kind, int] = {"chat": 3}
"""OTLP's numbers of span kinds: an attempt is a client's call, all else goes on inside."""
_INTERNAL = 1


def trace_id(ref: Ref) -> str:
    """The id of the trace of which that span is the root, as 32 hexadecimal digits: the same wherever it is made."""
    return hashlib.blake2b(f"{ref.session}/{ref.seq}/{ref.time}".encode(), digest_size=16).hexdigest()


def span_id(ref: Ref) -> str:
    """The id of a span, as 16 hexadecimal digits: the same wherever it is made."""
    return hashlib.blake2b(f"{ref.session}/{ref.seq}/{ref.time}/{ref.kind}".encode(), digest_size=8).hexdigest()


class _JSON(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Base of what is written."""


class _Status(_JSON, gc=False):
    code: int
    message: str = ""


class _Link(_JSON, gc=False):
    trace_id: str
    span_id: str
    attributes: list[Any]


class _Event(_JSON, gc=False):
    time_unix_nano: str
    name: str
    attributes: list[Any]


class _Span(_JSON, gc=False):
    trace_id: str
    span_id: str
    name: str
    kind: int
    start_time_unix_nano: str
    end_time_unix_nano: str
    attributes: list[Any]
    parent_span_id: str = ""
    links: list[_Link] = []
    events: list[_Event] = []
    status: _Status | None = None


class OtlpWriter(Silent):
    """A sink that writes each span once it has ended.

    Args:
        write: is given one request at a time, as JSON on one line without the line's end.
        service: the name of the service in the resource.

    Attributes:
        written: how many spans were written.
    """

    def __init__(self, write: Callable[[bytes], object], service: str = "treadle") -> None:
        self.written = 0
        self._write = write
        self._service = service
        self._spans: list[_Span] = []
        self._nested: dict[Ref, str] = {}

    def begin(self, span: Span) -> None:
        """See ``Sink.begin``."""
        above = span.parent
        if above is not None:
            trace, parent = above.live.trace_id, above.live.span_id
        elif (made_by := span.made_by) is not None:
            trace, parent = self._trace(made_by), span_id(made_by.ref)
            self._nested[span.ref] = trace
        else:
            trace, parent = trace_id(span.ref), ""
        kind = _KINDS.get(span.kind, _INTERNAL)
        links = [self._link(link) for link in span.links]
        span.live = _Span(trace, span_id(span.ref), span.name, kind, _nano(span.begin), "0", [], parent, links)

    def end(self, span: Span) -> None:
        """See ``Sink.end``."""
        made: _Span = span.live
        end = span.end if span.end is not None else span.begin
        made.end_time_unix_nano = _nano(end)
        told = span.attributes | span.told_late() if span.late else span.attributes
        made.attributes = _attributes(told)
        if span.error is not None:
            made.status = _Status(2, span.error)
        self._spans.append(made)
        if len(self._spans) >= BATCH:
            self.flush()

    def link(self, span: Span, link: Link) -> None:
        """See ``Sink.link``."""
        span.live.links = [*span.live.links, self._link(link)]

    def note(self, span: Span, name: str, time: int, attributes: Mapping[str, Value]) -> None:
        """See ``Sink.note``."""
        span.live.events = [*span.live.events, _Event(_nano(time), name, _attributes(attributes))]

    def _trace(self, link: Link) -> str:
        return self._nested.get(link.root) or trace_id(link.root)

    def _link(self, link: Link) -> _Link:
        return _Link(self._trace(link), span_id(link.ref), _attributes({names.LINK: link.why}))

    def flush(self) -> None:
        """Write what has not been written yet."""
        spans, self._spans = self._spans, []
        if not spans:
            return
        scope = {"name": names.INSTRUMENTATION, "version": treadle.__version__}
        resource = {"attributes": _attributes({"service.name": self._service})}
        request = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}
        self._write(_ENCODER.encode(request))
        self.written += len(spans)


_ENCODER = msgspec.json.Encoder()


def _nano(milliseconds: int) -> str:
    return f"{milliseconds}000000"


def _attributes(given: Mapping[str, Value]) -> list[Any]:
    return [{"key": key, "value": _value(value)} for key, value in given.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}
