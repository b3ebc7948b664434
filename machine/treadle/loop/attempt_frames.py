"""Tells listeners of a live attempt's stream, frame by frame (Q9)."""

from __future__ import annotations

from ..hooks.dispatch import emit
from ..hooks.points import ASSISTANT_STREAM, AssistantStream
from ..words.frames import FrameChunk, FrameEnd, FrameStart, StreamFrame
from ..words.stream import Chunk
from .activity import Activity


class Frames:
    """The frames of one attempt.

    Args:
        activity: whose attempt it is.
        attempt_id: the attempt.
        revision: its number among those of the attached agent.
    """

    __slots__ = ("_agent", "_attempt_id", "_index", "_outbox", "_revision")

    def __init__(self, activity: Activity, attempt_id: str, revision: int) -> None:
        self._agent = activity.agent
        self._outbox = activity.outbox
        self._attempt_id = attempt_id
        self._revision = revision
        self._index = 0

    def start(self, turn: int, step: int) -> None:
        """The attempt begins."""
        self._now(FrameStart(self._attempt_id, self._revision, turn, step))

    def chunk(self, chunk: Chunk, time: float) -> None:
        """A chunk was recorded, at ``time`` seconds since the epoch."""
        index = self._index
        self._index = index + 1
        agent = self._agent
        listeners = agent.scope.heard[ASSISTANT_STREAM]
        if listeners:
            frame = FrameChunk(self._attempt_id, self._revision, index, int(time * 1000), chunk)
            self._outbox.now(listeners, AssistantStream(agent, frame))

    def abandoned(self) -> None:
        """The attempt is over, and nothing of it is recorded."""
        self._now(FrameEnd(self._attempt_id, self._revision, 0, None))

    def committed(self, tag: str, chunks: int) -> None:
        """The attempt's stream, of so many chunks, is recorded next, as ``tag``; its end is told right after that."""
        event = (tag, len(self._agent.session))
        frame = FrameEnd(self._attempt_id, self._revision, chunks, event)
        self._outbox.after_commit(lambda: self._tell(frame))

    def _now(self, frame: StreamFrame) -> None:
        listeners = self._agent.scope.heard[ASSISTANT_STREAM]
        if listeners:
            self._outbox.now(listeners, AssistantStream(self._agent, frame))

    def _tell(self, frame: StreamFrame) -> None:
        agent = self._agent
        emit(agent.scope.heard[ASSISTANT_STREAM], AssistantStream(agent, frame), self._outbox.report_listener)
