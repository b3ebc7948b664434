"""Waiting for what other processes do."""

from __future__ import annotations

from collections.abc import Callable

import trio


async def eventually(holds: Callable[[], object]) -> None:
    """Wait until something holds that another process brings about; a minute at most."""
    with trio.fail_after(60):
        while not holds():  # noqa: ASYNC110  # no event of ours comes from there
            await trio.sleep(0.01)
