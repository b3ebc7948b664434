"""What must hold in every state, whatever led there: laws of the contract that its model is held to as well.

The kernel does what the model does; that both do wrong alike is what these few would show.
"""

from __future__ import annotations

from treadle.kernel import effects as fx

from ..model.agent import ADMISSION, CONVERGING, DISPOSING, GONE, IDLE, IN_STEP, MAINTAINING, STOPPING
from .lockstep import Pair
from .violation import require

IN_TURN = (ADMISSION, IN_STEP, STOPPING)

_FITS: dict[str, tuple[type, ...]] = {
    IDLE: (),
    GONE: (),
    ADMISSION: (fx.Admit,),
    IN_STEP: (fx.Request, fx.Recover, fx.RunTools, str),
    STOPPING: (fx.Stop,),
    MAINTAINING: (fx.Maintain,),
}


def check_state(pair: Pair) -> None:
    """Check one state.

    Raises:
        Violation: a law is broken.
    """
    model = pair.model
    state, owed = model.state, model.owed
    if state in (CONVERGING, DISPOSING):
        require(owed is not None and model.cause is not None, "L7", "{} waits for nothing", state)
    else:
        fits = isinstance(owed, _FITS[state]) if _FITS[state] else owed is None
        require(fits, "L7", "{} is owed in {}", owed, state)
        require(model.cause is None and not model.keep, "C2", "a cancel is left in {}", state)
        require(model.turn_open is (state in IN_TURN), "T10", "a turn is open in {}", state)
        require(model.step_open is (state == IN_STEP), "T10", "a step is open in {}", state)
    require(model.running is model.turn_open, "L5", "status running is {} in {}", model.running, state)
    require(bool(model.modes) is (type(owed) is fx.RunTools), "N1", "calls are kept beyond their step")
    ids = [message.id for message, _ in model.next_turn + model.next_step]
    ids += [message.id for message in model.claimed + model.accepted]
    require(len(ids) == len(set(ids)), "I1", "an id is live twice: {}", ids)
    if not model.turn_open:
        leaks = model.claimed or model.accepted or model.here or model.truncated or model.owes or model.series
        require(not leaks, "T6", "a turn leaks into the next")
    holds = state in (IDLE, GONE) or (model.turn_open and model.reserved)
    require(not model.held_back or holds, "D8", "admission is held back in {}", state)
    if model.latched and state not in (DISPOSING, GONE):
        require(model.usable, "D5", "a latched wake is tied to nothing")
        require(state not in IN_TURN, "D4", "a wake is latched in {}", state)
        replays = state != IDLE or model.held_back or pair.reread
        require(replays, "L2", "a wake is lost: idle, and nothing replays it")
