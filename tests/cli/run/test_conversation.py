"""A conversation in a real terminal: typing, editing, steering, stopping, leaving."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.chat_server import ChatServer, Hold, serving
from tests.cli.terminal import CONTROL_C, CONTROL_D, DEADLINE, Terminal, call

pytestmark = pytest.mark.slow

LEFT, UP, HOME = "\x1b[D", "\x1b[A", "\x1b[H"
ALT_ENTER, CONTROL_A, CONTROL_J = "\x1b\r", "\x01", "\n"


def pasted(text: str) -> str:
    """As a terminal sends what is pasted."""
    return f"\x1b[200~{text}\x1b[201~"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving() as script:
        yield script


@pytest.fixture(params=[80, 140], ids=["80 columns", "140 columns"])
def columns(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def terminal(server: ChatServer, tmp_path: Path) -> Iterator[Terminal]:
    with Terminal(["run", "--base-url", server.url, "--no-save"], tmp_path) as run:
        run.until("you talk to wool (openai-chat)")
        run.idle()
        yield run


def test_a_line_is_a_prompt_and_the_answer_streams(terminal: Terminal, server: ChatServer) -> None:
    hold = Hold()
    server.answers = [["Warp ", hold, "and weft."]]
    terminal.line("hello")
    terminal.until("\nWarp")
    hold.released.set()
    terminal.until("\nWarp and weft.\n")
    terminal.idle()
    assert server.said(0) == ["hello"]
    terminal.type(CONTROL_D)
    assert terminal.end() == 0


# --- what is typed ----------------------------------------------------------------------------------------------------


def test_e1_e2_output_flows_above_the_line_while_one_types_at_both_widths(
    server: ChatServer, tmp_path: Path, columns: int
) -> None:
    first, second = Hold(), Hold()
    numbers = [f"{number}, " for number in range(1, 61)]
    server.answers = [["One ", first, *numbers, second, "done."], ["As you say."]]
    with Terminal(["run", "--base-url", server.url, "--no-save"], tmp_path, columns=columns) as terminal:
        terminal.idle()
        terminal.line("count")
        terminal.until("\nOne")
        terminal.type("in German")
        terminal.until("\n↪ in German")
        first.released.set()
        terminal.until("60,")  # it is shown although the line is not entered
        assert terminal.rows[-1] == "↪ in German"
        terminal.line(", please")
        terminal.until("steering: heard at the next step")
        second.released.set()
        terminal.until("As you say.")
        terminal.idle()
        rows = terminal.rows[terminal.rows.index("› count") :]
    assert server.said(1)[-1] == "in German, please"
    answer = rows[1 : rows.index("› in German, please")]
    assert " ".join(answer).split() == ["One", *"".join(numbers).split()], "no word is broken"
    assert all(len(row) > columns - 8 for row in answer[:-1]), "the rows are filled"


def test_e2_a_paste_of_several_lines_is_one_message(terminal: Terminal, server: ChatServer) -> None:
    terminal.type(pasted("one\ntwo\r\nthree"))
    terminal.until("› one\n  two\n  three")
    terminal.line("")
    terminal.until("Done.")
    terminal.idle()
    assert server.said(0) == ["one\ntwo\nthree"]


@pytest.mark.parametrize("new_line", [ALT_ENTER, CONTROL_J, "\\\r"], ids=["Alt-Enter", "Ctrl-J", "backslash"])
def test_e2_a_message_can_have_several_lines(terminal: Terminal, server: ChatServer, new_line: str) -> None:
    terminal.type(f"one{new_line}")
    terminal.type("two")
    terminal.until("› one\n  two")
    terminal.line("")
    terminal.until("Done.")
    assert server.said(0) == ["one\ntwo"]


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("hellp\x7fo", "hello"),
        (f"helo{LEFT}l", "hello"),
        (f"ello{HOME}h", "hello"),
        (f"ello{CONTROL_A}h", "hello"),
        (f"日語{LEFT}本", "日本語"),
        ("no\x15yes", "yes"),
    ],
    ids=["backspace", "left", "home", "Ctrl-A", "wide characters", "Ctrl-U"],
)
def test_e2_keys_edit_the_line(terminal: Terminal, server: ChatServer, keys: str, text: str) -> None:
    terminal.type(keys)
    terminal.until(f"› {text}")
    terminal.line("")
    terminal.until("Done.")
    assert server.said(0) == [text]


def test_wide_characters_move_the_cursor_by_two(terminal: Terminal) -> None:
    terminal.type(f"日本語{LEFT}")
    terminal.until("› 日本語")
    terminal.until_seen(lambda: terminal.cursor[1] == len("› ") + 4, "the cursor")


def test_earlier_lines_come_back(terminal: Terminal, server: ChatServer) -> None:
    terminal.line("hello")
    terminal.until("Done.")
    terminal.idle()
    terminal.type(UP)
    terminal.until("› hello", times=2)
    terminal.line(" again")
    terminal.until("Done.", times=2)
    assert server.said(1)[-1] == "hello again"


def test_what_is_typed_ahead_is_not_lost(server: ChatServer, tmp_path: Path) -> None:
    with Terminal(["run", "--base-url", server.url, "--no-save"], tmp_path, input="hel") as terminal:
        terminal.until("› hel")
        terminal.line("lo")
        terminal.until("Done.")
    assert server.said(0) == ["hello"]


def test_words_wrap_anew_when_the_terminal_is_resized(terminal: Terminal, server: ChatServer) -> None:
    hold, last = Hold(), Hold()
    server.answers = [["word " * 18, hold, "word " * 18, last]]
    terminal.line("go")
    terminal.until_seen(lambda: terminal.text.count("word") == 18, "half of it")
    terminal.resize(60)
    terminal.until_seen(lambda: "\n" + " ".join(["word"] * 12) + "\nword" in terminal.text, "shorter rows")
    hold.released.set()
    terminal.until_seen(lambda: terminal.text.count("word") == 36, "all of it")
    assert max(len(row) for row in terminal.rows[-5:]) < 60
    last.released.set()
    terminal.idle()


def test_next_queues_a_turn_of_its_own(terminal: Terminal, server: ChatServer) -> None:
    hold = Hold()
    server.answers = [["One ", hold, "done."], ["Two done."]]
    terminal.line("one")
    terminal.until("\nOne")
    terminal.line("/next two")
    terminal.until("queued as number 1")
    terminal.line("/queue")
    terminal.until("next turn: two")
    hold.released.set()
    terminal.until("↪ two")
    terminal.until("Two done.")
    terminal.idle()
    assert server.said(1) == ["one", "One done.", "two"]


@pytest.mark.rule("Z1", "Z7")
def test_a_history_is_compacted_by_a_line_and_control_c_stops_it(terminal: Terminal, server: ChatServer) -> None:
    for number in range(5):
        terminal.line(f"q{number}")
        terminal.until("Done.")
        terminal.until(f"q{number}")
        terminal.idle()
    hold = Hold()
    server.answers = [[hold, "never"]]
    terminal.line("/compact")
    terminal.until("compacting the history")
    terminal.type(CONTROL_C)
    terminal.until("the compaction was stopped; nothing changed")
    server.answers = [["They asked and were answered."]]
    terminal.line("/compact the yarn")
    terminal.until("4 messages gave way to a summary")
    terminal.line("and now?")
    terminal.until("and now?")
    terminal.idle()
    assert "They asked and were answered." in server.said(-1)[0]
    assert "the yarn" in server.said(-2)[1]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/help", "/next TEXT"),
        ("/help", "Alt-Enter"),
        ("/queue", "nothing waits"),
        ("/stop", "nothing is running"),
        ("/compact", "nothing is old enough to compact"),
        ("/next", "needs the text"),
        ("/dance", "there is no /dance"),
    ],
)
def test_slash_commands_say_what_they_do(terminal: Terminal, server: ChatServer, line: str, told: str) -> None:
    terminal.line(line)
    terminal.until(told)
    terminal.idle()
    assert server.requests == []
    terminal.line("/quit")
    assert terminal.end() == 0


def test_a_line_may_begin_with_a_slash_all_the_same(terminal: Terminal, server: ChatServer) -> None:
    for number, (line, text) in enumerate(
        [("//quit now", "/quit now"), ("/etc/passwd is a file", "/etc/passwd is a file")]
    ):
        terminal.line(line)
        terminal.until("Done.", times=number + 1)
        terminal.idle()
        assert server.said(number)[-1] == text


# --- stopping and leaving ---------------------------------------------------------------------------------------------


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
    terminal.idle()
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
    assert "Traceback" not in terminal.text


def test_control_c_when_idle_asks_first_and_typing_takes_it_back(terminal: Terminal) -> None:
    terminal.type(CONTROL_C)
    terminal.until("Ctrl-C again leaves")
    terminal.type("x")
    terminal.until("› x")
    terminal.type(CONTROL_C)
    terminal.idle()
    terminal.type(CONTROL_C)
    terminal.until("Ctrl-C again leaves", times=2)
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
        "routes.echo_model = lambda *_: ScriptedModel([lambda request: stream()])\n"
    )
    with Terminal(["run", "--no-save"], tmp_path, extra_path=str(tmp_path)) as terminal:
        terminal.idle()
        terminal.line("hello")
        terminal.until("› hello")
        terminal.type(CONTROL_C)
        terminal.until("stopping")
        terminal.type(CONTROL_C)
        terminal.until("leaving")
        terminal.type(CONTROL_C)
        terminal.until("left without waiting")
        assert terminal.end() == 130


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["SIGTERM", "SIGHUP"])
def test_e7_a_signal_ends_it_in_order_and_what_was_said_is_kept(
    server: ChatServer, tmp_path: Path, number: int, status: int
) -> None:
    hold = Hold()
    server.answers = [["Said so far ", hold], ["On we go."]]
    words = ["run", "--base-url", server.url, "--session-dir", str(tmp_path / "kept")]
    with Terminal(words, tmp_path) as terminal:
        terminal.idle()
        terminal.line("one")
        terminal.until("Said so far")
        terminal.process.send_signal(number)
        assert terminal.end() == status
        assert "\x1b[?2004l" in terminal.raw[-200:], "the terminal is as before"
        assert "Traceback" not in terminal.text
    assert hold.dropped.wait(DEADLINE)
    (log,) = (tmp_path / "kept").glob("*.jsonl")
    assert call("check", str(log), cwd=tmp_path).returncode == 0
    assert call(*words, "--continue", "go on", cwd=tmp_path).returncode == 0
    assert [text.strip() for text in server.said(1)] == ["one", "Said so far", "go on"]


def test_e7_a_terminal_that_is_closed_ends_it_in_order(server: ChatServer, tmp_path: Path) -> None:
    hold = Hold()
    server.answers = [["Said so far ", hold]]
    with Terminal(["run", "--base-url", server.url, "--session-dir", str(tmp_path / "kept")], tmp_path) as terminal:
        terminal.idle()
        terminal.line("one")
        terminal.until("Said so far")
        terminal.hang_up()
        assert terminal.end() == 129
    (log,) = (tmp_path / "kept").glob("*.jsonl")
    assert "Said so far" in log.read_text()
    assert call("check", str(log), cwd=tmp_path).returncode == 0


@pytest.mark.rule("X3")
def test_an_answer_cannot_move_the_cursor(terminal: Terminal, server: ChatServer) -> None:
    server.answers = [["\x1b[2J\x1b[H", "clean"]]
    terminal.line("hello")
    terminal.until("␛[2J␛[Hclean")


def test_a_dumb_terminal_echoes_by_itself(server: ChatServer, tmp_path: Path) -> None:
    with Terminal(["run", "--base-url", server.url, "--no-save"], tmp_path, term="dumb") as terminal:
        terminal.idle()
        os.write(terminal.descriptor, b"hello\n")
        terminal.until("\nDone.\n")
        terminal.idle()
        terminal.type(CONTROL_D)
        assert terminal.end() == 0


def test_a_session_says_how_to_go_on_and_shows_where_it_was(server: ChatServer, tmp_path: Path) -> None:
    words = ["run", "--base-url", server.url]
    with Terminal(words, tmp_path) as terminal:
        terminal.idle()
        terminal.line("the first thing")
        terminal.until("Done.")
        terminal.idle()
        terminal.type(CONTROL_D)
        terminal.until("go on with: treadle run --continue")
        assert terminal.end() == 0
    with Terminal([*words, "--continue"], tmp_path) as terminal:
        terminal.until("goes on after 1 turn")
        terminal.until("the first thing")
        terminal.idle()


@pytest.mark.parametrize("text", ["a long answer of many words " * 8])
def test_e9_words_of_a_single_answer_wrap_too(server: ChatServer, tmp_path: Path, columns: int, text: str) -> None:
    server.answers = [[text[at : at + 3] for at in range(0, len(text), 3)]]
    with Terminal(["run", "--base-url", server.url, "--no-save", "hello"], tmp_path, columns=columns) as terminal:
        assert terminal.end() == 0
        assert " ".join(terminal.rows) == text.strip()
