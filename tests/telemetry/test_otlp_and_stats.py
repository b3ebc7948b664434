"""What is made of logs after the fact: OTLP/JSON, and figures."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import trio
from trio.testing import MockClock

from treadle import AgentOptions, Answer, Call, Event, Host, ScriptedModel, SessionHeader, subagent
from treadle.hooks import AGENT_CREATED
from treadle.models import Usage
from treadle.session import TurnEnd
from treadle_adapters.traces import Family, OtlpWriter, Stats, replay, stats_of
from treadle_adapters.traces.stats import Times
from treadle_specs.rig.scripts import SCRIPTS, record

Log = tuple[SessionHeader, list[Event]]


def written(*logs: Log) -> list[dict[str, Any]]:
    """The spans that are written of logs."""
    lines: list[bytes] = []
    writer = OtlpWriter(lines.append)
    family = Family(logs)
    for header, events in logs:
        replay(header, events, writer, made_by=family.made_by(header))
    writer.flush()
    requests = [json.loads(line) for line in lines]
    spans = [span for one in requests for span in one["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert len(spans) == writer.written
    return spans


def test_a_request_is_otlp_json() -> None:
    """Ids as hexadecimal text, times and whole numbers as text, enums as numbers."""
    lines: list[bytes] = []
    writer = OtlpWriter(lines.append, "my service")
    replay(*record(SCRIPTS["reasoning-and-usage"]), writer)
    assert lines == [], "a request holds many spans"
    writer.flush()
    (request,) = [json.loads(line) for line in lines]
    (resource,) = request["resourceSpans"]
    assert resource["resource"] == {"attributes": [{"key": "service.name", "value": {"stringValue": "my service"}}]}
    (chat,) = [span for span in resource["scopeSpans"][0]["spans"] if span["name"].startswith("chat")]
    assert (len(chat["traceId"]), len(chat["spanId"]), len(chat["parentSpanId"]), chat["kind"]) == (32, 16, 16, 3)
    assert chat["startTimeUnixNano"].isdecimal()
    assert {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "12"}} in chat["attributes"]
    assert {"key": "gen_ai.usage.reasoning.output_tokens", "value": {"intValue": "3"}} in chat["attributes"]
    reasons = {"arrayValue": {"values": [{"stringValue": "stop"}]}}
    assert {"key": "gen_ai.response.finish_reasons", "value": reasons} in chat["attributes"]


def test_writing_a_log_twice_gives_the_same_spans() -> None:
    log = record(SCRIPTS["parallel-tools"])
    assert written(log) == written(log)
    ids = [span["spanId"] for span in written(log)]
    assert len(set(ids)) == len(ids)


def test_sessions_that_bear_one_id_have_spans_of_their_own() -> None:
    header, events = record(SCRIPTS["one-tool"])
    later = [msgspec.structs.replace(entry, time=entry.time + 1) for entry in events]
    ids = [span["spanId"] for span in written((header, events), (header, later))]
    assert len(set(ids)) == len(ids)


def test_each_turn_is_a_trace() -> None:
    header, events = record(SCRIPTS["queued-messages"])
    turns = [entry for entry in events if isinstance(entry.data, TurnEnd)]
    assert len({span["traceId"] for span in written((header, events))}) == len(turns) > 1


def test_what_failed_is_an_error_and_a_retry_is_an_event() -> None:
    spans = written(record(SCRIPTS["retried-attempts"]))
    codes = [span.get("status", {}).get("message") for span in spans if span["name"].startswith("chat")]
    assert codes == ["SERVER", "TRANSPORT", None]
    (step,) = [span for span in spans if span["name"] == "step 1"]
    assert [event["name"] for event in step["events"]] == ["retry", "retry"]


def delegated() -> list[Log]:
    """The logs of a parent and its sub-agent."""

    def play(request: Any) -> object:
        if request.session_id != "parent":
            return Answer("done", usage=Usage(5, 2))
        return Answer(calls=[Call("delegate", {"prompt": "it"})]) if len(request.messages) == 1 else "all done"

    async def run() -> list[Log]:
        made: list[Any] = []
        async with Host() as host:
            host.on(AGENT_CREATED, lambda told: made.append(told.agent.session))
            host.models.register("p", ScriptedModel(default=play))
            host.tools.register(subagent("delegate"))
            options = AgentOptions(provider="p", model="m")
            agent = (await host.agents.create(session_id="parent", agent_options=options)).agent
            agent.followup("go")
            await agent.when_idle()
        return [(session.header, list(session.events)) for session in made]

    return trio.run(run, clock=MockClock(autojump_threshold=0))


def test_with_both_logs_a_sub_agent_s_turn_stands_in_the_call_that_made_it() -> None:
    parent, child = delegated()
    spans = written(parent, child)
    (call,) = [span for span in spans if span["name"] == "execute_tool delegate"]
    inner = [span for span in spans if span.get("parentSpanId") == call["spanId"]]
    assert [span["name"] for span in inner] == ["invoke_agent"]
    assert inner[0]["links"][0]["spanId"] == call["spanId"]
    assert {span["traceId"] for span in spans} == {call["traceId"]}
    alone = [span for span in written(child) if span["name"] == "invoke_agent"]
    assert "parentSpanId" not in alone[0]
    assert "links" not in alone[0]


def test_of_several_calls_at_once_none_is_guessed() -> None:
    parent, child = delegated()
    header, events = parent
    call = next(index for index, entry in enumerate(events) if entry.type == "tool/call")
    twice = msgspec.structs.replace(
        events[call], data=msgspec.structs.replace(events[call].data, call_id="another"), seq=len(events)
    )
    family = Family([(header, [*events[: call + 1], twice, *events[call + 1 :]]), child])
    assert family.made_by(child[0]) is None
    assert family.made_by(header) is None


# --- figures ----------------------------------------------------------------------------------------------------------


def test_figures_are_those_of_the_logs() -> None:
    found = stats_of([record(SCRIPTS[name]) for name in ("retried-attempts", "failing-tools", "cancel-in-a-tool")])
    model = found.models["scripted-1"]
    assert (found.sessions, model.attempts, model.retries, dict(model.failures)) == (
        3,
        7,
        2,
        {"SERVER": 1, "TRANSPORT": 1},
    )
    assert found.tools["look"].calls == 4
    assert found.tools["look"].cancelled == 1
    assert found.tools["sleep_for_ever"].cancelled == 1
    assert dict(found.tools["look"].failures) == {"INVALID_ARGUMENTS": 2}
    assert dict(found.tools["fail"].failures) == {"TOOL_FAILED": 1}
    assert dict(found.turns) == {"completed": 3, "aborted": 1}
    assert len(found.convergence.taken) == 1


def test_tokens_are_added_up() -> None:
    found = stats_of([record(SCRIPTS["reasoning-and-usage"])] * 3).models["scripted-1"]
    assert (found.input_tokens, found.output_tokens, found.reasoning_tokens) == (36, 15, 9)


def test_figures_are_json() -> None:
    found = stats_of([record(SCRIPTS["one-tool"])]).told()
    assert json.loads(json.dumps(found)) == found
    assert set(found["tools"]["look"]["latency"]) == {"p50", "p95", "max"}
    assert json.dumps(Stats().told())


def test_percentiles_of_little_are_what_there_is() -> None:
    assert Times([]).at(50) is None
    assert Times([2.0]).at(95) == 2.0
    assert Times([1.0, 2.0, 3.0]).at(50) == 2.0
