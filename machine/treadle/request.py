"""A step's request: configuration, preparation, what has to be recorded, and recovery (T1, Q1–Q4, Q11, H6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
import trio
from attrs import define, field

from . import inputs as i
from .attempt import run_attempt
from .contexts import Snapshots
from .effects import Recover, Request
from .hooks import Listener, waterfall
from .models.failures import Failure
from .models.messages import SystemMessage, Text
from .models.runtime import PreparedCall
from .points import REQUEST, REQUEST_ERROR, RequestFailure, RequestProposal
from .session.config import CallConfig, ToolSchema
from .session.events import Event, RequestContext, RequestHeader, SystemMessageAdded

if TYPE_CHECKING:
    from .driver import Driver
    from .session.surface import Node


@define(eq=False)
class RequestState:
    """What the driver remembers between requests; all of it can be read back from the log (Q1).

    Attributes:
        header: the latest logged header, ``None`` before the first request.
        context: the latest logged context.
        fresh: no request was made since the session was resumed (Q2).
        override: explicit options of a resume, used once (Q11).
        system: the system text assembled for the open step.
        tools: the tool schemas assembled for the open step.
        prior: failures of earlier attempts of the open step (H6).
        revision: attempts of this attached agent so far (Q9).
        snapshots: what the model was last told by dynamic contexts (R1).
    """

    header: RequestHeader | None = None
    context: RequestContext | None = None
    fresh: bool = False
    override: CallConfig | None = None
    system: str = ""
    tools: tuple[ToolSchema, ...] = ()
    prior: list[Failure] = field(factory=list[Failure])
    revision: int = 0
    snapshots: Snapshots = field(factory=Snapshots)
    call: PreparedCall | None = None
    told: PreparedCall | None = None
    _prepared: tuple[CallConfig, CallConfig | None, int, PreparedCall] | None = None

    def assembled(self, system: str, tools: tuple[ToolSchema, ...]) -> None:
        """Keep what was assembled for the step that is being admitted."""
        self.system, self.tools = system, tools

    def prepared(self, driver: Driver, config: CallConfig) -> PreparedCall | None:
        """The call that was prepared for the same configuration on the same registrations, if any."""
        known = self._prepared
        if known is None or known[0] is not config or known[2] != driver.host.models.revision:
            return None
        return known[3] if known[1] is (self.header.config if self.header is not None else None) else None

    async def prepare(self, driver: Driver, config: CallConfig) -> PreparedCall:
        """Prepare the call."""
        models = driver.host.models
        last = self.header.config if self.header is not None else None
        call = await models.prepare(config, last)
        self._prepared = (config, last, models.revision, call)
        return call


async def run_request(driver: Driver, operation: Request) -> i.Outcome:
    """Prepare the call, have it recorded, and make one attempt.

    Returns:
        ``Answered`` or ``AttemptFailed``.

    Raises:
        ModelFailure: the call could not be prepared (Q4); the accepted batch is kept (T12).
        Exception: whatever a hook raised.
    """
    if _has_waited(driver):
        await trio.lowlevel.checkpoint_if_cancelled()
    else:
        await trio.lowlevel.checkpoint()
    state = driver.request_state
    if operation.attempt == 1:
        state.prior.clear()
    config = _base_config(driver)
    listeners = driver.agent.scope.listeners(REQUEST)
    if listeners:
        config = await _configure(driver, operation, listeners, config)
    state.call = call = state.prepared(driver, config) or await state.prepare(driver, config)
    if driver.kernel.cause is None:
        prepared = _prepared(driver, state, call, operation)
        if prepared is not None:
            driver.feed(prepared)
    await trio.lowlevel.checkpoint_if_cancelled()
    return await run_attempt(driver, state, call, operation)


def _has_waited(driver: Driver) -> bool:
    """Whether the driver's task has waited for anything since its last request, so that other tasks had their turn.

    If it has not, the request begins with a pause: agents whose models and tools answer at once would starve everybody
    else. A pause in every step would be the greater part of what trio costs such a step.
    """
    scheduled = getattr(driver.task, "_schedule_points", driver.scheduled)
    waited = scheduled != driver.scheduled
    driver.scheduled = scheduled if waited else scheduled + 1
    return waited


async def _configure(
    driver: Driver, operation: Request, listeners: tuple[Listener, ...], base: CallConfig
) -> CallConfig:
    async def default() -> CallConfig:
        return base

    payload = RequestProposal(driver.agent, operation.turn, operation.step, driver.signal)
    config: CallConfig = await waterfall(REQUEST, listeners, payload, default)
    return config


def _base_config(driver: Driver) -> CallConfig:
    """The options for the session's first request, the logged header afterwards; resume options once (Q11)."""
    state = driver.request_state
    header = state.header
    if header is None:
        return driver.agent.options.config
    if state.override is None:
        return header.config
    changed = {
        name: value
        for name in ("provider", "model", "max_tokens", "reasoning_effort")
        if (value := getattr(state.override, name)) is not None
    }
    kept = tuple([name for name in header.config.defaulted if name not in changed])
    return msgspec.structs.replace(header.config, **changed, defaulted=kept)


def _prepared(driver: Driver, state: RequestState, call: PreparedCall, operation: Request) -> i.Prepared | None:
    """What has to be recorded before the attempt (Q2, Q3); ``None`` where that is nothing, as after most tool calls."""
    header = _header(driver, state, call.config)
    context = _context(state, call) if call is not state.told else None
    system: tuple[i.SystemChange, ...] = ()
    if operation.attempt == 1:
        system = _system_changes(driver.session.surface.system, state.system, call.info.system_prompt_mode)
    if header is not None:
        state.header = header
    if context is not None:
        state.context = context
    state.told = call
    state.fresh, state.override = False, None
    if header is None and context is None and not system and not driver.kernel.accepted:
        return None
    return i.Prepared(system, header, context)


def _header(driver: Driver, state: RequestState, config: CallConfig) -> RequestHeader | None:
    last = state.header
    reason: Literal["initial", "resume", "change", "series"]
    if last is None:
        reason = "initial"
    elif state.fresh:
        reason = "resume"
    elif not (last.config is config or last.config == config) or not (
        last.tools is state.tools or last.tools == state.tools
    ):
        reason = "change"
    elif driver.kernel.series:
        reason = "series"
    else:
        return None
    return RequestHeader(config, state.tools, reason)


def _context(state: RequestState, call: PreparedCall) -> RequestContext | None:
    config, info, last = call.config, call.info, state.context
    assert config.provider is not None
    assert config.model is not None
    if (
        last is not None
        and last.provider == config.provider
        and last.model == config.model
        and last.context_window == info.context_window
        and last.system_prompt_mode == info.system_prompt_mode
    ):
        return None
    return RequestContext(config.provider, config.model, info.context_window, info.system_prompt_mode)


def _system_changes(nodes: list[Node], text: str, mode: str) -> tuple[i.SystemChange, ...]:
    """How the history's system prompt becomes ``text`` (Q3).

    Where the route allows it a change is appended; elsewhere it replaces the head and empties later ones. An empty
    prompt clears them all.
    """
    live = [node for node in nodes if node.message is not None]
    present = live[-1].message if live else None
    now = present.text if isinstance(present, SystemMessage) else ""
    if now == text and (mode == "append" or live in ([], nodes[:1])):
        return ()
    fresh = SystemMessageAdded(SystemMessage((Text(text),) if text else ()))
    if text and (mode == "append" or not nodes):
        return (i.SystemChange(fresh),)
    emptied = SystemMessageAdded(SystemMessage(()))
    head = nodes[0] if text else None
    changes = [i.SystemChange(emptied, node.seq) for node in live if node is not head]
    return (i.SystemChange(fresh, head.seq), *changes) if head is not None else tuple(changes)


async def run_recovery(driver: Driver, operation: Recover) -> i.Outcome:
    """Ask whether a failed attempt is retried (H6). The default is terminal."""
    await trio.lowlevel.checkpoint_if_cancelled()
    state = driver.request_state
    listeners = driver.agent.scope.listeners(REQUEST_ERROR)
    action: object = None
    if listeners:

        async def default() -> None:
            return None

        call = state.call
        payload = RequestFailure(
            driver.agent,
            operation.turn,
            operation.step,
            call.config.provider if call is not None else None,
            operation.failure,
            tuple(state.prior),
            call.adapter.retry_policy if call is not None else None,
            driver.signal,
        )
        action = await waterfall(REQUEST_ERROR, listeners, payload, default)
        await trio.lowlevel.checkpoint_if_cancelled()
    state.prior.append(operation.failure)
    if action is None:
        return i.Failed(operation.failure, operation.error)
    return i.Retried()


def restore_requests(events: Sequence[Event], override: CallConfig | None) -> RequestState:
    """Read the request state back from a resumed session's events (Q2)."""
    state = RequestState(fresh=True, override=override)
    for entry in reversed(events):
        if state.header is None and type(entry.data) is RequestHeader:
            state.header = entry.data
        elif state.context is None and type(entry.data) is RequestContext:
            state.context = entry.data
        if state.header is not None and state.context is not None:
            break
    return state
