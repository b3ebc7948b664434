"""Writes the chunks of one attempt, so that they keep the chunk protocol whatever a provider sends (Q5, X3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from treadle import Failure, ModelFailure
from treadle.models import (
    DEFAULT_BOUNDS,
    AnswerBounds,
    ArgumentsDelta,
    BlockEnd,
    BlockStart,
    Chunk,
    Code,
    ReasoningDelta,
    TextDelta,
    Usage,
    UsageReport,
    repair_text,
)

MAX_NAME = 512
"""How long a tool's name or a call's id may be (X3)."""


def too_much(what: str) -> ModelFailure:
    """A provider went beyond a bound (X3)."""
    return ModelFailure(Failure(f"the provider sent {what} (X3)", Code.MALFORMED_RESPONSE.value))


class ChunkWriter:
    """Collects chunks in ``out`` and knows which blocks are open.

    At most one text or reasoning block is open at a time; tool calls may be open beside it and beside each other.
    Halves of a surrogate pair that came in two deltas of one block are joined.

    Attributes:
        out: the chunks written and not yet taken.
        visible: whether any text, reasoning or call has been written.
        calls: how many calls were started.
        bounds: what the answer may be.
        names: tools' own names by those that the provider knows them by, where the two differ.
    """

    def __init__(self) -> None:
        self.out: list[Chunk] = []
        self.visible = False
        self.calls = 0
        self.bounds: AnswerBounds = DEFAULT_BOUNDS
        self.names: Mapping[str, str] = {}
        self._next = 0
        self._prose: int | None = None
        self._kind = ""
        self._open_calls: dict[int, None] = {}
        self._halves: dict[int, str] = {}
        self._size = 0
        self._usage: Usage | None = None
        self._told: Usage | None = None

    @property
    def kind(self) -> str:
        """The kind of the open block of text or reasoning; empty when none is open."""
        return self._kind

    def prose(self, kind: Literal["text", "reasoning"], text: str) -> None:
        """Write text or reasoning; opens a block of that kind and ends the other kind's."""
        if not text:
            return
        if self._kind != kind:
            self.open_prose(kind)
        assert self._prose is not None
        if self._halves or not text.isascii():
            text = self._joined(self._prose, text)
            if not text:
                return
        self.hold(len(text))
        self.out.append(TextDelta(self._prose, text) if kind == "text" else ReasoningDelta(self._prose, text))
        self.visible = True

    def open_prose(self, kind: Literal["text", "reasoning"]) -> None:
        """Open a new block of text or reasoning; ends the one that is open."""
        self.end_prose()
        self._prose, self._kind = self._open(kind), kind

    def end_prose(self, replay: Any = None) -> None:
        """End the open block of text or reasoning, if there is one (Q10)."""
        if self._prose is not None:
            self._flush_half(self._prose)
            self.out.append(BlockEnd(self._prose, replay))
        self._prose, self._kind = None, ""

    def start_call(self, call_id: str, name: str) -> int:
        """Open a tool call; returns its index."""
        self.end_prose()
        self.calls += 1
        if self.calls > self.bounds.calls:
            raise self.bounds.too_many_calls()
        index = self._open("tool-call", call_id, self.names.get(name, name))
        self._open_calls[index] = None
        self.visible = True
        return index

    def arguments(self, index: int, text: str) -> None:
        """Write more raw arguments of an open call."""
        if self._halves or not text.isascii():
            text = self._joined(index, text)
        if text:
            self.hold(len(text))
            self.out.append(ArgumentsDelta(index, text))

    def end_call(self, index: int, replay: Any = None) -> None:
        """End an open call."""
        if index in self._open_calls:
            del self._open_calls[index]
            self._flush_half(index)
            self.out.append(BlockEnd(index, replay))

    def end_blocks(self) -> None:
        """End everything that is open."""
        self.end_prose()
        for index in list(self._open_calls):
            self.end_call(index)

    def use(self, usage: Usage, *, last: bool) -> None:
        """Note the tokens used; what ``usage`` leaves out stays as it was.

        The first report is written at once, so that a cancelled attempt keeps it (C5); later ones, which some
        servers send with every delta, only when they are ``last``, or with ``report_usage``.
        """
        old = self._usage
        if old is not None:
            usage = Usage(
                *[
                    new if new is not None else past
                    for new, past in zip(msgspec.structs.astuple(usage), msgspec.structs.astuple(old), strict=True)
                ]
            )
        if any(count is not None for count in msgspec.structs.astuple(usage)):
            self._usage = usage
            if old is None or last:
                self.report_usage()

    def report_usage(self) -> None:
        """Write the tokens used so far, unless they were written already."""
        if self._usage is not None and self._usage != self._told:
            self._told = self._usage
            self.out.append(UsageReport(self._usage))

    def _open(self, kind: Literal["text", "reasoning", "tool-call"], *call: str) -> int:
        index = self._next
        self._next += 1
        self.out.append(BlockStart(index, kind, *call))
        return index

    def hold(self, characters: int) -> None:
        """Count what is kept of the answer and is no chunk yet: signatures, encrypted content, waiting arguments.

        Raises:
            ModelFailure: the answer has become too large (X3).
        """
        self._size += characters
        if self._size > self.bounds.bytes:
            raise self.bounds.too_large()

    def _joined(self, index: int, text: str) -> str:
        """Join a held half with ``text``, and hold the half that ``text`` ends in."""
        text = self._halves.pop(index, "") + text
        if "\ud800" <= text[-1:] <= "\udbff":
            self._halves[index] = text[-1]
            text = text[:-1]
        return repair_text(text)

    def _flush_half(self, index: int) -> None:
        if self._halves.pop(index, ""):
            lost = repair_text("\ud800")
            if index in self._open_calls or index != self._prose:
                self.out.append(ArgumentsDelta(index, lost))
            else:
                self.out.append(TextDelta(index, lost) if self._kind == "text" else ReasoningDelta(index, lost))
