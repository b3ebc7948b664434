"""Creation is one transaction: published as a whole, or rolled back as if it had never begun (O1, O2, O5, O13, O18)."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.hosts import OPTIONS, create, hosted
from treadle import Agent, AgentDisposed, AgentOptions, DuplicateSession, Host, MisuseError, message, tool
from treadle.errors import DelegationLimit, NoStore, ScopeClosed
from treadle.hooks import AGENT_CREATED, AGENT_DISPOSED, AGENT_STATUS, SESSION_START, AgentCreation, Scope
from treadle.session import TurnStart


def journal(host: Host) -> list[str]:
    """What the registry publishes, in order."""
    told: list[str] = []
    host.on(AGENT_CREATED, lambda made: told.append(f"created {made.agent.id} {made.source}"))
    host.on(SESSION_START, lambda made: told.append(f"start {made.agent.id} {made.source}"))
    host.on(AGENT_STATUS, lambda made: told.append(f"{made.status} {made.agent.id}"))
    host.on(AGENT_DISPOSED, lambda made: told.append(f"disposed {made.agent.id}"))
    return told


@pytest.mark.rule("O1", "O18", "O0")
async def test_setup_commit_entry_announcement_start_and_release_come_in_this_order() -> None:
    async with hosted() as host:
        told = journal(host)

        async def setup(scope: Scope, agent: Agent) -> Any:
            assert host.agents.get(agent.id) is None
            agent.followup("hello")
            assert agent.status == "idle"
            told.append("setup")
            await trio.lowlevel.checkpoint()

            def commit() -> None:
                assert host.agents.get(agent.id) is None
                told.append("commit")

            return commit

        handle = await create(host, "a", setup=setup)
        assert host.agents.get("a") is handle.agent
        await handle.agent.when_idle()
        assert told == ["setup", "commit", "created a startup", "start a startup", "running a", "idle a"]


@pytest.mark.rule("O1", "O5")
@pytest.mark.parametrize("where", ["setup", "commit", "created"])
async def test_a_failure_anywhere_rolls_back_everything(where: str) -> None:
    closed: list[str] = []
    async with hosted() as host:
        told: list[str] = []
        host.on(AGENT_DISPOSED, lambda made: told.append(made.agent.id))

        async def setup(scope: Scope, agent: Agent) -> Any:
            scope.defer(lambda: closed.append("scope"))
            if where == "setup":
                raise ValueError("no")

            def commit() -> None:
                if where == "commit":
                    raise ValueError("no")

            return commit

        def created(made: AgentCreation) -> None:
            if where == "created":
                raise ValueError("no")

        host.on(AGENT_CREATED, created)
        host.on(AGENT_CREATED, lambda made: told.append("later listener"))
        with pytest.raises(ValueError, match="no"):
            await create(host, "a", setup=setup)
        assert closed == ["scope"]
        assert host.agents.get("a") is None
        assert host.agents.list() == []
        assert told == (["a"] if where == "created" else [])
        where = ""
        assert (await create(host, "a")).agent.id == "a"


@pytest.mark.rule("O1")
async def test_the_cancel_scope_of_a_creation_rolls_it_back() -> None:
    async with hosted() as host:
        closed: list[bool] = []

        async def setup(scope: Scope, agent: Agent) -> None:
            scope.defer(lambda: closed.append(True))
            await trio.sleep_forever()

        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: create(host, "a", setup=setup))
                await wait_all_tasks_blocked()
                scope.cancel()
        assert closed == [True]
        assert host.agents.get("a") is None


@pytest.mark.rule("O1")
@pytest.mark.parametrize("heard", [False, True])
async def test_a_creation_in_a_cancelled_scope_leaves_nothing_whether_anybody_is_asked_or_not(heard: bool) -> None:
    async with hosted() as host:
        told = journal(host) if heard else []
        with trio.CancelScope() as scope:
            scope.cancel()
            await create(host)
        assert scope.cancelled_caught
        assert host.agents.list() == []
        assert told == []
        assert (await create(host)).agent.status == "idle"


@pytest.mark.rule("O1", "O3")
@pytest.mark.parametrize("moment", ["setup", "created"])
async def test_the_end_of_the_owning_scope_rolls_a_creation_back(moment: str) -> None:
    async with hosted() as host:
        told = journal(host)
        owner = Scope("feature", host.scope)
        reached = trio.Event()
        signals: list[Any] = []

        async def hang(*_: Any) -> None:
            reached.set()
            await trio.sleep_forever()

        async def created(made: AgentCreation) -> None:
            signals.append(made.signal)
            await hang()

        if moment == "created":
            host.on(AGENT_CREATED, created)
        failures: list[BaseException] = []

        async def make() -> None:
            try:
                await create(host, "a", owner=owner, setup=hang if moment == "setup" else None)
            except AgentDisposed as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(make)
            await reached.wait()
            await owner.close(failures.append)
        assert [type(error) for error in failures] == [AgentDisposed]
        assert host.agents.list() == []
        assert told == ([] if moment == "setup" else ["created a startup", "disposed a"])
        assert all(signal.cancelled for signal in signals)


@pytest.mark.rule("O3")
async def test_an_agent_ends_with_the_scope_that_owns_it_and_keeps_its_inbox() -> None:
    async with hosted() as host:
        owner = Scope("feature", host.scope)
        handle = await create(host, "a", owner=owner)
        handle.agent.inject("kept")
        await owner.close(lambda error: pytest.fail(str(error)))
        assert host.agents.get("a") is None
        assert [one.text for one in handle.agent.inbox.next_step] == ["kept"]
        with pytest.raises(ScopeClosed):
            await create(host, "b", owner=owner)


@pytest.mark.rule("O2")
async def test_of_two_creations_of_one_id_the_first_to_enter_wins() -> None:
    async with hosted() as host:
        gates = {"slow": trio.Event(), "fast": trio.Event()}
        results: dict[str, Any] = {}

        async def make(name: str) -> None:
            async def setup(scope: Scope, agent: Agent) -> None:
                await gates[name].wait()

            try:
                results[name] = await create(host, "a", setup=setup)
            except DuplicateSession as error:
                results[name] = error

        async with trio.open_nursery() as nursery:
            nursery.start_soon(make, "slow")
            nursery.start_soon(make, "fast")
            await wait_all_tasks_blocked()
            gates["fast"].set()
            await wait_all_tasks_blocked()
            gates["slow"].set()
        assert isinstance(results["slow"], DuplicateSession)
        assert host.agents.get("a") is results["fast"].agent
        assert host.agents.list() == [results["fast"].agent]


@pytest.mark.rule("O2")
async def test_an_id_is_free_again_once_its_teardown_is_complete_and_no_sooner() -> None:
    async with hosted() as host:
        gate = trio.Event()
        handle = await create(host, "a")
        handle.agent.scope.defer(gate.wait)
        ending = handle.dispose()
        await wait_all_tasks_blocked()
        with pytest.raises(DuplicateSession, match="'a'"):
            await create(host, "a")
        gate.set()
        await ending
        await create(host, "a")


@pytest.mark.rule("O5")
async def test_what_setup_registers_is_there_before_the_announcement_and_gone_after_disposal() -> None:
    @tool
    def probe() -> str:
        return "x"

    async with hosted() as host:
        seen: list[list[str]] = []

        async def setup(scope: Scope, agent: Agent) -> None:
            agent.tools.register(probe)

        host.on(AGENT_CREATED, lambda made: seen.append([one.name for one in made.agent.tools.list()]))
        handle = await create(host, "a", setup=setup)
        assert seen == [["probe"]]
        await handle.dispose()
        assert handle.agent.tools.list() == ()
        with pytest.raises(ScopeClosed):
            handle.agent.tools.register(probe)
        with pytest.raises(ScopeClosed):
            handle.agent.prompt.section("late", "text")
        with pytest.raises(ScopeClosed):
            handle.agent.scope.on(AGENT_STATUS, print)


@pytest.mark.rule("O13", "S8")
async def test_metadata_seed_and_inherited_count_reach_the_session() -> None:
    async with hosted() as host:
        first = await create(host, "a")
        first.agent.followup("hello")
        await first.agent.when_idle()
        seed = list(first.agent.session.events)
        forked = await create(
            host, "b", seed=seed, inherited_event_count=len(seed), parent_session="a", origin="fork", cwd="/work"
        )
        header = forked.agent.session.header
        assert (header.inherited, header.parent_session, header.origin, header.cwd) == (len(seed), "a", "fork", "/work")
        assert list(forked.agent.session.events)[: len(seed)] == seed
        forked.agent.followup("more")
        await forked.agent.when_idle()
        assert [entry.data.turn for entry in forked.agent.session.events if isinstance(entry.data, TurnStart)] == [1, 2]


@pytest.mark.rule("O13")
async def test_a_seeded_creation_is_a_startup() -> None:
    async with hosted() as host:
        first = await create(host)
        first.agent.inject("context")
        told = journal(host)
        second = await create(host, "b", seed=list(first.agent.session.events))
        assert told[0] == "created b startup"
        assert [one.text for one in second.agent.inbox.next_step] == ["context"]


@pytest.mark.rule("O13")
async def test_resume_without_a_store_says_so() -> None:
    async with hosted() as host:
        with pytest.raises(NoStore):
            await host.agents.resume("a")


@pytest.mark.rule("X2", "O13")
@pytest.mark.parametrize("id", ["../x", "", "a/b", "a" * 200])
async def test_an_id_that_could_leave_its_directory_is_refused(id: str) -> None:
    async with hosted() as host:
        with pytest.raises(MisuseError, match="X2"):
            await create(host, id)
        assert host.agents.list() == []


@pytest.mark.rule("O18", "O1")
async def test_session_start_has_no_veto_and_disposal_is_rechecked_after_it() -> None:
    async with hosted() as host:
        owner = Scope("feature", host.scope)

        def broken(_: object) -> None:
            raise ValueError("ignored")

        host.on(SESSION_START, broken)
        handle = await create(host, "a", owner=owner)
        parent = await create(host, "p")
        host.on(SESSION_START, lambda made: parent.dispose() and None)
        with pytest.raises(AgentDisposed):
            await create(host, "c", parent_agent=parent.agent)
        await parent.dispose()
        assert host.agents.list() == [handle.agent]


@pytest.mark.rule("O1", "L6", "O15")
async def test_a_created_listener_that_waits_for_its_agent_or_its_owners_end_is_told_at_once(
    autojump_clock: MockClock,
) -> None:
    async with hosted() as host:
        parent = await create(host, "p")
        refused: list[str] = []

        async def created(made: AgentCreation) -> None:
            for wait in (made.agent.when_idle, parent.dispose().wait):
                try:
                    await wait()
                except MisuseError as error:
                    refused.append(str(error))

        host.on(AGENT_CREATED, created)
        with trio.fail_after(5), pytest.raises(AgentDisposed):
            await create(host, "c", parent_agent=parent.agent)
        assert len(refused) == 2
        with trio.fail_after(5):
            await parent.dispose()
        assert host.agents.list() == []


@pytest.mark.rule("O1", "L6")
async def test_setup_that_waits_for_the_agent_to_be_idle_is_told_at_once() -> None:
    async with hosted() as host:

        async def setup(scope: Scope, agent: Agent) -> None:
            await agent.when_idle()

        with pytest.raises(MisuseError, match="L6"):
            await create(host, setup=setup)


@pytest.mark.rule("O6")
async def test_delegation_depth_is_counted_and_bounded() -> None:
    async with hosted(max_delegation_depth=2) as host:
        root = await create(host, "r")
        child = await create(host, "c", parent_agent=root.agent)
        grandchild = await create(host, "g", parent_agent=child.agent)
        assert [one.agent.session.header.delegation_depth for one in (root, child, grandchild)] == [0, 1, 2]
        with pytest.raises(DelegationLimit, match="3 levels"):
            await create(host, "x", parent_agent=grandchild.agent)
        assert len(host.agents) == 3


@pytest.mark.rule("O0", "O1", "N2")
async def test_input_during_creation_is_answered_after_it_in_order() -> None:
    async with hosted("one", "two") as host:

        async def created(made: AgentCreation) -> None:
            made.agent.followup(message("second", id="second"))
            await trio.lowlevel.checkpoint()
            assert made.agent.status == "idle"

        async def setup(scope: Scope, agent: Agent) -> None:
            agent.followup(message("first", id="first"))

        host.on(AGENT_CREATED, created)
        handle = await create(host, setup=setup)
        await handle.agent.when_idle()
        assert [one.text for one in handle.agent.session.history() if one.role == "user"] == ["first", "second"]


@pytest.mark.rule("L10", "O1")
async def test_a_handle_is_an_async_context_manager_that_keeps_the_inbox() -> None:
    async with hosted() as host:
        async with await host.agents.create(agent_options=OPTIONS) as agent:
            agent.inject("kept")
        assert host.agents.list() == []
        assert [one.text for one in agent.inbox.next_step] == ["kept"]
        assert isinstance(agent.options, AgentOptions)


@pytest.mark.rule("O15", "O1")
async def test_disposal_keeps_scope_and_session_until_the_created_dispatch_has_settled(
    autojump_clock: MockClock,
) -> None:
    async with hosted() as host:
        told: list[str] = []
        owner = Scope("feature", host.scope)
        reached = trio.Event()

        async def stubborn(made: AgentCreation) -> None:
            made.agent.scope.defer(lambda: told.append("scope"))
            with trio.CancelScope(shield=True):
                reached.set()
                await trio.sleep(3)
            assert made.agent.session.driven
            told.append("settled")

        host.on(AGENT_CREATED, stubborn)
        host.on(AGENT_DISPOSED, lambda made: told.append("disposed"))

        async def make() -> None:
            with pytest.raises(AgentDisposed):
                await create(host, "a", owner=owner)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(make)
            await reached.wait()
            await owner.close(lambda error: pytest.fail(str(error)))
        assert told == ["settled", "scope", "disposed"]


@pytest.mark.rule("S8", "X2", "O13")
@pytest.mark.parametrize(
    "meta",
    [
        {"colour": "red"},
        {"delegation_depth": "deep"},
        {"delegation_depth": -1},
        {"inherited": 5},
        {"parent_session": "../up"},
        {"agent_preset": "a/b"},
        {"origin": 5},
        {"cwd": "relative"},
    ],
)
async def test_a_header_that_does_not_hold_is_refused_before_anything_is_made(meta: dict[str, Any]) -> None:
    async with hosted() as host:
        with pytest.raises(MisuseError):
            await create(host, "a", meta=meta)
        assert host.agents.list() == []
        handle = await create(host, "a", meta={"origin": "subagent"}, parent_session="p")
        assert (handle.agent.session.header.origin, handle.agent.session.header.parent_session) == ("subagent", "p")
