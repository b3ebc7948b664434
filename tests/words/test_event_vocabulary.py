"""Events on the wire (contract §12 S2, S7)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.stage import note
from treadle import (
    Aborted,
    AssistantMessage,
    Blocked,
    ByDisposal,
    ByHook,
    ByParent,
    ByUser,
    Completed,
    Errored,
    Event,
    Failure,
    Interrupted,
    MaxTokens,
    MisuseError,
    Reasoning,
    Session,
    SessionCorrupt,
    SystemMessage,
    Text,
    ToolCall,
)
from treadle.errors import InvalidData, SessionFormatUnsupported
from treadle.models import CallConfig, Finish, OpaqueBlock, OpaqueSource, Segment, TimedStream, ToolSchema, Usage
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    EndSeed,
    InboxSpliced,
    PresetSelected,
    Replace,
    RequestContext,
    RequestHeader,
    RetryScheduled,
    RetryStarted,
    StepEnd,
    StepStart,
    SystemMessageAdded,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
    decode_event,
    encode_event,
    event,
    known_types,
    new_header,
)
from treadle.words.events import APPEND, type_named, type_of


@event("vocabulary-test/mark")
class Mark(msgspec.Struct, frozen=True):
    """An event of a plugin."""

    number: int
    more: Any = None


@event("vocabulary-test/spoken", surface=True)
class Spoken(msgspec.Struct, frozen=True):
    """A surface event of a plugin; it contributes nothing to the history."""

    text: str


def session(*events: Event) -> Session:
    return Session(new_header("s1", "/"), events, clock=lambda: 1_000)


def said(text: str) -> UserMessageAdded:
    return UserMessageAdded(note(text))


# --- S2, S7 -----------------------------------------------------------------------------------------------------------

EVERY: list[Any] = [
    TurnStart(1),
    *[
        TurnEnd(1, reason)
        for reason in (
            Completed(),
            MaxTokens(),
            Blocked(),
            Blocked("why"),
            Aborted(ByUser()),
            Aborted(ByParent()),
            Aborted(ByHook("why")),
            Aborted(ByDisposal()),
            Errored(Failure("m", "C", 500, 1.5, "r")),
            Interrupted(),
        )
    ],
    StepStart(1, 1, ("a",), (note("a"),)),
    StepEnd(1, 1),
    UserMessageAdded(note("a")),
    SystemMessageAdded(SystemMessage((Text("s"),))),
    AssistantMessageAdded(
        AssistantMessage((Text("t"), Reasoning("r", {"x": 1}), ToolCall("c", "n", "{}", [1])), "adapter", {"id": 1}),
        "attempt",
        Finish("stop"),
        Usage(1, 2, 3, 4, 5),
        True,
        TimedStream((Segment((1, 2), "text-delta", 0, ("a", "b")),)),
    ),
    AssistantAttempt("attempt", Finish("error", Failure("m")), None, True, TimedStream(())),
    ToolCallStarted("c", "n", "{}"),
    ToolResultAdded("c", (Text("t"),), True, "CODE", True, {"v": [1]}),
    RequestHeader(
        CallConfig("p", "m", 5, "low", ("max_tokens",)), (ToolSchema("n", "d", {"type": "object"}),), "change"
    ),
    RequestContext("p", "m", 100, "replace"),
    EndSeed(5, "parent"),
    InboxSpliced("next-step", 1, 2, (note("a"),), "canceled"),
    RetryScheduled(1, 1, 2, 0.5, Failure("m")),
    RetryStarted(1, 1, 2),
    PresetSelected("p"),
]


@pytest.mark.rule("S2", "S7")
def test_the_core_vocabulary_is_complete() -> None:
    tags = [known.tag for known in known_types() if known.core]
    assert tags == [
        "turn/start",
        "turn/end",
        "step/start",
        "step/end",
        "user/message",
        "system/message",
        "assistant/message",
        "assistant/attempt",
        "tool/call",
        "tool/result",
        "request/header",
        "request/context",
        "session/end-seed",
        "agent/inbox/spliced",
        "llm/retry",
        "llm/retry-started",
        "agent-preset/selected",
    ]
    assert {type(data) for data in EVERY} == {known.data for known in known_types() if known.core}
    assert known_types()[-1].core is False


@pytest.mark.rule("S1", "S2", "S7", "T7")
@pytest.mark.parametrize("data", EVERY, ids=[f"{type(data).__name__} {index}" for index, data in enumerate(EVERY)])
def test_every_core_event_is_read_back_as_it_was_written(data: Any) -> None:
    known = type_of(data)
    entry = Event(known.tag, 0, 1, data, APPEND if known.surface else None)
    assert decode_event(encode_event(entry)) == entry


@pytest.mark.rule("S7")
def test_on_the_wire_keys_are_camel_case_and_unions_are_tagged_by_kind() -> None:
    def wire(data: Any, **more: Any) -> Any:
        return json.loads(encode_event(Event(type_of(data).tag, 3, 7, data, **more)))

    assert wire(TurnEnd(1, Aborted(ByUser()))) == {
        "type": "turn/end",
        "seq": 3,
        "time": 7,
        "data": {"turn": 1, "reason": {"kind": "aborted", "reason": {"kind": "user"}}},
    }
    assert wire(ToolResultAdded("c", (Text("t"),), True), surface_op=APPEND, source_event_seqs=(2,)) == {
        "type": "tool/result",
        "seq": 3,
        "time": 7,
        "data": {"callId": "c", "content": [{"type": "text", "text": "t"}], "isError": True},
        "surfaceOp": {"kind": "append"},
        "sourceEventSeqs": [2],
    }
    assert wire(InboxSpliced("next-turn", 0, 1))["data"] == {"target": "next-turn", "start": 0, "removedCount": 1}
    assert wire(Mark(1), ignorable=True)["ignorable"] is True
    assert wire(said("a"), surface_op=Replace(1, 2))["surfaceOp"] == {"kind": "replace", "first": 1, "last": 2}


@pytest.mark.rule("S7")
def test_unknown_extra_keys_are_tolerated_everywhere() -> None:
    line = (
        b'{"type":"turn/end","seq":0,"time":1,"new":1,"data":{"turn":1,"more":[],'
        b'"reason":{"kind":"aborted","reason":{"kind":"user","extra":1},"note":"x"}}}'
    )
    assert decode_event(line).data == TurnEnd(1, Aborted(ByUser()))


@pytest.mark.rule("S2", "S7")
def test_members_of_open_sums_that_are_unknown_stay_opaque_and_encode_to_what_was_read() -> None:
    raw = {
        "type": "user/message",
        "seq": 0,
        "time": 1,
        "data": {
            "message": {
                "id": "a",
                "content": [{"type": "hologram", "data": [1]}],
                "source": {"kind": "telepathy", "from": "x"},
                "role": "user",
            }
        },
        "surfaceOp": {"kind": "append"},
    }
    entry = decode_event(json.dumps(raw).encode())
    message = entry.data.message
    assert message.content == (OpaqueBlock({"type": "hologram", "data": [1]}),)
    assert isinstance(message.source, OpaqueSource)
    assert json.loads(encode_event(entry)) == raw
    assert message.text == ""
    assert hash(message.content[0]) == hash(OpaqueBlock({"type": "x", "data": 0}))
    assert repr(message.content[0]) == "OpaqueBlock({'type': 'hologram', 'data': [1]})"
    assert message.content[0] != Text("x")


@pytest.mark.rule("S2")
@pytest.mark.parametrize("data", ['{"a":1}', "[1]", '"x"', "3", "null"])
def test_an_unknown_type_is_kept_opaque_when_it_may_be_ignored(data: str) -> None:
    line = f'{{"type":"new/thing","seq":0,"time":1,"data":{data},"ignorable":true}}'.encode()
    entry = decode_event(line)
    assert encode_event(entry) == line
    log = session(entry)
    assert list(log.events) == [entry]
    assert list(log.history()) == []


@pytest.mark.rule("S2", "S3")
def test_an_unknown_surface_event_keeps_its_place_and_contributes_nothing() -> None:
    line = b'{"type":"new/said","seq":1,"time":1,"data":{},"surfaceOp":{"kind":"append"},"ignorable":true}'
    before = session()
    before.append(said("a"))
    log = session(*before.events, decode_event(line))
    assert [node.seq for node in log.surface.nodes] == [0, 1]
    assert len(log.history()) == 1
    bad = line.replace(b'{"kind":"append"}', b'{"kind":"replace","first":8,"last":9}')
    with pytest.raises(SessionCorrupt, match="event 1: the surface has no nodes"):
        session(*before.events, decode_event(bad))


@pytest.mark.rule("S2", "P5")
def test_an_unknown_type_that_may_not_be_ignored_refuses_the_load() -> None:
    with pytest.raises(SessionFormatUnsupported, match="'new/thing', which is unknown here and not ignorable"):
        decode_event(b'{"type":"new/thing","seq":4,"time":1,"data":{}}')


@pytest.mark.rule("S2", "S1")
@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{",
        b'{"type":"turn/start","seq":"0","time":1,"data":{"turn":1}}',
        b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":"one"}}',
        b'{"type":"turn/start","seq":0,"time":1}',
        b'{"type":"turn/end","seq":0,"time":1,"data":{"turn":1,"reason":"completed"}}',
        b'{"type":"turn/end","seq":0,"time":1,"data":{"turn":1,"reason":{"kind":"error"}}}',
        b'{"type":"user/message","seq":0,"time":1,"data":{"message":{"id":"a","content":[5]}}}',
        b'{"type":"x","seq":0,"time":1,"data":' + b"[" * 5_000 + b"]" * 5_000 + b',"ignorable":true}',
        b'{"type":"agent-preset/selected","seq":0,"time":1,"data":{"preset":"\xff"}}',
    ],
)
def test_a_line_that_is_no_event_is_invalid_data(line: bytes) -> None:
    with pytest.raises(InvalidData, match=r"no valid event|needs an object|missing required|nested deeper"):
        decode_event(line)


@pytest.mark.rule("S2")
def test_registering_a_type_twice_or_a_class_that_is_none_is_refused() -> None:
    class Loose:
        pass

    with pytest.raises(MisuseError, match=r"frozen msgspec\.Struct"):
        event("vocabulary-test/loose")(Loose)
    with pytest.raises(MisuseError, match="registered already"):
        event("vocabulary-test/mark")(type("Again", (msgspec.Struct,), {}, frozen=True))
    assert type_named("vocabulary-test/mark").data is Mark  # type: ignore[union-attr]
    assert type_named("vocabulary-test/none") is None
