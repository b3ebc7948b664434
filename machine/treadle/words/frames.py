"""Frames of a live attempt's stream, as listeners see them (Q9)."""

from __future__ import annotations

import msgspec

from .stream import Chunk


class FrameStart(msgspec.Struct, frozen=True, gc=False):
    """An attempt begins (Q9). ``revision`` grows by one per attempt of one attached agent."""

    attempt_id: str
    revision: int
    turn: int
    step: int


class FrameChunk(msgspec.Struct, frozen=True, gc=False):
    """One chunk arrived; ``index`` is dense from 0, ``time`` in ms is the one the log keeps (Q9)."""

    attempt_id: str
    revision: int
    index: int
    time: int
    chunk: Chunk


class FrameEnd(msgspec.Struct, frozen=True, gc=False):
    """The attempt is over (Q9).

    ``committed`` is the event that holds its stream, with its seq; ``None`` when the attempt was abandoned.
    ``index`` is the number of chunk frames.
    """

    attempt_id: str
    revision: int
    index: int
    committed: tuple[str, int] | None


StreamFrame = FrameStart | FrameChunk | FrameEnd
"""One frame of a live attempt (Q9)."""
