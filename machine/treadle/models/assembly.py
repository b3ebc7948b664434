"""Assembling a stream of chunks into an answer and its timed record (Q5, Q9).

The driver's loop appends deltas of the open run straight to ``texts`` and ``times``; everything else comes here.
"""

from __future__ import annotations

from array import array
from functools import partial
from math import floor
from typing import Any, final

import msgspec

from ..lossless import check_json, repair_text, text_is_lossless
from ..sums import ENCODER
from ..words.failures import Code, Failure, ModelFailure, clean_failure
from ..words.messages import Block, Reasoning, Text, ToolCall
from ..words.stream import (
    ArgumentsDelta,
    BlockEnd,
    BlockStart,
    Finish,
    Finished,
    ReasoningDelta,
    Segment,
    TextDelta,
    TimedStream,
    Usage,
    UsageReport,
)
from .bounds import CHUNK, DEFAULT_BOUNDS, SEGMENT, AnswerBounds

STAMPED = 100
"""From how many deltas on their times are brought into the form that is stored, while the stream still comes."""

MAX_BLOCKS = 10_000
"""How many blocks one answer may hold (X3)."""

_LARGEST = (1 << 63) - 1
"""The largest whole number that every reader of JSON takes here."""

_DELTA_KIND: dict[type, str] = {TextDelta: "text", ReasoningDelta: "reasoning", ArgumentsDelta: "tool-call"}
_DELTA_TAG: dict[type, str] = {
    TextDelta: "text-delta",
    ReasoningDelta: "reasoning-delta",
    ArgumentsDelta: "arguments-delta",
}


class _Open(msgspec.Struct):
    """A block under way."""

    start: BlockStart
    closed: bool = False
    replay: Any = None


@final
class _Run(msgspec.Struct):
    """Consecutive deltas of one block: one text and one time each; ``stamps`` are the first times in milliseconds.

    They are made now and then, as the stream comes: a quarter of a million at once would hold up everybody.
    """

    delta: type
    index: int
    texts: list[str]
    times: array[float]
    stamps: list[int] = []

    def stamp(self) -> None:
        """Bring ``stamps`` up to date."""
        self.stamps += [floor(time * 1000.0) for time in self.times[len(self.stamps) :]]


class Snapshot(msgspec.Struct, frozen=True):
    """How far the stream had come at one moment; ``Recorder.freeze`` takes it when a cancel arrives (C5)."""

    runs: int
    length: int
    finish: Finish | None
    usage: Usage | None
    blocks: list[tuple[int, bool]]


class MalformedStream(ModelFailure):
    """An adapter's stream breaks the chunk protocol or a bound (Q5, X3)."""


def malformed(message: str) -> MalformedStream:
    """A stream that breaks the chunk protocol (Q5)."""
    return MalformedStream(Failure(f"the adapter's stream is malformed (Q5): {message}", Code.MALFORMED_RESPONSE.value))


class Recorder(msgspec.Struct):
    """Records one attempt's stream and assembles it.

    ``texts`` and ``times`` belong to the run of deltas that is open (of class ``delta``, block ``index``); the
    driver's loop appends to both directly. ``frozen`` is how far the stream had come when ``freeze`` was called,
    ``calls`` how many tool calls have begun.
    """

    delta: type | None = None
    index: int = -1
    texts: list[str] = []
    times: array[float] = msgspec.field(default_factory=partial(array, "d"))
    finish: Finish | None = None
    finish_replay: Any = None
    usage: Usage | None = None
    calls: int = 0
    bounds: AnswerBounds = DEFAULT_BOUNDS
    frozen: Snapshot | None = None
    _runs: list[_Run | Segment] = []
    _blocks: dict[int, _Open] = {}
    _size: int = 0
    _at: int = 0
    _measured: int = 0

    def add(self, chunk: Any, time: float) -> None:
        """Take any chunk; ``time`` is seconds since the epoch.

        Raises:
            ModelFailure: the chunk breaks the protocol, or a bound (Q5, X3).
        """
        if self.finish is not None:
            raise malformed(f"{type(chunk).__name__} after the finish")
        if type(chunk) is self.delta and chunk.index == self.index:
            self.texts.append(chunk.text)
            self.times.append(time)
            return
        kind = _DELTA_KIND.get(chunk.__class__)
        if kind is not None:
            self._delta(chunk, kind, time)
            return
        self.delta = None
        if type(chunk) is BlockStart:
            if chunk.call_id is not None or chunk.name is not None:
                chunk = _storable_start(chunk)
                self._hold(len(chunk.call_id or "") + len(chunk.name or ""))
            else:
                self._hold(0)
            self._start(chunk)
        elif type(chunk) is BlockEnd:
            block = self._block(chunk.index)
            if chunk.replay is not None:
                chunk = BlockEnd(chunk.index, _replay(chunk.replay))
                self._hold(len(ENCODER.encode(chunk)))
            else:
                self._hold(0)
            block.closed, block.replay = True, chunk.replay
        elif type(chunk) is Finished:
            chunk = _storable_end(chunk)
            self._hold(len(chunk.finish.kind) if _is_bare(chunk) else len(ENCODER.encode(chunk)))
            self.finish, self.finish_replay = chunk.finish, chunk.replay
        elif type(chunk) is UsageReport:
            usage = _storable_usage(chunk.usage)
            self._hold(len(ENCODER.encode(chunk)))
            self.usage = usage
        else:
            raise malformed(f"unknown chunk {type(chunk).__name__}")
        self._runs.append(Segment((int(time * 1000),), None, None, (), chunk))

    def _hold(self, size: int) -> None:
        """Count what a chunk that is no delta adds to the log, before it is taken; ``size`` is what the model said in it."""
        self._size += SEGMENT + size
        if self._size > self.bounds.bytes:
            raise self.bounds.too_large()

    def _delta(self, chunk: TextDelta | ReasoningDelta | ArgumentsDelta, kind: str, time: float) -> None:
        """Open a run of deltas with its first one."""
        block = self._block(chunk.index)
        if block.start.kind != kind:
            raise malformed(f"a {kind} delta for a {block.start.kind} block")
        self.delta, self.index = type(chunk), chunk.index
        self.texts, self.times = [chunk.text], array("d", (time,))
        self._runs.append(_Run(self.delta, self.index, self.texts, self.times))

    def _start(self, chunk: BlockStart) -> None:
        if type(chunk.index) is not int or chunk.kind not in _KINDS or not -_LARGEST <= chunk.index <= _LARGEST:
            raise malformed(f"no block can start as {chunk.kind!r} under the index {chunk.index!r}")
        if chunk.index in self._blocks:
            raise malformed(f"block {chunk.index} starts twice")
        if len(self._blocks) >= MAX_BLOCKS:
            raise malformed(f"more than {MAX_BLOCKS} blocks (X3)")
        if chunk.kind == "tool-call":
            self.calls += 1
            if self.calls > self.bounds.calls:
                raise self.bounds.too_many_calls()
        self._blocks[chunk.index] = _Open(chunk)

    def _block(self, index: int) -> _Open:
        block = self._blocks.get(index)
        if block is None:
            raise malformed(f"block {index} never started")
        if block.closed:
            raise malformed(f"block {index} has ended")
        return block

    def check_size(self) -> None:
        """Check, now and then, that the answer keeps its bound.

        Raises:
            ModelFailure: it holds more; what lies beyond the bound is dropped (X3).
        """
        if self.trim():
            raise self.bounds.too_large()

    @property
    def room(self) -> int:
        """What the bound has room for beyond what ``check_size`` has measured."""
        return self.bounds.bytes - self._size

    def trim(self) -> bool:
        """Drop the chunks from the first on that the bound has no room for; returns whether there was one (X3).

        Only what came since the last call is measured.
        """
        runs = self._runs
        last = len(runs) - 1
        while self._at <= last:
            run = runs[self._at]
            if type(run) is _Run and not self._fits(run):
                return True
            if self._at == last:
                break
            self._at, self._measured = self._at + 1, 0
        return False

    def _fits(self, run: _Run) -> bool:
        measured, length = self._measured, len(run.texts)
        fresh = run.texts[measured:]
        size = self._size + len("".join(fresh)) + CHUNK * (length - measured) + (0 if measured else SEGMENT)
        if size <= self.bounds.bytes:
            self._size, self._measured = size, length
            if length - len(run.stamps) > STAMPED:
                run.stamp()
            return True
        self._size += 0 if self._measured else SEGMENT
        for text in fresh:
            if self._size + len(text) + CHUNK > self.bounds.bytes:
                break
            self._size += len(text) + CHUNK
            self._measured += 1
        del run.texts[self._measured :], run.times[self._measured :]
        del self._runs[self._at + (self._measured > 0) :]
        self.finish = self.finish_replay = self.delta = None
        return False

    @property
    def chunks(self) -> int:
        """How many chunks have arrived."""
        return sum([len(run.times) if type(run) is _Run else 1 for run in self._runs])

    def freeze(self) -> None:
        """Forget, at assembly, whatever arrives from now on; the first call decides (C5, N4)."""
        if self.frozen is None:
            last = self._runs[-1] if self._runs else None
            length = len(last.times) if type(last) is _Run else 1
            closed = [(index, block.closed) for index, block in self._blocks.items()]
            self.frozen = Snapshot(len(self._runs), length, self.finish, self.usage, closed)

    def thaw_into_past(self) -> None:
        """Drop what arrived after ``freeze``, so that everything read from here on is as of that moment."""
        past = self.frozen
        if past is None:
            return
        del self._runs[past.runs :]
        run = self._runs[-1] if self._runs else None
        if type(run) is _Run:
            del run.times[past.length :], run.stamps[past.length :]
            del run.texts[past.length :]
        self.finish, self.usage = past.finish, past.usage
        closed = dict(past.blocks)
        self._blocks = {index: block for index, block in self._blocks.items() if index in closed}
        for index, block in self._blocks.items():
            block.closed = closed[index]

    def stream(self) -> TimedStream:
        """The exact timed stream, in the form that is stored (Q9, S1)."""
        segments: list[Segment] = []
        for run in self._runs:
            if type(run) is _Run:
                run.stamp()
                stored = tuple(_storable(run.texts))
                segments.append(Segment(tuple(run.stamps), _DELTA_TAG[run.delta], run.index, stored))
            else:
                segments.append(run)
        return TimedStream(tuple(segments))

    def blocks(self, calls: bool = True) -> tuple[Block, ...]:
        """Assemble the content, in order of the blocks' starts; blank text and empty blocks are left out.

        Args:
            calls: whether tool calls are kept (C5, T6 leave them out).
        """
        texts: dict[int, list[str]] = {}
        for run in self._runs:
            if type(run) is _Run:
                texts.setdefault(run.index, []).extend(run.texts)
        out: list[Block] = []
        for index, block in self._blocks.items():
            text = repair_text("".join(texts.get(index, ())))
            start = block.start
            if start.kind == "text":
                if text:
                    out.append(Text(text))
            elif start.kind == "reasoning":
                if text or block.replay is not None:
                    out.append(Reasoning(text, block.replay))
            elif calls:
                out.append(ToolCall(start.call_id or "", start.name or "", text, block.replay))
        return tuple(out)


def is_blank(content: tuple[Block, ...]) -> bool:
    """Whether nothing of ``content`` is visible: no call, and all text and reasoning is white space (C5)."""
    for block in content:
        if type(block) is Text or type(block) is Reasoning:
            if block.text.strip():
                return False
        else:
            return False
    return True


def _storable(texts: list[str]) -> list[str]:
    r"""The deltas as stored. A lone half of a surrogate pair is kept as an escape that ``\u`` text shows (S1)."""
    if text_is_lossless("".join(texts)):
        return texts
    return [text if text_is_lossless(text) else _join_halves(text) for text in texts]


def _join_halves(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "backslashreplace")


def _storable_start(start: BlockStart) -> BlockStart:
    if text_is_lossless((start.call_id or "") + (start.name or "")):
        return start
    return BlockStart(start.index, start.kind, repair_text(start.call_id or ""), repair_text(start.name or ""))


def _is_bare(end: Finished) -> bool:
    """Whether an end says nothing but its kind."""
    return end.replay is None and end.finish.failure is None and end.finish.detail is None


def _storable_end(end: Finished) -> Finished:
    finish = end.finish
    if _is_bare(end) and text_is_lossless(finish.kind):
        return end
    failure = clean_failure(finish.failure) if finish.failure is not None else None
    detail = repair_text(finish.detail) if finish.detail is not None else None
    return Finished(Finish(repair_text(finish.kind), failure, detail), _replay(end.replay))


def _replay(replay: Any) -> Any:
    """A copy that nobody else holds, as reading the log gives it back (S1, Q10)."""
    if replay is None:
        return None
    try:
        check_json(replay)
    except Exception as error:
        raise malformed(f"replay data is not JSON: {error}") from error
    return msgspec.json.decode(msgspec.json.encode(replay))


_KINDS = frozenset(_DELTA_KIND.values())


def _storable_usage(usage: Usage) -> Usage:
    """Token counts are whole numbers, or absent (C5, S1)."""
    for name in Usage.__struct_fields__:
        count = getattr(usage, name)
        if count is not None and type(count) is not int:
            raise malformed(f"usage reports {name} as {count!r}, which is no whole number")
    return usage
