"""Faults around tools that users met elsewhere: each test is named after the fault that must not happen here."""

from __future__ import annotations

import contextvars
import json
import random
import threading
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from tests.stage import Stage, note, settled, stage
from treadle import Answer, Call, Host, State, Text, ToolRun, tool
from treadle.session import ToolResultAdded, encode_event


def ends(s: Stage) -> list[str]:
    return [text.split(" ", 2)[2] for text in s.log if text.startswith("result")]


# --- arguments --------------------------------------------------------------------------------------------------------

MALFORMED = {
    "cut off": '{"path": "/tmp/x", "conte',
    "a stray word": '{"path": "/tmp/x"} thanks',
    "two objects": '{"path": "a"}{"path": "b"}',
    "single quotes": "{'path': 'a'}",
    "a list": "[]",
    "a number": "3",
    "null": "null",
    "text": '"path"',
    "deep nesting": '{"path":' + "[" * 10_000 + "]" * 10_000 + "}",
}


@pytest.mark.rule("K3", "X3")
@pytest.mark.parametrize("kind", MALFORMED)
async def test_malformed_arguments_do_not_become_an_empty_object_that_the_tool_runs_with(kind: str) -> None:
    ran: list[Any] = []

    @tool
    async def write(path: str = "default", content: str = "") -> str:
        ran.append(path)
        return "written"

    async with stage(Answer(calls=[Call("write", MALFORMED[kind])]), "I see", tools=[write]) as s:
        await s.ask("a")
        assert ran == []
        assert ends(s) == ["INVALID_ARGUMENTS"]
        told = s.results()["call_1"]
        assert "byte" in told or "nested" in told
        assert '"properties"' in told
        assert s.ends == ["completed"]
        call = s.model.requests[1].messages[1].calls[0]  # type: ignore[union-attr]
        assert call.arguments == MALFORMED[kind]


@pytest.mark.rule("K3")
async def test_duplicate_keys_do_not_crash_and_the_last_one_counts() -> None:
    @tool
    async def say(word: str) -> str:
        return word

    async with stage(Answer(calls=[Call("say", '{"word": "a", "word": "b"}')]), tools=[say]) as s:
        await s.ask("a")
        assert s.results() == {"call_1": "b"}


@pytest.mark.rule("K3", "K1")
async def test_json_inside_a_json_string_is_refused_by_name_and_text_that_looks_like_json_stays_text() -> None:
    got: list[Any] = []

    @tool
    async def store(text: str = "", tags: list[str] = []) -> None:  # noqa: B006
        got.append((text, tags))

    calls = [
        Call("store", json.dumps(json.dumps({"text": "x"}))),
        Call("store", {"tags": '["a", "b"]'}),
        Call("store", {"text": '{"looks": "like json"}'}),
    ]
    async with stage(Answer(calls=calls), tools=[store]) as s:
        await s.ask("a")
        assert ends(s) == ["INVALID_ARGUMENTS", "INVALID_ARGUMENTS", "ok"]
        assert "$.tags" in s.results()["call_2"]
        assert got == [('{"looks": "like json"}', [])]


# --- threads ----------------------------------------------------------------------------------------------------------

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("report_who", default="nobody")


@pytest.mark.rule("K8", "K4")
async def test_a_blocking_sync_tool_does_not_freeze_the_loop_and_two_parallel_ones_overlap() -> None:
    barrier = threading.Barrier(3, timeout=10)

    @tool(parallel=True)
    def blocking() -> str:
        barrier.wait()
        return WHO.get()

    WHO.set("caller")
    async with stage(Answer(calls=[Call("blocking")] * 2), tools=[blocking]) as s:
        s.agent.followup(note("a"))
        while barrier.n_waiting < 2:
            await trio.lowlevel.checkpoint()
        await trio.to_thread.run_sync(barrier.wait)
        await s.agent.when_idle()
        assert s.results() == {"call_1": "caller", "call_2": "caller"}


@pytest.mark.rule("C10", "K8")
async def test_the_late_return_of_an_abandoned_thread_is_discarded() -> None:
    go_on, over = threading.Event(), trio.Event()

    @tool(abandon_on_cancel=True)
    def blocking() -> str:
        s.host.from_thread(running.set)
        go_on.wait(10)
        s.host.from_thread(over.set)
        return "late"

    running = trio.Event()
    async with stage(Answer(calls=[Call("blocking")]), "next", tools=[blocking]) as s:
        s.agent.followup(note("a"))
        await running.wait()
        s.agent.cancel()
        await s.agent.when_idle()
        go_on.set()
        await over.wait()
        await settled()
        await s.ask("b")
        assert "late" not in str([encode_event(entry) for entry in s.agent.session.events])
        assert ends(s) == ["ABORTED"]


@pytest.mark.rule("K8")
async def test_a_sync_tool_that_returns_an_awaitable_is_awaited_in_the_loop() -> None:
    async def later() -> str:
        await trio.lowlevel.checkpoint()
        return threading.current_thread().name

    @tool
    def odd() -> Any:
        return later()

    async with stage(Answer(calls=[Call("odd")]), tools=[odd]) as s:
        await s.ask("a")
        assert s.results() == {"call_1": threading.main_thread().name}


@pytest.mark.rule("K8", "C4", "K4")
async def test_more_sync_tools_than_worker_threads_all_run_and_waiting_ones_can_be_stopped() -> None:
    limiter = trio.to_thread.current_default_thread_limiter()
    before = limiter.total_tokens
    go_on = threading.Event()

    @tool(parallel=True)
    def blocking(run: ToolRun) -> str:
        go_on.wait(10)
        return run.call.call_id

    limiter.total_tokens = 2
    try:
        calls = [Call("blocking")] * 6
        async with stage(Answer(calls=calls), Answer(calls=calls), tools=[blocking]) as s:
            s.agent.followup(note("a"))
            await settled()
            assert limiter.borrowed_tokens == 2
            s.agent.cancel()
            go_on.set()
            await s.agent.when_idle()
            assert sorted(ends(s)) == ["ABORTED"] * 4 + ["ok"] * 2
            await s.ask("b")
            assert ends(s)[6:] == ["ok"] * 6
    finally:
        limiter.total_tokens = before


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K9", "N6")
async def test_what_json_cannot_hold_does_not_fail_the_run_or_the_session() -> None:
    values: list[Any] = [float("nan"), {"a": float("inf")}, {1: 2}, b"x", {3}, object(), 2**80, "\ud800", None, ""]

    @tool
    async def give(index: int) -> Any:
        return values[index]

    def refuse(constant: str) -> Any:
        raise AssertionError(constant)

    calls = [Call("give", {"index": index}) for index in range(len(values))]
    async with stage(Answer(calls=calls), tools=[give]) as s:
        await s.ask("a")
        assert len(s.facts(ToolResultAdded)) == len(values)
        assert all(s.results().values())
        for entry in s.agent.session.events:
            json.loads(encode_event(entry).decode("utf-8", "strict"), parse_constant=refuse)
        assert s.ends == ["completed"]


@pytest.mark.rule("K5", "K4", "N5")
async def test_parallel_results_are_not_out_of_order_and_an_exclusive_tool_overlaps_none(
    autojump_clock: MockClock,
) -> None:
    chance = random.Random(3)
    running: list[str] = []

    async def body(name: str) -> str:
        if name == "exclusive":
            assert running == []
        running.append(name)
        await trio.sleep(chance.random())
        running.remove(name)
        return name

    @tool(parallel=True)
    async def slow() -> str:
        return await body("slow")

    @tool(parallel=True)
    async def fast() -> str:
        return await body("fast")

    @tool
    async def exclusive() -> str:
        return await body("exclusive")

    async with stage(tools=[slow, fast, exclusive], listen=False, host=Host()) as s:
        for run in range(200):
            calls = [
                Call("slow", id=f"{run}.0"),
                Call("unknown", id=f"{run}.1"),
                Call("fast", "{bad", id=f"{run}.2"),
                Call("fast", id=f"{run}.3"),
                Call("exclusive", id=f"{run}.4"),
            ]
            s.model.push(Answer(calls=calls), "done")
            before = len(s.agent.session)
            await s.ask(f"m{run}")
            new = [entry.data for entry in s.agent.session.events[before:]]
            facts = [one for one in new if isinstance(one, ToolResultAdded)]
            assert [one.call_id for one in facts] == [call.id for call in calls]
            assert [one.code for one in facts] == [None, "UNKNOWN_TOOL", "INVALID_ARGUMENTS", None, None]


@pytest.mark.rule("K9", "X3")
@pytest.mark.parametrize("kind", ["one line", "many lines", "emoji", "binary"])
async def test_huge_output_is_cut_at_a_character_and_the_session_still_reloads(kind: str) -> None:
    text = {
        "one line": "x" * 50_000_000,
        "many lines": "y\n" * 1_000_000,
        "emoji": "\U0001f600" * 5_000_000,
        "binary": "".join([chr(code) for code in range(256)]) * 4_000,
    }[kind]

    @tool
    async def huge() -> str:
        return text

    async with stage(Answer(calls=[Call("huge")]), tools=[huge]) as s:
        await s.ask("a")
        told = s.results()["call_1"]
        assert "[cut: " in told
        assert len(told.encode()) < 300_000
        assert "\ufffd" not in told


@pytest.mark.rule("K3", "K5")
@pytest.mark.parametrize("name", ["nope", "two words", "", "n" * 300])
async def test_an_unknown_tool_is_not_skipped_with_a_warning_only(name: str) -> None:
    @tool
    async def good() -> str:
        return "ran"

    async with stage(Answer(calls=[Call(name), Call("good")]), tools=[good]) as s:
        await s.ask("a")
        assert ends(s) == ["UNKNOWN_TOOL", "ok"]
        assert "good" in s.results()["call_1"]


@pytest.mark.rule("T11", "K3")
async def test_a_model_that_asks_for_an_unknown_tool_for_ever_meets_the_step_limit() -> None:
    async with stage(max_steps_per_turn=5) as s:
        s.model.push(*[Answer(calls=[Call("nope")])] * 10)
        await s.ask("a")
        assert s.ends == ["error STEP_LIMIT"]
        assert len(s.requests) == 5
        assert s.agent.state is State.IDLE


@pytest.mark.rule("K3", "Q5", "N1")
async def test_two_equal_calls_do_not_collapse_into_one() -> None:
    ran: list[str] = []

    @tool
    async def same(run: ToolRun) -> str:
        ran.append(run.call.call_id)
        return "x"

    async with stage(Answer(calls=[Call("same", {}, "c"), Call("same", {}, "c")]), tools=[same]) as s:
        await s.ask("a")
        assert len(set(ran)) == 2
        assert [
            block.text for fact in s.facts(ToolResultAdded) for block in fact.content if isinstance(block, Text)
        ] == [
            "x",
            "x",
        ]
