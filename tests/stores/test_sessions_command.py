"""``treadle sessions``: what each command says, changes, and answers as its exit status."""

import json
from pathlib import Path

import msgspec
import pytest
import trio

from treadle import Event, SessionHeader
from treadle.session import encode_event
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_adapters.stores.sqlite import SqliteStore
from treadle_cli import main
from treadle_specs.kits.store_bench import sample
from treadle_specs.rig.scripts import SCRIPTS, record

Capture = pytest.CaptureFixture[str]
HEADER, EVENTS = record(SCRIPTS["one-tool"])
OPEN = 9
"""So many events end inside a turn, with a call on record that has no result."""


def kept(directory: Path, header: SessionHeader, events: list[Event], kind: str = "jsonl") -> None:
    async def store() -> None:
        made = JsonlStore(directory) if kind == "jsonl" else SqliteStore(directory / "sessions.sqlite")
        async with made:
            await (await made.create(header, events)).close()

    trio.run(store)


def sessions(*words: str, directory: Path, kind: str = "jsonl") -> int:
    return main(["sessions", *words, "--session-dir", str(directory), "--store", kind])


@pytest.mark.rule("P6")
@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_list_gives_a_line_per_session_and_names_the_bad_ones(kind: str, tmp_path: Path, capsys: Capture) -> None:
    kept(tmp_path, HEADER, EVENTS, kind)
    kept(tmp_path, sample("hostile").header, list(sample("hostile", 1, "\x1b]0;gotcha\x07 \u202e what").events), kind)
    assert sessions("list", directory=tmp_path, kind=kind) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split("\t")[0]: line.split("\t") for line in lines}
    assert set(rows) == {HEADER.id, "hostile"}
    assert rows[HEADER.id][2] == str(len(EVENTS))
    assert rows[HEADER.id][4] == "What is there?"
    assert "\x1b" not in "".join(lines)
    assert "\u202e" not in "".join(lines)
    if kind == "jsonl":
        (tmp_path / "broken.jsonl").write_bytes(b"\xff\x1b[2J")
        assert sessions("list", directory=tmp_path) == 1
        told = capsys.readouterr()
        assert len(told.out.splitlines()) == 2
        assert "broken.jsonl" in told.err
        assert "\x1b" not in told.err


@pytest.mark.rule("P6")
def test_list_of_a_folder_that_is_not_there_is_empty(tmp_path: Path, capsys: Capture) -> None:
    assert sessions("list", directory=tmp_path / "none") == 0
    assert capsys.readouterr() == ("", "")
    assert not (tmp_path / "none").exists()


@pytest.mark.rule("P3", "S7")
def test_show_prints_what_is_stored_and_of_a_damaged_session_what_lies_before(tmp_path: Path, capsys: Capture) -> None:
    kept(tmp_path, HEADER, EVENTS)
    path = tmp_path / f"{HEADER.id}.jsonl"
    assert sessions("show", HEADER.id, directory=tmp_path) == 0
    assert capsys.readouterr().out == path.read_text(encoding="utf-8")
    assert sessions("show", HEADER.id, "--first", "3", "--count", "2", directory=tmp_path) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["seq"] for one in shown] == [3, 4]
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"seq":7,', b'"seq":70,'))
    assert sessions("show", HEADER.id, directory=tmp_path) == 1
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 1 + 7
    assert "line 9" in told.err
    assert "event number 70 stands where 7 is due" in told.err


@pytest.mark.rule("S5")
def test_fork_prints_the_new_id_and_refuses_a_point_inside_a_turn(tmp_path: Path, capsys: Capture) -> None:
    kept(tmp_path, HEADER, EVENTS)
    assert sessions("fork", HEADER.id, "--as", "mine", directory=tmp_path) == 0
    assert capsys.readouterr().out == "mine\n"
    assert sessions("fork", HEADER.id, directory=tmp_path) == 0
    made = capsys.readouterr().out.strip()
    assert (tmp_path / f"{made}.jsonl").exists()
    assert sessions("fork", HEADER.id, "--upto", str(OPEN), directory=tmp_path) == 2
    assert "lies inside an open turn" in capsys.readouterr().err
    assert sessions("fork", "nobody", directory=tmp_path) == 1
    assert "no session 'nobody'" in capsys.readouterr().err


@pytest.mark.rule("P3", "P4")
def test_verify_tells_torn_tails_open_turns_and_damage_apart_and_changes_nothing(
    tmp_path: Path, capsys: Capture
) -> None:
    kept(tmp_path, HEADER, EVENTS[:OPEN])
    kept(tmp_path, msgspec.structs.replace(HEADER, id="torn"), EVENTS)
    kept(tmp_path, sample("bad").header, list(sample("bad").events))
    with (tmp_path / "torn.jsonl").open("ab") as file:
        file.write(b'{"type":')
    (tmp_path / "bad.jsonl").write_bytes((tmp_path / "bad.jsonl").read_bytes().replace(b'"seq":5', b'"seq":4'))
    (tmp_path / "worse.jsonl").touch()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sessions("verify", directory=tmp_path) == 1
    told = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert "a turn is open" in told[HEADER.id]
    assert "torn tail (half line)" in told["torn"]
    assert "damaged after 5 events" in told["bad"]
    assert "no session header" in told["worse.jsonl"]
    assert sessions("verify", HEADER.id, "torn", directory=tmp_path) == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.rule("P3", "P4")
def test_repair_cuts_the_torn_tail_off_and_closes_the_open_turn_once(tmp_path: Path, capsys: Capture) -> None:
    kept(tmp_path, HEADER, EVENTS[:OPEN])
    path = tmp_path / f"{HEADER.id}.jsonl"
    with path.open("ab") as file:
        file.write(b'{"type":')
    assert sessions("repair", HEADER.id, directory=tmp_path) == 0
    told = capsys.readouterr().err
    assert "cut off" in told
    assert "3 events closed the open turn" in told
    mended = path.read_bytes()
    assert mended.count(b"\n") == 1 + OPEN + 3
    assert sessions("repair", HEADER.id, directory=tmp_path) == 0
    assert path.read_bytes() == mended


@pytest.mark.rule("P3")
def test_repair_rewrites_no_damage_but_can_keep_what_lies_before_as_another_session(
    tmp_path: Path, capsys: Capture
) -> None:
    kept(tmp_path, HEADER, EVENTS)
    path = tmp_path / f"{HEADER.id}.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:OPEN], b"damage", *lines[OPEN:]]))
    damaged = path.read_bytes()
    assert sessions("repair", HEADER.id, directory=tmp_path) == 1
    assert f"line {OPEN + 1}" in capsys.readouterr().err
    assert sessions("repair", HEADER.id, "--prefix-as", "saved", directory=tmp_path) == 0
    assert path.read_bytes() == damaged
    saved = (tmp_path / "saved.jsonl").read_bytes().split(b"\n")
    assert saved[1:OPEN] == [encode_event(entry) for entry in EVENTS[: OPEN - 1]]
    assert b'"interrupted"' in saved[-2]
