"""``treadle run`` with local tools and servers of tools: what is offered, what is asked, and who answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from rich.console import Console

from tests.adapters.mcp.stage import SERVER
from tests.cli.chat_server import serving
from tests.cli.terminal import CONTROL_D, Terminal
from treadle import Answer, Call, ModelRequest, ScriptedModel
from treadle.models import Usage
from treadle_adapters.mcp import HTTPServer, StdioServer, servers_named
from treadle_cli import main
from treadle_cli.run.approval import Approval
from treadle_cli.run.screen import Screen, Stream

Capture = pytest.CaptureFixture[str]
Play = Callable[..., int]


@pytest.fixture
def requests() -> list[ModelRequest]:
    return []


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, requests: list[ModelRequest]) -> Play:
    """Run the command in a folder of its own, with a script in the place of the embedded model."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def run(*words: str, script: list[Any]) -> int:
        model = ScriptedModel(script)
        model.requests = requests
        monkeypatch.setattr("treadle_cli.models.routes.echo_model", lambda: model)
        monkeypatch.setattr("treadle_cli.run.declared.PARTS", {"embedded": lambda: model})
        return main(["run", *words])

    return run


def offered(requests: list[ModelRequest]) -> list[str]:
    return [tool.name for tool in requests[0].tools]


def server(record: Path) -> str:
    return f"odd={sys.executable} -S -E {SERVER} {record} well"


def test_local_tools_are_offered_and_nothing_is_changed_unless_somebody_says_so(
    play: Play, requests: list[ModelRequest], capsys: Capture
) -> None:
    script = [Answer(calls=[Call("write_file", {"path": "a.txt", "content": "x"})]), "done"]
    assert play("go", "--tools", "files,shell", script=script) == 0
    assert offered(requests) == ["edit_file", "list_files", "read_file", "run_command", "search_files", "write_file"]
    assert not Path("a.txt").exists()
    told = capsys.readouterr()
    assert told.out == "done\n"
    assert "nobody is here to be asked (write_file); --yes approves all calls" in told.err


def test_yes_approves_all_calls(play: Play, capsys: Capture) -> None:
    script = [Answer(calls=[Call("run_command", {"command": "echo made | tee a.txt"})]), "done"]
    assert play("go", "--tools", "shell", "--yes", script=script) == 0
    assert Path("a.txt").read_text() == "made\n"
    assert "made" in capsys.readouterr().err  # as it was put out


def test_a_server_of_tools_is_named_on_the_command_line(
    play: Play, requests: list[ModelRequest], tmp_path: Path, capsys: Capture
) -> None:
    script = [Answer(calls=[Call("odd__steps", {})]), "done"]
    assert play("go", "--mcp", server(tmp_path / "record"), script=script) == 0
    assert "odd__echo" in offered(requests)
    assert "now" not in offered(requests)
    assert "odd__steps: 1 of 3 step 0" in capsys.readouterr().err


def test_a_server_of_tools_is_declared_in_the_configuration(
    play: Play, requests: list[ModelRequest], tmp_path: Path
) -> None:
    declared = f"""
[models.m]
use = "embedded"
[default_model]
provider = "m"
model = "m"
[mcp.odd]
command = ["{sys.executable}", "-S", "-E", "{SERVER}", "{tmp_path / "record"}", "well"]
asks = "never"
limits = {{ call_seconds = 20, end_seconds = 0.5 }}
[[agents]]
id = "a"
"""
    Path("treadle.toml").write_text(declared)
    assert play("go", "--config", "treadle.toml", script=["hello"]) == 0
    assert "odd__echo" in offered(requests)


@pytest.mark.rule("B1", "B3")
def test_a_budget_is_declared_in_the_configuration(
    play: Play, requests: list[ModelRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    declared = """
[models.m]
use = "embedded"
[default_model]
provider = "m"
model = "m"
[budgets.session]
cost = 0.003
[budgets.prices.m]
input = 10
output = 10
[[agents]]
id = "a"
"""
    Path("treadle.toml").write_text(declared)
    spending = Answer(calls=[Call("look")], usage=Usage(input_tokens=200, output_tokens=50))
    assert play("go", "--config", "treadle.toml", script=[spending] * 5) == 1
    told = capsys.readouterr().err
    assert len(requests) == 2
    assert "the session has used 0.0025 of 0.003 cost" in told
    assert "the session's budget of 0.003 cost is reached" in told
    assert "give it more where the budgets are made" in told
    Path("treadle.toml").write_text(declared.replace("cost =", "costs ="))
    assert play("go", "--config", "treadle.toml", script=["hello"]) == 1
    assert "costs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("[mcp.odd]\ncommand = 'x'\nurl = 'http://a/'", "[mcp.odd]: give either command or url"),
        ("[mcp.odd]\n", "[mcp.odd]: give either command or url"),
        ("[mcp.odd]\ncommand = 'x'\nnonsense = 1", "nonsense"),
        ("[mcp.'a b']\ncommand = 'x'", "a server of tools is named by"),
        ("[mcp.odd]\nurl = 'ftp://a/'", "begins with http://"),
        (
            "[mcp.odd]\nurl = 'http://a/'\nheaders_env = {Authorization = 'NOT_SET_ANYWHERE'}",
            "NOT_SET_ANYWHERE is not set",
        ),
        ("[mcp.odd]\ncommand = 'x'\nlimits = {call_seconds = -1}", "call_seconds must be a positive number"),
        ("[mcp.odd]\ncommand = 'x'\nlimits = {patience = 1}", "patience"),
        ("[mcp.odd]\ncommand = 'x'\nasks = 'sometimes'", "asks"),
    ],
)
def test_a_wrong_table_is_named(play: Play, table: str, told: str, capsys: Capture) -> None:
    Path("treadle.toml").write_text(table)
    assert play("go", "--config", "treadle.toml", script=[]) != 0
    assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--mcp", "a 'b"), "cannot be read"),
        (("--mcp", "x=a", "--mcp", "x=b"), "two servers are named 'x'"),
        (("--mcp", ""), "at least one word"),
        (("--tools", "file"), "write MODULE:NAME"),
    ],
)
def test_wrong_words_are_named(play: Play, words: tuple[str, ...], told: str, capsys: Capture) -> None:
    assert play("go", *words, script=[]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_servers_have_names_of_their_own_or_given_ones() -> None:
    found = servers_named(
        [
            "npx -y @modelcontextprotocol/server-filesystem /tmp",
            "uvx mcp-server-git",
            "python -m mcp_server_time",
            "https://user@docs.example.org:8443/mcp",
            "mine=./run.sh --fast",
            "uvx mcp-server-git",
        ]
    )
    assert list(found) == ["filesystem", "git", "mcp_server_time", "docs-example-org", "mine", "git2"]
    assert isinstance(found["docs-example-org"], HTTPServer)
    assert isinstance(found["mine"], StdioServer)
    assert found["mine"].command == ("./run.sh", "--fast")


class Proposal:
    def __init__(self, name: str) -> None:
        self.call = Call(name)


@pytest.mark.parametrize(("line", "approved"), [("y", True), (" YES ", True), ("n", False), ("no", False), ("a", True)])
async def test_a_line_answers_the_open_question(line: str, approved: bool) -> None:
    approval = Approval(Screen(*[Stream(Console(quiet=True), lambda _: None)] * 2))
    approval.present = True
    assert approval.answer(line) is False  # nothing was asked
    answers: list[bool] = []

    async def ask(name: str) -> None:
        answers.append(await approval(Proposal(name), "may it?"))  # pyright: ignore[reportArgumentType]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "tool")
        await trio.testing.wait_all_tasks_blocked()
        assert approval.answer("what is it?") is False
        assert answers == []
        assert approval.answer(line) is True
    assert answers == [approved]
    if line == "a":
        await ask("tool")
        assert answers == [True, True]
        approval.present = False
        await ask("another")
        assert answers == [True, True, False]


async def test_a_question_that_is_cancelled_is_no_longer_open() -> None:
    approval = Approval(Screen(*[Stream(Console(quiet=True), lambda _: None)] * 2))
    approval.present = True
    with trio.move_on_after(0.01):
        await approval(Proposal("tool"), "may it?")  # pyright: ignore[reportArgumentType]
    assert approval.answer("y") is False


def calling(name: str, arguments: dict[str, str]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}


@pytest.mark.slow
def test_a_person_at_the_terminal_is_shown_the_change_and_answers(tmp_path: Path) -> None:
    """The model asks twice: a first change is refused, a second one approved; live output is shown."""
    (tmp_path / "a.txt").write_text("one\n")
    edit = calling("edit_file", {"path": "a.txt", "old": "one", "new": "two"})
    command = calling("run_command", {"command": "echo loud"})
    with serving() as server:
        server.answers = [[edit], [edit], [command], ["Done."]]
        with Terminal(["run", "--base-url", server.url, "--no-save", "--tools", "files,shell"], tmp_path) as terminal:
            terminal.idle()
            terminal.line("change it")
            terminal.until("? may a.txt be changed?")
            terminal.until("+two")
            terminal.line("n")
            terminal.until("NOT_APPROVED")
            assert (tmp_path / "a.txt").read_text() == "one\n"
            terminal.until("? may a.txt be changed?", 2)
            terminal.line("y")
            terminal.until("echo loud")
            terminal.line("a")
            terminal.until("Done.")
            terminal.until("\nloud")
            assert (tmp_path / "a.txt").read_text() == "two\n"
            terminal.type(CONTROL_D)
            assert terminal.end() == 0
