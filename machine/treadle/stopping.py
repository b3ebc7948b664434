"""Turn-stopping: whoever objects to the turn's end steers (T4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from . import inputs as i
from .effects import Stop
from .hooks import serial
from .points import TURN_STOPPING, TurnIsStopping

if TYPE_CHECKING:
    from .driver import Driver


async def run_stopping(driver: Driver, operation: Stop) -> i.Stopped:
    """Await every ``agent/turn-stopping`` listener; afterwards the inbox decides."""
    await trio.lowlevel.checkpoint_if_cancelled()
    listeners = driver.agent.scope.listeners(TURN_STOPPING)
    if listeners:
        await serial(listeners, TurnIsStopping(driver.agent, operation.turn, driver.signal))
    return i.Stopped()
