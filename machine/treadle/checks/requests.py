"""Headers, contexts, system prompts and retries: what a request is made from (Q2, Q3, Q6)."""

from __future__ import annotations

from ..words.events import (
    Append,
    EndSeed,
    Event,
    PresetSelected,
    RequestContext,
    RequestHeader,
    RetryScheduled,
    RetryStarted,
    SystemMessageAdded,
)
from ..words.messages import SystemMessage
from .state import LogState


def header(log: LogState, data: RequestHeader, _: Event) -> None:
    """A header stands before an attempt, and its reason is true (Q2, T1)."""
    _before_attempt(log, "a request header")
    if log.step.marked:
        log.note("T1", "a request header follows the request context")
    if data.reason == "resume":
        log.not_resumed = None
    log.was_not_resumed()
    last = log.header
    same = last is not None and last.config == data.config and last.tools == data.tools
    if (data.reason == "initial") is not (last is None):
        log.note("Q2", f"a header is written as {data.reason!r}, and {'none' if last is None else 'one'} precedes it")
    elif data.reason == "change" and same:
        log.note("Q2", "a header is written for a change, and nothing changed")
    elif data.reason == "series" and not same:
        log.note("Q2", "a header is written for a series, and something changed")
    log.header = data


def context(log: LogState, data: RequestContext, _: Event) -> None:
    """A context is written when the route changed, and only then (Q2)."""
    _before_attempt(log, "a request context")
    log.step.marked = True
    if data == log.context:
        log.note("Q2", "a request context is written again, and nothing changed")
    log.context = data


def _before_attempt(log: LogState, what: str) -> None:
    step = log.step
    if not step.open:
        log.note("T10", f"{what} outside a step")
    if step.answered:
        log.note("T1", f"{what} follows the answer")
    if 0 < len(step.accepted) < step.batch:
        log.note("T1", f"{what} stands amid the accepted batch")


def system_message(log: LogState, data: SystemMessageAdded, entry: Event) -> None:
    """The system prompt precedes the batch of its step, and an appended one differs from what holds (Q3, T1)."""
    step = log.step
    if step.asked:
        log.note("N1", "a system message stands between a call and its result")
    if step.open and step.batch > len(step.accepted) and not step.attempts and not step.answered:
        log.note("T1", "the system message follows the accepted batch")
    if type(entry.surface_op) is Append and data.message.content:
        present = next((m for _, m in reversed(log.nodes[:-1]) if type(m) is SystemMessage), None)
        if present == data.message:
            log.note("Q3", "the system prompt is written again, and did not change")


def retry_scheduled(log: LogState, data: RetryScheduled, _: Event) -> None:
    """A retry is scheduled after a failed attempt of the open step (Q6)."""
    step = log.step
    if not step.open or (data.turn, data.step) != (log.turn.number, step.number):
        log.note("Q6", f"a retry is scheduled for step {data.turn}.{data.step}, which is not open")
    elif step.answered or data.attempt not in (step.attempts, step.attempts + 1) or step.retry is not None:
        log.note("Q6", f"a retry is scheduled as attempt {data.attempt} after {step.attempts} failed ones")
    step.retry = (data.attempt, False)


def retry_started(log: LogState, data: RetryStarted, _: Event) -> None:
    """The scheduled retry starts, once (Q6)."""
    step = log.step
    if not step.open or (data.turn, data.step) != (log.turn.number, step.number):
        log.note("Q6", f"a retry of step {data.turn}.{data.step} starts, which is not open")
    elif step.retry != (data.attempt, False):
        log.note("Q6", f"a retry starts as attempt {data.attempt}, and was not scheduled")
    step.retry = (data.attempt, True)


def end_seed(log: LogState, data: EndSeed, entry: Event) -> None:
    """The mark of a fork stands after exactly what was inherited, outside a turn (S5)."""
    if data.inherited != entry.seq:
        log.note("S5", f"{data.inherited} events are said to be inherited, and {entry.seq} precede")
    log.inherited = entry.seq
    if log.turn.open:
        log.note("S5", "a fork begins inside a turn")


def preset_selected(log: LogState, _: PresetSelected, __: Event) -> None:
    """A preset is selected before the first turn only (O12)."""
    if log.turn.number:
        log.note("O12", "a preset is selected after the first turn began")
