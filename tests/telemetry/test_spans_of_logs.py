"""The spans of a log equal the log: count, nesting, times, tokens; live and after the fact alike."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from tests.telemetry.watching import Tree, afterwards, seen, tree_of, watch, watched_host
from treadle import Aborted, Event, Session, SessionHeader
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    InboxSpliced,
    StepEnd,
    StepStart,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
)
from treadle_adapters.traces import Content, Fold, Span, replay
from treadle_adapters.traces.spans import SILENT
from treadle_diagrams import read_session
from treadle_specs.rig.scripts import SCRIPTS, play, prepared, record

Log = tuple[SessionHeader, list[Event]]
FORMAT_1 = Path(__file__).parents[1] / "session" / "logs" / "format-1.jsonl"
NAMES = [*SCRIPTS, "format-1"]


@pytest.fixture(scope="module")
def logs() -> dict[str, Log]:
    """Every session that is recorded in the repository."""
    logging.disable(logging.CRITICAL)
    try:
        recorded = {name: record(script) for name, script in SCRIPTS.items()}
    finally:
        logging.disable(logging.NOTSET)
    session = read_session(FORMAT_1)
    return recorded | {"format-1": (session.header, list(session.events))}


def own(header: SessionHeader, events: Sequence[Event]) -> list[Event]:
    """What a session did itself."""
    return list(events[header.inherited :])


@pytest.mark.parametrize("name", NAMES)
def test_there_are_as_many_spans_of_each_kind_as_the_log_tells(name: str, logs: dict[str, Log]) -> None:
    header, events = logs[name]
    tree = tree_of(header, events)
    told = [type(entry.data) for entry in own(header, events)]
    aborted = [
        entry
        for entry in own(header, events)
        if isinstance(entry.data, TurnEnd) and isinstance(entry.data.reason, Aborted)
    ]
    assert len(tree.of("invoke_agent")) == len(tree.of("turn")) == told.count(TurnStart)
    assert len(tree.of("step")) == told.count(StepStart)
    assert len(tree.of("chat")) == told.count(AssistantMessageAdded) + told.count(AssistantAttempt)
    assert len(tree.of("execute_tool")) == told.count(ToolCallStarted)
    assert len(tree.of("convergence")) == len(aborted)
    assert len(tree.ended) == len(tree.begun)


@pytest.mark.parametrize("name", NAMES)
def test_they_are_nested_and_timed_as_the_log_tells(name: str, logs: dict[str, Log]) -> None:
    header, events = logs[name]
    tree = tree_of(header, events)
    parents = {"turn": "invoke_agent", "step": "turn", "convergence": "turn", "chat": "step", "execute_tool": "step"}
    for span in tree.begun:
        assert (span.parent.kind if span.parent else None) == parents.get(span.kind)
        assert span.end is not None
        assert span.begin <= span.end
        if span.parent is not None:
            assert span.parent.begin <= span.begin
            assert span.end <= (span.parent.end or 0)
    check_times(tree, own(header, events))


def check_times(tree: Tree, events: list[Event]) -> None:
    """Turns, steps and calls begin and end with their events, attempts end with theirs."""

    def times(kind: type) -> list[int]:
        return [entry.time for entry in events if type(entry.data) is kind]

    assert [span.begin for span in tree.of("turn")] == times(TurnStart)
    assert [span.end for span in tree.of("turn")] == times(TurnEnd)
    assert [span.begin for span in tree.of("step")] == times(StepStart)
    assert [span.end for span in tree.of("step")] == times(StepEnd)
    assert [span.begin for span in tree.of("execute_tool")] == times(ToolCallStarted)
    ends = {entry.data.call_id: entry.time for entry in events if isinstance(entry.data, ToolResultAdded)}
    for span in tree.of("execute_tool"):
        assert span.end == ends[str(span.attributes["gen_ai.tool.call.id"])]
    attempts = [entry for entry in events if isinstance(entry.data, (AssistantMessageAdded, AssistantAttempt))]
    assert [span.end for span in tree.of("chat")] == [entry.time for entry in attempts]
    for span, entry in zip(tree.of("chat"), attempts, strict=True):
        before = [one for one in events if one.seq < entry.seq and not isinstance(one.data, AssistantMessageAdded)]
        assert span.begin <= entry.time
        assert span.begin in {one.time for one in before}


@pytest.mark.parametrize("name", NAMES)
def test_tokens_and_reasons_are_those_of_the_log(name: str, logs: dict[str, Log]) -> None:
    header, events = logs[name]
    tree = tree_of(header, events)
    attempts = [
        entry.data for entry in own(header, events) if isinstance(entry.data, (AssistantMessageAdded, AssistantAttempt))
    ]
    for span, data in zip(tree.of("chat"), attempts, strict=True):
        usage = data.usage
        assert span.attributes.get("gen_ai.usage.input_tokens") == (usage.input_tokens if usage else None)
        assert span.attributes.get("gen_ai.usage.output_tokens") == (usage.output_tokens if usage else None)
        assert (span.error == "interrupted") == data.interrupted
    reasons = [
        msgspec.to_builtins(entry.data.reason)["kind"]
        for entry in own(header, events)
        if isinstance(entry.data, TurnEnd)
    ]
    assert [span.attributes["treadle.turn.end"] for span in tree.of("turn")] == reasons


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_live_agent_has_the_spans_that_its_log_has_after_the_fact(name: str) -> None:
    """With their ids, names, times, attributes and content; but who sent a message is known only live."""
    content = Content()

    async def live() -> tuple[SessionHeader, list[Event]]:
        async with watched_host(given) as host:
            prepared(host, SCRIPTS[name])
            handle = await play(SCRIPTS[name], host, f"script-{name}")
            return handle.agent.session.header, list(handle.agent.session.events)

    given = watch(content=content)
    header, events = trio.run(live, clock=MockClock(autojump_threshold=0))
    after = afterwards(header, events, content)
    assert seen(given.spans) == seen(after.spans)
    assert after.spans
    ids = {span.context.span_id for span in given.spans if span.context and span.name not in ("maintenance", "flush")}
    assert ids == {span.context.span_id for span in after.spans if span.context}


@pytest.mark.parametrize("name", SCRIPTS)
def test_of_every_beginning_of_a_log_all_spans_end(name: str, logs: dict[str, Log]) -> None:
    header, events = logs[name]
    for count in range(len(events) + 1):
        tree = tree_of(header, events[:count])
        assert len(tree.ended) == len(tree.begun)
        assert all([span.end is not None and span.begin <= span.end for span in tree.begun])


def test_times_go_on_where_the_clock_was_set_back(logs: dict[str, Log]) -> None:
    header, events = logs["several-steps"]
    half = len(events) // 2
    back = [msgspec.structs.replace(entry, time=entry.time - 3_600_000) for entry in events[half:]]
    tree = tree_of(header, [*events[:half], *back])
    assert all([0 <= (span.end or 0) - span.begin < 60_000 for span in tree.begun])


def test_an_invocation_begins_when_its_prompt_was_accepted_and_its_turn_when_that_is_claimed(
    logs: dict[str, Log],
) -> None:
    """Also of one that waited behind other turns; what rides along with it may have waited longer."""
    header, events = logs["queued-messages"]
    waits: list[float] = []

    class Claims(Tree):
        def claimed(self, span: Span, waited: float) -> None:
            waits.append(waited)

    tree = Claims()
    spread = [msgspec.structs.replace(entry, time=events[0].time + 1_000 * entry.seq) for entry in events]
    replay(header, spread, tree)
    accepted = {
        message.id: entry.time
        for entry in spread
        if isinstance(entry.data, InboxSpliced) and entry.data.target == "next-turn"
        for message in entry.data.inserted
    }
    entered = [entry.data.accepted for entry in spread if isinstance(entry.data, StepStart) and entry.data.step == 1]
    roots = tree.of("invoke_agent")
    assert [root.begin for root in roots] == [accepted[one] for ids in entered for one in ids if one in accepted]
    assert any([turn.begin > root.begin for turn, root in zip(tree.of("turn"), roots, strict=True)])
    assert len(waits) == sum([len(ids) for ids in entered])
    assert max(waits) >= 1.0


def test_what_a_fork_inherited_is_its_parent_s_and_its_first_turn_is_linked_to_it(logs: dict[str, Log]) -> None:
    from treadle.session import fork

    header, events = logs["plain-answers"]
    forked, copies = fork(header, events, "the-fork")
    assert tree_of(forked, copies).begun == []
    grown = [*copies, *[msgspec.structs.replace(one, seq=one.seq + len(copies)) for one in events[:8]]]
    (first, *_) = tree_of(forked, grown).of("invoke_agent")
    last = tree_of(header, events).of("invoke_agent")[-1]
    assert [(link.ref, link.why) for link in first.links] == [(last.ref, "fork")]


async def test_a_resumed_session_is_linked_to_the_turn_before(tmp_path: Path) -> None:
    from treadle import AgentOptions, ScriptedModel
    from treadle_adapters.stores.jsonl import JsonlStore

    given = watch()
    options = AgentOptions(provider="p", model="m")
    for number in range(2):
        async with JsonlStore(tmp_path) as store, watched_host(given, store=store) as host:
            host.models.register("p", ScriptedModel(["yes"]))
            if number:
                handle = await host.agents.resume("one", agent_options=options)
            else:
                handle = await host.agents.create(session_id="one", agent_options=options)
            handle.agent.followup("hello")
            await handle.agent.when_idle()
    first, second = [span for span in given.spans if span.name == "invoke_agent"]
    assert first.context is not None
    assert not first.links
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert dict(second.links[0].attributes or {}) == {"treadle.link": "resume"}
    flushes = [span for span in given.spans if span.name == "flush"]
    assert len(flushes) == 2
    assert [span.parent.span_id for span in flushes if span.parent] == [
        span.context.span_id for span in (first, second) if span.context
    ]


@pytest.mark.parametrize("ids", [True, False])
async def test_a_fork_that_goes_on_is_linked_to_the_turn_it_goes_on_from(ids: bool, tmp_path: Path) -> None:
    """Within a process also where ids are random."""
    from treadle import AgentOptions, ScriptedModel
    from treadle_adapters.stores.jsonl import JsonlStore

    given = watch(ids=ids)
    options = AgentOptions(provider="p", model="m")
    async with JsonlStore(tmp_path) as store, watched_host(given, store=store) as host:
        host.models.register("p", ScriptedModel(["yes", "yes"]))
        handle = await host.agents.create(session_id="one", agent_options=options)
        handle.agent.followup("hello")
        await handle.agent.when_idle()
        await store.fork("one", "two")
        forked = await host.agents.resume("two", agent_options=options)
        forked.agent.followup("hello again")
        await forked.agent.when_idle()
    first, second = [span for span in given.spans if span.name == "invoke_agent"]
    assert first.context is not None
    assert [(link.context.span_id, dict(link.attributes or {})) for link in second.links] == [
        (first.context.span_id, {"treadle.link": "fork"})
    ]
    assert (second.attributes or {})["treadle.parent.session"] == "one"


def test_telemetry_knows_no_sdk_and_no_exporter() -> None:
    """The extra is the API alone."""
    import treadle_adapters

    folder = Path(treadle_adapters.__file__).parent
    for module in [*folder.glob("telemetry/*.py"), *folder.glob("traces/*.py")]:
        text = module.read_text(encoding="utf-8")
        assert "opentelemetry.sdk" not in text
        assert "opentelemetry.exporter" not in text


@pytest.mark.rule("S11")
def test_a_fold_that_is_primed_with_a_window_goes_on_as_one_that_took_everything() -> None:
    header, events = record(SCRIPTS["one-tool"])
    whole, window = Fold(header, SILENT, Content()), Fold(header, SILENT, Content())
    session = Session(header, events)
    whole.prime(events)
    window.prime(events[len(events) // 2 :], len(events) // 2, session.surface)
    assert window.taken == whole.taken == len(events)
    assert window._surface is not None
    assert window._surface.messages == list(session.history())
    assert window._surface.messages is not session.surface.messages
    assert (window.root, window.turn, window.calls) == (None, None, {})
