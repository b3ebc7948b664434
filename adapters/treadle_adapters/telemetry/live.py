"""Spans, metrics and logs of live agents, by listening to a host.

Nobody is told of single events. The log is read on when something has to be known: an attempt or a call begins, an
agent comes to rest. Times are those of the events, so nothing is lost by reading late, and a turn pays little for it.
What the log does not tell (maintenance, flushes, the moment of a cancel, who sent a message) is heard at its hook.

Whatever goes wrong in here is counted and told once; no agent notices (``Outgoing``).
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import Any

import trio
from attrs import define, field
from opentelemetry import context as otel
from opentelemetry import metrics, trace

import treadle
from treadle import Agent, Host
from treadle.extensions.usage import Prices
from treadle.hooks import (
    AGENT_CREATED,
    AGENT_DISPOSED,
    AGENT_STATUS,
    CANCEL_REQUESTED,
    INBOX_INSERTED,
    LLM_STREAM,
    MAINTENANCE,
    SESSION_FLUSH,
    TOOLS_EXECUTE,
    AgentCreation,
    AgentGone,
    AgentStatus,
    CancelRequest,
    Disposer,
    InboxInserted,
    MaintenanceMoment,
    SessionFlushing,
    StreamProposal,
    ToolProposal,
)
from treadle.models import Chunk
from treadle.session import wall_clock

from ..traces import names
from ..traces.attributes import tag_of
from ..traces.content import Content
from ..traces.fold import Fold
from ..traces.spans import SILENT, Link, Several, Sink, Span
from .current import Innermost, make_current, stop_being_current
from .logs import TURNS, WHERE, LogSink, Where
from .metrics import MetricsSink, gauges
from .outgoing import Outgoing
from .tracer import TracerSink, Tracing

MOST_SENDERS = 1_000
"""How many messages of an agent are remembered with the context that they were sent in."""
_CALL: ContextVar[Span | None] = ContextVar("treadle_call", default=None)
"""The call in which the running code is executed."""


@define(eq=False)
class Watched:
    """One agent that is watched.

    Attributes:
        agent: the agent.
        fold: its log as spans.
        senders: the contexts in which messages were sent, by id.
        innermost: stands for the innermost open span.
        moments: spans of what the log does not tell, while they are open.
        cancelled: when its turn was cancelled, in milliseconds since the epoch.
        deaf: whether nobody hears of its spans, so that none need be made.
        reading: whether the log is being read.
        thread: the thread that it lives in.
    """

    agent: Agent
    fold: Fold = field(init=False)
    senders: OrderedDict[str, otel.Context] = field(factory=OrderedDict[str, otel.Context])
    innermost: Innermost = field(init=False)
    moments: dict[object, Span] = field(factory=dict[object, Span])
    cancelled: int | None = None
    deaf: bool = False
    reading: bool = False
    thread: int = field(factory=threading.get_ident)

    def __attrs_post_init__(self) -> None:
        self.innermost = Innermost(self._innermost)

    def sender(self) -> otel.Context | None:
        """The context of who sent the prompt of the turn that begins."""
        return self.senders.pop(self.fold.prompt or "", None)

    def catch_up(self) -> None:
        """Take what was recorded since."""
        if self.deaf or self.reading:  # a span that is being started asks for the one around it
            return
        fold = self.fold
        self.reading = True
        try:
            for entry in self.agent.session.events[fold.taken :]:
                fold.take(entry)
        finally:
            self.reading = False

    def _innermost(self) -> trace.Span | None:
        if threading.get_ident() == self.thread:  # another one takes what is known: the log is the loop's
            self.catch_up()
        fold = self.fold
        span = fold.chat or fold.step or fold.turn or fold.root or self.moments.get("maintenance")
        return span.live if span is not None else None


class Telemetry:
    """Makes telemetry of the agents of hosts.

    Tracing, metrics and logs take place where somebody hears them: a provider of an SDK is given or was set globally, or
    a logger lets them pass, at the moment in which an agent is created. For nobody nothing is made.

    Args:
        tracer_provider: makes spans; the global one unless given.
        meter_provider: makes metrics; the global one unless given.
        content: whether and how what was said is told; not at all unless given.
        prices: of models, by name: ``treadle.cost`` is told for these.
        each_chunk: whether the time between an answer's chunks is measured: one measurement per chunk.
        agent_name: what agents are called: one name, or a function of the agent. Their preset unless given.
        logs: whether the loggers of ``telemetry.logs`` are told; where ``treadle.turn`` lets INFO pass, unless given.
        queue: how many ended spans and measurements may wait for exporters; more are dropped and counted.
        grace: seconds that the end of a host waits for what is queued.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        content: Content | None = None,
        prices: Prices | None = None,
        each_chunk: bool = False,
        agent_name: str | Callable[[Agent], str | None] | None = None,
        logs: bool | None = None,
        queue: int = 4_096,
        grace: float = 5.0,
    ) -> None:
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider
        self._content = content
        self._prices = dict(prices or {})
        self._each_chunk = each_chunk
        self._agent_name = agent_name
        self._logs = logs
        self._grace = grace
        self._outgoing = Outgoing(queue)
        self._tracing: Tracing | None = None
        self._metrics: MetricsSink | None = None
        self._watched: dict[Agent, Watched] = {}

    # --- what it tells of itself --------------------------------------------------------------------------------------

    @property
    def dropped(self) -> int:
        """Spans and measurements that were dropped, as too many waited for an exporter."""
        return self._outgoing.dropped

    @property
    def failed(self) -> int:
        """How often telemetry failed: an exporter raised, or a redaction, or something in here."""
        return self._outgoing.failed

    @property
    def open_spans(self) -> int:
        """Spans that have begun and not ended."""
        return self._tracing.open if self._tracing is not None else 0

    async def flush(self) -> bool:
        """Wait until what was queued is with the exporters, ``grace`` seconds at most; returns whether it is."""
        return await trio.to_thread.run_sync(self._outgoing.drain, self._grace, abandon_on_cancel=True)

    def close(self) -> None:
        """Take nothing more; what is still queued is dropped and counted."""
        self._outgoing.close()

    # --- listening ----------------------------------------------------------------------------------------------------

    def install(self, host: Host) -> Disposer:
        """Watch the agents of a host, those that it has and those that come; returns what ends that, and open spans.

        The end of the host waits for what is queued. Install it before other middleware, so that theirs runs within.
        """
        contained = self._contained
        disposers = [
            host.on(AGENT_CREATED, contained(self._created)),
            host.on(AGENT_STATUS, contained(self._status)),
            host.on(AGENT_DISPOSED, contained(self._disposed)),
            host.on(CANCEL_REQUESTED, contained(self._cancelled)),
            host.on(INBOX_INSERTED, contained(self._inserted)),
            host.on(MAINTENANCE, contained(self._maintenance)),
            host.on(LLM_STREAM, self._stream),
            host.on(TOOLS_EXECUTE, self._execute),
            host.scope.defer(self.flush),
        ]
        if host.store is not None:
            disposers.append(host.on(SESSION_FLUSH, contained(self._flush_begins)))
        for agent in host.agents.list():
            contained(self._of)(agent)

        def dispose() -> None:
            for each in disposers:
                each()
            for agent in host.agents.list():
                contained(self._let_go)(agent)

        return dispose

    def _contained(self, listener: Callable[[Any], object]) -> Callable[[Any], None]:
        def contain(payload: Any) -> None:
            try:
                listener(payload)
            except Exception as error:
                self._outgoing.told(error, "telemetry")

        return contain

    def _created(self, payload: AgentCreation) -> None:
        watched = self._of(payload.agent)
        made_in = _CALL.get()
        if made_in is not None and payload.agent.parent is not None:
            watched.fold.made_by = Link(made_in.ref, "subagent", made_in.root.ref)
        if payload.agent.scope.heard[SESSION_FLUSH]:
            payload.agent.scope.on(SESSION_FLUSH, self._contained(self._flush_ends))

    def _inserted(self, payload: InboxInserted) -> None:
        context = trace.get_current_span().get_span_context()
        if context.is_valid:  # as it is now: what stands for the innermost span will be another one
            senders = self._of(payload.agent).senders
            senders[payload.message.id] = trace.set_span_in_context(trace.NonRecordingSpan(context))
            if len(senders) > MOST_SENDERS:
                senders.popitem(last=False)

    def _status(self, payload: AgentStatus) -> None:
        if payload.status == "idle":
            watched = self._of(payload.agent)
            watched.catch_up()
            self._converged(watched)

    def _cancelled(self, payload: CancelRequest) -> None:
        watched = self._of(payload.agent)
        watched.catch_up()
        watched.cancelled = wall_clock()
        watched.fold.note("cancel", watched.cancelled, {names.CAUSE: tag_of(payload.cause)})

    def _converged(self, watched: Watched) -> None:
        ended = watched.fold.ended
        if watched.cancelled is not None and self._metrics is not None and ended is not None and ended.end is not None:
            self._metrics.converged(max(0, ended.end - watched.cancelled) / 1000)
        watched.cancelled = None

    def _disposed(self, payload: AgentGone) -> None:
        self._let_go(payload.agent)

    def _let_go(self, agent: Agent) -> None:
        """Watch an agent no longer; what is open ends now."""
        watched = self._watched.pop(agent, None)
        if watched is not None:
            watched.catch_up()
            watched.fold.cut()
            self._converged(watched)
            for span in watched.moments.values():
                watched.fold.over(span, wall_clock(), "interrupted")

    # --- what the log does not tell -----------------------------------------------------------------------------------

    def _maintenance(self, payload: MaintenanceMoment) -> None:
        watched = self._of(payload.agent)
        if payload.phase == "started":
            watched.catch_up()
            watched.moments["maintenance"] = watched.fold.moment("maintenance", wall_clock(), None)
            self._enter(watched, 0, 0)
        elif (span := watched.moments.pop("maintenance", None)) is not None:
            watched.fold.over(span, wall_clock())

    def _flush_begins(self, payload: SessionFlushing) -> None:
        watched = self._watched.get(payload.agent)
        if watched is not None:
            watched.catch_up()
            fold = watched.fold
            watched.moments[id(payload)] = fold.moment("flush", wall_clock(), fold.turn or fold.ended)

    def _flush_ends(self, payload: SessionFlushing) -> None:
        watched = self._watched.get(payload.agent)
        span = watched.moments.pop(id(payload), None) if watched is not None else None
        if watched is not None and span is not None:
            watched.fold.over(span, wall_clock())

    # --- attempts and calls: the context is handed on -----------------------------------------------------------------

    async def _stream(
        self, payload: StreamProposal, proceed: Callable[[], Awaitable[AsyncIterator[Chunk]]]
    ) -> AsyncIterator[Chunk]:
        stream = await proceed()
        try:
            watched = self._of(payload.agent)
            if not watched.deaf:
                watched.catch_up()
                watched.fold.attempt()
            self._enter(watched, payload.turn, payload.step)
        except Exception as error:
            self._outgoing.told(error, "telemetry")
        return stream

    async def _execute(self, payload: ToolProposal, proceed: Callable[[], Awaitable[Any]]) -> Any:
        span: Span | None = None
        try:
            watched = self._of(payload.agent)
            watched.catch_up()
            span = watched.fold.calls.get(payload.call.call_id)
        except Exception as error:
            self._outgoing.told(error, "telemetry")
        call = _CALL.set(span)
        where = WHERE.set(Where(payload.agent.id, payload.turn, payload.step))
        current = make_current(span.live) if span is not None and span.live is not None else None
        try:
            return await proceed()
        finally:
            if current is not None:
                stop_being_current(current)
            WHERE.reset(where)
            _CALL.reset(call)

    def _enter(self, watched: Watched, turn: int, step: int) -> None:
        """Have the agent's task know where it is; the task is the agent's own, so nothing has to be taken back."""
        WHERE.set(Where(watched.agent.id, turn, step))
        if self._tracing is not None and trace.get_current_span() is not watched.innermost:
            make_current(watched.innermost)

    # --- sinks --------------------------------------------------------------------------------------------------------

    def _of(self, agent: Agent) -> Watched:
        watched = self._watched.get(agent)
        if watched is None:
            watched = Watched(agent)
            name = self._agent_name(agent) if callable(self._agent_name) else self._agent_name
            sink = self._sinks(watched)
            watched.deaf = sink is SILENT
            watched.fold = Fold(agent.session.header, sink, self._content, name)
            if not watched.deaf:
                session = agent.session
                watched.fold.prime(session.held, session.base, session.surface)
            self._watched[agent] = watched
        return watched

    def _sinks(self, watched: Watched) -> Sink:
        sinks: list[Sink] = []
        tracers = self._tracer_provider or trace.get_tracer_provider()
        if _is_real(tracers):
            if self._tracing is None:
                self._tracing = Tracing(tracers.get_tracer(names.INSTRUMENTATION, treadle.__version__), self._outgoing)
            sinks.append(TracerSink(self._tracing, watched.sender))
        meters = self._meter_provider or metrics.get_meter_provider()
        if _is_real(meters):
            if self._metrics is None:
                meter = meters.get_meter(names.INSTRUMENTATION, treadle.__version__)
                self._metrics = MetricsSink(meter, self._outgoing, self._prices, each_chunk=self._each_chunk)
                gauges(meter, self._agents)
            sinks.append(self._metrics)
        if self._logs if self._logs is not None else TURNS.isEnabledFor(logging.INFO):
            sinks.append(LogSink())
        if not sinks:
            return SILENT
        return sinks[0] if len(sinks) == 1 else Several(tuple(sinks))

    def _agents(self) -> Iterable[tuple[str, int]]:
        inboxes = [(agent.status, agent.inbox) for agent in list(self._watched)]
        return [(status, len(inbox.next_turn) + len(inbox.next_step)) for status, inbox in inboxes]


def _is_real(provider: object) -> bool:
    """Whether it is an SDK's provider, and not what the API has where nobody set one."""
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
