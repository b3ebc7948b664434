"""A compaction at work: when it is made, and how it takes place as a whole or not at all (Z1, Z4, Z6)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Literal
from weakref import WeakKeyDictionary

import msgspec
import trio
from attrs import define, evolve, frozen

from ...agent import Agent, Compacted, MaintenanceTask, nearest_compactor
from ...errors import AgentBusy, AgentDisposed, CompactionFailed, MisuseError
from ...hooks import (
    AGENT_ERROR,
    AgentError,
    AgentStatus,
    Emit,
    Enter,
    MaintenanceMoment,
    Reject,
    RequestFailure,
    Retry,
    StepProposal,
    tell,
)
from ...models import Code, Failure, ModelFailure, Models, Text, UserMessage, describe, repair_text, text_is_lossless
from ...session import Replace, UserMessageAdded, new_id
from ...words.signal import Signal
from .ledger import Ledger
from .ranges import Range, last_steps, ranges_of
from .settings import Settings
from .summaries import Summary, SummaryJob, SummarySource, Why

HEADING = "[Summary of the earlier conversation, in place of {count} messages]\n\n"
"""What a summary begins with, for whoever reads it."""
CUT = "\n[The summary was cut off here.]"
"""What stands at the end of one that was longer than it may be."""
FLOOR = 500
"""Tokens that a summary may take however little it stands for."""
SUBAGENT = "subagent"
"""The origin of sessions that do one job: what they said is not needed any more when that is done."""
AGAIN = 20
"""After a compaction that was not enough, the history grows by so many parts of the window before the next one."""


@frozen
class CompactionMoment:
    """A compaction of the agent ``started``, ``ended``, or ``failed``.

    Attributes:
        why: what it is made for.
        result: what it did, where it ended.
        error: what it failed with: a cancellation, too.
    """

    agent: Agent
    phase: Literal["started", "ended", "failed"]
    why: Why
    result: Compacted | None = None
    error: BaseException | None = None


COMPACTION = Emit("agent/compaction", CompactionMoment, "A compaction starts, or is over, however it went (Z7).")


@define(eq=False)
class Keeper:
    """What is known of one agent.

    Attributes:
        ledger: what its history takes.
        running: the compaction between turns that is under way.
        again: below so many tokens none is begun by itself: the last one was not enough.
        retried: turn and step of the last request that was tried again after a compaction.
    """

    ledger: Ledger
    running: MaintenanceTask[Compacted] | None = None
    again: int = 0
    retried: tuple[int, int] | None = None


@frozen
class Demand:
    """A compaction that is wanted.

    Attributes:
        why: what for.
        signal: tells that it is cancelled.
        batch: messages that the next request has besides the history.
        instructions: for whoever writes the summary.
    """

    why: Why
    signal: Signal
    batch: tuple[UserMessage, ...] = ()
    instructions: str | None = None


class Installed:
    """One compaction in one scope, for all agents that the scope shows it to.

    Args:
        settings: what users set.
        models: the host's routes.
    """

    def __init__(self, settings: Settings, models: Models) -> None:
        self._settings = settings
        self._models = models
        self._keepers: WeakKeyDictionary[Agent, Keeper] = WeakKeyDictionary()

    # --- when ---------------------------------------------------------------------------------------------------------

    def __call__(self, agent: Agent, instructions: str | None) -> MaintenanceTask[Compacted]:
        """By hand; see ``Agent.compact``."""
        if instructions is not None and not (isinstance(instructions, str) and text_is_lossless(instructions)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MisuseError(f"instructions are text that UTF-8 can carry, not {instructions!r:.200}")
        keeper = self._keeper(agent)
        if keeper.running is not None and instructions is None:
            return keeper.running
        return self._begin(agent, keeper, "hand", instructions)

    def _begin(self, agent: Agent, keeper: Keeper, why: Why, instructions: str | None) -> MaintenanceTask[Compacted]:
        async def compact(signal: Signal) -> Compacted:
            return await self._compact(agent, keeper, Demand(why, signal, (), instructions))

        keeper.running = agent.run_maintenance(compact)
        return keeper.running

    def maintained(self, moment: MaintenanceMoment) -> None:
        """A maintenance task is over, perhaps ours."""
        keeper = self._keepers.get(moment.agent)
        if keeper is not None and moment.phase == "ended":
            keeper.running = None

    def status(self, changed: AgentStatus) -> None:
        """A turn is over: compact where a share of the window is full, unless somebody stopped the turn or goes on."""
        agent = changed.agent
        if changed.status != "idle":
            return
        keeper = self._keepers.get(agent)
        if keeper is None or not self._is_mine(agent):
            return
        ledger = keeper.ledger
        ledger.catch_up(agent.session)
        room = self._room(ledger)
        if room is None or ledger.aborted or agent.session.header.origin == SUBAGENT:
            return
        expected = ledger.expected()
        if expected > self._settings.between_turns * room and expected >= keeper.again:
            try:
                self._begin(agent, keeper, "share", None)
            except (AgentBusy, AgentDisposed):
                return

    async def before_step(
        self, proposal: StepProposal, proceed: Callable[[], Awaitable[Enter | Reject]]
    ) -> Enter | Reject:
        """A step is proposed: compact where its request would not fit. After a compaction requests begin anew (Q12)."""
        decided = await proceed()
        agent = proposal.agent
        if not isinstance(decided, Enter) or not self._is_mine(agent):
            return decided
        keeper = self._keeper(agent)
        ledger = keeper.ledger
        await ledger.follow(agent.session)
        room = self._room(ledger)
        if room is not None:
            expected = ledger.expected(decided.messages)
            if expected > self._settings.within_turn * room and expected >= keeper.again:
                try:
                    await self._compact(agent, keeper, Demand("window", proposal.signal, decided.messages))
                except CompactionFailed as error:  # the estimate may be wrong: the provider has the last word
                    failure = Failure(describe(error), error.code)
                    tell(agent.scope, AGENT_ERROR, AgentError(agent, proposal.turn, proposal.step, error, failure))
        return evolve(decided, starts_request_series=True) if ledger.replaced else decided

    async def after_failure(
        self, failed: RequestFailure, proceed: Callable[[], Awaitable[Retry | None]]
    ) -> Retry | None:
        """A request was refused as too long: compact, and try once more.

        Raises:
            ModelFailure: that was done already, or there is nothing to compact: the code is the provider's, and the
                message says what is to be done.
        """
        decided = await proceed()
        agent, failure = failed.agent, failed.failure
        if decided is not None or failure.code != Code.CONTEXT_WINDOW_EXCEEDED.value or not self._is_mine(agent):
            return decided
        keeper = self._keeper(agent)
        if keeper.retried == (failed.turn, failed.step):
            raise _too_long("even after a compaction", failure)
        await keeper.ledger.follow(agent.session)
        try:
            done = await self._compact(agent, keeper, Demand("refused", failed.signal))
        except CompactionFailed as error:
            raise _too_long(f"and the compaction failed ({error})", failure) from error
        if not done.replaced:
            raise _too_long("and there is nothing left to compact", failure)
        keeper.retried = failed.turn, failed.step
        return Retry()

    def _is_mine(self, agent: Agent) -> bool:
        return agent.scope.shown[nearest_compactor] is self

    def _keeper(self, agent: Agent) -> Keeper:
        keeper = self._keepers.get(agent)
        if keeper is None:
            ledger = Ledger(self._settings.estimate, self._settings.keep_turns)
            keeper = self._keepers[agent] = Keeper(ledger)
        return keeper

    def _room(self, ledger: Ledger) -> int | None:
        return ledger.room(self._settings.window)

    # --- how ----------------------------------------------------------------------------------------------------------

    async def _compact(self, agent: Agent, keeper: Keeper, demand: Demand) -> Compacted:
        """Make all summaries, then replace what they stand for, in one go (Z4).

        Raises:
            CompactionFailed: a summary could not be had; nothing is changed.
        """
        ledger = keeper.ledger
        await ledger.follow(agent.session)
        before = ledger.expected(demand.batch)
        chosen = self._chosen(agent, ledger, demand)
        if not chosen:
            self._judge(keeper, demand, before)
            nothing = Compacted(0, before, before)
            if demand.why == "hand":
                tell(agent.scope, COMPACTION, CompactionMoment(agent, "ended", demand.why, nothing))
            return nothing
        tell(agent.scope, COMPACTION, CompactionMoment(agent, "started", demand.why))
        try:
            made = [await self._summary(agent, ledger, demand, each) for each in chosen]
            await trio.lowlevel.checkpoint_if_cancelled()
            events = _replace(agent, chosen, made)
        except BaseException as error:
            self._judge(keeper, demand, before)
            tell(agent.scope, COMPACTION, CompactionMoment(agent, "failed", demand.why, error=error))
            raise
        ledger.catch_up(agent.session)
        after = ledger.expected(demand.batch)
        self._judge(keeper, demand, after)
        done = Compacted(sum([len(each.messages) for each in chosen]), before, after, events)
        tell(agent.scope, COMPACTION, CompactionMoment(agent, "ended", demand.why, done))
        return done

    def _judge(self, keeper: Keeper, demand: Demand, now: int) -> None:
        """Where it was not enough, the next one by itself waits until the history has grown."""
        room = self._room(keeper.ledger)
        if room is not None:
            enough = now <= self._settings.between_turns * room
            keeper.again = 0 if enough or demand.why == "hand" else now + max(room // AGAIN, 1)

    def _chosen(self, agent: Agent, ledger: Ledger, demand: Demand) -> list[Range]:
        """All that is old where somebody asks; else as much as it takes, what takes most first."""
        expected, room = ledger.expected(demand.batch), self._room(ledger)
        if demand.why == "hand" or room is None:
            return next(self._offers(agent, ledger, demand))
        goal = expected - self._settings.between_turns * room
        need = expected - self._settings.within_turn * room
        if demand.why == "refused":
            need = max(need, expected - ledger.fitted if ledger.fitted is not None else goal)
        most: list[Range] = []
        for found in self._offers(agent, ledger, demand):
            if not most or self._gain(ledger, found) > self._gain(ledger, most):
                most = found
            if self._gain(ledger, most) >= need:
                break
        chosen: list[Range] = []
        for each in sorted(most, key=lambda one: ledger.tokens(one.seqs), reverse=True):
            if goal <= 0 and chosen:
                break
            chosen.append(each)
            goal -= self._gain(ledger, [each])
        return sorted(chosen, key=most.index)

    def _offers(self, agent: Agent, ledger: Ledger, demand: Demand) -> Iterator[list[Range]]:
        """What may give way; where a request has to fit, ever more: in the end all but what was asked last (Z2)."""
        nodes, settings = agent.session.surface.nodes, self._settings
        yield ranges_of(nodes, ledger.recent(nodes), settings.pinned)
        if demand.why in ("window", "refused") and settings.keep_steps is not None:
            recent = ledger.recent(nodes, counting_open=True)
            yield ranges_of(nodes, recent, settings.pinned)
            for steps in (settings.keep_steps, 1):
                yield ranges_of(nodes, last_steps(nodes, steps), settings.pinned, recent)

    def _gain(self, ledger: Ledger, ranges: list[Range]) -> int:
        """Tokens that are saved at least if these give way."""
        weights = [ledger.tokens(each.seqs) for each in ranges]
        return sum([max(weight - self._limit(ledger, weight), 0) for weight in weights])

    def _limit(self, ledger: Ledger, weight: int) -> int:
        """Tokens that a summary of so many may take."""
        room = self._room(ledger)
        floor = FLOOR if room is None else max(min(FLOOR, room // 8), 1)
        return max(min(self._settings.max_summary_tokens, weight // 2), floor)

    async def _summary(self, agent: Agent, ledger: Ledger, demand: Demand, old: Range) -> UserMessage:
        weight = ledger.tokens(old.seqs)
        limit = self._limit(ledger, weight)
        job = SummaryJob(agent, old.messages, limit, demand.instructions, ledger.route, self._models, demand.signal)
        try:
            given = self._settings.summarize(job)
            given = await given if inspect.isawaitable(given) else given
        except Exception as error:
            raise CompactionFailed(f"no summary could be made: {describe(error)}") from error
        summary = Summary(given) if isinstance(given, str) else given
        if not isinstance(summary, Summary) or not isinstance(summary.text, str) or not summary.text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = type(given).__name__
            raise CompactionFailed(f"the summarizer gave no text, but {'an empty one' if summary else kind}")
        text = HEADING.format(count=len(old.messages)) + repair_text(summary.text.strip())
        source = SummarySource(demand.why, len(old.messages), weight, 0, summary.provider, summary.model, summary.usage)
        message = UserMessage(new_id(), (Text(text),), source)
        while (size := ledger.tokens_of(message)) > limit and len(text) > len(CUT) + 1:
            text = text[: max(min(len(text) * limit // size, len(text) - 1) - len(CUT), 1)]
            message = UserMessage(message.id, (Text(text + CUT),), source)
        return msgspec.structs.replace(message, source=msgspec.structs.replace(source, after=size))


def _replace(agent: Agent, old: list[Range], summaries: list[UserMessage]) -> tuple[int, ...]:
    """Replace all ranges, each by its summary; nothing waits in between (Z4).

    Raises:
        CompactionFailed: what they were made of is not the history any more; nothing is changed.
    """
    session = agent.session
    places = {node.seq: place for place, node in enumerate(session.surface.nodes)}
    for each in old:
        first = places.get(each.seqs[0], -1)
        if [node.seq for node in session.surface.nodes[first : first + len(each.nodes)]] != list(each.seqs):
            raise CompactionFailed("the history was changed meanwhile by somebody else: compact it again")
    events: list[int] = []
    for each, summary in zip(old, summaries, strict=True):
        try:
            entry = session.append(
                UserMessageAdded(summary), surface_op=Replace(each.seqs[0], each.seqs[-1]), sources=each.seqs
            )
        except MisuseError as error:
            raise CompactionFailed(f"the history does not take the summary: {error}") from error
        events.append(entry.seq)
    return tuple(events)


def _too_long(why: str, failure: Failure) -> ModelFailure:
    text = (
        f"the request does not fit the model's context window, {why}: pin less, keep fewer turns, have tools return less, "
        f"or take a model with a larger window. The provider said: {failure.message}"
    )
    return ModelFailure(msgspec.structs.replace(failure, message=text))
