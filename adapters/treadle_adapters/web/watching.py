"""What streams look at: who watches which session, what live attempts have said so far, and what running tools put out.

A stream has no queue. It is a place in the log and a place in the live attempt, and both only grow: what a slow reader has
not read yet costs no memory of its own, and whoever joins in the middle begins at the attempt's first chunk.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from attrs import define, evolve, field, frozen

from treadle import Host
from treadle.hooks import (
    AGENT_CREATED,
    AGENT_DISPOSED,
    AGENT_STATUS,
    ASSISTANT_STREAM,
    MAINTENANCE,
    SESSION_EVENT,
    AssistantStream,
    FrameChunk,
    FrameStart,
    SessionEventAdded,
)
from treadle.models import ArgumentsDelta, Chunk, ReasoningDelta, TextDelta
from treadle.session import ToolCallStarted, ToolResultAdded, TurnEnd

from ..http.redaction import Stream
from ..models.guard import Guard
from ..progress import TOOL_PROGRESS, ToolProgress
from .port import Bell
from .redaction import Redaction


@define(eq=False)
class Attempt:
    """A live attempt: what it has said so far.

    Attributes:
        since: how many events the log had when it began.
        guard: what hides secrets in its chunks.
        chunks: one or none per frame, in order; only appended to.
    """

    id: str
    turn: int
    step: int
    since: int
    guard: Guard
    chunks: list[Chunk] = field(factory=lambda: [])


@frozen
class Output:
    """What a running call has told of itself so far.

    Attributes:
        call: the number of the event that began it: ids of calls come again.
        text: its live output, the last part of it where it is long.
        start: how many characters before it are no longer kept.
        done: how far it is, in units of its own; ``None`` where that was not said.
        total: how far it goes, in the same units.
        guard: what hides secrets in its output; ``None`` where none comes any more.
    """

    call: int
    text: str = ""
    start: int = 0
    done: float | None = None
    total: float | None = None
    guard: Stream | None = field(default=None, eq=False)

    def following(self, news: ToolProgress, most: int) -> Output:
        """The same with what it told now; at most so many characters are kept."""
        text = self.text + (news.text if self.guard is None else self.guard.feed(news.text))
        if news.done is None:
            return evolve(self, text=text[-most:], start=self.start + max(0, len(text) - most))
        text += "\n" if news.text else ""  # who tells how far it is speaks in whole lines
        start = self.start + max(0, len(text) - most)
        return evolve(self, text=text[-most:], start=start, done=news.done, total=news.total)


@define(eq=False)
class Ear:
    """A stream's part in what it watches.

    Attributes:
        closing: why the stream is to end, once it is.
    """

    bell: Bell
    closing: str | None = None

    def close(self, reason: str) -> None:
        """Have the stream end, with a word that says why."""
        self.closing = self.closing or reason
        self.bell.ring()


class Watching:
    """Rings the streams of a session when there is more to tell; keeps its live attempt and its calls' live output.

    Args:
        redaction: what chunks and outputs pass through before they are kept.
        kept: characters of each running call's output that are kept.
    """

    def __init__(self, redaction: Redaction, kept: int) -> None:
        self.attempts: dict[str, Attempt] = {}
        self.outputs: dict[str, dict[str, Output]] = {}
        self._redaction = redaction
        self._kept = kept
        self._ears: dict[str, tuple[Ear, ...]] = {}
        self._lock = threading.Lock()
        self._closed: str | None = None

    def attach(self, host: Host) -> None:
        """Listen to every agent of a host; in the host's thread."""
        self._redaction.refresh()
        host.on(ASSISTANT_STREAM, self._frame)
        host.on(SESSION_EVENT, self._added)
        host.on(TOOL_PROGRESS, self._progressed)
        for point in (AGENT_STATUS, AGENT_DISPOSED, MAINTENANCE):
            host.on(point, lambda told: self.ring(told.agent.id))
        host.on(AGENT_CREATED, lambda told: self.ring(told.agent.id))
        host.on(AGENT_DISPOSED, lambda told: self.attempts.pop(told.agent.id, None))
        host.on(AGENT_DISPOSED, lambda told: self.outputs.pop(told.agent.id, None))

    def _added(self, told: SessionEventAdded) -> None:
        session_id = told.agent.id
        running = self.outputs.get(session_id, {})
        match told.event.data:
            case ToolCallStarted(call_id=call):
                self.outputs[session_id] = {**running, call: Output(told.event.seq, guard=self._redaction.text())}
            case ToolResultAdded(call_id=call) if call in running:
                self.outputs[session_id] = {one: output for one, output in running.items() if one != call}
            case TurnEnd():
                self.outputs.pop(session_id, None)
            case _:
                pass
        self.ring(session_id)

    def _progressed(self, told: ToolProgress) -> None:
        """Keep what a running call tells; once its result is there, only that counts."""
        session_id, call = told.agent.id, told.call.call_id
        running = self.outputs.get(session_id, {})
        if call in running:
            self.outputs[session_id] = {**running, call: running[call].following(told, self._kept)}
            self.ring(session_id)

    def _frame(self, told: AssistantStream) -> None:
        frame, session_id = told.frame, told.agent.id
        if isinstance(frame, FrameChunk):
            attempt = self.attempts.get(session_id)
            if attempt is not None and attempt.id == frame.attempt_id:
                attempt.chunks.extend(attempt.guard.passed([frame.chunk]))
        elif isinstance(frame, FrameStart):
            self._redaction.refresh()
            guard = self._redaction.guard()
            self.attempts[session_id] = Attempt(
                frame.attempt_id, frame.turn, frame.step, len(told.agent.session), guard
            )
        else:
            self.attempts.pop(session_id, None)
        self.ring(session_id)

    def ring(self, session_id: str) -> None:
        """There is more to tell of a session."""
        for ear in self._ears.get(session_id, ()):
            ear.bell.ring()

    # --- streams ------------------------------------------------------------------------------------------------------

    def enter(self, session_id: str, ear: Ear) -> None:
        """A stream begins to watch a session."""
        with self._lock:
            self._ears[session_id] = (*self._ears.get(session_id, ()), ear)
            closed = self._closed
        if closed is not None:
            ear.close(closed)

    def leave(self, session_id: str, ear: Ear) -> None:
        """A stream has ended."""
        with self._lock:
            left = tuple([one for one in self._ears.get(session_id, ()) if one is not ear])
            if left:
                self._ears[session_id] = left
            else:
                self._ears.pop(session_id, None)

    def end(self, session_id: str, reason: str) -> None:
        """End the streams of one session, with a word that says why."""
        for ear in self._ears.get(session_id, ()):
            ear.close(reason)

    def end_all(self, reason: str) -> None:
        """End all streams, and those that will begin."""
        with self._lock:
            self._closed = reason
            ears = [ear for ears in self._ears.values() for ear in ears]
        for ear in ears:
            ear.close(reason)

    def __len__(self) -> int:
        return sum([len(ears) for ears in list(self._ears.values())])


_DELTAS = (TextDelta, ReasoningDelta, ArgumentsDelta)


def gathered(chunks: Sequence[Chunk], start: int, most: int) -> tuple[list[Chunk], int]:
    """The chunks from ``start`` on, deltas of one block that follow each other made one.

    Args:
        chunks: the chunks of an attempt.
        start: the first that is wanted.
        most: about how many characters of deltas are taken.

    Returns:
        What was gathered, and the number of the next chunk.
    """
    out: list[Chunk] = []
    texts: list[str] = []
    kind, index, size, at = None, -1, 0, start

    def close(made: Iterable[str]) -> None:
        if kind is not None:
            out.append(kind(index, "".join(made)))

    for chunk in chunks[start:]:
        if size >= most:
            break
        at += 1
        if isinstance(chunk, _DELTAS):
            if type(chunk) is not kind or chunk.index != index:
                close(texts)
                kind, index, texts = type(chunk), chunk.index, []
            texts.append(chunk.text)
            size += len(chunk.text)
        else:
            close(texts)
            kind, texts = None, []
            out.append(chunk)
    close(texts)
    return out, at
