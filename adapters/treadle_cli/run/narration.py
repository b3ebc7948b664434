"""Tells a person what an agent does, as it does it."""

from __future__ import annotations

import logging
from typing import Any

from treadle import Aborted, Agent, Blocked, EndReason, Failure, Host, MaxTokens, ToolCall
from treadle.errors import StoreFailure
from treadle.extensions.budgets import BUDGET_WARNING, BudgetWarning
from treadle.extensions.compaction import COMPACTION, CompactionMoment
from treadle.hooks import (
    AGENT_ERROR,
    AGENT_PARKED,
    ASSISTANT_STREAM,
    INBOX_DISCARDED,
    SESSION_EVENT,
    AgentError,
    AgentParked,
    AssistantStream,
    FrameChunk,
    FrameEnd,
    InboxDiscarded,
    SessionEventAdded,
)
from treadle.models import ReasoningDelta, TextDelta, text_of
from treadle.printable import call_text, one_line
from treadle.session import RetryScheduled, ToolCallStarted, ToolResultAdded, TurnEnd
from treadle_adapters.progress import TOOL_PROGRESS, ToolProgress

from ..exits import advice_for
from ..terminal.turns import end_text
from .screen import Screen

MOST_PROGRESS = 20_000
"""How many characters of one running call are shown."""
_LOGGER = logging.getLogger("treadle")


class Narrator:
    """Shows one agent's work on a screen.

    Attributes:
        last: why the last turn ended.
        unstored: whether some of it could not be stored.
    """

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.last: EndReason | None = None
        self.unstored = False
        self._hinted = False
        self._open: dict[str, ToolCall] = {}
        self._shown: dict[str, int] = {}

    def attach(self, host: Host) -> None:
        """Listen to everything on a host."""
        host.on(ASSISTANT_STREAM, self._streamed)
        host.on(SESSION_EVENT, self._recorded)
        host.on(AGENT_ERROR, self._failed)
        host.on(INBOX_DISCARDED, self._discarded)
        host.on(AGENT_PARKED, self._parked)
        host.on(TOOL_PROGRESS, self._progressed)
        host.on(BUDGET_WARNING, self._warned)
        host.on(COMPACTION, self._compacted)

    def _streamed(self, streamed: AssistantStream) -> None:
        match streamed.frame:
            case FrameChunk(chunk=TextDelta() as delta):
                self.screen.answer(delta.text)
            case FrameChunk(chunk=ReasoningDelta() as delta):
                self.screen.thought(delta.text)
            case FrameEnd():
                self.screen.end_line()
            case _:
                pass

    def _recorded(self, added: SessionEventAdded) -> None:
        match added.event.data:
            case ToolCallStarted() as data:
                self._called(added.agent, ToolCall(data.call_id, data.name, data.arguments))
            case ToolResultAdded() as data:
                self._settled(added.agent, data)
            case RetryScheduled() as data:
                self.retrying(data.failure, data.delay)
            case TurnEnd() as data:
                self._ended(data.reason)
            case _:
                pass

    def retrying(self, failure: Failure, delay: float) -> None:
        """A request failed and is made again after ``delay`` seconds; what a person can do meanwhile is said once."""
        told = one_line(f"{failure.code}: {failure.message}")
        self.screen.note((f"  {told}; trying again in {delay:.1f} s", "yellow"))
        advice = None if self._hinted else advice_for(failure)
        if advice is not None:
            self._hinted = True
            self.screen.note((f"  {advice}", "dim"))

    def _called(self, agent: Agent, call: ToolCall) -> None:
        self._open[call.call_id] = call
        shown = presented(agent, call.name, "present_call", call) or call_text(call.name, call.arguments)
        self.screen.note(("⚙ ", "magenta"), (one_line(shown), "magenta"))

    def _progressed(self, news: ToolProgress) -> None:
        """Show what a running tool tells, up to a bound for each call."""
        call = news.call.call_id
        before = self._shown.get(call, 0)
        self._shown[call] = before + len(news.text) + 1
        if call not in self._open or before > MOST_PROGRESS:
            return
        if news.done is None:
            self.screen.output(news.text)
        else:
            of = f" of {news.total:g}" if news.total is not None else ""
            self.screen.note((f"  … {one_line(f'{news.call.name}: {news.done:g}{of} {news.text}')}", "dim"))

    def _settled(self, agent: Agent, result: ToolResultAdded) -> None:
        call = self._open.pop(result.call_id, None)
        self._shown.pop(result.call_id, None)
        name = call.name if call is not None else "unknown call"
        text = presented(agent, name, "present_result", result.content) or text_of(result.content)
        whose = f"{name}: " if self._open or call is None else ""
        failed = f"{result.code or 'error'}: " if result.is_error else ""
        self.screen.note(("  ↳ ", "magenta"), (one_line(f"{whose}{failed}{text}"), "red" if failed else "dim"))

    def _ended(self, reason: EndReason) -> None:
        self.last = reason
        self._hinted = False
        match reason:
            case MaxTokens():
                self.screen.note(("▲ cut off: the answer reached the output limit", "yellow"))
            case Aborted() | Blocked():
                self.screen.note((f"■ {end_text(reason)}", "yellow"))
            case _:
                pass

    def _failed(self, failed: AgentError) -> None:
        if failed.failure.code == StoreFailure.code:
            if self.unstored:
                return  # each attempt to store the rest is told again
            self.unstored = True
        self.screen.note(("✗ ", "bold red"), *failure_text(failed.failure))

    def _compacted(self, moment: CompactionMoment) -> None:
        """A compaction; why one failed is told as an error, or as what its turn failed with."""
        if moment.phase == "started":
            self.screen.note(("  compacting the history …", "dim"))
        elif moment.phase == "failed" and not isinstance(moment.error, Exception):
            self.screen.note(("  the compaction was stopped; nothing changed", "yellow"))
        elif moment.result is not None:
            done = moment.result
            told = f"{done.replaced} messages gave way to a summary: {done.before:,} → {done.after:,} tokens"
            self.screen.note((f"  {told}" if done.replaced else "  nothing is old enough to compact", "dim"))

    def _discarded(self, discarded: InboxDiscarded) -> None:
        self.screen.note((f"  dropped: {one_line(discarded.message.text, 80)}", "dim"))

    def _parked(self, parked: AgentParked) -> None:
        count = len(parked.messages)
        waits = "1 message waits" if count == 1 else f"{count} messages wait"
        self.screen.note((f"  {waits} for your next word", "dim"))

    def _warned(self, told: BudgetWarning) -> None:
        spent = f"{told.amount:,.6g} of {told.bound:,g} {told.limit.replace('_', ' ')}"
        self.screen.note((f"  the {told.account} has used {spent}", "yellow"))


def failure_text(failure: Failure) -> list[str | tuple[str, str]]:
    """A failure for people: its code, what happened, and what to do."""
    parts: list[str | tuple[str, str]] = [(failure.code, "bold red"), f" {one_line(failure.message, 600)}"]
    if failure.status is not None and f"HTTP {failure.status}" not in failure.message:
        parts.append(f" (HTTP {failure.status})")
    advice = advice_for(failure)
    if advice:
        parts.append((f"\n  {advice}", "dim"))
    return parts


def presented(agent: Agent, name: str, presenter: str, what: Any) -> str | None:
    """What a tool's own presenter makes of a call or result; ``None`` when it has none, or it fails (K11)."""
    found = agent.tools.get(name)
    present = getattr(found, presenter, None)
    if present is None:
        return None
    try:
        shown = present(what)
    except Exception:
        _LOGGER.debug("%s of tool %s failed", presenter, name, exc_info=True)
        return None
    return shown if isinstance(shown, str) else None


class LogNotes(logging.Handler):
    """Shows warnings of the driver as notes, such as a stop that takes long; failures are shown by the narrator."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler.emit``."""
        if record.exc_info is None:
            self._screen.note((f"  {one_line(record.getMessage(), 300)}", "yellow"))
