"""What blocks, senders and ends of turns are called, in a few words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from treadle import (
    Aborted,
    Block,
    Blocked,
    ByDisposal,
    ByHook,
    ByParent,
    ByUser,
    EndReason,
    Errored,
    Interrupted,
    MaxTokens,
    Text,
)
from treadle.models import AgentSource, HookSource, Source, ToolSource, UserSource
from treadle.session import to_builtins


def blocks_text(content: Iterable[Block]) -> str:
    """What blocks say; those that are no text are named in brackets."""
    return "".join([block.text if type(block) is Text else f"[{tag_of(block)}]" for block in content])


def tag_of(member: object) -> str:
    """The tag of a block, cause or source, known or not: what stands under ``type`` or ``kind``."""
    raw: Any = to_builtins(member)
    plain = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    return str(plain.get("type") or plain.get("kind") or type(member).__name__)


def route_text(provider: str | None, model: str | None) -> str:
    """Where a request goes: ``provider/model``; what is not told is left out."""
    return "/".join([part for part in (provider, model) if part])


def source_text(source: Source) -> str:
    """Who supplied a message, in a few words: ``you``, ``tool call-1``, ``hook guard``, ``agent other``."""
    match source:
        case UserSource():
            return "you"
        case ToolSource(call_id=call_id):
            return f"tool {call_id}"
        case HookSource(name=name):
            return f"hook {name}"
        case AgentSource(agent_id=agent_id):
            return f"agent {agent_id}"
        case _:
            return tag_of(source)


def end_text(reason: EndReason) -> str:
    """Why a turn ended, in a few words."""
    match reason:
        case Aborted(reason=ByUser()):
            return "stopped by the user"
        case Aborted(reason=ByParent()):
            return "stopped by its parent"
        case Aborted(reason=ByHook(reason=why)):
            return f"stopped by a hook: {why}"
        case Aborted(reason=ByDisposal()):
            return "stopped, as the agent was disposed of"
        case Aborted(reason=cause):
            return f"stopped: {tag_of(cause)}"
        case Blocked(detail=detail):
            return f"blocked: {detail}" if detail else "blocked by a hook"
        case Errored(failure=failure):
            return f"failed: {failure.code}: {failure.message}"
        case MaxTokens():
            return "cut off at the output limit"
        case Interrupted():
            return "broken off: the process ended inside it"
        case _:
            return tag_of(reason)
