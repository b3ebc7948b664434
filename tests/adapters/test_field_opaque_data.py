"""Faults of the field: opaque data of a call goes back where it came from; a secret that is echoed is not shown."""

import base64
import json
import random
import time
from typing import Any
from urllib.parse import quote

import pytest

from tests.adapters.wires import MemoryTransport, Outcome, outcome, request
from treadle import AssistantMessage, Event, ToolCall
from treadle.session import AssistantMessageAdded, decode_event, encode_event
from treadle.words.messages import user_message
from treadle_adapters.http.redaction import HIDDEN, Secrets, Stream
from treadle_adapters.models.openai_chat import OpenAIChat

GOOGLE = "http://gemini.test/v1"
SIGNATURE = {"google": {"thought_signature": "c2lnbmF0dXJl\ud83d"}}
KEY = "sk-very+secret/0123456789=key"


def line(finish: str | None = None, **delta: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": delta, "finish_reason": finish}]}).encode() + b"\n\n"


def calling(**more: Any) -> dict[str, Any]:
    return {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}, **more}


async def heard(*pieces: bytes, url: str = GOOGLE, status: int = 200, **options: Any) -> Outcome:
    async with OpenAIChat(url, transport=MemoryTransport([*pieces], status), **options) as model:
        return await outcome(model)


def sent(answer: AssistantMessage | None, url: str = GOOGLE, **options: Any) -> dict[str, Any]:
    """The answer as the next request carries it, after a stored log was read again."""
    assert answer is not None
    stored = encode_event(Event("assistant/message", 0, 0, AssistantMessageAdded(answer, "a1")))
    kept = decode_event(stored).data.message
    asked = request(user_message("q", "u"), kept)
    return json.loads(OpenAIChat(url, **options)._body(asked))["messages"][1]


# --- opaque data of calls ---------------------------------------------------------------------------------------------


@pytest.mark.rule("Q10")
@pytest.mark.parametrize("name", ["extra_content", "provider_specific_fields", "thought_signature"])
@pytest.mark.parametrize("whole", [True, False])
async def test_c5_opaque_data_of_a_call_goes_back_with_it(name: str, whole: bool) -> None:
    value: Any = "c2ln" if name == "thought_signature" else {"google": {"thought_signature": "c2ln"}}
    made = calling(**{name: value})
    if whole:
        body = {"choices": [{"message": {"content": None, "tool_calls": [made]}, "finish_reason": "tool_calls"}]}
        got = await heard(json.dumps(body).encode())
    else:
        got = await heard(line(tool_calls=[made]), line("tool_calls"))
    assert got.failure is None
    (call,) = sent(got.message)["tool_calls"]
    assert call == {
        "id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}, name: value,
    }  # fmt: skip


@pytest.mark.rule("Q10")
async def test_c5_each_of_several_calls_keeps_its_own_data_also_inside_its_function() -> None:
    inner = {"name": "look", "arguments": "{}", "provider_specific_fields": {"thought_signature": "b"}}
    calls = [calling(extra_content={"n": 1}), calling(index=1, id="c2"), calling(index=2, id="c3", function=inner)]
    got = await heard(line(tool_calls=calls), line("tool_calls"))
    first, second, third = sent(got.message)["tool_calls"]
    assert first["extra_content"] == {"n": 1}
    assert second.keys() == {"id", "type", "function"}
    assert third["function"] == inner


@pytest.mark.rule("Q10")
async def test_c5_opaque_data_goes_to_no_other_adapter_and_no_other_host() -> None:
    got = await heard(line(tool_calls=[calling(extra_content=SIGNATURE)], extra_content={"m": 1}), line("tool_calls"))
    assert sent(got.message)["extra_content"] == {"m": 1}
    plain = {"role": "assistant", "content": None, "tool_calls": [{k: v for k, v in calling().items() if k != "index"}]}
    assert sent(got.message, "http://other.test/v1") == plain
    assert sent(got.message, name="another") == plain


@pytest.mark.rule("Q10")
@pytest.mark.parametrize("damaged", ["x", 5, [1], {"endpoint": "gemini.test", "function": 5, "other": 1}, {}])
async def test_c5_damaged_opaque_data_degrades_that_call_only(damaged: Any) -> None:
    answer = AssistantMessage((ToolCall("c1", "look", "{}", damaged),), "openai-chat", damaged)
    assert sent(answer)["tool_calls"] == [{k: v for k, v in calling().items() if k != "index"}]


@pytest.mark.rule("Q10")
async def test_c5_reasoning_details_are_joined_and_go_back_in_their_order() -> None:
    def detail(kind: str, **fields: Any) -> dict[str, Any]:
        return {"reasoning_details": [{"type": f"reasoning.{kind}", "index": 0, **fields}]}

    got = await heard(
        line(**detail("text", text="Fir", signature=None)),
        line(**detail("text", text="st.")),
        line(**detail("text", text="", signature="sig")),
        line(**detail("encrypted", data="e1", id="r1")),
        line("stop", content="so"),
    )
    assert (got.reasoning, got.text) == ("First.", "so")
    assert sent(got.message)["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "First.", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 0, "data": "e1", "id": "r1"},
    ]


@pytest.mark.rule("X3")
async def test_c5_endless_or_deep_opaque_data_fails_honestly() -> None:
    big = line(tool_calls=[calling(extra_content={"x": "y" * 1_000_000})])
    assert (await heard(*[big] * 5, line("tool_calls"))).code == "MALFORMED_RESPONSE"
    deep: Any = 1
    for _ in range(300):
        deep = {"a": deep}
    assert (
        await heard(line(tool_calls=[calling(extra_content=deep)]), line("tool_calls"))
    ).code == "MALFORMED_RESPONSE"


# --- secrets that are echoed ------------------------------------------------------------------------------------------

FORMS = {
    "plain": KEY,
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 of the header": base64.b64encode(f"Authorization: Bearer {KEY}\n".encode()).decode(),
    "base64 in urls": base64.urlsafe_b64encode(f"x{KEY}".encode()).decode(),
    "url": quote(KEY, safe=""),
    "url in small letters": quote(KEY, safe="").replace("%2B", "%2b").replace("%2F", "%2f").replace("%3D", "%3d"),
    "hexadecimal": KEY.encode().hex(),
    "lines": f"{KEY[:9]}\n{KEY[9:20]}\r\n  {KEY[20:]}",
}


def leaks(shown: str) -> bool:
    """Whether more than half of the secret can be read from ``shown`` in one of its forms."""
    squeezed = "".join(shown.split())
    for form in FORMS.values():
        core = "".join(form.split())
        if any([core[at : at + 12] in squeezed for at in range(len(core) - 12) if KEY[:3] not in core[at : at + 12]]):
            return core[-16:-4] in squeezed
    return KEY in squeezed


@pytest.mark.rule("X1")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("field", ["content", "reasoning_content", "arguments"])
async def test_c12_a_key_that_an_answer_echoes_reaches_nobody(form: str, size: int, field: str) -> None:
    text = f"Your key is {FORMS[form]}, and that is all."
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    if field == "arguments":
        wrap: list[dict[str, Any]] = [
            {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "t", "arguments": part}}]} for part in parts
        ]
    else:
        wrap = [{field: part} for part in parts]
    got = await heard(*[line(**delta) for delta in wrap], line("stop"), api_key=KEY)
    assert got.failure is None
    shown = got.text + got.reasoning + "".join([arguments for _, _, arguments in got.calls])
    assert not leaks(shown), shown
    assert shown.startswith("Your key is ")
    assert shown.endswith(", and that is all.")
    assert HIDDEN in shown


@pytest.mark.rule("X1")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", [0, 280, 290, 1_990])
async def test_c12_a_key_that_an_error_echoes_reaches_nobody_also_where_the_message_is_cut(
    form: str, before: int
) -> None:
    text = "x" * before + " " + FORMS[form]
    for piece in (
        text,
        json.dumps({"error": {"message": text}}),
        json.dumps({"error": {"code": text[:90], "x": text}}),
    ):
        got = await heard(piece.encode(), status=401, api_key=KEY)
        assert got.failure is not None
        assert not leaks(got.failure.message), got.failure.message
    got = await heard(b"data: " + json.dumps({"error": {"message": text}}).encode() + b"\n\n", api_key=KEY)
    assert got.failure is not None
    assert not leaks(got.failure.message), got.failure.message


@pytest.mark.rule("X1")
async def test_c12_a_key_in_a_name_an_id_a_finish_or_replay_data_is_hidden() -> None:
    made = calling(id=f"c-{KEY}", function={"name": f"t-{KEY}", "arguments": "{}"}, extra_content={"k": [KEY]})
    got = await heard(line(tool_calls=[made]), line("tool_calls"), api_key=KEY)
    odd = await heard(line(content="x"), line(f"odd {KEY}"), api_key=KEY)
    assert KEY not in repr(got.chunks) + repr(odd.chunks)
    assert (got.calls[0][1], odd.finish) == (f"t-{HIDDEN}", f"odd {HIDDEN}")


@pytest.mark.rule("X1")
@pytest.mark.parametrize("key", ["ollama", "lm-studio", "none", None])
async def test_c12_a_plain_word_given_for_a_key_is_not_taken_out_of_answers(key: str | None) -> None:
    headers = {"X-Title": "treadle-application"}
    got = await heard(
        line(content="ollama lm-studio none treadle-application"), line("stop"), api_key=key, headers=headers
    )
    assert got.text == "ollama lm-studio none treadle-application"


@pytest.mark.rule("X1")
def test_c12_text_that_only_begins_like_a_secret_comes_out_whole() -> None:
    secrets = Secrets([KEY])
    chance = random.Random(7)
    for _ in range(300):
        text = (
            "".join([chance.choice([KEY[: chance.randrange(1, 14)], "sk", "s", " ", "word ", "\n"]) for _ in range(8)])
            + "."
        )
        stream, out, at = Stream(secrets), [], 0
        while at < len(text):
            size = chance.randrange(1, 6)
            out.append(stream.feed(text[at : at + size]))
            at += size
        assert "".join(out) + stream.end() == text


@pytest.mark.slow
@pytest.mark.rule("X1", "X3")
def test_c12_looking_for_secrets_costs_little() -> None:
    stream = Stream(Secrets([KEY]))
    before = time.process_time()
    for _ in range(20_000):
        stream.feed("token ")
    stream.feed("s k" * 300_000)
    for _ in range(20_000):
        stream.feed(KEY[:9] + " ")
        stream.feed(" ")
    secrets = Secrets([KEY])
    assert KEY not in secrets.hide(f"{KEY} " * 20_000)
    assert KEY not in secrets.hide(f"{KEY} " * 100_000)
    assert time.process_time() - before < 5.0
