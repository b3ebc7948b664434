"""The drawings in the repository are those that the running table gives."""

import subprocess
import sys
from pathlib import Path

import pytest

import treadle_diagrams
from treadle import MisuseError
from treadle_diagrams.__main__ import main
from treadle_diagrams.lifecycle import committed
from treadle_diagrams.lifecycle.committed import drawings, home, stale, write


def test_the_committed_drawings_are_fresh():
    assert stale(home()) == (), "run python -m treadle_diagrams --write"


def test_the_drawings_lie_beside_the_package():
    assert home() == Path(treadle_diagrams.__file__).parents[1]
    assert set(drawings()) == {"lifecycle.svg", "lifecycle.mmd", "lifecycle.dot", "lifecycle.md"}


def test_writing_makes_a_stale_folder_fresh_and_touches_nothing_else(tmp_path: Path):
    (tmp_path / "other.txt").write_text("kept")
    assert main(["--write", "--folder", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"other.txt", *drawings()}
    assert stale(tmp_path) == ()
    assert write(tmp_path) == ()


@pytest.mark.parametrize("name", drawings())
def test_the_check_fails_and_names_each_file_that_is_stale_or_missing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write(tmp_path)
    assert main(["--check", "--folder", str(tmp_path)]) == 0
    (tmp_path / name).write_text("old")
    assert main(["--check", "--folder", str(tmp_path)]) == 1
    assert (
        capsys.readouterr().err == f"stale: {tmp_path / name}; run python -m treadle_diagrams --write and commit it\n"
    )
    (tmp_path / name).unlink()
    assert main(["--check", "--folder", str(tmp_path)]) == 1


def test_a_drawing_with_other_ends_of_line_is_stale(tmp_path: Path):
    write(tmp_path)
    page = tmp_path / "lifecycle.md"
    page.write_bytes(page.read_bytes().replace(b"\n", b"\r\n"))
    assert stale(tmp_path) == ("lifecycle.md",)


def test_an_installed_copy_asks_for_a_folder_and_a_missing_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit, match="2"):
        main(["--check", "--folder", str(tmp_path / "nowhere")])
    assert "nowhere is no folder" in capsys.readouterr().err
    monkeypatch.setattr(
        committed, "__file__", str(tmp_path / "site-packages" / "treadle_diagrams" / "lifecycle" / "committed.py")
    )
    with pytest.raises(MisuseError, match="--folder"):
        home()
    with pytest.raises(SystemExit, match="2"):
        main(["--check"])
    assert "--folder" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "treadle_diagrams", "--help"], capture_output=True, text=True, check=True
    )
    assert "--check" in done.stdout
