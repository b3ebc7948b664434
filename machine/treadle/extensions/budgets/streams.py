"""An answer as it comes, held to what may still be spent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import trio

from ...models import ArgumentsDelta, Chunk, ReasoningDelta, TextDelta, UsageReport
from .accounts import Asking

LOOK_EVERY = 16
"""Tokens of an answer between two looks at the budgets."""


async def held(
    stream: AsyncIterator[Chunk],
    asking: Asking,
    tokens: Callable[[int], int],
    check: Callable[[], None],
    deadline: float,
    late: Callable[[], Exception],
) -> AsyncGenerator[Chunk]:
    """Pass an answer on until it goes beyond a budget.

    Args:
        stream: the answer.
        asking: its request, whose tokens are counted here.
        tokens: how many tokens so many characters are estimated to be.
        check: raises once a budget is exceeded.
        deadline: when the time is over, by trio's clock.
        late: what is raised then.

    Raises:
        BudgetReached: it goes beyond a budget.
    """
    size, looked = 0, -LOOK_EVERY
    try:
        while True:
            chunk: Any = None
            if deadline == float("inf"):
                chunk = await anext(stream, None)
            else:
                with trio.move_on_at(deadline) as scope:
                    chunk = await anext(stream, None)
                if scope.cancelled_caught:
                    raise late()
            if chunk is None:
                return
            if isinstance(chunk, (TextDelta, ReasoningDelta, ArgumentsDelta)):
                size += len(chunk.text)
                asking.output = max(asking.output, tokens(size))
            elif isinstance(chunk, UsageReport) and chunk.usage.output_tokens is not None:
                asking.output = chunk.usage.output_tokens
            if asking.output >= looked + LOOK_EVERY:
                looked = asking.output
                check()
            yield chunk
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
