"""A machine that a fault stops in the middle leaves no run of trio behind for the tests after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from trio._core._run import GLOBAL_RUN_CONTEXT  # there is no public way to end a run that is not its own


@pytest.fixture(autouse=True)
def no_run_is_left() -> Iterator[None]:
    yield
    for name in ("runner", "task"):
        vars(GLOBAL_RUN_CONTEXT).pop(name, None)
