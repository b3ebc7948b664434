"""What must hold of every log and every request, whatever a test did (contract §15)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from treadle import AssistantMessage, Event, Message, ModelRequest, Session, ToolResultMessage
from treadle.kernel.pending import Inbox
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    InboxSpliced,
    RequestHeader,
    StepEnd,
    StepStart,
    Surface,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
    decode_event,
    encode_event,
)


def check_invariants(session: Session, requests: Iterable[ModelRequest] = ()) -> None:
    """Check a settled session and every request that was made of it."""
    events = list(session.events)
    check_lines(events)
    check_grammar(events)
    check_calls(events)
    check_inbox(events)
    check_reload(session)
    asked = list(requests)
    for request in asked:
        check_pairing(request.messages)
    check_rebuilt(session, asked)


def check_lines(events: Sequence[Event]) -> None:
    """N6: numbered without a gap; every line is strict UTF-8 JSON, and reading gives back what was written."""
    for seq, entry in enumerate(events):
        assert entry.seq == seq
        line = encode_event(entry)
        json.loads(line.decode("utf-8", "strict"), parse_constant=_refuse)
        assert decode_event(line) == entry


def _refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")


def check_grammar(events: Sequence[Event]) -> None:
    """T10, L4, N3, N4: turns and steps are nested, balanced and numbered; what belongs to a step lies inside one."""
    turn = step = last_turn = 0
    for entry in events:
        match entry.data:
            case TurnStart():
                assert not turn, f"{entry.seq}: a turn inside a turn"
                assert entry.data.turn == last_turn + 1, f"{entry.seq}: turn {entry.data.turn} after {last_turn}"
                turn = last_turn = entry.data.turn
                step = 0
            case TurnEnd():
                assert turn == entry.data.turn, f"{entry.seq}: turn/end {entry.data.turn} while {turn} is open"
                assert step <= 0, f"{entry.seq}: turn/end inside a step"
                turn = 0
            case StepStart():
                assert turn == entry.data.turn
                assert step <= 0, f"{entry.seq}: a step inside a step"
                assert entry.data.step == -step + 1, f"{entry.seq}: step {entry.data.step} after {-step}"
                step = entry.data.step
            case StepEnd():
                assert (turn, step) == (entry.data.turn, entry.data.step), f"{entry.seq}: step/end out of place"
                step = -step
            case AssistantMessageAdded() | AssistantAttempt() | ToolCallStarted() | ToolResultAdded() | RequestHeader():
                assert turn, f"{entry.seq}: {entry.type} outside a turn"
                assert step > 0, f"{entry.seq}: {entry.type} outside a step"
            case _:
                pass
    assert not turn, "the last turn has no end"


def check_calls(events: Sequence[Event]) -> None:
    """K5, N1, N2: each call has one result, in the model's order, and each message is recorded once."""
    asked: list[str] = []
    called: dict[str, int] = {}
    recorded: set[str] = set()
    for entry in events:
        match entry.data:
            case AssistantMessageAdded():
                assert not asked, f"{entry.seq}: an answer while {asked} have no result"
                asked = [call.call_id for call in entry.data.message.calls]
            case ToolCallStarted():
                assert entry.data.call_id in asked, f"{entry.seq}: a call that nobody asked for"
                assert entry.data.call_id not in called, f"{entry.seq}: a call twice"
                called[entry.data.call_id] = entry.seq
            case ToolResultAdded():
                assert asked[:1] == [entry.data.call_id], f"{entry.seq}: a result out of order"
                asked.pop(0)
                if entry.data.code != "TOOL_NOT_STARTED":
                    assert entry.source_event_seqs == (called[entry.data.call_id],), f"{entry.seq}: cites no call"
            case UserMessageAdded():
                assert not asked, f"{entry.seq}: a message between call and result"
                assert entry.data.message.id not in recorded, f"{entry.seq}: a message twice"
                recorded.add(entry.data.message.id)
            case _:
                pass
    assert not asked, f"{asked} have no result"


def check_inbox(events: Sequence[Event]) -> None:
    """I6: the recorded splices fold."""
    inbox = Inbox()
    for entry in events:
        if isinstance(entry.data, InboxSpliced):
            inbox.fold(entry.data, entry.seq)


def check_reload(session: Session) -> None:
    """N5: the history is the same after closing and reloading."""
    again = Session(session.header, [decode_event(encode_event(entry)) for entry in session.events])
    assert list(again.history()) == list(session.history())


def check_pairing(messages: Iterable[Message]) -> None:
    """N1: each call is followed, before any other message, by exactly one result."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert message.result.call_id in open_calls, f"a result without its call: {message}"
            open_calls.remove(message.result.call_id)
        else:
            assert not open_calls, f"{open_calls} are not answered before {message}"
            if isinstance(message, AssistantMessage):
                open_calls = [call.call_id for call in message.calls]
    assert not open_calls, f"{open_calls} are not answered"


def check_rebuilt(session: Session, requests: Iterable[ModelRequest]) -> None:
    """Q1: each request is what the log before its attempt says it is."""
    asked = {request.attempt_id: request for request in requests}
    surface, header = Surface(), None
    for entry in session.events:
        data = entry.data
        if isinstance(data, RequestHeader):
            header = data
        elif isinstance(data, (AssistantMessageAdded, AssistantAttempt)):
            request = asked.pop(data.attempt_id, None)
            if request is not None:
                assert header is not None, f"{entry.seq}: a request without a header"
                assert (header.config, header.tools) == (request.config, request.tools)
                assert list(surface.messages) == list(request.messages), f"{entry.seq}: not the log's history"
        if entry.surface_op is not None:
            surface.apply(entry)
    assert not asked, f"attempts {list(asked)} left nothing in the log"
