"""What a session says is followed from anywhere, and its calls are approved from there (A5)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import trio

from tests.cluster.conftest import eventually
from tests.postgres import Server
from treadle import Answer, Call, Host, SessionNotFound, tool
from treadle.errors import MisuseError
from treadle.hooks import LLM_STREAM, TOOLS_PRE_EXECUTE, AskCall, StreamProposal
from treadle.models import Chunk, TextDelta
from treadle.session import UserMessageAdded
from treadle_adapters.cluster import AgentRef, Post, Replica
from treadle_adapters.stores.postgres import PostgresStore

from .conftest import OPTIONS, Enter, log, replica_of


@pytest.mark.rule("A5")
async def test_a_live_attempt_is_followed_from_elsewhere_whole_whenever_one_joins(
    enter: Enter, store: PostgresStore, post: Post
) -> None:
    answer = "".join(f"{number:04} " for number in range(3_000))  # more than one notice holds
    seen: list[Any] = []
    heard = trio.Event()

    async def halfway(_: StreamProposal, proceed: Callable[[], Awaitable[AsyncIterator[Chunk]]]) -> Any:
        stream = await proceed()

        async def chunks() -> AsyncIterator[Chunk]:
            number = 0
            async for chunk in stream:
                yield chunk
                number += 1
                if number == 2_000:
                    await heard.wait()

        return chunks()

    async def follow(agent: AgentRef) -> None:
        async with agent.live() as coming:
            async for live in coming:
                seen.append(live)
                heard.set()
                if live.attempt is None:
                    return

    async with enter([answer]) as host, enter() as other:
        host.on(LLM_STREAM, halfway)
        handle = await host.agents.resume("s", agent_options=OPTIONS)
        handle.agent.followup("speak")
        await trio.testing.wait_all_tasks_blocked(0.05)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, replica_of(other).agent("s"))
        await handle.agent.when_idle()
    said = [chunk for live in seen for chunk in live.chunks]
    numbers = [live.start for live in seen if live.chunks]
    assert numbers[0] == 0
    assert numbers == sorted(set(numbers))
    text = "".join([chunk.text for chunk in said if isinstance(chunk, TextDelta)])
    assert answer.startswith(text), "something was lost or told twice"
    assert len(text) > 9_000, "who joined late was not told the beginning; the end may be told by the log alone"
    [recorded] = [entry.data for entry in await log(store) if entry.type == "assistant/message"]
    assert seen[0].attempt == recorded.attempt_id


@pytest.mark.rule("A1", "A5", "K2")
async def test_a_call_is_approved_from_elsewhere(enter: Enter, store: PostgresStore, post: Post) -> None:
    @tool
    def act() -> str:
        """Act on the world."""
        return "acted"

    async with enter([Answer(calls=(Call("act", {}),)), "done"] * 2) as host, enter() as other:
        host.tools.register(act)
        host.on(TOOLS_PRE_EXECUTE, lambda *_: AskCall("may it?"))
        await host.agents.resume("s", agent_options=OPTIONS)
        agent = replica_of(other).agent("s")
        for approved in (True, False):
            async with agent.live() as coming:
                await agent.followup("go")
                async for live in coming:
                    if live.approvals:
                        [approval] = live.approvals
                        assert (approval.tool, approval.question) == ("act", "may it?")
                        assert await agent.approve(approval.id, approved)
                        assert not await agent.approve(approval.id, not approved)
                        break
            asked = host.agents.get("s")
            assert asked is not None
            await asked.when_idle()
    results = [entry.data.is_error for entry in await log(store) if entry.type == "tool/result"]
    assert results == [False, True]


@pytest.mark.rule("A5")
async def test_events_are_followed_from_any_place_and_end_with_the_session(
    enter: Enter, store: PostgresStore, post: Post
) -> None:
    async with enter() as host:
        await post.agent("s").ask("one")
        seen: list[Any] = []
        async with post.agent("s").events(2) as coming:
            async for entry in coming:
                seen.append(entry)
                if entry.type == "turn/end" and entry.data.turn == 1:
                    await post.agent("s").followup("two")
                if entry.type == "turn/end" and entry.data.turn == 2:
                    break
        assert seen == (await log(store))[2 : len(seen) + 2]
        assert isinstance(seen[2].data, UserMessageAdded)
        await post.agent("s").dispose()
        assert await eventually(lambda: not host.agents.list())
    await store.delete("s")
    async with post.agent("s").events() as coming:
        with pytest.raises(SessionNotFound):
            await anext(coming)


@pytest.mark.rule("A6")
async def test_a_replica_says_what_it_is(postgres: Server, schema: str) -> None:
    replica = Replica(postgres.url, schema=schema)
    with pytest.raises(MisuseError, match="brings its store"):
        Host(replica=replica, store=replica.store)
    assert repr(replica.agent("s")) == "<AgentRef s>"
