"""The embedded model: it needs no key and no network, echoes, and can be put to work a little."""

from __future__ import annotations

import re
from collections.abc import Sequence

from treadle import Answer, AssistantMessage, Call, Message, ModelRequest, ScriptedModel, ToolResultMessage, UserMessage
from treadle.models import text_of

WORD_PACE = 0.03
"""Seconds per word, so that there is time to steer and to stop."""

_SUM = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:\+|and|plus|to)\s*(-?\d+(?:\.\d+)?)", re.IGNORECASE)
_COUNT = re.compile(r"\bcount\b.*?(\d+)", re.IGNORECASE)
_CLOCK = re.compile(r"\b(what|which|tell)\b.*\b(time|date|day)\b|\bclock\b", re.IGNORECASE)
_ADDS = re.compile(r"\+|\b(add|plus|sum)\b", re.IGNORECASE)
_WORD = re.compile(r"\s*\S+\s*?")
MOST = 2000
"""How far it counts."""

INTRODUCTION = """\
I am the embedded model: no key, no network, and no wits. I echo what you say. I can also add (try "2 + 3"), \
look at the clock ("what time is it") and count ("count to 60"): type while I count, or press Ctrl-C.
For a real model: treadle run --local, or --base-url URL --model NAME"""


def echo_model(pace: float = WORD_PACE) -> ScriptedModel:
    """Make the embedded model.

    Args:
        pace: seconds per word.
    """
    return ScriptedModel(default=answer_to, pace=pace)


def answer_to(request: ModelRequest) -> Answer:
    """What the embedded model answers to a history; a word is a token, when answers are bounded."""
    answer = _whole_answer(request)
    most = request.config.max_tokens
    words = _WORD.findall(answer.text)
    if most is None or len(words) <= most:
        return answer
    return Answer("".join(words[:most]), finish="max-tokens")


def _whole_answer(request: ModelRequest) -> Answer:
    news = _news(request.messages)
    results = [message.result for message in news if isinstance(message, ToolResultMessage)]
    said = [message.text for message in news if isinstance(message, UserMessage)]
    if results:
        told = " ".join([_told(text_of(result.content), failed=result.is_error) for result in results])
        return Answer(f"{told} And you said meanwhile: {' / '.join(said)}" if said else told)
    text = said[-1] if said else ""
    offered = {tool.name for tool in request.tools}
    terms = _SUM.search(text)
    if terms and _ADDS.search(text) and "add" in offered:
        return Answer("Let me add.", calls=(Call("add", {"a": _number(terms[1]), "b": _number(terms[2])}),))
    count = _COUNT.search(text)
    if count:
        numbers = [str(number) for number in range(1, min(int(count[1]), MOST) + 1)]
        return Answer(", ".join(numbers) + ".")
    if _CLOCK.search(text) and "now" in offered:
        return Answer("Let me look.", calls=(Call("now"),))
    echo = f"You said: {' / '.join(said)}" if said else "You said nothing."
    first = not any(isinstance(message, AssistantMessage) for message in request.messages)
    return Answer(f"{echo}\n\n{INTRODUCTION}" if first else echo)


def _news(messages: Sequence[Message]) -> list[Message]:
    """What came since the model spoke last."""
    news: list[Message] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            break
        news.insert(0, message)
    return news


def _told(result: str, *, failed: bool) -> str:
    return f"The tool failed: {result}" if failed else f"That gives {result}."


def _number(text: str) -> float | int:
    return float(text) if "." in text else int(text)
