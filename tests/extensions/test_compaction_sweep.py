"""A compaction is stopped or killed at each of its moments: the history is as before, or as after, never between (Z4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio

from tests.extensions.windowed import Windowed
from tests.invariants import check_invariants, check_pairing
from tests.stage import stage
from treadle import (
    Agent,
    AgentOptions,
    Failure,
    Host,
    Message,
    ModelRequest,
    Session,
    message,
)
from treadle.extensions.compaction import Compaction, SummaryJob
from treadle.session import (
    MemoryStore,
    Replace,
    decode_event,
    encode_event,
    new_header,
)

OPTIONS = AgentOptions(provider="scripted", model="m")
LONG = "word " * 100
MOMENTS = 14
"""Rounds of the scheduler: more than a compaction takes here, as the test sees for itself."""


async def in_pieces(job: SummaryJob) -> str:
    """A summary that takes a while."""
    for _ in range(4):
        await trio.lowlevel.checkpoint()
    return f"sum of {len(job.messages)}"


def by_hand(agent: Agent) -> None:
    agent.compact()


def by_turn(agent: Agent) -> None:
    agent.followup(message("next", id="next"))


WAYS: dict[str, tuple[dict[str, Any], Callable[[Agent], None], int]] = {
    "hand": ({}, by_hand, 100_000),
    "window": ({"between_turns": 1.0, "within_turn": 0.2}, by_turn, 2_000),
    "refused": ({}, by_turn, 100_000),
    "share": ({"between_turns": 0.4, "within_turn": 1.0, "keep_turns": 2}, by_turn, 900),
}
"""How a compaction comes about: settings, what brings it about, and the window."""
ENDS: dict[str, Callable[[Any], Any]] = {
    "cancel": lambda s: s.agent.cancel(),
    "cancel and keep": lambda s: s.agent.cancel(keep_inbox=True),
    "dispose": lambda s: s.handle.dispose(keep_inbox=True),
}


def old_part(history: Sequence[Message]) -> list[str]:
    """What the first two turns have become, in words."""
    texts = [one.text for one in history]
    return [text.split(" word")[0].split("\n\n")[-1] for text in texts[: texts.index(f"q2 {LONG}")]]


async def stopped(way: str, end: str, moment: int | None) -> list[str]:
    """What the old part of the history is after a compaction that was stopped after so many rounds, or never."""
    options, begin, window = WAYS[way]
    refusals = 1 if way == "refused" else 0

    def answer(request: ModelRequest) -> Any:
        nonlocal refusals
        if "next" in str(request.messages[-1]) and refusals:
            refusals -= 1
            return Failure("too long", "CONTEXT_WINDOW_EXCEEDED", 400)
        return "a"

    model = Windowed(window, answer, told=False, reports=False)
    async with stage(model=model, host=Host(checks=True)) as s:
        for name in ("q0", "pin", "q1", "q2"):
            s.agent.followup(message(name if name == "pin" else f"{name} {LONG}", pinned=name == "pin"))
            await s.agent.when_idle()
        Compaction(**{"summarize": in_pieces, "keep_turns": 1, "window": window, **options}).install(s.host)
        begin(s.agent)
        if moment is not None:
            for _ in range(moment):
                await trio.lowlevel.checkpoint()
            ending = ENDS[end](s)
            if ending is not None:
                await ending
        await s.agent.when_idle()
        check_pairing(s.agent.session.history())
        if moment is None:
            await killed(s.agent.session)
        return old_part(s.agent.session.history())


async def killed(session: Session) -> None:
    """A process that dies leaves a prefix: of each, the history is what its events fold to, and it is resumed."""
    events = [decode_event(encode_event(entry)) for entry in session.events]
    first = next((entry.seq for entry in events if type(entry.surface_op) is Replace), len(events))
    store = MemoryStore()
    async with Host(store=store, checks=True) as host:
        host.models.register("scripted", Windowed(100_000))
        for count in range(max(first - 3, 0), min(first + 4, len(events) + 1)):
            header = new_header(f"cut-{count}", "/")
            await (await store.create(header, events[:count])).close()
            handle = await host.agents.resume(header.id, agent_options=OPTIONS)
            history = handle.agent.session.history()
            assert list(history)[: len(Session(header, events[:count]).history())] == list(
                Session(header, events[:count]).history()
            )
            handle.agent.followup("go on")
            await handle.agent.when_idle()
            check_invariants(handle.agent.session)
            await handle.dispose()


@pytest.mark.rule("Z4", "C6", "M4", "O4", "P4")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("way", WAYS)
async def test_whenever_it_is_stopped_the_history_is_as_before_or_as_after(way: str, end: str) -> None:
    before = ["q0", "a", "pin", "a", "q1", "a"]
    after = await stopped(way, end, None)
    assert after != before
    seen = [await stopped(way, end, moment) for moment in range(MOMENTS)]
    assert [one for one in seen if one not in (before, after)] == []
    assert seen[0] == before
    assert seen[-1] == after, "the sweep is too short"
