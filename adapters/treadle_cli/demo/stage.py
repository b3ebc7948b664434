"""What the demo plays on: a clock of its own, rendezvous, a model that speaks its lines, and a watched lifecycle."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import trio
from attrs import field, frozen

from treadle import Call, ModelRequest
from treadle.kernel.lifecycle import Stateful
from treadle.models import ArgumentsDelta, BlockEnd, BlockStart, Chunk, Finish, Finished, TextDelta
from treadle.testing import Lifecycle, Row, Trigger

from ..terminal.gutter import words_of

WORD = 0.02
"""Seconds per word."""


class Pace:
    """The demo's clock: it goes on by what the demo takes its time for, whether or not it really waits.

    So two runs show the same times, fast or not.

    Args:
        fast: do not wait.
    """

    def __init__(self, *, fast: bool) -> None:
        self.fast = fast
        self.now = 0.0

    async def beat(self, seconds: float) -> None:
        """Take some time."""
        self.now += seconds
        if self.fast:
            await trio.lowlevel.checkpoint()
        else:
            await trio.sleep(seconds)


@frozen(eq=False)
class Cue:
    """A rendezvous: whoever reaches it waits there until the director lets it go on."""

    _reached: trio.Event = field(factory=trio.Event, init=False)
    _released: trio.Event = field(factory=trio.Event, init=False)

    async def reach(self) -> None:
        """Say that the place is reached, and wait to go on."""
        self._reached.set()
        await self._released.wait()

    async def met(self) -> None:
        """Wait until somebody has reached it."""
        await self._reached.wait()

    def go(self) -> None:
        """Let whoever waits there go on."""
        self._released.set()


def lines(pace: Pace, *parts: str | Cue | Call) -> Callable[[ModelRequest], AsyncIterator[Chunk]]:
    """What a scripted model says in one attempt: text, word by word, with cues in it, and calls at the end."""

    async def stream() -> AsyncIterator[Chunk]:
        calls = [part for part in parts if isinstance(part, Call)]
        yield BlockStart(0, "text")
        for part in parts:
            if isinstance(part, Cue):
                await part.reach()
            elif isinstance(part, str):
                for word in words_of(part):
                    await pace.beat(WORD)
                    yield TextDelta(0, word)
        yield BlockEnd(0)
        for index, call in enumerate(calls, 1):
            yield BlockStart(index, "tool-call", call.id, call.name)
            yield ArgumentsDelta(index, json.dumps(call.arguments))
            yield BlockEnd(index)
        yield Finished(Finish("tool-calls" if calls else "stop"))

    return lambda _: stream()


class WatchedLifecycle(Lifecycle):
    """The lifecycle of one agent, telling each transition as it is made.

    Args:
        watch: called with each row. What it raises is kept in ``failure``: watching changes nothing.
    """

    def __init__(self, watch: Callable[[Row], None]) -> None:
        super().__init__()
        self._watch = watch
        self.failure: Exception | None = None

    def fire(self, model: Stateful, trigger: Trigger) -> Row:
        """See ``Lifecycle.fire``."""
        row = super().fire(model, trigger)
        try:
            self._watch(row)
        except Exception as error:
            self.failure = self.failure or error
        return row
