"""Calls on the agent: deliveries, inbox operations, cancel, dispose, maintenance, reservation (§3, §4, §6, §7)."""

from __future__ import annotations

import msgspec

from treadle import UserMessage
from treadle.agent import Target
from treadle.errors import AgentBusy, AgentDisposed, DuplicateMessage, InvalidTrigger, MisuseError
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.words import reasons as why

from .agent import CONVERGING, DISPOSING, GONE, IDLE, MAINTAINING, STEP, TURN, Agent, Entry


def accepting(agent: Agent) -> None:
    """An agent that is being disposed accepts nothing (L9)."""
    if agent.leaving:
        raise AgentDisposed("L9")


# --- deliveries (§4) --------------------------------------------------------------------------------------------------


def deliver(agent: Agent, given: i.Deliver) -> None:
    """A message arrives at the end of its list, and may wake (D1, D4, L2)."""
    accepting(agent)
    if agent.taken(given.message.id):
        raise DuplicateMessage(given.message.id)
    own_of_cancelled = given.own and agent.cause is not None
    moved = given.wakeup and agent.cause is not None and not own_of_cancelled
    agent.insert(TURN if moved else given.target, (given.message,), given.wakeup)
    if not given.wakeup or own_of_cancelled:
        return
    if agent.state in (CONVERGING, MAINTAINING) or (agent.state == IDLE and agent.held_back):
        agent.latched = True
    elif agent.state == IDLE:
        agent.open_turn()


# --- the inbox (§3) ---------------------------------------------------------------------------------------------------


def splice(agent: Agent, given: i.Splice) -> None:
    """Coordinates are JavaScript's: a negative start counts from the end, and both are cut to the list (I2)."""
    accepting(agent)
    length = len(agent.inbox(given.target))
    start = max(length + given.start, 0) if given.start < 0 else min(given.start, length)
    count = min(max(given.delete_count, 0), length - start)
    _change(agent, given.target, start, count, given.inserted)


def replace(agent: Agent, given: i.ReplaceMessage) -> None:
    """Another message in the place of a pending one; it inherits whether it presses (I2, I3)."""
    accepting(agent)
    for target, at, message, waking in agent.pending():
        if message.id == given.message_id:
            _change(agent, target, at, 1, (given.message,), waking)
            return


def remove(agent: Agent, given: i.RemoveMessage) -> None:
    """A pending message is taken out; one that is not pending is none of the inbox's (I2)."""
    accepting(agent)
    for target, at, message, _ in agent.pending():
        if message.id == given.message_id:
            _change(agent, target, at, 1, ())
            return


def clear(agent: Agent, _given: i.ClearInbox) -> None:
    """All that is pending is dropped (I7)."""
    accepting(agent)
    agent.discard(agent.empty())


def edit(agent: Agent, given: i.EditMessage) -> None:
    """The content of a next-turn entry changes; id and place stay (I9)."""
    accepting(agent)
    at, message = _queued(agent, given.message_id)
    _change(agent, TURN, at, 1, (msgspec.structs.replace(message, content=given.content),))


def steer(agent: Agent, given: i.SteerMessage) -> None:
    """A next-turn entry moves into the open turn, and presses: two splices, no outcome, one ``updated`` (I9, I3)."""
    accepting(agent)
    if not agent.accepts_next_step:
        raise MisuseError("I9")
    at, message = _queued(agent, given.message_id)
    agent.splice(TURN, at, 1)
    agent.splice(STEP, len(agent.next_step), 0, ((message, True),))
    agent.tell(fx.Updated(message))


def _queued(agent: Agent, message_id: str) -> tuple[int, UserMessage]:
    for at, (message, _) in enumerate(agent.next_turn):
        if message.id == message_id:
            return at, message
    raise MisuseError("I9")


def _change(
    agent: Agent, target: Target, start: int, count: int, inserted: tuple[UserMessage, ...], waking: bool = False
) -> None:
    """One change of one list: refused as a whole or made as a whole, and nothing if it changes nothing (I1 to I4)."""
    old = agent.inbox(target)[start : start + count]
    before = {message.id: (message, wakes) for message, wakes in old}
    entries: list[Entry] = []
    fresh: set[str] = set()
    for message in inserted:
        known = before.get(message.id)
        if message.id in fresh or (known is None and agent.taken(message.id)):
            raise DuplicateMessage(message.id)
        fresh.add(message.id)
        entries.append((message, waking if known is None else known[1]))
    if tuple([message for message, _ in old]) == inserted:
        return
    gone = tuple([message for message, _ in old if message.id not in fresh])
    agent.splice(target, start, count, tuple(entries), gone=bool(gone))
    agent.latched = agent.latched and agent.usable  # lost for good when nothing can use it (D5)
    agent.discard(gone)
    for message in inserted:
        if message.id not in before:
            agent.tell(fx.Inserted(message))
        elif before[message.id][0] != message:
            agent.tell(fx.Updated(message))


# --- cancel and dispose (§6, §8) --------------------------------------------------------------------------------------


def cancel(agent: Agent, given: i.Cancel) -> None:
    """The first cancel stops the activity; where there is nothing to stop, it clears (C1, C2)."""
    if isinstance(given.cause, why.ByDisposal):
        raise MisuseError("C1")
    if agent.leaving:
        return
    if agent.state not in (IDLE, CONVERGING):
        _stop(agent, given.cause, given.keep_inbox, CONVERGING)
    elif not given.keep_inbox:
        agent.discard(agent.empty())


def dispose(agent: Agent, given: i.Dispose) -> None:
    """The agent ends: at once, or when what is active has converged. A second disposal joins the first (O4)."""
    if agent.leaving:
        return
    if agent.state not in (IDLE, CONVERGING):
        _stop(agent, why.ByDisposal(), given.keep_inbox, DISPOSING)
        return
    if not given.keep_inbox:
        agent.discard(agent.empty())
    if agent.state == IDLE:
        finish(agent)
    else:
        agent.state = DISPOSING


def _stop(agent: Agent, cause: why.Cause, keep: bool, state: str) -> None:
    """Within the call: inbox cleared and recorded, signal set; then the cancel is told, and what it dropped (C3)."""
    gone = () if keep else agent.empty()
    agent.state, agent.cause, agent.keep = state, cause, keep
    agent.out.append(fx.Abort(cause))
    agent.tell(fx.CancelRequested(cause))
    agent.discard(gone)


def finish(agent: Agent) -> None:
    """Nothing is active any more (O4, D8)."""
    agent.state, agent.reserved, agent.latched = GONE, False, False
    agent.out.append(fx.Finish())


# --- maintenance and reservation (§7, D8) -----------------------------------------------------------------------------


def maintain(agent: Agent, _given: i.BeginMaintenance) -> None:
    """The idle state is claimed for a task (M1)."""
    accepting(agent)
    if not agent.truly_idle:
        raise AgentBusy("M1")
    agent.state = MAINTAINING
    agent.begin(fx.Maintain())


def reserve(agent: Agent, given: i.Reserve) -> None:
    """The next claim is held back (D8)."""
    ahead = given.ahead and agent.turn_open and not agent.leaving and not agent.reserved
    if not (ahead or agent.truly_idle):
        raise AgentBusy("D8")
    agent.reserved = True


def unreserve(agent: Agent, _given: i.Unreserve) -> None:
    """What was held back is released, as after maintenance (D8, O0)."""
    if not agent.held_back:
        raise InvalidTrigger("D8")
    agent.held = agent.reserved = False
    if agent.state == IDLE:
        release(agent)


def replayed(agent: Agent, _given: i.Replayed) -> None:
    """An activity has converged and everybody was told: what waits is read again (H4, L3)."""
    if agent.state == IDLE and not agent.held_back:
        release(agent)


def release(agent: Agent) -> None:
    """A latched wake that finds work opens its turn; otherwise what waits for another wake is told (M2, D4, L3)."""
    if agent.latched and agent.usable:
        agent.open_turn()
    else:
        agent.latched = False
        agent.park()
