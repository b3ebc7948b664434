"""The transcript tells what happened, in order, and takes nothing back."""

import json
from typing import Any

import pytest

from tests.diagrams.logs import Log, medley, scripted
from treadle import Event, Failure, Session
from treadle.models import Finish, Usage
from treadle.session import Replace
from treadle.words import events as ev
from treadle.words import reasons
from treadle_diagrams.log.entries import plain
from treadle_diagrams.log.transcript import Teller, transcript
from treadle_specs.rig.scripts import SCRIPTS


def told(name: str, kind: str) -> list[Any]:
    return [entry for entry in transcript(scripted(name)) if entry.kind == kind]


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_event_that_enters_the_history_is_told_once(name: str):
    events = scripted(name)
    surface = [entry.seq for entry in events if entry.surface_op is not None]
    shown = [entry.seq for entry in transcript(events) if entry.kind in ("message", "answer", "result", "system")]
    assert shown == surface


@pytest.mark.parametrize("name", SCRIPTS)
def test_telling_event_by_event_gives_what_telling_at_once_gives(name: str):
    teller = Teller()
    assert [entry for event in scripted(name) for entry in teller.take(event)] == transcript(scripted(name))


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_turn_is_opened_and_closed_once_and_what_lies_between_is_its_own(name: str):
    current: int | None = None
    for entry in transcript(scripted(name)):
        if entry.kind == "turn":
            assert current is None
            current = entry.turn
        if current is not None:
            assert entry.turn == current
        if entry.kind == "turn-end":
            current = None


def test_entries_are_plain_json():
    for entry in transcript(medley()):
        shown = plain(entry)
        assert json.loads(json.dumps(shown)) == json.loads(json.dumps(shown))
        assert shown["kind"] == entry.kind


def test_steering_and_injections_are_told_where_they_entered_and_how():
    said = {entry.text: entry for entry in told("queued-messages", "message") + told("steering", "message")}
    assert said["By the way"].way == "injected"
    assert (said["sooner, please"].way, said["sooner, please"].step) == ("steering", 2)
    assert said["one"].way == "prompt"


@pytest.mark.rule("C5")
def test_an_interrupted_answer_is_marked_and_has_what_had_arrived():
    answer = told("cancel-while-streaming", "answer")[0]
    assert answer.interrupted
    assert [part.text for part in answer.parts] == ["Half an answer"]
    assert told("cancel-while-streaming", "turn-end")[0].why == "stopped by the user"


def test_an_answer_has_its_reasoning_its_usage_and_its_turn_the_sum():
    answer, end = told("reasoning-and-usage", "answer")[0], told("reasoning-and-usage", "turn-end")[0]
    assert [part.kind for part in answer.parts] == ["reasoning", "text"]
    assert answer.usage == end.usage == Usage(12, 5, reasoning_tokens=3)


@pytest.mark.rule("C5")
def test_usage_that_nobody_reported_stays_absent_in_the_sum():
    log = Log().open("hi").answer("a", usage=Usage(input_tokens=3)).answer("b", usage=Usage(1, 2)).close()
    end = transcript(log.events)[-1]
    assert end.usage == Usage(4, 2)  # type: ignore[union-attr]
    assert plain(end)["usage"] == {"input_tokens": 4, "output_tokens": 2}


def test_a_result_names_its_tool_and_how_long_it_took():
    log = Log(pace=5).open("hi").answer("well").tool("look", "{}", "a door").close()
    result = next(entry for entry in transcript(log.events) if entry.kind == "result")
    assert (result.name, result.text, result.took) == ("look", "a door", 5)  # type: ignore[union-attr]


@pytest.mark.rule("P4")
def test_a_result_of_a_call_that_was_never_dispatched_still_names_its_tool():
    log = Log().open("hi").answer("well", ("look", "{}"))
    call = log.events[-1].data.message.calls[0].call_id
    log.add(ev.ToolResultAdded(call, (), is_error=True, code="TOOL_NOT_STARTED")).close(reasons.Interrupted())
    result = next(entry for entry in transcript(log.events) if entry.kind == "result")
    assert (result.name, result.took, result.code) == ("look", None, "TOOL_NOT_STARTED")  # type: ignore[union-attr]


def test_a_failed_attempt_tells_its_failure_and_what_had_arrived():
    attempts = told("retried-attempts", "attempt")
    assert [(entry.code, entry.why) for entry in attempts] == [("SERVER", "busy"), ("TRANSPORT", "the line broke")]
    assert [part.text for part in attempts[1].parts] == ["I was about to"]
    assert [entry.attempt for entry in told("retried-attempts", "retry")] == [2, 3]


REASONS = {
    reasons.COMPLETED: "completed",
    reasons.MAX_TOKENS: "cut off at the output limit",
    reasons.Blocked(): "blocked by a hook",
    reasons.Blocked("no secrets"): "blocked: no secrets",
    reasons.Aborted(reasons.ByUser()): "stopped by the user",
    reasons.Aborted(reasons.ByParent()): "stopped by its parent",
    reasons.Aborted(reasons.ByHook("too slow")): "stopped by a hook: too slow",
    reasons.Aborted(reasons.ByDisposal()): "stopped, as the agent was disposed of",
    reasons.Aborted(reasons.OpaqueCause({"kind": "weather"})): "stopped: weather",
    reasons.Errored(Failure("it broke", "SERVER")): "failed: SERVER: it broke",
    reasons.Interrupted(): "broken off: the process ended inside it",
    reasons.OpaqueEndReason({"kind": "eclipse"}): "eclipse",
}


@pytest.mark.rule("T7")
@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: REASONS[reason])
def test_each_way_in_which_a_turn_can_end_has_its_words(reason: reasons.EndReason):
    end = transcript(Log().open("hi").close(reason).events)[-1]
    assert end.why == REASONS[reason]  # type: ignore[union-attr]


@pytest.mark.rule("S3")
def test_an_event_that_takes_the_place_of_others_says_so():
    log = Log().open("hi").answer("yes").close()
    summary = ev.UserMessageAdded(log.open("in short").events[-1].data.message)
    log.events[-1] = Event("user/message", log.events[-1].seq, log.now, summary, Replace(4, 5))
    assert transcript(log.events)[-1].replaces == (4, 5)


@pytest.mark.rule("S2")
def test_an_event_of_a_plugin_is_noted_by_its_type():
    entry = Event("plugin/thing", 0, 1, {"what": "ever"}, ignorable=True)
    assert [(one.kind, one.type) for one in transcript([entry])] == [("note", "plugin/thing")]  # type: ignore[union-attr]


def test_an_answer_that_the_limit_cut_off_says_why_it_ended():
    log = Log().open("hi").answer("this is too lo", finish=Finish("max-tokens")).close(reasons.MAX_TOKENS)
    assert [entry.finish for entry in transcript(log.events) if entry.kind == "answer"] == ["max-tokens"]  # type: ignore[union-attr]


def test_a_session_s_own_events_are_told_as_they_are(tmp_path: Any):
    events = scripted("plain-answers")
    session = Session(ev_header(tmp_path), events)
    assert transcript(session.events) == transcript(events)


def ev_header(folder: Any) -> Any:
    from treadle.session import new_header

    return new_header("told", str(folder))
