"""Faults of the field: an answer told several times is one answer, and a call whose arguments never came is not run."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.wires import MemoryTransport, Outcome, outcome
from treadle import ModelFailure
from treadle_adapters.models.anthropic import Anthropic
from treadle_adapters.models.http_model import HTTPModel
from treadle_adapters.models.openai_chat import OpenAIChat
from treadle_adapters.models.openai_responses import OpenAIResponses
from treadle_adapters.models.tellings import MAX_TELLINGS, Telling

FIELD = Path(__file__).parent / "field"
URL = "http://a.test/v1"
ARGUMENTS = '{"path":"/tmp/x"}'


async def heard(model: type[HTTPModel], *events: dict[str, Any]) -> Outcome:
    pieces = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    async with model(URL, transport=MemoryTransport(pieces)) as adapter:
        return await outcome(adapter)


def told(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def completed(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    return told("completed", response={"status": "completed", "output": [*output], **more})


def call(arguments: str | None = ARGUMENTS, **more: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "wipe", "arguments": arguments, **more}
    return {name: value for name, value in item.items() if value is not None}


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "id": "m", "content": [{"type": "output_text", "text": text}], **more}


CALL = [("c1", "wipe", ARGUMENTS)]


@pytest.mark.rule("Q13")
@pytest.mark.parametrize("name", ["arguments_only_in_done", "output_only_in_completed"])
async def test_c1_c2_recorded_bodies_of_the_field_are_whole_answers(name: str) -> None:
    transport = MemoryTransport([(FIELD / f"responses_{name}.sse").read_bytes()])
    async with OpenAIResponses(URL, transport=transport) as model:
        got = await outcome(model)
    assert (got.calls, got.finish, got.failure) == ([("call_1", "wipe", ARGUMENTS)], "tool-calls", None)
    assert got.text == ("Hello" if "completed" in name else "")


TELLINGS = {
    "deltas": [
        told("function_call_arguments.delta", item_id="fc", output_index=0, delta=ARGUMENTS[:5]),
        told("function_call_arguments.delta", item_id="fc", output_index=0, delta=ARGUMENTS[5:]),
    ],
    "done": [told("function_call_arguments.done", item_id="fc", output_index=0, arguments=ARGUMENTS)],
    "item": [told("output_item.done", output_index=0, item=call())],
    "completed": [],
}
SUBSETS = [chosen for size in range(1, 5) for chosen in combinations(TELLINGS, size)]
STARTS = [
    (chosen, start)
    for chosen in SUBSETS
    for start in ("added", "unnamed", "missing")
    if start != "missing" or {"item", "completed"} & {*chosen}  # else nothing names the tool
]


@pytest.mark.rule("Q13")
@pytest.mark.parametrize(("chosen", "start"), STARTS)
async def test_c1_arguments_told_in_any_of_four_ways_are_read_once(chosen: tuple[str, ...], start: str) -> None:
    begun = call("") if start == "added" else call("", name="" if {"item", "completed"} & {*chosen} else "wipe")
    events = [] if start == "missing" else [told("output_item.added", output_index=0, item=begun)]
    events += [event for name in chosen for event in TELLINGS[name]]
    got = await heard(OpenAIResponses, *events, completed(*([call()] if "completed" in chosen else [])))
    assert (got.calls, got.finish, got.failure) == (CALL, "tool-calls", None)


TEXTS: dict[str, list[dict[str, Any]]] = {
    "deltas": [told("output_text.delta", item_id="m", delta="Hel"), told("output_text.delta", item_id="m", delta="lo")],
    "done": [told("output_text.done", item_id="m", text="Hello")],
    "part": [told("content_part.done", item_id="m", part={"type": "output_text", "text": "Hello"})],
    "item": [told("output_item.done", item=message("Hello"))],
    "completed": [],
}


@pytest.mark.rule("Q13")
@pytest.mark.parametrize("added", [True, False])
@pytest.mark.parametrize("chosen", [found for size in range(1, 6) for found in combinations(TEXTS, size)], ids="+".join)
async def test_c2_text_told_in_any_of_five_ways_is_read_once(chosen: tuple[str, ...], added: bool) -> None:
    events = [told("output_item.added", item={"type": "message", "id": "m", "content": []})] if added else []
    events += [event for name in chosen for event in TEXTS[name]]
    got = await heard(OpenAIResponses, *events, completed(*([message("Hello")] if "completed" in chosen else [])))
    assert (got.text, got.finish, got.failure) == ("Hello", "stop", None)


@pytest.mark.rule("Q13")
@pytest.mark.parametrize("kind", ["reasoning_summary_text", "reasoning_text"])
@pytest.mark.parametrize("chosen", [("delta",), ("done",), ("item",), ("whole",), ("delta", "done", "item", "whole")])
async def test_c2_reasoning_told_in_any_way_is_read_once(kind: str, chosen: tuple[str, ...]) -> None:
    field, part = ("summary", "summary_text") if "summary" in kind else ("content", "reasoning_text")
    item = {"type": "reasoning", "id": "rs", field: [{"type": part, "text": "hm"}, {"type": part, "text": "so"}]}
    ways = {
        "delta": [
            told(f"{kind}.delta", item_id="rs", **{f"{field}_index": n}, delta=t) for n, t in enumerate(("hm", "so"))
        ],
        "done": [
            told(f"{kind}.done", item_id="rs", **{f"{field}_index": n}, text=t) for n, t in enumerate(("hm", "so"))
        ],
        "item": [told("output_item.done", item=item)],
        "whole": [],
    }
    events = [event for name in chosen for event in ways[name]]
    got = await heard(OpenAIResponses, *events, completed(*([item] if "whole" in chosen else []), message("x")))
    assert (got.reasoning, got.text, got.failure) == ("hm\n\nso", "x", None)


@pytest.mark.rule("Q13")
@pytest.mark.parametrize(
    "events",
    [
        [told("refusal.delta", item_id="m", delta="no")],
        [told("refusal.done", item_id="m", refusal="no")],
        [told("content_part.done", item_id="m", part={"type": "refusal", "refusal": "no"})],
        [told("refusal.delta", item_id="m", delta="n"), told("refusal.done", item_id="m", refusal="no")],
    ],
)
@pytest.mark.parametrize("again", [True, False])
async def test_c2_a_refusal_told_in_any_way_is_one_refusal(events: list[dict[str, Any]], again: bool) -> None:
    item = {"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "no"}]}
    got = await heard(OpenAIResponses, *events, completed(*([item] if again else [])))
    assert (got.text, got.finish) == ("no", "refusal")


@pytest.mark.rule("Q13")
@pytest.mark.parametrize("arguments", ["", None])
@pytest.mark.parametrize("place", ["item", "completed", "nowhere"])
async def test_c1_a_call_whose_arguments_never_came_is_not_run_as_an_empty_object(
    arguments: str | None, place: str
) -> None:
    events = [told("output_item.added", output_index=0, item=call(""))]
    if place == "item":
        events.append(told("output_item.done", output_index=0, item=call(arguments)))
    got = await heard(OpenAIResponses, *events, completed(*([call(arguments)] if place == "completed" else [])))
    assert (got.calls, got.code) == ([], "MALFORMED_RESPONSE")


@pytest.mark.rule("Q13")
@pytest.mark.parametrize("arguments", ["{}", ""])
async def test_c1_arguments_that_are_told_to_be_empty_are_empty(arguments: str) -> None:
    events = [
        told("output_item.added", output_index=0, item=call("")),
        told("function_call_arguments.done", output_index=0, arguments=arguments),
    ]
    got = await heard(OpenAIResponses, *events, completed())
    assert (got.calls, got.failure) == ([("c1", "wipe", arguments)], None)


@pytest.mark.rule("Q13")
@pytest.mark.parametrize(
    "events",
    [
        [
            told("function_call_arguments.delta", output_index=0, delta='{"a":1'),
            told("output_item.done", item=call("{}")),
        ],
        [told("function_call_arguments.done", output_index=0, arguments='{"a":1}'), completed(call('{"a":2}'))],
        [told("output_item.done", item=call(name="other"))],
        [told("output_text.delta", item_id="m", delta="yes"), told("output_text.done", item_id="m", text="no, never")],
    ],
)
async def test_c2_tellings_that_contradict_each_other_fail_honestly(events: list[dict[str, Any]]) -> None:
    got = await heard(OpenAIResponses, told("output_item.added", output_index=0, item=call("")), *events, completed())
    assert got.code == "MALFORMED_RESPONSE"
    assert got.failure is not None
    assert "(Q13)" in got.failure.message


@pytest.mark.rule("Q13")
async def test_c2_items_whose_ids_change_or_whose_places_are_all_the_same_are_not_doubled() -> None:
    second = call('{"b":2}', id="f2", call_id="c2", name="other")
    changing = [
        told("output_item.added", output_index=0, item=message("", id="a1", content=[])),
        told("output_text.delta", output_index=0, item_id="a2", delta="Hel"),
        told("output_item.done", output_index=0, item=message("Hello", id="a3")),
        told("output_item.added", output_index=1, item=call("", id="b1")),
        told("function_call_arguments.delta", output_index=1, item_id="b2", delta=ARGUMENTS),
        told("output_item.done", output_index=1, item=call(id="b3")),
        completed(message("Hello", id="a4"), call(id="b4")),
    ]
    got = await heard(OpenAIResponses, *changing)
    assert (got.text, got.calls, got.failure) == ("Hello", CALL, None)
    alike = [
        told("output_item.added", output_index=0, item=call("")),
        told("output_item.done", output_index=0, item=call()),
        told("output_item.added", output_index=0, item={**second, "arguments": ""}),
        told("output_item.done", output_index=0, item=second),
        completed(call(), second),
    ]
    got = await heard(OpenAIResponses, *alike)
    assert (got.calls, got.failure) == ([*CALL, ("c2", "other", '{"b":2}')], None)


@pytest.mark.rule("Q13")
async def test_c2_items_that_are_told_out_of_order_are_each_read_once() -> None:
    second = call('{"b":2}', id="f2", call_id="c2", name="other")
    events = [
        told("function_call_arguments.delta", output_index=1, item_id="f2", delta='{"b"'),
        told("output_item.added", output_index=1, item={**second, "arguments": ""}),
        told("output_item.added", output_index=0, item=call("")),
        told("output_item.done", output_index=1, item=second),
        told("function_call_arguments.done", output_index=0, item_id="fc", arguments=ARGUMENTS),
        told("function_call_arguments.delta", output_index=0, item_id="fc", delta=ARGUMENTS),
    ]
    got = await heard(OpenAIResponses, *events, completed(call(), second))
    assert (sorted(got.calls), got.failure) == ([*CALL, ("c2", "other", '{"b":2}')], None)


def chunk(finish: str | None = None, **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": finish, **choice}]}


@pytest.mark.rule("Q13")
@pytest.mark.parametrize("streamed", ["", "Hel", "Hello"])
async def test_c2_a_chat_completion_told_in_deltas_and_as_a_message_is_one_answer(streamed: str) -> None:
    made = {"id": "c1", "type": "function", "function": {"name": "wipe", "arguments": ARGUMENTS}}
    parts = [chunk(delta={"content": streamed}, message={"content": streamed})] if streamed else []
    if streamed == "Hello":
        parts.append(chunk(delta={"tool_calls": [{"index": 0, **made}]}))
    last = chunk("tool_calls", message={"role": "assistant", "content": "Hello", "tool_calls": [made]})
    got = await heard(OpenAIChat, *parts, last)
    assert (got.text, got.calls, got.failure) == ("Hello", CALL, None)


@pytest.mark.rule("Q13")
async def test_c2_arguments_repeated_whole_in_a_last_delta_are_not_doubled() -> None:
    function = {"name": "wipe", "arguments": ARGUMENTS}
    first = chunk(delta={"tool_calls": [{"index": 0, "id": "c1", "function": function}]})
    again = chunk("tool_calls", delta={"tool_calls": [{"index": 0, "id": "c1", "function": function}]})
    assert (await heard(OpenAIChat, first, again)).calls == CALL


@pytest.mark.rule("Q13")
async def test_c2_a_message_that_contradicts_its_deltas_fails_honestly() -> None:
    got = await heard(OpenAIChat, chunk(delta={"content": "yes"}), chunk("stop", message={"content": "no"}))
    assert got.code == "MALFORMED_RESPONSE"


@pytest.mark.rule("Q13")
@pytest.mark.parametrize(
    ("deltas", "arguments", "code"),
    [
        ((), '{"path":"/tmp/x"}', None), (('{"path": ', '"/tmp/x"}'), '{"path": "/tmp/x"}', None),
        (('{"path":',), '{"path":"/tmp/x"}', None), (('{"path": "/y"}',), None, "MALFORMED_RESPONSE"),
    ],
)  # fmt: skip
async def test_c2_input_at_the_start_of_a_block_and_its_deltas_are_one_input(
    deltas: tuple[str, ...], arguments: str | None, code: str | None
) -> None:
    block = {"type": "tool_use", "id": "c1", "name": "wipe", "input": {"path": "/tmp/x"}}
    pieces = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}}
        for text in deltas
    ]
    got = await heard(
        Anthropic,
        {"type": "content_block_start", "index": 0, "content_block": block},
        *pieces,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    )
    assert (got.calls, got.code) == ([] if arguments is None else [("c1", "wipe", arguments)], code)


@pytest.mark.rule("Q13", "X3")
def test_a_telling_joins_halves_of_characters_and_bounds_its_repetitions() -> None:
    telling = Telling("a text")
    assert telling.more("a\ud83d") == "a\ud83d"
    assert telling.whole("a\U0001f600b") == "\ude00b"
    assert telling.whole(" a\U0001f600b ") == ""
    for _ in range(MAX_TELLINGS - 2):
        telling.whole("a")
    with pytest.raises(ModelFailure, match="times"):
        telling.whole("a")
