"""Ties a live agent to its stored session: loading and repair, the write path, the barriers (§13)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import trio
from attrs import frozen

from ..agent.agent import Agent
from ..checks import LogIntake, LogMonitor, Resumed, seeded_session
from ..errors import SessionLocked, StoreFailure
from ..hooks.points import SESSION_FLUSH, TOOLS_EXECUTE, SessionFlushing, ToolProposal
from ..prompt.contexts import Snapshots
from ..session.log import Session, SessionHeader
from ..session.repair import LogEnd, Recovery
from ..session.store import Archive, ArchivingStore, SessionStore, SessionWriter, Taken
from ..words.events import Event
from .convergence import Spawn
from .keeper import EVERY, Keeper, checkpointed, refill

LOGGER = logging.getLogger("treadle")

LONG = 5_000
"""Events from which a session is built in a worker thread, so that the loop goes on meanwhile."""
WHO = "the session store"
"""Who failed, in reports of the write path (N8)."""


@frozen
class Reopened:
    """A stored session, loaded, repaired and ready to be driven (P4).

    Attributes:
        session: with every event that is stored.
        end: where its log ended before it was closed.
        monitor: what checked it.
        snapshots: what its dynamic contexts last told the model.
        writer: its write path.
        recovery: what was mended.
    """

    session: Session
    end: LogEnd
    monitor: LogMonitor
    snapshots: Snapshots
    writer: SessionWriter
    recovery: Recovery


async def reopen(store: SessionStore, session_id: str) -> Reopened:
    """Open a stored session for writing and close the turn that a crash left open; that is durable at return (P4).

    Raises:
        SessionNotFound, SessionLocked, SessionCorrupt, SessionFormatUnsupported: see ``SessionStore.open_write``.
        SessionCorrupt: the log breaks a rule that it must hold to be driven on (P3); nothing is changed.
        StoreFailure: the repair could not be written; the session is closed again.
    """
    intake = LogIntake(hold_all=not isinstance(store, ArchivingStore))
    opening = store.open_intake if isinstance(store, ArchivingStore) else partial(_open_whole, store)
    taken = await opening(session_id, intake)
    writer, archive = taken.writer, taken.archive
    try:
        finish = partial(_finish, intake, archive)
        resumed, snapshots = await trio.to_thread.run_sync(finish) if taken.count > LONG else finish()
        session = resumed.session
        closing = session.events[taken.count :]
        if closing:
            await writer.append(closing)
        if archive is not None and len(session) - archive.covered >= EVERY:
            await checkpointed(archive.keep(intake), session_id)
    except BaseException:
        await let_go(writer)
        raise
    if taken.torn is not None:
        LOGGER.warning("repaired on opening: %s", taken.torn)
    recovery = Recovery(taken.torn, len(closing))
    return Reopened(session, resumed.end, resumed.monitor, snapshots, writer, recovery)


async def _open_whole(store: SessionStore, session_id: str, intake: LogIntake) -> Taken:
    """``ArchivingStore.open_intake`` for a store that is none: it reads all events at once, and none back."""
    opened = await store.open_write(session_id)
    stored = opened.stored
    intake.begin(stored.header)
    if len(stored.events) > LONG:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(intake.take, stored.events)
    else:
        intake.take(stored.events)
    return Taken(len(stored.events), stored.torn, opened.writer, None)


def _finish(intake: LogIntake, archive: Archive | None) -> tuple[Resumed, Snapshots]:
    resumed, snapshots = intake.finish(), Snapshots()
    snapshots.follow(resumed.session)
    if archive is not None:
        resumed.session.past = archive
        refill(resumed.session, archive)
    return resumed, snapshots


async def begin(header: SessionHeader, seed: Sequence[Event]) -> Session:
    """The session of a new agent, held to what resuming would ask of it (O13).

    Raises:
        MisuseError: the seed cannot be driven on.
    """
    if len(seed) > LONG:
        return await trio.to_thread.run_sync(seeded_session, header, seed)
    return seeded_session(header, seed) if seed or header.inherited else Session(header)


async def store_new(store: SessionStore, session: Session) -> SessionWriter:
    """Make a new session durable as it is now: header, seed, and what preparation added (O13)."""
    return await store.create(session.header, list(session.events))


async def remove(store: SessionStore, session_id: str) -> None:
    """Roll back ``store_new``, once the write path is closed: nothing of the session stays (O13)."""
    with trio.CancelScope(shield=True):
        try:
            await store.delete(session_id)
        except Exception:
            LOGGER.exception("session %s could not be removed again (O13)", session_id)


async def let_go(writer: SessionWriter) -> None:
    """Close a write path whose agent never came to be."""
    with trio.CancelScope(shield=True):
        try:
            await writer.close()
        except (StoreFailure, SessionLocked):
            LOGGER.exception("closing the session failed")


def persist(
    agent: Agent, writer: SessionWriter, spawn: Spawn, report: Callable[[BaseException, str], None]
) -> Callable[[], Awaitable[None]]:
    """Send everything that the agent records to the store from now on.

    Live events are written in the background; at each turn end ``session/flush`` is the barrier (P8). Before the body
    of a tool runs, its ``tool/call`` is handed to the operating system, so that a killed process never leaves a call
    that ran and looks as if it had not been started (P4); where the session is another's by now, the body does not begin
    (P2). What is written need not be held, where the store can read it back (S11).

    Args:
        agent: whose session it is.
        writer: the store's write path for it.
        spawn: starts the task that writes.
        report: told of failures of the write path, and of whose they are (N8).

    Returns:
        Closes the write path: flushes, lets go of the lock, and says so if that failed (O4, N8).
    """
    session, scope = agent.session, agent.scope
    for entry in session.events[writer.accepted :]:
        writer.add(entry)
    session.mirror(writer.add)
    writer.start(spawn, lambda error: report(error, WHO))
    keeper = Keeper.of(session, writer, spawn)

    async def flush_log(_: SessionFlushing) -> None:
        await writer.flush()
        if keeper is not None:
            keeper.written(turn_ended=True)

    async def write_ahead(_: ToolProposal, proceed: Callable[[], Awaitable[Any]]) -> Any:
        try:
            await writer.written()
        except SessionLocked as error:
            report(error, WHO)
            raise  # the session is another's, which goes on without knowing of this call
        except StoreFailure as error:
            report(error, WHO)
        else:
            if keeper is not None:
                keeper.written()
        return await proceed()

    async def close() -> None:
        try:
            if keeper is not None:
                await keeper.close()
            await writer.close()
        except (StoreFailure, SessionLocked) as error:
            report(error, WHO)
            raise
        finally:
            session.mirror(None)

    scope.on(SESSION_FLUSH, flush_log)
    scope.on(TOOLS_EXECUTE, write_ahead)
    return close
