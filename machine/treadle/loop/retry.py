"""Retrying failed attempts by the policy of the adapter that served them (Q6)."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio
from attrs import field, frozen

from ..hooks.points import REQUEST_ERROR, RequestFailure, Retry
from ..models.adapter import RetryPolicy
from ..words.events import RetryScheduled, RetryStarted
from ..words.failures import Failure

if TYPE_CHECKING:
    from ..hooks.scope import Disposer, Scope


def delay_of(policy: RetryPolicy, retries: int, failure: Failure, chance: float) -> float | None:
    """Seconds to wait before the next attempt, ``None`` when the failure is terminal (Q6).

    Args:
        policy: of the adapter that served the attempt.
        retries: how many retries the step has had.
        failure: what the attempt failed with.
        chance: a number from 0 to 1; 0.5 gives the middle of the jitter.
    """
    if retries >= policy.max_retries or (policy.kind == "normal" and failure.code not in policy.codes):
        return None
    asked = failure.retry_after
    if asked is not None and asked > policy.max_delay:
        return None
    backoff = min(policy.base_delay * 2.0 ** min(retries, 60), policy.max_delay)
    jittered = min(backoff * (1 + policy.jitter * (2 * chance - 1)), policy.max_delay)
    return max(jittered, asked) if asked is not None and asked >= 0 else jittered


@frozen(eq=False)
class Retries:
    """A listener of ``agent/request-error``. A scheduled wait is recorded, and ends at once with a cancel (Q6).

    Other listeners decide first: one that retries is followed, and only what they leave alone is retried here.

    Attributes:
        chance: gives the jitter, from 0 to 1.
    """

    chance: Callable[[], float] = field(default=random.random)

    async def __call__(self, failed: RequestFailure, proceed: Callable[[], Awaitable[Retry | None]]) -> Retry | None:
        """Wait and retry, or leave the failure terminal."""
        decided = await proceed()
        policy = failed.retry_policy
        if decided is not None or policy is None:
            return decided
        retries = len(failed.prior)
        delay = delay_of(policy, retries, failed.failure, self.chance())
        if delay is None:
            return None
        session = failed.agent.session
        session.append(RetryScheduled(failed.turn, failed.step, retries + 2, delay, failed.failure))
        await trio.sleep(delay)
        session.append(RetryStarted(failed.turn, failed.step, retries + 2))
        return Retry()


def install_retries(scope: Scope, retries: Retries | None = None) -> Disposer:
    """Retry failed attempts of the agents of a scope; a host does so unless told otherwise."""
    return scope.on(REQUEST_ERROR, retries or Retries())


DEFAULT_RETRIES = Retries()
"""What a host retries with unless told otherwise."""
