"""A session with a sub-agent, seen in Phoenix as agents, models and tools with their tokens.

    pip install arize-phoenix 'treadle[telemetry]'
    PHOENIX_HOST=127.0.0.1 PHOENIX_TELEMETRY_ENABLED=false phoenix serve
    python telemetry_phoenix.py http://127.0.0.1:6006

It prints the ids of the traces. Content is sent, with what looks like a card's number taken out.
"""

import re
import sys
from collections.abc import AsyncIterator

import trio
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from treadle import Agent, AgentOptions, Answer, Call, Failure, Host, ModelRequest, ScriptedModel, subagent, tool
from treadle.models import BlockStart, Chunk, RetryPolicy, TextDelta, Usage
from treadle_adapters.telemetry import Content, LogIds, Telemetry

OPTIONS = AgentOptions(provider="openai", model="small")


@tool
async def search(what: str) -> str:
    """Search the handbook."""
    await trio.sleep(0.12)
    return f"On {what}: refunds take five days. Card 4111 1111 1111 1111."


@tool
def count(words: str) -> str:
    """Count words, in a worker thread."""
    return str(len(words.split()))


async def endless(_: ModelRequest) -> AsyncIterator[Chunk]:
    """Speaks until it is stopped."""
    yield BlockStart(0, "text")
    while True:
        yield TextDelta(0, "and ")
        await trio.sleep(0.05)


def play(request: ModelRequest) -> object:
    """A parent that delegates, fails once, and is stopped in its second turn; its sub-agent searches."""
    asked = len(request.messages)
    if request.session_id != "support":
        if asked == 1:
            return Answer(calls=[Call("search", {"what": "refunds"})], usage=Usage(80, 12))
        return Answer("Refunds take five days.", usage=Usage(140, 9))
    if asked == 1:
        calls = [Call("delegate", {"prompt": "How long do refunds take?"}), Call("count", {"words": "how long"})]
        return Answer("I ask a colleague.", calls=calls, usage=Usage(210, 30))
    if asked == 4:
        play.failed = not getattr(play, "failed", False)  # type: ignore[attr-defined]
        if play.failed:  # type: ignore[attr-defined]
            return Failure("overloaded", "SERVER")
        return Answer("Five days, says my colleague.", usage=Usage(260, 8, cache_read_tokens=200))
    return endless


async def converse(agent: Agent) -> None:
    """Two turns; the second is stopped."""
    agent.followup("When do I get my money back?")
    await agent.when_idle()
    agent.followup("Tell me more.")
    await trio.sleep(0.3)
    agent.cancel()
    await agent.when_idle()


async def main(address: str) -> None:
    tracers = TracerProvider(resource=Resource.create({"service.name": "support"}), id_generator=LogIds())
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
    content = Content(redact=lambda text: re.sub(r"(\d{4} ?){4}", "[card]", text))
    telemetry = Telemetry(tracer_provider=tracers, content=content, agent_name="support")
    async with Host() as host:
        telemetry.install(host)
        policy = RetryPolicy(base_delay=0.1)
        host.models.register("openai", ScriptedModel(default=play, retry_policy=policy))
        host.tools.register(search)
        host.tools.register(count)
        host.tools.register(subagent("delegate", "Ask a colleague."))
        handle = await host.agents.create(session_id="support", agent_options=OPTIONS)
        with tracers.get_tracer("example").start_as_current_span("a customer") as customer:
            await converse(handle.agent)
    await trio.to_thread.run_sync(tracers.shutdown)
    print(f"trace: {customer.get_span_context().trace_id:032x} dropped: {telemetry.dropped}")


trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:6006")
