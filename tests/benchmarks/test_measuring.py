"""Rows, curves, loads and peers do what they say; what they find is nobody's business here."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio

import treadle
import treadle_adapters.http.body
from benchmarks import growth, instructions, load, shares
from benchmarks.measure import Benchmark, Sample, measure
from benchmarks.peers import table
from benchmarks.peers.table import PEERS, WORK, Peer, Runner, compare
from benchmarks.rows import collect

ROOT = Path(__file__).parents[2]


def test_no_two_rows_have_one_name() -> None:
    names = [benchmark.name for benchmark in collect()]
    assert len(names) == len(set(names)) > 30


def test_a_row_that_has_taken_its_time_gets_no_further_sample() -> None:
    taken: list[float] = []

    def take() -> Sample:
        taken.append(float(len(taken)))
        return Sample(taken[-1])

    benchmark = Benchmark("x", "x", "x", 10.0, take, "at-most")
    assert measure(benchmark, 4, patience=0.0).ours == 1.0  # the first one warmed up
    assert measure(benchmark, 3).ours == 4.0
    assert len(taken) == 6


@pytest.mark.parametrize("curve", growth.GROWTH, ids=lambda one: one.name)
def test_each_curve_has_a_cost_at_its_least_size(curve: growth.Growth) -> None:
    [(size, cost)] = growth.measure(curve, curve.sizes[0], rounds=1)
    assert size == curve.sizes[0]
    assert cost > 0


async def test_a_load_is_carried_and_comes_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "CANCELS", 4)
    carried = await load.carry(6)
    assert carried.agents == 6
    assert carried.cancel > 0


async def test_the_rows_of_a_load_ask_for_one_load_together(monkeypatch: pytest.MonkeyPatch) -> None:
    carried = iter([load.Carried(1, 1.0, 2.0, 3.0, 4.0), load.Carried(1, 5.0, 6.0, 7.0, 8.0)])

    async def carry(agents: int) -> load.Carried:
        return next(carried)

    monkeypatch.setattr(load, "carry", carry)
    first = [(await row()).ours for row in (load.cancel, load.cancel, load.lag, load.least, load.lag, load.least)]
    assert first == [1.0, 5.0, 2.0, 3.0, 6.0, 7.0]


def test_each_peer_has_a_script_and_is_pinned_by_its_rig() -> None:
    for peer in PEERS:
        assert Path(peer.command[1]).is_file()
        assert peer.name == "treadle" or list((ROOT / "examples" / "rigs").glob(f"{peer.name}_rig.*"))


def test_treadle_does_the_work_of_the_peers() -> None:
    [standing] = compare(PEERS[:1], 1, {"turns": 3, "steps": 3, "chunks": 30})
    assert standing.peer == "treadle"
    assert set(standing.rates) == set(WORK)
    assert all(rate > 0 for rate in standing.rates.values())


def test_a_peer_that_does_not_do_its_work_is_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = (ROOT / "benchmarks" / "peers" / "serving.py").read_text(encoding="utf-8")
    (tmp_path / "serving.py").write_text(serving, encoding="utf-8")
    script = "import asyncio\nfrom serving import expect, serve\nasync def turns(count, clock):\n    expect(count, 0)\n"
    script += "serve(lambda work, *given: asyncio.run(work(*given)), '1', turns=turns)\n"
    (tmp_path / "on_treadle.py").write_text(script, encoding="utf-8")
    monkeypatch.setattr(table, "HERE", tmp_path)
    runner = Runner(Peer("treadle", "treadle", ""))
    assert runner.version == "1"
    with pytest.raises(RuntimeError, match=r"on_treadle.py has ended with status 1"):
        runner.seconds("turns", 5)


def test_shares_are_those_of_rooms_and_libraries() -> None:
    core = str(Path(treadle.__file__).parent)
    assert shares.owner(f"{core}/loop/driver.py") == "treadle/loop"
    assert shares.owner(f"{core}/ids.py") == "treadle/ids"
    assert shares.owner(trio.__file__) == "trio"
    assert shares.owner(treadle_adapters.http.body.__file__) == "treadle_adapters/http"
    assert shares.owner("<attrs generated methods x>") == "attrs"
    assert shares.owner(str(ROOT / "benchmarks" / "subjects.py")) == "the benchmark"
    assert shares.owner("<frozen abc>") == "Python"
    assert shares.shares(Counter(a=150, b=49, c=1)) == pytest.approx({"a": 0.75, "b": 0.245, "others": 0.005})
    assert shares.shares(Counter()) == {}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers of processor time")
def test_sampling_leaves_the_signal_as_it_was() -> None:
    before = signal.getsignal(signal.SIGPROF)
    assert sum(shares.sample("turn", 20).values()) in (0, pytest.approx(1.0))
    assert signal.getsignal(signal.SIGPROF) is before


def test_work_that_fails_is_not_counted() -> None:
    failing = (
        "from benchmarks import instructions\nasync def fail(amount): raise ValueError\ninstructions._fork(fail, 1)"
    )
    run = subprocess.run(
        [sys.executable, "-c", failing], cwd=ROOT, check=False, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 1
    assert "RuntimeError: the work failed" in run.stderr


@pytest.mark.slow
@pytest.mark.skipif(not instructions.available(), reason="needs valgrind")
def test_instructions_are_counted_alike_by_two_runs() -> None:
    one, other = instructions.count(), instructions.count()
    assert set(one) == set(instructions.WORKS)
    for name in ("turn", "tool-step", "chunk", "creation"):
        assert one[name][0] == pytest.approx(other[name][0], rel=0.05)
        assert one[name][0] > one[name][1] > 0
