"""Whatever is compacted and whenever: the history is the fold of the log, live, reloaded, resumed and forked (Z1, Z3, N5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.extensions.windowed import Windowed
from tests.invariants import check_invariants, check_pairing
from treadle import (
    Agent,
    AgentOptions,
    Answer,
    Call,
    Event,
    Host,
    MemoryStore,
    Message,
    ModelRequest,
    Session,
    message,
    tool,
)
from treadle.extensions.compaction import Compaction, Ledger, SummarySource
from treadle.models import ToolResultMessage, UserMessage
from treadle.session import Replace, decode_event, encode_event

OPTIONS = AgentOptions(provider="scripted", model="m")
TURN = st.tuples(st.integers(0, 3), st.booleans(), st.integers(1, 60))
"""How many calls a turn has, whether its prompt is pinned, and how long it is."""
COMPACT = st.integers(0, 3)
"""How many turns a compaction keeps."""
PROGRAM = st.lists(st.one_of(TURN, TURN, COMPACT), min_size=3, max_size=12)


@tool
async def look(at: int) -> str:
    """Look at something."""
    return f"seen {at} " * 5


def answers(request: ModelRequest) -> Any:
    """As many calls as the prompt asks for, then words."""
    last = request.messages[-1]
    if isinstance(last, ToolResultMessage):
        return "looked"
    calls = last.text.partition(" ")[0]
    return (
        Answer("", calls=[Call("look", {"at": n}) for n in range(int(calls))]) if calls in ("1", "2", "3") else "said"
    )


def folded(events: Sequence[Event]) -> list[Any]:
    """The history by a second hand: what each surface event says, in the order of the surface."""
    order: list[int] = []
    for entry in events:
        op = entry.surface_op
        if isinstance(op, Replace):
            first, last = order.index(op.first), order.index(op.last)
            order[first : last + 1] = [entry.seq]
        elif op is not None:
            order.append(entry.seq)
    return [events[seq].data for seq in order]


def same(session: Session) -> None:
    """The live history, the fold, and the ledger say the same."""
    said = [data for data in folded(session.events) if not _silent(data)]
    history = list(session.history())
    assert len(said) == len(history)
    for data, shown in zip(said, history, strict=True):
        assert getattr(data, "message", shown) == shown
    check_pairing(history)
    ledger = Ledger()
    ledger.catch_up(session)
    fresh = Ledger()
    for one in history:
        fresh._total += fresh._estimate(one)  # pyright: ignore[reportPrivateUsage]
    assert ledger._total == fresh._total  # pyright: ignore[reportPrivateUsage]


def _silent(data: Any) -> bool:
    content = getattr(getattr(data, "message", None), "content", ("x",))
    return not content


def prompts(history: Sequence[Message]) -> list[str]:
    """The ids of what users said."""
    return [one.id for one in history if isinstance(one, UserMessage) and not isinstance(one.source, SummarySource)]


def turns_of(session: Session) -> list[str]:
    """The prompts of all turns, compacted or not."""
    said = [entry.data.message for entry in session.events if entry.type == "user/message"]
    return [one.id for one in said if not isinstance(one.source, SummarySource)]


async def compact(host: Host, agent: Agent, keep: int) -> None:
    """Compact all but so many turns, and look at what is left."""
    before = list(agent.session.history())
    pinned = [one.id for one in before if isinstance(one, UserMessage) and one.pinned]
    names = turns_of(agent.session)
    latest = names[len(names) - keep :] if keep < len(names) else names
    undo = Compaction(summarize=lambda job: f"{agent.id} {len(job.messages)}", keep_turns=keep).install(
        agent.scope, host.models
    )
    done = await agent.compact()
    undo()
    after = list(agent.session.history())
    assert prompts(after) == [name for name in prompts(before) if name in pinned or name in latest]
    assert (done.replaced > 0) == (before != after)


async def live(host: Host, agent: Agent, program: list[Any]) -> None:
    """Turns and compactions, as drawn."""
    for step in program:
        if isinstance(step, int):
            await compact(host, agent, step)
        else:
            calls, pinned, size = step
            text = f"{calls} {'w ' * size}"
            agent.followup(message(text, id=f"{agent.id} {len(agent.session)}", pinned=pinned))
            await agent.when_idle()
        same(agent.session)


async def family(program: list[Any], left: list[Any], right: list[Any]) -> None:
    """A session, and two forks of it that go on side by side."""
    store = MemoryStore()
    async with Host(store=store, checks=True) as host:
        host.models.register("scripted", Windowed(1_000_000, answers))
        host.tools.register(look)
        parent = await host.agents.create(session_id="p", agent_options=OPTIONS)
        await live(host, parent.agent, program)
        await parent.dispose()
        before = [encode_event(entry) for entry in parent.agent.session.events]
        forks: list[Agent] = []
        for name in ("left", "right"):
            await store.fork("p", name)
            forks.append((await host.agents.resume(name, agent_options=OPTIONS)).agent)
        async with trio.open_nursery() as nursery:
            for one, own in zip(forks, (left, right), strict=True):
                nursery.start_soon(live, host, one, own)
        for one in forks:
            assert [encode_event(entry) for entry in one.session.events][: len(before)] == before
            check_invariants(one.session)
        for count in range(len(before) + 1):  # whatever a crash leaves is read
            Session(parent.agent.session.header, [decode_event(line) for line in before[:count]])


@pytest.mark.rule("Z1", "Z2", "Z3", "N5", "S4", "S5", "P4")
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(program=PROGRAM, left=PROGRAM, right=PROGRAM)
def test_the_history_is_the_fold_of_the_log_and_forks_do_not_disturb_each_other(
    program: list[Any], left: list[Any], right: list[Any]
) -> None:
    trio.run(family, program, left, right)
