"""``treadle models``: which routes there are, and which of them answer."""

import os
import socket
from collections.abc import Iterator

import pytest
from attrs import evolve

from tests.cli.chat_server import ChatServer, serving
from treadle_cli import main
from treadle_cli.models.routes import PROVIDERS

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving() as script:
        yield script


@pytest.fixture(autouse=True)
def no_keys_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TREADLE_")]:
        monkeypatch.delenv(name)
    for provider in PROVIDERS.values():
        monkeypatch.delenv(provider.api_key_env, raising=False)


@pytest.fixture
def chat_is_here(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> ChatServer:
    """The route of chat completions leads to the test's server, and has a key."""
    monkeypatch.setitem(PROVIDERS, "openai-chat", evolve(PROVIDERS["openai-chat"], base_url=server.url))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setitem(PROVIDERS, "openai-responses", evolve(PROVIDERS["openai-responses"], base_url=server.url))
    return server


def rows(capsys: Capture) -> dict[str, list[str]]:
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    return {line[0]: line[1:] for line in lines}


@pytest.mark.rule("Q4")
def test_every_route_is_listed_and_one_without_a_key_is_not_asked(capsys: Capture) -> None:
    assert main(["models"]) == 0
    shown = rows(capsys)
    assert list(shown) == ["embedded", *PROVIDERS]
    for name, provider in PROVIDERS.items():
        assert shown[name] == [provider.base_url, f"{provider.api_key_env} (not set)", "not asked"]


@pytest.mark.rule("Q4")
def test_a_route_with_a_key_is_asked_for_its_models(chat_is_here: ChatServer, capsys: Capture) -> None:
    chat_is_here.models = ["wool", "silk"]
    assert main(["models"]) == 0
    shown = rows(capsys)
    assert shown["openai-chat"] == [chat_is_here.url, "OPENAI_API_KEY (set)", "answers; 2 models"]
    assert shown["openai-responses"][2] == "answers; 2 models"
    assert shown["anthropic"][2] == "not asked"


def test_without_probing_nothing_goes_over_the_network(chat_is_here: ChatServer, capsys: Capture) -> None:
    assert main(["models", "--no-probe"]) == 0
    assert rows(capsys)["openai-chat"][1:] == ["OPENAI_API_KEY (set)", "not asked"]
    assert main(["models", "openai-chat", "--no-probe"]) == 0
    assert rows(capsys)["openai-chat"][1:] == ["OPENAI_API_KEY (set)", "not asked"]


@pytest.mark.rule("Q7")
def test_a_route_that_does_not_answer_says_why_and_the_status_tells(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        monkeypatch.setitem(PROVIDERS, "deepseek", evolve(PROVIDERS["deepseek"], base_url=address))
        monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-secret")
        assert main(["models"]) == 1
        streams = capsys.readouterr()
        assert "TRANSPORT: " in streams.out
        assert "sk-secret" not in streams.out + streams.err
        assert main(["models", "deepseek"]) == 1
        assert "is the server running" in capsys.readouterr().err


def test_a_server_that_says_nothing_is_given_up(capsys: Capture) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        assert main(["models", "--base-url", address, "--timeout", "0.05"]) == 1
    assert "TIMEOUT: no answer within 0.05 s" in capsys.readouterr().err


def test_the_models_of_one_server_are_listed_as_run_takes_them(chat_is_here: ChatServer, capsys: Capture) -> None:
    chat_is_here.models = ["wool", "fine/silk"]
    assert main(["models", "openai-chat"]) == 0
    named = capsys.readouterr().out.splitlines()
    assert named == ["openai-chat/wool", "openai-chat/fine/silk"]
    assert main(["run", "--no-save", "--model", named[1], "Hi"]) == 0
    assert capsys.readouterr().out == "Done.\n"
    assert chat_is_here.requests[0]["model"] == "fine/silk"
    assert chat_is_here.headers[0]["Authorization"] == "Bearer sk-secret"


def test_the_models_of_a_server_of_your_own_are_listed_by_their_ids(server: ChatServer, capsys: Capture) -> None:
    server.models = ["wool", "\x1b[2Jsilk"]
    assert main(["models", "--base-url", server.url]) == 0
    assert capsys.readouterr().out == "wool\n␛[2Jsilk\n"


def test_a_missing_key_is_told_by_name(capsys: Capture) -> None:
    assert main(["models", "anthropic"]) == 1
    assert "MISSING_CREDENTIAL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nobody"], "there is no provider 'nobody'"),
        (["--api-key-env", "KEY"], "belongs to one server"),
        (["--timeout", "0"], "must be positive"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(words: list[str], told: str, capsys: Capture) -> None:
    assert main(["models", *words]) == 2
    assert told in capsys.readouterr().err
