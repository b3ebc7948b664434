"""Inputs in which ids were used again, rewritten so that every message has an id of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from treadle import ToolCall, UserMessage
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel


def renamed(inputs: Sequence[i.Input], start: Kernel) -> list[i.Input]:
    """Rewrite inputs so that no id is taken twice. An id stands for a new message once the old one met its fate.

    Args:
        inputs: from the empty agent on.
        start: that agent's kernel; it is not changed.
    """
    return Renaming(start).all(inputs)


class Renaming:
    """Plays the rewritten inputs on a kernel of its own, to know which messages are live."""

    def __init__(self, start: Kernel) -> None:
        self._kernel = start.copy()
        self._names: dict[str, str] = {}
        self._count = 0
        self._answers = 0

    def all(self, inputs: Sequence[i.Input]) -> list[i.Input]:
        """Rewrite a whole sequence."""
        out: list[i.Input] = []
        for given in inputs:
            rewritten = self._rewrite(given)
            out.append(rewritten)
            self._play(rewritten)
        return out

    def _play(self, given: i.Input) -> None:
        try:
            effects = self._kernel.receive(given)
        except Exception:
            return
        over = {effect.message_id for effect in effects if type(effect) is fx.Settle}
        self._names = {old: new for old, new in self._names.items() if new not in over}

    def _rewrite(self, given: Any) -> i.Input:
        changes: dict[str, Any] = {}
        for name in ("message", "inserted", "messages", "contexts", "kept"):
            value = getattr(given, name, None)
            if isinstance(value, UserMessage):
                changes[name] = self._message(value)
            elif value:
                changes[name] = tuple([self._message(message) for message in value])
        if hasattr(given, "message_id"):
            changes["message_id"] = self._names.get(given.message_id, given.message_id)
        if type(given) is i.Answered:
            changes |= self._calls(given)
        elif type(given) is i.CallSettled and self._kernel.schedule is not None:
            call = self._kernel.schedule.calls[given.index]
            changes["result"] = msgspec.structs.replace(given.result, call_id=call.call_id)
        return msgspec.structs.replace(given, **changes) if changes else given

    def _message(self, message: UserMessage) -> UserMessage:
        name = self._names.get(message.id)
        if name is None:
            self._count += 1
            name = self._names[message.id] = f"u{self._count}"
        return msgspec.structs.replace(message, id=name)

    def _calls(self, given: i.Answered) -> dict[str, Any]:
        self._answers += 1
        prefix = f"a{self._answers}-"
        content = [
            msgspec.structs.replace(block, call_id=prefix + block.call_id) if type(block) is ToolCall else block
            for block in given.fact.message.content
        ]
        message = msgspec.structs.replace(given.fact.message, content=tuple(content))
        return {"fact": msgspec.structs.replace(given.fact, message=message), "calls": message.calls}
