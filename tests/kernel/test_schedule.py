"""The order of tool calls at its edges: what may start, what is refused, what is due (K4, K5)."""

from __future__ import annotations

import pytest

from treadle import ToolCall
from treadle.errors import InvalidTrigger
from treadle.kernel.schedule import Schedule


def schedule(count: int, pool: int = 2) -> Schedule:
    return Schedule(tuple(ToolCall(f"c{at}", "t", "{}") for at in range(count)), pool)


@pytest.mark.rule("K4")
def test_nothing_starts_or_is_refused_beyond_the_last_call() -> None:
    s = schedule(1)
    assert s.may_consider
    s.start(0, parallel=True)
    assert not s.may_consider
    for call in (lambda: s.start(1, parallel=True), lambda: s.refuse(1)):
        with pytest.raises(InvalidTrigger):
            call()


@pytest.mark.rule("K4")
def test_the_pool_is_full_at_its_number() -> None:
    s = schedule(3)
    s.start(0, parallel=True)
    assert s.may_consider
    s.start(1, parallel=True)
    assert not s.may_consider
    s.finish(0)
    assert s.may_consider
    assert s.due
