"""The loop is swappable: any factory can make the agents (O14)."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.hosts import OPTIONS, create, hosted
from treadle import (
    Agent,
    AgentDisposed,
    AgentHandle,
    Host,
    MisuseError,
    Receipt,
    Session,
    UserMessage,
    message,
)
from treadle.agent import CreateOptions, Ending, ResumeOptions
from treadle.errors import NoFactory, NoStore
from treadle.hooks import AGENT_CREATED, AGENT_DISPOSED, Scope
from treadle.loop.factory import LoopFactory
from treadle.session import new_header


class Echo(Agent):
    """An agent of another loop: it answers in the call, and knows no turns."""

    __slots__ = ("answers",)

    def __init__(self, session: Session, options: Any, scope: Scope, parent: Agent | None) -> None:
        super().__init__(session, options, scope, parent)
        self.answers: list[str] = []

    @property
    def status(self) -> Any:
        return "idle"

    def send(self, message: UserMessage | str, target: Any, wakeup: bool) -> Receipt:
        text = message if isinstance(message, str) else message.text
        self.answers.append(f"echo {text}")
        return Receipt("x")

    async def when_idle(self) -> None:
        await trio.lowlevel.checkpoint()

    def __repr__(self) -> str:
        return f"<Echo {self.id}>"


class EchoLife:
    """Ends an echo."""

    def __init__(self, host: Host, agent: Echo) -> None:
        self.agent = agent
        self.detach = host.agents.enter(agent, agent.parent, self.dispose)
        self.host = host
        self.ending: Ending | None = None

    def dispose(self, keep_inbox: bool = False) -> Ending:
        if self.ending is None:
            self.ending = Ending(self.close)
            self.ending.begin(self.host.spawn)
        return self.ending

    async def close(self, failed: Callable[[BaseException], None]) -> None:
        await self.agent.scope.close(failed)
        self.detach()


class EchoFactory:
    """Makes echoes."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.lives: list[EchoLife] = []

    async def create(self, options: CreateOptions) -> AgentHandle:
        session = Session(new_header(options.session_id, "/"))
        scope = Scope(options.session_id, options.owner)
        agent = Echo(session, options.agent_options, scope, options.parent_agent)
        if options.setup is not None:
            await options.setup(scope, agent)
        life = EchoLife(self.host, agent)
        self.lives.append(life)
        await self.host.agents.announce(agent, "startup")
        return AgentHandle(agent, life.dispose)

    async def resume(self, options: ResumeOptions) -> AgentHandle:
        raise NoStore("echoes are not stored")

    async def close(self) -> None:
        for life in self.lives:
            await life.dispose()


@pytest.mark.rule("O14")
async def test_another_factory_takes_the_place_of_the_loop() -> None:
    async with hosted() as host:
        await host.unload_loop()
        host.agents.set_factory(EchoFactory(host))
        told: list[str] = []
        host.on(AGENT_CREATED, lambda made: told.append(f"created {made.agent.id}"))
        host.on(AGENT_DISPOSED, lambda made: told.append(f"disposed {made.agent.id}"))
        handle = await create(host, "e")
        agent = handle.agent
        assert isinstance(agent, Echo)
        agent.followup(message("hello"))
        await agent.when_idle()
        assert agent.answers == ["echo hello"]
        child = await create(host, "c", parent_agent=agent)
        assert host.agents.is_owned_by("c", agent)
        await child.dispose()
        await handle.dispose()
        assert told == ["created e", "created c", "disposed c", "disposed e"]
        with pytest.raises(NoStore):
            await host.agents.resume("e")
        await create(host, "left")
    assert told[-1] == "disposed left"


@pytest.mark.rule("O14")
async def test_a_second_factory_is_refused() -> None:
    async with hosted() as host:
        with pytest.raises(MisuseError, match="set already"):
            host.agents.set_factory(LoopFactory(host))


@pytest.mark.rule("O14")
async def test_without_a_factory_nothing_is_made() -> None:
    async with hosted() as host:
        assert host.agents.has_factory
        await host.unload_loop()
        assert not host.agents.has_factory
        with pytest.raises(NoFactory):
            await create(host)
        with pytest.raises(NoFactory):
            await host.agents.resume("a")
        host.agents.set_factory(LoopFactory(host))
        await create(host)


@pytest.mark.rule("O14", "O4")
async def test_unloading_stops_creations_and_drains_every_agent() -> None:
    async with hosted() as host:
        done = await create(host, "done")
        done.agent.inject("kept")
        failures: list[BaseException] = []

        async def hang(scope: Scope, agent: Agent) -> None:
            await trio.sleep_forever()

        async def make() -> None:
            try:
                await create(host, "half", setup=hang)
            except AgentDisposed as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(make)
            await wait_all_tasks_blocked()
            unloading = host.unload_loop()
            assert not host.agents.has_factory
            assert host.unload_loop() is unloading
            await unloading
        assert len(failures) == 1
        assert host.agents.list() == []
        assert [one.text for one in done.agent.inbox.next_step] == ["kept"]


@pytest.mark.rule("O14")
async def test_a_creation_that_has_not_begun_to_prepare_ends_with_its_factory() -> None:
    async with hosted() as host:
        factory = LoopFactory(host)
        await factory.close()
        with pytest.raises(NoFactory):
            await factory.create(CreateOptions("a", host.scope, agent_options=OPTIONS))


@pytest.mark.rule("O14")
async def test_the_loop_can_be_unloaded_before_the_host_is_entered() -> None:
    host = Host()
    unloading = host.unload_loop()
    host.agents.set_factory(EchoFactory(host))
    async with host:
        await unloading
        assert isinstance((await host.agents.create()).agent, Echo)
    untouched = Host()
    untouched.unload_loop()
    async with untouched:
        assert not untouched.agents.has_factory


@pytest.mark.rule("O14", "N8")
async def test_whoever_waits_for_an_unloading_is_told_what_failed() -> None:
    class Broken(EchoFactory):
        async def close(self) -> None:
            raise ValueError("no")

    async def ask() -> None:
        async with hosted() as host:
            await host.unload_loop()
            unload = host.agents.set_factory(Broken(host))
            with pytest.raises(ValueError, match="no"):
                await unload()
            assert not host.agents.has_factory

    with pytest.raises(ValueError, match="no"):
        await ask()
