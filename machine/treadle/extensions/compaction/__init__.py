"""Compaction: old history gives way to summaries, so that what is said to the model fits its window (§18).

``ledger`` knows what the next request takes, ``ranges`` what is old enough to go, ``summaries`` what stands for it, and
``installed`` when that is done; ``compaction`` is what users set. May import: the doors of all rooms but ``asyncio``.
"""

from .compaction import Compaction
from .declared import declared_compaction
from .installed import COMPACTION, CompactionMoment
from .ledger import Ledger, estimate_tokens
from .ranges import Range, ranges_of
from .summaries import ModelSummary, Summarizer, Summary, SummaryJob, SummarySource, Why

__all__ = [
    "COMPACTION",
    "Compaction",
    "CompactionMoment",
    "Ledger",
    "ModelSummary",
    "Range",
    "Summarizer",
    "Summary",
    "SummaryJob",
    "SummarySource",
    "Why",
    "declared_compaction",
    "estimate_tokens",
    "ranges_of",
]
