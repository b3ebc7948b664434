"""A model with a window, which counts what it is sent and refuses what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tests.invariants import check_pairing
from treadle import Answer, Failure, Message, ModelRequest, ScriptedModel
from treadle.extensions.compaction import estimate_tokens
from treadle.models import ModelInfo, Usage


def counted(messages: Iterable[Message], rate: float = 1.0) -> int:
    """Tokens by the model's own count."""
    return round(rate * sum([estimate_tokens(one) for one in messages])) + 50


class Windowed(ScriptedModel):
    """Answers as long as requests fit, and reports what they took; every request must be paired.

    Args:
        window: tokens that it takes.
        answer: makes the answer to a request of the agent's own.
        summary: makes a summary of what it is asked to sum up.
        rate: by how much its tokens are other than four bytes.
        told: whether it tells its window.
        reports: whether it tells what requests took.

    Attributes:
        refused: how many requests it refused, those for summaries with them.
        summed: the requests for summaries.
        asked: the requests of agents.
    """

    def __init__(
        self,
        window: int,
        answer: Callable[[ModelRequest], Any] = lambda _: "Done.",
        summary: Callable[[ModelRequest], Any] = lambda _: "They talked.",
        *,
        rate: float = 1.0,
        told: bool = True,
        reports: bool = True,
        **options: Any,
    ) -> None:
        info = ModelInfo(context_window=window if told else None)
        super().__init__(default=self._answer, info=info, **options)
        self.window = window
        self.refused = 0
        self.summed: list[ModelRequest] = []
        self.asked: list[ModelRequest] = []
        self._make, self._sum, self._rate, self._reports = answer, summary, rate, reports

    def _answer(self, request: ModelRequest) -> Any:
        check_pairing(request.messages)
        taken = counted(request.messages, self._rate)
        own = "You write the summary" not in request.messages[0].text
        if taken > self.window:
            self.refused += 1
            return Failure(f"{taken} tokens are more than {self.window}", "CONTEXT_WINDOW_EXCEEDED", 400)
        (self.asked if own else self.summed).append(request)
        made = self._make(request) if own else self._sum(request)
        made = Answer(made) if isinstance(made, str) else made
        if not isinstance(made, Answer) or not self._reports:
            return made
        said = counted([]) + len(msgspec.json.encode(made.text)) // 4
        return Answer(made.text, made.reasoning, made.calls, usage=Usage(input_tokens=taken, output_tokens=said))
