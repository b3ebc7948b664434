"""Metrics: those of the conventions, and our own."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from treadle import AgentOptions, Answer, Call, Failure, Host, ScriptedModel, tool
from treadle.models import BlockEnd, BlockStart, Finish, Finished, RetryPolicy, TextDelta, Usage
from treadle_adapters.telemetry import Price, Telemetry

Points = dict[str, list[tuple[dict[str, Any], Any]]]


def read(reader: InMemoryMetricReader) -> Points:
    """Every point: its attributes, and its value, or count and sum of a histogram."""
    found: Points = {}
    data = reader.get_metrics_data()
    assert data is not None
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    value = (point.count, point.sum) if hasattr(point, "count") else point.value  # type: ignore[union-attr]
                    found.setdefault(metric.name, []).append((dict(point.attributes or {}), value))
    return found


async def measured(
    script: list[Any], *texts: str, prices: dict[str, Price] | None = None, inside: Any = None, **more: Any
) -> Points:
    reader = InMemoryMetricReader()
    telemetry = Telemetry(meter_provider=MeterProvider([reader]), prices=prices, **more)

    async def work() -> str:
        """Work."""
        return "worked"

    async with Host() as host:
        telemetry.install(host)
        host.models.register("p", ScriptedModel(script, retry_policy=RetryPolicy(base_delay=0.0)))
        host.tools.register(tool(work))
        agent = (await host.agents.create(agent_options=AgentOptions(provider="p", model="m"))).agent
        for text in texts:
            agent.followup(text)
        if inside is not None:
            await inside(agent)
        await agent.when_idle()
        await telemetry.flush()
        found = read(reader)
    assert telemetry.failed == 0
    return found


async def test_turns_attempts_calls_and_tokens_are_measured() -> None:
    found = await measured(
        [Answer(calls=[Call("work", {})], usage=Usage(100, 7)), Answer("done", usage=Usage(120, 3))], "go"
    )
    about = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "p", "gen_ai.request.model": "m"}
    ((attributes, (count, _)),) = found["gen_ai.client.inference.duration"]
    assert (attributes, count) == (about, 2)
    assert found["gen_ai.client.inference.usage.input_tokens"] == [(about, 220)]
    assert found["gen_ai.client.inference.usage.output_tokens"] == [(about, 10)]
    assert "gen_ai.client.inference.usage.cache_read.input_tokens" not in found, "what was not reported is absent"
    assert found["gen_ai.client.inference.time_to_first_chunk"][0][1][0] == 2
    assert found["gen_ai.execute_tool.duration"][0][0] == {"gen_ai.tool.name": "work", "gen_ai.tool.type": "function"}
    assert found["gen_ai.invoke_agent.duration"][0][1][0] == 1
    assert found["gen_ai.invoke_agent.inference_calls"] == [({}, (1, 2))]
    assert found["gen_ai.invoke_agent.tool_calls"] == [({}, (1, 1))]
    assert found["treadle.turns"] == [({"treadle.turn.end": "completed"}, 1)]
    assert found["treadle.claim.duration"][0][1][0] == 1


async def test_failures_and_retries_are_counted_by_their_code() -> None:
    found = await measured([Failure("no", "SERVER"), "done"], "go")
    assert found["treadle.retries"] == [({"error.type": "SERVER"}, 1)]
    codes = [attributes.get("error.type") for attributes, _ in found["gen_ai.client.inference.duration"]]
    assert set(codes) == {None, "SERVER"}


async def test_a_cancel_s_way_to_rest_is_measured_from_the_cancel_on(autojump_clock: Any) -> None:
    async def stop(agent: Any) -> None:
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel()

    async def forever(_: Any) -> Any:
        await trio.sleep_forever()
        yield None

    found = await measured([forever], "go", inside=stop)
    ((_, (count, seconds)),) = found["treadle.convergence.duration"]
    assert count == 1
    assert 0 <= seconds < 60
    assert found["treadle.turns"] == [({"treadle.turn.end": "aborted"}, 1)]


async def test_agents_and_what_waits_are_looked_at_when_metrics_are_collected() -> None:
    async def before(agent: Any) -> None:
        agent.inbox.append("next-turn", "later")

    found = await measured(["done", "done"], "go", inside=before)
    assert sorted(found["treadle.agents"], key=repr) == [
        ({"treadle.agent.status": "idle"}, 1),
        ({"treadle.agent.status": "running"}, 0),
    ]
    assert [value for _, value in found["treadle.inbox.length"]] in ([0], [1])


async def test_cost_is_told_where_the_price_is_known() -> None:
    script = [Answer("done", usage=Usage(1_000_000, 1_000_000, cache_read_tokens=400_000))]
    found = await measured(script, "go", prices={"m": Price(2.0, 10.0, cache_read=0.5)})
    assert [value for _, value in found["treadle.cost"]] == [pytest.approx(0.6 * 2 + 0.4 * 0.5 + 10)]
    assert "treadle.cost" not in await measured([Answer("done", usage=Usage(1, 1))], "go")


def test_a_price_without_those_of_caches_takes_all_input_alike() -> None:
    used = Usage(input_tokens=1_000_000, cache_read_tokens=500_000, output_tokens=0)
    assert Price(3.0, 0.0).of(used) == pytest.approx(3.0)


async def test_the_time_between_chunks_is_measured_only_when_asked_for() -> None:
    said = [BlockStart(0, "text"), TextDelta(0, "one "), TextDelta(0, "two"), BlockEnd(0), Finished(Finish("stop"))]
    found = await measured([said], "go", each_chunk=True)
    assert found["gen_ai.client.inference.time_per_output_chunk"][0][1][0] == len(said) - 1
    assert "gen_ai.client.inference.time_per_output_chunk" not in await measured([said], "go")
