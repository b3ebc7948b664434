"""What an adapter streams: chunks of one provider attempt (Q5)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..sums import Opaque, OpenSum
from .failures import Failure


class Chunk:
    """One piece of a model's stream; members carry a ``type`` tag."""

    __slots__ = ()


class OpaqueChunk(Opaque, Chunk):
    """A chunk of a kind this process does not know."""

    __slots__ = ()


CHUNKS: OpenSum[Chunk] = OpenSum(Chunk, OpaqueChunk, "type")
"""The kinds of chunks there are; ``CHUNKS.register`` adds one (S2)."""


class Usage(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Tokens a provider billed. What it did not report is absent, never zero (C5)."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


def joined_usage(*usages: Usage | None) -> Usage:
    """The tokens of several attempts together; a count that none of them has stays absent (C5)."""
    totals: dict[str, int] = {}
    for usage in usages:
        if usage is not None:
            for name in Usage.__struct_fields__:
                tokens = getattr(usage, name)
                if tokens is not None:
                    totals[name] = totals.get(name, 0) + tokens
    return Usage(**totals)


class Finish(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Why the stream ended.

    ``kind`` is ``stop``, ``tool-calls``, ``max-tokens``, ``content-filter``, ``refusal``, ``error``, ``aborted`` or
    a provider's own word; ``failure`` says more for ``error`` and ``aborted``.
    """

    kind: str
    failure: Failure | None = None
    detail: str | None = None


@CHUNKS.register
class BlockStart(
    msgspec.Struct,
    Chunk,
    frozen=True,
    gc=False,
    rename="camel",
    tag_field="type",
    tag="block-start",
    omit_defaults=True,
):
    """A content block begins. ``index`` tells blocks apart; a tool call brings its id and name here."""

    index: int
    kind: Literal["text", "reasoning", "tool-call"]
    call_id: str | None = None
    name: str | None = None


@CHUNKS.register
class TextDelta(msgspec.Struct, Chunk, frozen=True, gc=False, rename="camel", tag_field="type", tag="text-delta"):
    """More text of an open text block."""

    index: int
    text: str


@CHUNKS.register
class ReasoningDelta(
    msgspec.Struct, Chunk, frozen=True, gc=False, rename="camel", tag_field="type", tag="reasoning-delta"
):
    """More reasoning of an open reasoning block."""

    index: int
    text: str


@CHUNKS.register
class ArgumentsDelta(
    msgspec.Struct, Chunk, frozen=True, gc=False, rename="camel", tag_field="type", tag="arguments-delta"
):
    """More raw argument text of an open tool call."""

    index: int
    text: str


@CHUNKS.register
class BlockEnd(
    msgspec.Struct, Chunk, frozen=True, gc=False, rename="camel", tag_field="type", tag="block-end", omit_defaults=True
):
    """A block is complete. ``replay`` is private data of the adapter for this block (Q10)."""

    index: int
    replay: Any = None


@CHUNKS.register
class UsageReport(msgspec.Struct, Chunk, frozen=True, gc=False, rename="camel", tag_field="type", tag="usage"):
    """Token counts; the latest report stands."""

    usage: Usage


@CHUNKS.register
class Finished(
    msgspec.Struct, Chunk, frozen=True, gc=False, rename="camel", tag_field="type", tag="finish", omit_defaults=True
):
    """The one last chunk; nothing may follow it. ``replay`` is private data for the whole message (Q10)."""

    finish: Finish
    replay: Any = None


StreamChunk = BlockStart | TextDelta | ReasoningDelta | ArgumentsDelta | BlockEnd | UsageReport | Finished
"""Every chunk an adapter may yield."""


class Segment(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A run of the recorded stream: either consecutive deltas of one block, or one other chunk.

    Attributes:
        times: one arrival time per chunk of the run, in ms since the epoch (Q9).
        delta: ``text-delta``, ``reasoning-delta`` or ``arguments-delta`` for a run of deltas.
        index: the block the deltas belong to.
        texts: the deltas, one per time.
        chunk: the chunk, when the run is one other chunk.
    """

    times: tuple[int, ...]
    delta: str | None = None
    index: int | None = None
    texts: tuple[str, ...] = ()
    chunk: Chunk | None = None


class TimedStream(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The exact stream of one attempt, in order, each chunk with its time (Q9)."""

    segments: tuple[Segment, ...]

    def __len__(self) -> int:
        """How many chunks arrived."""
        return sum(len(segment.times) for segment in self.segments)

    def chunks(self) -> list[tuple[int, Chunk]]:
        """Unpack into ``(time in ms, chunk)`` pairs, in order of arrival."""
        out: list[tuple[int, Chunk]] = []
        for segment in self.segments:
            if segment.chunk is not None:
                out.append((segment.times[0], segment.chunk))
                continue
            make = _DELTAS[segment.delta or ""]
            index = segment.index or 0
            out += [(time, make(index, text)) for time, text in zip(segment.times, segment.texts, strict=True)]
        return out


_DELTAS: dict[str, type[TextDelta | ReasoningDelta | ArgumentsDelta]] = {
    "text-delta": TextDelta,
    "reasoning-delta": ReasoningDelta,
    "arguments-delta": ArgumentsDelta,
}
