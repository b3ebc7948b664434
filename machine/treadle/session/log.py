"""The session log: append-only, the single source of truth (§12)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import msgspec
import trio

from ..errors import MisuseError, SessionCorrupt
from ..ids import SessionId, session_id
from ..lossless import check_bytes, check_text
from ..models.adapter import ModelRequest
from ..pictures import picture
from ..views import Snapshot
from ..words.events import (
    APPEND,
    BY_CLASS,
    Append,
    AssistantMessageAdded,
    Event,
    PresetSelected,
    Replace,
    SurfaceOp,
    ToolCallStarted,
    ToolResultAdded,
    UserMessageAdded,
    detached,
    type_named,
    type_of,
)
from ..words.messages import Message, ToolCall
from .surface import Surface, unpaired
from .window import EventView, Past

FORMAT_VERSION = 1
"""The format this version writes (P5)."""

MAX_HEADER_TEXT = 64 * 1024
"""How many characters a folder or an origin may have in a header (X3)."""

OWNED_BY_DRIVER = frozenset(
    {
        "turn/start",
        "turn/end",
        "step/start",
        "step/end",
        "assistant/message",
        "assistant/attempt",
        "tool/call",
        "tool/result",
        "request/header",
        "request/context",
        "agent/inbox/spliced",
        "session/end-seed",
    }
)
"""Types that only the driver writes while it drives the session."""


class Checks(Protocol):
    """What verifies a live session, where that is wanted (``Host(checks=True)``)."""

    def take(self, entry: Event) -> None:
        """Take the event that was appended; raises ``InvariantViolated`` where it breaks a rule."""
        ...

    def check_request(self, request: ModelRequest) -> None:
        """Compare a request with what the log says; raises ``InvariantViolated`` where they differ (Q1)."""
        ...


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class SessionHeader(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What stands beside the log and never enters the history (S8).

    Attributes:
        id: the session's id, which is the agent's.
        created_at: milliseconds since the epoch.
        cwd: the absolute working directory.
        format_version: the format of the log (P5).
        parent_session: the session it was forked from or made for.
        seeded: whether it began with events of another session.
        inherited: exactly how many events a fork inherited.
        origin: what it was made for; ``subagent`` is known.
        delegation_depth: how many agents stand above it.
        agent_preset: the preset it was created under.
    """

    id: str
    created_at: int
    cwd: str
    format_version: int = FORMAT_VERSION
    parent_session: str | None = None
    seeded: bool = False
    inherited: int = 0
    origin: str | None = None
    delegation_depth: int = 0
    agent_preset: str | None = None


class Session:
    """One session's log in memory, with the history derived from it as it grows.

    Args:
        header: identity and origin.
        events: what the log holds already, checked as it is taken in.
        clock: milliseconds since the epoch, for new events.

    Attributes:
        surface: the nodes of the history, to be read only (S4).
        held, base: the events that are held, from number ``base`` on; ``past`` reads those before it (S11).
        preset: the preset that was selected last (O9).
        recorded, call_ids: the ids of user messages (I1) and tool calls (K3); empty, sets take three times the memory.

    Raises:
        SessionCorrupt: the events are not numbered 0, 1, 2, …, or their surface metadata does not fit.
    """

    __slots__ = (
        "_appending",
        "_call_seqs",
        "_listener",
        "_sink",
        "base",
        "call_ids",
        "cells",
        "checks",
        "clock",
        "driven",
        "header",
        "held",
        "past",
        "preset",
        "recorded",
        "surface",
    )

    def __init__(
        self, header: SessionHeader, events: Iterable[Event] = (), *, clock: Callable[[], int] = wall_clock
    ) -> None:
        self.header = header
        self.recorded: dict[str, None] = {}
        self.call_ids: dict[str, None] = {}
        self.driven = False
        self.cells: dict[Any, Any] | None = None
        self.checks: Checks | None = None
        self.held: list[Event] = []
        self.base = 0
        self.past: Past | None = None
        self.preset: str | None = None
        self.surface = Surface()
        self._call_seqs: dict[str, int] = {}
        self.clock = clock
        self._appending = False
        self._listener: Callable[[Event], None] | None = None
        self._sink: Callable[[Event], None] | None = None
        self.load(events)

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> SessionId:
        """The session's id."""
        return SessionId(self.header.id)

    @property
    def events(self) -> EventView:
        """All events, in order; a live, read-only view. Of a stored session the newest are held, others are read back."""
        return EventView(self)

    async def read(self, first: int, stop: int) -> list[Event]:
        """Events by their numbers, read in a worker thread where they are not held (S11).

        Args:
            first: the number of the first one.
            stop: that of the first one left out; what is beyond the end is not there.

        Raises:
            StoreFailure, SessionCorrupt, SessionNotFound: they cannot be read back.
        """
        first, stop, _ = slice(first, stop).indices(len(self))
        base, past = self.base, self.past
        newer = self.held[max(0, first - base) : max(0, stop - base)]
        if past is None or first >= min(stop, base):
            await trio.lowlevel.checkpoint()
            return newer
        return [*await trio.to_thread.run_sync(past.read, first, min(stop, base)), *newer]

    def forget(self, before: int) -> None:
        """Hold events from ``before`` on only; the older ones are stored, and read back. Internal to treadle."""
        if before > self.base:
            self.held, self.base = self.held[before - self.base :], before

    def history(self) -> Snapshot[Message]:
        """The model-visible history derived from the log, as of now (S4)."""
        messages = self.surface.messages
        return Snapshot(messages, len(messages))

    def __len__(self) -> int:
        return self.base + len(self.held)

    def __repr__(self) -> str:
        return f"<Session {self.header.id} with {len(self)} events>"

    def _repr_html_(self) -> str | None:
        return picture("session_html", self)

    def listen(self, listener: Callable[[Event], None] | None) -> None:
        """Tell one function, the driver's, about every event that ``append`` accepts."""
        self._listener = listener

    def mirror(self, sink: Callable[[Event], None] | None) -> None:
        """Hand every event that is appended from now on to one function, the store's (P1)."""
        self._sink = sink

    # --- writing ------------------------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    def append(
        self,
        data: Any,
        *,
        surface_op: SurfaceOp | None = None,
        sources: Iterable[int] | None = None,
        ignorable: bool = False,
    ) -> Event:
        """Append one event of a registered type (S1–S3, S6).

        Args:
            data: an instance of a class registered with ``event``.
            surface_op: for surface types, how it enters; appended unless given.
            sources: seqs of earlier events it was made from or shadows.
            ignorable: whether readers that do not know the type may skip it.

        Raises:
            MisuseError: the type is unknown or the driver's own, the surface metadata does not fit, the history would
                lose its pairing, or the call re-enters an append. Nothing is changed.
            InvalidData: the data is not losslessly JSON. Nothing is changed.
        """
        if self._appending:
            raise MisuseError("append re-entered while another append is being accepted (S6); append afterwards")
        self._appending = True
        try:
            known = type_of(data)
            if self.driven and known.tag in OWNED_BY_DRIVER:
                raise MisuseError(f"events of type {known.tag!r} are written by the driver only")
            cited = tuple(sources) if sources is not None else None
            self._check_surface(known.surface, surface_op, cited)
            data = detached(data)
            self._check_identity(data, surface_op)
        finally:
            self._appending = False
        op = surface_op or (APPEND if known.surface else None)
        entry = Event(known.tag, self.base + len(self.held), self.clock(), data, op, cited, ignorable)
        self._take(entry)
        if self._sink is not None:
            self._sink(entry)
        if self.checks is not None:
            self.checks.take(entry)
        if self._listener is not None:
            self._listener(entry)
        return entry

    @trio.lowlevel.enable_ki_protection
    def commit(self, data: Any, replaces: int | None = None, time: int | None = None) -> Event:
        """Append an event of the driver, its data checked where it came in, as of ``time`` or now. Internal to treadle."""
        known = BY_CLASS[type(data)]
        at = self.clock() if time is None else time
        if known.surface:
            op: SurfaceOp = APPEND
            sources: tuple[int, ...] | None = None
            if replaces is not None:
                op, sources = Replace(replaces, replaces), (replaces,)
            elif type(data) is ToolResultAdded and (called := self._call_seqs.get(data.call_id)) is not None:
                sources = (called,)
            entry = Event(known.tag, self.base + len(self.held), at, data, op, sources)
            self._take(entry)
        else:
            entry = Event(known.tag, self.base + len(self.held), at, data)
            if type(data) is ToolCallStarted:
                self._call_seqs[data.call_id] = entry.seq
            self.held.append(entry)
        if self._sink is not None:
            self._sink(entry)
        if self.checks is not None:
            self.checks.take(entry)
        return entry

    def _take(self, entry: Event) -> None:
        data = entry.data
        if entry.surface_op is not None:
            self.surface.apply(entry)
            if type(data) is UserMessageAdded:
                self.recorded[data.message.id] = None
            elif type(data) is ToolResultAdded:
                self._call_seqs.pop(data.call_id, None)
            elif type(data) is AssistantMessageAdded and len(data.message.content):
                for block in data.message.content:
                    if type(block) is ToolCall:
                        self.call_ids[block.call_id] = None
        elif type(data) is ToolCallStarted:
            self._call_seqs[data.call_id] = entry.seq
        elif type(data) is PresetSelected:
            self.preset = data.preset
        self.held.append(entry)

    def load(self, events: Iterable[Event]) -> None:
        """Take events that are recorded already, those before the first that does not fit. Internal to treadle.

        Raises:
            SessionCorrupt: its number is not the one due, or its surface metadata does not fit.
        """
        take, seq = self._take, len(self)
        for entry in events:
            if entry.seq != seq:
                raise SessionCorrupt(f"event number {entry.seq} stands where {seq} is due (N6)", entry.seq)
            known = type_named(entry.type)
            op, cited = entry.surface_op, entry.source_event_seqs
            surface = known.surface if known is not None else op is not None
            if surface or op is not None or cited is not None:
                try:
                    if surface and op is None:
                        raise MisuseError(f"{entry.type} carries no surface operation (S3)")
                    self._check_surface(surface, op, cited)
                except MisuseError as error:
                    raise SessionCorrupt(f"event {seq}: {error}", seq) from error
            take(entry)
            seq += 1

    def _check_surface(self, surface: bool, op: SurfaceOp | None, sources: tuple[int, ...] | None) -> None:
        if not surface:
            if op is not None or sources is not None:
                raise MisuseError("only surface events carry surface metadata (S3)")
            return
        if op is not None and not isinstance(op, (Append, Replace)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MisuseError(f"surface_op must be Append or Replace, not {op!r} (S3)")
        for seq in sources or ():
            if type(seq) is not int or not 0 <= seq < len(self):
                raise MisuseError(f"source seq {seq!r} names no earlier event (S3)")
        if type(op) is Replace:
            self.surface.check(op, sources)

    def _check_identity(self, data: Any, op: SurfaceOp | None) -> None:
        """Refuse what would break identities (I1) or pairing (N1)."""
        if type(data) is UserMessageAdded and data.message.id in self.recorded:
            raise MisuseError(f"user message {data.message.id!r} is recorded already (I1)")
        if not type_of(data).surface:
            return
        messages: list[Message] = list(self.surface.messages)
        if type(op) is Replace:
            first, last = self.surface.place(op)
            nodes = self.surface.nodes
            messages = [node.message for node in (*nodes[:first], *nodes[last + 1 :]) if node.message is not None]
        missing = unpaired(messages)
        if missing and (type(op) is Replace or self.driven):
            raise MisuseError(f"the history would hold calls or results without their other half: {missing} (N1)")


@lru_cache(maxsize=64)  # most sessions of a process share a folder
def _check_cwd(cwd: str) -> None:
    if not Path(cwd).is_absolute():
        raise MisuseError(f"cwd must be absolute, not {cwd!r} (S8)")
    check_text(cwd, "a session's cwd")
    check_bytes(len(cwd), "a session's cwd", MAX_HEADER_TEXT)


def new_header(id: str, cwd: str, created_at: int | None = None, **fields: Any) -> SessionHeader:
    """Make and check the header of a new session (S8, X2).

    Raises:
        MisuseError: an id is not allowed, ``cwd`` is not absolute, or a field is unknown, of the wrong kind, or text that
            UTF-8 cannot carry (S1) or is too long (X3).
    """
    _check_cwd(cwd)
    made = wall_clock() if created_at is None else created_at
    if not fields:
        return SessionHeader(session_id(id), made, cwd)
    try:
        header = SessionHeader(session_id(id), made, cwd, **fields)
        msgspec.convert(msgspec.to_builtins(header), SessionHeader)
    except (TypeError, ValueError) as error:
        known = ", ".join(SessionHeader.__struct_fields__)
        raise MisuseError(f"no valid session header (S8): {error}; its fields are {known}") from error
    for name in (header.parent_session, header.agent_preset):
        if name is not None:
            session_id(name)
    check_text(header.origin or "", "a session's origin")
    check_bytes(len(header.origin or ""), "a session's origin", MAX_HEADER_TEXT)
    if header.inherited < 0 or header.delegation_depth < 0:
        raise MisuseError("a session's inherited count and delegation depth are not negative (S8)")
    return header
