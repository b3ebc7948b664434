"""Old history gives way to summaries (contract §18)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from tests.extensions.windowed import Windowed
from tests.stage import Gate, Stage, note, settled, stage, talk
from treadle import (
    Agent,
    AgentBusy,
    AgentOptions,
    Answer,
    AssistantMessage,
    Call,
    Completed,
    EndReason,
    Errored,
    Failure,
    Host,
    InvalidMessage,
    MemoryStore,
    Message,
    MisuseError,
    ModelRequest,
    ScriptedModel,
    Session,
    State,
    UserMessage,
    message,
    subagent,
    tool,
)
from treadle.agent import Compacted
from treadle.asyncio import Bridge
from treadle.errors import CompactionFailed, ConfigError, MaintenanceCancelled
from treadle.extensions.compaction import (
    COMPACTION,
    Compaction,
    CompactionMoment,
    Summary,
    SummaryJob,
    SummarySource,
    declared_compaction,
)
from treadle.hooks import PRE_STEP, REQUEST_ERROR, Enter, Retry, Scope
from treadle.models import HookSource, RetryPolicy, Text
from treadle.session import Replace, UserMessageAdded, encode_event
from treadle.words.messages import check_user_message

LONG = "word " * 200
"""About 254 tokens."""


def says(request: ModelRequest) -> str:
    """An answer that tells what was asked last, and is long."""
    return f"answer to {request.messages[-1].text[:20]} {LONG}"


def compacting(**options: Any) -> Host:
    host = Host(checks=True)
    Compaction(**options).install(host)
    return host


def shown(s: Stage) -> list[str]:
    """The history, a word for each message."""
    told: list[str] = []
    for one in s.agent.session.history():
        if isinstance(one, UserMessage) and isinstance(one.source, SummarySource):
            told.append(f"summary of {one.source.replaced}")
        else:
            told.append(one.text.split(" word")[0])
    return told


def replacements(agent: Agent) -> list[Any]:
    return [entry for entry in agent.session.events if isinstance(entry.surface_op, Replace)]


async def ask(s: Stage, text: str) -> EndReason | None:
    """Send a text, and wait until the agent is idle."""
    s.agent.followup(text)
    return await s.agent.when_idle()


async def short(job: SummaryJob) -> str:
    return f"{len(job.messages)} messages"


@pytest.mark.rule("Z1", "Z2")
async def test_by_hand_all_but_the_last_three_turns_gives_way_to_one_summary_in_one_event() -> None:
    moments: list[CompactionMoment] = []
    async with stage(host=compacting(summarize=short)) as s:
        s.host.on(COMPACTION, moments.append)
        for number in range(5):
            await ask(s, f"q{number}")
        done = await s.agent.compact()
        assert shown(s) == ["summary of 4", "q2", "Done.", "q3", "Done.", "q4", "Done."]
        (entry,) = replacements(s.agent)
        assert (done.replaced, done.events) == (4, (entry.seq,))
        source = entry.data.message.source
        assert isinstance(source, SummarySource)
        assert (source.why, source.replaced, source.provider) == ("hand", 4, None)
        assert entry.data.message.text.endswith("4 messages")
        assert [(one.phase, one.why) for one in moments] == [("started", "hand"), ("ended", "hand")]
        assert moments[-1].result == done
        await ask(s, "q5")
        assert s.requests[-1][0].endswith("4 messages")
        assert s.ends == ["completed"] * 6


@pytest.mark.rule("Z1")
async def test_without_a_compaction_the_call_says_how_to_install_one() -> None:
    async with stage() as s:
        with pytest.raises(MisuseError, match=r"Compaction\(\)\.install\(host\)"):
            s.agent.compact()


@pytest.mark.rule("Z1")
async def test_where_nothing_is_old_nothing_is_replaced_and_nobody_is_asked() -> None:
    asked: list[SummaryJob] = []
    async with stage(host=compacting(summarize=lambda job: asked.append(job) or "x")) as s:
        for number in range(3):
            await ask(s, f"q{number}")
        before = len(s.agent.session)
        assert await s.agent.compact() == Compacted(0, *[(await s.agent.compact()).before] * 2)
        assert (len(s.agent.session), asked) == (before, [])


@pytest.mark.rule("Z1", "M1")
async def test_it_is_claimed_in_the_call_from_true_idle_only_and_one_under_way_is_joined() -> None:
    gate = Gate()

    async def waits(job: SummaryJob) -> str:
        await gate.wait()
        return "waited"

    async with stage("a", "b", talk("c", inner := Gate()), host=compacting(summarize=waits, keep_turns=0)) as s:
        await ask(s, "q")
        running = s.agent.compact()
        assert s.agent.state is State.MAINTENANCE
        assert s.agent.compact() is running
        with pytest.raises(AgentBusy):
            s.agent.compact("the names")
        await gate.reached()
        s.agent.followup(note("meanwhile"))  # it waits, and kills nothing (M2)
        await settled()
        assert s.agent.state is State.MAINTENANCE
        gate.open()
        assert (await running).replaced == 2
        await s.agent.when_idle()
        assert shown(s) == ["summary of 2", "meanwhile", "b"]
        s.agent.followup(note("open"))
        await inner.reached()
        with pytest.raises(AgentBusy):
            s.agent.compact()
        inner.open()


@pytest.mark.rule("Z2")
async def test_pinned_messages_the_system_prompt_and_injected_contexts_are_kept_as_they_are() -> None:
    def keeps(one: Message) -> bool:
        return isinstance(one, AssistantMessage) and "magic" in one.text

    def adds(step: Any, proceed: Any) -> Any:
        return Enter((*step.messages, message(f"hint {step.turn}", source=HookSource("hints"))))

    async with stage(
        "a", "the magic spell", "c", "d", "e", host=compacting(summarize=short, keep_turns=1, pinned=keeps)
    ) as s:
        s.agent.system_prompt = "be brief"
        s.agent.prompt.context("place", lambda _: "in the kitchen")
        await ask(s, "q1")
        s.agent.scope.on(PRE_STEP, adds)
        await ask(s, "q2")
        s.agent.followup(message("never forget", id="p", pinned=True))
        await s.agent.when_idle()
        s.agent.followup(note("q4"))
        await s.agent.when_idle()
        done = await s.agent.compact()
        assert shown(s) == [
            "be brief", "in the kitchen", "summary of 4", "the magic spell", "never forget", "summary of 2",
            "q4", "hint 4", "d",
        ]  # fmt: skip
        assert done.replaced == 6


@pytest.mark.rule("Z3", "N1")
async def test_a_pinned_result_keeps_its_call_and_the_other_results_of_the_answer() -> None:
    @tool
    async def look(at: str) -> str:
        """Look at something."""
        return f"seen {at}"

    def keeps(one: Message) -> bool:
        return "seen gold" in one.text

    calls = Answer("", calls=(Call("look", {"at": "mud"}, "c1"), Call("look", {"at": "gold"}, "c2")))
    script = [calls, "found", Answer("", calls=(Call("look", {"at": "sky"}, "c3"),)), "blue"]
    async with stage(*script, tools=[look], host=compacting(summarize=short, keep_turns=0, pinned=keeps)) as s:
        await ask(s, "q1")
        await ask(s, "q2")
        await s.agent.compact()
        assert shown(s) == ["summary of 1", "", "seen mud", "seen gold", "summary of 5"]


@pytest.mark.rule("Z1", "Z3")
async def test_a_summary_gives_way_to_the_next_one_and_alone_it_stays() -> None:
    jobs: list[SummaryJob] = []

    def sums(job: SummaryJob) -> str:
        jobs.append(job)
        return f"sum {len(jobs)}"

    async with stage(host=compacting(summarize=sums, keep_turns=1)) as s:
        await ask(s, "q1")
        await ask(s, "q2")
        await s.agent.compact()
        assert (await s.agent.compact()).replaced == 0
        await ask(s, "q3")
        await s.agent.compact()
        assert shown(s) == ["summary of 3", "q3", "Done."]
        assert jobs[1].messages[0].text.endswith("sum 1")
        first, second = replacements(s.agent)
        assert first.seq in second.source_event_seqs


@pytest.mark.rule("Z5")
async def test_between_turns_it_is_compacted_when_a_share_of_the_window_is_full() -> None:
    model = Windowed(4_000, says)
    async with stage(model=model, host=compacting()) as s:
        states: list[str] = []
        s.host.on(COMPACTION, lambda moment: states.append(f"{moment.phase} {moment.why} {s.agent.state.value}"))
        while not model.summed:
            await ask(s, f"q{len(model.asked)} {LONG}")
        assert states == ["started share maintenance", "ended share maintenance"]
        assert model.refused == 0
        assert s.agent.state is State.IDLE
        assert shown(s)[0].startswith("summary of")
        assert len(shown(s)) == 7
        await ask(s, "on")
        assert s.full_log.count("header series") == 1  # what follows shares no head with what was before (Q12)


@pytest.mark.rule("Z5")
async def test_before_a_step_it_is_compacted_when_the_request_would_not_fit() -> None:
    @tool
    async def look(at: int) -> str:
        """Look at something."""
        return "sight " * 300

    def works(request: ModelRequest) -> Any:
        steps = 0
        for one in reversed(request.messages):
            if isinstance(one, UserMessage):
                break
            steps += 1
        return Answer("", calls=(Call("look", {"at": steps}),)) if steps < 12 else "worked"

    model = Windowed(6_000, lambda request: works(request) if "work" in str(request.messages) else says(request))
    async with stage(model=model, tools=[look], host=compacting(between_turns=1.0, keep_turns=1)) as s:
        moments: list[str] = []
        s.host.on(COMPACTION, lambda moment: moments.append(f"{moment.phase} {moment.why} {s.agent.state.value}"))
        for number in range(8):
            await ask(s, f"q{number} {LONG}")
        await ask(s, "work")
        assert "started window admission" in moments
        assert (model.refused, s.ends[-1]) == (0, "completed")
        assert shown(s)[0].startswith("summary of")
        assert [entry for entry in shown(s) if entry.startswith("q7")]


@pytest.mark.rule("Z6")
@pytest.mark.parametrize("told", [True, False])
async def test_a_refused_request_is_made_once_more_after_a_compaction(told: bool) -> None:
    model = Windowed(3_000, says, told=told, reports=False, rate=3.0)
    async with stage(model=model, host=compacting(keep_turns=1)) as s:
        while not model.summed:
            await ask(s, f"q{len(model.asked)} {LONG}")
        assert set(s.ends) == {"completed"}
        assert model.refused == (1 if told else 2)  # where the window is unknown, a request for a summary was, too
        assert replacements(s.agent)[0].data.message.source.why == "refused"


@pytest.mark.rule("Z6")
async def test_a_request_that_is_too_long_even_then_ends_the_turn_with_the_code_and_what_to_do() -> None:
    model = Windowed(600, told=False)
    async with stage(model=model, host=compacting(keep_turns=0, summarize=short)) as s:
        await ask(s, "small")
        end = await ask(s, LONG * 4)
        assert isinstance(end, Errored)
        assert end.failure.code == "CONTEXT_WINDOW_EXCEEDED"
        assert "even after a compaction" in end.failure.message
        assert "larger window" in end.failure.message
        assert (model.refused, len(replacements(s.agent))) == (2, 1)
        end = await ask(s, "again")  # the message that is too long is old now
        assert end is not None
        assert s.ends[-1] == "completed"


@pytest.mark.rule("Z6")
async def test_where_there_is_nothing_to_compact_the_refusal_says_so_and_is_not_repeated() -> None:
    model = Windowed(600)
    async with stage(model=model, host=compacting(summarize=short)) as s:
        end = await ask(s, LONG * 4)
        assert isinstance(end, Errored)
        assert (end.failure.code, model.refused) == ("CONTEXT_WINDOW_EXCEEDED", 1)
        assert "nothing left to compact" in end.failure.message
        assert replacements(s.agent) == []


@pytest.mark.rule("Z6", "H6")
async def test_who_decides_about_a_failure_before_is_followed_and_other_failures_are_left_alone() -> None:
    model = Windowed(5_000, lambda _: Failure("busy", "RATE_LIMIT"))
    async with stage(model=model, host=compacting(summarize=short, keep_turns=0)) as s:
        end = await ask(s, "q")
        assert isinstance(end, Errored)
        assert end.failure.code == "RATE_LIMIT"
        assert replacements(s.agent) == []
    script = ["a", Failure("too long", "CONTEXT_WINDOW_EXCEEDED"), "b"]
    async with stage(*script, host=compacting(summarize=short, keep_turns=0)) as s:
        await ask(s, "q")
        s.host.on(REQUEST_ERROR, lambda failed, proceed: Retry())
        await ask(s, "on")
        assert (s.ends, replacements(s.agent)) == (["completed"] * 2, [])


FAILING: list[Any] = [
    lambda job: 1 / 0,
    lambda job: "",
    lambda job: "  \n",
    lambda job: None,
    lambda job: Summary(""),
    lambda job: 7,
]


@pytest.mark.rule("Z4")
@pytest.mark.parametrize("summarize", FAILING, ids=range(len(FAILING)))
async def test_a_failed_compaction_changes_nothing_and_says_why(summarize: Any) -> None:
    moments: list[CompactionMoment] = []
    async with stage(host=compacting(summarize=summarize, keep_turns=0)) as s:
        s.host.on(COMPACTION, moments.append)
        await ask(s, "q")
        before = list(s.agent.session.events)
        with pytest.raises(CompactionFailed, match="summar"):
            await s.agent.compact()
        assert list(s.agent.session.events) == before
        assert [one.phase for one in moments] == ["started", "failed"]
        assert isinstance(moments[-1].error, CompactionFailed)
        await ask(s, "on")
        assert s.ends == ["completed", "completed"]


@pytest.mark.rule("Z4", "N8")
async def test_one_that_fails_by_itself_is_told_as_an_error_and_not_begun_again_at_once() -> None:
    calls: list[int] = []

    def fails(job: SummaryJob) -> str:
        calls.append(1)
        raise RuntimeError("no summary today")

    model = Windowed(20_000, says)
    async with stage(model=model, host=compacting(summarize=fails, between_turns=0.2)) as s:
        for number in range(10):
            await ask(s, f"q{number} {LONG}")
        assert 1 <= len(calls) < 4
        assert [one.failure.code for one in s.errors] == ["COMPACTION_FAILED"] * len(calls)
        assert replacements(s.agent) == []


@pytest.mark.rule("Z4")
async def test_before_a_step_a_failed_compaction_is_told_and_the_provider_has_the_last_word() -> None:
    def fails(job: SummaryJob) -> str:
        raise RuntimeError("no summary today")

    model = Windowed(2_000, says)
    async with stage(
        model=model, host=compacting(summarize=fails, between_turns=1.0, within_turn=0.3, keep_turns=0)
    ) as s:
        for number in range(3):
            await ask(s, f"q{number} {LONG}")
        assert s.ends == ["completed"] * 3
        assert {one.failure.code for one in s.errors} == {"COMPACTION_FAILED"}
        end = await ask(s, LONG * 4)
        assert isinstance(end, Errored)
        assert end.failure.code == "CONTEXT_WINDOW_EXCEEDED"
        assert "no summary today" in end.failure.message


@pytest.mark.rule("Z4", "M3")
async def test_a_cancelled_compaction_changes_nothing_even_where_the_summary_shields_itself() -> None:
    gate = Gate()

    async def shielded(job: SummaryJob) -> str:
        with trio.CancelScope(shield=True):
            await gate.wait()
        return "too late"

    async with stage(host=compacting(summarize=shielded, keep_turns=0)) as s:
        await ask(s, "q")
        before = list(s.agent.session.events)
        running = s.agent.compact()
        await gate.reached()
        s.agent.cancel()
        gate.open()
        with pytest.raises(MaintenanceCancelled):
            await running
        assert list(s.agent.session.events) == before


@pytest.mark.rule("Z4", "C6")
async def test_a_cancel_during_a_compaction_before_a_step_ends_the_turn_and_changes_no_history() -> None:
    gate = Gate()

    async def waits(job: SummaryJob) -> str:
        await gate.wait()
        return "too late"

    model = Windowed(2_000, says)
    async with stage(
        model=model, host=compacting(summarize=waits, between_turns=1.0, within_turn=0.1, keep_turns=0)
    ) as s:
        await ask(s, f"q {LONG}")
        before = list(s.agent.session.history())
        s.agent.followup(note("next"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert s.ends == ["completed", "aborted user"]
        assert list(s.agent.session.history()) == before


@pytest.mark.rule("Z4", "O4")
async def test_a_disposal_during_a_compaction_changes_no_history_and_ends() -> None:
    gate = Gate()

    async def waits(job: SummaryJob) -> str:
        await gate.wait()
        return "too late"

    async with stage(host=compacting(summarize=waits, keep_turns=0)) as s:
        await ask(s, "q")
        before = list(s.agent.session.events)
        running = s.agent.compact()
        await gate.reached()
        await s.handle.dispose()
        with pytest.raises(MaintenanceCancelled):
            await running
        assert list(s.agent.session.events) == before


@pytest.mark.rule("Z4")
async def test_a_history_that_was_changed_meanwhile_is_left_alone() -> None:
    async with stage(host=Host(checks=True)) as s:

        def meddles(job: SummaryJob) -> str:
            seq = s.agent.session.surface.nodes[0].seq
            s.agent.session.append(UserMessageAdded(note("other")), surface_op=Replace(seq, seq), sources=[seq])
            return "sum"

        Compaction(summarize=meddles, keep_turns=0).install(s.host)
        await ask(s, "q")
        with pytest.raises(CompactionFailed, match="changed meanwhile"):
            await s.agent.compact()
        assert shown(s) == ["other", "Done."]


@pytest.mark.rule("Z4", "X3")
async def test_a_summary_is_cut_at_what_it_may_take_and_says_so() -> None:
    jobs: list[SummaryJob] = []

    def talks(job: SummaryJob) -> str:
        jobs.append(job)
        return "blah \ud800" * 100_000

    async with stage(host=compacting(summarize=talks, keep_turns=0)) as s:
        for _ in range(3):
            s.agent.followup(LONG * 5)
            await s.agent.when_idle()
        await s.agent.compact()
        text = s.agent.session.history()[0].text
        assert text.endswith("[The summary was cut off here.]")
        assert "blah \ufffd" in text
        assert len(text) <= 4 * jobs[0].limit
        assert jobs[0].limit == 1_925 or jobs[0].limit > 500


@pytest.mark.rule("Z5")
async def test_a_turn_that_was_stopped_is_followed_by_no_compaction_of_its_own() -> None:
    gate = Gate()
    model = Windowed(1_000, lambda r: talk(LONG, gate)(r) if "stop" in r.messages[-1].text else says(r))
    async with stage(
        model=model, host=compacting(summarize=short, between_turns=0.4, within_turn=1.0, keep_turns=0)
    ) as s:
        s.agent.followup(f"stop {LONG}")
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert replacements(s.agent) == []
        await ask(s, "on")
        assert len(replacements(s.agent)) == 1


@pytest.mark.rule("Z1")
async def test_an_agent_with_a_compaction_of_its_own_is_compacted_by_that_one_alone() -> None:
    ours: list[str] = []

    def sums(job: SummaryJob) -> str:
        ours.append("agent")
        return "mine"

    async def setup(scope: Scope, agent: Agent) -> None:
        Compaction(summarize=sums, keep_turns=0, between_turns=0.1, window=1_000).install(scope, host.models)

    host = compacting(summarize=lambda job: ours.append("host") or "host's", keep_turns=0, between_turns=0.1)
    async with stage(model=Windowed(1_000, says), host=host, setup=setup) as s:
        await ask(s, "q")
        assert ours == ["agent"]
        with pytest.raises(MisuseError, match=r"models=host\.models"):
            Compaction().install(s.agent.scope)
        with pytest.raises(MisuseError, match="has a compaction already"):
            Compaction().install(s.host)


@pytest.mark.rule("Z1", "O5")
async def test_what_was_installed_can_be_taken_back() -> None:
    async with stage(host=Host(checks=True)) as s:
        undo = Compaction(summarize=short, keep_turns=0).install(s.host)
        undo()
        undo()
        with pytest.raises(MisuseError):
            s.agent.compact()
        Compaction(summarize=short, keep_turns=0).install(s.host)
        await ask(s, "q")
        assert (await s.agent.compact()).replaced == 2


@pytest.mark.rule("Z1")
@pytest.mark.parametrize(
    "wrong",
    [
        {"keep_turns": -1},
        {"keep_turns": True},
        {"between_turns": 0},
        {"within_turn": 1.5},
        {"window": 0},
        {"max_summary_tokens": 0},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match=next(iter(wrong))):
        Compaction(**wrong)


@tool
async def look(at: int) -> str:
    """Look at something."""
    return f"sight {at} " + "sight " * 300


def looks(steps: int) -> Any:
    """A model that looks so many times, then tells."""
    looked = 0

    def answer(request: ModelRequest) -> Any:
        nonlocal looked
        looked += 1
        return Answer(f"look {looked}", calls=(Call("look", {"at": looked}),)) if looked <= steps else "all seen"

    return answer


@pytest.mark.rule("Z2", "Z5")
async def test_one_turn_of_a_hundred_steps_fits_its_prompt_and_its_last_steps_are_kept() -> None:
    model = Windowed(8_000, looks(100))
    async with stage(model=model, tools=[look], host=compacting()) as s:
        assert isinstance(await ask(s, "look around"), Completed)
        assert model.refused == 0
        for number, request in enumerate(model.asked):
            texts = [one.text for one in request.messages]
            assert texts[0] == "look around"
            wanted = [f"look {n}" for n in range(max(1, number - 3), number + 1)]
            assert [text for text in texts if text in wanted] == wanted
        assert len(replacements(s.agent)) > 5


@pytest.mark.rule("Z2", "Z6")
async def test_turns_that_are_kept_in_any_case_end_with_the_refusal() -> None:
    model = Windowed(4_000, looks(100))
    async with stage(model=model, tools=[look], host=compacting(keep_steps=None)) as s:
        end = await ask(s, "look around")
        assert isinstance(end, Errored)
        assert end.failure.code == "CONTEXT_WINDOW_EXCEEDED"
        assert replacements(s.agent) == []


@pytest.mark.rule("Z5")
async def test_a_sub_agent_is_compacted_before_its_steps_only() -> None:
    whys: list[str] = []
    child = Windowed(6_000, looks(20))
    host = compacting(between_turns=0.1)
    host.models.register("child", child)
    host.tools.register(look)
    host.tools.register(subagent(options=AgentOptions(provider="child", model="m")))
    async with stage(Answer("", calls=(Call("subagent", {"prompt": "look"}),)), "done", host=host) as s:
        s.host.on(COMPACTION, lambda moment: whys.append(moment.why))
        await ask(s, "delegate")
        assert set(whys) == {"window"}
        assert "all seen" in "".join(s.results().values())


@pytest.mark.rule("Z5", "P4")
async def test_a_resumed_session_is_compacted_as_it_would_have_been() -> None:
    store = MemoryStore()
    whys: list[str] = []
    async with Host(store=store, checks=True) as host:
        host.models.register("scripted", Windowed(3_000, says))
        handle = await host.agents.create(session_id="s", agent_options=AgentOptions(provider="scripted", model="m"))
        for number in range(4):
            handle.agent.followup(f"q{number} {LONG}")
            await handle.agent.when_idle()
    async with Host(store=store, checks=True) as host:
        host.models.register("scripted", model := Windowed(3_000, says))
        Compaction(keep_turns=1, within_turn=0.6).install(host)
        host.on(COMPACTION, lambda moment: whys.append(f"{moment.phase} {moment.why}"))
        agent = (await host.agents.resume("s")).agent
        agent.followup(f"q5 {LONG}")
        await agent.when_idle()
        assert whys[:2] == ["started window", "ended window"]
        assert model.refused == 0
        history = list(agent.session.history())
    stored = await store.open_read("s")
    assert list(Session(stored.header, stored.events).history()) == history


@pytest.mark.rule("Z1", "L6")
def test_over_the_bridge_it_is_awaited_and_cancelled_as_any_other_call() -> None:
    async def main() -> None:
        host = compacting(summarize=lambda job: "sum", keep_turns=0)
        host.models.register("scripted", ScriptedModel())
        async with asyncio.timeout(20), Bridge(host) as bridge:
            options = AgentOptions(provider="scripted", model="m")
            agent = (await bridge.agents.create(agent_options=options)).agent
            await agent.ask("q")
            done = await agent.compact()
            assert done.replaced == 2
            with pytest.raises(MisuseError, match="UTF-8"):
                await agent.compact("\ud800")

    asyncio.run(main())


@pytest.mark.rule("Z5", "D6")
async def test_steering_that_comes_during_a_compaction_enters_at_the_next_step() -> None:
    gate = Gate()

    async def waits(job: SummaryJob) -> str:
        await gate.wait()
        return "sum"

    model = Windowed(1_200, lambda request: "Done.")
    async with stage(model=model, host=compacting(summarize=waits, keep_turns=0, between_turns=1.0)) as s:
        await ask(s, LONG * 3)
        s.agent.followup(LONG * 2)
        await gate.reached()
        s.agent.steer(note("turn left"))
        gate.open()
        await s.agent.when_idle()
        assert shown(s)[-2:] == ["turn left", "Done."]
        assert s.ends == ["completed", "completed"]


@pytest.mark.rule("D3")
def test_a_message_is_pinned_or_not() -> None:
    assert not message("a").pinned
    assert message("a", pinned=True).pinned is True
    with pytest.raises(InvalidMessage, match="pinned is True or False"):
        check_user_message(UserMessage("a", (Text("a"),), pinned=1))  # type: ignore[arg-type]


@pytest.mark.rule("I9", "Z2")
async def test_an_edit_leaves_a_message_pinned() -> None:
    async with stage("a") as s:
        release = s.agent.reserve_turn_admission()
        s.agent.followup(message("old", id="x", pinned=True))
        s.agent.update_inbox("x", "edit", "new")
        assert [(one.text, one.pinned) for one in s.agent.inbox.next_turn] == [("new", True)]
        assert release is not None
        release()
        await s.agent.when_idle()
        (entry,) = [one for one in s.agent.session.events if isinstance(one.data, UserMessageAdded)]
        assert encode_event(entry).count(b'"pinned":true') == 1


@pytest.mark.rule("Z2", "Q3")
async def test_of_system_prompts_that_changed_the_first_and_the_one_that_holds_are_kept() -> None:
    async with stage(host=compacting(summarize=short, keep_turns=0)) as s:
        for number in range(4):
            s.agent.system_prompt = f"prompt {number}"
            await ask(s, f"q{number}")
        await s.agent.compact()
        assert shown(s) == ["prompt 0", "summary of 6", "prompt 3", "summary of 2"]
        await ask(s, "on")
        s.agent.system_prompt = "prompt 4"
        await ask(s, "and on")
        assert shown(s)[-5:] == ["on", "Done.", "prompt 4", "and on", "Done."]


@pytest.mark.rule("Z1", "O8")
async def test_a_configuration_declares_it(tmp_path: Path) -> None:
    file = tmp_path / "treadle.toml"
    file.write_text('[compaction]\nkeep_turns = 0\nprovider = "scripted"\nmodel = "small"\n')
    host = Host.from_config(file, tables={"compaction": declared_compaction})
    model = Windowed(50_000)
    async with stage(model=model, host=host) as s:
        await ask(s, "q")
        assert (await s.agent.compact()).replaced == 2
        assert model.summed[0].config.model == "small"


@pytest.mark.rule("Z1", "O8")
@pytest.mark.parametrize("wrong", ["keep_turns = -1", "keep_turn = 3", 'window = "big"', "between_turns = 7"])
def test_a_table_that_is_wrong_is_refused_with_file_and_key(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "treadle.toml"
    file.write_text(f"[compaction]\n{wrong}\n")
    with pytest.raises(ConfigError, match=rf"treadle\.toml: \[compaction\]: .*{wrong.partition(' ')[0]}"):
        Host.from_config(file, tables={"compaction": declared_compaction})


@pytest.mark.rule("Z1", "Z5")
async def test_one_that_began_by_itself_is_joined_by_hand_and_none_begins_beside_it() -> None:
    gate = Gate()
    sums: list[SummaryJob] = []

    async def waits(job: SummaryJob) -> str:
        sums.append(job)
        await gate.wait()
        return "sum"

    model = Windowed(1_500, says)
    async with stage(model=model, host=compacting(summarize=waits, keep_turns=0, between_turns=0.3)) as s:
        s.agent.followup(f"q {LONG}")
        await gate.reached()
        assert s.agent.state is State.MAINTENANCE
        first, second = s.agent.compact(), s.agent.compact()
        assert first is second
        with pytest.raises(AgentBusy):
            s.agent.run_maintenance(lambda signal: gate.wait())
        gate.open()
        assert (await first).replaced == 2
        assert len(sums) == 1
        assert (await s.agent.compact()).replaced == 0


@pytest.mark.rule("Z6", "Q6")
async def test_a_refusal_after_a_retry_is_compacted_for_and_each_step_has_its_own(autojump_clock: MockClock) -> None:
    long, busy = Failure("too long", "CONTEXT_WINDOW_EXCEEDED"), Failure("busy", "RATE_LIMIT")
    script = ["a", "b", busy, long, busy, "c", long, "d"]
    model = ScriptedModel(script, retry_policy=RetryPolicy(jitter=0))
    async with stage(model=model, host=compacting(summarize=short, keep_turns=1)) as s:
        for name in ("q1", "q2", "q3", "q4"):
            await ask(s, name)
        assert s.ends == ["completed"] * 4
        assert [entry.data.message.source.why for entry in replacements(s.agent)] == ["refused"] * 2
        assert shown(s)[-2:] == ["q4", "d"]
