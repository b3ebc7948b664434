"""A model that answers from a script: the embedded default, and what tests drive agents with."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import trio
from attrs import field, frozen

from ..words.failures import Failure, ModelFailure
from ..words.stream import (
    ArgumentsDelta,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    Finished,
    ReasoningDelta,
    TextDelta,
    Usage,
    UsageReport,
)
from .adapter import ModelInfo, ModelRequest, RetryPolicy


@frozen
class Call:
    """A tool call for a scripted answer. ``arguments`` may be raw text or any JSON value."""

    name: str
    arguments: Any = field(factory=dict[str, Any])
    id: str = ""


@frozen
class Answer:
    """One scripted answer.

    Attributes:
        text: what the model says; streamed word by word.
        reasoning: what it thinks first.
        calls: tools it asks for.
        finish: the finish kind; ``stop`` or ``tool-calls`` by what is asked for unless given.
        usage: tokens it reports.
        failure: fails the attempt instead of finishing.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = field(default=(), converter=tuple)
    finish: str | None = None
    usage: Usage | None = None
    failure: Failure | None = None


Script = str | Answer | Failure | Iterable[Chunk] | Callable[[ModelRequest], Any]
"""What one attempt plays: text, an answer, a failure, prebuilt chunks, or a function of the request giving one."""


def chunks_of(answer: Answer) -> list[Chunk]:
    """Turn an answer into the chunks an adapter would stream."""
    out: list[Chunk] = []
    index = 0
    for kind, text in (("reasoning", answer.reasoning), ("text", answer.text)):
        if text:
            delta = ReasoningDelta if kind == "reasoning" else TextDelta
            out.append(BlockStart(index, kind))  # type: ignore[arg-type]
            out += [delta(index, word) for word in _words(text)]
            out.append(BlockEnd(index))
            index += 1
    for number, call in enumerate(answer.calls):
        arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        out.append(BlockStart(index, "tool-call", call.id or f"call_{number + 1}", call.name))
        if arguments:
            out.append(ArgumentsDelta(index, arguments))
        out.append(BlockEnd(index))
        index += 1
    if answer.usage is not None:
        out.append(UsageReport(answer.usage))
    if answer.failure is None:
        out.append(Finished(Finish(answer.finish or ("tool-calls" if answer.calls else "stop"))))
    return out


def _words(text: str) -> list[str]:
    """Split after each space, so that the parts join to the text."""
    parts = text.split(" ")
    return [part + " " for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


class ScriptedModel:
    """Plays one script entry per attempt; when the script is used up, it gives ``default`` for ever.

    Args:
        script: what the attempts play, in order.
        default: played once the script is used up.
        pace: seconds to wait before each chunk; 0 streams without waiting.
        info: what ``model_info`` answers.
        retry_policy: the adapter's policy; none by default, so failures are terminal.

    Attributes:
        requests: every request seen, in order.
    """

    name = "scripted"

    def __init__(
        self,
        script: Iterable[Script] = (),
        *,
        default: Script = "Done.",
        pace: float = 0.0,
        info: ModelInfo | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self._script: deque[Script] = deque(script)
        self._default = default
        self._pace = pace
        self._info = info or ModelInfo()
        self._policy = retry_policy
        self.requests: list[ModelRequest] = []

    @property
    def retry_policy(self) -> RetryPolicy | None:
        """See ``ModelAdapter.retry_policy``."""
        return self._policy

    def push(self, *entries: Script) -> None:
        """Add entries to the end of the script."""
        self._script.extend(entries)

    async def model_info(self, model: str) -> ModelInfo:  # noqa: ARG002  # the protocol's parameter
        """See ``ModelAdapter.model_info``."""
        return self._info

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """See ``ModelAdapter.stream``."""
        self.requests.append(request)
        entry: Any = self._script.popleft() if self._script else self._default
        while callable(entry):
            entry = entry(request)
        if hasattr(entry, "__aiter__"):
            try:
                async for chunk in entry:
                    yield chunk
            finally:
                close = getattr(entry, "aclose", None)
                if close is not None:
                    await close()
            return
        if isinstance(entry, Failure):
            entry = Answer(failure=entry)
        if isinstance(entry, str):
            entry = Answer(entry)
        chunks: Iterable[Chunk] = chunks_of(entry) if isinstance(entry, Answer) else entry
        for chunk in chunks:
            if self._pace:
                await trio.sleep(self._pace)
            yield chunk
        if isinstance(entry, Answer) and entry.failure is not None:
            raise ModelFailure(entry.failure)
