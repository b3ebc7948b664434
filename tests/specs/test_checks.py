"""The invariants that are verified while running: every event as it is committed, every request as it is made."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import attrs
import msgspec
import pytest
import trio
from trio.testing import MockClock

from tests.diagrams.logs import compacted
from treadle import AssistantMessage, Event, Host, ModelRequest, Reasoning, Session, Signal, Text, ToolCall
from treadle.checks.history import contribution, difference, unanswered
from treadle.errors import InvariantViolated
from treadle.session import (
    Append,
    AssistantMessageAdded,
    Replace,
    ToolResultAdded,
    TurnEnd,
    UserMessageAdded,
    decode_event,
    encode_event,
)
from treadle.testing import LogMonitor, SessionChecks, check_request
from treadle.words.messages import user_message
from treadle_specs.rig.scripts import SCRIPTS, play, prepared, record


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def session() -> Session:
    header, events = record(SCRIPTS["several-steps"])
    return Session(header, events)


def request_of(session: Session) -> ModelRequest:
    monitor = LogMonitor()
    header = None
    for entry in session.events:
        monitor.take(entry)
        header = entry.data if entry.type == "request/header" else header
    assert header is not None
    return ModelRequest(header.config, session.history(), header.tools, "a9", session.id, Signal())


@pytest.mark.rule("Q1", "N1")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_host_with_checks_runs_every_scripted_session(name: str) -> None:
    async def run() -> None:
        async with Host(checks=True) as host:
            prepared(host, SCRIPTS[name])
            await play(SCRIPTS[name], host, "checked")

    trio.run(run, clock=MockClock(autojump_threshold=0))


@pytest.mark.rule("Q1")
def test_a_request_that_the_log_gives_passes(session: Session) -> None:
    check_request(session, request_of(session))
    SessionChecks(session).check_request(request_of(session))


@pytest.mark.rule("Q1")
@pytest.mark.parametrize("change", ["message", "shorter", "tools", "config"])
def test_a_request_that_differs_from_the_log_is_refused(session: Session, change: str) -> None:
    request = request_of(session)
    messages = list(request.messages)
    match change:
        case "message":
            messages[0] = user_message("another text", "m1")
            request = attrs.evolve(request, messages=messages)
        case "shorter":
            request = attrs.evolve(request, messages=messages[:-1])
        case "tools":
            request = attrs.evolve(request, tools=())
        case _:
            request = attrs.evolve(request, config=msgspec.structs.replace(request.config, model="another"))
    with pytest.raises(InvariantViolated, match="Q1") as refused:
        check_request(session, request)
    assert refused.value.rule == "Q1"


@pytest.mark.rule("N1")
def test_a_request_with_a_call_that_lacks_its_result_is_refused() -> None:
    header, events = record(SCRIPTS["one-tool"])
    asked = next(entry.seq for entry in events if isinstance(entry.data, AssistantMessageAdded))
    session = Session(header, events[: asked + 1])
    with pytest.raises(InvariantViolated, match="N1"):
        check_request(session, request_of(session))


@pytest.mark.rule("T10", "N3")
def test_an_event_that_breaks_a_rule_raises_where_it_is_committed(session: Session) -> None:
    copy = Session(session.header, list(session.events))
    checks = SessionChecks(copy)
    with pytest.raises(InvariantViolated) as refused:
        checks.take(copy.commit(TurnEnd(7, session.events[-1].data.reason)))
    assert (refused.value.rule, refused.value.seq) == ("N3", len(session))


@pytest.mark.rule("S3", "N1")
def test_a_replacement_keeps_pairs_together_and_cites_what_it_shadows(session: Session) -> None:
    events = list(session.events)
    result = next(entry for entry in events if isinstance(entry.data, ToolResultAdded))
    shadow = UserMessageAdded(user_message("a summary", "summary"))
    torn = Event("user/message", len(events), 0, shadow, Replace(result.seq, result.seq), (result.seq,))
    monitor = LogMonitor()
    for entry in events:
        assert not monitor.take(entry)
    assert [breach.rule for breach in monitor.take(torn)] == ["N1"]
    silent = Event("user/message", len(events) + 1, 0, shadow, Replace(0, 0))
    assert "S3" in [breach.rule for breach in monitor.take(silent)]


@pytest.mark.rule("Z1", "Z7")
def test_a_summary_takes_the_place_of_as_many_messages_as_it_says() -> None:
    log = list(compacted())

    def broken(events: list[Event]) -> set[str]:
        monitor = LogMonitor()
        read = [decode_event(encode_event(entry)) for entry in events]
        return {breach.rule for entry in read for breach in monitor.take(entry)} - {"Q2"}  # made by hand, unasked

    assert broken(log) == set()
    place = next(n for n, entry in enumerate(log) if len(entry.source_event_seqs or ()) > 1)
    message = log[place].data.message
    for wrong, rule in (
        (
            {
                "data": UserMessageAdded(
                    msgspec.structs.replace(message, source=msgspec.structs.replace(message.source, replaced=7))
                )
            },
            "Z7",
        ),
        ({"surface_op": Append(), "source_event_seqs": None}, "Z1"),
    ):
        assert broken([*log[:place], msgspec.structs.replace(log[place], **wrong)]) == {rule}


@pytest.mark.rule("S4", "N5")
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_history_derived_a_second_time_is_the_one_that_is_sent(name: str) -> None:
    header, events = record(SCRIPTS[name])
    session = Session(header, events)
    heard = [message for entry in events if (message := contribution(entry.data)) is not None]
    assert difference(heard, list(session.history())) is None
    assert unanswered(heard) == []


@pytest.mark.rule("S4")
def test_an_empty_answer_says_nothing_to_the_model() -> None:
    assert contribution(AssistantMessageAdded(AssistantMessage((Text(""), Reasoning("hm"))), "a1")) is None
    asks = AssistantMessage((Text(""), ToolCall("c1", "look")))
    assert contribution(AssistantMessageAdded(asks, "a2")) == asks
