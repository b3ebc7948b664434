"""Operations outside steps: before a turn ends (T4), and between turns (§7)."""

from __future__ import annotations

from typing import Literal

import trio

from ..hooks.dispatch import serial
from ..hooks.points import MAINTENANCE, TURN_STOPPING, MaintenanceMoment, TurnIsStopping
from ..kernel import inputs as i
from ..kernel.effects import Maintain, Stop
from .activity import Activity


async def run_stopping(activity: Activity, operation: Stop) -> i.Stopped:
    """Await every ``agent/turn-stopping`` listener; afterwards the inbox decides (T4)."""
    await trio.lowlevel.checkpoint_if_cancelled()
    agent = activity.agent
    listeners = agent.scope.heard[TURN_STOPPING]
    if listeners:
        await serial(listeners, TurnIsStopping(agent, operation.turn, activity.signal))
    return i.Stopped()


async def run_maintenance(activity: Activity, _operation: Maintain) -> i.Maintained:
    """Run the task that the agent was claimed for; the outcome is the same however it ends (M1, M3, N8)."""
    task = activity.task
    assert task is not None
    _tell(activity, "started")
    try:
        await task.run(activity.signal)
    finally:
        _tell(activity, "ended")
    if task.unseen is not None:
        activity.outbox.report(task.unseen, "a maintenance task that nobody awaits")
    return i.Maintained()


def _tell(activity: Activity, phase: Literal["started", "ended"]) -> None:
    listeners = activity.agent.scope.heard[MAINTENANCE]
    if listeners:
        activity.outbox.now(listeners, MaintenanceMoment(activity.agent, phase))
