"""A conversation in a real terminal: typing, steering, stopping, leaving."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.chat_server import ChatServer, Hold, serving
from tests.cli.terminal import CONTROL_C, CONTROL_D, DEADLINE, Terminal

pytestmark = pytest.mark.slow

PROMPT = "› "


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving() as script:
        yield script


@pytest.fixture
def terminal(server: ChatServer, tmp_path: Path) -> Iterator[Terminal]:
    with Terminal(["run", "--base-url", server.url, "--no-save"], tmp_path) as run:
        run.until("you talk to wool (openai-chat)")
        run.until(PROMPT)
        yield run


def test_a_line_is_a_prompt_and_the_answer_streams(terminal: Terminal, server: ChatServer) -> None:
    hold = Hold()
    server.answers = [["Warp ", hold, "and weft."]]
    terminal.line("hello")
    terminal.until("Warp")
    hold.released.set()
    terminal.until("and weft.")
    terminal.until(PROMPT)
    assert server.said(0) == ["hello"]
    terminal.type(CONTROL_D)
    assert terminal.end() == 0


def test_a_line_typed_while_it_works_steers_and_output_waits_for_it(terminal: Terminal, server: ChatServer) -> None:
    first, second = Hold(), Hold()
    server.answers = [["One ", first, "two ", second, "three."], ["As you say."]]
    terminal.line("count")
    terminal.until("One")
    terminal.type("in Ger")
    terminal.until("› in Ger")
    first.released.set()
    assert second.reached.wait(DEADLINE)
    terminal.type("man")
    terminal.line(", please")
    assert "two" not in terminal.until("› in German, please")
    terminal.until("two")
    terminal.until("steering: heard at the next step")
    second.released.set()
    terminal.until("three.")
    terminal.until("↪ in German, please")
    terminal.until("As you say.")
    terminal.until(PROMPT)
    assert server.said(1) == ["count", "One two three.", "in German, please"]


def test_next_queues_a_turn_of_its_own(terminal: Terminal, server: ChatServer) -> None:
    hold = Hold()
    server.answers = [["One ", hold, "done."], ["Two done."]]
    terminal.line("one")
    terminal.until("One")
    terminal.line("/next two")
    terminal.until("queued as number 1")
    terminal.line("/queue")
    terminal.until("next turn: two")
    hold.released.set()
    terminal.until("↪ two")
    terminal.until("Two done.")
    terminal.until(PROMPT)
    assert server.said(1) == ["one", "One done.", "two"]


def test_control_c_stops_the_turn_keeps_the_text_and_drops_what_waits(terminal: Terminal, server: ChatServer) -> None:
    hold = Hold()
    server.answers = [["Said so far ", hold], ["On we go."]]
    terminal.line("one")
    terminal.until("Said so far")
    terminal.line("/next two")
    terminal.until("queued")
    assert hold.reached.wait(DEADLINE)
    terminal.type(CONTROL_C)
    terminal.until("dropped: two")
    terminal.until("stopped by you")
    terminal.until(PROMPT)
    assert hold.dropped.wait(DEADLINE), "the connection to the server is closed"
    terminal.line("go on")
    terminal.until("On we go.")
    assert [text.strip() for text in server.said(1)] == ["one", "Said so far", "go on"]


def test_control_c_twice_leaves_also_while_it_works(terminal: Terminal, server: ChatServer) -> None:
    hold = Hold()
    server.answers = [["Said so far ", hold]]
    terminal.line("one")
    terminal.until("Said so far")
    terminal.type(CONTROL_C)
    terminal.until("stopped by you")
    terminal.type(CONTROL_C)
    assert terminal.end() == 130
    assert "Traceback" not in terminal.screen


def test_control_c_when_idle_asks_first_and_typing_takes_it_back(terminal: Terminal) -> None:
    terminal.type(CONTROL_C)
    terminal.until("Ctrl-C again leaves")
    terminal.type("x")
    terminal.until("› x")
    terminal.type(CONTROL_C)
    terminal.until(PROMPT)
    terminal.type(CONTROL_C)
    terminal.until("Ctrl-C again leaves")
    terminal.type(CONTROL_C)
    assert terminal.end() == 130


def test_a_third_control_c_does_not_wait_for_what_will_not_stop(tmp_path: Path) -> None:
    """A model that shields itself is waited for, until the user has had enough."""
    stubborn = tmp_path / "sitecustomize.py"
    stubborn.write_text(
        "import trio\n"
        "from treadle_cli.models import routes\n"
        "from treadle.models.scripted import ScriptedModel\n"
        "async def stream():\n"
        "    with trio.CancelScope(shield=True):\n"
        "        await trio.sleep_forever()\n"
        "    yield\n"
        "routes.echo_model = lambda: ScriptedModel([lambda request: stream()])\n"
    )
    with Terminal(["run", "--no-save"], tmp_path, extra_path=str(tmp_path)) as terminal:
        terminal.until(PROMPT)
        terminal.line("hello")
        terminal.until(PROMPT + "hello")
        terminal.type(CONTROL_C)
        terminal.until("stopping")
        terminal.type(CONTROL_C)
        terminal.until("leaving")
        terminal.type(CONTROL_C)
        terminal.until("left without waiting")
        assert terminal.end() == 130


def test_keys_edit_the_line_and_earlier_lines_come_back(terminal: Terminal, server: ChatServer) -> None:
    terminal.type("hellp\x7fo")
    terminal.line("")
    terminal.until("Done.")
    terminal.until(PROMPT)
    terminal.type("\x1b[A")
    terminal.until("› hello")
    terminal.line(" again")
    terminal.until("Done.")
    assert server.said(1)[-1] == "hello again"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/help", "/next TEXT"),
        ("/queue", "nothing waits"),
        ("/stop", "nothing is running"),
        ("/next", "needs the text"),
        ("/dance", "there is no /dance"),
    ],
)
def test_slash_commands_say_what_they_do(terminal: Terminal, server: ChatServer, line: str, told: str) -> None:
    terminal.line(line)
    terminal.until(told)
    terminal.until(PROMPT)
    assert server.requests == []
    terminal.line("/quit")
    assert terminal.end() == 0


def test_a_line_may_begin_with_a_slash_all_the_same(terminal: Terminal, server: ChatServer) -> None:
    for number, (line, text) in enumerate(
        [("//quit now", "/quit now"), ("/etc/passwd is a file", "/etc/passwd is a file")]
    ):
        terminal.line(line)
        terminal.until("Done.")
        terminal.until(PROMPT)
        assert server.said(number)[-1] == text


def test_a_request_to_terminate_winds_down_and_leaves_the_terminal_as_it_was(
    terminal: Terminal, server: ChatServer
) -> None:
    hold = Hold()
    server.answers = [["Said ", hold]]
    terminal.line("one")
    terminal.until("Said")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end() == 130
    assert hold.dropped.wait(DEADLINE)


@pytest.mark.rule("X3")
def test_an_answer_cannot_move_the_cursor(terminal: Terminal, server: ChatServer) -> None:
    server.answers = [["\x1b[2J\x1b[H", "clean"]]
    terminal.line("hello")
    terminal.until("␛[2J␛[Hclean")


def test_a_dumb_terminal_echoes_by_itself(server: ChatServer, tmp_path: Path) -> None:
    with Terminal(["run", "--base-url", server.url, "--no-save"], tmp_path, term="dumb") as terminal:
        terminal.until(PROMPT)
        os.write(terminal.descriptor, b"hello\n")
        terminal.until("Done.")
        terminal.until(PROMPT)
        terminal.type(CONTROL_D)
        assert terminal.end() == 0


def test_a_session_says_how_to_go_on_and_shows_where_it_was(server: ChatServer, tmp_path: Path) -> None:
    words = ["run", "--base-url", server.url]
    with Terminal(words, tmp_path) as terminal:
        terminal.until(PROMPT)
        terminal.line("the first thing")
        terminal.until("Done.")
        terminal.until(PROMPT)
        terminal.type(CONTROL_D)
        terminal.until("go on with: treadle run --continue")
        assert terminal.end() == 0
    with Terminal([*words, "--continue"], tmp_path) as terminal:
        terminal.until("goes on after 1 turn")
        terminal.until("the first thing")
        terminal.until(PROMPT)
