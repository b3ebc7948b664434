"""An agent's calls, wherever the agent is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Literal

import trio
from attrs import frozen

from treadle import Admitted, Event, MisuseError, Rejected, TurnAnswer, UserMessage, message
from treadle.agent import checked
from treadle.errors import MessageRejected
from treadle.models import Block, Text, Usage, joined_usage
from treadle.session import (
    CAUSES,
    AssistantAttempt,
    AssistantMessageAdded,
    ByDisposal,
    ByParent,
    ByUser,
    Cause,
    TurnStart,
    new_id,
)

from .asked import Approve, Asked, Cancel, ChangeInbox, Deliver, Dispose, Reorder, Target
from .fates import Fate
from .live import FOLLOWED, Follower, Live
from .wires import channel_of

if TYPE_CHECKING:
    from .post import Post

BY_USER = ByUser()
_CAUSES: dict[str, Cause] = {"user": BY_USER, "parent": ByParent()}
Changed = Literal["applied", "not-found", "steer-unavailable"]


@frozen
class Posted:
    """A message that is on record: it will be taken, once, whichever machine dies.

    Attributes:
        message_id: the message.
        fresh: whether it was not there before: one that is sent again is not delivered again.
    """

    post: Post
    session: str
    message_id: str
    fresh: bool

    async def recorded(self) -> int:
        """Wait until the owner has taken it into the inbox; returns the number of the event that records it.

        Raises:
            MessageRejected: it was refused there: another message of that id was delivered otherwise, or it is none.
            SessionNotFound: the session was deleted.
        """
        seq, answer = await self.post.answer(self.session, self.message_id)
        if answer:
            raise MessageRejected(self.message_id, answer)
        return seq

    async def outcome(self) -> Admitted | Rejected:
        """Wait for its fate, as the log has it, which is durable (D8). Raises as ``recorded`` does."""
        fate = Fate(self.message_id)
        async with aclosing(self.post.events(self.session, await self.recorded())) as events:
            async for entry in events:
                fate.take(entry)
                if fate.fate is not None:
                    return fate.fate
        raise AssertionError("the events of a session end only with an error")


class AgentRef:
    """The agent of a session, spoken to from any process: its owner may be here, elsewhere, or nobody yet.

    What is asked is durable when it is accepted, is taken once, in the order in which it was accepted, and is recorded in
    the log by the commit that takes it. If nobody owns the session, a replica takes it and resumes the agent. An id that
    is given makes what is asked safe to repeat: after a ``StoreFailure`` ask the same again.

    Attributes:
        id: the session's, and the agent's.
    """

    __slots__ = ("_post", "id")

    def __init__(self, post: Post, id: str) -> None:
        self._post = post
        self.id = id

    # --- delivery -----------------------------------------------------------------------------------------------------

    async def send(self, message: UserMessage | str, target: Target, wakeup: bool) -> Posted:
        """Deliver a message, as ``Agent.send`` does (D1); accepted when this returns.

        Raises:
            InvalidMessage: it cannot be accepted (D3).
            DuplicateMessage: another one was sent under its id.
            MisuseError: a wrong target.
            SessionNotFound: there is no such session.
            StoreFailure: the database cannot be reached: send the same message again.
        """
        if target not in ("next-turn", "next-step"):
            raise MisuseError(f"target must be 'next-turn' or 'next-step', not {target!r} (D1)")
        given = checked(message)
        accepted = await self._post.accept(self.id, given.id, Deliver(given, target, bool(wakeup)))
        return Posted(self._post, self.id, given.id, accepted.fresh)

    async def followup(self, message: UserMessage | str) -> Posted:
        """Queue a message for a turn of its own, and wake (D1). Raises as ``send`` does."""
        return await self.send(message, "next-turn", True)

    async def steer(self, message: UserMessage | str) -> Posted:
        """Hand a message to the nearest step; it wakes an idle agent (D1). Raises as ``send`` does."""
        return await self.send(message, "next-step", True)

    async def inject(self, message: UserMessage | str) -> Posted:
        """Hand over context that rides along, and forces nothing (D1). Raises as ``send`` does."""
        return await self.send(message, "next-step", False)

    async def ask(self, message: UserMessage | str) -> TurnAnswer:
        """Follow up with a message, wait for its turn, and return what that answered (D9).

        A message behind a turn that failed waits until the agent is woken again (L3). When the wait is cancelled, message
        and turn are left alone.

        Raises:
            MessageRejected: it got no turn.
        """
        posted = await self.followup(message)
        fate, text, usages = Fate(posted.message_id), "", list[Usage]()
        async with self.events(await posted.recorded()) as events:
            async for entry in events:
                data = entry.data
                fate.take(entry)
                if isinstance(data, TurnStart):
                    text, usages = "", []
                elif isinstance(data, (AssistantMessageAdded, AssistantAttempt)):
                    usages += [data.usage] if data.usage is not None else []
                    if isinstance(data, AssistantMessageAdded) and data.message.text.strip():
                        text = data.message.text
                elif fate.ended is not None:
                    return TurnAnswer(text, fate.ended.reason, joined_usage(*usages), fate.ended.turn)
                if isinstance(fate.fate, Rejected) and fate.turn is None:
                    raise MessageRejected(posted.message_id, fate.fate.reason)
        raise AssertionError("the events of a session end only with an error")

    # --- control ------------------------------------------------------------------------------------------------------

    async def cancel(
        self, cause: Cause | Literal["user", "parent"] = BY_USER, *, keep_inbox: bool = False, id: str | None = None
    ) -> None:
        """Stop the current turn or maintenance task, as ``Agent.cancel`` does (C1–C3); taken when this returns.

        Args:
            cause: why.
            keep_inbox: whether what is pending stays.
            id: makes it safe to repeat; made up unless given. So it is for all calls below.

        Raises:
            MisuseError: a cause that is none, or that is reserved to dispose.
            SessionNotFound: there is no such session, or it was deleted.
            DuplicateMessage: something else was asked under that id.
            StoreFailure: the database cannot be reached: ask the same again. So it is for all calls below.
        """
        given = _CAUSES.get(cause, cause) if isinstance(cause, str) else cause
        if isinstance(given, ByDisposal) or not isinstance(given, Cause):
            raise MisuseError(f"cancel takes ByUser(), ByParent() or ByHook(reason), not {cause!r} (C1)")
        CAUSES.check(given, "cause")
        await self._asked(Cancel(given, bool(keep_inbox)), id)

    async def dispose(self, *, keep_inbox: bool = False, id: str | None = None) -> None:
        """End the agent where it lives, and have its session let go of (O4); its end has begun when this returns.

        Raises:
            MisuseError: who made the agent keeps its handle: it is not the replica's to end (O3).
        """
        answer = await self._asked(Dispose(bool(keep_inbox)), id)
        if answer != "applied":
            raise MisuseError(f"agent {self.id!r} was not ended: {answer} (O3)")

    async def update_inbox(
        self,
        message_id: str,
        action: Literal["edit", "remove", "steer"],
        content: str | tuple[Block, ...] | None = None,
        *,
        id: str | None = None,
    ) -> Changed:
        """Edit, remove or steer a pending message, as ``Agent.update_inbox`` does (I9); ``remove`` finds any (I2).

        Raises:
            MisuseError: an unknown action, or an edit without its content.
            InvalidMessage: the content cannot be accepted (D3).
        """
        if action not in ("edit", "remove", "steer"):
            raise MisuseError(f"action must be 'edit', 'remove' or 'steer', not {action!r} (I9)")
        if action == "edit" and content is None:
            raise MisuseError("an edit needs the new content (I9)")
        blocks = (Text(content),) if isinstance(content, str) else content
        if blocks is not None:
            blocks = checked(UserMessage(message_id, tuple(blocks))).content
        answer = await self._asked(ChangeInbox(message_id, action, blocks), id)
        if answer not in ("applied", "not-found", "steer-unavailable"):
            raise MisuseError(answer)
        return answer

    async def reorder(self, ids: Sequence[str], *, id: str | None = None) -> bool:
        """Put the messages that wait for turns of their own in this order (I2).

        Returns:
            Whether these were exactly those that wait; if not, nothing was changed.
        """
        return await self._asked(Reorder(tuple(ids)), id) == "applied"

    async def approve(self, approval_id: str, approved: bool, *, id: str | None = None) -> bool:
        """Approve or refuse a call that waits (K2); the first answer stands.

        Returns:
            Whether it waited: its turn may have ended, or somebody else answered.
        """
        return await self._asked(Approve(approval_id, bool(approved)), id) == "applied"

    async def _asked(self, asked: Asked, id: str | None) -> str:
        name = id if id is not None else new_id()
        checked(message("x", id=name))
        await self._post.accept(self.id, name, asked)
        _, answer = await self._post.answer(self.id, name)
        return answer

    # --- following ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def events(self, first: int = 0) -> AsyncGenerator[AsyncGenerator[Event]]:
        """Follow the log from event number ``first`` on: a context that gives its events, as they are committed.

        Raises:
            SessionNotFound: there is no such session, or it was deleted; raised where the events are read.
            SessionCorrupt: an event cannot be read; those before it were given.
        """
        async with aclosing(self._post.events(self.id, first)) as coming:
            yield coming

    @asynccontextmanager
    async def live(self) -> AsyncGenerator[AsyncGenerator[Live]]:
        """Follow what the session says now, through its owner: a context that gives what is new.

        It begins with the live attempt's first chunk, goes on when the session changes its owner, and is silent while
        nobody owns it. The last chunks of an attempt
        may be told by its event alone: what the log has is told by ``events``.
        """
        follower = Follower()
        with self._post.follower(self.id, follower):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._say_so, follower)
                coming = follower.told()
                try:
                    yield coming
                finally:
                    with trio.CancelScope(shield=True):
                        await coming.aclose()
                    nursery.cancel_scope.cancel()

    async def _say_so(self, follower: Follower) -> None:
        """Say again and again that the session is followed, and how far."""
        while True:
            owner = await self._post.owner(self.id)
            if owner is not None:
                known = f"{follower.attempt or '-'} {follower.next}"
                self._post.tell(channel_of(owner), f"follow {self.id} {self._post.channel} {known}")
            follower.missed = trio.Event()
            with trio.move_on_after(FOLLOWED / 3):
                await follower.missed.wait()

    def __repr__(self) -> str:
        return f"<AgentRef {self.id}>"
