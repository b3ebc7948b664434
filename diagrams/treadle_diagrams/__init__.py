"""Draws the lifecycle, from the table that runs, and sessions, from their logs.

Its rooms, each of which imports only those before it: ``drawing``, ``lifecycle`` and ``figures``, ``log``, then ``sequence``
and ``page``, which do not know each other; ``notebook`` shows objects by means of all of them.
"""

from .drawing.units import duration
from .figures.bars import Bar, Chart, bars_svg
from .figures.curves import Curve, curves_svg
from .lifecycle.graph import Transition
from .lifecycle.svg import svg
from .lifecycle.text import dot, mermaid, table_markdown
from .lifecycle.walk import (
    Passage,
    Visit,
    Walk,
    coverage_text,
    merge_walks,
    read_coverage,
    walk_of_coverage,
    walk_through,
)
from .log.file import SessionFile, read_session
from .log.passages import Reached, passages_of, states_of, walk_of
from .log.transcript import Teller, transcript
from .page.document import session_page
from .page.growing import LivePictures
from .sequence.mermaid import sequence_mermaid
from .sequence.svg import sequence_svg

__all__ = [
    "Bar",
    "Chart",
    "Curve",
    "LivePictures",
    "Passage",
    "Reached",
    "SessionFile",
    "Teller",
    "Transition",
    "Visit",
    "Walk",
    "bars_svg",
    "coverage_text",
    "curves_svg",
    "dot",
    "duration",
    "merge_walks",
    "mermaid",
    "passages_of",
    "read_coverage",
    "read_session",
    "sequence_mermaid",
    "sequence_svg",
    "session_page",
    "states_of",
    "svg",
    "table_markdown",
    "transcript",
    "walk_of",
    "walk_of_coverage",
    "walk_through",
]
