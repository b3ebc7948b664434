"""A test that never ends is a failure with a dump, and the tests after it run as if nothing had been."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTS = """
import threading, time
import pytest, trio

soon = pytest.mark.timeout(0.5)


async def wait_for_a_sign(sign):
    await sign.wait()


@soon
async def test_a_wake_is_lost():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_a_sign, trio.Event(), name="the one that is not woken")
        await trio.to_thread.run_sync(lambda: None)


@soon
async def test_shielded():
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()


async def test_afterwards():
    await trio.lowlevel.checkpoint()


@soon
def test_outside_trio():
    threading.Event().wait()


async def test_afterwards_as_well():
    await trio.lowlevel.checkpoint()
"""


def run(tmp_path: Path, *options: str) -> str:
    (tmp_path / "test_hanging.py").write_text(TESTS)
    (tmp_path / "pytest.toml").write_text(
        f'[pytest]\npythonpath = ["{ROOT}"]\ntrio_mode = true\nstrict = true\nfilterwarnings = ["error"]\n'
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.timeouts", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_lost_wake_up_fails_with_the_task_that_waits_for_it(tmp_path: Path) -> None:
    told = run(tmp_path, "-n", "0", "-rA")
    assert "not over after 0.5 s" in told
    assert "task the one that is not woken" in told
    assert "in wait_for_a_sign: await sign.wait()" in told
    assert "3 failed, 2 passed" in told
