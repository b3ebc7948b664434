"""Drawn programs under drawn budgets: whatever happens, limits hold, logs are whole and sums are those of their parts."""

import random
from typing import Any

import pytest
import trio

from tests.hosts import OPTIONS
from tests.invariants import check_invariants
from treadle import Agent, Answer, Call, Failure, Host, MemoryStore, ScriptedModel, subagent, tool
from treadle.extensions.budgets import BudgetNearlySpent, Budgets, Limits, accounts, budgets
from treadle.extensions.budgets.accounts import Accounts
from treadle.extensions.usage import USAGE, Charge, Price, UsageLedger, sub_agents
from treadle.hooks import AGENT_CREATED
from treadle.models import RetryPolicy, Usage, joined_usage
from treadle.session import AssistantAttempt, AssistantMessageAdded, Projection, ToolResultAdded, TurnEnd

PRICES = {"m": Price(input=1.0, output=2.0)}
ATTEMPTS = (AssistantMessageAdded, AssistantAttempt)


@tool
async def work(seconds: float) -> str:
    """Works for some time."""
    await trio.sleep(seconds)
    return "worked"


def drawn_limits(chance: random.Random) -> dict[str, Limits]:
    def limits() -> Limits:
        names = chance.sample(["steps", "calls", "input_tokens", "output_tokens", "cost", "seconds"], 2)
        most = {"steps": 6, "calls": 8, "input_tokens": 600, "output_tokens": 120, "cost": 0.001, "seconds": 20}
        return Limits(
            **{name: type(most[name])(most[name] * chance.choice([0.5, 1, 2])) or most[name] for name in names}
        )

    return {name: limits() for name in chance.sample(["turn", "session", "host"], 2)}


def drawn_answer(chance: random.Random) -> Any:
    usage = Usage(chance.randrange(20, 120), chance.randrange(1, 20)) if chance.random() < 0.6 else None
    roll = chance.random()
    if roll < 0.2:
        return Failure("busy", "SERVER")
    if roll < 0.45:
        calls = [Call("work", {"seconds": chance.choice([0, 0.5, 4])}) for _ in range(chance.randrange(1, 4))]
        return Answer("Well.", calls=calls, usage=usage)
    if roll < 0.6:
        return Answer(calls=[Call("subagent", {"prompt": "job"}) for _ in range(chance.randrange(1, 4))], usage=usage)
    return Answer("word " * chance.randrange(1, 60), usage=usage)


async def live(agent: Agent, chance: random.Random) -> None:
    for number in range(4):
        agent.followup(f"prompt {number}")
        if chance.random() < 0.4:
            await trio.sleep(chance.random() * 8)
            agent.steer("and this")
        if chance.random() < 0.3:
            await trio.sleep(chance.random() * 8)
            agent.cancel(keep_inbox=chance.random() < 0.5)
        await agent.when_idle()


def check(agents: list[Agent], limits: dict[str, Limits]) -> None:
    for agent in agents:
        session = agent.session
        used = USAGE.of(session)
        own = [entry.data for entry in session.events if isinstance(entry.data, ATTEMPTS)]
        assert used.own.attempts == len(own)
        assert used.own.usage == joined_usage(*[one.usage for one in own])
        below = [one for one in agents if one is not agent and stands_below(one, agent)]
        assert used.below.attempts == sum([USAGE.of(one.session).own.attempts for one in below])
        assert used.below.usage == joined_usage(*[USAGE.of(one.session).own.usage for one in below])
        bound = limits.get("session", Limits())
        assert bound.calls is None or used.tree.attempts <= bound.calls
        assert bound.steps is None or used.tree.steps <= bound.steps
        check_turns(agent, limits.get("turn", Limits()))
        check_warnings(agent)
        check_invariants(session)
    bound = limits.get("host", Limits())
    total = sum([USAGE.of(agent.session).own.attempts for agent in agents])
    assert bound.calls is None or total <= bound.calls


def stands_below(one: Agent, above: Agent) -> bool:
    return one.parent is not None and (one.parent is above or stands_below(one.parent, above))


def check_turns(agent: Agent, bound: Limits) -> None:
    counts = USAGE.over([])
    results, calls = 0, 0
    for entry in agent.session.events:
        counts.take(entry)
        results += isinstance(entry.data, ToolResultAdded)
        calls += len(entry.data.message.calls) if isinstance(entry.data, AssistantMessageAdded) else 0
        if isinstance(entry.data, TurnEnd):
            assert results == calls
            assert bound.calls is None or counts.whole_turn.attempts <= bound.calls
            assert bound.steps is None or counts.whole_turn.steps <= bound.steps


def check_warnings(agent: Agent) -> None:
    """Each is told once, of a turn or a session; a host's are told once per run."""
    facts = [entry.data for entry in agent.session.events]
    told = [one for one in facts if isinstance(one, BudgetNearlySpent) and one.account != "host"]
    which = [(one.account, one.limit, one.turn if one.account == "turn" else 0) for one in told]
    assert len(which) == len(set(which))


async def run(seed: int) -> int:
    """Run one program, twice on one session; returns how many of the root's turns a budget ended."""
    chance = random.Random(seed)
    limits: dict[str, Any] = drawn_limits(chance)
    store = MemoryStore()
    policy = RetryPolicy(base_delay=0.1, jitter=0.0)
    ends: list[str] = []
    for again in (False, True):
        script = [drawn_answer(chance) for _ in range(30)]
        model = ScriptedModel(script, pace=chance.choice([0, 0.05]), retry_policy=policy)
        agents: list[Agent] = []
        async with Host(checks=True, store=store) as host:
            host.models.register("scripted", model)
            for one in (work, subagent(parallel=True, max_depth=2)):
                host.tools.register(one)
            Budgets(prices=PRICES, **limits).install(host)
            host.on(AGENT_CREATED, lambda made, agents=agents: agents.append(made.agent))
            made = host.agents.resume("s") if again else host.agents.create(session_id="s", agent_options=OPTIONS)
            agent = (await made).agent
            before = USAGE.of(agent.session).tree.attempts
            await live(agent, chance)
            if again:
                check_turns(agent, limits.get("turn", Limits()))
                check_warnings(agent)
                check_invariants(agent.session)
                calls = limits.get("session", Limits()).calls
                assert calls is None or USAGE.of(agent.session).tree.attempts <= max(calls, before)
            else:
                check(agents, limits)
            ends = [str(entry.data.reason) for entry in agent.session.events if isinstance(entry.data, TurnEnd)]
    return sum(["BUDGET" in end for end in ends])


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.rule("B1", "B2", "B4", "N1")
async def test_under_any_program_limits_hold_and_sums_add_up(seed: int, autojump_clock: trio.testing.MockClock) -> None:
    await run(seed)


async def test_budgets_are_reached_in_such_programs(autojump_clock: trio.testing.MockClock) -> None:
    assert len([seed for seed in range(100, 110) if await run(seed)]) >= 5


# --- faults -----------------------------------------------------------------------------------------------------------


def counts_no(which: str) -> Any:
    """Attempts of one kind are not counted."""
    whole = UsageLedger._charge

    def charge(ledger: UsageLedger, given: Charge) -> None:
        if given.outcome != which:
            whole(ledger, given)
        else:
            ledger.last = given

    return charge


def one_less(accounts: Accounts, account: Any) -> dict[str, float]:
    """A budget is looked at one call too late."""
    found = AMOUNTS(accounts, account)
    return {name: amount - (name in ("calls", "steps")) for name, amount in found.items()}


AMOUNTS = Accounts.amounts
FAULTS: dict[str, tuple[Any, str, Any]] = {
    "failed attempts, and so their retries, are not counted": (UsageLedger, "_charge", counts_no("failed")),
    "interrupted attempts are not counted": (UsageLedger, "_charge", counts_no("interrupted")),
    "sub-agents are not counted": (sub_agents, "_note", lambda told: None),
    "a limit is met one too late": (Accounts, "amounts", one_less),
    "what is under way does not count": (accounts, "_below", lambda agent, account: False),
    "a warning is told with each attempt": (budgets, "TOLD", Projection("none", lambda: set[Any](), lambda s, e: s)),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_planted_fault_is_found(
    fault: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    owner, name, planted = FAULTS[fault]
    monkeypatch.setattr(owner, name, planted)
    for seed in range(60):
        try:
            await run(seed)
        except AssertionError:
            return
    pytest.fail(f"no program found that {fault}")
