"""One provider attempt: streaming, assembling, and what is left of it when it ends early.

How it works. The stream is read into a ``Recorder`` as it comes; nothing is assembled before it ends, so that a delta
costs two appends. An attempt can end in three ways, and gives one fact in each once a provider was asked: the stream
came to its finish (``completed``: a message, or a recorded failure that recovery is asked about), a cancel cut it off
(``cut_off``: what had arrived by then), or something that is not the provider's broke it (``abandon``, and the error
ends the turn).

A cancel counts as of its own moment, not as of when the adapter lets go: inside the call of the cancel the recorder
notes how far it is (``freeze``), a shielded adapter may go on delivering, and what came later is dropped before the
rest is read (``thaw_into_past``). So the log says the same whether an adapter stops at once or after a minute.

The failures of the adapter and of middleware around it reach the loop through the same stream. Only the adapter's are
the provider's; ``_adapter_stream`` notes them, for recovery to be asked about no others (Q5, Q9, C5, N4, H6).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import trio

from ..containment import leaving_in, without_cancelled
from ..hooks.dispatch import waterfall
from ..hooks.points import ASSISTANT_STREAM, LLM_STREAM, StreamProposal
from ..ids import new_id
from ..kernel import inputs as i
from ..kernel.effects import Request
from ..models.adapter import ModelRequest
from ..models.assembly import MalformedStream, Recorder, is_blank
from ..models.bounds import CHUNK, BoundExceeded
from ..models.routes import PreparedCall
from ..words.events import AssistantAttempt, AssistantMessageAdded
from ..words.failures import Code, Failure, ModelFailure, clean_failure, failure_of
from ..words.messages import AssistantMessage, Block, ToolCall
from ..words.stream import Chunk, Finish, Finished
from .activity import Activity
from .attempt_frames import Frames
from .request_state import RequestState

YIELD_EVERY = 0.02
"""Seconds of streaming without a pause after which other tasks get their turn."""

_BLOCKED = {"content-filter", "refusal"}


async def run_attempt(
    activity: Activity, state: RequestState, call: PreparedCall, operation: Request
) -> i.Answered | i.AttemptFailed | i.Interrupted:
    """Make one attempt and have its stream recorded.

    An attempt that a cancel cuts off is recorded as of the moment of the cancel; what a shielded adapter delivers
    later is dropped (C5, N4).
    """
    state.revision += 1
    run = Attempt(activity, state, call, operation)
    request = run.request()
    activity.when_cancelled = run.recorder.freeze
    if activity.agent.scope.heard[ASSISTANT_STREAM]:
        run.frames = Frames(activity, run.id, state.revision)
    error: BaseException | None = None
    try:
        if run.frames is not None:
            run.frames.start(operation.turn, operation.step)
            await trio.lowlevel.checkpoint_if_cancelled()
        await run.play(request)
    except BaseException as raised:
        error = raised
    finally:
        activity.when_cancelled = None
    if activity.cancelled:
        return run.cut_off(error)
    if error is not None and run.recorder.finish is not None and leaving_in(error) is None:
        if not _is_closing(error):
            activity.outbox.report(error, "closing the model's stream")
        error = None
    if error is not None and (not isinstance(error, Exception) or run.is_of_a_hook(error)):
        run.abandon(failure_of(error))
        raise error
    return run.completed(error)


class Attempt:
    """The parts of one attempt."""

    __slots__ = (
        "activity",
        "adapter_error",
        "begun",
        "call",
        "frames",
        "hooked",
        "id",
        "inner",
        "operation",
        "recorder",
        "started",
        "state",
    )

    def __init__(self, activity: Activity, state: RequestState, call: PreparedCall, operation: Request) -> None:
        self.activity = activity
        self.state = state
        self.call = call
        self.operation = operation
        self.id = new_id()
        self.recorder = Recorder(bounds=activity.agent.options.bounds)
        self.frames: Frames | None = None
        self.started = False
        self.hooked = False
        self.begun = False
        self.adapter_error: BaseException | None = None
        self.inner: AsyncIterator[Chunk] | None = None

    # --- streaming ----------------------------------------------------------------------------------------------------

    def request(self) -> ModelRequest:
        """The attempt's request, rebuilt from the log and compared when checks are on (Q1, N1)."""
        session = self.activity.agent.session
        request = ModelRequest(
            self.call.config,
            session.history(),
            self.state.prompt.tools,
            self.id,
            session.header.id,
            self.activity.signal,
            self.recorder.bounds,
        )
        if session.checks is not None:
            session.checks.check_request(request)
        return request

    async def play(self, request: ModelRequest) -> None:
        """Stream until the finish, into the recorder."""
        stream = await self._open(request)
        self.started = True
        try:
            await self._pump(stream)
        finally:
            try:
                await close_stream(stream)
            finally:
                if self.inner is not None and self.inner is not stream:
                    await close_stream(self.inner)  # middleware need not have closed what it was given
        self.recorder.check_size()

    async def _open(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        activity, operation = self.activity, self.operation
        listeners = activity.agent.scope.heard[LLM_STREAM]
        if not listeners:
            return self.call.adapter.stream(request)

        self.hooked = True
        given: list[AsyncIterator[Chunk]] = []

        async def default() -> AsyncIterator[Chunk]:
            self.inner = self._adapter_stream(request)
            given.append(self.inner)
            return self.inner

        payload = StreamProposal(activity.agent, request, operation.turn, operation.step, activity.signal)
        stream: AsyncIterator[Chunk] = await waterfall(LLM_STREAM, listeners, payload, default)
        if self.begun or not given or stream is not given[-1]:
            return stream
        # Nobody stands between or has looked into it: no failure needs telling apart.
        self.hooked = False
        self.inner = None
        return self.call.adapter.stream(request)

    async def _adapter_stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """The adapter's stream as middleware sees it; its own failures are told from those of the middleware (H6)."""
        self.begun = True
        try:
            stream = self.call.adapter.stream(request)
            try:
                async for chunk in stream:
                    yield chunk
            finally:
                await close_stream(stream)
        except BaseException as error:
            self.adapter_error = error
            raise

    async def _pump(self, stream: AsyncIterator[Any]) -> None:
        """The hot loop: a delta of the open run costs two appends, and where frames are told, a look at the bound (X3)."""
        recorder, frames, clock = self.recorder, self.frames, time.time
        paused = clock()
        due = paused + YIELD_EVERY
        latest = trio.current_time() + recorder.bounds.seconds
        delta, index, add_text, add_time = None, recorder.index, recorder.texts.append, recorder.times.append
        room = 0
        async for chunk in stream:
            now = clock()
            if type(chunk) is delta and chunk.index == index:
                add_text(chunk.text)
                add_time(now)
                if frames is not None:
                    room -= len(chunk.text) + CHUNK
                    if room < 0:
                        recorder.check_size()
                    if recorder.frozen is None:
                        frames.chunk(chunk, now)
            else:
                recorder.add(chunk, now)
                if (delta := recorder.delta) is not None:
                    index, add_text, add_time = recorder.index, recorder.texts.append, recorder.times.append
                if frames is not None:
                    recorder.check_size()
                    room = recorder.room
                    if recorder.frozen is None:
                        frames.chunk(chunk, now)
                if type(chunk) is Finished:
                    return
            if not paused <= now < due:
                recorder.check_size()
                await trio.lowlevel.checkpoint()
                if trio.current_time() > latest:
                    raise recorder.bounds.too_slow()
                paused = clock()
                due = paused + YIELD_EVERY

    # --- how it ended -------------------------------------------------------------------------------------------------

    def is_of_a_hook(self, error: BaseException) -> bool:
        """Whether middleware raised it: recovery is for failures of the provider only (H6)."""
        return (
            self.hooked and error is not self.adapter_error and not isinstance(error, (MalformedStream, BoundExceeded))
        )

    def abandon(self, failure: Failure | None = None) -> None:
        """Something else than the provider ended the attempt: record it if a provider call was started (C5).

        Without a failure it was a cancel.
        """
        if self.started:
            self.settle_attempt(failure)
        elif self.frames is not None:
            self.frames.abandoned()

    def completed(self, error: BaseException | None) -> i.Answered | i.AttemptFailed:
        """The stream ended by itself, or the attempt failed (Q5)."""
        failure = failure_of(error) if error is not None else self._failure()
        if failure is None:
            try:
                return self._answered()
            except ModelFailure as refused:
                failure, error = refused.failure, refused
        self.settle_attempt(failure)
        return i.AttemptFailed(failure, error)

    def _failure(self) -> Failure | None:
        finish = self.recorder.finish
        if finish is None:
            return Failure(
                "the model's stream ended without a finish: the answer is truncated", Code.STREAM_CLOSED.value
            )
        if finish.kind == "error" or finish.kind == "aborted":
            code = Code.ABORTED if finish.kind == "aborted" else Code.UNKNOWN
            if finish.failure is not None:
                return clean_failure(finish.failure)
            return Failure(finish.detail or f"the model finished with {finish.kind}", code.value)
        if finish.kind in _BLOCKED:
            detail = f": {finish.detail}" if finish.detail else ""
            return Failure(f"the provider withheld the answer ({finish.kind}{detail})", Code.CONTENT_FILTER.value)
        return None

    def _answered(self) -> i.Answered:
        recorder = self.recorder
        finish = recorder.finish
        assert finish is not None
        truncated = finish.kind == "max-tokens"
        content = recorder.blocks(calls=not truncated)
        calls: tuple[ToolCall, ...] = ()
        if recorder.calls:
            content = self._identified(content)
            calls = tuple([block for block in content if type(block) is ToolCall])
        if not content and not truncated:
            raise ModelFailure(Failure("the model answered with nothing", Code.EMPTY_RESPONSE.value))
        fact = AssistantMessageAdded(
            AssistantMessage(content, self.call.adapter.name, recorder.finish_replay),
            self.id,
            finish,
            recorder.usage,
            False,
            recorder.stream(),
        )
        self._end_frame(fact)
        return i.Answered(fact, calls, truncated)

    def _identified(self, content: tuple[Block, ...]) -> tuple[Block, ...]:
        """Give missing or repeated call ids a unique one before anything is stored (K3)."""
        taken = self.activity.agent.session.call_ids
        seen: set[str] = set()
        out: list[Block] = []
        for given in content:
            block = given
            if type(block) is ToolCall:
                if not block.call_id or block.call_id in seen or block.call_id in taken or len(block.call_id) > 256:
                    block = msgspec.structs.replace(block, call_id=f"call_{new_id()}")
                seen.add(block.call_id)
            out.append(block)
        return tuple(out)

    def cut_off(self, error: BaseException | None) -> i.Answered | i.AttemptFailed | i.Interrupted:
        """A cancel arrived during the attempt: it counts as of that moment (C5)."""
        recorder = self.recorder
        recorder.thaw_into_past()
        recorder.trim()
        if recorder.finish is not None and self._failure() is None:
            try:
                return self._answered()
            except ModelFailure:
                pass
        if self.started:
            self._settle_cut()
        else:
            self.abandon()
        real = _unexpected(error)
        if real is not None:
            raise real
        return i.Interrupted()

    def _settle_cut(self) -> None:
        recorder = self.recorder
        content = recorder.blocks(calls=False)
        if recorder.finish is None and content and not is_blank(content):
            fact = AssistantMessageAdded(
                AssistantMessage(content, self.call.adapter.name),
                self.id,
                None,
                recorder.usage,
                True,
                recorder.stream(),
            )
            self._record(fact)
        else:
            self.settle_attempt(None)

    def settle_attempt(self, failure: Failure | None) -> None:
        """Record an attempt that gave no message (Q9)."""
        recorder = self.recorder
        recorder.trim()
        finish = recorder.finish
        if failure is not None and (finish is None or finish.failure is None):
            finish = Finish("error" if finish is None else finish.kind, failure, finish.detail if finish else None)
        self._record(
            AssistantAttempt(self.id, finish, recorder.usage, failure is None and finish is None, recorder.stream())
        )

    def _record(self, fact: AssistantAttempt | AssistantMessageAdded) -> None:
        self._end_frame(fact)
        self.activity.feed(i.AttemptRecorded(fact))

    def _end_frame(self, fact: AssistantAttempt | AssistantMessageAdded) -> None:
        """Queue the end frame so that it follows the event that commits the stream."""
        if self.frames is not None:
            tag = "assistant/message" if isinstance(fact, AssistantMessageAdded) else "assistant/attempt"
            self.frames.committed(tag, self.recorder.chunks)


async def close_stream(stream: AsyncIterator[Chunk]) -> None:
    """Close a stream that can be closed; an exhausted one takes no harm."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


def _is_closing(error: BaseException) -> bool:
    """Whether it is what closed a generator: one that yields inside a nursery makes a group of that."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_closing, error.exceptions))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return isinstance(error, GeneratorExit)


def _unexpected(error: BaseException | None) -> BaseException | None:
    """What an attempt that was being cancelled raised besides cancellation and the failures that follow from it."""
    real = without_cancelled(error) if error is not None else None
    return None if isinstance(real, ModelFailure) else real
