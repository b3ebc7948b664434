"""Which model the command talks to, and the embedded one that needs nothing."""

import re
import sys
from collections.abc import Iterator

import pytest

from tests.cli.chat_server import ChatServer, serving
from treadle import (
    AssistantMessage,
    Message,
    MisuseError,
    ModelRequest,
    Signal,
    Text,
    ToolCall,
    ToolError,
    ToolResultMessage,
)
from treadle.models import CallConfig, ModelAdapter, ToolResult
from treadle.words.messages import user_message
from treadle_cli.extras import MissingExtra
from treadle_cli.models.echo import INTRODUCTION, MOST, answer_to
from treadle_cli.models.routes import EMBEDDED, PROVIDERS, Route, Wish, route_for
from treadle_cli.run.example_tools import EXAMPLE_TOOLS


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving() as script:
        yield script


async def found(wish: Wish) -> Route:
    async with route_for(wish) as route:
        return route


async def test_without_a_word_about_it_the_embedded_model_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-must-not-be-used")
    route = await found(Wish())
    assert route.provider == EMBEDDED
    assert str(route) == "the embedded model"


@pytest.mark.parametrize("name", PROVIDERS)
async def test_each_provider_has_its_adapter_and_its_usual_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = PROVIDERS[name].api_key_env
    monkeypatch.delenv(key, raising=False)
    with pytest.raises(MisuseError, match=f"the environment variable {key} holds no key"):
        await found(Wish(provider=name, model="m"))
    monkeypatch.setenv(key, "sk-secret-of-mine")
    route = await found(Wish(provider=name, model="m"))
    assert isinstance(route.adapter, ModelAdapter)
    assert (route.provider, route.model) == (name, "m")
    assert "secret" not in repr(route) + str(route)
    assert await found(Wish(model=f"{name}/org/m")) != route
    assert (await found(Wish(model=f"{name}/org/m"))).model == "org/m"


async def test_at_an_address_of_your_own_no_key_is_read_unless_it_is_named(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-must-not-be-sent")
    route = await found(Wish(base_url=server.url, model="anthropic/x"))
    assert (route.provider, route.model) == ("openai-chat", "anthropic/x")
    assert "OPENAI" not in repr(route.adapter)


async def test_the_one_model_of_a_server_need_not_be_named(server: ChatServer) -> None:
    assert (await found(Wish(base_url=server.url))).model == "wool"


async def test_of_several_models_one_must_be_named(server: ChatServer) -> None:
    server.models = ["wool", "silk\x1b[31m"]
    with pytest.raises(MisuseError, match=re.escape("--model NAME; the server has wool, silk␛[31m")):
        await found(Wish(base_url=server.url))


async def test_a_server_that_lists_nothing_says_so() -> None:
    with pytest.raises(MisuseError, match=r"--model NAME \(the server did not list any"):
        await found(Wish(base_url="http://127.0.0.1:9/v1"))


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (Wish(model="m"), "where is model 'm'"),
        (Wish(provider="loom", model="m"), "no provider 'loom'; known are openai-chat"),
        (Wish(provider=EMBEDDED, base_url="http://127.0.0.1/v1"), "embedded model needs neither"),
        (Wish(api_key_env="NO_SUCH_KEY", model="m"), "NO_SUCH_KEY holds no key"),
        (Wish(base_url="gopher://x", model="m"), "must begin with http"),
    ],
)
async def test_a_wish_that_names_no_model_says_what_to_add(
    wish: Wish, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(MisuseError, match=told):
        await found(wish)


async def test_without_the_models_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("treadle_adapters.models.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtra, match=r"pip install 'treadle\[models\]'"):
        await found(Wish(base_url="http://127.0.0.1/v1", model="m"))


# --- the embedded model -----------------------------------------------------------------------------------------------


def asked(*messages: Message, tools: bool = True) -> ModelRequest:
    schemas = tuple(tool.schema for tool in EXAMPLE_TOOLS) if tools else ()
    return ModelRequest(CallConfig("embedded", "echo"), messages, schemas, "a", "s", Signal())


def said(text: str) -> Message:
    return user_message(text, f"id of {text}")


def answered(text: str, *calls: ToolCall) -> Message:
    return AssistantMessage((Text(text), *calls))


def test_the_first_answer_echoes_and_explains() -> None:
    answer = answer_to(asked(said("good day")))
    assert answer.text == f"You said: good day\n\n{INTRODUCTION}"
    assert "--base-url" in INTRODUCTION


def test_later_answers_echo_what_is_new_steering_included() -> None:
    answer = answer_to(asked(said("good day"), answered("Hm."), said("one"), said("two")))
    assert answer.text == "You said: one / two"


def test_an_empty_history_is_no_fault() -> None:
    assert answer_to(asked()).text.startswith("You said nothing.")


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("2 + 3", "add", {"a": 2, "b": 3}),
        ("please add -1.5 and 4", "add", {"a": -1.5, "b": 4}),
        ("the sum of 10 and 20", "add", {"a": 10, "b": 20}),
        ("what time is it?", "now", {}),
    ],
)
def test_it_calls_tools_that_are_offered(text: str, name: str, arguments: dict[str, float]) -> None:
    (call,) = answer_to(asked(said(text))).calls
    assert (call.name, call.arguments) == (name, arguments)
    assert answer_to(asked(said(text), tools=False)).calls == ()


def test_it_tells_the_results_and_what_was_said_meanwhile() -> None:
    history = [said("2 + 3"), answered("", ToolCall("c", "add"))]
    history += [ToolResultMessage((ToolResult("c", (Text("5"),)),))]
    assert answer_to(asked(*history)).text == "That gives 5."
    assert answer_to(asked(*history, said("hurry"))).text == "That gives 5. And you said meanwhile: hurry"
    failed = ToolResultMessage((ToolResult("c", (Text("no"),), True),))
    assert answer_to(asked(*history[:2], failed)).text == "The tool failed: no"


def test_it_counts_but_not_for_ever() -> None:
    assert answer_to(asked(said("count to 3"))).text == "1, 2, 3."
    assert answer_to(asked(said("count to 99999999999"))).text.endswith(f" {MOST}.")


# --- the example tools ------------------------------------------------------------------------------------------------

TOOLS = {tool.name: tool for tool in EXAMPLE_TOOLS}


@pytest.mark.parametrize(("a", "b", "total"), [(2, 3, "5"), (0.5, 0.25, "0.75"), (0.5, 0.5, "1")])
async def test_add_adds(a: float, b: float, total: str) -> None:
    assert repr(await TOOLS["add"].execute({"a": a, "b": b}, None)) == total  # type: ignore[arg-type]


async def test_now_tells_the_time_in_a_zone() -> None:
    told = await TOOLS["now"].execute({}, None)  # type: ignore[arg-type]
    assert re.fullmatch(r"\w+day, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", told)


@pytest.mark.parametrize("zone", ["Atlantis/Harbour", "../../etc/passwd", "\x00"])
async def test_now_refuses_what_is_no_zone(zone: str) -> None:
    with pytest.raises(ToolError, match="no time zone"):
        await TOOLS["now"].execute({"timezone": zone}, None)  # type: ignore[arg-type]
