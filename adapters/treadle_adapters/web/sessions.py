"""What is asked of sessions as a whole: list, make, fork, delete, download, stop, maintain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import trio
from attrs import field, frozen

from treadle import SessionLocked, message
from treadle.session import encode_header, new_id

from ..approvals import Approval
from .desk import ORIGIN, Desk, Owner
from .problems import Refused
from .shapes import (
    AnswerTo,
    Applied,
    Cancelling,
    ForkAt,
    MaintenanceAsked,
    NewSession,
    SessionList,
    SessionView,
    live_view,
    stored_view,
)

PAGE, LARGEST_PAGE = 100, 1_000
COMPACT = "compact"
"""The task that every agent with a compaction has."""
"""How many sessions, or events, are listed at once unless told otherwise, and at most."""


@frozen
class Asked:
    """One request, read and checked.

    Attributes:
        owner: who asks.
        path: the parts of the path that vary.
        query: the query's parameters.
        body: the body, of the type that the operation takes.
    """

    owner: Owner
    path: Mapping[str, str] = field(factory=dict[str, str])
    query: Mapping[str, str] = field(factory=dict[str, str])
    body: Any = None

    @property
    def session(self) -> str:
        """The session's id."""
        return self.path["session"]

    def number(self, name: str, default: int, most: int) -> int:
        """A parameter of the query that is a whole number from 0 to ``most``.

        Raises:
            Refused: it is none.
        """
        text = self.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise Refused(400, "MISUSE", f"{name} must be a whole number")
        return min(int(text), most)


class SessionOperations:
    """The operations; each runs in the host's thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def list(self, asked: Asked) -> SessionList:
        """The owner's sessions, newest first; ``limit`` of them, from ``after`` on."""
        desk, found = self._desk, dict[str, SessionView]()
        unreadable = 0
        if desk.host.store is not None:
            listing = await desk.host.store.list()
            unreadable = len(listing.unreadable) if asked.owner is None else 0
            for listed in listing.sessions:
                if asked.owner is None or desk.owner_for(listed.header) == asked.owner:
                    found[listed.header.id] = stored_view(listed)
        for agent in desk.host.agents.list():
            if asked.owner is None or desk.owner_for(agent.session.header) == asked.owner:
                found[agent.id] = live_view(agent)
        ordered = sorted(found.values(), key=lambda view: (view.created_at, view.id), reverse=True)
        after = asked.query.get("after")
        at = next((number + 1 for number, view in enumerate(ordered) if view.id == after), 0)
        limit = max(1, asked.number("limit", PAGE, LARGEST_PAGE))
        page = ordered[at : at + limit]
        return SessionList(page, page[-1].id if at + limit < len(ordered) else None, unreadable)

    async def create(self, asked: Asked) -> SessionView:
        """Make a session; its first message is delivered with it."""
        given: NewSession = asked.body
        fields = {} if given.preset is None else {"agent_preset": given.preset}
        first = None if given.message is None else message(given.message)
        agent = await self._desk.created(asked.owner, **fields)
        if first is not None:
            agent.followup(first)
        return live_view(agent)

    async def get(self, asked: Asked) -> SessionView:
        """One session."""
        desk, name = self._desk, asked.session
        await desk.check(asked.owner, name)
        agent = desk.host.agents.get(name)
        if agent is not None:
            return live_view(agent)
        stored = await desk.stored(name)
        header = stored.header
        return SessionView(
            name, header.created_at, False, events=len(stored.events), parent=header.parent_session,
            preset=header.agent_preset,
        )  # fmt: skip

    async def fork(self, asked: Asked) -> SessionView:
        """Begin a new session of the same owner with the first events of this one."""
        desk, name, given = self._desk, asked.session, asked.body
        assert isinstance(given, ForkAt)
        desk.check_admits()
        await desk.check(asked.owner, name)
        await desk.check_room(asked.owner)
        if desk.host.store is None:
            raise Refused(409, "NO_STORE", "sessions are forked in a store, and this host has none")
        agent = desk.host.agents.get(name)
        if agent is not None:
            await agent.engine.durable()
        header = await desk.host.store.fork(name, new_id(), given.upto)
        desk.counted(asked.owner if header.origin == ORIGIN + str(asked.owner) else None, header.id)
        return SessionView(
            header.id, header.created_at, False, events=header.inherited + 1, parent=name, preset=header.agent_preset
        )

    async def delete(self, asked: Asked) -> Applied:
        """End the session's agent and remove the session for good."""
        desk, name = self._desk, asked.session
        async with desk.at_rest(asked.owner, name):
            with trio.CancelScope(shield=True):
                if desk.host.store is not None:
                    await desk.host.store.delete(name)
                desk.counted(asked.owner, name, -1)
                desk.watching.end(name, "deleted")
        return Applied()

    async def log(self, asked: Asked) -> bytes:
        """The whole log as JSON lines, header first: what ``treadle show`` and ``treadle check`` read."""
        desk, name, hidden = self._desk, asked.session, self._desk.redaction
        await desk.check(asked.owner, name)
        agent = desk.host.agents.get(name)
        if agent is not None:
            header, events = agent.session.header, list(agent.session.events)
        else:
            stored = await desk.stored(name)
            header, events = stored.header, list(stored.events)
        return await trio.to_thread.run_sync(
            lambda: b"".join(
                [line + b"\n" for line in (hidden.body(encode_header(header)), *map(hidden.event, events))]
            )
        )

    async def events(self, asked: Asked) -> bytes:
        """A piece of the log as a JSON array: ``limit`` events from number ``from`` on."""
        desk, name = self._desk, asked.session
        await desk.check(asked.owner, name)
        agent = desk.host.agents.get(name)
        log = agent.session.events if agent is not None else (await desk.stored(name)).events
        start = asked.number("from", 0, 1 << 60)
        piece = log[start : start + asked.number("limit", PAGE, LARGEST_PAGE)]
        return b"[" + b",".join(map(desk.redaction.event, piece)) + b"]"

    async def cancel(self, asked: Asked) -> SessionView:
        """Stop the turn or task under way; what was said so far is kept (C1)."""
        given: Cancelling = asked.body
        try:
            agent = await self._desk.opened(asked.owner, asked.session)
        except SessionLocked as locked:
            await self._desk.elsewhere(asked.session, locked).cancel(keep_inbox=given.keep_inbox)
            return await self.get(asked)
        agent.cancel(keep_inbox=given.keep_inbox)
        return live_view(agent)

    async def maintain(self, asked: Asked) -> Applied:
        """Run a task between turns, and answer when it has ended (M1)."""
        given: MaintenanceAsked = asked.body
        self._desk.check_admits()
        agent = await self._desk.opened(asked.owner, asked.session)
        task = self._desk.furnishing.maintenance.get(given.task)
        if task is None and given.task == COMPACT:
            await agent.compact()
            return Applied()
        if task is None:
            known = ", ".join(sorted({*self._desk.furnishing.maintenance, COMPACT}))
            raise Refused(422, "UNKNOWN_TASK", f"there is no task {given.task[:64]!r}; known: {known}")
        await agent.run_maintenance(partial(task, agent))
        return Applied()

    async def pending_approvals(self, asked: Asked) -> tuple[Approval, ...]:
        """The calls of the session that wait for approval, oldest first."""
        await self._desk.check(asked.owner, asked.session)
        return self._desk.approvals.pending(asked.session)

    async def answer(self, asked: Asked) -> Approval:
        """Approve or refuse a call that waits, once."""
        given: AnswerTo = asked.body
        await self._desk.check(asked.owner, asked.session)
        return self._desk.approvals.answer(asked.session, asked.path["approval"], given.approved)
