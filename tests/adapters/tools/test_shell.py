"""The tool that runs commands: what it tells, and what is left of it: nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.adapters.mcp.stage import alive
from tests.adapters.tools.stage import Stage, staged
from tests.adapters.waiting import eventually
from treadle_adapters.progress import TOOL_PROGRESS, ToolProgress


def real(path: Path) -> str:
    return str(path.resolve())


async def test_a_command_runs_in_the_folder_and_is_asked_about(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        assert await stage.told("run_command", command="pwd; echo told >&2") == f"{real(tmp_path)}\ntold"
        assert stage.asked == [f"may this be run in {real(tmp_path)}?\npwd; echo told >&2"]
        assert await stage.told("run_command", command="true") == "(no output)"


async def test_a_command_that_is_not_approved_does_not_run(tmp_path: Path) -> None:
    async with staged(tmp_path, approve=False) as stage:
        assert (await stage.told("run_command", command="touch there")).startswith("NOT_APPROVED: ")
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo no; exit 3", "TOOL_FAILED: no\n[ended with status 3]"),
        ("kill -9 $$", "TOOL_FAILED: \n[ended with signal 9]"),
        ("no-such-program 2>/dev/null", "TOOL_FAILED: \n[ended with status 127]"),
        ("cat", "(no output)"),
        ("printf 'a\\377b'", "a\ufffdb"),
    ],
)
async def test_how_it_ended_is_told(tmp_path: Path, command: str, told: str) -> None:
    async with staged(tmp_path) as stage:
        assert await stage.told("run_command", command=command) == told


async def test_nothing_is_inherited_but_what_programs_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "s")
    async with staged(tmp_path) as stage:
        told = await stage.told("run_command", command="env")
        assert "SOME_SECRET" not in told
        assert "GIT_TERMINAL_PROMPT=0" in told
        assert "PATH=" in told


async def test_output_is_told_while_it_runs(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        heard = trio.Event()
        news: list[ToolProgress] = []

        def listen(one: ToolProgress) -> None:
            news.append(one)
            (tmp_path / "go").touch()
            heard.set()

        stage.host.on(TOOL_PROGRESS, listen)
        assert (
            await stage.told("run_command", command="echo first; while [ ! -e go ]; do sleep 0.01; done; echo last")
            == "first\nlast"
        )
        assert heard.is_set()
        assert news[0].text == "first\n"


async def test_long_output_keeps_its_two_ends(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        told = await stage.told(
            "run_command", command="echo begin; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end"
        )
        assert len(told) < 110_000
        assert told.startswith("begin\n")
        assert told.endswith("\nend")
        assert "bytes left out]" in told


async def started(folder: Path) -> int:
    await eventually(lambda: (folder / "pid").exists() and (folder / "pid").read_text().strip())
    return int((folder / "pid").read_text())


async def gone(pid: int) -> None:
    await eventually(lambda: not alive(pid))


HOLD = "sleep 3600 & echo $! > pid; "


async def test_a_cancel_kills_the_whole_group(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, trio.open_nursery() as nursery:

        async def cancel(stage: Stage) -> None:
            pid = await started(tmp_path)
            stage.agent.cancel()
            await stage.agent.when_idle()
            await gone(pid)

        nursery.start_soon(cancel, stage)
        assert (await stage.told("run_command", command=HOLD + "trap '' TERM; wait; wait; sleep 3600")).startswith(
            "ABORTED: "
        )


async def test_time_that_is_up_kills_the_whole_group(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        told = await stage.told("run_command", command=HOLD + "echo so far; wait", seconds=1)
        assert told == "TOOL_TIMEOUT: so far\n[stopped after 1 s]"
        await gone(await started(tmp_path))


async def test_what_a_command_leaves_in_the_background_ends_with_it(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        assert await stage.told("run_command", command=HOLD + "echo done") == "done"
        await gone(await started(tmp_path))


async def test_a_host_that_ends_during_a_command_leaves_nothing(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, trio.open_nursery() as nursery:

        async def leave() -> None:
            await started(tmp_path)
            nursery.cancel_scope.cancel()

        nursery.start_soon(leave)
        await stage.told("run_command", command=HOLD + "wait")
    await gone(await started(tmp_path))
