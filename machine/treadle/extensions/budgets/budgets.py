"""Budgets, held at the hooks: before each request, in each answer, and around each tool (B1–B4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import trio

from ...errors import BudgetReached, MisuseError
from ...hooks import (
    AGENT_DISPOSED,
    LLM_STREAM,
    REQUEST,
    SESSION_EVENT,
    TOOLS_EXECUTE,
    AgentGone,
    Disposer,
    RequestProposal,
    Scope,
    SessionEventAdded,
    StreamProposal,
    ToolProposal,
    tell,
)
from ...models import CallConfig, Chunk
from ...session import TurnEnd, TurnStart, UserMessageAdded
from ..usage import USAGE, Prices, charged, count_sub_agents
from .accounts import Account, Accounts, Asking
from .limits import Limits
from .points import BUDGET_WARNING, TOLD, BudgetNearlySpent, BudgetWarning, told_by
from .streams import held

if TYPE_CHECKING:
    from ...agent import Agent

WARN_AT = 0.8
"""The share of a budget at which is warned unless told otherwise."""
_UNLIMITED = Limits()
_OF_ANSWERS = frozenset({"output_tokens", "cost"})


class HasScope(Protocol):
    """A host, or whatever else has a scope in which agents are."""

    @property
    def scope(self) -> Scope:
        """What is registered in it concerns the agents below."""
        ...


class Budgets:
    """What turns, sessions and a host may spend.

    A budget that is spent ends the turn that would spend more, ``error`` with the code ``BUDGET``: before its next request,
    or in the middle of an answer that goes beyond. A tool that takes longer than there is time is stopped, and its call has
    an error result. What the user said is in the history, and a turn that has just been answered ends as it would.

    What sub-agents spend counts towards the turn and the session of each agent above, and so does what is under way; a
    session that is resumed has spent what its log says. Tokens that a provider does not report are estimated.

    Args:
        turn: of each turn.
        session: of each session, those of its sub-agents included.
        host: of all agents of the host together, since these budgets were installed.
        prices: by the model's name; a model without one costs nothing.
        warn_at: the share of a budget at which ``turn/budget-warning`` is told, once; ``None`` for never.

    Raises:
        MisuseError: a share that is none, or a limit of cost without prices.
    """

    def __init__(
        self,
        *,
        turn: Limits = _UNLIMITED,
        session: Limits = _UNLIMITED,
        host: Limits = _UNLIMITED,
        prices: Prices | None = None,
        warn_at: float | None = WARN_AT,
    ) -> None:
        if warn_at is not None and not (isinstance(warn_at, (int, float)) and 0 < warn_at <= 1):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MisuseError(f"warn_at is a share above 0, up to 1, or None, not {warn_at!r}")
        if not prices and any([limits.cost is not None for limits in (turn, session, host)]):
            raise MisuseError("a limit of cost needs prices: give prices={'model': Price(input=…, output=…)}")
        self._accounts = Accounts(turn.given, session.given, host.given, dict(prices or {}))
        self._warn_at = warn_at
        self._host_told: set[str] = set()
        self._names = turn.given.keys() | session.given.keys() | host.given.keys()

    def install(self, host: HasScope) -> Disposer:
        """Hold the agents of a host to these budgets.

        Returns:
            An idempotent function that ends it.

        Raises:
            ScopeClosed: the host has ended.
        """
        scope = host.scope
        undo: list[Disposer] = [
            count_sub_agents(scope),  # first: what is below is noted above before it is looked at
            scope.on(SESSION_EVENT, self._recorded),
            scope.on(REQUEST, self._before_request),
            scope.on(AGENT_DISPOSED, self._gone),
        ]
        if self._names & {*_OF_ANSWERS, "seconds"}:
            undo.append(scope.on(LLM_STREAM, self._hold_answer))
        if "seconds" in self._names:
            undo.append(scope.on(TOOLS_EXECUTE, self._hold_tool))

        def dispose() -> None:
            while undo:
                undo.pop()()

        return dispose

    # --- where they are held ------------------------------------------------------------------------------------------

    async def _before_request(self, asked: RequestProposal, proceed: Callable[[], Awaitable[CallConfig]]) -> CallConfig:
        """Refuse a request for which nothing is left; one that is let through counts from now on."""
        config = await proceed()
        agent = asked.agent
        self._accounts.asking.pop(agent, None)
        ledger = await USAGE.follow(agent.session)
        first = not ledger.step_counted
        for account in self._accounts.of(agent):
            for name, amount in self._accounts.amounts(account).items():
                if amount >= account.limits[name] and (first or name != "steps"):
                    raise _reached(account, name, amount)
        self._accounts.asking[agent] = Asking(first, config.model or ledger.model, ledger.next_input)
        return config

    async def _hold_answer(
        self, asked: StreamProposal, proceed: Callable[[], Awaitable[AsyncIterator[Chunk]]]
    ) -> AsyncIterator[Chunk]:
        """Read an answer only as far as there is time for it, and tokens."""
        agent = asked.agent
        stream = await proceed()
        asking = self._accounts.asking.get(agent)
        if asking is None:
            return stream
        deadline, whose = self._accounts.deadline(agent)
        tokens = USAGE.of(agent.session).output_of
        return held(stream, asking, tokens, partial(self._check_answer, agent), deadline, partial(self._late, whose))

    def _check_answer(self, agent: Agent) -> None:
        """Raise once an answer goes beyond a budget; one that uses it up to the end may do so."""
        for account in self._accounts.of(agent):
            if not account.limits.keys().isdisjoint(_OF_ANSWERS):
                for name, amount in self._accounts.amounts(account).items():
                    if name in _OF_ANSWERS and amount > account.limits[name]:
                        raise _reached(account, name, amount)

    async def _hold_tool(self, asked: ToolProposal, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """Run a tool only as long as there is time. One that cannot be interrupted is waited for, as under a cancel."""
        deadline, whose = self._accounts.deadline(asked.agent)
        if deadline <= trio.current_time():
            raise self._late(whose)
        with trio.move_on_at(deadline) as scope:
            return await proceed()
        assert scope.cancelled_caught
        raise self._late(whose)

    def _late(self, account: Account | None) -> BudgetReached:
        assert account is not None
        return _reached(account, "seconds", self._accounts.seconds(account))

    # --- what is noted ------------------------------------------------------------------------------------------------

    def _recorded(self, told: SessionEventAdded) -> None:
        data, agent = told.event.data, told.agent
        charge = charged(told.session, told.event)
        if charge is not None:
            self._accounts.recorded(agent, charge, attempt=not isinstance(data, UserMessageAdded))
            if self._warn_at is not None:
                self._warn(agent, self._warn_at)
        elif type(data) is TurnStart:
            self._accounts.turn_began(agent)
        elif type(data) is TurnEnd:
            self._accounts.turn_ended(agent)

    def _gone(self, told: AgentGone) -> None:
        self._accounts.gone(told.agent)

    def _warn(self, agent: Agent, share: float) -> None:
        for account in self._accounts.of(agent):
            for name, amount in self._accounts.amounts(account).items():
                if amount >= account.limits[name] * share:
                    self._warn_once(account, name, amount)

    def _warn_once(self, account: Account, name: str, amount: float) -> None:
        """Tell that a budget is nearly spent, unless that was told before, in this process or before it."""
        agent, bound = account.agent, account.limits[name]
        data = BudgetNearlySpent(account.kind, name, bound, amount, USAGE.of(agent.session).number)
        if account.kind == "host":
            if name in self._host_told:
                return
            self._host_told.add(name)
        elif told_by(data) in TOLD.of(agent.session):
            return
        agent.session.append(data, ignorable=True)
        tell(agent.scope, BUDGET_WARNING, BudgetWarning(agent, account.kind, name, bound, amount))


def _reached(account: Account, name: str, amount: float) -> BudgetReached:
    return BudgetReached(account.kind, name, account.limits[name], amount, account.agent.id)
