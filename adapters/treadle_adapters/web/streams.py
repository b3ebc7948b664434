"""One client's view of one session: events of the log, and what the live attempt says, from a place on.

Messages of a stream, in the order in which a client is told them:

- ``event``: one event of the log. Its ``id`` is the place after it.
- ``frames``: chunks of a live attempt, ``from`` the number of the first one. 0 begins the attempt, also for who joins later;
  any other continues what was told before.
- ``gone``: a live attempt that was told has ended, and nothing of it is in the log: it failed, or a kill lost it.
- ``output``: what a running call puts out, from character ``from`` on: the end of what was told before continues it, any other
  number begins anew. It is told and not recorded: the result, an event, takes its place.
- ``reset``: the log is not the one that the place was in (a kill lost its end): forget all events, they follow anew.
- ``state``: what the session is doing now; after everything that the log held when it was asked for.
- ``approvals``: the calls that wait for approval, all of them.
- ``slow``: the client took so many ``seconds`` for what it was told last, and is so many events ``behind``.
- ``bye``: the stream ends; ``reason`` is ``draining`` or ``deleted``.

A slow reader misses nothing: what it has not read is gathered into larger pieces. It is told that it is slow, and may read
on, or leave and come back to its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any, Self

import anyio
import msgspec
from attrs import define, field, frozen

from treadle import Agent, SessionNotFound
from treadle.models import Chunk
from treadle.session import Event

from .desk import Desk
from .limits import Limits
from .port import Port
from .problems import Refused
from .shapes import ENCODER
from .watching import Attempt, Ear, Output, gathered


@frozen
class Place:
    """Where a client is: which event comes next, and which live attempt it was told of.

    As text, ``SEQ.TIME~ATTEMPT``: the last event's number and time, by which it is known again, and the attempt.

    Attributes:
        next: the number of the event that comes next.
        time: the time of the one before, ``None`` when that is not known.
        attempt: the attempt of which the client was told something, while it is not over.
    """

    next: int = 0
    time: int | None = None
    attempt: str | None = None

    def __str__(self) -> str:
        at = str(self.next - 1) if self.time is None else f"{self.next - 1}.{self.time}"
        return at if self.attempt is None else f"{at}~{self.attempt}"

    @classmethod
    def of(cls, text: str) -> Place:
        """Read a place.

        Raises:
            Refused: it is none.
        """
        at, tilde, attempt = text.partition("~")
        seq, dot, time = at.partition(".")
        if seq == "-1" and not dot:
            return cls(0, None, attempt or None)
        if not _is_number(seq) or (dot and not _is_number(time)) or (tilde and not attempt) or len(attempt) > 128:
            raise Refused(400, "MISUSE", "no place in a log: give the id of the last message, or a whole number")
        return cls(int(seq) + 1, int(time) if dot else None, attempt or None)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


@frozen
class Told:
    """One message of a stream. ``data`` is JSON on one line."""

    event: str
    data: bytes
    id: str | None = None


class Frames(msgspec.Struct, frozen=True, rename="camel"):
    """Chunks of a live attempt, gathered."""

    attempt_id: str
    turn: int
    step: int
    from_: int = msgspec.field(name="from")
    next: int
    chunks: list[Chunk]


class LiveOutput(msgspec.Struct, frozen=True, rename="camel"):
    """What a running call puts out, and how far it is, where it says so."""

    call_id: str
    from_: int = msgspec.field(name="from")
    text: str
    done: float | None
    total: float | None


@define(eq=False)
class _Shown:
    """What a client was told of the session itself, and of its running calls."""

    outputs: dict[str, Output] = field(factory=dict[str, Output])
    state: tuple[Any, ...] | None = None
    approvals: tuple[Any, ...] = ()


class Stream:
    """One client's view of one session. Use it as a context manager, in the server's loop.

    Args:
        port: the host.
        desk: its sessions.
        session_id: a session that the client may see.
        place: where to begin.
    """

    def __init__(self, port: Port, desk: Desk, session_id: str, place: Place) -> None:
        self._port = port
        self._desk = desk
        self._limits: Limits = desk.limits
        self._id = session_id
        self._next, self._time, self._attempt = place.next, place.time, place.attempt
        self._chunk: int | None = None if place.attempt is not None else 0
        self._checked = False
        self._log: Sequence[Event] | None = None
        self._complete = False
        self._shown = _Shown()
        self._ear = Ear(port.bell())
        self._read_at = 0.0
        self._pulsed = False
        self._told_at: float | None = None
        self._more = True

    def __enter__(self) -> Self:
        self._desk.watching.enter(self._id, self._ear)
        return self

    def __exit__(self, *_: object) -> None:
        self._desk.watching.leave(self._id, self._ear)

    @property
    def place(self) -> Place:
        """Where the client is once it has what was told."""
        return Place(self._next, self._time, self._attempt)

    def close(self, reason: str) -> None:
        """End it with a word that says why."""
        self._ear.close(reason)

    @property
    def heartbeat(self) -> float:
        """Seconds after which it is to be told that time has passed."""
        return self._limits.heartbeat

    def pulse(self) -> None:
        """Time has passed: if there is nothing to tell, ``next`` returns, so that the client learns that the stream lives."""
        self._pulsed = True
        self._ear.bell.ring()

    async def next(self) -> list[Told]:
        """What is to be told next; empty at a pulse in silence. The last message of all is ``bye``.

        Raises:
            TreadleError: the log cannot be read.
        """
        late = monotonic() - self._told_at if self._told_at is not None else 0.0
        told = await self._following()
        if told and late > self._limits.slow:
            told.insert(0, self._slow(late))
        self._told_at = monotonic()
        return told

    async def _following(self) -> list[Told]:
        while True:
            if not self._more:
                await self._ear.bell.wait()
                early = self._read_at + self._limits.gather - monotonic()
                if early > 0 and self._ear.closing is None:
                    await anyio.sleep(early)
            pulsed, self._pulsed = self._pulsed, False
            told = await self._read()
            self._read_at = monotonic()
            if told or pulsed:
                return told

    async def _read(self) -> list[Told]:
        agent = self._port.host.agents.get(self._id)
        attempt = self._desk.watching.attempts.get(self._id)  # before the log, so that its event cannot be missed
        outputs = self._desk.watching.outputs.get(self._id, {})
        log = await self._log_of(agent)
        told: list[Told] = [] if self._checked else self._check(log)
        whole = self._events(log, told)
        if whole:
            self._frames(attempt, log, told)
            self._outputs(outputs, told)
            self._session(agent, told)
            self._finish(agent, log)
        self._more = not whole or (attempt is not None and bool(self._behind(attempt)))
        if self._ear.closing is not None and not self._more:
            reason = self._ear.closing
            told.append(Told("bye", ENCODER.encode({"reason": reason}), str(self.place)))
        return told

    def _slow(self, seconds: float) -> Told:
        behind = len(self._log) - self._next if self._log is not None else 0
        return Told("slow", ENCODER.encode({"seconds": round(seconds, 3), "behind": behind}))

    # --- the log ------------------------------------------------------------------------------------------------------

    async def _log_of(self, agent: Agent | None) -> Sequence[Event]:
        """The log: the live one, else what was seen of it last, else what is stored."""
        if agent is not None:
            self._complete = False
            self._log = agent.session.events
        elif self._log is None and not self._complete:
            try:
                self._log = (await self._port.run(self._desk.stored, self._id)).events
            except SessionNotFound:
                self._ear.close("deleted")
        return self._log if self._log is not None else ()

    def _finish(self, agent: Agent | None, log: Sequence[Event]) -> None:
        """Hold nothing of a session that is not in memory once all of it was told."""
        if agent is None and self._next >= len(log):
            self._log, self._complete = None, True

    def _check(self, log: Sequence[Event]) -> list[Told]:
        """See whether the log is the one that the client's place was in; begin anew where it is not."""
        self._checked = True
        last = self._next - 1
        if last < 0 or (last < len(log) and self._time in (None, log[last].time)):
            if last >= 0:
                self._time = log[last].time
            return []
        was, self._next, self._time = last, 0, None
        self._attempt, self._chunk = None, 0
        return [Told("reset", ENCODER.encode({"was": was, "events": len(log)}), str(self.place))]

    def _events(self, log: Sequence[Event], told: list[Told]) -> bool:
        """Tell events, about a piece at a time; returns whether that were all."""
        size = 0
        end = len(log)
        while self._next < end:
            if size >= self._limits.piece:
                return False
            entry = log[self._next]
            data = self._desk.redaction.event(entry)
            size += len(data)
            self._next, self._time = entry.seq + 1, entry.time
            if self._attempt is not None and getattr(entry.data, "attempt_id", None) == self._attempt:
                self._attempt, self._chunk = None, 0
            told.append(Told("event", data, str(self.place)))
        return True

    # --- the live attempt ---------------------------------------------------------------------------------------------

    def _frames(self, attempt: Attempt | None, log: Sequence[Event], told: list[Told]) -> None:
        live = attempt.id if attempt is not None else None
        if self._attempt is not None and self._attempt != live:
            gone, self._attempt, self._chunk = self._attempt, None, 0
            told.append(Told("gone", ENCODER.encode({"attemptId": gone}), str(self.place)))
        if attempt is None or (self._attempt is None and self._recorded(attempt, log)):
            return
        if self._attempt is None:
            self._chunk = 0
        start = self._chunk or 0
        chunks, following = gathered(attempt.chunks, start, self._limits.piece)
        if chunks or self._attempt is None:
            self._attempt, self._chunk = attempt.id, following
            frames = Frames(attempt.id, attempt.turn, attempt.step, start, following, chunks)
            told.append(Told("frames", ENCODER.encode(frames), str(self.place)))

    def _recorded(self, attempt: Attempt, log: Sequence[Event]) -> bool:
        """Whether the client has the event that an attempt ended with: the log is told of it before we are."""
        return any([getattr(entry.data, "attempt_id", None) == attempt.id for entry in log[attempt.since : self._next]])

    def _behind(self, attempt: Attempt) -> int:
        return len(attempt.chunks) - (self._chunk or 0) if self._attempt == attempt.id else 0

    # --- running calls ------------------------------------------------------------------------------------------------

    def _outputs(self, running: dict[str, Output], told: list[Told]) -> None:
        still = self._desk.watching.outputs.get(self._id, {})
        shown, self._shown.outputs = self._shown.outputs, running
        for call, output in running.items():
            before = shown.get(call)
            if before is None or before.call != output.call:
                before = Output(output.call)
            if output == before or call not in still:  # the log told its result while it was looked at
                continue
            known = before.start + len(before.text)
            start = max(known, output.start)
            news = LiveOutput(call, start, output.text[start - output.start :], output.done, output.total)
            told.append(Told("output", ENCODER.encode(news), None))

    # --- the session itself -------------------------------------------------------------------------------------------

    def _session(self, agent: Agent | None, told: list[Told]) -> None:
        state = (None, None) if agent is None else (agent.state.value, agent.status)
        if state != self._shown.state:
            self._shown.state = state
            data = {"id": self._id, "live": agent is not None, "state": state[0], "status": state[1]}
            told.append(Told("state", ENCODER.encode(data), None))
        pending = self._desk.approvals.pending(self._id)
        if pending != self._shown.approvals:
            self._shown.approvals = pending
            told.append(Told("approvals", self._desk.redaction.body(ENCODER.encode(pending)), None))
