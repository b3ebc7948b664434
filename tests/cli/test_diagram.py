"""``treadle diagram``: every format, to stdout or a file, and the check."""

from pathlib import Path

import pytest

import treadle_diagrams
from treadle_adapters.cli import main

Capture = pytest.CaptureFixture[str]
DRAWN = {
    "mermaid": treadle_diagrams.mermaid(),
    "svg": treadle_diagrams.svg(),
    "dot": treadle_diagrams.dot(),
    "table": treadle_diagrams.table_markdown(),
}


@pytest.mark.parametrize("format", DRAWN)
def test_each_format_is_what_the_package_draws(format: str, capsys: Capture) -> None:
    assert main(["diagram", "--format", format]) == 0
    assert capsys.readouterr().out.strip() == DRAWN[format].strip()


def test_mermaid_is_the_default(capsys: Capture) -> None:
    assert main(["diagram"]) == 0
    assert capsys.readouterr().out == DRAWN["mermaid"]


def test_an_unknown_format_names_the_known_ones(capsys: Capture) -> None:
    assert main(["diagram", "-f", "oil"]) == 2
    told = capsys.readouterr().err
    assert "oil" in told
    assert "mermaid" in told


def test_a_file_is_written_with_its_folder(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "new" / "life.svg"
    assert main(["diagram", "-f", "svg", "-o", str(path)]) == 0
    assert path.read_bytes() == DRAWN["svg"].encode()
    streams = capsys.readouterr()
    assert streams.out == ""
    assert str(path) in streams.err


def test_a_file_that_cannot_be_written_is_an_error_in_words(tmp_path: Path, capsys: Capture) -> None:
    assert main(["diagram", "-o", str(tmp_path)]) == 1
    assert "treadle: Is a directory" in capsys.readouterr().err


def test_the_check_tells_fresh_from_stale_and_missing(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "life.dot"
    words = ["diagram", "-f", "dot", "-o", str(path), "--check"]
    assert main(words) == 1
    assert "missing" in capsys.readouterr().err
    assert not path.exists()
    path.write_text("digraph old {}")
    assert main(words) == 1
    assert "stale" in capsys.readouterr().err
    path.write_text(DRAWN["dot"], encoding="utf-8", newline="\n")
    assert main(words) == 0


def test_the_check_of_the_repository_s_drawings_names_what_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert main(["diagram", "--check"]) == 0
    monkeypatch.setattr("treadle_diagrams.committed.home", lambda: tmp_path)
    assert main(["diagram", "--check"]) == 1
    assert str(tmp_path / "lifecycle.svg") in capsys.readouterr().err
