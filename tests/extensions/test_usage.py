"""Usage that adds up: every attempt counts, in its turn, its session, and in all that stands above."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from tests.hosts import OPTIONS
from tests.stage import Gate, talk
from treadle import Agent, Answer, Call, Event, Failure, Host, MemoryStore, ScriptedModel, SessionHeader, subagent, tool
from treadle.errors import ConfigError
from treadle.extensions.budgets import Budgets, Limits, declared_budgets
from treadle.extensions.usage import (
    USAGE,
    Price,
    Spent,
    SubAgentUsage,
    UsageLedger,
    count_sub_agents,
    prices_declared,
    read_prices,
)
from treadle.hooks import LLM_STREAM
from treadle.models import SOURCES, RetryPolicy, Source, Text, Usage, UsageReport, UserMessage, joined_usage
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    TurnEnd,
    UserMessageAdded,
    decode_event,
    encode_event,
    encode_header,
    fork,
)
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_adapters.traces import stats_of
from treadle_cli import main

PRICES = {"m": Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)}
FIRST = Usage(input_tokens=100, output_tokens=10, cache_write_tokens=90)
SECOND = Usage(input_tokens=140, output_tokens=20, cache_read_tokens=90, reasoning_tokens=5)
Log = tuple[SessionHeader, list[Event]]
Capture = pytest.CaptureFixture[str]


@tool
def work() -> str:
    """Works."""
    return "worked"


async def lived() -> tuple[Log, Log]:
    """The logs of an agent and its child, in which attempts end in every way there is."""
    gate, reported = Gate(), Gate()
    script = [
        Answer(calls=[Call("work")], usage=FIRST),
        Answer(failure=Failure("busy", "SERVER"), usage=Usage(input_tokens=150)),  # failed, and was charged
        Failure("busy", "SERVER"),  # failed, and nobody knows
        Answer("One.", usage=SECOND),
        talk("Two, but ", UsageReport(Usage(input_tokens=170, output_tokens=3)), reported),  # cut off, and charged
        talk("Three, but ", gate),  # cut off, and nobody knows
        Answer(calls=[Call("subagent", {"prompt": "job"})], usage=Usage(input_tokens=200)),
        Failure("busy", "SERVER"),
        Answer("Child.", usage=Usage(input_tokens=50, output_tokens=5)),
        Answer("Four, cut", finish="max-tokens", usage=Usage(input_tokens=250, output_tokens=8)),
    ]
    model = ScriptedModel(script, retry_policy=RetryPolicy(base_delay=0.001, jitter=0.0))
    children: list[Agent] = []
    async with Host(checks=True) as host:
        host.models.register("scripted", model)
        count_sub_agents(host.scope)
        host.on(LLM_STREAM, lambda asked, follow: children.append(asked.agent) or follow())
        for one in (work, subagent()):
            host.tools.register(one)
        handle = await host.agents.create(session_id="parent", agent_options=OPTIONS)
        agent = handle.agent
        await agent.ask("a")
        for place in (reported, gate):
            agent.followup("b")
            await place.reached()
            agent.cancel()
            await agent.when_idle()
        await agent.ask("c")
        assert not model._script
        child = next(one for one in children if one is not agent)
        logs = [(one.session.header, list(one.session.events)) for one in (agent, child)]
    return logs[0], logs[1]


def attempts(events: list[Event]) -> list[AssistantMessageAdded | AssistantAttempt]:
    return [entry.data for entry in events if isinstance(entry.data, (AssistantMessageAdded, AssistantAttempt))]


@pytest.mark.rule("B4")
async def test_what_a_session_used_is_the_sum_of_its_attempts_failed_and_interrupted_ones_included() -> None:
    (_, events), (_, below) = await lived()
    used = USAGE.over(events)
    assert used.own.usage == joined_usage(*[one.usage for one in attempts(events)])
    assert used.own.usage == Usage(1_010, 41, cache_read_tokens=90, cache_write_tokens=90, reasoning_tokens=5)
    assert (used.own.attempts, used.own.failed, used.own.interrupted, used.own.unreported) == (8, 2, 2, 2)
    assert used.own.steps == 6  # in one of them a model was asked three times
    assert used.below.usage == USAGE.over(below).own.usage == joined_usage(*[one.usage for one in attempts(below)])
    assert (used.below.attempts, used.below.failed, used.below.unreported, used.below.steps) == (2, 1, 1, 1)
    assert used.tree.usage == joined_usage(used.own.usage, used.below.usage)
    assert used.tree.attempts == 10


@pytest.mark.rule("B4")
async def test_turns_add_up_to_their_session_and_each_prefix_to_what_it_holds() -> None:
    (_, events), _ = await lived()
    turns, whole = Spent(), Spent()
    for length in range(len(events) + 1):
        used = USAGE.over(events[:length])
        assert used.own.attempts == len(attempts(events[:length]))
        if length and isinstance(events[length - 1].data, TurnEnd):
            turns, whole = turns.plus(used.turn), whole.plus(used.whole_turn)
    used = USAGE.over(events)
    assert (turns, whole) == (used.own, used.tree)


@pytest.mark.rule("B4", "S9")
async def test_a_log_that_was_stored_and_read_says_the_same() -> None:
    (_, events), _ = await lived()
    again = [decode_event(encode_event(entry)) for entry in events]
    assert USAGE.over(again).tree == USAGE.over(events).tree


@pytest.mark.rule("B4")
async def test_a_sum_that_was_kept_as_json_goes_on_as_if_it_had_not_been() -> None:
    (_, events), _ = await lived()
    for cut in range(0, len(events), 7):
        kept = msgspec.json.encode(USAGE.over(events[:cut]))
        used = msgspec.json.decode(kept, type=UsageLedger)
        for entry in events[cut:]:
            used.take(entry)
        assert used == USAGE.over(events)


@pytest.mark.rule("B4")
async def test_what_a_fork_inherited_was_used_by_its_parent() -> None:
    store = MemoryStore()
    async with Host(store=store) as host:
        host.models.register("scripted", ScriptedModel([Answer("a", usage=FIRST), Answer("b", usage=SECOND)]))
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        await agent.ask("a")
        _, child = fork(agent.session.header, agent.session.events, "t")
        assert USAGE.over(child).own == Spent()
        assert USAGE.of(agent.session).own.usage == FIRST


@pytest.mark.rule("B4")
async def test_every_agent_above_has_each_attempt_once() -> None:
    (_, events), (child, below) = await lived()
    noted = [entry.data for entry in events if isinstance(entry.data, SubAgentUsage)]
    assert [one.attempt_id for one in noted] == [one.attempt_id for one in attempts(below)]
    assert {one.session for one in noted} == {child.id}
    assert all(entry.ignorable for entry in events if isinstance(entry.data, SubAgentUsage))


@SOURCES.register
class Summed(msgspec.Struct, Source, frozen=True, tag_field="kind", tag="usage-test/summed"):
    """Made by a model beside the turns, as a summary is."""

    model: str
    usage: Usage | None = None


@pytest.mark.rule("B2", "B4")
async def test_what_a_model_wrote_beside_the_turns_counts_and_for_those_above_as_well() -> None:
    async def set_up(_: Any, child: Agent) -> None:
        made = UserMessage("summary", (Text("In short."),), Summed("small", Usage(30, 3)))
        child.session.append(UserMessageAdded(made))
        child.session.append(UserMessageAdded(UserMessage("by hand", (Text("In short."),), Summed("small"))))

    async with Host(checks=True) as host:
        host.models.register("scripted", ScriptedModel([Answer(calls=[Call("subagent", {"prompt": "job"})])]))
        Budgets(host=Limits(input_tokens=40), warn_at=None).install(host)
        host.tools.register(subagent())
        agent = (await host.agents.create(agent_options=OPTIONS)).agent
        own = UserMessage("own", (Text("In short."),), Summed("small", Usage(25, 2)))
        agent.session.append(UserMessageAdded(own))
        assert USAGE.of(agent.session).own.reported == {"small": Usage(25, 2)}
        child = (await host.agents.create(agent_options=OPTIONS, parent_agent=agent)).agent
        await set_up(None, child)
        assert USAGE.of(agent.session).below.reported == {"small": Usage(30, 3)}
        assert USAGE.of(agent.session).tree.attempts == 2
        assert "BUDGET" in str((await agent.ask("go")).reason)


def test_a_price_is_of_what_no_cache_held_and_of_what_one_did() -> None:
    price = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)
    usage = Usage(1_000_000, 100_000, cache_read_tokens=600_000, cache_write_tokens=300_000)
    assert price.of(usage) == pytest.approx(0.1 * 3 + 0.6 * 0.3 + 0.3 * 3.75 + 0.1 * 15)
    assert price.of(Usage()) == 0
    spent = Spent(reported={"m": usage, "other": usage})
    assert spent.cost({"m": price}) == price.of(usage)
    assert spent.cost({}) is None
    assert spent.unpriced({"m": price}) == ("other",)
    assert spent.cached == 0.6
    assert Spent(reported={"m": Usage(100)}).cached is None


# --- where it is shown ------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The sessions of a parent and its child, in files."""

    async def keep() -> None:
        for header, events in await lived():
            async with JsonlStore(tmp_path) as store:
                await (await store.create(msgspec.structs.replace(header, cwd="/"), events)).close()

    trio.run(keep)
    (tmp_path / "prices.toml").write_text("[prices.m]\ninput = 3\noutput = 15\ncache_read = 0.3\ncache_write = 3.75\n")
    return tmp_path


def said(capsys: Capture, *words: object) -> tuple[str, str]:
    assert main([str(word) for word in words]) == 0
    told = capsys.readouterr()
    return told.out, told.err


OWN = "8 attempts (2 failed, 2 interrupted, 2 without a report) · tokens: 1,010 in, 41 out, 90 cached (9%), 90 to cache"


@pytest.mark.rule("B4")
def test_show_tells_what_each_turn_and_the_session_used(folder: Path, capsys: Capture) -> None:
    out, _ = said(capsys, "show", folder / "parent.jsonl", "--prices", folder / "prices.toml")
    assert f"session: {OWN}, 5 reasoning · cost" in out
    assert "sub-agents: 2 attempts (1 failed, 1 without a report) · tokens: 50 in, 5 out · cost" in out
    assert "together: 10 attempts" in out
    cost = PRICES["m"].of(Usage(1_010, 41, cache_read_tokens=90, cache_write_tokens=90))
    assert f"cost {cost:.4g}" in out
    assert "4 attempts · tokens: 390 in, 30 out, 90 cached (23%)" in out  # the first turn: a retry of a retry
    assert "sub-agents' tokens: 50 in, 5 out" in out
    plain, _ = said(capsys, "show", folder / "parent.jsonl")
    assert "cost" not in plain
    only, _ = said(capsys, "show", folder / "parent.jsonl", "--turn", 1)
    assert "session:" not in only


def test_show_of_a_session_without_attempts_has_no_sum(tmp_path: Path, capsys: Capture) -> None:
    header = SessionHeader("s", 0, "/")
    (tmp_path / "s.jsonl").write_bytes(encode_header(header) + b"\n")
    assert "session:" not in said(capsys, "show", tmp_path / "s.jsonl")[0]


@pytest.mark.rule("B4")
def test_the_entries_of_show_hold_what_turns_used(folder: Path, capsys: Capture) -> None:
    out, _ = said(capsys, "show", folder / "parent.jsonl", "--json")
    ends = [entry for entry in map(json.loads, out.splitlines()) if entry["kind"] == "turn-end"]
    assert [entry["attempts"] for entry in ends] == [4, 1, 1, 2]
    assert ends[3]["below"] == {"input_tokens": 50, "output_tokens": 5}
    assert ends[3]["by_model"]["m"] == {"input_tokens": 500, "output_tokens": 13}


@pytest.mark.rule("B4")
def test_the_page_tells_the_sum_of_all_attempts(folder: Path, capsys: Capture) -> None:
    said(capsys, "show", folder / "parent.jsonl", "--html", folder / "page.html")
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "8 attempts" in page
    assert "tokens: 1,010 in, 41 out, 90 cached (9%)" in page


@pytest.mark.rule("B4")
def test_sessions_tell_what_each_used_its_sub_agents_included(folder: Path, capsys: Capture) -> None:
    words = ("--session-dir", folder, "--prices", folder / "prices.toml")
    out, _ = said(capsys, "sessions", "list", "--usage", *words)
    rows = {line.split("\t")[0]: line.split("\t")[4:9] for line in out.splitlines()}
    assert rows["parent"][:4] == ["10", "1060", "90", "46"]
    assert float(rows["parent"][4]) == pytest.approx(0.0036, rel=0.1)
    assert sorted(rows.values())[1][:4] == ["2", "50", "0", "5"]
    plain, _ = said(capsys, "sessions", "list", "--session-dir", folder)
    assert all(len(line.split("\t")) == 5 for line in plain.splitlines())
    _, err = said(capsys, "sessions", "show", "parent", *words)
    assert f"used: {OWN}" in err
    assert "with sub-agents: 10 attempts" in err


@pytest.mark.rule("B4")
async def test_stats_of_several_logs_sum_up_their_own_attempts_only() -> None:
    logs = await lived()
    stats = stats_of(logs, PRICES).models["m"]
    usage = joined_usage(*[USAGE.over(events).own.usage for _, events in logs])
    assert (stats.attempts, stats.unreported) == (10, 3)
    assert (stats.input_tokens, stats.output_tokens) == (usage.input_tokens, usage.output_tokens)
    assert (stats.cache_read_tokens, stats.cache_write_tokens) == (90, 90)
    assert stats.cost == pytest.approx(PRICES["m"].of(usage))
    assert stats_of(logs).models["m"].cost is None


def test_stats_print_caches_and_costs(folder: Path, capsys: Capture) -> None:
    out, _ = said(capsys, "stats", folder / "parent.jsonl", "--prices", folder / "prices.toml")
    assert "90 (9%)" in out
    assert "0.003" in out
    out, _ = said(capsys, "stats", folder / "parent.jsonl", "--json")
    assert "prices" not in json.loads(out)
    assert json.loads(out)["models"]["m"]["cost"] is None


# --- what people write ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no table"),
        ("[prices.m]\ninput = 3", "output"),
        ("[prices.m]\ninput = 3\noutput = -1", "not negative"),
        ("[prices.m]\ninput = 3\noutput = nan", "not negative"),
        ("[prices.m]\ninput = 3\noutput = 1\ncached = 1", "cached"),
        ("prices = 3", "prices"),
        ("[prices", "toml"),
    ],
)
def test_a_wrong_table_of_prices_is_refused_with_what_is_wrong(text: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=named):
        read_prices(path)
    with pytest.raises(ConfigError, match="nowhere"):
        read_prices(tmp_path / "nowhere.toml")


BUDGETED = """
[budgets]
warn_at = 0.5
[budgets.turn]
calls = 2
[budgets.session]
cost = 1.5
seconds = 60
[budgets.prices.m]
input = 3
output = 15
"""


@pytest.mark.rule("B1")
async def test_a_configuration_file_declares_budgets(tmp_path: Path) -> None:
    path = tmp_path / "treadle.toml"
    path.write_text(BUDGETED)
    async with Host.from_config(path, tables={"budgets": declared_budgets}) as host:
        host.models.register("scripted", ScriptedModel([Answer(calls=[Call("work")])] * 9))
        host.tools.register(work)
        agent = (await host.agents.create(agent_options=OPTIONS)).agent
        answer = await agent.ask("go")
    assert "the turn's budget of 2 calls is reached" in str(answer.reason)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[budgets.turn]\ncall = 2", "call"),
        ("[budgets.turn]\ncalls = 0", "positive"),
        ("[budgets.turns]\ncalls = 1", "turns"),
        ("[budgets.host]\ncost = 1", "needs prices"),
        ("[budgets]\nwarn_at = 2", "warn_at"),
        ("[budgets.prices.m]\ninput = 1", "output"),
    ],
)
def test_a_wrong_table_of_budgets_is_refused_with_what_is_wrong(text: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "treadle.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=named):
        Host.from_config(path, tables={"budgets": declared_budgets})


def test_prices_are_read_from_a_table_as_from_a_file() -> None:
    assert prices_declared({"m": {"input": 3, "output": 15}}, "here") == {"m": Price(3, 15)}


def test_budgets_say_what_they_limit() -> None:
    assert Limits(calls=3, seconds=1.5).given == {"calls": 3, "seconds": 1.5}
    assert Budgets(turn=Limits(calls=1))


def test_joined_usage_keeps_what_is_absent_absent() -> None:
    assert joined_usage() == joined_usage(None) == Usage()
    both: Any = joined_usage(Usage(1), None, Usage(2, cache_read_tokens=0))
    assert both == Usage(3, cache_read_tokens=0)
