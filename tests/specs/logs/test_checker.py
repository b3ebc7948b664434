"""The log checker: what the driver writes is sound, and what was tampered with is reported."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import msgspec
import pytest

from treadle import Event, Session, SessionHeader
from treadle.session import InboxSpliced, TurnStart, encode_event, encode_header, fork, repair
from treadle.words.events import APPEND
from treadle_specs.logs import checker
from treadle_specs.logs.exercise import REACH, Exercise
from treadle_specs.logs.forgeries import complaints, tally
from treadle_specs.rig.scripts import SCRIPTS, record

Log = tuple[SessionHeader, list[Event]]


@pytest.fixture(scope="module")
def logs() -> dict[str, Log]:
    logging.disable(logging.CRITICAL)
    try:
        return {name: record(script) for name, script in SCRIPTS.items()}
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.rule("T10", "L4", "N1", "I6", "I5", "N2", "N6", "Q2", "K5")
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_log_of_a_scripted_session_is_sound(name: str, logs: dict[str, Log]) -> None:
    assert complaints(logs[name][1]) == []


def test_what_was_at_stake_in_a_log_is_counted_and_what_never_was_is_told(logs: dict[str, Log], tmp_path: Path) -> None:
    """Between them the scripted sessions put nearly every rule at stake that a log can break."""
    whole = Exercise()
    for header, events in logs.values():
        found = checker.check_events(events, header=header)
        assert found.exercised["N6"] == len(events)
        assert found.exercised["N3"] == sum(entry.type == "turn/end" for entry in events)
        whole.update(found.exercised)
    assert {rule for rule in REACH if not whole[rule]} <= {"S3", "S5", "P4"}
    header, events = logs["one-tool"]
    told = checker.checked_json(checker.check_events(events, header=header))["exercised"]
    assert set(told) == set(REACH)
    assert (told["K5"], told["P4"]) == (2, 0)
    said: list[str] = []
    empty = write(tmp_path / "empty.jsonl", (header, []))
    assert checker.check_command([str(empty)], out=said.append) == 0
    assert said == [f"{empty}: 0 events, nothing to judge\n"]


@pytest.mark.rule("P4")
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_prefix_is_sound_once_it_is_repaired(name: str, logs: dict[str, Log]) -> None:
    header, events = logs[name]
    for count in range(len(events) + 1):
        session = Session(header, events[:count])
        for data in repair(events[:count]):
            session.commit(data)
        assert complaints(list(session.events)) == [], f"after {count} events"


@pytest.mark.rule("N6")
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_deletion_duplication_and_swap_is_reported(name: str, logs: dict[str, Log]) -> None:
    """But for the last event outside a turn: without it the log is what it was a moment before."""
    events = logs[name][1]
    last = len(events) - 1
    quiet = events[last].type != "turn/end"
    assert tally([events], renumber=False).unnoticed == ((f"without {last} {events[last].type}",) if quiet else ())


@pytest.mark.slow
@pytest.mark.rule("T10", "N1", "I6", "T0", "T1", "Q2", "K5")
def test_nearly_every_change_is_reported_although_the_log_was_numbered_anew(logs: dict[str, Log]) -> None:
    """What is left is another log that the contract permits, such as a delivery that came a little later."""
    found = tally([events for _, events in logs.values()], renumber=True)
    assert found.tried > 5_000
    assert len(found.unnoticed) / found.tried < 0.02, found.unnoticed
    moved = ("agent/inbox/spliced", "tool/call", "assistant/", "user/message")
    assert all(any(kind in what for kind in moved) for what in found.unnoticed), found.unnoticed


@pytest.mark.rule("S5")
def test_a_fork_is_sound_and_a_wrong_count_is_not(logs: dict[str, Log]) -> None:
    header, events = logs["steering"]
    child, copies = fork(header, events, "child")
    assert checker.check_events(copies, header=child).sound
    wrong = msgspec.structs.replace(child, inherited=child.inherited - 1)
    assert [finding.rule for finding in checker.check_events(copies, header=wrong).findings] == ["S5"]


@pytest.mark.rule("I6")
def test_a_splice_that_does_not_fold_names_its_event() -> None:
    entry = Event("agent/inbox/spliced", 0, 0, InboxSpliced("next-turn", 3, 1))
    assert complaints([entry]) == ["event 0: [I6] a splice at 3 removing 1 does not fit 0 pending"]


@pytest.mark.rule("S2")
def test_an_unknown_type_must_be_ignorable() -> None:
    assert complaints([Event("my/thing", 0, 0, {"a": 1})]) == [
        "event 0: [S2] type 'my/thing' is unknown here and not ignorable"
    ]
    assert complaints([Event("my/thing", 0, 0, {"a": 1}, ignorable=True)]) == []


@pytest.mark.rule("S3")
def test_surface_metadata_belongs_to_surface_events() -> None:
    (said, *_) = complaints([Event("turn/start", 0, 0, TurnStart(1), APPEND)])
    assert "[S3]" in said


# --- files ------------------------------------------------------------------------------------------------------------


def write(path: Path, log: Log, *, tail: bytes = b"") -> Path:
    header, events = log
    lines = [encode_header(header), *[encode_event(entry) for entry in events]]
    path.write_bytes(b"".join([line + b"\n" for line in lines]) + tail)
    return path


def test_the_command_tells_rule_event_and_line_and_fails(tmp_path: Path, logs: dict[str, Log]) -> None:
    header, events = logs["one-tool"]
    good = write(tmp_path / "good.jsonl", (header, events))
    bad = write(tmp_path / "bad.jsonl", (header, [entry for entry in events if entry.type != "tool/result"]))
    said: list[str] = []
    assert checker.check_command([str(good)], out=said.append) == 0
    assert said[0] == f"{good}: {len(events)} events, sound\n"
    assert said[1].startswith("  at stake: ")
    assert f"N6 ×{len(events)} " in said[1]
    assert "; never: " in said[1]
    said.clear()
    assert checker.check_command([str(good), str(bad)], as_json=True, out=said.append) == 1
    first, second = [json.loads(line) for line in said]
    assert first["sound"] is True
    at = next(entry.seq for entry in events if entry.type == "tool/result")
    assert {"rule": "N6", "seq": at + 1, "line": at + 2} == {
        key: second["findings"][0][key] for key in ("rule", "seq", "line")
    }
    assert any(finding["rule"] == "N1" for finding in second["findings"])


@pytest.mark.rule("P3", "P4")
def test_a_killed_process_leaves_notes_and_no_findings(tmp_path: Path, logs: dict[str, Log]) -> None:
    header, events = logs["one-tool"]
    path = write(tmp_path / "killed.jsonl", (header, events[:8]), tail=b'{"type":"tool/c')
    found = checker.check_file(path)
    assert found.sound
    assert len(found.notes) == 2
    assert not checker.check_file(path, finished=True).sound


def test_a_line_that_is_no_event_is_reported_and_reading_goes_on(tmp_path: Path, logs: dict[str, Log]) -> None:
    header, events = logs["one-tool"]
    path = write(tmp_path / "damaged.jsonl", (header, events))
    lines = path.read_bytes().split(b"\n")
    lines[3] = b'{"type":"turn/start","seq":2,"time":1,"data":{"turn":"one"}}'
    path.write_bytes(b"\n".join(lines))
    found = checker.check_file(path)
    assert (found.findings[0].rule, found.findings[0].line) == ("N6", 4)
    assert found.events == len(events) - 1


@pytest.mark.parametrize(
    ("content", "rule"),
    [(b"", "S8"), (b"no header\n", "S8"), (b'{"type":"session","formatVersion":99,"id":"a"}\n', "P5")],
)
def test_a_file_without_a_readable_header_is_reported(tmp_path: Path, content: bytes, rule: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(content)
    (finding,) = checker.check_file(path).findings
    assert finding.rule == rule


def test_a_missing_file_is_a_finding_and_no_crash(tmp_path: Path) -> None:
    said: list[str] = []
    assert checker.check_command([str(tmp_path / "none.jsonl")], out=said.append) == 1
    assert "cannot be read" in "".join(said)


def test_other_kinds_of_files_are_read_by_openers(tmp_path: Path, logs: dict[str, Log]) -> None:
    said: list[str] = []
    opener = lambda path: logs["one-tool"] if path.suffix == ".db" else None  # noqa: E731
    assert checker.check_command([str(tmp_path / "a.db")], openers=[opener], out=said.append) == 0
    assert f"{len(logs['one-tool'][1])} events, sound" in said[0]
