"""Reads the stream of Anthropic's Messages (Q5, Q10, Q13)."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from treadle.models import CHUNK, Finish, Usage

from .decoding import Decoder
from .encoding import encode
from .shapes import as_count, as_list, as_object, as_text, parse_object
from .tellings import Telling
from .writer import MAX_NAME, too_much

FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "max-tokens",
    "model_context_window_exceeded": "max-tokens",
    "tool_use": "tool-calls",
    "refusal": "refusal",
}
"""Stop reasons by the kind they become; any other word is kept as it is."""

_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _arguments() -> Telling:
    return Telling("the input of a call", json=True)


@define
class _Block:
    """A content block under way."""

    kind: str
    call: int = -1
    input: Any = None
    arguments: Telling = field(factory=_arguments)
    thinking: list[str] = field(factory=list[str])
    signature: list[str] = field(factory=list[str])
    data: str = ""

    def replay(self) -> dict[str, str] | None:
        """What has to come back byte for byte (Q10)."""
        if self.kind == "redacted_thinking":
            return {"type": self.kind, "data": self.data}
        if self.kind == "thinking" and self.signature:
            return {"type": self.kind, "thinking": "".join(self.thinking), "signature": "".join(self.signature)}
        return None


class MessagesDecoder(Decoder):
    """Reads events up to ``message_stop``. The answer is complete once a stop reason came.

    An empty answer that ends its turn is an answer: the model had nothing to add. Thinking is kept, with its
    signature, as the reasoning block's replay data.
    """

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[Any, _Block] = {}
        self._counts: dict[str, int] = {}

    def event(self, event: str, data: str) -> None:
        """See ``Decoder.event``."""
        body = parse_object(data)
        match body.get("type"):
            case "content_block_delta":
                self._delta(self._blocks.get(_key(body)), as_object(body.get("delta")))
            case "content_block_start":
                self._start(_key(body), as_object(body.get("content_block")))
            case "content_block_stop":
                self._stop(self._blocks.pop(_key(body), None))
            case "message_start":
                self._use(as_object(body.get("message")).get("usage"))
            case "message_delta":
                self._finish(as_object(body.get("delta")).get("stop_reason"))
                self._use(body.get("usage"))
            case "message_stop":
                self.done = True
            case "error":
                self.report(body.get("error") or body)
            case _:
                if event == "error" or body.get("error"):
                    self.report(body.get("error") or body)

    def document(self, body: dict[str, Any]) -> None:
        """See ``Decoder.document``."""
        if body.get("type") != "message":
            return
        for index, item in enumerate(as_list(body.get("content"))):
            block = as_object(item)
            self._start(index, block)
            self._stop(self._blocks.pop(index, None))
        self._finish(body.get("stop_reason"))
        self._use(body.get("usage"))

    def settle(self) -> None:
        """See ``Decoder.settle``."""
        assert self.finish is not None
        if self.finish.kind in ("stop", "tool-calls"):
            self.finish = Finish("tool-calls" if self.write.calls else "stop")
        for key in list(self._blocks):
            self._stop(self._blocks.pop(key))
        super().settle()

    def _start(self, key: Any, content: dict[str, Any]) -> None:
        block = self._blocks[key] = _Block(as_text(content.get("type")))
        match block.kind:
            case "text":
                self.write.open_prose("text")
                self.write.prose("text", as_text(content.get("text")))
            case "thinking":
                self.write.open_prose("reasoning")
                self._think(block, as_text(content.get("thinking")))
                self._sign(block, as_text(content.get("signature")))
            case "redacted_thinking":
                self.write.open_prose("reasoning")
                block.data = as_text(content.get("data"))
                self.write.hold(len(block.data))
            case "tool_use":
                call_id, name = as_text(content.get("id")), as_text(content.get("name"))
                if len(call_id) > MAX_NAME or len(name) > MAX_NAME:
                    raise too_much(f"a call's id or name of more than {MAX_NAME} characters")
                block.call = self.write.start_call(call_id, name)
                block.input = content.get("input")
            case _:
                pass  # what a server's own tools did is not for us

    def _delta(self, block: _Block | None, delta: dict[str, Any]) -> None:
        match delta.get("type"):
            case "text_delta":
                self.write.prose("text", as_text(delta.get("text")))
            case "thinking_delta":
                self._think(block, as_text(delta.get("thinking")))
            case "signature_delta" if block is not None:
                self._sign(block, as_text(delta.get("signature")))
            case "input_json_delta" if block is not None and block.call >= 0:
                self.write.arguments(block.call, block.arguments.more(as_text(delta.get("partial_json"))))
            case _:
                pass

    def _think(self, block: _Block | None, text: str) -> None:
        if block is not None and text:
            block.thinking.append(text)
        self.write.prose("reasoning", text)

    def _sign(self, block: _Block, part: str) -> None:
        if part:
            block.signature.append(part)
            self.write.hold(len(part) + CHUNK)

    def _stop(self, block: _Block | None) -> None:
        if block is None:
            return
        if block.call >= 0:
            if block.input:  # some servers give the whole input at the start, and some of them in deltas as well
                self.write.arguments(block.call, block.arguments.whole(encode(block.input).decode()))
            self.write.end_call(block.call)
        elif block.kind in ("text", "thinking", "redacted_thinking"):
            self.write.end_prose(block.replay())

    def _finish(self, word: Any) -> None:
        if isinstance(word, str) and word:
            self.finish = Finish(FINISHES.get(word, word[:100]))

    def _use(self, value: Any) -> None:
        """Note the tokens. Anthropic counts cached parts of the prompt beside ``input_tokens``; here they are in it."""
        usage = as_object(value)
        for name in _COUNTS:
            count = as_count(usage.get(name))
            if count is not None:
                self._counts[name] = count
        fresh, out, read, written = [self._counts.get(name) for name in _COUNTS]
        total = None if fresh is None else fresh + (read or 0) + (written or 0)
        self.write.use(Usage(total, out, read, written), last=self.finish is not None)


def _key(body: dict[str, Any]) -> Any:
    index = body.get("index")
    return index if isinstance(index, int) else None
