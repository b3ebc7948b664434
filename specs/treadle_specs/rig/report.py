"""Events and notifications, reduced to what testers compare."""

from __future__ import annotations

from typing import Any, cast

from treadle import Event, Reasoning
from treadle.models import text_of

from .protocol import Json


def event_told(event: Event, at: int | None) -> Json:
    """One durable event; ``at`` is its running number if it was published."""
    told: Json = {"type": event.type, "seq": event.seq, **_fields(event)}
    if at is not None:
        told["at"] = at
    return told


def _fields(event: Event) -> Json:
    data = event.data
    match event.type:
        case "turn/start":
            return {"turn": data.turn}
        case "turn/end":
            return {"turn": data.turn, **_reason(data.reason)}
        case "step/start" | "step/end":
            return {"turn": data.turn, "step": data.step}
        case "user/message":
            return {"message": data.message.id, "text": data.message.text}
        case "assistant/message":
            return _answer(data)
        case "tool/call":
            return {"call": data.call_id}
        case "tool/result":
            text = text_of(data.content)
            return {"call": data.call_id, "error": data.is_error, "code": data.code, "text": text}
        case "agent/inbox/spliced":
            return {
                "target": data.target,
                "start": data.start,
                "removed": data.removed_count,
                "inserted": [message.id for message in data.inserted],
                "outcome": data.outcome,
            }
        case _:
            return {}


def _kind(member: Any) -> str:
    """The tag of a member of an open sum."""
    return str(cast("Any", type(member)).__struct_config__.tag)


def _reason(reason: Any) -> Json:
    kind = _kind(reason)
    if kind == "aborted":
        return {"reason": kind, "cause": _kind(reason.reason)}
    if kind == "error":
        return {"reason": kind, "code": reason.failure.code}
    return {"reason": kind}


def _answer(data: Any) -> Json:
    message = data.message
    reasoning = "".join([block.text for block in message.content if isinstance(block, Reasoning)])
    return {
        "text": message.text,
        "reasoning": reasoning,
        "calls": [call.call_id for call in message.calls],
        "interrupted": data.interrupted,
    }


def notice_told(name: str, payload: Any) -> Json:
    """One notification."""
    told: Json = {"name": name}
    if hasattr(payload, "status"):
        told["status"] = payload.status
    if hasattr(payload, "message"):
        told["message"] = payload.message.id
    if hasattr(payload, "messages"):
        told["messages"] = [message.id for message in payload.messages]
    if hasattr(payload, "turn"):
        told["turn"] = payload.turn
    if hasattr(payload, "cause"):
        told["cause"] = _kind(payload.cause)
    if hasattr(payload, "failure"):
        told["code"] = payload.failure.code
    return told
