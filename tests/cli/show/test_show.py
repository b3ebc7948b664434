"""``treadle show``: transcript, events, JSON, a page; whole logs, torn ones, growing ones, hostile ones."""

import io
import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.terminal import CONTROL_C, ROOT, Terminal, environment
from tests.diagrams.logs import HEADER, Log, compacted, long_log, medley, scripted
from treadle.models import Usage
from treadle.session import decode_event, encode_event, encode_header
from treadle.words import call_config as config
from treadle.words import events as ev
from treadle.words import reasons
from treadle_cli import main
from treadle_cli.show.transcript import Transcript
from treadle_diagrams import session_page, transcript

Capture = pytest.CaptureFixture[str]


def lines_of(events) -> list[bytes]:
    return [encode_header(HEADER), *[encode_event(entry) for entry in events]]


def stored(tmp_path: Path, events, name: str = "session.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(b"\n".join(lines_of(events)) + b"\n")
    return path


def shown(capsys: Capture, *words: object) -> str:
    assert main(["show", *map(str, words)]) == 0
    streams = capsys.readouterr()
    assert streams.err == ""
    return streams.out


def on_terminal(events, *, full: bool = False, width: int = 100) -> str:
    """The transcript as a terminal of that width shows it, without colours."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    told = Transcript(console, full=full)
    for entry in transcript(events):
        told.tell(entry)
    return console.file.getvalue()  # type: ignore[attr-defined]


# --- the transcript ---------------------------------------------------------------------------------------------------


def test_a_turn_is_told_with_who_spoke_the_tools_and_their_results(tmp_path: Path, capsys: Capture) -> None:
    lines = [line.strip() for line in shown(capsys, stored(tmp_path, scripted("one-tool"))).splitlines()]
    assert lines[1].startswith("── turn 1 ")
    assert lines[2] == "you  What is there?"
    assert lines[4:8] == [
        "model  Let me look.",
        '⚙  look(what="a door")',
        "↳  You see a door.",
        "model  It is a door.",
    ]
    assert lines[8].startswith("✓  completed · 2 steps · 1 call · ")


def test_steering_and_injections_are_marked_where_they_entered(tmp_path: Path, capsys: Capture) -> None:
    told = shown(capsys, stored(tmp_path, medley()))
    assert "you  ↪ steering  sooner, please" in told.replace(", waited 120ms", "")
    assert "+ injected" in told
    assert told.index("By the way") < told.index("one\n")


@pytest.mark.rule("C5")
def test_an_interrupted_answer_is_marked(tmp_path: Path, capsys: Capture) -> None:
    told = shown(capsys, stored(tmp_path, scripted("cancel-while-streaming")))
    assert "model  Half an answer\n         ■ interrupted here\n      ■  stopped by the user" in told
    assert "discarded: “never seen”" in told


def test_usage_and_time_are_told_per_turn() -> None:
    log = Log(pace=500).open("hi").answer("yes", usage=Usage(1200, 34, reasoning_tokens=5)).close()
    assert "✓  completed · 1 step · 3.0s · tokens: 1,200 in, 34 out, 5 reasoning" in on_terminal(log.events)


def test_reasoning_failed_attempts_and_retries_are_told() -> None:
    assert "model  Three and four.\n         Seven." in on_terminal(scripted("reasoning-and-usage"))
    told = on_terminal(scripted("retried-attempts"))
    assert "model  ✗ SERVER: busy" in told
    assert "… attempt 2 follows in " in told
    assert "✗ TRANSPORT: the line broke\n         I was about to" in told


def test_parallel_results_name_their_calls() -> None:
    told = on_terminal(scripted("parallel-tools"))
    assert "↳  fetch: 1\n" in told
    assert "↳  fetch: 4\n" in told


def test_a_long_result_is_cut_unless_all_is_asked_for() -> None:
    log = Log().open("hi").tool("read", "{}", "\n".join(f"line {number}" for number in range(40))).close()
    assert "line 11\n" in on_terminal(log.events)
    assert "line 12\n" not in on_terminal(log.events)
    assert "more characters (--full)" in on_terminal(log.events)
    assert "line 39" in on_terminal(log.events, full=True)


@pytest.mark.parametrize("width", [40, 72, 100])
def test_no_line_is_wider_than_the_terminal_and_lines_keep_their_margin(width: int) -> None:
    log = Log().open("word " * 60).answer("first line\n  second, indented\n" + "x" * 300).close()
    told = on_terminal(log.events, width=width)
    assert max(map(len, told.splitlines())) <= width
    assert " " * 9 + "  second, indented" in told
    assert all(line.startswith((" ", "─")) for line in told.splitlines() if line)


def test_written_to_a_pipe_lines_are_left_whole(tmp_path: Path, capsys: Capture) -> None:
    log = Log().open("hi").answer("word " * 100 + "end").close()
    assert any(
        line.endswith("word end") and len(line) > 500
        for line in shown(capsys, stored(tmp_path, log.events)).splitlines()
    )


@pytest.mark.rule("X3")
def test_nothing_that_was_said_acts_on_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    evil = "\x1b[2J\x1b]0;title\x07 \r over \u202e left [bold]not markup[/bold] :smile:"
    log = Log().open(evil).answer(evil, (evil, evil), reasoning=evil).tool(evil, evil, evil, is_error=True, code=evil)
    log.add(ev.PresetSelected(evil), ev.RequestHeader(config.CallConfig(evil, evil), (), "initial"))
    path = stored(tmp_path, log.close(reasons.Blocked(evil)).events)
    for words in ([], ["--events"], ["--full"]):
        told = shown(capsys, path, *words)
        assert not [mark for mark in "\x1b\x07\r\u202e" if mark in told]
        assert "[bold]not markup[/bold] :smile:" in told


# --- events, JSON, one turn -------------------------------------------------------------------------------------------


def test_events_are_lines_with_number_time_type_and_content(tmp_path: Path, capsys: Capture) -> None:
    events = scripted("one-tool")
    lines = shown(capsys, stored(tmp_path, events), "--events").splitlines()
    assert [int(line.split()[0]) for line in lines] == [entry.seq for entry in events]
    assert [line.split()[2] for line in lines] == [entry.type for entry in events]
    assert lines[0].endswith("agent/inbox/spliced   next-turn · in: “What is there?”")
    assert lines[8].endswith('tool/call             look(what="a door")')


def test_events_as_json_are_the_events_as_stored(tmp_path: Path, capsys: Capture) -> None:
    events = scripted("plain-answers")
    lines = shown(capsys, stored(tmp_path, events), "--events", "--json").rstrip("\n").split("\n")
    assert tuple(decode_event(line.encode()) for line in lines) == events


def test_json_is_one_entry_of_the_transcript_per_line(tmp_path: Path, capsys: Capture) -> None:
    entries = [
        json.loads(line) for line in shown(capsys, stored(tmp_path, scripted("one-tool")), "--json").splitlines()
    ]
    assert [entry["kind"] for entry in entries] == [
        "turn",
        "message",
        "request",
        "answer",
        "call",
        "result",
        "answer",
        "turn-end",
    ]
    assert entries[5]["text"] == "You see a door."


def test_one_turn_can_be_shown_alone(tmp_path: Path, capsys: Capture) -> None:
    path = stored(tmp_path, scripted("queued-messages"))
    told = shown(capsys, path, "--turn", 2)
    assert "two" in told
    assert "three" not in told
    assert main(["show", str(path), "--turn", "9"]) == 2
    assert "no turn 9; it has turns 1 to 3" in capsys.readouterr().err


# --- which file -------------------------------------------------------------------------------------------------------


def test_a_session_can_be_named_by_its_id_and_the_newest_needs_no_name(tmp_path: Path, capsys: Capture) -> None:
    old, new = stored(tmp_path, scripted("one-tool"), "old.jsonl"), stored(tmp_path, scripted("steering"), "new.jsonl")
    os.utime(old, (1, 1))
    os.utime(new, (2, 2))
    assert "What is there?" in shown(capsys, "old", "--session-dir", tmp_path)
    assert "Take your time" in shown(capsys, "--session-dir", tmp_path)


def test_what_is_not_there_is_said_in_words(tmp_path: Path, capsys: Capture) -> None:
    assert main(["show", "nowhere", "--session-dir", str(tmp_path)]) == 2
    assert "nowhere is neither a file here nor a session in" in capsys.readouterr().err
    assert main(["show", "--session-dir", str(tmp_path)]) == 2
    assert "there is no session in" in capsys.readouterr().err
    assert main(["show", str(tmp_path / "no" / "file.jsonl")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_a_compressed_session_is_shown_too(tmp_path: Path, capsys: Capture) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "made.jsonl.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(b"\n".join(lines_of(scripted("one-tool"))) + b"\n"))
    assert "It is a door." in shown(capsys, path)


@pytest.mark.rule("P3")
def test_a_torn_tail_is_told_and_damage_ends_with_1_after_what_could_be_read(tmp_path: Path, capsys: Capture) -> None:
    path = stored(tmp_path, scripted("one-tool"))
    path.write_bytes(path.read_bytes() + b'{"type":')
    assert main(["show", str(path)]) == 0
    streams = capsys.readouterr()
    assert "It is a door." in streams.out
    assert "half a line at the end was left out" in streams.err
    path.write_bytes(b"\n".join([*lines_of(scripted("one-tool"))[:9], b"broken", b""]))
    assert main(["show", str(path)]) == 1
    streams = capsys.readouterr()
    assert "Let me look." in streams.out
    assert "line 10" in streams.err


# --- following --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_session_is_followed_as_it_grows_until_interrupted(tmp_path: Path) -> None:
    lines = lines_of(scripted("one-tool"))
    path = tmp_path / "live.jsonl"
    path.write_bytes(b"\n".join(lines[:5]) + b"\n")
    with Terminal(["show", str(path), "--follow"], tmp_path) as terminal:
        terminal.until("turn 1")
        with path.open("ab") as file:
            file.write(b"\n".join(lines[5:9]) + b"\n" + lines[9][:20])
            file.flush()
            terminal.until("Let me look.")
            file.write(lines[9][20:] + b"\n" + b"\n".join(lines[10:]) + b"\n")
            file.flush()
            terminal.until("It is a door.")
            terminal.until("completed")
        terminal.type(CONTROL_C)
        assert terminal.end() == 130
    assert "Traceback" not in terminal.text


@pytest.mark.slow
def test_a_followed_file_that_is_cut_short_is_no_silent_wait(tmp_path: Path) -> None:
    path = stored(tmp_path, scripted("one-tool"))
    with Terminal(["show", str(path), "-f"], tmp_path) as terminal:
        terminal.until("completed")
        path.write_bytes(b"")
        terminal.until("show it again")
        assert terminal.end() == 2


def test_damage_that_comes_while_following_ends_it_with_1(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"\n".join([*lines_of(scripted("one-tool"))[:9], b"broken", b""]))
    assert main(["show", str(path), "--follow"]) == 1
    streams = capsys.readouterr()
    assert "Let me look." in streams.out
    assert "line 10" in streams.err


# --- the page ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("X1")
def test_html_writes_one_file_that_only_its_owner_can_read(tmp_path: Path, capsys: Capture) -> None:
    path = stored(tmp_path, scripted("one-tool"))
    out = tmp_path / "pages" / "page.html"
    for _ in range(2):
        assert main(["show", str(path), "--html", str(out)]) == 0
        assert capsys.readouterr().err == f"wrote {out}\n"
        assert out.read_text(encoding="utf-8") == session_page(HEADER, scripted("one-tool"))
        assert stat.S_IMODE(out.stat().st_mode) == 0o600
        out.chmod(0o644)


def test_html_is_no_way_to_overwrite_the_session(tmp_path: Path, capsys: Capture) -> None:
    path = stored(tmp_path, scripted("one-tool"))
    before = path.read_bytes()
    assert main(["show", str(path), "--html", str(path)]) == 2
    assert "is the session itself" in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.parametrize("more", [["--follow"], ["--events"], ["--json"], ["--turn", "1"], ["--all"]])
def test_html_goes_with_no_other_view(tmp_path: Path, capsys: Capture, more: list[str]) -> None:
    path = stored(tmp_path, scripted("one-tool"))
    assert main(["show", str(path), "--html", str(tmp_path / "x.html"), *more]) == 2
    assert "a page shows what fits" in capsys.readouterr().err


def test_the_page_of_a_damaged_log_says_so(tmp_path: Path, capsys: Capture) -> None:
    path, out = tmp_path / "bad.jsonl", tmp_path / "bad.html"
    path.write_bytes(b"\n".join([*lines_of(scripted("one-tool"))[:9], b"broken", b""]))
    assert main(["show", str(path), "--html", str(out)]) == 1
    assert "line 10" in capsys.readouterr().err
    assert '<p class="trouble">' in out.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_long_session_is_shown_quickly(tmp_path: Path) -> None:
    path = stored(tmp_path, long_log(10_000))
    command = [sys.executable, "-m", "treadle_cli", "show", str(path)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 20
    assert done.stdout.count("── turn ") == long_log(10_000)[-1].data.turn


@pytest.mark.rule("Z1")
def test_a_summary_says_what_it_took_the_place_of_and_that_is_still_told(tmp_path: Path, capsys: Capture) -> None:
    out = shown(capsys, stored(tmp_path, compacted()))
    assert "summary  ⤺ in place of 4 events, from " in out
    assert out.index("What is wool?") < out.index("They spoke of wool.")
    entries = [json.loads(line) for line in shown(capsys, stored(tmp_path, compacted()), "--json").splitlines()]
    (told,) = [entry for entry in entries if entry.get("stands_for")]
    assert len(told["stands_for"]) == 4
    assert told["text"] == "They spoke of wool."


# --- long sessions ----------------------------------------------------------------------------------------------------


LAST = f"turn {long_log(9_000)[-1].data.turn}"


@pytest.mark.slow
def test_of_a_long_session_a_terminal_is_shown_the_end(tmp_path: Path) -> None:
    events = long_log(9_000)
    path = stored(tmp_path, events)
    assert path.stat().st_size > 1 << 20
    with Terminal(["show", str(path)], cwd=tmp_path) as terminal:
        assert terminal.end() == 0
        told = terminal.text
    assert "earlier events are not shown: --before" in told
    assert LAST in told
    assert "turn 1 " not in told


@pytest.mark.slow
def test_a_part_of_a_long_session_is_shown_and_all_of_it_where_no_terminal_is(tmp_path: Path, capsys: Capture) -> None:
    path = stored(tmp_path, long_log(9_000))
    assert main(["show", str(path), "--before", "4000"]) == 0
    streams = capsys.readouterr()
    assert "--before" in streams.err
    assert LAST not in streams.out
    whole = shown(capsys, path)
    assert "turn 1 " in whole
    assert LAST in whole
    assert main(["show", str(path), "--before", "9", "--follow"]) == 2


@pytest.mark.slow
def test_a_page_holds_the_end_of_a_long_session_and_says_so(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle_cli.show.command.PAGE", 1 << 18)
    monkeypatch.setattr("treadle_cli.show.command.SCREEN", 1 << 12)
    path, page = stored(tmp_path, long_log(9_000)), tmp_path / "page.html"
    assert main(["show", str(path), "--html", str(page)]) == 0
    told = capsys.readouterr().err
    assert "earlier events are not in this page" in told
    text, large = page.read_text(), page.stat().st_size
    assert "earlier events are not in this page" in text
    assert LAST in text
    monkeypatch.setattr("treadle_cli.show.command.LARGEST", large // 3)
    assert main(["show", str(path), "--html", str(page)]) == 0
    assert page.stat().st_size <= large // 3
    number = text.split("--before ")[1].split("`")[0]
    assert main(["show", str(path), "--html", str(page), "--before", number]) == 0
    assert LAST not in page.read_text()
