"""Tool calls of chat completions, put together from deltas of every known make (Q5, K3)."""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import define, field

from treadle.session import new_id

from .shapes import as_list, as_object, as_text
from .writer import MAX_NAME, ChunkWriter, too_much

MAX_WAITING = 1_000_000
"""How many characters of arguments may wait for their call's name (X3)."""


@define(eq=False)
class _Call:
    """One call under way; ``index`` is set once its block was started."""

    call_id: str = ""
    name: str = ""
    index: int | None = None
    waiting: list[str] = field(factory=list[str])
    held: int = 0


class CallAssembler:
    """Writes tool calls as their deltas come.

    Deltas belong together by ``index``; where servers leave that out, by ``id``; where both are missing, they go on
    with the last call. An index is no position: it may begin anywhere and leave gaps. A new id with a name begins a
    new call even under a used index.

    A call's block starts when its first argument text comes, for until then its name may still grow: names are sent
    whole, whole in every delta, or in fragments. Arguments that come before any name wait for it.
    """

    def __init__(self, write: ChunkWriter) -> None:
        self._write = write
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._all: list[_Call] = []

    def __len__(self) -> int:
        return len(self._all)

    def add(self, deltas: Any) -> None:
        """Take the ``tool_calls`` of one delta.

        Raises:
            ModelFailure: a bound is exceeded (X3).
        """
        for delta in map(as_object, as_list(deltas)):
            if not delta:
                continue
            function = as_object(delta.get("function"))
            call = self._find(delta.get("index"), as_text(delta.get("id")), as_text(function.get("name")))
            self._name(call, as_text(function.get("name")))
            self._argue(call, function.get("arguments"))

    def end(self) -> None:
        """Start what has waited in vain for a name; call it when the answer is complete."""
        for call in self._all:
            if call.index is None:
                self._start(call)

    def _find(self, index: Any, call_id: str, name: str) -> _Call:
        if len(call_id) > MAX_NAME:
            call_id = ""
        known: _Call | None
        if isinstance(index, int):
            known = self._by_index.get(index)
        elif call_id:
            known = self._by_id.get(call_id)
        else:
            known = self._all[-1] if self._all and not name else None
        if known is None or (call_id and name and known.call_id and call_id != known.call_id):
            known = _Call(call_id if call_id not in self._by_id else "")
            self._all.append(known)
            if len(self._all) > self._write.bounds.calls:
                raise self._write.bounds.too_many_calls()
        if call_id and not known.call_id and known.index is None and call_id not in self._by_id:
            known.call_id = call_id
        if known.call_id:
            self._by_id.setdefault(known.call_id, known)
        if isinstance(index, int):
            self._by_index[index] = known
        return known

    def _name(self, call: _Call, part: str) -> None:
        if part and part != call.name and call.index is None:
            call.name += part
            if len(call.name) > MAX_NAME:
                raise too_much(f"a tool name of more than {MAX_NAME} characters")

    def _argue(self, call: _Call, arguments: Any) -> None:
        if isinstance(arguments, (dict, list)):  # some servers send the value instead of its text
            arguments = msgspec.json.encode(arguments).decode()
        text = as_text(arguments)
        if not text:
            return
        if call.index is None and call.name:
            self._start(call)
        if call.index is None:
            call.waiting.append(text)
            call.held += len(text)
            if call.held > MAX_WAITING:
                raise too_much(f"more than {MAX_WAITING} characters of arguments for a call without a name")
        else:
            self._write.arguments(call.index, text)

    def _start(self, call: _Call) -> None:
        call.index = self._write.start_call(call.call_id or f"call_{new_id()}", call.name)
        for text in call.waiting:
            self._write.arguments(call.index, text)
        call.waiting.clear()
