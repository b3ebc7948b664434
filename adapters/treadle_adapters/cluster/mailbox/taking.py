"""What a letter asks, done to the agent and recorded, in one step: the commit that writes the record takes the letter."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from treadle import Agent, AgentHandle, TreadleError, UserMessage, message
from treadle.errors import AgentDisposed
from treadle_adapters.approvals import Approvals
from treadle_adapters.stores.postgres import Letter

from .asked import Approve, Asked, Cancel, ChangeInbox, Deliver, Dispose, LetterTaken, Reorder

APPLIED = "applied"
Take = Callable[[str, Letter], None]
"""Has a letter of a session taken by the commit that writes an event."""


def take(
    agent: Agent,
    handle: AgentHandle | None,
    approvals: Approvals,
    id: str,
    asked: Asked,
    take: Take,
    taken: Callable[[], None],
) -> bool:
    """Do what is asked and have the letter taken with the event that records it.

    Args:
        agent: the agent.
        handle: what ends it; ``None`` where somebody else has that.
        approvals: the calls that wait here.
        id: the letter's.
        asked: what it asks.
        take: see there.
        taken: called once it is taken.

    Returns:
        Whether it was done; not where the agent is ending: whoever owns the session next does it.
    """
    seq, answer = len(agent.session), ""
    if isinstance(asked, Deliver):
        try:
            agent.send(asked.message, asked.target, asked.wakeup)
        except AgentDisposed:
            return False
        except TreadleError as error:
            answer = str(error) or type(error).__name__
            seq = _record(agent, id, asked, answer)
    elif agent.engine.kernel.gone:
        return False
    elif isinstance(asked, Dispose):
        answer = APPLIED if handle is not None else "who made it keeps its handle"
        seq = _record(agent, id, asked, answer)
    else:
        try:
            answer = _change(agent, approvals, asked)
        except TreadleError as error:
            answer = str(error) or type(error).__name__
        seq = _record(agent, id, asked, answer)
    take(agent.id, Letter(id, seq, answer, taken))
    if isinstance(asked, Dispose) and handle is not None:
        handle.dispose(keep_inbox=asked.keep_inbox)
    return True


def _record(agent: Agent, id: str, asked: Asked, answer: str) -> int:
    return agent.session.append(LetterTaken(id, asked, answer), ignorable=True).seq


def _change(agent: Agent, approvals: Approvals, asked: Cancel | ChangeInbox | Reorder | Approve) -> str:
    match asked:
        case Cancel():
            agent.cancel(asked.cause, keep_inbox=asked.keep_inbox)
            return APPLIED
        case ChangeInbox(action="remove"):
            return APPLIED if agent.inbox.remove(asked.message_id) else "not-found"
        case ChangeInbox():
            return agent.update_inbox(asked.message_id, asked.action, asked.content)
        case Reorder():
            waiting: dict[str, UserMessage] = {message.id: message for message in agent.inbox.next_turn}
            if sorted(asked.ids) != sorted(waiting):
                return "changed"
            agent.inbox.splice("next-turn", 0, len(waiting), [waiting[one] for one in asked.ids])
            return APPLIED
        case Approve():
            return APPLIED if approvals.answer(agent.id, asked.approval, asked.approved) else "not-waiting"
        case _:
            assert_never(asked)


def wake_parked(agent: Agent) -> None:
    """Have a resumed agent go on with the messages that wait for turns of their own: whoever was to wake it is dead.

    A wake is latched while admission is held back, and stands for as long as something can use it (D5, D8): so the
    message that brings it is taken back at once.
    """
    release = agent.reserve_turn_admission() if agent.inbox.next_turn else None
    if release is not None:
        wake = message("go on")
        agent.followup(wake)
        agent.inbox.remove(wake.id)
        release()
