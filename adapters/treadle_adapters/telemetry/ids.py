"""Ids that follow from the log, so that a span has the same id whenever it is made."""

from __future__ import annotations

import random
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..traces.otlp import span_id, trace_id
from ..traces.spans import Span

WANTED: ContextVar[Span | None] = ContextVar("treadle_wanted_ids", default=None)
"""The span that is being started."""


class LogIds:
    """An id generator for the SDK's ``TracerProvider(id_generator=LogIds())``.

    With it, live spans have the ids that ``treadle export otlp`` gives them, and links to forks and to sessions that
    another process began lead to where they should. Spans of others get random ids.
    """

    if TYPE_CHECKING:  # it has the methods of the SDK's class, which this module must not import

        def __new__(cls) -> Any: ...  # noqa: D102 - for type checkers only

    def generate_span_id(self) -> int:
        """The id of the next span."""
        span = WANTED.get()
        return int(span_id(span.ref), 16) if span is not None else random.getrandbits(64) or 1  # an id is no secret

    def generate_trace_id(self) -> int:
        """The id of the next trace."""
        span = WANTED.get()
        return int(trace_id(span.root.ref), 16) if span is not None else random.getrandbits(128) or 1  # the same

    def is_trace_id_random(self) -> bool:
        """Whether the W3C flag for random trace ids may be set: ids that are hashes are not."""
        return False
