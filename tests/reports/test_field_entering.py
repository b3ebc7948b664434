"""Faults of the field around a host's entry and end: cancellations, forks, asyncio, and what is said of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.hosts import OPTIONS, create, hosted
from tests.stage import stage
from treadle import Answer, Call, Host, MisuseError, ScriptedModel, open_agent, tool
from treadle.asyncio import Bridge
from treadle_adapters.stores import open_store
from treadle_specs.logs.checker import check_file


class CancelAt(trio.abc.Instrument):
    """Cancels a scope before the step of that number; counts them all."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.steps = 0
        self.scope = trio.CancelScope()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1
        if self.steps == self.number:
            self.scope.cancel()


async def only_a_host(_: Path) -> None:
    async with Host():
        pass


async def an_agent(_: Path) -> None:
    async with open_agent(model=ScriptedModel(["hello"])) as agent:
        agent.followup("hi")
        await agent.when_idle()


async def a_stored_agent(kind: str, path: Path) -> None:
    script = [Answer(calls=[Call("look")]), "done"]
    async with (
        open_store(kind, path) as store,
        hosted(*script, store=store) as host,
        await create(host, "s") as agent,
    ):
        agent.followup("hi")
        await agent.when_idle()


async def on_jsonl(path: Path) -> None:
    await a_stored_agent("jsonl", path)


async def on_memory(path: Path) -> None:
    await a_stored_agent("memory", path)


def swept(work: Callable[[Path], Awaitable[None]], path: Path, number: int) -> bool:
    """Run the work in a scope that is cancelled at a step; returns whether it was over before."""
    instrument = CancelAt(number)

    async def main() -> None:
        with instrument.scope:
            await work(path)
        assert len(trio.lowlevel.current_task().child_nurseries) == 0

    trio.run(main, instruments=[instrument])
    return not instrument.scope.cancel_called


@pytest.mark.rule("N7", "H11")
@pytest.mark.parametrize("work", [only_a_host, an_agent, on_memory, on_jsonl])
def test_a_host_an_agent_and_a_store_are_entered_and_left_under_a_scope_that_is_cancelled_at_any_checkpoint(
    work: Callable[[Path], Awaitable[None]], tmp_path: Path
) -> None:
    stride = 1 if work in (only_a_host, an_agent) else int(os.environ.get("TREADLE_SWEEP_STRIDE", "5"))
    for number in range(1, 2_000, stride):
        path = tmp_path / str(number)
        if swept(work, path, number):
            assert number > 3
            break
        for log in path.glob("*.jsonl"):
            assert not check_file(log, finished=True).findings
    else:
        raise AssertionError("the work never came to its end")


@pytest.mark.rule("N7")
async def test_entering_a_host_under_a_cancelled_scope_raises_cancelled_and_leaves_nothing() -> None:
    tasks = trio.lowlevel.current_statistics().tasks_living
    entered = []
    with trio.fail_after(5):
        with trio.move_on_after(0) as scope:
            async with Host():
                entered.append(1)
        assert (scope.cancelled_caught, entered) == (True, [])
        with trio.move_on_after(0) as scope:
            async with open_agent(model=ScriptedModel()):
                entered.append(2)
        assert (scope.cancelled_caught, entered) == (True, [])
    assert trio.lowlevel.current_statistics().tasks_living == tasks


@pytest.mark.rule("N7")
async def test_opening_an_agent_beside_a_sibling_that_fails_at_once_ends_with_that_failure() -> None:
    async def fail() -> None:
        raise LookupError("at once")

    async def work() -> None:
        async with open_agent(model=ScriptedModel()) as agent:
            await agent.when_idle()
            await trio.sleep_forever()

    with trio.fail_after(5), pytest.RaisesGroup(LookupError):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            nursery.start_soon(fail)


@pytest.mark.rule("N7")
def test_a_bridge_is_entered_and_left_under_a_task_that_is_cancelled_at_any_moment() -> None:
    async def use() -> None:
        async with Bridge(Host()) as bridge:
            await asyncio.sleep(0)
            await bridge.call(lambda: None)

    async def main() -> None:
        for ticks in range(12):
            task = asyncio.create_task(use())
            for _ in range(ticks):
                await asyncio.sleep(0)
            task.cancel()
            async with asyncio.timeout(10):
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


# --- a fork -----------------------------------------------------------------------------------------------------------


def in_a_fork(act: Callable[[], object]) -> str:
    """What calling it raises in a forked process."""
    readable, writable = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            told = repr(act())
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(writable, told.encode())
        os._exit(0)
    os.close(writable)
    os.waitpid(pid, 0)
    with os.fdopen(readable) as pipe:
        return pipe.read()


def sent(awaitable: Awaitable[Any]) -> object:
    return awaitable.__await__().send(None)


@pytest.mark.rule("D2")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_forked_process_is_told_at_every_door_that_the_host_is_not_its_own() -> None:
    async with hosted("hello") as host:
        handle = await create(host)
        agent = handle.agent
        doors: list[Callable[[], object]] = [
            lambda: agent.followup("x"),
            lambda: agent.steer("x"),
            lambda: agent.inject("x"),
            agent.cancel,
            lambda: agent.inbox.append("next-turn", "x"),
            lambda: sent(agent.when_idle()),
            lambda: sent(agent.ask("x")),
            handle.dispose,
            lambda: sent(host.agents.create(agent_options=OPTIONS)),
            lambda: sent(host.agents.resume("s")),
            lambda: host.spawn(trio.sleep_forever),
            lambda: host.from_thread(print),
            lambda: host.await_from_thread(trio.lowlevel.checkpoint),
            lambda: sent(host.__aexit__(None, None, None)),
        ]
        for door in doors:
            told = in_a_fork(door)
            assert told.startswith("MisuseError"), told
            assert "forked" in told
        await agent.when_idle()
        assert len(agent.session) == 0


@pytest.mark.rule("D2")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_told_that_the_bridge_is_not_its_own() -> None:
    async def main() -> None:
        host = Host()
        host.models.register("scripted", ScriptedModel(["hello"]))
        async with asyncio.timeout(20), Bridge(host) as bridge:
            handle = await bridge.agents.create(agent_options=OPTIONS)
            for door in (lambda: handle.agent.followup("x"), lambda: bridge.call(print), handle.dispose):
                told = in_a_fork(door)
                assert told.startswith("MisuseError"), told
                assert "forked" in told
            assert (await handle.agent.ask("x")).text == "hello"

    asyncio.run(main())


# --- what is said -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("D2", "N8")
async def test_a_host_that_was_not_entered_says_so_and_names_the_bridge() -> None:
    host = Host()
    for use in (host.agents.create, lambda: host.agents.resume("s")):
        with pytest.raises(MisuseError, match=r"not running.*async with Host\(\).*treadle\.asyncio\.Bridge"):
            await use()


@pytest.mark.rule("D2", "N8")
def test_a_host_under_asyncio_says_so_and_names_the_bridge() -> None:
    async def main() -> None:
        with pytest.raises(MisuseError, match=r"treadle\.asyncio\.Bridge"):
            async with Host():
                pass

    asyncio.run(main())


@pytest.mark.rule("N8")
async def test_asyncio_code_in_a_tool_is_told_to_the_developer(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def nap() -> None:
        await asyncio.sleep(1)

    async with stage(Answer(calls=[Call("nap")]), "done", tools=[nap]) as s:
        await s.ask("a")
        assert "no running event loop" in s.results()["call_1"]
    assert any("treadle.asyncio" in record.getMessage() and record.exc_info for record in caplog.records)
