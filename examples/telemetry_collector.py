"""Spans and metrics of an agent, sent to a collector.

    pip install 'treadle[telemetry]' opentelemetry-exporter-otlp-proto-http
    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 python telemetry_collector.py

Without that variable the collector is looked for at this address.
"""

import logging

import trio
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from treadle import AgentOptions, Answer, Call, Host, ScriptedModel, tool
from treadle.models import Usage
from treadle_adapters.telemetry import LogIds, Price, RecordContext, Telemetry

LOG = logging.getLogger("example")


@tool
async def weather(city: str) -> str:
    """Tell the weather."""
    LOG.info("asked for %s", city)  # this record bears the ids of the call's span
    return f"It is sunny in {city}."


async def main() -> None:
    resource = Resource.create({"service.name": "weather"})
    tracers = TracerProvider(resource=resource, id_generator=LogIds())
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource)

    handler = logging.StreamHandler()
    handler.addFilter(RecordContext())
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s [%(session)s, trace %(trace_id).8s]"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])

    prices = {"small": Price(input=0.25, output=2.0)}
    telemetry = Telemetry(tracer_provider=tracers, meter_provider=meters, prices=prices, agent_name="forecaster")
    answers = [
        Answer(calls=[Call("weather", {"city": "Oslo"})], usage=Usage(120, 9)),
        Answer("Sunny.", usage=Usage(150, 4)),
    ]
    async with Host() as host:
        telemetry.install(host)
        host.models.register("scripted", ScriptedModel(answers))
        host.tools.register(weather)
        options = AgentOptions(provider="scripted", model="small")
        agent = (await host.agents.create(session_id="forecast", agent_options=options)).agent
        agent.followup("What is the weather in Oslo?")
        await agent.when_idle()
    await trio.to_thread.run_sync(tracers.shutdown)
    await trio.to_thread.run_sync(meters.shutdown)
    print("dropped:", telemetry.dropped, "failed:", telemetry.failed)


trio.run(main)
