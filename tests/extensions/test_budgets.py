"""Budgets: what may be spent, who it is charged to, and how a turn ends that would spend more."""

from collections.abc import Iterable
from typing import Any

import pytest
import trio

from tests.hosts import OPTIONS
from tests.stage import Gate, Stage, reason, settled, stage, talk
from treadle import (
    Answer,
    Call,
    Completed,
    Errored,
    Event,
    Failure,
    Host,
    Interrupted,
    MemoryStore,
    MisuseError,
    ScriptedModel,
    subagent,
    tool,
)
from treadle.extensions.budgets import BUDGET_WARNING, BudgetNearlySpent, Budgets, BudgetWarning, Limits
from treadle.extensions.usage import USAGE, Price
from treadle.hooks import LLM_STREAM
from treadle.models import BlockStart, RetryPolicy, TextDelta, Usage
from treadle.models.scripted import chunks_of
from treadle.session import AssistantAttempt, AssistantMessageAdded, StepStart, ToolResultAdded, TurnEnd, TurnStart

PRICES = {"m": Price(input=1.0, output=2.0)}


@tool
def work() -> str:
    """Works."""
    return "worked"


def working(count: int = 1_000, usage: Usage | None = None) -> Iterable[Any]:
    """Answers that each ask for the tool, for ever as far as a test can tell."""
    return [Answer(calls=[Call("work")], usage=usage) for _ in range(count)]


def budgeted(**given: Any) -> tuple[Host, list[BudgetWarning]]:
    """A host with budgets, and what it warns of."""
    host, warned = Host(checks=True), list[BudgetWarning]()
    Budgets(**given).install(host)
    host.on(BUDGET_WARNING, warned.append)
    return host, warned


def attempts(s: Stage) -> int:
    return len(s.facts(AssistantMessageAdded)) + len(s.facts(AssistantAttempt))


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("limit", ["steps", "calls"])
@pytest.mark.rule("B1")
async def test_a_turn_has_exactly_as_many_steps_and_calls_as_its_budget(limit: str, count: int) -> None:
    host, _ = budgeted(turn=Limits(**{limit: count}))
    async with stage(*working(), tools=[work], host=host) as s:
        end = await s.ask()
        assert isinstance(end, Errored)
        assert end.failure.code == "BUDGET"
        assert f"the turn's budget of {count} {limit} is reached: {count}" in end.failure.message
        assert len(s.requests) == attempts(s) == count
        assert len(s.facts(ToolResultAdded)) == count
        assert [told.failure.code for told in s.errors] == ["BUDGET"]


@pytest.mark.rule("B1")
async def test_a_turn_that_is_answered_within_its_budget_ends_as_it_would() -> None:
    host, _ = budgeted(turn=Limits(steps=2, calls=2, input_tokens=1_000_000, seconds=1e9))
    async with stage(*working(1), "Done.", tools=[work], host=host) as s:
        await s.ask("a")
        assert s.ends == ["completed"]
        await s.ask("b")
        assert s.ends == ["completed", "completed"]  # each turn has its own


@pytest.mark.rule("B2")
async def test_a_retry_counts_as_a_call_and_not_as_a_step() -> None:
    policy = RetryPolicy(base_delay=0.001, jitter=0.0)
    model = ScriptedModel([Failure("busy", "SERVER")] * 9, retry_policy=policy)
    host, _ = budgeted(turn=Limits(calls=3))
    async with stage(model=model, host=host) as s:
        await s.ask()
        assert s.ends == ["error BUDGET"]
        assert len(s.requests) == attempts(s) == 3
    model = ScriptedModel([Failure("busy", "SERVER"), "Done."], retry_policy=policy)
    host, _ = budgeted(turn=Limits(steps=1))
    async with stage(model=model, host=host) as s:
        await s.ask()
        assert s.ends == ["completed"]


@pytest.mark.parametrize(("limit", "bound"), [("input_tokens", 250), ("output_tokens", 25), ("cost", 0.00030)])
@pytest.mark.rule("B1")
async def test_reported_tokens_and_their_cost_end_a_turn(limit: str, bound: Any) -> None:
    host, _ = budgeted(turn=Limits(**{limit: bound}), prices=PRICES)
    usage = Usage(input_tokens=100, output_tokens=10)  # 0.00012 each
    async with stage(*working(usage=usage), tools=[work], host=host) as s:
        await s.ask()
        assert s.ends == ["error BUDGET"]
        assert len(s.requests) == 3


@pytest.mark.rule("B2")
async def test_tokens_that_nobody_reports_are_estimated() -> None:
    host, _ = budgeted(turn=Limits(input_tokens=300))
    async with stage(*working(), tools=[work], host=host) as s:
        await s.ask("many words " * 45)  # some 120 tokens in each request
        assert s.ends == ["error BUDGET"]
        assert len(s.requests) == 3


@pytest.mark.parametrize("limits", [{"output_tokens": 100}, {"cost": 0.0003}])
@pytest.mark.rule("B1")
async def test_an_answer_that_goes_beyond_is_stopped_in_the_middle(limits: dict[str, Any]) -> None:
    gone: list[bool] = []

    async def endless() -> Any:
        try:
            yield BlockStart(0, "text")
            while True:
                yield TextDelta(0, "eight or so. ")
        finally:
            gone.append(True)

    host, _ = budgeted(turn=Limits(**limits), prices=PRICES)
    async with stage(lambda _: endless(), "Done.", host=host) as s:
        await s.ask()
        assert s.ends == ["error BUDGET"]
        assert gone == [True]
        [attempt] = s.facts(AssistantAttempt)
        assert attempt.finish.failure.code == "BUDGET"
        assert USAGE.of(s.agent.session).own.output <= 170
        await s.ask("b")
        assert s.ends == ["error BUDGET", "completed"]


async def test_an_answer_that_uses_its_budget_up_to_the_end_is_whole() -> None:
    host, _ = budgeted(session=Limits(output_tokens=40))
    usage = Usage(input_tokens=5, output_tokens=40)
    async with stage(Answer("A word or two.", usage=usage), "More.", host=host) as s:
        await s.ask("a")
        await s.ask("b")
        assert s.ends == ["completed", "error BUDGET"]
        assert len(s.requests) == 1


@pytest.mark.rule("B1")
async def test_an_answer_is_stopped_when_the_time_is_over(autojump_clock: trio.testing.MockClock) -> None:
    host, _ = budgeted(turn=Limits(seconds=10))
    async with stage(model=ScriptedModel(["word " * 1_000], pace=1.0), host=host) as s:
        began = trio.current_time()
        await s.ask()
        assert trio.current_time() - began == pytest.approx(10, abs=0.01)
        assert s.ends == ["error BUDGET"]


@pytest.mark.rule("B1")
async def test_what_another_listener_made_of_an_answer_is_closed_with_it() -> None:
    closed: list[bool] = []

    async def wrapped(stream: Any) -> Any:
        try:
            async for chunk in stream:
                yield chunk
        finally:
            closed.append(True)

    async def listener(_: Any, proceed: Any) -> Any:
        return wrapped(await proceed())

    host, _ = budgeted(turn=Limits(output_tokens=10))
    host.on(LLM_STREAM, listener)
    async with stage("word " * 1_000, host=host) as s:
        await s.ask()
        assert (s.ends, closed) == (["error BUDGET"], [True])


@pytest.mark.rule("B1", "B2")
async def test_a_sessions_time_is_that_of_all_its_turns_and_not_of_what_is_between(
    autojump_clock: trio.testing.MockClock,
) -> None:
    host, _ = budgeted(session=Limits(seconds=25))
    async with stage(model=ScriptedModel(["word " * 9] * 3, pace=1.0), host=host) as s:
        await s.ask("a")  # 12 chunks, a second each
        await trio.sleep(1_000)
        await s.ask("b")
        began = trio.current_time()
        await s.ask("c")
        assert s.ends == ["completed", "completed", "error BUDGET"]
        assert trio.current_time() - began == pytest.approx(1, abs=0.01)


@pytest.mark.rule("B1")
async def test_a_silent_model_is_not_waited_for_beyond_the_time(autojump_clock: trio.testing.MockClock) -> None:
    host, _ = budgeted(session=Limits(seconds=10))
    async with stage(talk(Gate()), host=host) as s:
        began = trio.current_time()
        await s.ask()
        assert trio.current_time() - began == pytest.approx(10, abs=0.01)
        assert s.ends == ["error BUDGET"]


@pytest.mark.rule("B1", "N1")
async def test_a_tool_is_stopped_when_the_time_is_over_and_its_call_has_a_result(
    autojump_clock: trio.testing.MockClock,
) -> None:
    @tool
    async def sleep() -> None:
        """Sleeps."""
        await trio.sleep_forever()

    worked: list[bool] = []

    @tool
    async def note_it() -> None:
        """Notes that it began."""
        worked.append(True)

    host, _ = budgeted(turn=Limits(seconds=10))
    calls = [Call("sleep"), Call("note_it")]
    async with stage(Answer(calls=calls), "Done.", tools=[sleep, note_it], host=host) as s:
        began = trio.current_time()
        await s.ask("a")
        assert trio.current_time() - began == pytest.approx(10, abs=0.01)
        assert s.ends == ["error BUDGET"]
        assert [result.code for result in s.facts(ToolResultAdded)] == ["BUDGET", "BUDGET"]
        assert worked == []  # nothing starts once the time is over
        await s.ask("b")  # a new turn has its own time, and its request holds call and result
        assert s.ends == ["error BUDGET", "completed"]
        assert [line for line in s.requests[-1] if line.startswith("result")] == ["result call_1", "result call_2"]


@pytest.mark.rule("B1")
async def test_what_was_said_when_nothing_was_left_is_in_the_history() -> None:
    host, _ = budgeted(session=Limits(calls=1))
    async with stage("One.", "Two.", host=host) as s:
        await s.ask("a")
        await s.ask("b")
        assert s.ends == ["completed", "error BUDGET"]
        assert [message.text for message in s.agent.session.history()] == ["a", "One.", "b"]


async def test_steering_that_a_budget_keeps_out_is_recorded_and_not_lost() -> None:
    gate = Gate()
    host, _ = budgeted(turn=Limits(calls=1))
    async with stage(talk("One.", gate), "Two.", host=host) as s:
        s.agent.followup("a")
        await gate.reached()
        s.agent.steer("b")
        gate.open()
        await s.agent.when_idle()
        assert s.ends == ["error BUDGET"]
        assert [message.text for message in s.agent.session.history()] == ["a", "One.", "b"]


# --- sub-agents, and agents side by side ------------------------------------------------------------------------------


def delegating(count: int) -> Answer:
    return Answer(calls=[Call("subagent", {"prompt": f"job {n}"}) for n in range(count)])


@pytest.mark.parametrize("limits", [{"turn": Limits(calls=4)}, {"session": Limits(calls=4)}, {"host": Limits(calls=4)}])
@pytest.mark.rule("B2")
async def test_what_sub_agents_ask_counts_towards_those_above(limits: dict[str, Limits]) -> None:
    host, _ = budgeted(**limits)
    script = [delegating(1), *working(2), "Child's answer.", *working()]
    async with stage(*script, tools=[work, subagent()], host=host) as s:
        await s.ask()
        assert s.ends == ["error BUDGET"]
        assert len(s.model.requests) == 4  # one of the parent, three of the child
        ledger = USAGE.of(s.agent.session)
        assert (ledger.own.attempts, ledger.below.attempts, ledger.tree.attempts) == (1, 3, 4)


@pytest.mark.rule("B1", "B2")
async def test_a_child_that_meets_its_parents_budget_fails_its_call_with_the_code() -> None:
    host, _ = budgeted(session=Limits(calls=3))
    async with stage(delegating(1), *working(), tools=[work, subagent()], host=host) as s:
        await s.ask()
        assert s.ends == ["error BUDGET"]
        assert [result.code for result in s.facts(ToolResultAdded)] == ["BUDGET"]
        assert len(s.model.requests) == 3


@pytest.mark.parametrize("calls", [3, 5, 7])
@pytest.mark.rule("B2")
async def test_children_side_by_side_never_exceed_their_parents_calls(calls: int) -> None:
    """Each looks at the budget while the others' requests are under way: what is under way counts."""
    host, _ = budgeted(turn=Limits(calls=calls))

    async def slow() -> Any:
        await settled()
        for chunk in chunks_of(Answer("Done.")):
            yield chunk

    model = ScriptedModel([delegating(6)], default=lambda _: slow())
    async with stage(model=model, tools=[subagent(parallel=True)], host=host) as s:
        await s.ask()
        assert s.ends == ["error BUDGET"]
        assert len(s.model.requests) == calls
        assert USAGE.of(s.agent.session).tree.attempts == calls


@pytest.mark.rule("B2")
async def test_grandchildren_count_at_every_level() -> None:
    host, _ = budgeted()
    child = subagent(max_depth=3)
    async with stage(delegating(1), delegating(1), "Deep.", "Middle.", "Top.", tools=[child], host=host) as s:
        await s.ask()
        assert s.ends == ["completed"]
        ledger = USAGE.of(s.agent.session)
        assert (ledger.own.attempts, ledger.below.attempts) == (2, 3)


@pytest.mark.rule("B2")
async def test_a_hosts_budget_is_one_for_all_its_agents() -> None:
    host, warned = budgeted(host=Limits(calls=2), warn_at=0.5)
    async with stage("a", "b", "c", host=host) as s:
        other = (await host.agents.create(agent_options=s.agent.options)).agent
        await s.ask("a")
        assert [reason((await other.ask(text)).reason) for text in ("b", "c")] == ["completed", "error BUDGET"]
        await s.ask("d")
        assert s.ends == ["completed", "error BUDGET"]
        assert [(one.account, one.limit, one.amount) for one in warned] == [("host", "calls", 1)]


# --- what a log says --------------------------------------------------------------------------------------------------


async def resumed(store: MemoryStore, name: str, *script: Any, **given: Any) -> tuple[list[str], list[BudgetWarning]]:
    """Resume a session under budgets and ask once; gives how its turns ended, and what was warned of."""
    host, warned = Host(store=store), list[BudgetWarning]()
    Budgets(**given).install(host)
    host.on(BUDGET_WARNING, warned.append)
    async with host:
        host.models.register("scripted", ScriptedModel(script))
        agent = (await host.agents.resume(name)).agent
        await agent.ask("more")
        ends = [entry.data.reason for entry in agent.session.events if isinstance(entry.data, TurnEnd)]
    return [reason(end) for end in ends], warned


async def stored(store: MemoryStore, *script: Any, prompts: int = 1, **given: Any) -> list[BudgetWarning]:
    """Store a session ``s`` of some turns; gives what was warned of."""
    host, warned = Host(store=store), list[BudgetWarning]()
    Budgets(**given).install(host)
    host.on(BUDGET_WARNING, warned.append)
    async with host:
        host.models.register("scripted", ScriptedModel(script))
        host.tools.register(work)
        host.tools.register(subagent())
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        for number in range(prompts):
            await handle.agent.ask(f"prompt {number}")
    return warned


@pytest.mark.rule("B2")
async def test_a_resumed_session_has_spent_what_its_log_says() -> None:
    store = MemoryStore()
    await stored(store, "a", delegating(1), "child", "b", prompts=2)
    assert (await resumed(store, "s", "c", session=Limits(calls=5)))[0][2:] == ["completed"]
    ends, _ = await resumed(store, "s", "c", session=Limits(calls=5))
    assert ends[3:] == ["error BUDGET"]
    ends, _ = await resumed(store, "s", "c", session=Limits(calls=6))
    assert ends[4:] == ["completed"]


@pytest.mark.rule("B2")
async def test_a_fork_has_spent_nothing_of_what_it_inherited() -> None:
    store = MemoryStore()
    await stored(store, "a", "b", prompts=2)
    await store.fork("s", "t", None)
    ends, _ = await resumed(store, "t", "c", "d", session=Limits(calls=1))
    assert ends[-1] == "completed"
    ends, _ = await resumed(store, "t", "c", "d", session=Limits(calls=1))
    assert ends[-1] == "error BUDGET"


@pytest.mark.rule("B2")
async def test_the_time_between_a_crash_and_the_resume_is_not_spent() -> None:
    week, now = 7 * 24 * 3_600_000, 1_000_000
    data = [TurnStart(1), StepStart(1, 1), TurnEnd(1, Interrupted()), TurnStart(2), TurnEnd(2, Completed())]
    times = [now, now + 2_000, now + week, now + week, now + week + 3_000]
    events = [Event("", seq, time, one) for seq, (time, one) in enumerate(zip(times, data, strict=True))]
    assert USAGE.over(events).seconds == 5.0


@pytest.mark.rule("B2")
async def test_a_resumed_session_has_used_the_time_of_its_turns(autojump_clock: trio.testing.MockClock) -> None:
    store, at = MemoryStore(), [0]

    def later() -> int:
        at[0] += 2_000
        return at[0]

    async with Host(store=store) as host:
        host.models.register("scripted", ScriptedModel(["a"]))
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        handle.agent.session.clock = later
        await handle.agent.ask("a")
        used = USAGE.of(handle.agent.session).seconds
    assert used > 5
    assert (await resumed(store, "s", "b", session=Limits(seconds=used)))[0] == ["completed", "error BUDGET"]
    assert (await resumed(store, "s", "b", session=Limits(seconds=used + 1e6)))[0][2:] == ["completed"]


# --- warnings ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("B3")
async def test_a_warning_is_told_once_at_the_share_and_again_in_the_next_turn() -> None:
    host, warned = budgeted(turn=Limits(calls=5))
    async with stage(*working(5), *working(5), tools=[work], host=host) as s:
        await s.ask("a")
        assert [(one.agent, one.account, one.limit, one.bound, one.amount) for one in warned] == [
            (s.agent, "turn", "calls", 5, 4)
        ]
        await s.ask("b")
        assert [one.amount for one in warned] == [4, 4]
        told = [one.turn for one in s.facts(BudgetNearlySpent)]
        assert told == [1, 2]


@pytest.mark.rule("B3")
async def test_the_share_can_be_chosen_and_warnings_be_left_out() -> None:
    host, warned = budgeted(turn=Limits(calls=4), warn_at=0.25)
    async with stage(*working(2), "Done.", tools=[work], host=host) as s:
        await s.ask()
        assert [one.amount for one in warned] == [1]
    host, warned = budgeted(turn=Limits(calls=1), warn_at=None)
    async with stage("Done.", host=host) as s:
        await s.ask()
        assert (warned, s.facts(BudgetNearlySpent)) == ([], [])


@pytest.mark.rule("B3")
async def test_what_was_warned_of_is_not_told_again_after_a_resume() -> None:
    store = MemoryStore()
    limits = Limits(calls=10)
    warned = await stored(store, *"abcdefgh", prompts=8, session=limits)
    assert [one.amount for one in warned] == [8]
    assert (await resumed(store, "s", "i", session=limits))[1] == []
    assert [one.bound for one in (await resumed(store, "s", "j", session=Limits(calls=11)))[1]] == [11]


@pytest.mark.rule("B3", "B2")
async def test_a_parent_is_warned_of_what_its_children_spend() -> None:
    host, warned = budgeted(turn=Limits(calls=3), warn_at=1.0)
    async with stage(delegating(1), "Child.", "Done.", tools=[subagent()], host=host) as s:
        await s.ask()
        assert [(one.agent, one.amount) for one in warned] == [(s.agent, 3)]


# --- how they are given -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{"steps": 0}, {"calls": -1}, {"calls": 1.5}, {"calls": True}, {"cost": 0}])
async def test_a_limit_that_makes_no_sense_is_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match=next(iter(given))):
        Limits(**given)


@pytest.mark.parametrize("given", [{"seconds": float("nan")}, {"seconds": float("inf")}, {"cost": "1"}])
async def test_a_limit_that_is_no_number_is_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match=next(iter(given))):
        Limits(**given)


async def test_a_limit_of_cost_needs_prices_and_a_share_is_a_share() -> None:
    with pytest.raises(MisuseError, match="needs prices"):
        Budgets(turn=Limits(cost=1.0))
    for share in (0, 1.5, -1, "much"):
        with pytest.raises(MisuseError, match="warn_at"):
            Budgets(warn_at=share)  # type: ignore[arg-type]
    with pytest.raises(MisuseError, match="price's input"):
        Price(input=-1, output=1)
    with pytest.raises(MisuseError, match="price's output"):
        Price(input=1, output=float("nan"))


async def test_budgets_that_are_taken_back_hold_nobody() -> None:
    host = Host(checks=True)
    undo = Budgets(turn=Limits(calls=1)).install(host)
    async with stage(*working(2), "Done.", tools=[work], host=host) as s:
        undo()
        undo()
        await s.ask()
        assert s.ends == ["completed"]


async def test_two_budgets_of_one_host_are_both_held_and_note_sub_agents_once() -> None:
    host = Host(checks=True)
    undo = Budgets(turn=Limits(calls=9)).install(host)
    Budgets(turn=Limits(calls=3)).install(host)
    undo()
    async with stage(delegating(1), *working(), tools=[work, subagent()], host=host) as s:
        await s.ask()
        assert s.ends == ["error BUDGET"]
        assert USAGE.of(s.agent.session).tree.attempts == 3
