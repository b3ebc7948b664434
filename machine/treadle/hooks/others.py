"""Dispatch at points that are no point of the core: an extension makes its own, and asks whom a scope shows (H1, H3)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from .dispatch import Emit, Listener, Waterfall, emit, waterfall
from .scope import Scope

P = TypeVar("P")
R = TypeVar("R")
LOGGER = logging.getLogger("treadle")


def tell(scope: Scope, point: Emit[P], payload: P) -> None:
    """Tell whoever listens at a point of an extension's own in a scope; a failure is logged and starves nobody (H5)."""
    listeners = scope.heard[point]
    if listeners:
        emit(listeners, payload, _logged)


async def decide(scope: Scope, point: Waterfall[P, R], payload: P, default: Callable[[], Awaitable[R]]) -> R:
    """Let whoever listens at a point of an extension's own in a scope decide; ``default`` does where all pass on (H1).

    Raises:
        HookError: a listener returned something that the point does not take.
        Exception: whatever a listener raised.
    """
    answer: R = await waterfall(point, scope.heard[point], payload, default)
    return answer


def _logged(listener: Listener, error: BaseException) -> None:
    LOGGER.error("listener %s failed", listener.name, exc_info=error)
