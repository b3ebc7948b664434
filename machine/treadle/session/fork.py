"""Forks: a new session that begins with the events of another (S5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ..errors import MisuseError
from ..ids import session_id
from ..words.events import EndSeed, Event, TurnEnd, TurnStart, decode_event, encode_event
from .log import SessionHeader, wall_clock

if TYPE_CHECKING:
    from .store import SessionStore


def fork_points(events: Sequence[Event]) -> list[int]:
    """The counts of events after which a fork may begin: those that end outside an open turn (S5)."""
    points, inside = [0], False
    for entry in events:
        if type(entry.data) is TurnStart:
            inside = True
        elif type(entry.data) is TurnEnd:
            inside = False
        if not inside:
            points.append(entry.seq + 1)
    return points


def fork(
    header: SessionHeader,
    events: Sequence[Event],
    new_id: str,
    upto: int | None = None,
    *,
    created_at: int | None = None,
) -> tuple[SessionHeader, list[Event]]:
    """Header and events of a fork: detached copies of the first ``upto`` events, then one ``session/end-seed`` (S5).

    Args:
        header: of the session that is forked.
        events: its events.
        new_id: the fork's id.
        upto: how many events it inherits; all unless given.
        created_at: milliseconds since the epoch; now unless given.

    Raises:
        MisuseError: the id is not allowed, there are not so many events, or the point lies inside a turn.
    """
    count = len(events) if upto is None else upto
    if not 0 <= count <= len(events):
        raise MisuseError(f"cannot fork after {count} events: the session has {len(events)} (S5)")
    points = fork_points(events[:count])
    if points[-1] != count:
        raise MisuseError(
            f"event {count - 1} lies inside an open turn (S5); fork after {points[-1]} events, or its end"
        )
    at = wall_clock() if created_at is None else created_at
    child = msgspec.structs.replace(
        header, id=session_id(new_id), created_at=at, parent_session=header.id, seeded=True, inherited=count
    )
    copies = [decode_event(encode_event(entry)) for entry in events[:count]]
    return child, [*copies, Event("session/end-seed", count, at, EndSeed(count, header.id))]


async def fork_stored(store: SessionStore, session_id: str, new_id: str, upto: int | None = None) -> SessionHeader:
    """``SessionStore.fork`` for any store: read, fork, create."""
    stored = await store.open_read(session_id)
    header, events = fork(stored.header, stored.events, new_id, upto)
    writer = await store.create(header, events)
    await writer.close()
    return header
