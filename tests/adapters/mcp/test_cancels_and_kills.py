"""Cancelled at any moment, killed at any moment: nothing is left behind, and nothing is said that is not so."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing
from attrs import evolve

from tests.adapters.mcp.stage import Stage, staged
from tests.adapters.waiting import eventually
from tests.hosts import create
from tests.invariants import check_invariants
from treadle import Aborted, Answer, Call, Completed

AGENTS, CANCELS = 10, 50
KILLS = 12


async def eventually_read(stage: Stage, method: str, count: int) -> None:
    await eventually(lambda: len(stage.read(method)) >= count)


@pytest.mark.rule("C4", "C10")
@pytest.mark.slow
async def test_five_hundred_cancels_at_random_moments(tmp_path: Path) -> None:
    moments = random.Random(17)
    async with staged(tmp_path, alone=False) as stage:
        await stage.call("echo")
        await trio.testing.wait_all_tasks_blocked(0.01)
        before = trio.lowlevel.current_statistics().tasks_living
        codes: set[str | None] = set()
        for _ in range(AGENTS):
            handle = await create(stage.host)
            some = evolve(stage, agent=handle.agent)
            for _ in range(CANCELS):
                calls = [Call("odd__wait", {}), Call("odd__wait", {}), Call("odd__echo", {})]
                stage.model.push(Answer(calls=calls))
                some.agent.followup("go")
                await trio.sleep(moments.random() * 0.01)
                some.agent.cancel()
                await some.agent.when_idle()
            codes |= {result.code for result in some.results()}
            check_invariants(some.agent.session)
            await handle.dispose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert trio.lowlevel.current_statistics().tasks_living == before
        assert len(stage.pids()) == 1
        assert codes <= {None, "ABORTED", "ABORTED_BEFORE_DISPATCH"}
        called = {one["id"] for one in stage.read("tools/call") if one["params"]["name"] == "wait"}
        assert len(called) > AGENTS * CANCELS // 4  # the moments are not all too early
        await eventually(
            lambda: called <= {one["params"]["requestId"] for one in stage.read("notifications/cancelled")}
        )


@pytest.mark.slow
async def test_a_server_killed_at_any_moment_gives_an_honest_result_and_comes_back(tmp_path: Path) -> None:
    moments = random.Random(18)
    async with staged(tmp_path) as stage:
        await stage.call("echo")
        for number in range(KILLS):
            async with trio.open_nursery() as nursery:

                async def kill() -> None:
                    await trio.sleep(moments.random() * 0.02)
                    with suppress(ProcessLookupError):  # it may be dead already, of the kill before
                        os.kill(stage.pids()[-1], signal.SIGKILL)

                nursery.start_soon(kill)
                results = await stage.calls(*[Call("odd__echo", {"text": "x" * 1000})] * 3)
            assert {result.code for result in results} <= {None, "TOOL_OUTCOME_UNKNOWN"}, number
            back = await stage.call("echo", {"text": "back"})
            assert back.code in (None, "TOOL_OUTCOME_UNKNOWN")
        assert (await stage.call("echo", {"text": "back"})).code is None
        assert 2 <= len(stage.pids()) <= 1 + KILLS


@pytest.mark.slow
@pytest.mark.rule("C4")
async def test_a_cancel_while_the_server_starts_starts_no_second_one(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        for _ in range(5):
            stage.agent.followup("go")
            await trio.sleep(0.01)
            stage.agent.cancel()
            assert isinstance(await stage.agent.when_idle(), (Aborted, Completed, type(None)))
        assert (await stage.call("echo")).code is None
        assert len(stage.pids()) == 1


@pytest.mark.slow
async def test_a_host_that_ends_while_its_server_starts_leaves_no_process(tmp_path: Path) -> None:
    for pause in (0.0, 0.02, 0.2):
        async with staged(tmp_path) as stage:
            stage.agent.followup("go")
            await trio.sleep(pause)


async def test_a_host_that_is_cancelled_during_a_call_leaves_no_process(tmp_path: Path) -> None:
    with trio.move_on_after(20) as scope:
        async with staged(tmp_path) as stage:

            async def cancel() -> None:
                await eventually_read(stage, "tools/call", 1)
                scope.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel)
                await stage.call("wait")
    assert scope.cancelled_caught
