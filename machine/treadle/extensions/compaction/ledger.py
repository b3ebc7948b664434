"""What a session's next request takes, kept up with its log: a step costs its own new events (Z5)."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable

import msgspec
import trio

from ...models import Block, Code, Message, Reasoning, Text, ToolCall, ToolResult, Usage, UserMessage
from ...session import (
    Aborted,
    AssistantAttempt,
    AssistantMessageAdded,
    Event,
    Node,
    Replace,
    RequestContext,
    RequestHeader,
    Session,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
    derive,
)

BYTES_PER_TOKEN = 4
"""What a token takes as UTF-8, as long as nobody knows better."""
ENVELOPE = 4
"""Tokens that a message takes besides its content."""
AT_ONCE = 1_000
"""Events that are read without a pause."""
LEAST_FACTOR, MOST_FACTOR = 0.25, 8.0
"""Between these an estimate is corrected: beyond is no property of a tokenizer."""


def estimate_tokens(message: Message) -> int:
    """What a message takes, in tokens: four bytes of UTF-8 are one."""
    size = 0
    for block in message.content:
        size += len(block.text) if type(block) is Text and block.text.isascii() else _size(block)
    return ENVELOPE + size // BYTES_PER_TOKEN


def _size(block: Block) -> int:
    if isinstance(block, (Text, Reasoning)):
        return _length(block.text)
    if isinstance(block, ToolCall):
        return _length(block.name) + _length(block.arguments)
    if isinstance(block, ToolResult):
        return sum([_size(inner) for inner in block.content])
    return len(msgspec.json.encode(msgspec.to_builtins(block, enc_hook=str)))


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class Ledger:
    """What stands on a session's surface, in tokens, and where its last turns begin.

    Estimates are corrected by what the provider reported for the last answer: what that request took in fact, divided
    by what it was estimated to take.

    Args:
        estimate: tokens of one message.
        turns: how many of the last turns are told by ``recent``.

    Attributes:
        seen: how many events were read.
        factor: what estimates are multiplied by.
        window: tokens that the model takes, by the last ``request/context``; ``None`` where it is unknown.
        answer: tokens that an answer may take, by the last ``request/header``; ``None`` where nobody said.
        route: provider and model of the last request.
        aborted: whether the last turn was cancelled.
        replaced: whether history, not the system prompt alone, was replaced since the last ``request/header``.
    """

    __slots__ = (
        "_estimate",
        "_fitted",
        "_open",
        "_order",
        "_origins",
        "_refused",
        "_starts",
        "_tools",
        "_total",
        "_turn",
        "_turns",
        "_weights",
        "aborted",
        "answer",
        "factor",
        "replaced",
        "route",
        "seen",
        "window",
    )

    def __init__(self, estimate: Callable[[Message], int] = estimate_tokens, turns: int = 3) -> None:
        self._estimate = estimate
        self._turns = turns
        self._order: list[int] = []
        self._weights: dict[int, int] = {}
        self._origins: dict[int, int] = {}
        self._total = self._tools = self._fitted = self._refused = 0
        self._starts: deque[int] = deque(maxlen=turns + 1)
        self._turn: int | None = None
        self._open = False
        self.seen = 0
        self.factor = 1.0
        self.window: int | None = None
        self.answer: int | None = None
        self.route: tuple[str | None, str | None] = (None, None)
        self.aborted = False
        self.replaced = False

    # --- reading the log ----------------------------------------------------------------------------------------------

    async def follow(self, session: Session) -> None:
        """Read what was appended since the last time; the loop goes on where that is much, or has to be read back (S11)."""
        while len(session) - self.seen > AT_ONCE:
            first = self.seen
            piece = await session.read(first, first + AT_ONCE)
            if self.seen == first:  # nobody else has read on meanwhile
                for entry in piece:
                    self.take(entry)
                self.seen = first + len(piece)
            await trio.lowlevel.checkpoint()
        self._read(session, len(session))

    def catch_up(self, session: Session) -> None:
        """As ``follow``, at once."""
        self._read(session, len(session))

    def _read(self, session: Session, end: int) -> None:
        for entry in session.events[self.seen : end]:
            self.take(entry)
        self.seen = end

    def take(self, entry: Event) -> None:
        """Take the next event of the log."""
        take = _TAKERS.get(entry.data.__class__)
        if take is not None:
            take(self, entry)
        if entry.surface_op is not None:
            self._enter(entry)

    def _turn_starts(self, entry: Event) -> None:
        self._turn, self._open = entry.seq, True

    def _turn_ends(self, entry: Event) -> None:
        self._turn, self._open = None, False
        self.aborted = type(entry.data.reason) is Aborted

    def _header(self, entry: Event) -> None:
        data = entry.data
        self._tools = len(msgspec.json.encode(data.tools)) // BYTES_PER_TOKEN if data.tools else 0
        self.answer, self.replaced = data.config.max_tokens, False
        self.route = data.config.provider, data.config.model

    def _context(self, entry: Event) -> None:
        self.window, self._fitted, self._refused = entry.data.context_window, 0, 0

    def _answered(self, entry: Event) -> None:
        """The model answered: its request took so many tokens, by the provider's count."""
        estimated = self._fitted = self._total + self._tools
        if self._refused <= estimated:
            self._refused = 0
        usage: Usage | None = entry.data.usage
        if usage is not None and usage.input_tokens and estimated:
            self.factor = min(max(usage.input_tokens / estimated, LEAST_FACTOR), MOST_FACTOR)

    def _failed(self, entry: Event) -> None:
        finish = entry.data.finish
        failure = finish.failure if finish is not None else None
        if failure is not None and failure.code == Code.CONTEXT_WINDOW_EXCEEDED.value:
            self._refused = self._total + self._tools

    def _enter(self, entry: Event) -> None:
        op, message = entry.surface_op, derive(entry.data)
        weight = self._estimate(message) if message is not None else 0
        if type(op) is Replace:
            first, last = self._order.index(op.first), self._order.index(op.last)
            self._origins[entry.seq] = self._origins.get(op.first, op.first)
            for seq in self._order[first : last + 1]:
                self._total -= self._weights.pop(seq)
                self._origins.pop(seq, None)
            self._order[first : last + 1] = [entry.seq]
            self.replaced = self.replaced or type(entry.data) is UserMessageAdded
        else:
            self._order.append(entry.seq)
            if self._turn is not None:  # a turn counts with the first that it says
                self._starts.append(self._turn)
                self._turn = None
        self._weights[entry.seq] = weight
        self._total += weight

    # --- telling ------------------------------------------------------------------------------------------------------

    def expected(self, batch: Iterable[UserMessage] = ()) -> int:
        """Tokens that a request takes whose history is the surface with ``batch`` at its end."""
        raw = self._total + self._tools
        for one in batch:
            raw += self._estimate(one)
        return round(self.factor * raw)

    @property
    def fitted(self) -> int | None:
        """Tokens of the last request that this model took; ``None`` where it has not taken any."""
        return round(self.factor * self._fitted) or None

    def room(self, window: int | None) -> int | None:
        """Tokens that a request may take; ``None`` where that is not known.

        It is the window without what is left for the answer, at most half of it; and no more than what was refused.

        Args:
            window: of the model, where its adapter does not know it.
        """
        known = self.window if self.window is not None else window
        told = known - min(self.answer or 0, known // 2) if known is not None else None
        if not self._refused:
            return told
        refused = max(round(self.factor * self._refused), 1)
        return refused if told is None else min(told, refused)

    def tokens(self, seqs: Iterable[int]) -> int:
        """Tokens of these events of the surface."""
        return round(self.factor * sum([self._weights[seq] for seq in seqs]))

    def tokens_of(self, message: Message) -> int:
        """Tokens of a message."""
        return round(self.factor * self._estimate(message))

    def recent(self, nodes: list[Node], *, counting_open: bool = False) -> int:
        """Where on the surface the last turns begin: those that are over, and the open one, counted or beside them."""
        starts = list(self._starts)
        speaking = self._open and self._turn is None
        kept = max(self._turns, int(speaking)) if counting_open else self._turns + int(speaking)
        if not kept:
            return len(nodes)
        boundary = starts[-kept] if len(starts) >= kept else -1
        return bisect_right(nodes, boundary, key=lambda node: self._origins.get(node.seq, node.seq))


_TAKERS: dict[type, Callable[[Ledger, Event], None]] = {
    TurnStart: Ledger._turn_starts,  # pyright: ignore[reportPrivateUsage]
    TurnEnd: Ledger._turn_ends,  # pyright: ignore[reportPrivateUsage]
    RequestHeader: Ledger._header,  # pyright: ignore[reportPrivateUsage]
    RequestContext: Ledger._context,  # pyright: ignore[reportPrivateUsage]
    AssistantMessageAdded: Ledger._answered,  # pyright: ignore[reportPrivateUsage]
    AssistantAttempt: Ledger._failed,  # pyright: ignore[reportPrivateUsage]
}
"""What takes each event beside its place on the surface."""
