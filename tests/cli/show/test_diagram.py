"""``treadle diagram``: every format, to stdout or a file, and the check."""

import stat
from pathlib import Path

import pytest

import treadle_diagrams
from tests.diagrams.logs import HEADER, scripted
from treadle.session import encode_event, encode_header
from treadle_cli import main

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
    monkeypatch.setattr("treadle_diagrams.lifecycle.committed.home", lambda: tmp_path)
    assert main(["diagram", "--check"]) == 1
    assert str(tmp_path / "lifecycle.svg") in capsys.readouterr().err


# --- sessions ---------------------------------------------------------------------------------------------------------


def stored(tmp_path: Path, name: str) -> Path:
    path = tmp_path / f"{name}.jsonl"
    path.write_bytes(b"\n".join([encode_header(HEADER), *map(encode_event, scripted(name))]) + b"\n")
    return path


@pytest.mark.parametrize(("suffix", "format"), [("svg", "svg"), ("mmd", "mermaid"), ("dot", "dot"), ("md", "table")])
def test_the_name_of_the_file_says_how_it_is_written(tmp_path: Path, suffix: str, format: str) -> None:
    path = tmp_path / f"life.{suffix}"
    assert main(["diagram", "-o", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == DRAWN[format]


@pytest.mark.parametrize("format", DRAWN)
def test_the_path_of_many_logs_is_laid_over_each_format(tmp_path: Path, capsys: Capture, format: str) -> None:
    logs = [stored(tmp_path, name) for name in ("one-tool", "cancel-in-a-tool")]
    assert main(["diagram", "-f", format, "--log", *map(str, logs)]) == 0
    told = capsys.readouterr().out
    walks = [treadle_diagrams.walk_of(scripted(name)) for name in ("one-tool", "cancel-in-a-tool")]
    walked = treadle_diagrams.merge_walks(walks)
    draw = {
        "svg": treadle_diagrams.svg,
        "mermaid": treadle_diagrams.mermaid,
        "dot": treadle_diagrams.dot,
        "table": treadle_diagrams.table_markdown,
    }[format]
    assert told == draw(walked=walked)
    assert told != DRAWN[format]


def test_coverage_files_mark_what_was_visited_and_what_was_missed(tmp_path: Path, capsys: Capture) -> None:
    walk = treadle_diagrams.walk_of(scripted("one-tool"))
    path = tmp_path / "coverage.json"
    path.write_text(treadle_diagrams.coverage_text(walk))
    assert main(["diagram", "-f", "svg", "--coverage", str(path), str(path)]) == 0
    told = capsys.readouterr().out
    assert 'class="label missed" data-move="IDLE.LATCH"' in told
    assert 'class="label walked" data-move="IDLE.WAKE"' in told
    path.write_text("{}")
    assert main(["diagram", "--coverage", str(path)]) == 2
    assert "a coverage file has an object under" in capsys.readouterr().err


@pytest.mark.parametrize(("format", "draw"), [("mermaid", "sequence_mermaid"), ("svg", "sequence_svg")])
def test_a_session_is_drawn_as_a_sequence_whole_or_one_turn_of_it(
    tmp_path: Path, capsys: Capture, format: str, draw: str
) -> None:
    path = stored(tmp_path, "queued-messages")
    make = getattr(treadle_diagrams, draw)
    assert main(["diagram", "-f", format, "--sequence", str(path)]) == 0
    assert capsys.readouterr().out == make(scripted("queued-messages"))
    assert main(["diagram", "-f", format, "--sequence", str(path), "--turn", "2"]) == 0
    assert capsys.readouterr().out == make(scripted("queued-messages"), 2)


@pytest.mark.rule("X1")
def test_a_sequence_holds_what_was_said_and_is_its_owner_s_to_read(tmp_path: Path) -> None:
    out = tmp_path / "turn.svg"
    assert main(["diagram", "--sequence", str(stored(tmp_path, "one-tool")), "-o", str(out)]) == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--turn", "1"], "give it with --sequence FILE"),
        (["--sequence", "LOG", "--turn", "7"], "no turn 7; it has turns 1 to 1"),
        (["--sequence", "LOG", "--log", "LOG"], "leave --log and --coverage out"),
        (["--sequence", "LOG", "-f", "dot"], "mermaid or svg, not dot"),
    ],
)
def test_what_does_not_go_together_is_refused_in_words(
    tmp_path: Path, capsys: Capture, words: list[str], told: str
) -> None:
    path = str(stored(tmp_path, "one-tool"))
    assert main(["diagram", *[path if word == "LOG" else word for word in words]]) == 2
    assert told in capsys.readouterr().err


def test_a_log_that_is_torn_is_drawn_and_told(tmp_path: Path, capsys: Capture) -> None:
    path = stored(tmp_path, "one-tool")
    path.write_bytes(path.read_bytes() + b"{")
    assert main(["diagram", "--log", str(path)]) == 0
    streams = capsys.readouterr()
    assert "enter ×2" in streams.out
    assert "half a line" in streams.err


def test_a_file_name_that_asks_for_no_known_format_is_refused(tmp_path: Path, capsys: Capture) -> None:
    assert main(["diagram", "-o", str(tmp_path / "life.png")]) == 2
    assert ".png" in capsys.readouterr().err
    assert not (tmp_path / "life.png").exists()
