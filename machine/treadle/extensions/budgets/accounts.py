"""Who has spent what: the accounts that an agent's next request is charged to, and what stands on each.

An agent's request is charged to its open turn and its session, to those of each agent above it, and to the host. What is
recorded stands in the logs; what is under way is added, so that agents that work side by side see each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import trio
from attrs import define, field, frozen

from ...models import Usage
from ..usage import USAGE, Charge, Prices, Spent
from .clocks import Clock

if TYPE_CHECKING:
    from ...agent import Agent

Kind = Literal["turn", "session", "host"]
"""Whose budget it is."""


@define(eq=False)
class Asking:
    """A request that was let through and is not recorded yet.

    Attributes:
        step: whether it is the first attempt of its step.
        model: the model that is asked.
        input: how many tokens it is estimated to take.
        output: how many tokens of its answer have come, as far as that is known.
    """

    step: bool
    model: str
    input: int
    output: int = 0

    def cost(self, prices: Prices) -> float:
        """What it would cost if it ended now."""
        price = prices.get(self.model)
        return 0.0 if price is None else price.of(Usage(input_tokens=self.input, output_tokens=self.output))


@frozen
class Account:
    """One budget that something is charged to.

    Attributes:
        kind: whose it is.
        agent: whose turn or session; of the host's, the agent that asks.
        limits: what may be spent.
    """

    kind: Kind
    agent: Agent
    limits: dict[str, float]


@define(eq=False)
class Accounts:
    """The accounts of the agents of a host.

    Attributes:
        turn, session, host: what may be spent by each turn, by each session, and by all together, by name of the limit.
        prices: by the model's name.
        asking: the requests under way, by agent.
        total: what all agents spent since they are watched.
    """

    turn: dict[str, float]
    session: dict[str, float]
    host: dict[str, float]
    prices: Prices
    asking: dict[Agent, Asking] = field(factory=lambda: {})
    total: Spent = field(factory=Spent)
    _clocks: dict[Agent, Clock] = field(factory=lambda: {})
    _opened: dict[Agent, float] = field(factory=lambda: {})
    _began: float | None = None

    # --- which ones ---------------------------------------------------------------------------------------------------

    def of(self, agent: Agent) -> Iterator[Account]:
        """The accounts that what the agent does is charged to, as far as they are limited."""
        turn, session, host = self.turn, self.session, self.host
        at: Agent | None = agent
        while at is not None:
            if turn and USAGE.of(at.session).turn_open:
                yield Account("turn", at, turn)
            if session:
                yield Account("session", at, session)
            at = at.parent
        if host:
            yield Account("host", agent, host)

    # --- what stands on them ------------------------------------------------------------------------------------------

    def amounts(self, account: Account) -> dict[str, float]:
        """What is spent of each limit of an account, requests under way included."""
        if account.kind == "host":
            spent = (self.total,)
        else:
            ledger = USAGE.of(account.agent.session)
            of_turn = account.kind == "turn"
            spent = (ledger.turn, ledger.turn_below) if of_turn else (ledger.own, ledger.below)
        under_way: list[Asking] = []
        for agent, asking in self.asking.items():
            if account.kind == "host" or _below(agent, account):
                under_way.append(asking)
        limits, known = account.limits, dict[str, float]()
        if "steps" in limits:
            known["steps"] = sum([one.steps for one in spent]) + sum([one.step for one in under_way])
        if "calls" in limits:
            known["calls"] = sum([one.attempts for one in spent]) + len(under_way)
        if "input_tokens" in limits:
            known["input_tokens"] = sum([one.input for one in (*spent, *under_way)])
        if "output_tokens" in limits:
            known["output_tokens"] = sum([one.output for one in (*spent, *under_way)])
        if "cost" in limits:
            known["cost"] = sum([one.counted_cost(self.prices) for one in spent])
            known["cost"] += sum([one.cost(self.prices) for one in under_way])
        if "seconds" in limits:
            known["seconds"] = self.seconds(account)
        return known

    def seconds(self, account: Account) -> float:
        """The real time of an account."""
        if account.kind == "host":
            return 0.0 if self._began is None else trio.current_time() - self._began
        clock = self.clock(account.agent)
        return clock.turn if account.kind == "turn" else clock.session

    def deadline(self, agent: Agent) -> tuple[float, Account | None]:
        """When the first of an agent's accounts runs out of time, by trio's clock; infinity where none does."""
        first, whose = float("inf"), None
        for account in self.of(agent):
            bound = account.limits.get("seconds")
            if bound is not None:
                due = trio.current_time() + bound - self.seconds(account)
                if due < first:
                    first, whose = due, account
        return first, whose

    # --- what moves them ----------------------------------------------------------------------------------------------

    def clock(self, agent: Agent) -> Clock:
        """The clock of an agent's session."""
        clock = self._clocks.get(agent)
        if clock is None:
            clock = self._clocks[agent] = Clock.of(agent.session, self._opened.pop(agent, None))
        return clock

    def turn_began(self, agent: Agent) -> None:
        """A turn of the agent begins."""
        if self._began is None:
            self._began = trio.current_time()
        clock = self._clocks.get(agent)
        if clock is not None:
            clock.turn_began()
        else:  # what the log says of earlier turns is read when it is needed (S11)
            self._opened[agent] = trio.current_time()

    def turn_ended(self, agent: Agent) -> None:
        """The agent's turn ended."""
        self.asking.pop(agent, None)
        clock = self._clocks.get(agent)
        if clock is not None:
            clock.turn_ended()
        self._opened.pop(agent, None)

    def recorded(self, agent: Agent, charge: Charge, *, attempt: bool) -> None:
        """An attempt of the agent is in the log, or what was written for it beside its turns."""
        if attempt:
            self.asking.pop(agent, None)
        self.total.add(charge)

    def gone(self, agent: Agent) -> None:
        """The agent is no more."""
        self.asking.pop(agent, None)
        self._clocks.pop(agent, None)
        self._opened.pop(agent, None)


def _below(agent: Agent | None, account: Account) -> bool:
    """Whether an agent is the account's, or stands below it."""
    while agent is not None:
        if agent is account.agent:
            return True
        agent = agent.parent
    return False
