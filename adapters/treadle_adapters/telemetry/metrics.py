"""Metrics of live agents, by OpenTelemetry's API: those of the conventions, and our own beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

from treadle.extensions.usage import Prices
from treadle.models import TimedStream

from ..traces import attributes, names
from ..traces.spans import Link, Ref, Span, Value
from .outgoing import Outgoing

SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
"""Bounds that the conventions ask for, of attempts and calls."""
MORE_SECONDS = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6]
"""Those of whole invocations."""
TOKENS = tuple([name for _, name in attributes.USAGE])
_OF_ATTEMPT = (names.OPERATION, names.PROVIDER, names.MODEL)


class MetricsSink:
    """A sink that records metrics, in the thread behind the queue.

    Args:
        meter: makes the instruments.
        outgoing: where they are recorded.
        prices: by the model's name.
        each_chunk: whether the time between chunks is measured, each time.
    """

    def __init__(self, meter: Meter, outgoing: Outgoing, prices: Prices, *, each_chunk: bool = False) -> None:
        self._outgoing = outgoing
        self._prices = prices
        self._calls: dict[Ref, list[int]] = {}

        def seconds(name: str, what: str, bounds: list[float] = SECONDS) -> Histogram:
            return meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=bounds)

        self._inference = seconds("gen_ai.client.inference.duration", "An attempt, from the request to its end.")
        self._first = seconds("gen_ai.client.inference.time_to_first_chunk", "From the request to the first chunk.")
        self._between = seconds("gen_ai.client.inference.time_per_output_chunk", "From one chunk to the next.")
        self._each_chunk = each_chunk
        self._tool = seconds("gen_ai.execute_tool.duration", "A tool call.")
        self._invocation = seconds("gen_ai.invoke_agent.duration", "From a prompt to its turn's end.", MORE_SECONDS)
        self._inferences = meter.create_histogram(
            "gen_ai.invoke_agent.inference_calls", "{call}", "Attempts of a turn."
        )
        self._tools = meter.create_histogram("gen_ai.invoke_agent.tool_calls", "{call}", "Tool calls of a turn.")
        self._tokens = {
            name: meter.create_counter(
                f"gen_ai.client.inference.{name.removeprefix('gen_ai.')}", "{token}", "Tokens, as the provider reports."
            )
            for name in TOKENS
        }
        self._cost = meter.create_counter("treadle.cost", "1", "What attempts cost, in the currency of the prices.")
        self._turns = meter.create_counter("treadle.turns", "{turn}", "Turns, by the reason for which they ended.")
        self._retries = meter.create_counter("treadle.retries", "{attempt}", "Attempts that are made again.")
        self._claim = seconds("treadle.claim.duration", "From a message's acceptance to its turn's claim.")
        self._convergence = seconds("treadle.convergence.duration", "From a cancel to the end of its turn.")

    def begin(self, span: Span) -> None:
        """See ``Sink.begin``."""

    def end(self, span: Span) -> None:
        """See ``Sink.end``."""
        if span.kind == "chat" or span.kind == "execute_tool":
            self._calls.setdefault(span.root.ref, [0, 0])[span.kind == "execute_tool"] += 1
        elif span.kind != "invoke_agent":
            return
        calls = self._calls.pop(span.ref, (0, 0)) if span.kind == "invoke_agent" else (0, 0)
        self._outgoing.put(lambda: self._record(span, calls))

    def link(self, span: Span, link: Link) -> None:
        """See ``Sink.link``."""

    def note(self, span: Span, name: str, time: int, attributes: Mapping[str, Value]) -> None:  # noqa: ARG002 - the interface
        """See ``Sink.note``."""
        if name == "retry":
            told = {names.ERROR: attributes[names.ERROR]}
            self._outgoing.put(lambda: self._retries.add(1, told))

    def claimed(self, span: Span, waited: float) -> None:  # noqa: ARG002 - the interface
        """See ``Sink.claimed``."""
        self._outgoing.put(lambda: self._claim.record(waited))

    def converged(self, seconds: float) -> None:
        """A cancelled turn has come to rest, so long after the cancel."""
        self._outgoing.put(lambda: self._convergence.record(seconds))

    def _record(self, span: Span, calls: Sequence[int]) -> None:
        told = span.attributes
        match span.kind:
            case "chat":
                about = _some(told, _OF_ATTEMPT)
                self._inference.record(span.seconds, _failed(about, span))
                first = told.get(names.TIME_TO_FIRST_CHUNK)
                if isinstance(first, float):
                    self._first.record(first, about)
                if self._each_chunk and span.stream is not None:
                    self._gaps(span.stream, about)
                for name, counter in self._tokens.items():
                    count = told.get(name)
                    if isinstance(count, int):
                        counter.add(count, about)
                price = self._prices.get(str(told.get(names.MODEL)))
                if price is not None:
                    self._cost.add(price.of(attributes.usage_told(told)), about)
            case "execute_tool":
                self._tool.record(span.seconds, _failed(_some(told, (names.TOOL_NAME, names.TOOL_TYPE)), span))
            case _:
                about = _some(told, (names.AGENT_NAME,))
                self._invocation.record(span.seconds, _failed(about, span))
                self._inferences.record(calls[0], about)
                self._tools.record(calls[1], about)
                self._turns.add(1, about | {names.TURN_END: str(told.get(names.TURN_END))})

    def _gaps(self, stream: TimedStream, about: dict[str, Value]) -> None:
        times = [time for segment in stream.segments for time in segment.times]
        for before, after in pairwise(times):
            self._between.record(max(0, after - before) / 1000, about)


def gauges(meter: Meter, agents: Callable[[], Iterable[tuple[str, int]]]) -> None:
    """What is looked at when metrics are collected: agents by status, and the messages that wait.

    Args:
        meter: makes the instruments.
        agents: status and number of pending messages of each live agent; called from the collector's thread.
    """

    def count(_: CallbackOptions) -> Iterable[Observation]:
        counts = {"running": 0, "idle": 0}
        for status, _pending in agents():
            counts[status] += 1
        return [Observation(number, {"treadle.agent.status": status}) for status, number in counts.items()]

    def waiting(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(sum([pending for _, pending in agents()]))]

    meter.create_observable_gauge("treadle.agents", [count], "{agent}", "Live agents, by status.")
    meter.create_observable_gauge("treadle.inbox.length", [waiting], "{message}", "Messages that wait in inboxes.")


def _some(told: Mapping[str, Value], which: Iterable[str]) -> dict[str, Value]:
    return {name: told[name] for name in which if name in told}


def _failed(about: dict[str, Value], span: Span) -> dict[str, Value]:
    return about if span.error is None else about | {names.ERROR: span.error}
