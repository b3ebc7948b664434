"""Which calls overlap, and in which order everything about them is told (contract §11 K4–K8)."""

from __future__ import annotations

import contextvars
import random
import threading
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.stage import Gate, leaves, settled, stage
from treadle import Answer, Call, Host, ToolCall, ToolRun, tool
from treadle.errors import InvalidTrigger
from treadle.hooks import SESSION_EVENT, TOOLS_POST_EXECUTE, TOOLS_PRE_EXECUTE, TOOLS_RESULT
from treadle.kernel.schedule import Schedule
from treadle.session import ToolResultAdded


class Floor:
    """Counts how many bodies run at once."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.order: list[str] = []
        self.most = 0

    async def work(self, name: str, seconds: float = 1.0) -> str:
        self.order.append(f"+{name}")
        self.running.append(name)
        self.most = max(self.most, len(self.running))
        await trio.sleep(seconds)
        self.running.remove(name)
        self.order.append(f"-{name}")
        return name


# --- K4 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K4")
async def test_parallel_calls_overlap_and_share_a_rolling_pool(autojump_clock: MockClock) -> None:
    floor = Floor()

    @tool(parallel=True)
    async def p(seconds: float, run: ToolRun) -> str:
        return await floor.work(run.call.call_id, seconds)

    calls = [Call("p", {"seconds": seconds}) for seconds in (5.0, 1.0, 1.0, 1.0)]
    async with stage(Answer(calls=calls), tools=[p], max_parallel_tool_calls=2) as s:
        began = trio.current_time()
        await s.ask("a")
        assert floor.most == 2
        assert trio.current_time() - began == pytest.approx(5.0)
        assert sorted(floor.order[:2]) == ["+call_1", "+call_2"]
        assert floor.order[2:] == [
            "-call_2",
            "+call_3",
            "-call_3",
            "+call_4",
            "-call_4",
            "-call_1",
        ]


@pytest.mark.rule("K4")
async def test_the_pool_holds_ten_unless_told_otherwise(autojump_clock: MockClock) -> None:
    floor = Floor()

    @tool(parallel=True)
    async def p(run: ToolRun) -> str:
        return await floor.work(run.call.call_id)

    async with stage(Answer(calls=[Call("p")] * 25), tools=[p]) as s:
        await s.ask("a")
        assert floor.most == 10


@pytest.mark.rule("K4")
async def test_an_exclusive_call_is_a_barrier_and_overlaps_none(autojump_clock: MockClock) -> None:
    floor = Floor()

    @tool(parallel=True)
    async def p(run: ToolRun) -> str:
        return await floor.work(run.call.call_id)

    @tool
    async def x(run: ToolRun) -> str:
        return await floor.work(run.call.call_id)

    async with stage(Answer(calls=[Call("p"), Call("p"), Call("x"), Call("p"), Call("x")]), tools=[p, x]) as s:
        await s.ask("a")
        assert sorted(floor.order[:4]) == ["+call_1", "+call_2", "-call_1", "-call_2"]
        assert floor.order[4:] == ["+call_3", "-call_3", "+call_4", "-call_4", "+call_5", "-call_5"]


@pytest.mark.rule("K4")
@pytest.mark.parametrize(
    ("verdict", "overlap"),
    [
        (True, True),
        (False, False),
        (1, False),
        ("yes", False),
        (None, False),
        (ValueError("odd"), False),
        (BaseException("odder"), False),
    ],
)
async def test_only_an_explicit_true_of_the_classifier_is_parallel(
    verdict: Any, overlap: bool, autojump_clock: MockClock
) -> None:
    floor = Floor()

    def classify(arguments: dict[str, Any]) -> Any:
        assert arguments == {"n": 1}
        if isinstance(verdict, BaseException):
            raise verdict
        return verdict

    @tool(parallel=classify)
    async def p(n: int, run: ToolRun) -> str:
        return await floor.work(run.call.call_id)

    async with stage(Answer(calls=[Call("p", {"n": 1})] * 2), tools=[p]) as s:
        await s.ask("a")
        assert floor.most == (2 if overlap else 1)


@pytest.mark.rule("K4")
async def test_a_pending_call_is_classified_again_right_before_it_starts(autojump_clock: MockClock) -> None:
    floor = Floor()
    calm: list[bool] = []

    @tool(parallel=lambda arguments: bool(calm))
    async def p(run: ToolRun) -> str:
        if run.call.call_id == "call_1":
            calm.append(True)
        return await floor.work(run.call.call_id)

    async with stage(Answer(calls=[Call("p")] * 3), tools=[p]) as s:
        await s.ask("a")
        assert floor.order[:2] == ["+call_1", "-call_1"]
        assert floor.most == 2


# --- K5 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K5")
async def test_everything_but_the_bodies_is_in_model_order_whatever_the_finishing_order(
    autojump_clock: MockClock,
) -> None:
    order: list[str] = []

    @tool(parallel=True)
    async def p(seconds: float, run: ToolRun) -> str:
        await trio.sleep(seconds)
        order.append(f"body {run.call.call_id}")
        return "ok"

    def note_down(name: str) -> Any:
        def hook(payload: Any, *proceed: Any) -> Any:
            order.append(f"{name} {payload.call.call_id}")
            return proceed[0]() if proceed else None

        return hook

    calls = [Call("p", {"seconds": seconds}) for seconds in (3.0, 2.0, 1.0)]
    async with stage(Answer(calls=calls), tools=[p]) as s:
        s.agent.scope.on(TOOLS_PRE_EXECUTE, note_down("pre"))
        s.agent.scope.on(TOOLS_POST_EXECUTE, note_down("post"))
        s.agent.scope.on(TOOLS_RESULT, note_down("result"))
        await s.ask("a")
        ids = ("call_1", "call_2", "call_3")
        assert [one for one in order if one.startswith("body")] == [f"body {one}" for one in reversed(ids)]
        for name in ("pre", "post", "result"):
            assert [one for one in order if one.startswith(name)] == [f"{name} {one}" for one in ids]
        assert s.requests[1][-3:] == [f"result {one}" for one in ids]


@pytest.mark.rule("K5")
async def test_a_call_is_recorded_after_the_guards_and_right_before_its_body() -> None:
    seen: list[tuple[str, str]] = []

    @tool
    async def one() -> None:
        seen.append(("body", s.log[-1]))

    async with stage(Answer(calls=[Call("one")]), tools=[one]) as s:
        s.agent.tools.guard(lambda proposal: seen.append(("guard", s.log[-1])))
        await s.ask("a")
        assert seen == [("guard", "assistant '' +call_1"), ("body", "call call_1")]


@pytest.mark.rule("K5")
async def test_a_rejected_call_keeps_its_place_behind_an_earlier_slow_one(autojump_clock: MockClock) -> None:
    @tool(parallel=True)
    async def slow() -> str:
        await trio.sleep(5)
        return "slow"

    @tool(parallel=True)
    async def fast() -> str:
        return "fast"

    calls = [Call("slow"), Call("nope"), Call("fast", "{bad"), Call("fast")]
    async with stage(Answer(calls=calls), tools=[slow, fast]) as s:
        await s.ask("a")
        assert s.log[4:12] == [
            "call call_1",
            "call call_4",
            "result call_1 ok",
            "call call_2",
            "result call_2 UNKNOWN_TOOL",
            "call call_3",
            "result call_3 INVALID_ARGUMENTS",
            "result call_4 ok",
        ]


@pytest.mark.rule("K5")
async def test_due_results_are_recorded_before_the_next_call_when_a_slot_is_freed(autojump_clock: MockClock) -> None:
    @tool(parallel=True)
    async def p() -> str:
        await trio.sleep(1)
        return "ok"

    async with stage(Answer(calls=[Call("p")] * 3), tools=[p], max_parallel_tool_calls=1) as s:
        await s.ask("a")
        assert s.log[4:10] == [
            text for index in (1, 2, 3) for text in (f"call call_{index}", f"result call_{index} ok")
        ]


@pytest.mark.rule("K5", "K4", "N1")
async def test_two_hundred_random_batches_keep_every_order(autojump_clock: MockClock) -> None:
    chance = random.Random(7)
    floor = Floor()

    @tool(parallel=True)
    async def p(seconds: float, run: ToolRun) -> str:
        return await floor.work("p", seconds)

    @tool
    async def x(seconds: float, run: ToolRun) -> str:
        assert floor.running == []
        return await floor.work("x", seconds)

    async with stage(tools=[p, x], max_parallel_tool_calls=3, listen=False, host=Host()) as s:
        for index in range(200):
            names = [chance.choice(["p", "p", "x", "nope", "bad"]) for _ in range(5)]
            calls = [
                Call(
                    "p" if name == "bad" else name,
                    "{" if name == "bad" else {"seconds": chance.random()},
                    f"c{index}.{n}",
                )
                for n, name in enumerate(names)
            ]
            s.model.push(Answer(calls=calls), "done")
            before = len(s.agent.session)
            await s.ask(f"m{index}")
            new = [entry.data for entry in s.agent.session.events[before:]]
            assert [one.call_id for one in new if isinstance(one, ToolResultAdded)] == [call.id for call in calls]
        assert floor.most == 3


# --- K6, K7 -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K6")
async def test_after_a_cancel_nothing_new_starts() -> None:
    gate = Gate()
    ran: list[str] = []

    @tool(parallel=True)
    async def p(run: ToolRun) -> None:
        ran.append(run.call.call_id)
        await gate.wait()

    async with stage(Answer(calls=[Call("p")] * 4), tools=[p], max_parallel_tool_calls=2) as s:
        s.agent.followup("a")
        await gate.reached()
        await settled()
        s.agent.cancel()
        await s.agent.when_idle()
        assert sorted(ran) == ["call_1", "call_2"]


@pytest.mark.rule("K4", "K5", "K7", "L1")
def test_the_schedule_refuses_what_its_rules_forbid() -> None:
    calls = tuple([ToolCall(f"c{index}", "t") for index in range(4)])
    schedule = Schedule(calls, 2)
    for wrong in (
        lambda: schedule.start(1, True),
        lambda: schedule.finish(0),
        lambda: schedule.settle(1),
        lambda: schedule.refuse(2),
    ):
        with pytest.raises(InvalidTrigger):
            wrong()
    schedule.start(0, parallel=True)
    for wrong in (lambda: schedule.start(1, False), lambda: schedule.settle(0)):
        with pytest.raises(InvalidTrigger):
            wrong()
    schedule.start(1, parallel=True)
    with pytest.raises(InvalidTrigger):
        schedule.start(2, True)
    twin = schedule.copy()
    schedule.finish(1)
    with pytest.raises(InvalidTrigger):
        schedule.settle(1)
    schedule.finish(0)
    assert (schedule.settle(0), schedule.settle(1)) == (True, True)
    schedule.refuse(2)
    assert (schedule.settle(2), schedule.settle(3), schedule.done) == (False, False, True)
    with pytest.raises(InvalidTrigger):
        schedule.settle(4)
    with pytest.raises(InvalidTrigger):
        schedule.refuse(4)
    assert (twin.running, twin.done) == (2, False)
    fresh = Schedule(calls, 2)
    fresh.settle(0)
    fresh.start(1, parallel=True)
    assert fresh.running == 1


# --- K8 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K8")
async def test_a_sync_tool_runs_in_a_thread_and_never_blocks_the_loop() -> None:
    go_on = threading.Event()
    beats = 0

    @tool
    def blocking() -> str:
        assert go_on.wait(10)
        return threading.current_thread().name

    async with stage(Answer(calls=[Call("blocking")]), tools=[blocking]) as s:
        s.agent.followup("a")
        for _ in range(50):
            await trio.lowlevel.checkpoint()
            beats += 1
        assert s.log[-1] == "call call_1"
        go_on.set()
        await s.agent.when_idle()
        assert beats == 50
        assert s.results()["call_1"] != threading.main_thread().name


@pytest.mark.rule("K8", "K4")
async def test_two_parallel_sync_tools_overlap() -> None:
    barrier = threading.Barrier(2, timeout=10)

    @tool(parallel=True)
    def meet() -> str:
        barrier.wait()
        return "met"

    async with stage(Answer(calls=[Call("meet")] * 2), tools=[meet]) as s:
        await s.ask("a")
        assert s.results() == {"call_1": "met", "call_2": "met"}


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


@pytest.mark.rule("K8", "O7")
@pytest.mark.parametrize("kind", ["async", "sync", "awaitable"])
async def test_context_variables_reach_the_tool_and_come_from_the_host_not_from_the_sender(kind: str) -> None:
    async def later() -> str:
        return WHO.get()

    @tool(name="async")
    async def in_task() -> str:
        return WHO.get()

    @tool(name="sync")
    def in_thread() -> str:
        return WHO.get()

    @tool(name="awaitable")
    def in_both() -> Any:
        return later()

    token = WHO.set("host")
    async with stage(Answer(calls=[Call(kind)]), tools=[in_task, in_thread, in_both]) as s:
        WHO.set("sender")
        await s.ask("a")
        assert s.results() == {"call_1": "host"}
    WHO.reset(token)


@pytest.mark.rule("K8", "O7")
async def test_what_a_hook_sets_for_its_task_reaches_the_tool() -> None:
    @tool
    def read() -> str:
        return WHO.get()

    def set_it(proposal: Any, proceed: Any) -> Any:
        WHO.set("hook")
        return proceed()

    async with stage(Answer(calls=[Call("read")]), tools=[read]) as s:
        s.agent.scope.on(TOOLS_PRE_EXECUTE, set_it)
        await s.ask("a")
        assert s.results() == {"call_1": "hook"}


@pytest.mark.rule("K8", "N7")
async def test_tasks_that_a_tool_starts_live_in_its_own_nursery_and_end_with_it() -> None:
    ticks: list[int] = []
    gate = Gate()

    @tool
    async def family() -> None:
        async def tick() -> None:
            while True:
                ticks.append(1)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            await gate.wait()

    async with stage(Answer(calls=[Call("family")]), tools=[family]) as s:
        s.agent.followup("a")
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        count = len(ticks)
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        assert len(ticks) == count > 0


@pytest.mark.rule("K8", "D2")
async def test_from_a_worker_thread_the_agent_is_reached_through_the_hosts_entry() -> None:
    @tool
    def reach(run: ToolRun) -> str:
        s.host.from_thread(run.agent.steer, "from the thread")
        return str(s.host.await_from_thread(later))

    async def later() -> str:
        await trio.lowlevel.checkpoint()
        return "in the loop"

    async with stage(Answer(calls=[Call("reach")]), tools=[reach]) as s:
        await s.ask("a")
        assert s.results() == {"call_1": "in the loop"}
        assert s.requests[1][-1] == "user from the thread"


@pytest.mark.rule("K5", "K6")
async def test_a_tool_taken_out_between_request_and_call_is_unknown() -> None:
    @tool
    async def one() -> str:
        return "ran"

    async with stage(Answer(calls=[Call("one")]), "two") as s:
        stop = s.agent.tools.register(one)
        s.agent.scope.on(SESSION_EVENT, lambda told: stop() if told.event.type == "assistant/message" else None)
        await s.ask("a")
        assert "result call_1 UNKNOWN_TOOL" in s.log
        assert [schema.name for schema in s.model.requests[0].tools] == ["one"]
        assert s.model.requests[1].tools == ()


@pytest.mark.rule("K4", "H5")
async def test_a_classifier_that_leaves_the_program_ends_the_host() -> None:
    def classify(arguments: dict[str, Any]) -> Any:
        raise KeyboardInterrupt

    @tool(parallel=classify)
    async def p() -> None: ...

    s = await leaves(KeyboardInterrupt, lambda s: s.ask("a"), Answer(calls=[Call("p")]), tools=[p])
    assert s.ends == ["error UNKNOWN"]
