"""The guarded pipeline of one call: parse, pre-execute, guards, body, post-execute, final content (K2, K3)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import trio
from attrs import define, evolve
from msgspec.structs import replace

from ..containment import interruptibly, leaving_in, without_cancelled
from ..errors import InvalidData, ToolError
from ..hooks.dispatch import emit, waterfall
from ..hooks.points import (
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    TOOLS_RESULT,
    AcceptResult,
    AllowCall,
    AskCall,
    BlockResult,
    DenyCall,
    ReplaceResult,
    ToolOutcome,
    ToolProposal,
    ToolSettled,
)
from ..kernel.inputs import TimedOut
from ..kernel.missing_results import TEXTS
from ..leftovers import check_left, left_entered, standing, tidy
from ..lossless import MAX_DEPTH, check_depth
from ..tools.definition import Tool, ToolRun
from ..tools.plain import plain
from ..tools.registry import ToolSet, guards
from ..tools.result import Result, blocks_of, detached, error_result, limit, normalize, raised, unshown
from ..words.failures import innermost
from ..words.messages import ToolCall, check_batch, check_user_message
from .activity import Activity

LOGGER = logging.getLogger("treadle")
ASYNCIO_HERE = (
    "agent %s: code of an asyncio library was called in trio's loop: use trio's own there, or a treadle.asyncio.Bridge, "
    "whose tools and hooks run in an asyncio loop"
)
"""Said in the log when a tool or hook fails for want of an asyncio loop."""
_ALLOW, _ACCEPT = AllowCall(), AcceptResult()

MAX_ARGUMENT_CHARACTERS = 10_000_000
"""How long the raw arguments of a call may be (X3)."""


@define(eq=False)
class Prepared:
    """A call that may run, or the result of one that may not; ``body``: what ran within wrappers that gave another."""

    call: ToolCall
    tool: Tool | None
    arguments: dict[str, Any]
    refused: Result | None = None
    checked: bool = False
    body: Result | None = None


def parse(call: ToolCall, tools: ToolSet) -> Prepared:
    """Find the tool and parse the arguments (K3). Nothing runs on arguments that do not fit."""
    tool = tools.by_name.get(call.name)
    if tool is None:
        return Prepared(call, None, {}, _unknown(call.name, tools))
    try:
        arguments = parse_arguments(call.arguments)
    except ValueError as error:
        shown = msgspec.json.encode(tool.parameters).decode("utf-8")[:2_000]
        refused = error_result(f"{error}. The tool was not run. Its parameters: {shown}", "INVALID_ARGUMENTS")
        return Prepared(call, tool, {}, refused)
    return Prepared(call, tool, arguments, _misfit(tool, arguments))


def _misfit(tool: Tool, arguments: dict[str, Any]) -> Result | None:
    try:
        errors = tool.arguments.errors(arguments)
    except Exception as error:
        errors = [str(error)]
    if not errors:
        return None
    return error_result(
        f"the arguments do not fit the tool's parameters: {'; '.join(errors)}. The tool was not run.",
        "INVALID_ARGUMENTS",
    )


def _unknown(name: str, tools: ToolSet) -> Result:
    known = ", ".join(sorted(tools.by_name)[:50]) or "none"
    shown = repr(name[:80]) if name else "without a name"
    return error_result(f"there is no tool {shown}. Known tools: {known}.", "UNKNOWN_TOOL")


def parse_arguments(text: str) -> dict[str, Any]:
    """Parse raw arguments: empty text is ``{}``, anything but one JSON object is refused (K3).

    Raises:
        ValueError: says what is wrong, and where.
    """
    if not text.strip():
        return {}
    if len(text) > MAX_ARGUMENT_CHARACTERS:
        raise ValueError(f"the arguments are longer than {MAX_ARGUMENT_CHARACTERS} characters")
    try:
        value: Any = msgspec.json.decode(text)
        if text.count("{") + text.count("[") > MAX_DEPTH:
            check_depth(value)
    except (RecursionError, InvalidData):
        raise ValueError(f"the arguments are nested deeper than {MAX_DEPTH} levels") from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        place = "" if "(byte" in str(error) else f" (byte {len(text.encode('utf-8', 'replace'))})"
        raise ValueError(f"the arguments are no valid JSON: {error}{place}") from None
    if not isinstance(value, dict):
        raise ValueError(f"the arguments must be a JSON object, not {_kind(value)} (at byte 0)")  # noqa: TRY004  # one kind of refusal
    return cast("dict[str, Any]", value)


def _kind(value: Any) -> str:
    names: dict[type[object], str] = {
        list: "an array",
        str: "a string",
        int: "a number",
        float: "a number",
        bool: "a boolean",
    }
    kind = cast("type[object]", type(value))
    return names.get(kind, "null")


def unguarded(activity: Activity, prepared: Prepared) -> bool:
    """Whether nobody is to be asked about a call, so that it may go on at once."""
    scope = activity.agent.scope
    return prepared.refused is None and not scope.heard[TOOLS_PRE_EXECUTE] and not guards(scope)


async def clear(activity: Activity, prepared: Prepared, turn: int, step: int) -> None:
    """Pre-execute and guards, once per call and in the model's order (K5); what refuses it is noted."""
    prepared.checked = True
    if prepared.refused is not None:
        return
    scope = activity.agent.scope
    listeners = scope.heard[TOOLS_PRE_EXECUTE]
    watchers = guards(scope)
    try:
        proposal = ToolProposal(activity.agent, prepared.call, prepared.arguments, turn, step, activity.signal)
        if listeners:
            prepared.refused = await _pre_execute(activity, prepared, listeners, proposal)
        for guard in watchers:
            if prepared.refused is not None:
                break
            verdict = guard(evolve(proposal, arguments=prepared.arguments))
            if inspect.isawaitable(verdict):
                verdict = await verdict
            if verdict is not None:
                prepared.refused = error_result(verdict.reason, verdict.code)
    except BaseException as error:
        prepared.refused = contained(activity, error, "HOOK_FAILED")


async def _pre_execute(activity: Activity, prepared: Prepared, listeners: Any, proposal: ToolProposal) -> Result | None:
    async def default() -> AllowCall:
        return _ALLOW

    decision: AllowCall | DenyCall | AskCall = await waterfall(TOOLS_PRE_EXECUTE, listeners, proposal, default)
    if isinstance(decision, DenyCall):
        return error_result(decision.reason, decision.code)
    if isinstance(decision, AskCall):
        return await _ask(activity, proposal, decision)
    if decision.arguments is not None:
        assert prepared.tool is not None
        try:
            prepared.arguments = plain(dict(decision.arguments))
        except InvalidData as error:
            what = f"what a hook made of the arguments of tool {prepared.tool.name!r} cannot be given"
            return error_result(f"{what}: {error}. The tool was not run.", "INVALID_ARGUMENTS")
        return _misfit(prepared.tool, prepared.arguments)
    return None


async def _ask(activity: Activity, proposal: ToolProposal, decision: AskCall) -> Result | None:
    approver = activity.host.approver
    if approver is None:
        return error_result(
            f"this call needs approval ({decision.question}), and nobody can give it here", "NOT_APPROVED"
        )
    if await approver(proposal, decision.question) is True:
        return None
    return error_result(f"the call was not approved ({decision.question})", "NOT_APPROVED")


async def run_body(activity: Activity, prepared: Prepared, turn: int, step: int) -> Result | TimedOut:
    """Run the body, and nothing but the body; whatever it raises is a result (K2, K3).

    Returns:
        What the body came to, or that its time was up.

    Raises:
        trio.Cancelled: the turn is being cancelled and the body let the cancellation through (C4).
    """
    tool = prepared.tool
    assert tool is not None
    run = ToolRun(activity.agent, prepared.call, turn, step, activity.signal)
    try:
        if tool.timeout is None:
            return await _returned(activity, prepared, tool, run)
        with trio.move_on_after(tool.timeout) as limit:
            result = await _returned(activity, prepared, tool, run)
            if tool.is_async or not limit.cancel_called:
                return result
        return TimedOut(tool.timeout)
    except BaseException as error:
        return contained(activity, error, "TOOL_FAILED")


async def _returned(activity: Activity, prepared: Prepared, tool: Tool, run: ToolRun) -> Result:
    """What the body returned. One that leaves a scope or a nursery entered has failed, whatever it returned (L8)."""
    before = standing()
    try:
        result = normalize(tool, await _execute(activity, prepared, tool, run))
    except BaseException:
        await tidy(before)
        raise
    if left_entered(before):
        await check_left(before, f"tool {tool.name!r}")
    return result


def contained(activity: Activity, error: BaseException, code: str) -> Result:
    """What a stage gives that raised (K2). The turn's cancellation, and what leaves the program, goes on."""
    real = without_cancelled(error)
    if leaving_in(error) is not None or (real is None and activity.cancelled):
        raise error
    shown = innermost(error if real is None else real)
    LOGGER.debug("a call of agent %s gives %s", activity.agent.id, code, exc_info=error)
    if isinstance(shown, RuntimeError) and str(shown) == "no running event loop":
        LOGGER.warning(ASYNCIO_HERE, activity.agent.id, exc_info=error)
    return raised(shown, code)


def _execute(activity: Activity, prepared: Prepared, tool: Tool, run: ToolRun) -> Awaitable[Any]:
    listeners = activity.agent.scope.heard[TOOLS_EXECUTE]
    if listeners:
        return _wrapped(activity, prepared, tool, run, listeners)
    return call_body(tool, prepared.arguments, run)


async def _wrapped(activity: Activity, prepared: Prepared, tool: Tool, run: ToolRun, listeners: Any) -> Any:
    came_to: list[Any] = []

    async def default() -> Any:
        await trio.lowlevel.checkpoint_if_cancelled()
        if activity.cancelled:  # a wrapper has shielded itself; no body starts after a cancel all the same (K6)
            raise ToolError(TEXTS["ABORTED_BEFORE_DISPATCH"], "ABORTED_BEFORE_DISPATCH")
        came_to.clear()
        try:
            value = await call_body(tool, prepared.arguments, run)
        except Exception as error:
            prepared.body = raised(innermost(error), "TOOL_FAILED")
            raise
        prepared.body = None
        came_to.append(value)
        return value

    payload = ToolProposal(activity.agent, prepared.call, prepared.arguments, run.turn, run.step, run.signal)
    returned = await waterfall(TOOLS_EXECUTE, listeners, payload, default)
    if came_to and returned is not came_to[0]:
        prepared.body = normalize(tool, came_to[0])
    return returned


def call_body(tool: Tool, arguments: dict[str, Any], run: ToolRun) -> Awaitable[Any]:
    """Call the tool's function; a sync one in a worker thread, with the caller's context (K8)."""
    return interruptibly(tool.execute(arguments, run)) if tool.is_async else _in_thread(tool, arguments, run)


async def _in_thread(tool: Tool, arguments: dict[str, Any], run: ToolRun) -> Any:
    abandon = tool.abandon_on_cancel
    (returned,) = await trio.to_thread.run_sync(_boxed, tool.execute, arguments, run, abandon_on_cancel=abandon)
    return await returned if inspect.isawaitable(returned) else returned


def _boxed(execute: Callable[..., Any], arguments: dict[str, Any], run: ToolRun) -> tuple[Any]:
    """What a function returns, in a box: trio takes no bare awaitable from a thread, and a tool may return one."""
    return (execute(arguments, run),)


async def finish(activity: Activity, prepared: Prepared, result: Result, turn: int, step: int) -> Result:
    """Post-execute, final content, limits, and ``tools/result``, in the model's order (K5). Never raises but to leave."""
    tool = prepared.tool
    given = prepared.body or result
    if tool is not None and prepared.refused is None:
        listeners = activity.agent.scope.heard[TOOLS_POST_EXECUTE]
        if listeners:
            result = await _post_execute(activity, prepared, result, turn, step, listeners)
        if tool.final_content is not None:
            try:
                result = replace(result, content=blocks_of(tool.final_content(result.content)))
            except BaseException as error:
                result = replace(contained(activity, error, "HOOK_FAILED"), contexts=result.contexts)
    most = tool.max_result_bytes if tool is not None else 16_384
    result = limit(result, most)
    if prepared.refused is not None:
        result = replace(result, refused=True)
    elif result is not given:
        result = result.made_of(limit(given, most))
    listeners = activity.agent.scope.heard[TOOLS_RESULT]
    if listeners:
        told = ToolSettled(activity.agent, prepared.call, result.content, result.is_error, result.code, result.value)
        activity.outbox.after_commit(lambda: emit(listeners, told, activity.outbox.report_listener))
    return result


async def _post_execute(
    activity: Activity, prepared: Prepared, result: Result, turn: int, step: int, listeners: Any
) -> Result:
    async def default() -> AcceptResult:
        return _ACCEPT

    payload = ToolOutcome(
        activity.agent,
        prepared.call,
        prepared.arguments,
        result.content,
        result.is_error,
        result.code,
        result.value,
        turn,
        step,
        activity.signal,
    )
    try:
        decision = await waterfall(TOOLS_POST_EXECUTE, listeners, payload, default)
        return _decided(prepared, result, decision)
    except BaseException as error:
        if activity.cancelled and without_cancelled(error) is None:
            return result
        return replace(contained(activity, error, "HOOK_FAILED"), contexts=result.contexts)


def _decided(prepared: Prepared, result: Result, decision: AcceptResult | ReplaceResult | BlockResult) -> Result:
    contexts = (*result.contexts, *[check_user_message(message) for message in decision.additional_contexts])
    check_batch(contexts)
    if isinstance(decision, BlockResult):
        return replace(error_result(decision.reason, "BLOCKED"), contexts=contexts)
    if isinstance(decision, ReplaceResult):
        assert prepared.tool is not None
        if decision.content is None:
            replaced = normalize(prepared.tool, decision.value)
            return replace(replaced, concludes_turn=result.concludes_turn, contexts=contexts)
        try:
            value = result.value if decision.value is None else detached(decision.value)
        except InvalidData as error:
            return replace(unshown(prepared.tool, error), contexts=contexts)
        return replace(result, content=blocks_of(decision.content), value=value, contexts=contexts)
    return replace(result, contexts=contexts) if contexts else result
