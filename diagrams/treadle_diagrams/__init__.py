"""Draws the lifecycle, from the table that runs, and sessions, from their logs."""

from .graph import Transition
from .log_walk import Reached, passages_of, states_of, walk_of
from .page import session_page
from .sequence_svg import sequence_svg
from .sequence_text import sequence_mermaid
from .session_file import SessionFile, read_session
from .svg import svg
from .text import dot, mermaid, table_markdown
from .transcript import Teller, transcript
from .units import duration
from .walk import Passage, Visit, Walk, coverage_text, merge_walks, read_coverage, walk_of_coverage, walk_through

__all__ = [
    "Passage",
    "Reached",
    "SessionFile",
    "Teller",
    "Transition",
    "Visit",
    "Walk",
    "coverage_text",
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
