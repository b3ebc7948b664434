"""Outcomes of what is owed: admission, request, recovery, the end of a step and of a turn, convergence (§5, §6, §10)."""

from __future__ import annotations

from typing import Any

from treadle.errors import DuplicateMessage, InvalidTrigger
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.words import events as ev
from treadle.words import reasons as why

from .agent import DISPOSING, IDLE, IN_STEP, STOPPING, Agent
from .calls import finish, release
from .tools import UNSTARTED, drop_the_rest


def due(agent: Agent, operation: type) -> None:
    """An outcome answers what is owed (L1, L7)."""
    if type(agent.owed) is not operation:
        raise InvalidTrigger("L7")


# --- admission (T1, T2) -----------------------------------------------------------------------------------------------


def entered(agent: Agent, given: i.Entered) -> None:
    """The returned batch is authoritative: what was left out is gone, what is new is noted (T0, T2, T8)."""
    due(agent, fx.Admit)
    claimed, seen = {message.id: message for message in agent.claimed}, set[str]()
    for message in given.messages:
        if message.id in seen or (message.id not in claimed and agent.taken(message.id)):
            raise DuplicateMessage(message.id)
        seen.add(message.id)
    if agent.cause is not None:
        converge(agent)
        return
    for message in agent.claimed:
        if message.id not in seen:
            agent.reject(message, "left-out")
    agent.claimed = ()
    agent.here |= seen
    if not given.messages and not agent.owes:
        if agent.pressing:
            agent.claim()
        else:
            agent.close()
        return
    agent.state, agent.step, agent.step_open, agent.attempt = IN_STEP, agent.step + 1, True, 1
    agent.accepted, agent.series = given.messages, given.series
    amended = tuple([message for message in given.messages if claimed.get(message.id) != message])
    ids = tuple([message.id for message in given.messages])
    agent.record(ev.StepStart(agent.turn, agent.step, ids, amended))
    agent.begin(fx.Request(agent.turn, agent.step, 1))


def refused(agent: Agent, given: i.Refused) -> None:
    """The step was rejected: the turn ends, with the companions of a blocked prompt recorded (T7, H10)."""
    due(agent, fx.Admit)
    left = list(agent.claimed)
    for message in given.kept:
        if message not in left:
            raise InvalidTrigger("H10")
        left.remove(message)
    if agent.cause is not None:
        converge(agent)
        return
    agent.admit(given.kept, None)
    for message in left:
        agent.reject(message, "blocked")
    agent.end_turn(why.Blocked(given.detail))
    agent.come_to_rest()
    agent.park()


# --- request and recovery (T1, §10) -----------------------------------------------------------------------------------


def prepared(agent: Agent, given: i.Prepared) -> None:
    """System message, accepted messages, marks; the marks first where they start a series. Under a cancel nothing (T1, Q12, C6)."""
    due(agent, fx.Request)
    if agent.cause is not None:
        return
    marks = [mark for mark in (given.header, given.context) if mark is not None]
    for change in given.system:
        agent.record(change.data, change.replaces)
    for mark in marks if agent.series else ():
        agent.record(mark)
    agent.admit(agent.accepted, agent.step)
    for mark in () if agent.series else marks:
        agent.record(mark)
    agent.accepted, agent.series = (), False


def attempt_recorded(agent: Agent, given: i.AttemptRecorded) -> None:
    """An attempt without a whole answer (Q9, C5)."""
    _made(agent)
    agent.record(given.fact)


def answered(agent: Agent, given: i.Answered) -> None:
    """A whole answer, cancelled or not; its calls are run, unless it was cut off (T3, T6, C5)."""
    _made(agent)
    if given.truncated and given.calls:
        raise InvalidTrigger("T6")
    agent.record(given.fact)
    agent.truncated = agent.truncated or given.truncated
    agent.owes = False
    if given.calls:
        agent.calls, agent.modes = given.calls, (UNSTARTED,) * len(given.calls)
        agent.begin(fx.RunTools(agent.turn, agent.step, given.calls))
    else:
        agent.owed = fx.PROCEED
        agent.out.append(fx.Proceed())


def _made(agent: Agent) -> None:
    """A request is made with what it was prepared with: the batch is recorded first (T1)."""
    due(agent, fx.Request)
    if agent.accepted:
        raise InvalidTrigger("T1")


def attempt_failed(agent: Agent, given: i.AttemptFailed) -> None:
    """Recovery decides about a failed attempt, unless a cancel has (C8)."""
    due(agent, fx.Request)
    if agent.cause is not None:
        converge(agent)
    else:
        agent.begin(fx.Recover(agent.turn, agent.step, given.failure, given.error))


def retried(agent: Agent, _given: i.Retried) -> None:
    """Another attempt in the same step (C8)."""
    due(agent, fx.Recover)
    if agent.cause is not None:
        converge(agent)
        return
    agent.attempt += 1
    agent.begin(fx.Request(agent.turn, agent.step, agent.attempt))


# --- the end of a step, and of a turn ---------------------------------------------------------------------------------


def proceeded(agent: Agent, _given: i.Proceeded) -> None:
    """The answer asked for nothing, and that was told (H4)."""
    if agent.owed != fx.PROCEED:
        raise InvalidTrigger("L7")
    _go_on(agent)


def tools_settled(agent: Agent, _given: i.ToolsSettled) -> None:
    """Every call has its result: the model is owed them, unless one concluded (T3, T5)."""
    due(agent, fx.RunTools)
    if any([mode != "settled" for mode in agent.modes]):
        raise InvalidTrigger("K5")
    agent.owes = not agent.concluded
    _go_on(agent)


def _go_on(agent: Agent) -> None:
    """A step is over: the turn continues while results are owed or something presses, and otherwise rests (T3, T4)."""
    if agent.cause is not None:
        converge(agent)
        return
    agent.end_step()
    if agent.owes or agent.pressing:
        agent.claim()
    else:
        agent.state = STOPPING
        agent.begin(fx.Stop(agent.turn))


def stopped(agent: Agent, _given: i.Stopped) -> None:
    """Everybody was asked, and the inbox decides (T4)."""
    due(agent, fx.Stop)
    if agent.cause is not None:
        converge(agent)
    elif agent.pressing:
        agent.claim()
    else:
        agent.close()


def maintained(agent: Agent, _given: i.Maintained) -> None:
    """A maintenance task is over, one way or the other (M3)."""
    due(agent, fx.Maintain)
    if agent.cause is not None:
        converge(agent)
    else:
        agent.state, agent.owed = IDLE, None
        release(agent)


def failed(agent: Agent, given: i.Failed) -> None:
    """The operation broke: the turn ends with it, or was cancelled and ends so all the same (T9, L1, K7)."""
    owed = agent.owed
    if type(owed) not in (fx.Admit, fx.Request, fx.Recover, fx.RunTools, fx.Stop):
        raise InvalidTrigger("L7")
    step = agent.step + (type(owed) is fx.Admit)
    if agent.cause is not None:
        converge(agent, given, step)
        return
    drop_the_rest(agent, "TOOL_NOT_STARTED")
    agent.fail(given.failure, given.error, step)


def interrupted(agent: Agent, _given: i.Interrupted) -> None:
    """The operation let the cancellation through (C4)."""
    if agent.owed is None or agent.owed == fx.PROCEED or agent.cause is None:
        raise InvalidTrigger("L7")
    converge(agent)


def converge(agent: Agent, failure: i.Failed | None = None, step: int = 0) -> None:
    """All that was started has settled: calls get results, the batch its fate, step and turn their end (C4, C6, L1)."""
    cause: Any = agent.cause
    drop_the_rest(agent, "ABORTED_BEFORE_DISPATCH")
    agent.end_step()
    if agent.keep:
        agent.admit(agent.claimed, None)
    else:
        for message in agent.claimed:
            agent.reject(message, "aborted")
    if failure is not None:
        agent.report(failure.failure, failure.error, step)
    if agent.turn_open:
        agent.end_turn(why.Aborted(cause))
    agent.cause, agent.keep = None, False
    leaving = agent.state == DISPOSING
    agent.come_to_rest()
    if leaving:
        finish(agent)
    else:
        agent.out.append(fx.Reread())
