"""Reads the stream of a chat completion, as OpenAI and the many servers like it send it (Q5, Q13)."""

from __future__ import annotations

from typing import Any, Literal

from treadle import Failure, ModelFailure
from treadle.models import Code, Finish, Usage

from ..http.failures import failure_of_error
from .chat_calls import CallAssembler
from .chat_replay import MessageData
from .decoding import Decoder
from .shapes import NotJson, as_count, as_list, as_object, as_text, is_base_error, parse_object
from .tellings import Telling

Kind = Literal["text", "reasoning"]

FINISHES = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "max-tokens",
    "max_tokens": "max-tokens",
    "model_length": "max-tokens",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
    "refusal": "refusal",
}
"""Finish reasons by the kind they become; any other word is kept as it is."""


def finish_of(word: Any) -> Finish:
    """The finish for a provider's word."""
    text = str(word)[:100]
    kind = FINISHES.get(text)
    return Finish(text) if kind is None else Finish(kind)


def usage_of(value: Any) -> Usage:
    """Token counts of a chat completion. ``input_tokens`` is the whole prompt, the part read from a cache included."""
    usage = as_object(value)
    prompt = as_object(usage.get("prompt_tokens_details"))
    answer = as_object(usage.get("completion_tokens_details"))
    cached = as_count(prompt.get("cached_tokens"))
    return Usage(
        input_tokens=as_count(usage.get("prompt_tokens")),
        output_tokens=as_count(usage.get("completion_tokens")),
        cache_read_tokens=as_count(usage.get("prompt_cache_hit_tokens")) if cached is None else cached,
        cache_write_tokens=as_count(prompt.get("cache_write_tokens")),
        reasoning_tokens=as_count(answer.get("reasoning_tokens")),
    )


class ChatDecoder(Decoder):
    """Reads ``chat.completion.chunk`` events up to ``[DONE]``.

    The answer is complete when a finish reason came: a missing ``[DONE]`` is forgiven, a missing finish is not. Only
    the first choice is read. A finish ``stop`` of an answer that asks for tools becomes ``tool-calls``, and the other
    way round. Beside its deltas, or instead of them, an answer may be told as a whole ``message`` (Q13).

    Args:
        endpoint: where what the answer wants sent back goes (Q10).
    """

    def __init__(self, endpoint: str = "") -> None:
        super().__init__()
        self._endpoint = endpoint
        self._data = MessageData()
        self._calls = CallAssembler(self.write, self._data, endpoint)
        self._refused = False
        self._message: dict[str, Any] | None = None
        self._texts: dict[Kind, Telling] = {"text": Telling("its text"), "reasoning": Telling("its reasoning")}

    def event(self, event: str, data: str) -> None:
        """See ``Decoder.event``."""
        if data.startswith("[DONE]"):
            self.done = True
            return
        try:
            body = parse_object(data)
        except NotJson:
            if event != "error":
                raise
            body = {"message": data}
        if event == "error" or "error" in body or body.get("object") == "error":
            error = body.get("error")
            if error or event == "error" or body.get("object") == "error":
                self.report(error or body)
                return
        if is_base_error(body):
            self.report(body)
            return
        choices = body.get("choices")
        if choices:
            self._choice(as_object(as_list(choices)[0] if isinstance(choices, list) else None))
        if body.get("usage") is not None:
            self.write.use(usage_of(body["usage"]), last=self.finish is not None)

    def document(self, body: dict[str, Any]) -> None:
        """See ``Decoder.document``."""
        choices = as_list(body.get("choices"))
        if choices:
            self._choice(as_object(choices[0]))
            self.write.use(usage_of(body.get("usage")), last=True)

    def settle(self) -> None:
        """See ``Decoder.settle``.

        Raises:
            ModelFailure: EMPTY_RESPONSE when a plain stop came with neither text, reasoning nor call; SERVER when
                the finish itself says ``error``; MALFORMED_RESPONSE when the whole message contradicts its deltas.
        """
        if self._message is not None:
            self._retell(self._message)
        self._calls.end()
        self.replay = self._data.replay(self._endpoint)
        assert self.finish is not None
        kind = self.finish.kind
        if kind in ("error", "aborted"):
            text = f"the provider ended the answer with {kind!r} and said no more"
            raise ModelFailure(Failure(text, Code.SERVER.value))
        if kind in ("stop", "tool-calls"):
            if self._refused:
                self.finish = Finish("refusal")
            elif len(self._calls):
                self.finish = Finish("tool-calls")
            else:
                self.refuse_empty()
                self.finish = Finish("stop")
        super().settle()

    def _choice(self, choice: dict[str, Any]) -> None:
        delta, message = choice.get("delta"), choice.get("message")
        if isinstance(delta, dict):
            self._delta(as_object(delta))
        if isinstance(message, dict):
            self._message = as_object(message)  # some servers repeat it, longer each time, beside every delta
        finish = choice.get("finish_reason")
        if finish is not None and finish != "" and self.finish is None:
            self.finish = finish_of(finish)
        if choice.get("error"):
            self.failure = failure_of_error(choice["error"])

    def _delta(self, delta: dict[str, Any]) -> None:
        for kind, text in self._prose(delta):
            self.write.prose(kind, self._texts[kind].more(text))
        if delta.get("tool_calls"):
            self._calls.add(delta["tool_calls"])
        if delta.get("function_call"):
            self._calls.add([{"index": 0, "function": delta["function_call"]}])
        if len(delta) > 1 or "content" not in delta:
            self._data.take(delta)

    def _retell(self, message: dict[str, Any]) -> None:
        """Take the whole message (Q13)."""
        texts: dict[Kind, list[str]] = {"reasoning": [], "text": []}
        for kind, text in self._prose(message):
            texts[kind].append(text)
        for kind, parts in texts.items():
            self.write.prose(kind, self._texts[kind].whole("".join(parts)))
        if self._data.empty:
            self._data.take(message)
        self._calls.retell(message.get("tool_calls"))
        if message.get("function_call"):
            self._calls.retell([{"function": message["function_call"]}])

    def _prose(self, told: dict[str, Any]) -> list[tuple[Kind, str]]:
        """The text and reasoning of a delta or a message."""
        found: list[tuple[Kind, str]] = []
        reasoning = told.get("reasoning_content") or told.get("reasoning") or _detailed(told.get("reasoning_details"))
        if reasoning:
            found.append(("reasoning", as_text(reasoning)))
        content = told.get("content")
        if isinstance(content, str):
            found.append(("text", content))
        elif content:
            found += _parts(content)
        if told.get("refusal"):
            self._refused = True
            found.append(("text", as_text(told["refusal"])))
        return found


def _parts(content: Any) -> list[tuple[Kind, str]]:
    """Content in parts: text, and the thinking that Mistral sends between it."""
    found: list[tuple[Kind, str]] = []
    for part in map(as_object, as_list(content)):
        if part.get("type") == "thinking":
            thoughts = map(as_object, as_list(part.get("thinking")))
            found.extend([("reasoning", as_text(thought.get("text"))) for thought in thoughts])
        else:
            found.append(("text", as_text(part.get("text"))))
    return found


def _detailed(details: Any) -> str:
    """The reasoning that stands in its details alone."""
    if not details:
        return ""
    found = map(as_object, as_list(details))
    return "".join([as_text(detail.get("text")) or as_text(detail.get("summary")) for detail in found])
