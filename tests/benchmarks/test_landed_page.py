"""The page is made from the file alone, and says all that is in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from benchmarks.landed import figures as file
from benchmarks.landed import page
from benchmarks.landed.__main__ import main
from benchmarks.peers.table import PEERS, Standing

from .figures import figures


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "benchmarks" / "landed").mkdir(parents=True)
    (tmp_path / page.NOTES).write_text("## Why\n\nFor a reason.\n", encoding="utf-8")
    return tmp_path


def test_it_says_machine_interpreter_and_load(root: Path) -> None:
    text = page.text(figures("CPython 3.11.7"), root)
    for told in (
        "2026-01-02",
        "CPython 3.11.7",
        "trio 0.35.0",
        "A processor, 2 processors",
        "0.5 processes",
        "1.5 at its end",
    ):
        assert told in text


def test_what_was_measured_in_a_hurry_is_called_so(root: Path) -> None:
    assert "in a hurry" not in page.text(figures(), root)
    assert "in a hurry" in page.text(evolve(figures(), hurried=True), root)


def test_each_row_has_floor_and_bar_and_those_missed_are_named(root: Path) -> None:
    text = page.text(figures(), root)
    assert "| `turn` | a turn; µs/turn | 100.0 | 25.0 | 4.00 | ≤ 5.0 × |  |" in text
    assert "| `idle-agent` | an agent; bytes | 5,000 | – | – | ≤ 4,096 | **missed** |" in text
    assert "Missed: `idle-agent`; why: [below](#why)." in text
    assert text.endswith("## Why\n\nFor a reason.\n")


def test_it_says_what_a_process_carries_and_the_command_that_measures_it(root: Path) -> None:
    text = page.text(figures(), root)
    assert "| turns of one step | 10,000 a second | `python -m benchmarks --only turn` |" in text
    assert "1,000 agents answered over HTTP at once" in text
    assert (
        "cancel p99 12.3 ms, lag of the loop p99 5.0 ms, the least served agent gets 98% of its deltas; 60% of the core"
        in text
    )
    assert "`TREADLE_STREAMS=1000 python -m benchmarks --only many-agents-cancel`" in text


def test_drivers_are_told_with_their_version_and_what_they_keep_once_they_were_measured(root: Path) -> None:
    assert "## Beside other drivers" not in page.text(figures(), root)
    standing = Standing("langgraph", "1.2.3", {"turns": 100.0, "steps": 1_234.5, "chunks": 55_555.0})
    text = page.text(figures(peers=(standing,)), root)
    assert "| langgraph | 1.2.3 | 100.0 | 1,230 | 55,600 |" in text
    assert f"| langgraph | {next(peer.keeps for peer in PEERS if peer.name == 'langgraph')} |" in text


def test_curves_are_drawn_and_told(root: Path) -> None:
    assert (
        "| turns | a turn after so many turns of its session; µs/turn | 10, 100 | 1, 1.1 | 1.10 (does not grow) |"
        in page.text(figures(), root)
    )
    assert page.picture(figures()).count("<polyline") == 1
    assert page.picture(figures()).count("not measured") == 5


def test_shares_stand_beside_each_other_the_rest_at_the_end(root: Path) -> None:
    text = page.text(figures(), root)
    table = text[text.index("| | turn | tool-step |") :].splitlines()[2:6]
    assert table == [
        "| `trio` | 50% |  |",
        "| `treadle/loop` | 30% |  |",
        "| Python |  | 100% |",
        "| others | 20% |  |",
    ]


def test_what_is_older_than_the_file_is_stale(root: Path) -> None:
    assert [told.partition(" ")[0] for told in page.stale(figures(), root)] == [page.PAGE, page.PICTURE]
    page.write(figures(), root)
    assert page.stale(figures(), root) == []
    assert page.stale(figures("CPython 3.99.1"), root) == [
        f"{page.PAGE} is stale: run python -m benchmarks.landed --write"
    ]


def test_what_is_written_is_read_again_with_numbers_cut(root: Path) -> None:
    file.write(figures(), root)
    again = file.read(root)
    assert again == figures()
    assert "12.34" in (root / file.FILE).read_text(encoding="utf-8")


def test_the_figures_that_landed_can_be_read_and_their_page_is_fresh() -> None:
    assert main(["--check"]) == 0
