"""One life of a process: a host with the user's agent in it, on a stepped run of trio, from its start to its end or death."""

from __future__ import annotations

import importlib
import inspect
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import trio
from attrs import evolve, field, frozen

from treadle import Agent, AgentHandle, AgentOptions, Host, MisuseError, Retries
from treadle.session.memory import Kept

from ..exploration.stepper import Stepper
from ..exploration.task_order import Order
from .answers import PROVIDER, PlayedModels
from .faults import Faults
from .scenario import Scenario
from .seams import approver
from .starvation import Starvation
from .storage import HarmedStore

MakeAgent = Callable[..., Any]
"""Furnishes a host, and says what its agent is created with; see ``check_agent``."""
SESSION = "checked"
"""The id of the agent's session."""
FAST = 0.05
"""Real seconds within which a quick thread has ended: where it ends then does not depend on the machine."""
PAUSE = 0.000_2
"""Real seconds between two looks at a thread."""
_THREADS: Any = importlib.import_module("trio._threads")


@frozen(eq=False)
class Subject:
    """What is checked.

    Attributes:
        make_agent: furnishes a host.
        scenario: what is played.
        invariant: what has to hold at each quiet point; ``None`` for nothing.
        outside: makes what outlives the process; ``None`` when there is no such thing.
        host_options: further arguments of ``Host``.
        limit: virtual seconds within which a stopped agent comes to rest.
    """

    make_agent: MakeAgent
    scenario: Scenario
    invariant: Callable[[Any], object] | None = None
    outside: Callable[[], Any] | None = None
    host_options: Mapping[str, Any] = field(factory=lambda: {})
    limit: float = 60.0


class Workers:
    """Counts the threads that work for the run."""

    def __init__(self) -> None:
        self.active = 0
        self._lock = threading.Lock()

    def _count(self, step: int) -> None:
        with self._lock:
            self.active += step

    @contextmanager
    def counted(self) -> Generator[None]:
        """Count them while the block runs."""
        start = _THREADS.start_thread_soon

        def counting(function: Any, deliver: Any, name: str | None = None) -> None:
            self._count(1)

            def delivered(result: Any) -> None:
                try:
                    deliver(result)
                finally:
                    self._count(-1)

            start(function, delivered, name)

        _THREADS.start_thread_soon = counting
        try:
            yield
        finally:
            _THREADS.start_thread_soon = start

    def wait(self, seconds: float) -> None:
        """Wait until they have ended, or so many real seconds."""
        until = time.monotonic() + seconds
        while self.active and time.monotonic() < until:
            time.sleep(PAUSE)


class Life:
    """A host that is being stepped.

    Attributes:
        agent: the agent, once it was made.
        failed: what making it, or leaving the host, raised.
    """

    def __init__(
        self, subject: Subject, shelf: dict[str, Kept], outside: Any, faults: Faults, starving: Starvation, order: Order
    ) -> None:
        self._subject = subject
        self._outside = outside
        self._faults = faults
        self._starving = starving
        self._leave = trio.Event()
        self._fields: dict[str, Any] = {}
        self.shelf = shelf
        self.host: Host
        self.handle: AgentHandle | None = None
        self.workers = Workers()
        self.stepper = Stepper(order)
        self.job = self.stepper.start(self._live, name="treadle check")

    @property
    def agent(self) -> Agent:
        """The agent."""
        assert self.handle is not None
        return self.handle.agent

    def batch(self) -> None:
        """Let every task that can run do so once; threads that are quick have ended by then."""
        with self.workers.counted():
            self._starving.batch(self.stepper.tick)
        if self.workers.active:
            self.workers.wait(FAST)

    def leave(self) -> None:
        """Have the host left, from the next batch on."""
        self._leave.set()

    async def _live(self) -> None:
        subject = self._subject
        store = HarmedStore(self.shelf, self._faults)
        options: dict[str, Any] = {"retries": Retries(lambda: 0.5), "cwd": "/", **subject.host_options}
        async with store:
            host = self.host = Host(store=store, checks=True, **options)
            host.models = PlayedModels(subject.scenario.answers, self._faults)
            async with host:
                given = subject.make_agent(host) if subject.outside is None else subject.make_agent(host, self._outside)
                self._fields = fields_of(await given if inspect.isawaitable(given) else given)
                if host.approver is not None:
                    host.approver = approver(host.approver)
                await self.make()
                await self._leave.wait()

    async def make(self) -> None:
        """Create the agent, or resume it where it is stored."""
        fields = self._fields
        if SESSION in self.shelf:
            kept = {name: fields[name] for name in ("setup", "owner") if name in fields}
            self.handle = await self.host.agents.resume(SESSION, agent_options=fields["agent_options"], **kept)
        else:
            self.handle = await self.host.agents.create(session_id=SESSION, **fields)


def fields_of(given: Any) -> dict[str, Any]:
    """What an agent is created with, of what ``make_agent`` returned.

    Raises:
        MisuseError: it returned something else.
    """
    if given is None or isinstance(given, AgentOptions):
        fields: dict[str, Any] = {"agent_options": given or AgentOptions()}
    elif isinstance(given, Mapping):
        fields = {"agent_options": AgentOptions(), **given}
        fields.pop("session_id", None)
    else:
        raise MisuseError(
            f"make_agent returns AgentOptions, the arguments of agents.create as a mapping, or None, not {given!r}"
        )
    options: AgentOptions = fields["agent_options"]
    if options.provider is None or options.model is None:
        provider, model = options.provider or PROVIDER, options.model or PROVIDER
        fields["agent_options"] = evolve(options, provider=provider, model=model)
    return fields
