"""The calls of an answer: which may start, which result is due, and what each leaves in the log (§11).

A call is ``unstarted``, ``refused``, ``parallel`` or ``exclusive`` while its body runs, ``finished``, and ``settled`` once its
result is recorded. Calls leave ``unstarted`` in the model's order, and are settled in it.
"""

from __future__ import annotations

from treadle import Failure, UserMessage
from treadle.errors import InvalidTrigger
from treadle.kernel import inputs as i
from treadle.kernel.effects import RunTools
from treadle.words import events as ev

from .agent import DISPOSING, OPEN, STEP, Agent

UNSTARTED, REFUSED, PARALLEL, EXCLUSIVE, FINISHED, SETTLED = (
    "unstarted",
    "refused",
    "parallel",
    "exclusive",
    "finished",
    "settled",
)
_RUNNING = (PARALLEL, EXCLUSIVE)


def started(agent: Agent, given: i.CallStarted) -> None:
    """A body starts: in order, exclusive ones alone, parallel ones while the pool has room, none under a cancel (K4 to K6)."""
    mode = _call(agent, given.index)
    running = [one for one in agent.modes if one in _RUNNING]
    room = EXCLUSIVE not in running and len(running) < agent.pool if given.parallel else not running
    if mode != UNSTARTED or agent.modes.index(UNSTARTED) != given.index or not room or agent.cause is not None:
        raise InvalidTrigger("K4")
    if _due(agent) == FINISHED:
        raise InvalidTrigger("K5")
    _move(agent, given.index, PARALLEL if given.parallel else EXCLUSIVE)
    _record_call(agent, given.index)


def refused(agent: Agent, given: i.CallRefused) -> None:
    """A call will not run; its result follows when it is due (K5)."""
    if _call(agent, given.index) != UNSTARTED or agent.modes.index(UNSTARTED) != given.index:
        raise InvalidTrigger("K5")
    _move(agent, given.index, REFUSED)


def finished(agent: Agent, given: i.CallFinished) -> None:
    """A body is over: it came to a result of its own, or another one stands for it (C4)."""
    if _call(agent, given.index) not in _RUNNING:
        raise InvalidTrigger("K5")
    _move(agent, given.index, FINISHED)
    ending = given.ending
    if type(ending) is i.TimedOut:
        agent.endings += ((given.index, "TOOL_TIMEOUT"),)
    elif type(ending) is i.LetThrough:
        agent.endings += ((given.index, "ABORTED" if ending.started else "ABORTED_BEFORE_DISPATCH"),)


def settled(agent: Agent, given: i.CallSettled) -> None:
    """The next due result is recorded, and what it hands over stays pending (K5, T5, C7)."""
    mode = _call(agent, given.index)
    if given.result.call_id != agent.calls[given.index].call_id:
        raise InvalidTrigger("K5")
    _settle(agent, given.index, mode)
    if mode != FINISHED:
        _record_call(agent, given.index)
    agent.record(given.result)
    agent.concluded = agent.concluded or (given.result.concludes_turn and not given.result.is_error)
    if agent.state != DISPOSING:
        _hand_over(agent, given.contexts)


def _hand_over(agent: Agent, contexts: tuple[UserMessage, ...]) -> None:
    """Contexts press, unless the turn is being cancelled; an id that is taken is a fault of the tool (C7, I1)."""
    fresh: dict[str, UserMessage] = {}
    for message in contexts:
        if message.id in fresh or agent.taken(message.id):
            agent.report(Failure(OPEN, "DUPLICATE_MESSAGE"))
        else:
            fresh[message.id] = message
    if fresh:
        agent.insert(STEP, tuple(fresh.values()), agent.cause is None)


def dropped(agent: Agent, given: i.CallDropped) -> None:
    """A call is not started any more, because the turn is being cancelled (C4, K6)."""
    mode = _call(agent, given.index)
    if agent.cause is None or mode == FINISHED:
        raise InvalidTrigger("C4")
    _settle(agent, given.index, mode)
    _stand_in(agent, given.index, "ABORTED_BEFORE_DISPATCH")


def drop_the_rest(agent: Agent, code: str) -> None:
    """Calls without a result get one: of started ones nothing is known, the others have ``code`` (C4, K7, P4)."""
    for index, mode in enumerate(agent.modes):
        if mode in (UNSTARTED, REFUSED):
            _stand_in(agent, index, code)
        elif mode != SETTLED:
            agent.record(ev.ToolResultAdded(agent.calls[index].call_id, (), True, "TOOL_OUTCOME_UNKNOWN"))


def _stand_in(agent: Agent, index: int, code: str) -> None:
    """The result of a call that was never started: with its ``tool/call`` under a cancel, without it otherwise (C4, P4)."""
    if code == "ABORTED_BEFORE_DISPATCH":
        _record_call(agent, index)
    agent.record(ev.ToolResultAdded(agent.calls[index].call_id, (), True, code))


def _call(agent: Agent, index: int) -> str:
    """How far a call is, while tools run (L7)."""
    if type(agent.owed) is not RunTools or not 0 <= index < len(agent.modes):
        raise InvalidTrigger("L7")
    return agent.modes[index]


def _due(agent: Agent) -> str:
    """How far the call is whose result is the next in the model's order."""
    return next((mode for mode in agent.modes if mode != SETTLED), SETTLED)


def _settle(agent: Agent, index: int, mode: str) -> None:
    if mode in (*_RUNNING, SETTLED) or any([one != SETTLED for one in agent.modes[:index]]):
        raise InvalidTrigger("K5")
    _move(agent, index, SETTLED)


def _move(agent: Agent, index: int, mode: str) -> None:
    agent.modes = (*agent.modes[:index], mode, *agent.modes[index + 1 :])


def _record_call(agent: Agent, index: int) -> None:
    call = agent.calls[index]
    agent.record(ev.ToolCallStarted(call.call_id, call.name, call.arguments))
