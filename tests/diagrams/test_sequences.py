"""Sequence diagrams: who told whom what, from any log whatsoever."""

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.diagrams.logs import HEADER, START, Log, medley, scripted
from treadle import AssistantMessage, Event, Failure, MisuseError, Text, ToolCall, UserMessage
from treadle.models import HookSource
from treadle.words import events as ev
from treadle.words import reasons
from treadle.words.events import type_of
from treadle.words.messages import USER
from treadle_diagrams import sequence_mermaid, sequence_svg, session_page, states_of, transcript
from treadle_diagrams.sequence.content import LANES, Arrow, Note, Shade, sequence_of
from treadle_specs.rig.scripts import SCRIPTS

SVG = "{http://www.w3.org/2000/svg}"
DRAW: dict[str, Callable[..., str]] = {"mermaid": sequence_mermaid, "svg": sequence_svg}
HOSTILE = '\u202e<script>alert(1)</script> #35; $$x$$ %%{init: {"theme":"dark"}}%% end; evil\n    participant mallory \x1b[2J\x00'


def arrows(name: str) -> list[tuple[str, str, str]]:
    return [(item.source, item.dest, item.text) for item in sequence_of(scripted(name)) if isinstance(item, Arrow)]


def notes(name: str) -> list[str]:
    return [item.text for item in sequence_of(scripted(name)) if isinstance(item, Note)]


def test_a_plain_turn_goes_from_sender_to_inbox_to_driver_to_model_and_back_and_into_the_log():
    assert arrows("reasoning-and-usage") == [
        ("sender", "inbox", "“3 + 4?”"),
        ("driver", "log", "#1 turn/start"),
        ("inbox", "driver", "claim “3 + 4?”"),
        ("driver", "log", "#3–6 step/start, user/message, request/header, request/context"),
        ("driver", "model", "request scripted/scripted-1"),
        ("model", "driver", "“Seven.”"),
        ("driver", "log", "#7–9 assistant/message, step/end, turn/end"),
    ]
    assert notes("reasoning-and-usage")[0] == "turn 1"
    assert notes("reasoning-and-usage")[1].startswith("turn 1: completed · 1 step · ")


def test_a_tool_is_called_by_the_driver_and_answers_it():
    told = arrows("one-tool")
    assert ("driver", "tools", 'look(what="a door")') in told
    assert ("tools", "driver", "You see a door.") in told


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_event_but_those_of_the_inbox_is_recorded_once(name: str):
    recorded: list[int] = []
    for source, dest, text in arrows(name):
        if (source, dest) == ("driver", "log"):
            found = re.match(r"#(\d+)(?:–(\d+))? ", text)
            assert found
            recorded += range(int(found[1]), int(found[2] or found[1]) + 1)
    inbox = {entry.seq for entry in scripted(name) if isinstance(entry.data, ev.InboxSpliced)}
    assert sorted({*recorded} | inbox) == [entry.seq for entry in scripted(name)]


@pytest.mark.rule("C4")
def test_a_cancel_is_an_arrow_and_what_follows_until_the_turn_s_end_is_shaded():
    items = sequence_of(scripted("cancel-in-a-tool"))
    at = next(place for place, item in enumerate(items) if isinstance(item, Arrow) and item.manner == "cancel")
    assert items[at].source == "sender"  # type: ignore[union-attr]
    assert isinstance(items[at + 1], Shade)
    ends = next(place for place, item in enumerate(items) if isinstance(item, Shade) and not item.begins)
    inside = [item.text for item in items[at + 2 : ends] if not isinstance(item, Shade)]
    assert any(text.startswith("ABORTED: ") for text in inside)
    assert "look is not run: ABORTED_BEFORE_DISPATCH" in inside
    assert inside[-1].endswith("turn/end")
    assert items[ends + 1].text.startswith("turn 1: stopped by the user")  # type: ignore[union-attr]


def test_a_cancel_by_a_hook_comes_from_the_hooks_and_says_why():
    assert ("hooks", "driver", "cancel: too slow") in arrows("cancel-before-the-answer")


def test_a_message_that_came_during_convergence_stands_inside_the_shade():
    log = Log().open("hi").answer("well", ("sleep", "{}"))
    log.add(ev.ToolCallStarted("c", "sleep", "{}"))
    log.ask("wait")
    log.add(ev.ToolResultAdded("c", (), is_error=True, code="ABORTED")).close(reasons.Aborted(reasons.ByUser()))
    log.add(ev.TurnStart(2), ev.InboxSpliced("next-turn", 0, 1))
    kinds = [item.text if isinstance(item, Arrow) else type(item).__name__ for item in sequence_of(log.events)]
    assert kinds.index("cancel") < kinds.index("Shade") < kinds.index("“wait”")


def test_hooks_are_seen_where_they_changed_something():
    assert ("hooks", "driver", "block: no secrets") in arrows("blocked-prompts")
    assert ("hooks", "driver", "adds or changes: “SHOUT THIS”") in arrows("blocked-prompts")
    assert ("hooks", "driver", "leaves out “drop this one”") in arrows("edited-batches")
    log = Log().open("hi")
    log.ask("not so fast", target="next-step", source=HookSource("guard"))
    assert ("hooks", "inbox", "context: “not so fast”") in [
        (item.source, item.dest, item.text) for item in sequence_of(log.events) if isinstance(item, Arrow)
    ]


def test_a_call_that_was_not_run_does_not_reach_the_tools():
    assert [text for source, dest, text in arrows("failing-tools") if dest == "tools"] == ['fail(why="broken")']
    assert "nothing_of_the_kind is not run: UNKNOWN_TOOL" in notes("failing-tools")


def test_a_denied_call_is_stopped_by_a_hook():
    log = Log().open("hi").answer("well", ("rm", "{}"))
    log.tool("rm", "{}", "no", is_error=True, code="DENIED").close()
    drawn = [item for item in sequence_of(log.events) if isinstance(item, Arrow)]
    assert [item.text for item in drawn if item.source == "hooks"] == ["rm is not run: DENIED"]
    assert [item for item in drawn if item.dest == "tools"] == []


def test_retries_are_seen_with_their_waits():
    told = arrows("retried-attempts")
    assert [text for source, _, text in told if source == "model"][:2] == ["SERVER: busy", "TRANSPORT: the line broke"]
    assert any(text.startswith("waits ") and text.endswith("then attempt 2") for text in notes("retried-attempts"))
    assert ("driver", "model", "request scripted/scripted-1 · attempt 3") in told


def test_an_inbox_that_is_edited_shows_what_was_dropped_and_what_was_changed():
    assert "dropped: “queued 2”" in notes("inbox-editing")
    assert "changed: “queued zero, edited”" in notes("inbox-editing")


# --- one turn ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_one_turn_is_drawn_with_the_deliveries_that_it_took_in_and_no_others(draw: Callable[..., str]):
    drawn = draw(scripted("queued-messages"), 2)
    assert "“two”" in drawn
    assert "“one”" not in drawn
    assert "“three”" not in drawn
    assert "turn 2" in drawn
    assert "turn 1" not in drawn


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_a_turn_that_is_not_there_is_refused_with_what_there_is(draw: Callable[..., str]):
    with pytest.raises(MisuseError, match="no turn 9; it has turns 1 to 3"):
        draw(scripted("queued-messages"), 9)
    with pytest.raises(MisuseError, match="no turn at all"):
        draw([], 1)


def test_all_turns_together_make_the_whole():
    whole = [item for item in sequence_of(scripted("cancel-in-a-tool")) if isinstance(item, (Arrow, Note))]
    turns = [item for turn in (1, 2) for item in sequence_of(scripted("cancel-in-a-tool"), turn)]
    assert [item for item in turns if isinstance(item, (Arrow, Note))] == whole


# --- Mermaid ----------------------------------------------------------------------------------------------------------


def test_mermaid_declares_every_lane_in_order():
    lines = sequence_mermaid([]).splitlines()
    assert lines == ["sequenceDiagram", *[f"    participant {lane}" for lane in LANES]]


def mermaid_lines(events: Any) -> list[str]:
    """The lines behind the participants, each checked for being one that Mermaid knows."""
    lines = [line.strip() for line in sequence_mermaid(events).splitlines()[1 + len(LANES) :]]
    lane = f"(?:{'|'.join(LANES)})"
    known = rf"{lane}(?:->>|-->>|--x|-\)|-x){lane}: \S.*|Note over {lane}(?:,{lane})?: \S.*|rect rgba\([\d., ]+\)|end"
    for line in lines:
        assert re.fullmatch(known, line), line
    return lines


@pytest.mark.parametrize("name", SCRIPTS)
def test_mermaid_opens_and_ends_each_shade(name: str):
    depth = 0
    for line in mermaid_lines(scripted(name)):
        depth += line.startswith("rect ") - (line == "end")
        assert depth in (0, 1)
    assert depth == 0


def hostile_log() -> Log:
    log = Log().open(HOSTILE).answer(HOSTILE, (HOSTILE, HOSTILE), reasoning=HOSTILE)
    log.tool(HOSTILE, HOSTILE, HOSTILE, is_error=True, code=HOSTILE)
    return log.close(reasons.Errored(Failure(HOSTILE, HOSTILE)))


@pytest.mark.rule("X3")
def test_hostile_text_is_no_syntax_to_mermaid():
    for line in mermaid_lines(hostile_log().events):
        text = line.partition(": ")[2]
        assert not re.search(r"[<>{}%$;`\\]", re.sub(r"#\d+;", "", text))
        assert "#" not in re.sub(r"#\d+;", "", text)


# --- SVG --------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("X3")
def test_hostile_text_is_text_in_the_svg():
    drawn = sequence_svg(hostile_log().events)
    texts = [text.text or "" for text in ET.fromstring(drawn).iter(f"{SVG}text")]
    assert any("<script>alert(1)</script>" in text for text in texts)
    assert ET.fromstring(drawn).find(f".//{SVG}script") is None
    assert "\u202e" not in drawn
    assert any("[U+202E]" in text for text in texts)


def test_the_svg_needs_nothing_from_outside_and_follows_the_reader_s_colour_scheme():
    drawn = sequence_svg(scripted("cancel-in-a-tool"))
    assert re.findall(r"https?://", drawn) == ["http://"]  # the namespace
    assert "url(" not in drawn
    assert "@media (prefers-color-scheme:dark)" in drawn
    assert "@media" not in sequence_svg([], theme="dark")
    with pytest.raises(MisuseError, match="'auto', 'light' or 'dark'"):
        sequence_svg([], theme="sepia")  # type: ignore[arg-type]


def test_a_band_marks_the_convergence_and_a_bar_marks_who_is_active():
    drawn = ET.fromstring(sequence_svg(scripted("cancel-in-a-tool")))
    kinds = [group.get("class") for group in drawn.iter(f"{SVG}g")]
    assert kinds.count("shade") == 1
    assert kinds.count("cancel") == 1
    bars = [rect.get("class") for rect in drawn.iter(f"{SVG}rect") if (rect.get("class") or "").startswith("bar ")]
    assert bars.count("bar driver") == 2
    assert bars.count("bar model") == 2
    assert bars.count("bar tools") == 2


def test_everything_lies_inside_the_sheet_and_goes_downwards():
    drawn = ET.fromstring(sequence_svg(medley()))
    width, height = float(drawn.get("width") or 0), float(drawn.get("height") or 0)
    for rect in drawn.iter(f"{SVG}rect"):
        left, top = float(rect.get("x") or 0), float(rect.get("y") or 0)
        assert left >= 0
        assert top + float(rect.get("height") or 0) <= height
        if rect.get("class") != "halo":
            assert left + float(rect.get("width") or 0) <= width, rect.attrib
    rows = [
        float(re.split(r"[,H]", path.get("d") or "")[1])
        for path in drawn.iter(f"{SVG}path")
        if "H" in path.get("d", "")
    ]
    assert rows == sorted(rows)


def test_a_long_diagram_names_its_lanes_at_both_ends():
    heads = [
        group for group in ET.fromstring(sequence_svg(medley())).iter(f"{SVG}g") if "lane" in (group.get("class") or "")
    ]
    assert len(heads) == 2 * len(LANES)


# --- any log ----------------------------------------------------------------------------------------------------------

ids = st.sampled_from(["a", "b", "c"])
small = st.integers(0, 3)
messages = st.builds(UserMessage, ids, st.just((Text("t"),)), st.sampled_from([USER, HookSource("h")]))
end_reasons = st.sampled_from(
    [
        reasons.COMPLETED,
        reasons.Aborted(reasons.ByUser()),
        reasons.Aborted(reasons.ByDisposal()),
        reasons.Blocked(),
        reasons.Interrupted(),
    ]
)
answers = st.builds(AssistantMessage, st.sampled_from([(Text("yes"),), (ToolCall("a", "look"), ToolCall("b", "look"))]))
anything = st.one_of(
    st.builds(ev.TurnStart, small),
    st.builds(ev.TurnEnd, small, end_reasons),
    st.builds(
        ev.StepStart, small, small, st.lists(ids, max_size=2).map(tuple), st.lists(messages, max_size=1).map(tuple)
    ),
    st.builds(ev.StepEnd, small, small),
    st.builds(ev.UserMessageAdded, messages),
    st.builds(ev.AssistantMessageAdded, answers, ids, interrupted=st.booleans()),
    st.builds(ev.AssistantAttempt, ids, interrupted=st.booleans()),
    st.builds(ev.ToolCallStarted, ids, st.just("look")),
    st.builds(ev.ToolResultAdded, ids, is_error=st.booleans(), code=st.sampled_from([None, "ABORTED", "UNKNOWN_TOOL"])),
    st.builds(ev.RetryScheduled, small, small, small, st.just(0.5), st.just(Failure("x"))),
    st.builds(ev.RetryStarted, small, small, small),
    st.builds(ev.EndSeed, small),
    st.builds(
        ev.InboxSpliced,
        st.sampled_from(["next-turn", "next-step"]),
        small,
        small,
        st.lists(messages, max_size=2).map(tuple),
        st.sampled_from([None, "canceled"]),
    ),
)


@pytest.mark.slow
@given(st.lists(anything, max_size=30))
@settings(max_examples=150, deadline=None)
def test_a_log_that_breaks_every_rule_is_drawn_all_the_same(data: list[Any]):
    events = [Event(type_of(one).tag, seq, START + seq, one) for seq, one in enumerate(data)]
    mermaid_lines(events)
    ET.fromstring(sequence_svg(events))
    transcript(events)
    states_of(events)
    assert session_page(HEADER, events)


@pytest.mark.parametrize("name", [*SCRIPTS])
def test_e11_no_label_covers_a_bar(name: str):
    rects = [{**each.attrib} for each in ET.fromstring(sequence_svg(scripted(name))).iter(f"{SVG}rect")]
    box = [
        (r["class"].split()[0], *(float(r[k]) for k in ("x", "y", "width", "height"))) for r in rects if "class" in r
    ]
    labels = [rest for kind, *rest in box if kind == "halo"]
    bars = [rest for kind, *rest in box if kind == "bar"]
    for x, y, width, height in labels:
        for left, top, wide, high in bars:
            beside = x + width <= left or left + wide <= x
            assert beside or y + height <= top + 4 or top + high <= y, (name, (x, y, width), (left, top))
