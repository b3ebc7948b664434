"""Live agents: nothing is left open, nothing outside reaches them, and their context is handed on."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import trio
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.adapters.wires import MemoryTransport
from tests.telemetry.watching import afterwards, seen, watch, watched_host
from treadle import Agent, AgentOptions, Answer, Call, Host, ModelRequest, ScriptedModel, Signal, Tool, subagent, tool
from treadle.asyncio import Bridge
from treadle.hooks import PRE_STEP, TOOLS_POST_EXECUTE
from treadle.models import BlockStart, Chunk, Finish, Finished, TextDelta
from treadle_adapters.models.openai_chat import OpenAIChat
from treadle_adapters.telemetry import Telemetry, trace_headers, trace_meta

OPTIONS = AgentOptions(provider="p", model="m")


async def agent_on(host: Host, model: Any, *tools: Any, **more: Any) -> Agent:
    host.models.register("p", model)
    for each in tools:
        host.tools.register(each if isinstance(each, Tool) else tool(each))
    return (await host.agents.create(agent_options=OPTIONS, **more)).agent


async def ask(agent: Agent, text: str = "go") -> None:
    agent.followup(text)
    await agent.when_idle()


# --- cancels ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_after_two_thousand_random_cancels_no_span_is_left_open(autojump_clock: Any) -> None:
    """And what was seen is what the log tells."""
    chance = random.Random(18)
    given = watch(queue=1_000_000)

    async def stream(_: ModelRequest) -> AsyncIterator[Chunk]:
        await trio.sleep(chance.random() * 0.01)
        yield BlockStart(0, "text")
        for _number in range(3):
            await trio.sleep(chance.random() * 0.01)
            yield TextDelta(0, "x")
        yield Finished(Finish("stop"))

    async def work(seconds: float) -> str:
        """Take a while."""
        with trio.CancelScope(shield=chance.random() < 0.3):
            await trio.sleep(seconds)
        return "done"

    def play(_: ModelRequest) -> object:
        if chance.random() < 0.4:
            return Answer(
                calls=[Call("work", {"seconds": chance.random() * 0.02}) for _ in range(chance.randint(1, 3))]
            )
        return stream

    cancels = 0
    async with watched_host(given) as host:
        agent = await agent_on(host, ScriptedModel(default=play), work)
        while cancels < 2_000:
            agent.followup("go")
            await trio.sleep(chance.random() * 0.06)
            if chance.random() < 0.1:
                agent.steer("more")
            if agent.status == "running":
                agent.cancel(keep_inbox=chance.random() < 0.1)
                cancels += 1
            if chance.random() < 0.5:
                await agent.when_idle()
        await agent.when_idle()
        header, events = agent.session.header, list(agent.session.events)
    assert given.telemetry.dropped == 0
    assert seen(given.spans) == seen(afterwards(header, events).spans)
    assert len([span for span in given.spans if span.name == "convergence"]) > 1_000


async def test_an_agent_that_is_disposed_in_a_turn_leaves_no_span_open() -> None:
    given = watch()
    async with watched_host(given) as host:
        host.models.register("p", ScriptedModel(default=lambda _: _forever()))
        handle = await host.agents.create(agent_options=OPTIONS)
        handle.agent.followup("go")
        await trio.testing.wait_all_tasks_blocked()
        assert given.telemetry.open_spans == 4
        await handle.dispose()
        assert given.telemetry.open_spans == 0
    assert given.named("turn 1").attributes == {
        "gen_ai.conversation.id": handle.agent.id,
        "treadle.turn": 1,
        "treadle.turn.end": "aborted",
    }


async def _forever() -> AsyncIterator[Chunk]:
    await trio.sleep_forever()
    yield Finished(Finish("stop"))


# --- exporters --------------------------------------------------------------------------------------------------------


class Raising(SpanExporter):
    """Raises at every span."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise OSError("no collector")


class Blocking(SpanExporter):
    """Blocks at the first span until it is let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.reached = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.reached.set()
        self.go_on.wait(60)
        return SpanExportResult.SUCCESS


class Broken:
    """A span processor that is broken through and through."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("on_start")

    def on_end(self, span: Any) -> None:
        raise RuntimeError("on_end")

    def _on_ending(self, span: Any) -> None:
        return

    def shutdown(self) -> None:
        return

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True


async def test_an_exporter_that_raises_touches_no_agent() -> None:
    given = watch(Raising())
    async with watched_host(given) as host:
        agent = await agent_on(host, ScriptedModel(["yes"]))
        await ask(agent)
        assert agent.session.history()[-1].text == "yes"
    assert given.spans


async def test_a_processor_that_raises_in_the_agent_s_thread_touches_no_agent() -> None:
    provider = TracerProvider()
    provider.add_span_processor(Broken())  # type: ignore[arg-type]
    telemetry = Telemetry(tracer_provider=provider)
    async with Host() as host:
        telemetry.install(host)
        agent = await agent_on(host, ScriptedModel(["yes"]))
        await ask(agent)
        assert agent.session.history()[-1].text == "yes"
    assert telemetry.failed > 0
    assert telemetry.open_spans == 0


async def test_an_exporter_that_blocks_delays_no_agent_and_what_it_keeps_back_is_counted() -> None:
    exporter = Blocking()
    given = watch(exporter, queue=20, grace=0.05)
    async with watched_host(given) as host:
        agent = await agent_on(host, ScriptedModel(default=lambda _: "yes"))
        for _ in range(20):
            await ask(agent)
        assert given.telemetry.dropped >= 4 * 20 - 20 - 1 - 4
        assert not await given.telemetry.flush()
    given.telemetry.close()
    exporter.go_on.set()
    assert given.telemetry.dropped + len(given.spans) >= 4 * 20 - 4


async def test_a_flood_of_spans_is_dropped_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    exporter = Blocking()
    given = watch(exporter, queue=5, grace=0.05)
    async with watched_host(given) as host:
        agent = await agent_on(host, ScriptedModel(default=lambda _: "yes"))
        for _ in range(10):
            await ask(agent)
    exporter.go_on.set()
    given.telemetry.close()
    assert given.telemetry.dropped > 20
    assert len([one for one in caplog.records if one.name == "treadle.telemetry"]) == 1


async def test_a_redaction_that_raises_tells_nothing() -> None:
    from treadle_adapters.telemetry import Content

    def redact(text: str) -> str:
        raise ValueError(text)

    given = watch(content=Content(redact))
    async with watched_host(given) as host:
        await ask(await agent_on(host, ScriptedModel(["my secret"])), "the secret")
    assert "secret" not in repr([dict(span.attributes or {}) for span in given.spans])
    assert "withheld" in str((given.named("chat m").attributes or {})["gen_ai.output.messages"])


# --- context ----------------------------------------------------------------------------------------------------------


def parent_of(context: trace.SpanContext | None, span: ReadableSpan) -> bool:
    return context is not None and span.context is not None and context.span_id == span.context.span_id


async def test_tools_and_what_they_start_are_within_their_call() -> None:
    """Async ones, those in a worker thread, and tasks that they start."""
    found: dict[str, trace.SpanContext] = {}

    def note(name: str) -> None:
        found[name] = trace.get_current_span().get_span_context()

    async def waits() -> str:
        """Wait."""
        await trio.lowlevel.checkpoint()
        note("waits")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, note, "started")
        return "done"

    def computes() -> str:
        """Compute."""
        assert threading.current_thread() is not threading.main_thread()
        note("computes")
        return "done"

    given = watch()
    answers = [Answer(calls=[Call("waits", {}), Call("computes", {})]), "done"]
    async with watched_host(given) as host:
        host.on(PRE_STEP, lambda payload, proceed: (note("pre-step"), proceed())[1])
        host.on(TOOLS_POST_EXECUTE, lambda payload, proceed: (note("post-execute"), proceed())[1])
        await ask(await agent_on(host, ScriptedModel(answers), waits, computes))
        note("after")
    assert parent_of(found["waits"], given.named("execute_tool waits"))
    assert parent_of(found["started"], given.named("execute_tool waits"))
    assert parent_of(found["computes"], given.named("execute_tool computes"))
    assert not found["after"].is_valid
    assert not any([parent_of(found["post-execute"], span) for span in given.spans if span.name == "chat m"])


async def test_the_current_span_of_the_agent_s_code_is_never_one_that_has_ended() -> None:
    """An attempt is current while it streams, and its step is afterwards."""
    open_now: list[str] = []

    async def stream(_: ModelRequest) -> AsyncIterator[Chunk]:
        yield BlockStart(0, "text")
        trace.get_current_span().set_attribute("mine", "seen")
        yield TextDelta(0, "x")
        yield Finished(Finish("stop"))

    given = watch()
    async with watched_host(given) as host:
        agent = await agent_on(host, ScriptedModel([stream]))
        agent.hooks.on(
            "agent/turn-stopping", lambda payload: open_now.append(repr(trace.get_current_span().is_recording()))
        )
        agent.hooks.on("agent/turn-stopping", lambda payload: trace.get_current_span().set_attribute("late", True))
        await ask(agent)
    assert (given.named("chat m").attributes or {})["mine"] == "seen"
    assert "late" not in (given.named("chat m").attributes or {})
    assert (given.named("turn 1").attributes or {})["late"] is True
    assert open_now == ["True"]


async def test_a_thread_that_asks_for_the_current_span_does_not_read_the_log() -> None:
    """An adapter that works in a thread, as some do, while the agent goes on."""
    found: list[Any] = []

    async def stream(_: ModelRequest) -> AsyncIterator[Chunk]:
        found.append(await trio.to_thread.run_sync(lambda: trace.get_current_span().get_span_context()))
        yield BlockStart(0, "text")
        yield TextDelta(0, "x")
        yield Finished(Finish("stop"))

    given = watch()
    async with watched_host(given) as host:
        await ask(await agent_on(host, ScriptedModel([stream])))
    assert parent_of(found[0], given.named("chat m"))


@pytest.mark.parametrize("kind", ["headers", "meta"])
async def test_servers_are_told_the_span_that_asks_them(kind: str) -> None:
    """A model server by ``traceparent`` of its attempt, an MCP server by ``_meta`` of its call."""
    chunk = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    transport = MemoryTransport([chunk])
    asked: list[dict[str, Any]] = []

    async def search(what: str) -> str:
        """Ask an MCP server."""
        params = {"name": "search", "arguments": {"what": what}, "_meta": trace_meta()}
        asked.append({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        return "found"

    given = watch()
    async with watched_host(given) as host:
        if kind == "headers":
            model = OpenAIChat("http://provider.test/v1", transport=transport, attempt_headers=trace_headers)
            await ask(await agent_on(host, model))
            (sent,) = transport.requests
            told, span = sent.headers["traceparent"], "chat m"
        else:
            answers = [Answer(calls=[Call("search", {"what": "x"})]), "done"]
            await ask(await agent_on(host, ScriptedModel(answers), search))
            told, span = asked[0]["params"]["_meta"]["traceparent"], "execute_tool search"
    context = given.named(span).context
    assert context is not None
    assert told == f"00-{trace.format_trace_id(context.trace_id)}-{trace.format_span_id(context.span_id)}-01"


async def test_a_sub_agent_s_turn_stands_in_the_call_that_made_it() -> None:
    def play(request: ModelRequest) -> object:
        if request.session_id != "parent":
            return "done"
        return Answer(calls=[Call("delegate", {"prompt": "it"})]) if len(request.messages) == 1 else "all done"

    given = watch()
    async with watched_host(given) as host:
        agent = await agent_on(host, ScriptedModel(default=play), subagent("delegate"), session_id="parent")
        await ask(agent)
    call = given.named("execute_tool delegate")
    (child,) = [
        span
        for span in given.spans
        if span.name == "invoke_agent" and (span.attributes or {})["gen_ai.conversation.id"] != "parent"
    ]
    assert parent_of(child.parent, call)
    assert [dict(link.attributes or {}) for link in child.links] == [{"treadle.link": "subagent"}]
    assert parent_of(child.links[0].context, call)
    assert (child.attributes or {})["treadle.parent.session"] == "parent"
    assert {span.context.trace_id for span in given.spans if span.context} == {call.context.trace_id}  # type: ignore[union-attr]


async def test_a_turn_belongs_to_the_trace_of_who_sent_the_message() -> None:
    given = watch()
    outer = TracerProvider().get_tracer("the program's own")
    async with watched_host(given) as host:
        agent = await agent_on(host, ScriptedModel(["yes", "yes"]))
        with outer.start_as_current_span("a request") as request:
            await ask(agent)
        await ask(agent)
    first, second = [span for span in given.spans if span.name == "invoke_agent"]
    assert first.parent is not None
    assert first.parent.span_id == request.get_span_context().span_id
    assert second.parent is None


async def test_maintenance_has_a_span_of_its_own() -> None:
    given = watch()
    inside: list[bool] = []

    async def tidy(_: Signal) -> None:
        await trio.lowlevel.checkpoint()
        inside.append(trace.get_current_span().is_recording())

    async with watched_host(given) as host:
        agent = await agent_on(host, ScriptedModel([]))
        await agent.run_maintenance(tidy)
    assert inside == [True]
    assert given.named("maintenance").parent is None


async def test_a_cancel_is_noted_where_it_came() -> None:
    given = watch()
    async with watched_host(given) as host:
        agent = await agent_on(host, ScriptedModel(default=lambda _: _forever()))
        agent.followup("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel()
        await agent.when_idle()
    (event,) = given.named("turn 1").events
    assert (event.name, dict(event.attributes or {})) == ("cancel", {"treadle.cancel.cause": "user"})


async def test_agents_that_were_there_before_are_watched_from_their_next_turn_on() -> None:
    given = watch()
    async with Host() as host:
        agent = await agent_on(host, ScriptedModel(["one", "two", "three"]))
        await ask(agent)
        stop = given.telemetry.install(host)
        await ask(agent)
        stop()
        await ask(agent)
        await given.telemetry.flush()
    assert [span.name for span in given.spans if span.name.startswith("turn")] == ["turn 2"]


async def test_what_is_watched_no_longer_leaves_no_span_open() -> None:
    given = watch()
    async with Host() as host:
        stop = given.telemetry.install(host)
        agent = await agent_on(host, ScriptedModel(default=lambda _: _forever()))
        agent.followup("go")
        await trio.testing.wait_all_tasks_blocked()
        assert given.telemetry.open_spans == 4
        stop()
        assert given.telemetry.open_spans == 0
        agent.cancel()
        await agent.when_idle()
    assert given.telemetry.failed == 0


async def test_without_an_sdk_nothing_is_made() -> None:
    telemetry, before = Telemetry(), threading.active_count()
    async with Host() as host:
        telemetry.install(host)
        agent = await agent_on(host, ScriptedModel(["yes"]))
        await ask(agent)
    assert (telemetry.open_spans, telemetry.dropped, telemetry.failed) == (0, 0, 0)
    assert threading.active_count() <= before


async def test_content_is_told_only_where_somebody_asks_for_it() -> None:
    given = watch()
    async with watched_host(given) as host:
        await ask(await agent_on(host, ScriptedModel(["my answer"])), "my question")
    told = repr([(span.name, dict(span.attributes or {}), span.status.description) for span in given.spans])
    assert "my answer" not in told
    assert "my question" not in told


def test_a_processor_gets_the_spans_of_threads_that_end(recwarn: pytest.WarningsRecorder) -> None:
    """Two runs of trio, one after the other, share one telemetry."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    telemetry = Telemetry(tracer_provider=provider)

    async def run() -> None:
        async with Host() as host:
            telemetry.install(host)
            await ask(await agent_on(host, ScriptedModel(["yes"])))

    for _ in range(2):
        with contextlib.suppress(trio.Cancelled):
            trio.run(run)
    assert len([span for span in kept.get_finished_spans() if span.name == "turn 1"]) == 2
    assert not recwarn.list


def test_an_asyncio_program_s_spans_reach_over_the_bridge_and_back() -> None:
    """Who asks from asyncio is the root, and a tool that runs in asyncio is within its call."""
    given = watch()
    outer = TracerProvider().get_tracer("the program's own")
    found: list[trace.SpanContext] = []

    async def look() -> str:
        """Look."""
        await asyncio.sleep(0)
        found.append(trace.get_current_span().get_span_context())
        return "seen"

    async def program() -> trace.SpanContext:
        host = Host()
        given.telemetry.install(host)
        async with Bridge(host) as bridge:
            await bridge.models.register("p", ScriptedModel([Answer(calls=[Call("look", {})]), "done"]))
            await bridge.tools.register(bridge.tool(look))
            handle = await bridge.agents.create(agent_options=OPTIONS)
            with outer.start_as_current_span("a request") as request:
                await handle.agent.ask("go")
        return request.get_span_context()

    asked = asyncio.run(program())
    assert given.named("invoke_agent").parent is not None
    assert given.named("invoke_agent").parent.span_id == asked.span_id  # type: ignore[union-attr]
    assert parent_of(found[0], given.named("execute_tool look"))
    assert (given.telemetry.open_spans, given.telemetry.failed) == (0, 0)
