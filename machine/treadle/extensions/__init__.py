"""What long sessions need, built on agents as anybody could: nothing here knows the loop that drives them.

``Compaction`` keeps a history within the model's context window. May import: the doors of all rooms but ``asyncio``.
"""

from .compaction.compaction import Compaction
from .compaction.declared import declared_compaction
from .compaction.installed import COMPACTION, CompactionMoment
from .compaction.ledger import Ledger, estimate_tokens
from .compaction.ranges import Range, ranges_of
from .compaction.summaries import ModelSummary, Summarizer, Summary, SummaryJob, SummarySource, Why

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
