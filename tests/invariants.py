"""What must hold of every log and every request, whatever a test did (contract §15)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from treadle import AssistantMessage, Event, Message, ModelRequest, Session, ToolResultMessage
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    RequestHeader,
    Surface,
    decode_event,
    encode_event,
)
from treadle.testing import LogMonitor


def check_invariants(session: Session, requests: Iterable[ModelRequest] = ()) -> None:
    """Check a settled session and every request that was made of it."""
    events = list(session.events)
    check_lines(events)
    check_rules(events)
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


def check_rules(events: Sequence[Event]) -> None:
    """T10, L4, N1 to N4, K5, I6 and what else the checker of logs knows: nothing is broken, and no turn is left open."""
    monitor = LogMonitor()
    for entry in events:
        monitor.take(entry)
    assert not monitor.breaches, "; ".join([str(breach) for breach in monitor.breaches])
    assert monitor.unfinished is None, f"{monitor.unfinished} has no end"


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
