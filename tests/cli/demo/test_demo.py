"""``treadle demo``: what it shows, what it leaves, and that two runs are the same."""

import stat
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import trio
from rich.console import Console

from tests.cli.terminal import call
from treadle import Aborted, AssistantMessage, Completed, Event, Session, State, ToolResultMessage, UserMessage
from treadle.session import AssistantMessageAdded, StepStart, ToolResultAdded, TurnEnd, UserMessageAdded, read_header
from treadle.testing import TABLE, Trigger
from treadle_cli import main
from treadle_cli.demo.command import MEANINGS, Performance
from treadle_cli.demo.stage import Cue, Pace, WatchedLifecycle, lines
from treadle_diagrams import svg, walk_of, walk_through

Capture = pytest.CaptureFixture[str]

S, T = State, Trigger
TOOL_TURN = [
    (S.IDLE, T.WAKE),
    (S.ADMISSION, T.ENTER),
    (S.STEP, T.CONTINUE),
    (S.ADMISSION, T.ENTER),
    (S.STEP, T.REST),
    (S.TURN_STOPPING, T.CLOSE),
]
STEERED_TURN = [*TOOL_TURN[:2], (S.STEP, T.WAKE), *TOOL_TURN[2:]]
STOPPED_TURN = [*TOOL_TURN[:2], (S.STEP, T.CANCEL), (S.CANCEL_CONVERGENCE, T.CONVERGE)]
REPLAYED = [
    *STOPPED_TURN[:3],
    (S.CANCEL_CONVERGENCE, T.WAKE),
    (S.CANCEL_CONVERGENCE, T.CONVERGE),
    (S.IDLE, T.REPLAY),
    *TOOL_TURN[1:],
]
MAINTENANCE = [
    (S.IDLE, T.MAINTAIN),
    (S.MAINTENANCE, T.WAKE),
    (S.MAINTENANCE, T.RELEASE_TO_NEXT),
    (S.ADMISSION, T.ENTER),
    (S.STEP, T.REST),
    (S.TURN_STOPPING, T.CLOSE),
]
PATH = [*TOOL_TURN, *STEERED_TURN, *STOPPED_TURN, *REPLAYED, *MAINTENANCE, (S.IDLE, T.DISPOSE)]


def played(out: Path, *, fast: bool = True) -> tuple[Performance, str]:
    out.mkdir(exist_ok=True)
    console = Console(width=90, record=True, highlight=False, file=(out / "screen").open("w"))
    performance = Performance(console, Pace(fast=fast), out)
    trio.run(performance.run)
    console.file.close()
    return performance, console.export_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo")
    played(out)
    return out


def stored(path: Path) -> Session:
    first, *rest = path.read_bytes().splitlines()
    reader = read_header(first)
    return Session(reader.header, [reader.event(line) for line in rest])


def of_type(session: Session, kind: type[Any]) -> list[Any]:
    return [entry.data for entry in session.events if isinstance(entry.data, kind)]


def test_it_takes_the_path_it_promises(tmp_path: Path) -> None:
    performance, _ = played(tmp_path)
    assert [(state, trigger) for state, trigger, _ in performance.passages] == PATH


def test_every_transition_is_printed_in_order_and_explained(tmp_path: Path) -> None:
    _, text = played(tmp_path)
    shown = [line.split("·", 1)[1].split() for line in text.splitlines() if line.startswith("         · ")]
    rows = {(row.source, row.trigger): row for row in TABLE}
    expected = []
    for step in PATH:
        row = rows[step]
        loop = row.source is row.dest
        expected.append(
            [row.source.value, "↺" if loop else "→", *([] if loop else [row.dest.value]), row.trigger.value]
        )
    assert [words[: len(want)] for words, want in zip(shown, expected, strict=True)] == expected
    assert all(len(words) > len(want) for words, want in zip(shown, expected, strict=True)), "one is not explained"
    assert set(PATH) <= set(MEANINGS)


def test_each_act_says_in_one_line_what_it_shows(tmp_path: Path) -> None:
    _, text = played(tmp_path)
    told = text.splitlines()
    for number, title in enumerate(
        ["A tool call", "Steering", "Stopping", "A word while", "Maintenance", "The end"], 1
    ):
        at = next(index for index, line in enumerate(told) if line.startswith(f"── {number} {title}"))
        assert told[at + 1].endswith(".")
        assert told[at + 2] == ""


def test_no_line_is_wider_than_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(width=80, record=True, highlight=False, file=(tmp_path / "screen").open("w"))
    monkeypatch.chdir(tmp_path)
    trio.run(Performance(console, Pace(fast=True), Path()).run)
    console.file.close()
    assert [line for line in console.export_text().splitlines() if len(line.rstrip()) > 80] == []


def test_two_runs_show_the_same_and_draw_the_same(tmp_path: Path) -> None:
    first, text = played(tmp_path)
    drawing = (tmp_path / "lifecycle.svg").read_bytes()
    second, again = played(tmp_path)
    assert first.passages == second.passages
    assert text == again
    assert (tmp_path / "lifecycle.svg").read_bytes() == drawing


@pytest.mark.slow
async def test_waiting_for_the_eye_changes_nothing_but_the_time(tmp_path: Path, autojump_clock: Any) -> None:
    console = Console(width=90, record=True, highlight=False, file=(tmp_path / "screen").open("w"))
    slow = Performance(console, Pace(fast=False), tmp_path)
    began = trio.current_time()
    await slow.run()
    console.file.close()
    took = trio.current_time() - began
    assert 3 < took < 9, "a few seconds"
    assert took == pytest.approx(slow.pace.now)
    fast = await trio.to_thread.run_sync(played, tmp_path)
    assert console.export_text() == fast[1]
    assert slow.passages == fast[0].passages


def test_the_log_holds_what_was_shown(folder: Path) -> None:
    session = stored(folder / "session.jsonl")
    ends = [type(end.reason) for end in of_type(session, TurnEnd)]
    assert ends == [Completed, Completed, Aborted, Aborted, Completed, Completed]
    kept = [said.message.text for said in of_type(session, AssistantMessageAdded) if said.interrupted]
    assert len(kept) == 1
    assert kept[0].startswith("The first line opened")
    assert kept[0].strip().endswith("The second")
    assert [result.code for result in of_type(session, ToolResultAdded)] == [None, "ABORTED", None]
    assert [step.step for step in of_type(session, StepStart) if step.turn == 2] == [1, 2]


def test_the_steering_entered_at_the_next_step_of_its_turn(folder: Path) -> None:
    session = stored(folder / "session.jsonl")
    entries: list[Event] = list(session.events)
    steering = next(e for e in entries if isinstance(e.data, UserMessageAdded) and "bad knee" in e.data.message.text)
    step = [e.data for e in entries[: steering.seq] if isinstance(e.data, StepStart)][-1]
    assert (step.turn, step.step, step.accepted) == (2, 2, (steering.data.message.id,))


def test_every_message_that_was_typed_is_in_the_history_once(folder: Path) -> None:
    history = stored(folder / "session.jsonl").history()
    typed = [message.id for message in history if isinstance(message, UserMessage)]
    assert typed == [f"you-{number}" for number in range(1, 8)]
    answers = [message for message in history if isinstance(message, AssistantMessage)]
    results = [message for message in history if isinstance(message, ToolResultMessage)]
    assert [call.call_id for answer in answers for call in answer.calls] == [r.result.call_id for r in results]


def test_only_the_owner_can_read_the_log(tmp_path: Path) -> None:
    played(tmp_path)
    (tmp_path / "session.jsonl").chmod(0o644)
    played(tmp_path)
    assert stat.S_IMODE((tmp_path / "session.jsonl").stat().st_mode) == 0o600


@pytest.mark.slow
def test_e4_a_session_that_was_gone_on_with_is_not_overwritten_and_the_advice_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "session.jsonl"
    for _ in range(2):
        assert main(["demo", "--fast"]) == 0
        assert "treadle run --session-dir . --resume session\n" in capsys.readouterr().out
    assert main(["run", "--session-dir", ".", "--resume", "session", "thank you"]) == 0
    kept = log.read_bytes()
    assert main(["demo", "--fast"]) == 0
    assert "treadle run --session-dir . --resume session-2\n" in capsys.readouterr().out
    assert log.read_bytes() == kept
    assert main(["run", "--session-dir", ".", "--resume", "session-2", "thank you"]) == 0


def test_e4_a_file_that_is_no_demo_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "session.jsonl").write_text("a text of somebody's own")
    played(tmp_path)
    assert (tmp_path / "session.jsonl").read_text() == "a text of somebody's own"
    assert stored(tmp_path / "session-2.jsonl").header.id == "session-2"


def test_the_drawing_marks_the_walked_path(folder: Path) -> None:
    drawing = (folder / "lifecycle.svg").read_text(encoding="utf-8")
    ET.fromstring(drawing)
    assert f"walked: {len(PATH)} transitions, {len(set(PATH))} of {len(TABLE)} rows" in drawing


def test_the_walk_read_from_the_log_agrees_where_the_log_tells_it(folder: Path) -> None:
    untold = {("IDLE", "MAINTAIN"), ("MAINTENANCE", "WAKE"), ("MAINTENANCE", "RELEASE_TO_NEXT"), ("IDLE", "DISPOSE")}
    made = {key: visit.count for key, visit in walk_through(PATH).visits.items() if key not in untold}
    read = {key: visit.count for key, visit in walk_of(stored(folder / "session.jsonl").events).visits.items()}
    shifted = {("IDLE", "WAKE"): made[("IDLE", "WAKE")] + 1}  # the log cannot tell that maintenance lay before it
    assert read == {**made, **shifted}
    assert svg(walked=walk_through(PATH))


def test_the_command_leaves_its_files_in_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--fast"]) == 0
    told = capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lifecycle.svg", "session.jsonl"]
    assert "session.jsonl" in told
    assert "lifecycle.svg" in told
    assert "treadle run" in told


def test_the_command_makes_the_folder_it_is_given(tmp_path: Path, capsys: Capture) -> None:
    assert main(["demo", "--fast", "--out", str(tmp_path / "a" / "b")]) == 0
    assert (tmp_path / "a" / "b" / "lifecycle.svg").exists()
    assert str(tmp_path / "a" / "b" / "session.jsonl") in capsys.readouterr().out


@pytest.mark.slow
def test_it_runs_as_a_process_without_a_terminal_or_a_warning(tmp_path: Path) -> None:
    done = call("demo", "--fast", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout


def test_a_watcher_that_fails_changes_nothing() -> None:
    def watch(row: Any) -> None:
        raise ValueError(row.trigger.name)

    lifecycle = WatchedLifecycle(watch)

    class Model:
        state = State.IDLE

    model = Model()
    assert lifecycle.fire(model, Trigger.WAKE).dest is State.ADMISSION
    assert lifecycle.fire(model, Trigger.ENTER).dest is State.STEP
    assert isinstance(lifecycle.failure, ValueError)
    assert str(lifecycle.failure) == "WAKE"


async def test_a_line_with_a_cue_waits_for_the_director() -> None:
    cue = Cue()
    words: list[str] = []

    async def speak() -> None:
        async for chunk in lines(Pace(fast=True), "before ", cue, "after")(None):  # type: ignore[arg-type]
            words.append(getattr(chunk, "text", ""))  # noqa: PERF401  # seen as they come

    async with trio.open_nursery() as nursery:
        nursery.start_soon(speak)
        await cue.met()
        assert "".join(words) == "before "
        cue.go()
    assert "".join(words) == "before after"
