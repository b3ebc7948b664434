"""Reads the stream of OpenAI's Responses (Q5, Q10)."""

from __future__ import annotations

from typing import Any, Literal

from attrs import define

from treadle.models import Finish, Usage

from .decoding import Decoder
from .shapes import as_count, as_list, as_object, as_text, parse_object
from .writer import MAX_NAME, too_much

INCOMPLETE = {"max_output_tokens": "max-tokens", "content_filter": "content-filter"}
"""Reasons of an incomplete response by the kind they become; any other word is kept as it is."""

DELTAS: dict[str, Literal["text", "reasoning"]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
}
"""Events that bring text, by the kind of block it belongs to."""

KEPT_OF_REASONING = ("type", "id", "summary", "content", "encrypted_content")
"""The fields of a reasoning item that go back."""


@define
class _Call:
    """A function call under way; ``index`` is its block."""

    index: int
    argued: bool = False


class ResponsesDecoder(Decoder):
    """Reads events up to ``response.completed``, ``response.incomplete`` or ``response.failed``.

    A reasoning item is kept whole as the reasoning block's replay data, when it can go back: with its encrypted
    content.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[Any, _Call] = {}
        self._refused = False
        self._said = False

    def event(self, event: str, data: str) -> None:
        """See ``Decoder.event``."""
        if data.startswith("[DONE]"):
            return
        body = parse_object(data)
        kind = as_text(body.get("type")) or event
        if kind in DELTAS:
            self._refused = self._refused or kind == "response.refusal.delta"
            self._say(DELTAS[kind], body.get("delta"))
            return
        match kind:
            case "response.function_call_arguments.delta":
                self._argue(body)
            case "response.reasoning_summary_part.added" if body.get("summary_index"):
                self.write.prose("reasoning", "\n\n")
            case "response.output_item.added":
                self._added(body, as_object(body.get("item")))
            case "response.output_item.done":
                self._item_done(body, as_object(body.get("item")))
            case "response.completed" | "response.incomplete":
                self._end(as_object(body.get("response")))
                self.done = True
            case "response.failed":
                self.report(as_object(body.get("response")).get("error") or body)
            case "error":
                self.report(body.get("error") or {**body, "type": None})
            case _:
                if body.get("error"):
                    self.report(body["error"])

    def document(self, body: dict[str, Any]) -> None:
        """See ``Decoder.document``."""
        if body.get("object") != "response":
            return
        for index, item in enumerate(as_list(body.get("output"))):
            place = {"output_index": index}
            self._added(place, as_object(item))
            self._item_done(place, as_object(item))
        self._end(body)

    def settle(self) -> None:
        """See ``Decoder.settle``.

        Raises:
            ModelFailure: EMPTY_RESPONSE when a plain stop came with neither text, reasoning nor call.
        """
        if self.finish == Finish("stop"):
            self.refuse_empty()
        super().settle()

    def _say(self, kind: Literal["text", "reasoning"], delta: Any) -> None:
        self._said = True
        self.write.prose(kind, as_text(delta))

    def _whole(self, item: dict[str, Any]) -> None:
        """Text of an item that was not streamed."""
        for part in map(as_object, as_list(item.get("content"))):
            if item.get("type") == "message":
                self._refused = self._refused or bool(part.get("refusal"))
                self.write.prose("text", as_text(part.get("text")) or as_text(part.get("refusal")))
        if item.get("type") == "reasoning":
            summaries = [as_text(as_object(part).get("text")) for part in as_list(item.get("summary"))]
            self.write.prose("reasoning", "\n\n".join(summaries))

    def _added(self, body: dict[str, Any], item: dict[str, Any]) -> None:
        self._said = False
        match item.get("type"):
            case "function_call":
                call_id, name = as_text(item.get("call_id")), as_text(item.get("name"))
                if len(call_id) > MAX_NAME or len(name) > MAX_NAME:
                    raise too_much(f"a call's id or name of more than {MAX_NAME} characters")
                call = _Call(self.write.start_call(call_id, name))
                for key in _keys(body, item):
                    self._calls[key] = call
            case "reasoning":
                self.write.open_prose("reasoning")
            case _:
                pass

    def _argue(self, body: dict[str, Any]) -> None:
        call = self._find(body, {})
        text = as_text(body.get("delta"))
        if call is not None and text:
            call.argued = True
            self.write.arguments(call.index, text)

    def _item_done(self, body: dict[str, Any], item: dict[str, Any]) -> None:
        match item.get("type"):
            case "function_call":
                self._call_done(body, item)
            case "reasoning":
                if self.write.kind != "reasoning":
                    self.write.open_prose("reasoning")
                if not self._said:
                    self._whole(item)
                replay = {name: item[name] for name in KEPT_OF_REASONING if item.get(name) is not None}
                self.write.hold(len(as_text(replay.get("encrypted_content"))))
                self.write.end_prose(replay if replay.get("encrypted_content") else None)
            case "message":
                if not self._said:
                    self._whole(item)
                self.write.end_prose()
            case _:
                pass
        self._said = False

    def _call_done(self, body: dict[str, Any], item: dict[str, Any]) -> None:
        if self._find(body, item) is None:
            self._added(body, item)
        call = self._find(body, item)
        if call is not None:
            if not call.argued:
                self.write.arguments(call.index, as_text(item.get("arguments")))
            self.write.end_call(call.index)
            for key in [key for key, known in self._calls.items() if known is call]:
                del self._calls[key]

    def _find(self, body: dict[str, Any], item: dict[str, Any]) -> _Call | None:
        for key in _keys(body, item):
            if key in self._calls:
                return self._calls[key]
        return None

    def _end(self, response: dict[str, Any]) -> None:
        usage = as_object(response.get("usage"))
        self.write.use(
            Usage(
                input_tokens=as_count(usage.get("input_tokens")),
                output_tokens=as_count(usage.get("output_tokens")),
                cache_read_tokens=as_count(as_object(usage.get("input_tokens_details")).get("cached_tokens")),
                reasoning_tokens=as_count(as_object(usage.get("output_tokens_details")).get("reasoning_tokens")),
            ),
            last=True,
        )
        if response.get("status") == "failed" or response.get("error"):
            self.report(response.get("error") or "the response failed")
        elif response.get("status") == "incomplete":
            reason = as_text(as_object(response.get("incomplete_details")).get("reason")) or "incomplete"
            self.finish = Finish(INCOMPLETE.get(reason, reason[:100]))
        elif self._refused:
            self.finish = Finish("refusal")
        else:
            self.finish = Finish("tool-calls" if self.write.calls else "stop")


def _keys(body: dict[str, Any], item: dict[str, Any]) -> list[Any]:
    """What an item of the output is known by: its id, its place, or both."""
    keys = [body.get("item_id"), item.get("id"), body.get("output_index")]
    return [key for key in keys if isinstance(key, (str, int))]
