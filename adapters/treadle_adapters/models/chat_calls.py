"""Tool calls of chat completions, put together from deltas of every known make (Q5, Q13, K3)."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from treadle.session import new_id

from .chat_replay import CallData, MessageData
from .encoding import encode
from .shapes import as_list, as_object, as_text
from .tellings import Telling
from .writer import MAX_NAME, ChunkWriter, too_much

MAX_WAITING = 1_000_000
"""How many characters of arguments may wait for their call's name (X3)."""


def _arguments() -> Telling:
    return Telling("the arguments of a call", json=True)


@define(eq=False)
class _Call:
    """One call under way; ``index`` is set once its block was started."""

    call_id: str = ""
    name: str = ""
    index: int | None = None
    arguments: Telling = field(factory=_arguments)
    held: int = 0
    data: CallData = field(factory=CallData)


class CallAssembler:
    """Writes tool calls as their deltas come.

    Deltas belong together by ``index``; where servers leave that out, by ``id``; where both are missing, they go on
    with the last call. An index is no position: it may begin anywhere and leave gaps. A new id with a name begins a
    new call even under a used index.

    A call's block starts when its first argument text comes, for until then its name may still grow: names are sent
    whole, whole in every delta, or in fragments. Arguments that come before any name wait for it.

    Args:
        write: takes the chunks.
        data: counts what the calls want sent back.
        endpoint: where that goes back to (Q10).
    """

    def __init__(self, write: ChunkWriter, data: MessageData, endpoint: str) -> None:
        self._write = write
        self._data = data
        self._endpoint = endpoint
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
            self._data.count(call.data.take(delta))
            text = _text(function.get("arguments"))
            if text:
                self._argue(call, call.arguments.more(text))

    def retell(self, calls: Any) -> None:
        """Take the ``tool_calls`` of the whole message, which deltas may have told already (Q13).

        Raises:
            ModelFailure: they contradict what was told before, or a bound is exceeded (X3).
        """
        known = list(self._all)
        for number, told in enumerate(map(as_object, as_list(calls))):
            call_id = as_text(told.get("id"))
            call = self._by_id.get(call_id) or (known[number] if number < len(known) else None)
            if call is None:
                self.add([{"index": len(self._all), **told}])
                continue
            function = as_object(told.get("function"))
            if not call.name:
                self._name(call, as_text(function.get("name")))
            self._data.count(call.data.take(told))
            self._argue(call, call.arguments.whole(_text(function.get("arguments"))))

    def end(self) -> None:
        """Start what has waited in vain for a name, and end all; call it when the answer is complete."""
        for call in self._all:
            index = self._start(call) if call.index is None else call.index
            self._write.end_call(index, call.data.replay(self._endpoint))

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

    def _argue(self, call: _Call, text: str) -> None:
        if not text:
            return
        if call.index is not None:
            self._write.arguments(call.index, text)
        elif call.name:
            self._start(call)
        else:
            call.held += len(text)
            if call.held > MAX_WAITING:
                raise too_much(f"more than {MAX_WAITING} characters of arguments for a call without a name")

    def _start(self, call: _Call) -> int:
        index = call.index = self._write.start_call(call.call_id or f"call_{new_id()}", call.name)
        self._write.arguments(index, call.arguments.text)
        return index


def _text(arguments: Any) -> str:
    """Arguments as text; some servers send the value instead."""
    return encode(arguments).decode() if isinstance(arguments, (dict, list)) else as_text(arguments)
