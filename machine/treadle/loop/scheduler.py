"""Running the calls of one answer: bodies overlap as the schedule allows, all else is in the model's order (§11)."""

from __future__ import annotations

import trio

from ..containment import without_cancelled
from ..kernel import inputs as i
from ..kernel.effects import RunTools
from ..kernel.schedule import Schedule
from ..tools.registry import toolset
from ..tools.result import Result, standing_in
from .activity import Activity
from .pipeline import Prepared, clear, finish, parse, run_body, unguarded


async def run_tools(activity: Activity, operation: RunTools) -> i.Outcome:
    """Run the calls of an answer until each has its result.

    Returns:
        ``ToolsSettled``, or ``Interrupted`` once everything that was started has settled (C4).

    Raises:
        Exception: a fault of the scheduler itself, after all bodies are over (K7).
    """
    crew = Crew(activity, operation)
    fault: BaseException | None = None
    try:
        if len(operation.calls) == 1:
            await crew.run(None)
        else:
            async with trio.open_nursery() as nursery:
                try:
                    await crew.run(nursery)
                except Exception as error:
                    fault = error
    except BaseException as error:
        fault = error
    if activity.cancelled:
        await crew.converge()
    elif fault is not None:
        await crew.settle_due()
    if fault is not None:
        raise fault
    return i.ToolsSettled()


class Crew:
    """One coordinator prepares calls and settles results in order; bodies run beside it."""

    __slots__ = ("_activity", "_operation", "_prepared", "_results", "_schedule", "_tools", "_wake")

    def __init__(self, activity: Activity, operation: RunTools) -> None:
        schedule = activity.facts.schedule
        assert schedule is not None
        self._activity = activity
        self._operation = operation
        self._schedule: Schedule = schedule
        self._tools = toolset(activity.agent.scope)
        self._prepared: dict[int, Prepared] = {}
        self._results: dict[int, Result] = {}
        self._wake: trio.Event | None = None

    async def run(self, nursery: trio.Nursery | None) -> None:
        """Go on until every call has its result."""
        schedule = self._schedule
        await trio.lowlevel.checkpoint_if_cancelled()
        while not schedule.done and not self._activity.cancelled:
            if schedule.due:
                await self.settle_due()
            elif not await self._start_next(nursery):
                self._wake = trio.Event()
                await self._wake.wait()

    # --- starting -----------------------------------------------------------------------------------------------------

    async def _start_next(self, nursery: trio.Nursery | None) -> bool:
        """Prepare or start the next pending call; returns whether anything changed."""
        schedule, activity, operation = self._schedule, self._activity, self._operation
        index = schedule.next_start
        if index >= len(schedule.calls):
            return False
        prepared = self._prepared.get(index)
        if prepared is None:
            prepared = self._prepared[index] = parse(schedule.calls[index], self._tools)
        if prepared.refused is None:
            parallel = self._is_parallel(prepared)
            if not schedule.may_start(parallel):
                return False
        else:
            parallel = False
        if not prepared.checked and not unguarded(activity, prepared):
            await clear(activity, prepared, operation.turn, operation.step)
            return True
        if prepared.refused is not None:
            self._results[index] = prepared.refused
            activity.feed(i.CallRefused(index))
            return True
        activity.feed(i.CallStarted(index, parallel))
        last = index == len(schedule.calls) - 1
        if nursery is None or not parallel or (last and schedule.running == 1):
            await self._body(index, prepared)
        else:
            nursery.start_soon(self._body, index, prepared)
        return True

    def _is_parallel(self, prepared: Prepared) -> bool:
        """Only an explicit ``True`` is parallel; a raising classifier means exclusive (K4)."""
        tool = prepared.tool
        assert tool is not None
        mode = tool.parallel
        if callable(mode):
            try:
                return mode(prepared.arguments) is True
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:
                return False
        return mode is True

    @trio.lowlevel.enable_ki_protection
    async def _body(self, index: int, prepared: Prepared) -> None:
        """Run one body, keep what it came to, and report how it ended (C4)."""
        started = False
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            started = True
            ended = await run_body(self._activity, prepared, self._operation.turn, self._operation.step)
        except BaseException as error:
            if without_cancelled(error) is not None:
                raise
            ended = i.LetThrough(started)
        if isinstance(ended, Result):
            self._results[index] = ended
            ended = i.RETURNED
        self._activity.feed(i.CallFinished(index, ended))
        if self._wake is not None:
            self._wake.set()

    # --- settling -----------------------------------------------------------------------------------------------------

    async def settle_due(self) -> None:
        """Record every result that is due, in the model's order (K5)."""
        schedule, activity = self._schedule, self._activity
        while schedule.due:
            index = schedule.next_settle
            call = schedule.calls[index]
            operation = self._operation
            chosen = schedule.stand_ins.get(index)
            result = self._results[index] if chosen is None else standing_in(chosen)
            result = await finish(activity, self._prepared[index], result, operation.turn, operation.step)
            activity.feed(i.CallSettled(index, result.fact(call.call_id), result.contexts))

    async def converge(self) -> None:
        """After a cancel, with every body over: real results first to last, calls not started are dropped (C4)."""
        schedule, activity = self._schedule, self._activity
        await self.settle_due()
        while schedule.unconsidered:
            activity.feed(i.CallDropped(schedule.next_settle))
