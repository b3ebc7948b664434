"""Reads the stream of OpenAI's Responses (Q5, Q10, Q13)."""

from __future__ import annotations

from typing import Any, Literal

from treadle.models import Finish, Usage
from treadle.session import new_id

from .decoding import Decoder
from .responses_items import Channel, Item, Items
from .shapes import as_count, as_list, as_object, as_text, parse_object
from .tellings import contradiction

INCOMPLETE = {"max_output_tokens": "max-tokens", "content_filter": "content-filter"}
"""Reasons of an incomplete response by the kind they become; any other word is kept as it is."""

TEXTS: dict[str, tuple[Channel, str]] = {
    "response.output_text": ("text", "text"),
    "response.refusal": ("text", "refusal"),
    "response.reasoning_text": ("thought", "text"),
    "response.reasoning_summary_text": ("summary", "text"),
}
"""Events that tell a text, without their ``.delta`` or ``.done``: which texts they belong to, and the whole's field."""

PARTS: dict[str, Channel] = {
    "output_text": "text",
    "text": "text",
    "refusal": "text",
    "reasoning_text": "thought",
    "summary_text": "summary",
}
"""Parts of an item by which texts they belong to."""

PARTED: dict[str, Channel] = {"response.content_part": "text", "response.reasoning_summary_part": "summary"}
"""Events that tell a part, without their ``.added`` or ``.done``, by which texts it belongs to if it does not say."""

BLOCKS: dict[Channel, Literal["text", "reasoning"]] = {"text": "text", "summary": "reasoning", "thought": "reasoning"}
PLACES: dict[Channel, str] = {"text": "content_index", "summary": "summary_index", "thought": "content_index"}
KINDS: dict[Channel, str] = {"text": "message", "summary": "reasoning", "thought": "reasoning"}

KEPT_OF_REASONING = ("type", "id", "summary", "content", "encrypted_content")
"""The fields of a reasoning item that go back."""


class ResponsesDecoder(Decoder):
    """Reads events up to ``response.completed``, ``response.incomplete`` or ``response.failed``.

    Each text may be told in deltas, in its ``.done``, in its part, in its item and in the whole response: any of them
    suffices and none doubles another (Q13). A call whose arguments came in none of them fails the answer: run with an
    empty object it would do something else than was asked.

    A reasoning item is kept whole as the reasoning block's replay data, when it can go back: with its encrypted
    content.
    """

    def __init__(self) -> None:
        super().__init__()
        self._items = Items()
        self._refused = False
        self._last: tuple[Item, Channel, int] | None = None

    def event(self, event: str, data: str) -> None:
        """See ``Decoder.event``."""
        if data.startswith("[DONE]"):
            return
        body = parse_object(data)
        kind = as_text(body.get("type")) or event
        stem, _, end = kind.rpartition(".")
        if stem in TEXTS and end in ("delta", "done"):
            self._text(stem, end, body)
            return
        if stem in PARTED:
            self._part(end, body, as_object(body.get("part")), PARTED[stem])
            return
        match kind:
            case "response.function_call_arguments.delta":
                item = self._items.mentioned("function_call", body)
                self._argue(item, item.arguments.more(as_text(body.get("delta"))))
            case "response.function_call_arguments.done":
                self._argued(self._items.mentioned("function_call", body), body)
            case "response.output_item.added":
                self._added(body, as_object(body.get("item")))
            case "response.output_item.done":
                item = as_object(body.get("item"))
                self._done(self._items.ended(as_text(item.get("type")), body, item), item)
            case "response.completed" | "response.incomplete" | "response.done":
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
        if body.get("object") == "response":
            self._end(body)

    def settle(self) -> None:
        """See ``Decoder.settle``.

        Raises:
            ModelFailure: EMPTY_RESPONSE when a plain stop came with neither text, reasoning nor call;
                MALFORMED_RESPONSE when the arguments or the name of a call never came.
        """
        for item in self._items:
            if item.kind == "function_call":
                self._settle_call(item)
        if self.finish == Finish("stop"):
            if self.write.calls:
                self.finish = Finish("tool-calls")
            self.refuse_empty()
        super().settle()

    def _text(self, stem: str, end: str, body: dict[str, Any]) -> None:
        channel, name = TEXTS[stem]
        self._refused = self._refused or name == "refusal"
        item = self._items.mentioned(KINDS[channel], body)
        place = _place(item, body, channel)
        part = item.part(channel, place)
        told = part.more(as_text(body.get("delta"))) if end == "delta" else part.whole(as_text(body.get(name)))
        self._say(item, channel, place, told)

    def _part(self, end: str, body: dict[str, Any], part: dict[str, Any], usual: Channel) -> None:
        """Take the start or the end of a part of an item."""
        channel = PARTS.get(as_text(part.get("type")), usual)
        item = self._items.mentioned(KINDS[channel], body)
        place = body.get(PLACES[channel])
        if end == "added":
            item.begin_part(channel, place if isinstance(place, int) else None)
        elif end == "done":
            place = _place(item, body, channel)
            self._say(item, channel, place, item.part(channel, place).whole(self._read(part)))

    def _read(self, part: dict[str, Any]) -> str:
        refusal = as_text(part.get("refusal"))
        self._refused = self._refused or bool(refusal)
        return as_text(part.get("text")) or refusal

    def _say(self, item: Item, channel: Channel, place: int, text: str) -> None:
        """Write a text, or more of it.

        Raises:
            ModelFailure: it belongs before what has been written since.
        """
        if not text:
            return
        before = self._last
        here: tuple[Item, Channel, int] = (item, channel, place)
        kind, part = BLOCKS[channel], item.part(channel, place)
        if before != here and part.closed and part.text != text:
            raise contradiction("told the rest of a text after what follows it")
        if before is None or before[0] is not item:
            self.write.open_prose(kind)
        elif before != here and kind == "reasoning":
            text = "\n\n" + text
        self._last = here
        self.write.prose(kind, text)

    def _added(self, body: dict[str, Any], told: dict[str, Any]) -> None:
        kind = as_text(told.get("type"))
        item = self._items.opened(kind, body, told)
        if kind == "function_call":
            item.arguments.begin(as_text(told.get("arguments")))
            item.identify(told)
            self._start(item)

    def _start(self, item: Item) -> None:
        """Begin a call's block, once its tool is known."""
        if item.block is None and item.name:
            item.block = self.write.start_call(item.call_id or f"call_{new_id()}", item.name)
            self.write.arguments(item.block, item.arguments.text)

    def _argue(self, item: Item, text: str) -> None:
        if item.block is not None:
            self.write.arguments(item.block, text)

    def _argued(self, item: Item, told: dict[str, Any]) -> None:
        if isinstance(told.get("arguments"), str):
            if not told["arguments"]:
                item.arguments.tell_empty()
            self._argue(item, item.arguments.whole(told["arguments"]))
        item.identify({"name": told.get("name"), "call_id": told.get("call_id")})
        self._start(item)

    def _done(self, item: Item, told: dict[str, Any]) -> None:
        """Take a whole item, from its own end or from the whole answer."""
        item.count_telling()
        match item.kind:
            case "function_call":
                self._argue(item, item.arguments.whole(as_text(told.get("arguments"))))
                item.identify(told)
                self._start(item)
                if item.block is not None and item.arguments.told:
                    self.write.end_call(item.block)
            case "message":
                self._retell(item, "text", [self._read(part) for part in _objects(told.get("content"))])
                if not item.closed and self._is_last(item):
                    self.write.end_prose()
            case "reasoning":
                self._reasoning_done(item, told)
            case _:
                pass
        item.closed = True

    def _reasoning_done(self, item: Item, told: dict[str, Any]) -> None:
        self._retell(item, "summary", [as_text(part.get("text")) for part in _objects(told.get("summary"))])
        self._retell(item, "thought", [as_text(part.get("text")) for part in _objects(told.get("content"))])
        replay = {name: told[name] for name in KEPT_OF_REASONING if told.get(name) is not None}
        if item.closed or not (item.parts or replay.get("encrypted_content")):
            return
        if not self._is_last(item) or self.write.kind != "reasoning":
            self.write.open_prose("reasoning")
            self._last = (item, "summary", 0)
        self.write.hold(len(as_text(replay.get("encrypted_content"))))
        self.write.end_prose(replay if replay.get("encrypted_content") else None)

    def _is_last(self, item: Item) -> bool:
        return self._last is not None and self._last[0] is item

    def _retell(self, item: Item, channel: Channel, texts: list[str]) -> None:
        """Take the texts of one channel as the whole item has them, perhaps cut into other parts than before."""
        if item.told(channel) != "".join(texts):
            for place, text in enumerate(texts):
                self._say(item, channel, place, item.part(channel, place).whole(text))

    def _settle_call(self, item: Item) -> None:
        begun = item.arguments.end()
        self._argue(item, begun)
        whole = self.finish is not None and self.finish.kind in ("stop", "tool-calls")
        if whole and not (item.name and item.arguments.told):
            missing = "arguments" if item.name else "name"
            raise contradiction(f"asked for a call of {item.name or 'a tool'!r} and never told its {missing}")

    def _end(self, response: dict[str, Any]) -> None:
        output = _objects(response.get("output"))
        for item, told in zip(self._items.listed(output), output, strict=True):
            self._done(item, told)
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


def _objects(value: Any) -> list[dict[str, Any]]:
    return [as_object(item) for item in as_list(value)]


def _place(item: Item, body: dict[str, Any], channel: Channel) -> int:
    """Which part of its item an event tells: the one it names, else the one begun last."""
    place = body.get(PLACES[channel])
    return place if isinstance(place, int) else item.current.get(channel, 0)
