"""A sink that does to a writer what disks, networks and other processes do, and holds it to how a sink may be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import trio
from attrs import define, field

from treadle import SessionLocked

from ...exploration.violation import Violation

Mood = Literal["quick", "slow", "held", "late", "full", "lost"]
"""At once; after a while; when it is let go; written at once and acknowledged after a while; no room; somebody else's."""
SLOW = 0.5
"""Seconds that a slow write, or a late acknowledgement, takes."""


@define(eq=False)
class Sink:
    """What is written, and how the next writes go.

    Attributes:
        mood: how a write goes. It is looked at again when a slow or held one has waited.
        records: what the operating system has.
        durable: how many of them are on disk.
        eager: whether each write reaches the disk, asked for or not.
        writes: calls of ``write`` that were not refused.
        syncs: how many of them were asked to be durable.
        failed: calls that failed.
        ended: when the last call ended, in seconds.
        broken: what a use of it broke.
    """

    mood: Mood = "quick"
    records: list[bytes] = field(factory=list[bytes])
    durable: int = 0
    eager: bool = False
    writes: int = 0
    syncs: int = 0
    failed: int = 0
    busy: bool = False
    ended: float = 0.0
    held: trio.Event = field(factory=trio.Event)
    released: int = 0
    asked_after_loss: bool = False
    loss_told: bool = False
    failures: list[tuple[trio.lowlevel.Task, BaseException]] = field(
        factory=list[tuple[trio.lowlevel.Task, BaseException]]
    )
    broken: list[Violation] = field(factory=list[Violation])

    async def write(self, first: int, records: Sequence[bytes], durable: bool) -> bool:
        """See ``Sink``."""
        self._hold(not self.busy, "P1", "two writes are under way at once")
        self._hold(not self.released, "P2", "written after the lock was let go")
        self._hold(not self.loss_told, "P2", "written again after the lock was lost")
        self._hold(first == len(self.records), "N6", f"written from {first} on, and {len(self.records)} are there")
        self.busy = True
        self.writes += 1
        self.syncs += durable
        before = list(records)
        try:
            await self._wait()
            self._fail()
            self._hold(before == list(records), "P1", "a batch changed while it was being written")
            self.records.extend(before)
            if durable or self.eager:
                self.durable = len(self.records)
            if self.mood == "late":
                await trio.sleep(SLOW)
        except BaseException as error:
            self.failed += 1
            self.failures.append((trio.lowlevel.current_task(), error))
            raise
        finally:
            self.busy, self.ended = False, trio.current_time()
        return durable or self.eager

    async def _wait(self) -> None:
        if self.mood == "slow":
            await trio.sleep(SLOW)
        elif self.mood == "held":
            await self.held.wait()
        else:
            await trio.lowlevel.checkpoint()

    def _fail(self) -> None:
        if self.mood == "full":
            raise OSError(28, "no room")
        if self.mood == "lost":
            self.loss_told = True
            raise SessionLocked("the lock is somebody else's")

    async def release(self) -> None:
        """See ``Sink``."""
        self._hold(not self.busy, "P2", "let go in the middle of a write")
        self.released += 1
        self._hold(self.released == 1, "P2", "let go twice")
        await trio.lowlevel.checkpoint()

    def let_go(self) -> None:
        """Let held writes go on."""
        self.held.set()
        self.held = trio.Event()

    def _hold(self, holds: bool, rule: str, message: str) -> None:
        """A writer contains what its sink raises, so what is found is kept for the machine."""
        if not holds:
            self.broken.append(Violation(rule, message))
