"""Draws the lifecycle, from the table that runs, and lays walked paths over it."""

from .graph import Transition
from .log_walk import passages_of, walk_of
from .svg import svg
from .text import dot, mermaid, table_markdown
from .units import duration
from .walk import Passage, Visit, Walk, coverage_text, merge_walks, read_coverage, walk_of_coverage, walk_through

__all__ = [
    "Passage",
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
    "svg",
    "table_markdown",
    "walk_of",
    "walk_of_coverage",
    "walk_through",
]
