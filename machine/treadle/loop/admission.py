"""Admission: from the claim to the decision to enter or reject the step (T1, T2, H7)."""

from __future__ import annotations

import msgspec
import trio

from ..errors import HookError
from ..hooks.dispatch import waterfall
from ..hooks.points import (
    PRE_STEP,
    PROMPT_SUBMIT,
    SYSTEM_PROMPT_ASSEMBLE,
    Allow,
    BlockPrompt,
    Enter,
    Prompt,
    PromptSubmission,
    Reject,
    StepProposal,
)
from ..kernel import inputs as i
from ..kernel.effects import Admit
from ..lossless import check_bytes, repair_text
from ..prompt.registry import fixed_prompt
from ..words.messages import UserMessage, check_batch, check_user_message
from ..words.signal import SignalSource
from .activity import Activity
from .prompt import assemble

_ALLOW = Allow()


async def run_admission(activity: Activity, operation: Admit) -> i.Outcome:
    """Let the prompt in, assemble the system prompt, and ask pre-step (T1).

    Returns:
        ``Entered`` or ``Refused``.

    Raises:
        HookError: a hook returned messages that cannot enter.
        Exception: whatever a hook or provider raised; it ends the turn (T9).
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    scope, batch = activity.agent.scope, operation.batch
    heard = scope.heard
    if heard[PROMPT_SUBMIT] and operation.prompt is not None:
        decided = await _submit(activity, operation, operation.prompt)
        if isinstance(decided, i.Refused):
            return decided
        batch = decided
    fixed: Prompt | None = scope.shown[fixed_prompt] if not heard[SYSTEM_PROMPT_ASSEMBLE] else None
    prompt = activity.requests.prompt = fixed if fixed is not None else await assemble(activity, operation)
    if prompt.contexts:
        batch = (*prompt.contexts, *batch)
    listeners = heard[PRE_STEP]
    if not listeners:
        return i.Entered(_checked(activity, operation, batch))

    async def default() -> Enter:
        return Enter(batch)

    payload = StepProposal(activity.agent, batch, operation.turn, operation.step, activity.signal)
    decision: Enter | Reject = await waterfall(PRE_STEP, listeners, payload, default)
    if isinstance(decision, Reject):
        return i.Refused()
    return i.Entered(_checked(activity, operation, decision.messages), decision.starts_request_series)


async def _submit(activity: Activity, operation: Admit, prompt: UserMessage) -> tuple[UserMessage, ...] | i.Refused:
    """Run prompt-submit for the claimed next-turn entry (H7, H10)."""

    async def default() -> Allow:
        return _ALLOW

    signal = SignalSource()
    payload = PromptSubmission(activity.agent, prompt, operation.turn, signal)
    listeners = activity.agent.scope.heard[PROMPT_SUBMIT]

    def stop() -> None:
        assert activity.facts.cause is not None
        signal.cancel(activity.facts.cause)

    activity.when_cancelled = stop
    try:
        decision: Allow | BlockPrompt = await waterfall(PROMPT_SUBMIT, listeners, payload, default)
    finally:
        activity.when_cancelled = None
    if isinstance(decision, BlockPrompt):
        companions = tuple([message for message in operation.batch if message.id != prompt.id])
        reason = repair_text(str(decision.reason))
        check_bytes(len(reason), "the reason for which a prompt is blocked")
        return i.Refused(reason, companions)
    if decision.content is None:
        contexts = decision.additional_contexts
        return (*operation.batch, *contexts) if contexts else operation.batch
    changed = check_user_message(msgspec.structs.replace(prompt, content=decision.content))
    batch = [changed if message.id == prompt.id else message for message in operation.batch]
    return (*batch, *decision.additional_contexts)


def _checked(activity: Activity, operation: Admit, messages: tuple[UserMessage, ...]) -> tuple[UserMessage, ...]:
    """Refuse a batch that would break identities (I1) or cannot be logged (S1)."""
    if messages is operation.batch:
        return messages
    claimed = {message.id for message in operation.batch}
    seen: set[str] = set()
    for message in messages:
        check_user_message(message)
        if message.id in seen or (message.id not in claimed and activity.facts.taken(message.id)):
            raise HookError(f"a hook entered message id {message.id!r} twice, or one that is taken (I1)")
        seen.add(message.id)
    check_batch(messages)
    return tuple(messages)
