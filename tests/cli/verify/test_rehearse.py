"""``treadle rehearse``: words in, report and exit status out."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from treadle_cli import main

SESSIONS = Path(__file__).parents[2] / "specs" / "rehearsal" / "sessions"
AGENT = "tests.specs.rehearsal.recorded_agent:make_agent"
OTHER = "tests.specs.rehearsal.recorded_agent:other_agent"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_sessions_without_a_difference_have_status_0(capsys: Capture) -> None:
    files = [str(SESSIONS / f"{name}.jsonl") for name in ("searching", "busy-line")]
    assert main(["rehearse", *files, "--agent", AGENT]) == 0
    said = capsys.readouterr()
    assert "2 sessions: 2 without a difference" in said.out
    assert said.err == ""


def test_a_difference_is_told_with_status_1(capsys: Capture) -> None:
    assert main(["rehearse", str(SESSIONS / "three-days.jsonl"), "--agent", OTHER]) == 1
    said = capsys.readouterr().out
    assert "three-days.jsonl: differs" in said
    assert "event 4: the system prompt changed" in said
    assert "+  You keep the books of a large mill." in said
    assert "1 session: 1 differ" in said


@pytest.mark.slow
def test_the_report_is_told_to_programs(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("no log\n", encoding="utf-8")
    shutil.copy(SESSIONS / "three-days.jsonl", tmp_path)
    assert main(["rehearse", str(tmp_path), "--agent", OTHER, "--format", "json"]) == 1
    bad, differs = json.loads(capsys.readouterr().out)
    assert (bad["verdict"], differs["verdict"]) == ("trouble", "differs")
    assert differs["difference"]["seq"] == 4
    out = tmp_path / "junit.xml"
    assert main(["rehearse", str(tmp_path), "--agent", OTHER, "--format", "junit", "--output", str(out)]) == 1
    assert capsys.readouterr().out == ""
    suite = ET.fromstring(out.read_text(encoding="utf-8"))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "1")
    assert suite.find("testcase/failure") is not None
    assert suite.find("testcase/error") is not None


def test_what_is_accepted_has_status_0_and_is_the_same_afterwards(capsys: Capture, tmp_path: Path) -> None:
    path = Path(shutil.copy(SESSIONS / "three-days.jsonl", tmp_path))
    assert main(["rehearse", str(path), "--agent", OTHER, "--accept"]) == 0
    assert "accepted: " in capsys.readouterr().out
    assert main(["rehearse", str(path), "--agent", OTHER]) == 0
    assert main(["rehearse", str(path), "--agent", AGENT]) == 1


def test_a_compressed_session_is_rehearsed(tmp_path: Path) -> None:
    zstd = pytest.importorskip("zstandard")
    path = tmp_path / "session.jsonl.zst"
    path.write_bytes(zstd.compress((SESSIONS / "searching.jsonl").read_bytes()))
    assert main(["rehearse", str(path), "--agent", AGENT]) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["rehearse"], "SESSIONS"),
        (["rehearse", "x.jsonl"], "--agent"),
        (["rehearse", "x.jsonl", "--agent", "nothing"], "write MODULE:NAME"),
        (["rehearse", "x.jsonl", "--agent", "no_such_module:make"], "no_such_module"),
        (["rehearse", "x.jsonl", "--agent", "tests.specs.rehearsal.recorded_agent:gone"], "no attribute 'gone'"),
        (["rehearse", "x.jsonl", "--agent", "tests.specs.rehearsal.recorded_agent:PROMPT"], "is str"),
        (["rehearse", "x.jsonl", "--agent", AGENT], "there is no file x.jsonl"),
        (["rehearse", "x.jsonl", "--agent", AGENT, "--format", "yaml"], "--format"),
    ],
)
def test_wrong_words_are_told_on_stderr_with_status_2(words: list[str], told: str, capsys: Capture) -> None:
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert told in said.err


def test_a_module_that_raises_when_it_is_imported_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "broken_agent_module.py").write_text("raise RuntimeError('half installed')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["rehearse", "x.jsonl", "--agent", "broken_agent_module:make"]) == 2
    assert "half installed" in capsys.readouterr().err


@pytest.mark.slow
def test_the_pytest_fixture_fails_a_test_where_a_session_differs_and_accepts(tmp_path: Path) -> None:
    shutil.copy(SESSIONS / "three-days.jsonl", tmp_path)
    (tmp_path / "test_mine.py").write_text(
        "from pathlib import Path\n"
        "from tests.specs.rehearsal.recorded_agent import make_agent, other_agent\n"
        "HERE = Path(__file__).parent / 'three-days.jsonl'\n"
        "def test_same(rehearse): assert rehearse(HERE, make_agent).same\n"
        "def test_other(rehearse): rehearse(HERE, other_agent)\n",
        encoding="utf-8",
    )
    root = Path(__file__).parents[3]

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_mine.py"]
        environment = {"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False, env=environment
        )

    done = run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "the system prompt changed" in done.stdout
    done = run("--treadle-accept", "-k", "other")
    assert done.returncode == 0, done.stdout + done.stderr
    assert b"large mill" in (tmp_path / "three-days.jsonl").read_bytes()
