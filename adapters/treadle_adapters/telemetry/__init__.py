"""Agents seen from outside, by OpenTelemetry: spans, metrics and logs, derived from what a host publishes.

It needs the ``telemetry`` extra, which is the API alone; what sends telemetry somewhere is an SDK of the program's own.
"""

from treadle.extensions.usage import Price

from ..traces.content import Content
from .current import trace_headers, trace_meta
from .ids import LogIds
from .live import Telemetry
from .logs import RecordContext, record_context, where

__all__ = [
    "Content",
    "LogIds",
    "Price",
    "RecordContext",
    "Telemetry",
    "record_context",
    "trace_headers",
    "trace_meta",
    "where",
]
