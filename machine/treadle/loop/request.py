"""A step's request: configuration, preparation, what has to be recorded, and recovery (T1, Q1–Q4, Q11, H6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
import trio

from ..hooks.dispatch import Listener, waterfall
from ..hooks.points import REQUEST, REQUEST_ERROR, RequestFailure, RequestProposal
from ..kernel import inputs as i
from ..kernel.effects import Recover, Request
from ..models.routes import PreparedCall
from ..words.call_config import CallConfig
from ..words.events import RequestContext, RequestHeader, SystemMessageAdded
from ..words.messages import SystemMessage, Text
from .activity import Activity
from .attempt import run_attempt
from .request_state import RequestState

if TYPE_CHECKING:
    from ..session.surface import Node


async def run_request(activity: Activity, operation: Request) -> i.Outcome:
    """Prepare the call, have it recorded, and make one attempt.

    Returns:
        ``Answered`` or ``AttemptFailed``.

    Raises:
        ModelFailure: the call could not be prepared (Q4); the accepted batch is kept (T12).
        Exception: whatever a hook raised.
    """
    await _give_way()
    state = activity.requests
    if operation.attempt == 1:
        state.prior.clear()
    config = _base_config(activity)
    listeners = activity.agent.scope.heard[REQUEST]
    if listeners:
        config = await _configure(activity, operation, listeners, config)
    models, call = activity.host.models, state.call
    logged = state.header.config if state.header is not None else None
    if call is None or config is not call.config or config is not logged or state.routes != models.revision:
        routes = models.revision
        state.call = call = await models.prepare(config, logged)
        state.routes = routes
    if activity.facts.cause is None:
        prepared = _prepared(activity, state, call, operation)
        if prepared is not None:
            activity.feed(prepared)
    await trio.lowlevel.checkpoint_if_cancelled()
    return await run_attempt(activity, state, call, operation)


_HERE = object()
"""Marks a task that has not waited since; trio clears the mark whenever it schedules the task again."""


async def _give_way() -> None:
    """Let other tasks have their turn, unless this one has waited for something since its last request.

    Agents whose models and tools answer at once would starve everybody else. A pause in every step would be the
    greater part of what trio costs a step that waits anyhow.
    """
    task = trio.lowlevel.current_task()
    if task.custom_sleep_data is _HERE:
        await trio.lowlevel.checkpoint()
    else:
        await trio.lowlevel.checkpoint_if_cancelled()
    task.custom_sleep_data = _HERE


async def _configure(
    activity: Activity, operation: Request, listeners: tuple[Listener, ...], base: CallConfig
) -> CallConfig:
    async def default() -> CallConfig:
        return base

    payload = RequestProposal(activity.agent, operation.turn, operation.step, activity.signal)
    config: CallConfig = await waterfall(REQUEST, listeners, payload, default)
    return config


def _base_config(activity: Activity) -> CallConfig:
    """The options for the session's first request, the logged header afterwards; resume options once (Q11)."""
    state = activity.requests
    header = state.header
    if header is None:
        return activity.agent.options.config
    if state.override is None:
        return header.config
    changed = {
        name: value
        for name in ("provider", "model", "max_tokens", "reasoning_effort")
        if (value := getattr(state.override, name)) is not None
    }
    kept = tuple([name for name in header.config.defaulted if name not in changed])
    return msgspec.structs.replace(header.config, **changed, defaulted=kept)


def _prepared(activity: Activity, state: RequestState, call: PreparedCall, operation: Request) -> i.Prepared | None:
    """What has to be recorded before the attempt (Q2, Q3); ``None`` where that is nothing, as after most tool calls."""
    header = _header(activity, state, call.config)
    context = _context(state, call) if call is not state.told else None
    system: tuple[i.SystemChange, ...] = ()
    if operation.attempt == 1:
        system = _system_changes(
            activity.agent.session.surface.system, state.prompt.system, call.info.system_prompt_mode
        )
    if header is not None:
        state.header = header
    if context is not None:
        state.context = context
    state.told = call
    state.fresh, state.override = False, None
    if header is None and context is None and not system and not activity.facts.accepted:
        return None
    return i.Prepared(system, header, context)


def _header(activity: Activity, state: RequestState, config: CallConfig) -> RequestHeader | None:
    last = state.header
    reason: Literal["initial", "resume", "change", "series"]
    if last is None:
        reason = "initial"
    elif state.fresh:
        reason = "resume"
    elif not (last.config is config or last.config == config) or not (
        last.tools is state.prompt.tools or last.tools == state.prompt.tools
    ):
        reason = "change"
    elif activity.facts.series:
        reason = "series"
    else:
        return None
    return RequestHeader(config, state.prompt.tools, reason)


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


def _system_changes(nodes: tuple[Node, ...], text: str, mode: str) -> tuple[i.SystemChange, ...]:
    """How the history's system prompt becomes ``text`` (Q3).

    Where the route allows it a change is appended; elsewhere it replaces the head and empties later ones. An empty
    prompt clears them all.
    """
    if not nodes and not text:
        return ()
    live = tuple([node for node in nodes if node.message is not None])
    present = live[-1].message if live else None
    now = present.text if isinstance(present, SystemMessage) else ""
    if now == text and (mode == "append" or live in ((), nodes[:1])):
        return ()
    fresh = SystemMessageAdded(SystemMessage((Text(text),) if text else ()))
    if text and (mode == "append" or not nodes):
        return (i.SystemChange(fresh),)
    emptied = SystemMessageAdded(SystemMessage(()))
    head = nodes[0] if text else None
    changes = [i.SystemChange(emptied, node.seq) for node in live if node is not head]
    return (i.SystemChange(fresh, head.seq), *changes) if head is not None else tuple(changes)


async def run_recovery(activity: Activity, operation: Recover) -> i.Outcome:
    """Ask whether a failed attempt is retried (H6). The default is terminal."""
    await trio.lowlevel.checkpoint_if_cancelled()
    state = activity.requests
    listeners = activity.agent.scope.heard[REQUEST_ERROR]
    action: object = None
    if listeners:

        async def default() -> None:
            return None

        call = state.call
        payload = RequestFailure(
            activity.agent,
            operation.turn,
            operation.step,
            call.config.provider if call is not None else None,
            operation.failure,
            tuple(state.prior),
            call.adapter.retry_policy if call is not None else None,
            activity.signal,
        )
        action = await waterfall(REQUEST_ERROR, listeners, payload, default)
        await trio.lowlevel.checkpoint_if_cancelled()
    state.prior.append(operation.failure)
    if action is None:
        return i.Failed(operation.failure, operation.error)
    return i.Retried()
