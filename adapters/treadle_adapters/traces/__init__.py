"""What a session's log tells as spans: a fold over events, and what is made of it after the fact.

The same fold makes the spans of a live agent (``treadle_adapters.telemetry``), so both agree by construction. Nothing
here needs a library beyond the core's.
"""

from .content import Content
from .fold import Fold
from .otlp import OtlpWriter
from .replay import Family, replay
from .spans import Kind, Link, Ref, Sink, Span, Value
from .stats import Stats, stats_of

__all__ = [
    "Content",
    "Family",
    "Fold",
    "Kind",
    "Link",
    "OtlpWriter",
    "Ref",
    "Sink",
    "Span",
    "Stats",
    "Value",
    "replay",
    "stats_of",
]
