"""Stepping a trio run from synchronous code: who runs when, what is waited for, and that nothing is left behind."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio

from treadle import AgentOptions, Host, ScriptedModel
from treadle_specs.exploration import task_order, threads
from treadle_specs.exploration.stepper import Stepper, Stuck
from treadle_specs.exploration.task_order import Order


def test_nothing_runs_between_two_ticks() -> None:
    seen: list[int] = []

    async def count() -> None:
        for number in range(3):
            seen.append(number)
            await trio.lowlevel.checkpoint()

    with Stepper() as stepper:
        job = stepper.start(count)
        assert seen == []
        stepper.tick()
        assert seen == [0]
        stepper.tick(2)
        assert seen == [0, 1, 2]
        stepper.settle()
        assert job.done


def test_synchronous_calls_between_ticks_reach_an_agent() -> None:
    with Stepper() as stepper:
        host = stepper.enter(Host())
        host.models.register("scripted", ScriptedModel(["hello"]))
        handle = stepper.run(lambda: host.agents.create(agent_options=AgentOptions(provider="scripted", model="any")))
        handle.agent.followup("hi")
        assert handle.agent.status == "running"
        assert not stepper.quiescent
        stepper.settle()
        assert handle.agent.status == "idle"
        assert handle.agent.session.events[-1].type == "turn/end"


def test_settling_waits_for_worker_threads_but_for_no_timer() -> None:
    with Stepper() as stepper:
        slow = stepper.start(trio.to_thread.run_sync, lambda: time.sleep(0.05))
        timer = stepper.start(trio.sleep, 1)
        began = trio.current_time()
        stepper.settle()
        assert slow.done
        assert not timer.done
        assert trio.current_time() == began


def test_settling_waits_for_threads_that_a_library_starts_by_itself() -> None:
    async def in_thread() -> str:
        token, task = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()

        def deliver(result: Any) -> None:
            token.run_sync_soon(trio.lowlevel.reschedule, task, result)

        trio.lowlevel.start_thread_soon(lambda: time.sleep(0.05), deliver)
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        return "done"

    with Stepper() as stepper:
        assert stepper.run(in_thread) == "done"


def test_who_waits_by_an_await_of_its_own_waits_for_no_thread() -> None:
    class Waiting:
        def __await__(self) -> Any:
            return trio.sleep_forever().__await__()  # noqa: ASYNC105  # as objects do that are awaited

    async def wait() -> None:
        await Waiting()

    with Stepper(patience=0.02) as stepper:
        stepper.start(wait)
        stepper.settle()
        assert stepper.waits_outside() == []


def test_what_a_thread_hands_back_is_run_before_settling_ends() -> None:
    seen: list[str] = []

    def work() -> None:
        trio.from_thread.run_sync(seen.append, "from the thread")

    with Stepper() as stepper:
        stepper.start(trio.to_thread.run_sync, work)
        stepper.settle()
        assert seen == ["from the thread"]


def test_a_thread_that_takes_too_long_is_reported() -> None:
    with Stepper(patience=0.02) as stepper:
        released = threading.Event()
        job = stepper.start(trio.to_thread.run_sync, released.wait)
        with pytest.raises(Stuck, match=r"took longer than 0\.02 s"):
            stepper.settle()
        released.set()
        while not job.done:
            with suppress(Stuck):
                stepper.settle()


@pytest.mark.skipif(not threads.CONTROLLED, reason="this trio hands out its threads by itself")
def test_a_steady_run_takes_the_same_course_however_long_its_threads_take() -> None:
    def course(pause: float) -> list[str]:
        seen: list[str] = []

        def work() -> None:
            time.sleep(pause)
            trio.from_thread.run_sync(seen.append, "asked", trio_token=token)
            time.sleep(pause)

        async def use(name: str, function: Callable[[], None]) -> None:
            for _ in range(2):
                await trio.to_thread.run_sync(function)
                seen.append(name)

        async def count() -> None:
            for number in range(12):
                await trio.lowlevel.checkpoint()
                seen.append(str(number))

        with Stepper(steady=True) as stepper:
            token = trio.lowlevel.current_trio_token()
            stepper.start(use, "asking", work)
            stepper.start(use, "silent", lambda: time.sleep(pause))
            stepper.start(count)
            stepper.settle()
            return [*seen, str(stepper.ticks)]

    quick, slow = course(0.0), course(0.004)
    assert quick == slow
    assert quick.index("silent") < quick.index("11")


def test_a_steady_run_leaves_a_thread_to_itself_that_takes_too_long() -> None:
    released = threading.Event()
    with Stepper(patience=0.02, steady=True) as stepper:
        job = stepper.start(trio.to_thread.run_sync, released.wait)
        with pytest.raises(Stuck, match=r"took longer than 0\.02 s"):
            stepper.settle()
        assert not job.done
        released.set()
        while not job.done:
            with suppress(Stuck):
                stepper.settle()


@pytest.mark.skipif(not threads.CONTROLLED, reason="this trio hands out its threads by itself")
def test_the_threads_of_others_are_not_waited_for() -> None:
    place: Any = threads._CACHE
    before = getattr(place, threads._NAME)
    with Stepper(steady=True) as stepper:
        stepper.run(trio.to_thread.run_sync, int)
        assert getattr(place, threads._NAME) is before


def test_time_passes_only_when_it_is_told_to_and_meets_deadlines_one_by_one() -> None:
    seen: list[float] = []

    async def tick_tock() -> None:
        for _ in range(3):
            await trio.sleep(1)
            seen.append(trio.current_time())

    with Stepper() as stepper:
        stepper.start(tick_tock)
        stepper.settle()
        assert seen == []
        stepper.advance(2.5)
        assert seen == [1.0, 2.0]
        assert stepper.clock.now == 2.5
        stepper.advance(0.5)
        assert seen == [1.0, 2.0, 3.0]


def test_run_gives_the_result_raises_the_error_and_reports_who_waits_for_ever() -> None:
    async def add(one: int, two: int) -> int:
        await trio.lowlevel.checkpoint()
        return one + two

    async def fail() -> None:
        raise KeyError("no")

    with Stepper() as stepper:
        assert stepper.run(add, 1, 2) == 3
        with pytest.raises(KeyError, match="no"):
            stepper.run(fail)
        with pytest.raises(Stuck, match="nobody will do"):
            stepper.run(trio.sleep_forever)
        unfinished = stepper.start(trio.sleep_forever)
        with pytest.raises(Stuck, match="not done"):
            unfinished.result()


def test_a_livelock_is_reported() -> None:
    async def spin() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    with Stepper(max_ticks=100) as stepper:
        stepper.start(spin)
        with pytest.raises(Stuck, match="livelock"):
            stepper.settle()


def test_contexts_are_left_in_reverse_order_and_their_errors_are_seen() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def named(name: str, *, broken: bool = False) -> AsyncGenerator[str]:
        yield name
        await trio.lowlevel.checkpoint()
        seen.append(name)
        if broken:
            raise ValueError(name)

    stepper = Stepper()
    assert [stepper.enter(named("a")), stepper.enter(named("b", broken=True))] == ["a", "b"]
    with pytest.raises(ValueError, match="b"):
        stepper.finish()
    assert seen == ["b", "a"]


def test_a_context_that_cannot_be_entered_says_why() -> None:
    @asynccontextmanager
    async def broken() -> AsyncGenerator[str]:
        raise ValueError("no entry")
        yield ""

    with Stepper() as stepper, pytest.raises(ValueError, match="no entry"):
        stepper.enter(broken())


async def ignore_cancellation() -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()


def test_a_task_that_refuses_to_end_is_reported_and_poisons_no_later_run() -> None:
    stepper = Stepper()
    stepper.start(ignore_cancellation, name="the stubborn one")
    stepper.settle()
    with pytest.raises(Stuck, match=r"refuses to end: .*the stubborn one"):
        stepper.finish()
    assert stepper.finished
    assert trio.run(trio.sleep, 0) is None
    with Stepper() as another:
        another.run(trio.sleep, 0)


def test_a_run_that_was_torn_down_poisons_no_later_run() -> None:
    stepper = Stepper()
    stepper.start(ignore_cancellation)
    stepper.settle()
    stepper.abandon()
    assert stepper.finished
    stepper.tick()
    with pytest.raises(Stuck, match="the run is over"):
        stepper.start(ignore_cancellation)
    with Stepper() as another:
        another.run(trio.sleep, 0)


def test_the_clean_ups_of_a_run_that_is_dropped_run_in_it_and_nothing_of_it_is_kept() -> None:
    seen: list[str] = []

    class Held:
        """Something large."""

    async def tidy() -> None:
        held = Held()
        watched.append(weakref.ref(held))
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            seen.append("tidied")
            raise ValueError("whatever it comes to")

    watched: list[weakref.ref[Held]] = []
    stepper = Stepper()
    stepper.start(tidy)
    stepper.settle()
    stepper.drop()
    stepper.drop()
    assert seen == ["tidied"]
    del stepper
    gc.collect()
    assert [one() for one in watched] == [None]


def test_what_refuses_to_end_when_its_run_is_dropped_is_abandoned() -> None:
    seen: list[str] = []

    async def refuse() -> None:
        try:
            while True:
                with suppress(BaseException):
                    await trio.lowlevel.checkpoint()
        finally:
            seen.append("tidied")

    stepper = Stepper()
    stepper.start(refuse)
    stepper.tick(3)
    stepper.drop()
    assert stepper.finished
    assert stepper.ticks < 5_000
    del stepper
    gc.collect()
    assert seen == []
    with Stepper() as another:
        another.run(trio.sleep, 0)


def test_a_failing_block_ends_the_run_and_keeps_its_own_error() -> None:
    with pytest.raises(ZeroDivisionError), Stepper() as stepper:  # noqa: PT012 (the block is what is tested)
        stepper.start(ignore_cancellation)
        stepper.settle()
        _ = 1 / 0
    assert trio.run(trio.sleep, 0) is None


def order_of(drawn: list[int]) -> list[int]:
    seen: list[int] = []

    async def note(number: int) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(number)

    with Stepper() as stepper:
        for number in range(3):
            stepper.start(note, number)
        stepper.order.feed(drawn)
        stepper.settle()
    return seen


@pytest.mark.skipif(not task_order.CONTROLLED, reason="this trio decides the order of tasks by itself")
def test_tasks_run_oldest_first_unless_other_orders_are_drawn() -> None:
    assert order_of([]) == [0, 1, 2]
    drawn = {tuple(order_of([*first, *first])) for first in ([0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1])}
    assert len(drawn) == 6


def test_the_order_is_applied_to_stepped_runs_only() -> None:
    order = Order([1])
    run: Any = task_order._RUN
    before = run._r
    with task_order.applied(order):
        assert run._r is (order if task_order.CONTROLLED else before)
    assert run._r is before
    stepper = Stepper(order)
    stepper.settle()
    assert run._r is before
    stepper.finish()


def test_without_the_private_hook_runs_are_stepped_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_order, "CONTROLLED", False)
    assert sorted(order_of([2, 1])) == [0, 1, 2]


def test_reversals_are_drawn_where_batches_are_not_shuffled() -> None:
    order = Order([1, 2])
    assert [order.random() >= 0.5, order.random() >= 0.5, order.random() >= 0.5] == [True, False, False]
