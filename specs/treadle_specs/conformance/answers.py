"""What the suite answers at gates, by a drawn number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ledger import Json

_CORE = (0, 1, 2, 3)
"""Answers of a model that every driver understands."""
STOP: Json = {"chunks": [{"text": "yes"}], "end": "stop"}


def answer(gate: Json, choice: int, name: Callable[[], str], *, core: bool = False) -> Json:
    """An answer that fits a gate.

    Args:
        gate: as it was reported.
        choice: which of them; 0 is the plainest.
        name: makes fresh ids.
        core: keep to what every driver can do.
    """
    if gate["kind"] == "model":
        return _model(_CORE[choice % len(_CORE)] if core else choice, name)
    if gate["kind"] in ("tool", "stubborn-tool"):
        return _tool(min(choice, 1) if core else choice, name)
    options = _HOOKS.get(gate["kind"], (_plain,))
    return options[choice % len(options)](gate, name)


def _call(name: Callable[[], str], tool: str) -> Json:
    return {"call": {"id": f"c{name()[1:]}", "name": tool, "arguments": "{}"}}


def _model(choice: int, name: Callable[[], str]) -> Json:
    match choice:
        case 1:
            return {"chunks": [{"text": "so"}, _call(name, "t")], "end": "tool-calls"}
        case 2:
            return {"chunks": [_call(name, "p"), _call(name, "p"), _call(name, "t")], "end": "tool-calls"}
        case 3:
            return {"chunks": [{"text": "half"}], "end": None}
        case 4:
            return {"chunks": [_call(name, "stubborn"), _call(name, "t")], "end": "tool-calls"}
        case 5:
            return {"chunks": [{"text": "cut"}, _call(name, "t")], "end": "max-tokens"}
        case 6:
            return {"chunks": [{"text": "oh"}], "end": {"error": {"code": "SERVER", "message": "no"}}}
        case 7:
            return {"chunks": [_call(name, "nobody"), _call(name, "t")], "end": "tool-calls"}
        case 8:
            return {"chunks": [], "end": {"raise": "no"}}
        case 9:
            call = _call(name, "t")
            return {"chunks": [call, call, {"call": {**call["call"], "id": ""}}], "end": "tool-calls"}
        case _:
            return STOP


def _tool(choice: int, name: Callable[[], str]) -> Json:
    match choice:
        case 1:
            return {"text": "wrong", "error": True}
        case 2 | 3:
            return {"text": "enough", "concludes": True}
        case 4 | 5:
            context = name()
            return {"text": "see", "contexts": [{"id": context, "text": context}]}
        case 6:
            return {"raise": "no"}
        case _:
            return {"text": "ok"}


def _plain(gate: Json, name: Callable[[], str]) -> Json:
    del gate, name
    return {}


def _raises(gate: Json, name: Callable[[], str]) -> Json:
    del gate, name
    return {"raise": "no"}


def _always(**given: Any) -> Callable[[Json, Callable[[], str]], Json]:
    return lambda _gate, _name: dict(given)


def _batch(gate: Json, start: int) -> list[Json]:
    return [{"id": one, "text": f"{one} again"} for one in gate["batch"][start:]]


def _more(gate: Json, name: Callable[[], str]) -> Json:
    fresh = name()
    return {"decide": {"enter": [*_batch(gate, 0), {"id": fresh, "text": fresh}]}}


def _steer(gate: Json, name: Callable[[], str]) -> Json:
    del gate
    fresh = name()
    return {"steer": {"id": fresh, "text": fresh}}


_HOOKS: dict[str, tuple[Callable[[Json, Callable[[], str]], Json], ...]] = {
    "pre-step": (
        *(_plain, _plain, _always(decide="reject"), lambda gate, _: {"decide": {"enter": _batch(gate, 1)}}),
        *(_more, _always(decide={"enter": []}), _raises),
    ),
    "prompt-submit": (_plain, _plain, _always(decide="block"), _raises),
    "request": (_plain, _plain, _plain, _raises),
    "request-error": (_always(action="retry"), _plain, _raises),
    "turn-stopping": (_plain, _steer, _steer, _raises),
    "maintenance": (_plain, _raises),
}
