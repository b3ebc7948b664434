"""The session log in memory (contract §12 S1, S3, S4, S6, S8, S10)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.stage import note, settled, stage
from treadle import (
    Answer,
    AssistantMessage,
    Call,
    Event,
    MisuseError,
    Reasoning,
    Session,
    SessionCorrupt,
    SystemMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    tool,
)
from treadle.errors import InvalidData
from treadle.lossless import MAX_DEPTH, check_json
from treadle.models import CallConfig, ToolResult, check_depth, repair_text, text_of
from treadle.session import (
    Append,
    AssistantAttempt,
    AssistantMessageAdded,
    EndSeed,
    InboxSpliced,
    Opaque,
    OpenSum,
    Replace,
    RequestHeader,
    StepEnd,
    SystemMessageAdded,
    ToolCallStarted,
    ToolResultAdded,
    TurnStart,
    UserMessageAdded,
    decode_event,
    decode_hook,
    encode_event,
    encode_hook,
    event,
    new_header,
    session_id,
    surface,
)
from treadle.views import Snapshot
from treadle.words.events import APPEND, type_named
from treadle.words.messages import user_message


@event("session-log-test/mark")
class Mark(msgspec.Struct, frozen=True):
    """An event of a plugin."""

    number: int
    more: Any = None


@event("session-log-test/spoken", surface=True)
class Spoken(msgspec.Struct, frozen=True):
    """A surface event of a plugin; it contributes nothing to the history."""

    text: str


def session(*events: Event) -> Session:
    return Session(new_header("s1", "/"), events, clock=lambda: 1_000)


def said(text: str) -> UserMessageAdded:
    return UserMessageAdded(note(text))


# --- S1 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("S1", "N6")
def test_an_event_has_its_position_time_tag_and_data_and_never_changes() -> None:
    log = session()
    first, second = log.append(Mark(1)), log.append(said("a"))
    assert (first.seq, first.time, first.type, first.data) == (0, 1_000, "session-log-test/mark", Mark(1))
    assert second.seq == 1
    with pytest.raises(AttributeError):
        first.seq = 5  # type: ignore[misc]
    assert list(log.events) == [first, second]
    assert log.events[0] is first
    assert (len(log), len(log.events), log.events[-1]) == (2, 2, second)
    assert repr(log) == "<Session s1 with 2 events>"
    assert repr(log.events).startswith("Live([Event(")


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE


@pytest.mark.rule("S1", "S6")
@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        "\ud800",
        {"\ud800": 1},
        {1: 2},
        CYCLE,
        object(),
        2**64,
    ],
    ids=["nan", "infinity", "surrogate", "surrogate key", "int key", "cycle", "object", "huge"],
)
def test_what_is_not_losslessly_json_is_refused_before_anything_changes(value: Any) -> None:
    log = session()
    with pytest.raises(InvalidData):
        log.append(Mark(1, value))
    assert len(log) == 0
    log.append(Mark(1))


@pytest.mark.rule("S1")
def test_what_reading_would_refuse_is_refused_at_writing() -> None:
    log = session()
    with pytest.raises(InvalidData, match="Expected `int`"):
        log.append(Mark("one"))  # type: ignore[arg-type]
    with pytest.raises(MisuseError, match="no registered event data"):
        log.append({"number": 1})
    assert len(log) == 0


@pytest.mark.rule("S1")
def test_recorded_data_is_a_copy_exactly_as_reading_gives_it_back() -> None:
    log = session()
    box: dict[str, Any] = {"list": (1, 2)}
    entry = log.append(Mark(1, box))
    box["list"] = "changed"
    assert entry.data == Mark(1, {"list": [1, 2]})
    assert decode_event(encode_event(entry)) == entry


@pytest.mark.rule("S1", "X3")
def test_lossless_json_is_checked_with_paths_and_bounds() -> None:
    check_json({"a": [1, 2.5, None, True, "é", (1,)]})
    for value, path in (
        ({"a": [1, {"b": float("nan")}]}, r"\$\.a\[1\]\.b: nan"),
        ([b"x"], r"\$\[0\]: bytes"),
        ({"k" * 99: {1}}, r"\$\.k{40}: set"),
        (-(2**63) - 1, r"\$: integer beyond"),
    ):
        with pytest.raises(InvalidData, match=path) as caught:
            check_json(value)
        assert caught.value.path.startswith("$")
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    check_json(deep)
    check_depth(deep)
    for check in (check_json, check_depth):
        with pytest.raises(InvalidData, match="nested deeper"):
            check([deep])
    check_depth({"a": [{}, {"b": 1}]})
    assert repair_text("a\ud83d\ude00\ud800") == "a\U0001f600\ufffd"


# --- S3, S4 -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("S3")
def test_surface_events_enter_by_appending_or_by_replacing_a_range_that_exists_now() -> None:
    log = session()
    for text in "abcd":
        log.append(said(text))
    entry = log.append(said("bc"), surface_op=Replace(1, 2), sources=[1, 2])
    assert (entry.surface_op, entry.source_event_seqs) == (Replace(1, 2), (1, 2))
    assert [one.text for one in log.history()] == ["a", "bc", "d"]  # type: ignore[union-attr]
    log.append(said("all"), surface_op=Replace(0, 3), sources=[0, 3, 4])
    assert [one.text for one in log.history()] == ["all"]  # type: ignore[union-attr]
    again = session(*log.events)
    assert list(again.history()) == list(log.history())


@pytest.mark.rule("S3", "S6")
@pytest.mark.parametrize(
    ("data", "more", "words"),
    [
        (Mark(1), {"surface_op": APPEND}, "only surface events"),
        (Mark(1), {"sources": [0]}, "only surface events"),
        (said("x"), {"surface_op": "append"}, "must be Append or Replace"),
        (said("x"), {"surface_op": Replace(7, 7), "sources": []}, "no nodes from seq 7"),
        (said("x"), {"surface_op": Replace(1, 0), "sources": [0, 1]}, "no nodes from seq 1 to 0"),
        (said("x"), {"surface_op": Replace(2, 2), "sources": [2]}, "no nodes from seq 2"),
        (said("x"), {"surface_op": Replace(0, 1), "sources": [1]}, "cites every event it shadows"),
        (said("x"), {"surface_op": Replace(0, 1)}, "cites every event it shadows"),
        (said("x"), {"sources": [3]}, "names no earlier event"),
        (said("x"), {"sources": [-1]}, "names no earlier event"),
        (said("x"), {"sources": [True]}, "names no earlier event"),
        (said("a"), {}, "recorded already"),
    ],
)
def test_wrong_surface_metadata_is_refused_before_anything_changes(data: Any, more: dict[str, Any], words: str) -> None:
    log = session()
    log.append(said("a"))
    log.append(said("b"))
    log.append(Mark(1))
    before = list(log.events), list(log.history())
    with pytest.raises(MisuseError, match=words):
        log.append(data, **more)
    assert (list(log.events), list(log.history())) == before


@pytest.mark.rule("S3", "N1")
def test_a_replacement_that_would_break_pairing_is_refused() -> None:
    log = session()
    asking = AssistantMessageAdded(AssistantMessage((ToolCall("c", "t"),)), "a1")
    log.commit(said("a"))
    log.commit(asking)
    log.commit(ToolCallStarted("c", "t"))
    log.commit(ToolResultAdded("c", (Text("r"),)))
    with pytest.raises(MisuseError, match=r"without their other half: .*c"):
        log.append(said("summary"), surface_op=Replace(0, 1), sources=[0, 1])
    with pytest.raises(MisuseError, match=r"without their other half: .*c"):
        log.append(said("between"), surface_op=Replace(3, 3), sources=[3])
    log.append(said("summary"), surface_op=Replace(0, 3), sources=[0, 1, 3])
    assert len(log.history()) == 1


@pytest.mark.rule("N1", "S6", "K5")
async def test_a_plugin_cannot_put_a_message_between_a_call_and_its_result() -> None:
    refused: list[str] = []

    @tool
    async def pushy() -> None:
        try:
            s.agent.session.append(said("between"))
        except MisuseError as error:
            refused.append(str(error))

    async with stage(Answer(calls=[Call("pushy")]), tools=[pushy]) as s:
        await s.ask("a")
        assert "(N1)" in refused[0]


@pytest.mark.rule("S6", "T10", "O4")
@pytest.mark.parametrize(
    "data", [TurnStart(9), StepEnd(1, 1), InboxSpliced("next-turn", 0, 0, (note("x"),)), EndSeed(0)]
)
async def test_events_of_the_driver_are_written_by_the_driver_only_while_it_drives(data: Any) -> None:
    async with stage() as s:
        before = s.full_log
        with pytest.raises(MisuseError, match="written by the driver only"):
            s.agent.session.append(data)
        assert s.full_log == before
        await settled()


@pytest.mark.rule("S4")
def test_history_holds_messages_and_results_and_nothing_else() -> None:
    log = session()
    answer = AssistantMessage((Text("t"), ToolCall("c", "n")), "adapter")
    for data in (
        TurnStart(1),
        SystemMessageAdded(SystemMessage((Text("s"),))),
        said("a"),
        RequestHeader(CallConfig(), (), "initial"),
        AssistantAttempt("a0"),
        AssistantMessageAdded(answer, "a1"),
        ToolCallStarted("c", "n"),
        ToolResultAdded("c", (Text("r"),), True, "CODE"),
        AssistantMessageAdded(AssistantMessage(()), "a2"),
        AssistantMessageAdded(AssistantMessage((Reasoning("hm"),)), "a3"),
        AssistantMessageAdded(AssistantMessage((Text(""),)), "a4"),
        SystemMessageAdded(SystemMessage(())),
        Mark(1),
    ):
        log.commit(data)
    log.append(Spoken("x"))
    history = list(log.history())
    assert history[:3] == [SystemMessage((Text("s"),)), note("a"), answer]
    result = history[3]
    assert isinstance(result, ToolResultMessage)
    assert (result.role, result.result.call_id, result.result.is_error, result.result.code) == (
        "user",
        "c",
        True,
        "CODE",
    )
    assert len(history) == 4
    assert [entry.source_event_seqs for entry in log.events if entry.type == "tool/result"] == [(6,)]


@pytest.mark.rule("S4")
def test_a_step_costs_its_own_new_events_whatever_the_log_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[int] = []
    log = session()
    for index in range(2_000):
        log.commit(said(f"m{index}"))
    real = surface.derive

    def counting(data: Any) -> Any:
        derived.append(1)
        return real(data)

    monkeypatch.setattr(surface, "derive", counting)
    log.commit(said("more"))
    snapshot = log.history()
    assert (len(derived), len(snapshot)) == (1, 2_001)
    log.commit(said("later"))
    assert len(snapshot) == 2_001


@pytest.mark.rule("S4")
def test_text_of_a_message_joins_its_text_blocks_only() -> None:
    assert text_of((Text("a"), Reasoning("x"), Text("b"))) == "ab"
    assert user_message("hello", "a").text == "hello"
    assert SystemMessage((Text("s"),)).text == "s"
    assert UserMessage("a", (Reasoning("x"),)).text == ""


# --- S6 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("S6")
def test_an_append_that_reenters_one_being_accepted_is_refused_and_the_outer_one_stands() -> None:
    log = session()
    log.append(said("a"))
    refused: list[str] = []

    def sources() -> Any:
        try:
            log.append(Mark(1))
        except MisuseError as error:
            refused.append(str(error))
        yield 0

    log.append(said("b"), surface_op=Append(), sources=sources())
    assert "re-entered" in refused[0]
    assert [entry.type for entry in log.events] == ["user/message", "user/message"]
    log.append(Mark(2))


@pytest.mark.rule("S6", "H4")
def test_an_append_tells_its_one_listener_after_it_is_taken() -> None:
    log = session()
    heard: list[tuple[int, int]] = []
    log.listen(lambda entry: heard.append((entry.seq, len(log))))
    log.append(Mark(1))
    log.listen(None)
    log.append(Mark(2))
    assert heard == [(0, 1)]


# --- loading (N6, S8) -------------------------------------------------------------------------------------------------


@pytest.mark.rule("N6", "S3")
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (Event("session-log-test/mark", 1, 0, Mark(1)), "number 1 stands where 0 is due"),
        (Event("session-log-test/mark", 0, 0, Mark(1), APPEND), "only surface events"),
        (Event("user/message", 0, 0, said("a")), "carries no surface operation"),
        (Event("user/message", 0, 0, said("a"), Replace(5, 5)), "no nodes"),
        (Event("user/message", 0, 0, said("a"), APPEND, (0,)), "no earlier event"),
    ],
)
def test_a_log_that_does_not_hold_together_is_corrupt_by_seq(entry: Event, words: str) -> None:
    with pytest.raises(SessionCorrupt, match=words) as caught:
        session(entry)
    assert caught.value.seq == entry.seq


@pytest.mark.rule("S8", "X2")
def test_a_header_is_made_with_an_absolute_folder_and_an_id_that_stays_in_it() -> None:
    header = new_header("s-1.x_y", "/work", 5, origin="subagent", delegation_depth=1)
    assert (header.id, header.cwd, header.created_at, header.origin) == ("s-1.x_y", "/work", 5, "subagent")
    assert new_header("s1", "/").created_at > 1_600_000_000_000
    with pytest.raises(MisuseError, match="absolute"):
        new_header("s1", "work")
    with pytest.raises(AttributeError):
        header.id = "other"  # type: ignore[misc]


@pytest.mark.rule("X2")
@pytest.mark.parametrize(
    "wrong", ["", ".", "..", "a..b", "a/b", "a\\b", ".hidden", "-dash", "é", "a\n", "x" * 129, 5, None]
)
def test_a_session_id_that_could_leave_its_directory_is_refused(wrong: Any) -> None:
    with pytest.raises(MisuseError, match="X2"):
        session_id(wrong)
    assert session_id("x" * 128) == "x" * 128


@pytest.mark.rule("N5", "S4")
async def test_a_reloaded_log_has_the_same_history_and_knows_its_ids() -> None:
    @tool
    async def work() -> str:
        return "done"

    async with stage(Answer("t", calls=[Call("work")]), "two", tools=[work]) as s:
        s.agent.system_prompt = "be brief"
        await s.ask("a")
        lines = [encode_event(entry) for entry in s.agent.session.events]
        again = Session(s.agent.session.header, [decode_event(one) for one in lines])
        assert list(again.history()) == list(s.agent.session.history())
        assert set(again.recorded) == {"a"}
        assert list(again.call_ids) == ["call_1"]


@pytest.mark.rule("S10", "S2")
@pytest.mark.parametrize("tag", ["assistant/chunk", "steering/message", "todo/write", "agent/step"])
def test_superseded_types_are_read_opaquely_and_never_written(tag: str) -> None:
    entry = decode_event(f'{{"type":"{tag}","seq":0,"time":1,"data":{{"x":1}},"ignorable":true}}'.encode())
    assert (type_named(tag), entry.data) == (None, {"x": 1})


@pytest.mark.rule("S2")
def test_a_plugin_adds_members_to_an_open_sum_and_wrong_ones_are_refused() -> None:
    class Animal:
        pass

    class OpaqueAnimal(Opaque, Animal):
        pass

    animals: OpenSum[Animal] = OpenSum(Animal, OpaqueAnimal, "kind")

    @animals.register
    class Cat(msgspec.Struct, Animal, frozen=True, tag_field="kind", tag="cat"):
        lives: int

    assert [member.__name__ for member in animals.members] == ["Cat"]
    assert animals.build({"kind": "cat", "lives": 9}) == Cat(9)
    assert animals.build({"kind": "dog"}) == OpaqueAnimal({"kind": "dog"})
    with pytest.raises(MisuseError, match="tagged 'cat' already"):
        animals.register(Cat)
    for wrong in (Animal, type("Plain", (msgspec.Struct,), {}), Text):
        with pytest.raises(MisuseError, match=r"must be a msgspec\.Struct and Animal"):
            animals.register(wrong)
    for raw in (5, {}, {"kind": 5}, {"kind": "cat"}, {"kind": "cat", "lives": "x"}):
        with pytest.raises(InvalidData):
            animals.build(raw)
    with pytest.raises(TypeError, match="no open sum is known"):
        decode_hook(Cat, {})
    with pytest.raises(TypeError, match="cannot be encoded"):
        encode_hook(object())


@pytest.mark.rule("S4")
def test_a_snapshot_is_a_sequence_and_equals_only_sequences() -> None:
    snapshot = Snapshot([1, 2, 3], 2)
    assert (list(snapshot), len(snapshot), snapshot[-1], 3 in snapshot) == ([1, 2], 2, 2, False)
    assert snapshot == (1, 2)
    assert snapshot != 5
    assert Snapshot([1], 1) == Snapshot([1], 1)


def test_a_result_says_its_text_and_a_call_its_message() -> None:
    message = ToolResultMessage((ToolResult("c", (Text("a"), Text("b"))),))
    assert message.text == "ab"
