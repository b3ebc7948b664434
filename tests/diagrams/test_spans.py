"""What took time, and which state the agent was in: the waterfall and the scrubbed lifecycle stand on it."""

import pytest

from tests.diagrams.logs import Log, medley, scripted
from treadle.kernel.lifecycle import ADMISSION, CANCEL_CONVERGENCE, DISPOSED, IDLE, STEP
from treadle.models import Finish
from treadle.testing import LIFECYCLE
from treadle.words import events as ev
from treadle.words import reasons
from treadle_diagrams import passages_of, states_of
from treadle_diagrams.log.spans import Span, spans_of
from treadle_specs.rig.scripts import SCRIPTS


def spans(name: str, kind: str) -> list[Span]:
    return [span for span in spans_of(scripted(name)) if span.kind == kind]


def state_at(events: tuple[ev.Event, ...], seq: int):
    return [IDLE, *[reached.state for reached in states_of(events) if reached.seq <= seq]][-1]


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_span_ends_behind_its_begin_and_lies_in_its_turn(name: str):
    turns = {span.turn: span for span in spans(name, "turn")}
    for span in spans_of(scripted(name)):
        turn = turns[span.turn]
        assert span.end is not None
        assert turn.end is not None
        assert turn.begin.seq <= span.begin.seq <= span.end.seq <= turn.end.seq


def test_steps_attempts_and_tools_are_told_with_their_names():
    told = [(span.kind, span.label) for span in spans_of(scripted("one-tool"))]
    assert told == [
        ("turn", "turn 1"),
        ("step", "step 1"),
        ("attempt", "model"),
        ("tool", 'look(what="a door")'),
        ("step", "step 2"),
        ("attempt", "model"),
    ]


def test_an_attempt_begins_when_its_request_was_sent_and_knows_when_the_first_piece_came():
    log = Log(pace=10).open("hi").answer("yes").close()
    attempt = next(span for span in spans_of(log.events) if span.kind == "attempt")
    sent, answered = log.events[4], log.events[5]
    assert attempt.begin == (sent.seq, sent.time)
    assert attempt.end == (answered.seq, answered.time)
    streamed = spans("plain-answers", "attempt")[0]
    assert streamed.end is not None
    assert streamed.first is not None
    assert streamed.begin.time <= streamed.first <= streamed.end.time


def test_retries_are_attempts_of_their_own_with_the_waits_between_them():
    told = [(span.kind, span.label, span.outcome) for span in spans_of(scripted("retried-attempts"))][2:]
    kinds = [kind for kind, _, _ in told]
    assert kinds == ["attempt", "retry", "attempt", "retry", "attempt"]
    assert [outcome for kind, _, outcome in told if kind == "attempt"] == ["SERVER", "TRANSPORT", ""]


def test_parallel_tools_overlap():
    first, second, third = spans("parallel-tools", "tool")
    assert first.end is not None
    assert max(second.begin.seq, third.begin.seq) < first.end.seq


@pytest.mark.rule("C4")
def test_a_convergence_lasts_from_the_first_trace_of_the_cancel_to_the_end_of_the_turn():
    (cancel,) = spans("cancel-in-a-tool", "cancel")
    turn = spans("cancel-in-a-tool", "turn")[0]
    (result,) = [entry for entry in scripted("cancel-in-a-tool") if getattr(entry.data, "code", None) == "ABORTED"]
    assert cancel.begin.seq == result.seq
    assert cancel.end == turn.end


@pytest.mark.rule("C3")
def test_a_cancel_that_cleared_the_inbox_begins_with_that_clearing():
    (cancel,) = spans("cancel-while-streaming", "cancel")
    cleared = scripted("cancel-while-streaming")[cancel.begin.seq]
    assert isinstance(cleared.data, ev.InboxSpliced)
    assert cleared.data.outcome == "canceled"


def test_an_open_span_has_no_end():
    log = Log().open("hi").answer("well", ("look", "{}"))
    log.add(ev.ToolCallStarted("c", "look", "{}"))
    assert [(span.kind, span.end is None) for span in spans_of(log.events)] == [
        ("turn", True),
        ("step", True),
        ("attempt", False),
        ("tool", True),
    ]


# --- states -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCRIPTS)
def test_states_are_reached_in_the_order_of_the_log_and_along_rows_of_the_table(name: str):
    reached = states_of(scripted(name))
    assert [at.seq for at in reached] == sorted(at.seq for at in reached)
    assert tuple(at.passage for at in reached) == passages_of(scripted(name))
    for at in reached:
        assert at.passage is not None
        assert LIFECYCLE.allows(at.passage.state, at.passage.trigger)  # type: ignore[arg-type]


def test_the_state_is_idle_between_turns_and_step_while_an_answer_is_recorded():
    events = medley()
    for entry in events:
        if isinstance(entry.data, ev.TurnStart):
            assert state_at(events, entry.seq) is ADMISSION
        if isinstance(entry.data, ev.AssistantMessageAdded) and not entry.data.interrupted:
            assert state_at(events, entry.seq) is STEP
        if isinstance(entry.data, ev.AssistantMessageAdded) and entry.data.interrupted:
            assert state_at(events, entry.seq) is CANCEL_CONVERGENCE


@pytest.mark.rule("P4")
def test_after_a_turn_that_repair_closed_the_agent_is_idle_though_no_row_led_there():
    log = Log().open("hi").close(reasons.Interrupted())
    last = states_of(log.events)[-1]
    assert (last.seq, last.state, last.passage) == (log.events[-1].seq, IDLE, None)


def test_a_session_that_was_resumed_after_its_disposal_goes_on_from_idle():
    log = Log().open("hi").answer("half", interrupted=True).close(reasons.Aborted(reasons.ByDisposal()))
    end = len(log.events) - 1
    assert state_at(tuple(log.events), end) is DISPOSED
    log.open("again").answer("whole", finish=Finish("stop")).close()
    assert state_at(tuple(log.events), len(log.events) - 1) is IDLE
    assert ("IDLE", "WAKE") in [(p.state.name, p.trigger.name) for p in passages_of(log.events[end:])]


@pytest.mark.rule("S5")
def test_the_states_of_what_a_fork_inherited_are_told_though_its_walk_is_not():
    log = Log().open("hi").answer("yes").close()
    log.add(ev.EndSeed(len(log.events), "parent"))
    assert passages_of(log.events) == ()
    assert state_at(tuple(log.events), 4) is STEP
