"""Opens turns for the protocols of front ends, and finds those that are under way.

Only what a client adds is taken from it. The history is the session's; whatever else it sends of one is left alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress

from attrs import frozen

from treadle import Agent, DuplicateSession, MisuseError
from treadle.session import TurnEnd, TurnStart, UserMessageAdded, new_id, session_id

from ..desk import Desk, Owner
from ..messages import MessageOperations
from ..port import Port
from ..problems import Refused
from ..sessions import Asked
from ..shapes import Delivery
from ..streams import Place, Stream
from .turn import Turn


class Turns:
    """Opens turns for the protocols."""

    def __init__(self, port: Port, desk: Desk, messages: MessageOperations) -> None:
        self._port = port
        self._desk = desk
        self._messages = messages

    async def session(self, owner: Owner, wanted: str | None) -> str:
        """The id of the session that a client means: one that is there, or a new one where it names none.

        Raises:
            Refused: the one that it names is not there.
        """
        if wanted is not None:
            await self._port.run(self._desk.check, owner, wanted)
            return wanted

        async def make() -> str:
            return (await self._desk.created(owner)).id

        return await self._port.run(make)

    async def named(self, owner: Owner, wanted: str) -> str:
        """The session that a client's own name for it means: one of the owner's by its id, else the one made under that name.

        Raises:
            TreadleError: it cannot be made.
        """

        async def find() -> str:
            for name in (wanted, own := _named(owner, wanted)):
                with suppress(Refused):
                    await self._desk.check(owner, name)
                    return name
            try:
                return (await self._desk.created(owner, session_id=own)).id
            except DuplicateSession:  # made meanwhile, by another request for the same name
                return own

        return await self._port.run(find)

    async def under_way(self, owner: Owner, wanted: str) -> Turn | None:
        """Follow the turn that runs in the session of that name, from its beginning; ``None`` if none does."""

        async def find() -> tuple[str, _Opening] | None:
            for name in (wanted, _named(owner, wanted)):
                with suppress(Refused):
                    await self._desk.check(owner, name)
                    agent = self._desk.host.agents.get(name)
                    opening = _opening(agent) if agent is not None else None
                    return None if opening is None else (name, opening)
            return None

        found = await self._port.run(find)
        return None if found is None else self._followed(owner, found[0], found[1].message, found[1].start, begun=True)

    async def resume(self, owner: Owner, session: str, answers: Mapping[str, bool]) -> Turn:
        """Answer calls that wait for approval, and follow the turn that they belong to from where it was left.

        Args:
            owner: who answers.
            session: where.
            answers: which calls are approved, by the ids of ``Asks.id_of``.

        Raises:
            Refused: one was answered before, or does not wait; then none is answered.
        """
        given = {_answered(name): approved for name, approved in answers.items()}

        async def answer() -> tuple[str, int]:
            await self._desk.check(owner, session)
            agent = await self._desk.opened(owner, session)
            waiting = {one.id for one in self._desk.approvals.pending(session)}
            opening = _opening(agent)
            for (name, _), approved in sorted(given.items(), key=lambda one: one[0][0] in waiting):
                self._desk.approvals.answer(session, name, approved)
            assert opening is not None  # a call waits in it
            told = min([told for _, told in given])
            return opening.message, min(max(opening.start, told), len(agent.session))

        message, start = await self._port.run(answer)
        return self._followed(owner, session, message, start, begun=True)

    async def open(self, owner: Owner, session: str, text: str, message_id: str | None = None) -> Turn:
        """Follow up in a session, and follow the turn that answers.

        Raises:
            Refused: the message was delivered before, or the server is being drained.
            TreadleError: it cannot be delivered.
        """
        try:
            session_id(session)
        except MisuseError as error:
            raise Refused(404, "SESSION_NOT_FOUND", "there is no such session") from error
        name = message_id or new_id()

        async def deliver() -> int:
            agent = await self._desk.opened(owner, session)
            start = len(agent.session)
            given = await self._messages.deliver(Asked(owner, {"session": session}, body=Delivery(name, text)))
            if given.duplicate:
                raise Refused(409, "DUPLICATE_MESSAGE", "this message was delivered before; read what became of it")
            return start

        return self._followed(owner, session, name, await self._port.run(deliver))

    def _followed(self, owner: Owner, session: str, message: str, start: int, *, begun: bool = False) -> Turn:
        asked = Asked(owner, {"session": session, "message": message})
        stream = Stream(self._port, self._desk, session, Place(start))
        return Turn(self._port, self._messages, asked, stream, begun=begun)


def _named(owner: Owner, name: str) -> str:
    """The id of the session that was made under a client's own name for it."""
    digest = hashlib.sha256(f"{'' if owner is None else owner}\0{name}".encode("utf-8", "replace")).hexdigest()
    return f"named-{digest[:40]}"


def _answered(id: str) -> tuple[str, int]:
    """The approval that an id of ``Asks.id_of`` means, and the place that it names."""
    approval, _, told = id.partition("~")
    return approval, int(told) if told.isascii() and told.isdigit() and len(told) <= 18 else 1 << 60


@frozen
class _Opening:
    """How the turn under way began: by which message, and with which event."""

    message: str
    start: int


def _opening(agent: Agent) -> _Opening | None:
    message = None
    for entry in reversed(agent.session.events):
        match entry.data:
            case TurnEnd():
                return None
            case UserMessageAdded(message=added):
                message = added.id
            case TurnStart():
                return None if message is None else _Opening(message, entry.seq)
            case _:
                pass
    return None
