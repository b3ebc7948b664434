"""The commands that hold drivers, the kernel and logs to their word: words in, report and exit status out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle_cli import main
from treadle_specs.exploration import promela

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["conform", "--rig", "'open"], "--rig is no command line: No closing quotation"),
        (["conform", "--rig", " "], "--rig is empty"),
        (["replay", "--rig", "", "x.json"], "--rig is empty"),
        (["conform", "--examples", "0"], "--examples"),
        (["conform", "--format", "yaml"], "--format"),
        (["explore", "--ids", "0"], "--ids"),
        (["explore", "--ids", "few"], "--ids"),
        (["explore", "--jobs", "0"], "--jobs"),
        (["explore", "--max-seconds", "0"], "--max-seconds"),
        (["replay"], "SCRIPTS"),
        (["check"], "LOGS"),
        (["export", "promela", "more"], "more"),
    ],
)
def test_e9_wrong_words_are_told_on_stderr_with_status_2(words: list[str], told: str, capsys: Capture) -> None:
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("treadle: ")
    assert told in said.err


def test_a_rig_that_cannot_be_started_is_an_error_and_no_broken_rule(capsys: Capture) -> None:
    assert main(["conform", "--rig", "/no/such/driver", "--core", "--no-corpus"]) == 3
    told = capsys.readouterr().out
    assert "the rig is at fault" in told
    assert "/no/such/driver" in told
    assert "BROKEN" not in told


def test_check_tells_each_log_in_turn_and_its_status_says_whether_all_are_sound(
    tmp_path: Path, capsys: Capture
) -> None:
    assert main(["run", "--session-dir", str(tmp_path), "hello"]) == 0
    (log,) = tmp_path.glob("*.jsonl")
    capsys.readouterr()
    assert main(["check", str(log), "--finished"]) == 0
    assert "sound" in capsys.readouterr().out
    assert main(["check", "--json", str(log), str(tmp_path / "none.jsonl")]) == 1
    first, second = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (first["sound"], second["sound"]) == (True, False)


def test_explore_passes_on_what_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []

    def explored(*given: object, save: object, out: object, **more: object) -> int:
        asked.extend([given, more, save])
        return 1

    monkeypatch.setattr("treadle_cli.verify.kernel.explore_command", explored)
    words = ["--ids", "2", "--max-seconds", "1.5", "--json", "--jobs", "3", "--save", str(tmp_path)]
    assert main(["explore", *words]) == 1
    assert asked == [(2, 1.5), {"as_json": True, "jobs": 3}, tmp_path]


@pytest.mark.slow
def test_export_promela_writes_the_model_and_misses_spin_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert main(["export", "promela"]) == 0
    assert capsys.readouterr().out == promela.promela(promela.space())
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert main(["export", "promela", "--check"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "apt install spin" in said.err
