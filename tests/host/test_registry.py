"""Lookup, publication by hand, and ownership (O3, O6, O15)."""

import pytest
import trio

from tests.hosts import create, hosted
from treadle import Agent, AgentDisposed, AgentOptions, DuplicateSession, Host, MisuseError, Session
from treadle.hooks import AGENT_CREATED, AGENT_DISPOSED, AGENT_STATUS, SESSION_START, Scope
from treadle.session import new_header


class Puppet(Agent):
    """An agent that another loop drives."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Puppet {self.id}>"


def puppet(host: Host, id: str) -> Puppet:
    return Puppet(Session(new_header(id, "/")), AgentOptions(), Scope(id, host.scope))


def journal(host: Host) -> list[str]:
    told: list[str] = []
    host.on(AGENT_CREATED, lambda made: told.append(f"created {made.agent.id} {made.source}"))
    host.on(SESSION_START, lambda made: told.append(f"start {made.agent.id} {made.source}"))
    host.on(AGENT_DISPOSED, lambda made: told.append(f"disposed {made.agent.id}"))
    return told


@pytest.mark.rule("O6")
async def test_lists_and_roots_follow_registration_order_and_live_ownership() -> None:
    async with hosted() as host:
        first, second = await create(host, "b"), await create(host, "a")
        child = await create(host, "c", parent_agent=second.agent)
        assert [agent.id for agent in host.agents.list()] == ["b", "a", "c"]
        assert [agent.id for agent in host.agents.roots()] == ["b", "a"]
        assert host.agents.is_owned_by("c", second.agent)
        assert not host.agents.is_owned_by("c", first.agent)
        assert not host.agents.is_owned_by("nobody", first.agent)
        fresh = host.agents.list()
        fresh.clear()
        assert len(host.agents) == 3
        await child.dispose()
        assert not host.agents.is_owned_by("c", second.agent)


@pytest.mark.rule("O6", "O13")
async def test_the_parent_is_named_never_guessed() -> None:
    async with hosted() as host:
        parent = await create(host, "p")
        child = await host.agents.with_initiator(parent.agent, lambda: create(host, "c"))
        assert child.agent.parent is None
        assert [agent.id for agent in host.agents.roots()] == ["p", "c"]


@pytest.mark.rule("O6")
async def test_a_parent_that_is_not_live_or_is_ending_is_refused() -> None:
    async with hosted() as host, hosted() as other:
        stranger = await create(other, "s")
        with pytest.raises(MisuseError, match="not live"):
            await create(host, parent_agent=stranger.agent)
        parent = await create(host, "p")
        gate = trio.Event()
        parent.agent.scope.defer(gate.wait)
        ending = parent.dispose()
        with pytest.raises(AgentDisposed, match="children"):
            await create(host, "c", parent_agent=parent.agent)
        gate.set()
        await ending
        assert host.agents.list() == []


@pytest.mark.rule("O3")
async def test_looking_an_agent_up_gives_no_power_to_end_it() -> None:
    async with hosted() as host:
        await create(host, "a")
        found = host.agents.get("a")
        assert found is not None
        assert not hasattr(found, "dispose")
        assert host.agents.get("b") is None


@pytest.mark.rule("O15")
async def test_register_enters_as_root_and_announces_startup() -> None:
    async with hosted() as host:
        told = journal(host)
        agent = puppet(host, "x")
        leave = await host.agents.register(agent)
        assert host.agents.get("x") is agent
        assert host.agents.roots() == [agent]
        leave()
        leave()
        assert told == ["created x startup", "start x startup", "disposed x"]
        assert host.agents.get("x") is None


@pytest.mark.rule("O15")
async def test_enter_is_silent_and_its_detach_takes_exactly_that_entry() -> None:
    async with hosted() as host:
        told = journal(host)
        agent = puppet(host, "x")
        detach = host.agents.enter(agent)
        with pytest.raises(DuplicateSession):
            host.agents.enter(puppet(host, "x"))
        detach()
        assert told == []
        second = puppet(host, "x")
        host.agents.enter(second)
        detach()
        assert host.agents.get("x") is second
        assert told == []


@pytest.mark.rule("O15")
async def test_only_a_live_entry_is_announced_and_only_once() -> None:
    async with hosted() as host:
        agent = puppet(host, "x")
        with pytest.raises(MisuseError, match="not live"):
            await host.agents.announce(agent, "clear")
        detach = host.agents.enter(agent)
        told = journal(host)
        refused: list[str] = []

        async def again(_: object) -> None:
            try:
                await host.agents.announce(agent, "clear")
            except MisuseError as error:
                refused.append(str(error))

        host.on(AGENT_CREATED, again)
        await host.agents.announce(agent, "compact")
        assert told == ["created x compact", "start x compact"]
        assert len(refused) == 1
        with pytest.raises(MisuseError, match="announced already"):
            await host.agents.announce(agent, "clear")
        detach()
        assert told[-1] == "disposed x"


@pytest.mark.rule("O15")
async def test_a_detach_asked_for_by_a_created_listener_waits_until_the_dispatch_settled() -> None:
    async with hosted() as host:
        told = journal(host)
        agent = puppet(host, "x")
        detach = host.agents.enter(agent)

        async def leave(_: object) -> None:
            detach()
            await trio.lowlevel.checkpoint()
            assert host.agents.get("x") is agent
            told.append("left")

        host.on(AGENT_CREATED, leave)
        host.on(AGENT_CREATED, lambda made: told.append("later listener"))
        with pytest.raises(AgentDisposed):
            await host.agents.announce(agent, "startup")
        assert told == ["created x startup", "left", "later listener", "disposed x"]
        assert host.agents.get("x") is None


@pytest.mark.rule("O15", "O1")
async def test_a_failing_created_listener_takes_a_registered_agent_out_again() -> None:
    async with hosted() as host:
        told: list[str] = []

        def fail(_: object) -> None:
            raise ValueError("no")

        host.on(AGENT_CREATED, fail)
        host.on(AGENT_DISPOSED, lambda made: told.append(made.agent.id))
        with pytest.raises(ValueError, match="no"):
            await host.agents.register(puppet(host, "x"))
        assert host.agents.list() == []
        assert told == ["x"]


@pytest.mark.rule("O15", "O3")
async def test_a_registered_agent_leaves_with_its_owning_scope_or_with_the_host() -> None:
    told: list[str] = []
    async with hosted() as host:
        host.on(AGENT_DISPOSED, lambda made: told.append(made.agent.id))
        owner = Scope("feature", host.scope)
        await host.agents.register(puppet(host, "x"), owner=owner)
        await host.agents.register(puppet(host, "y"))
        await owner.close(lambda error: pytest.fail(str(error)))
        assert told == ["x"]
    assert told == ["x", "y"]


@pytest.mark.rule("O15", "O6")
async def test_the_end_of_an_entered_child_is_called_when_its_owner_ends() -> None:
    async with hosted() as host:
        parent = await create(host, "p")
        ended: list[bool] = []

        async def done() -> None:
            detach()

        def end(keep_inbox: bool):
            ended.append(keep_inbox)
            return done()

        detach = host.agents.enter(puppet(host, "x"), parent.agent, end)
        assert host.agents.is_owned_by("x", parent.agent)
        await parent.dispose(keep_inbox=True)
        assert ended == [True]
        assert host.agents.list() == []


@pytest.mark.rule("H5", "N8")
async def test_a_failing_disposed_listener_starves_nobody() -> None:
    async with hosted() as host:
        told: list[str] = []

        def fail(_: object) -> None:
            raise ValueError("no")

        host.on(AGENT_DISPOSED, fail)
        host.on(AGENT_DISPOSED, lambda made: told.append(made.agent.id))
        leave = await host.agents.register(puppet(host, "x"))
        leave()
        assert told == ["x"]


@pytest.mark.rule("H2", "H3")
async def test_hooks_are_found_by_point_or_by_name() -> None:
    async with hosted() as host:
        first, second = await create(host, "a"), await create(host, "b")
        told: list[str] = []
        host.hooks.on("agent/status", lambda made: told.append(f"host {made.agent.id} {made.status}"))
        undo = first.agent.hooks.on(AGENT_STATUS, lambda made: told.append(f"own {made.agent.id} {made.status}"))
        for handle in (first, second):
            handle.agent.followup("go")
            await handle.agent.when_idle()
            undo()
        assert told == ["host a running", "own a running", "host a idle", "own a idle", "host b running", "host b idle"]
        with pytest.raises(MisuseError, match="agent/pre-step"):
            host.hooks.on("agent/nothing", print)
        assert host.hooks.point("agent/status") is AGENT_STATUS
        assert AGENT_STATUS in host.hooks.points


@pytest.mark.rule("O6")
async def test_children_are_listed_in_registration_order() -> None:
    async with hosted() as host:
        parent = await create(host, "p")
        for name in "ba":
            await create(host, name, parent_agent=parent.agent)
        assert [one.id for one in host.agents.list() if host.agents.is_owned_by(one.id, parent.agent)] == ["b", "a"]
