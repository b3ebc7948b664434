"""Whatever is compacted and whenever: the history is the fold of the log, live, reloaded, resumed and forked (Z1, Z3, N5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from hypothesis import given, settings
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
from treadle.extensions import Compaction, Ledger, SummaryJob, SummarySource
from treadle.models import ToolResultMessage, UserMessage
from treadle.session import Replace, decode_event, encode_event, fork

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


def whole_turns(history: Sequence[Message]) -> list[str]:
    return [one.id for one in history if isinstance(one, UserMessage) and not isinstance(one.source, SummarySource)]


async def play(program: list[Any], agent: Agent, keeping: dict[str, int]) -> None:
    for number, step in enumerate(program):
        if isinstance(step, int):
            keeping["turns"] = step
            before = list(agent.session.history())
            prompts = whole_turns(before)
            done = await agent.compact()
            after = list(agent.session.history())
            kept = whole_turns(after)
            pinned = [one.id for one in before if isinstance(one, UserMessage) and one.pinned]
            latest = [name for name in turns_of(agent.session)][len(turns_of(agent.session)) - step :]
            assert [name for name in prompts if name in pinned or name in latest] == kept
            assert (done.replaced > 0) == (before != after)
        else:
            calls, pinned, size = step
            agent.followup(
                message(f"{calls} {'w ' * size}", id=f"{agent.id}-{len(agent.session)}-{number}", pinned=pinned)
            )
            await agent.when_idle()
        same(agent.session)


def turns_of(session: Session) -> list[str]:
    """The prompts of all turns, compacted or not."""
    return [
        entry.data.message.id
        for entry in session.events
        if entry.type == "user/message" and not isinstance(entry.data.message.source, SummarySource)
    ]


class Keeps(Compaction):
    """A compaction whose kept turns are drawn anew each time."""


def compaction(keeping: dict[str, int], name: str) -> Any:
    def sums(job: SummaryJob) -> str:
        return f"{name} {len(job.messages)}"

    return lambda scope, models: [
        Compaction(summarize=sums, keep_turns=keeping["turns"]).install(scope, models),
    ]


async def alive(program: list[Any], left: list[Any], right: list[Any]) -> None:
    store = MemoryStore()
    async with Host(store=store, checks=True) as host:
        host.models.register("scripted", Windowed(1_000_000, answers))
        host.tools.register(look)
        parent = await host.agents.create(session_id="p", agent_options=OPTIONS)
        await lives(host, parent.agent, program)
        await parent.dispose()
        base = list(parent.agent.session.events)
        pair: list[Agent] = []
        for name in ("left", "right"):
            child = fork(parent.agent.session, name)
            await (await store.create(child.header, list(child.events))).close()
            pair.append((await host.agents.resume(name, agent_options=OPTIONS)).agent)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lives, host, pair[0], left)
            nursery.start_soon(lives, host, pair[1], right)
        for one in pair:
            assert [encode_event(entry) for entry in list(one.session.events)[: len(base)]] == [
                encode_event(entry) for entry in base
            ]
            check_invariants(one.session)
        for count in range(len(base) + 1):
            Session(parent.agent.session.header, [decode_event(encode_event(entry)) for entry in base[:count]])


async def lives(host: Host, agent: Agent, program: list[Any]) -> None:
    for step in program:
        keep = step if isinstance(step, int) else 0
        undo = Compaction(summarize=lambda job: f"{agent.id} {len(job.messages)}", keep_turns=keep).install(
            agent.scope, host.models
        )
        await play([step], agent, {"turns": keep})
        undo()


@pytest.mark.rule("Z1", "Z2", "Z3", "N5", "S4", "S5", "P4")
@settings(max_examples=25, deadline=None)
@given(program=PROGRAM, left=PROGRAM, right=PROGRAM)
def test_the_history_is_the_fold_of_the_log_and_forks_do_not_disturb_each_other(
    program: list[Any], left: list[Any], right: list[Any]
) -> None:
    trio.run(alive, program, left, right)
