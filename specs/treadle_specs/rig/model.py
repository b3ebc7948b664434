"""The rig's model: each attempt waits at a gate and streams what the tester passes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from treadle import AssistantMessage, Failure, Message, ModelRequest, ToolResultMessage
from treadle.models import (
    ArgumentsDelta,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    Finished,
    ModelInfo,
    ReasoningDelta,
    RetryPolicy,
    TextDelta,
    Usage,
    UsageReport,
)

from .answers import Play, StreamEnd
from .gates import GateFailure, Gates
from .protocol import Json

Attempt = Callable[[str], tuple[int, Json]]
"""Says of a session which agent's it is and which attempt of which step begins."""


class GatedModel:
    """A model adapter that waits for the tester. It installs no retry policy.

    Args:
        gates: where its attempts wait.
        attempt: told of each attempt that begins.
    """

    name = "rig"
    retry_policy: RetryPolicy | None = None

    def __init__(self, gates: Gates, attempt: Attempt) -> None:
        self._gates = gates
        self._attempt = attempt

    async def model_info(self, model: str) -> ModelInfo:  # noqa: ARG002 (the interface's)
        """Nothing is known of any model."""
        return ModelInfo()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Play what the tester passes, until an end is among it."""
        seat, facts = self._attempt(request.session_id)
        facts["messages"] = [shown(message) for message in request.messages]
        gate = self._gates.open("model", facts, request.signal, seat)
        writer = ChunkWriter()
        try:
            while True:
                play: Play = await gate.wait()
                for given in play.chunks:
                    for chunk in writer.write(given):
                        yield chunk
                if play.end is not None:
                    break
        finally:
            self._gates.close(gate)
        for chunk in writer.end(play.end):
            yield chunk


def shown(message: Message) -> Json:
    """A message of the history, as a model gate reports it."""
    if isinstance(message, ToolResultMessage):
        return {"role": "user", "text": "", "calls": [], "results": [message.result.call_id]}
    calls = [call.call_id for call in message.calls] if isinstance(message, AssistantMessage) else []
    return {"role": message.role, "text": message.text, "calls": calls, "results": []}


class ChunkWriter:
    """Turns the tester's chunks into a model's stream; text that follows text continues its block."""

    def __init__(self) -> None:
        self._index = -1
        self._open: str | None = None

    def write(self, given: Json) -> list[Chunk]:
        """The chunks of one given piece."""
        for kind, delta in (("text", TextDelta), ("reasoning", ReasoningDelta)):
            if kind in given:
                return [*self._enter(kind), delta(self._index, given[kind])]
        if "usage" in given:
            return [UsageReport(Usage(*given["usage"]))]
        whole = "call" in given
        call: dict[str, Any] = given["call"] if whole else given["half_call"]
        out = self._leave()
        self._index += 1
        out.append(BlockStart(self._index, "tool-call", call.get("id", ""), call.get("name", "")))
        if call.get("arguments"):
            out.append(ArgumentsDelta(self._index, call["arguments"]))
        if whole:
            out.append(BlockEnd(self._index))
        return out

    def end(self, end: StreamEnd) -> list[Chunk]:
        """The stream's last chunks; raises if it breaks off."""
        if end.raises is not None:
            raise GateFailure(end.raises)
        if end.failure is not None:
            code, message = end.failure
            return [Finished(Finish("error", Failure(message, code)))]
        assert end.finish is not None
        return [*self._leave(), Finished(Finish(end.finish))]

    def _enter(self, kind: str) -> list[Chunk]:
        if self._open == kind:
            return []
        out = self._leave()
        self._index += 1
        self._open = kind
        return [*out, BlockStart(self._index, "text" if kind == "text" else "reasoning")]

    def _leave(self) -> list[Chunk]:
        if self._open is None:
            return []
        self._open = None
        return [BlockEnd(self._index)]
