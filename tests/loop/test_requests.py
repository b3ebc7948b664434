"""Requests: configuration, header, context, system prompt (contract §10 Q1–Q4, Q11, Q12)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.stage import Gate, line, note, stage, talk
from treadle import (
    AgentOptions,
    Answer,
    Call,
    Event,
    Failure,
    Host,
    MemoryStore,
    MisuseError,
    ModelFailure,
    ScriptedModel,
    Tool,
    tool,
)
from treadle.hooks import PRE_STEP, REQUEST, REQUEST_ERROR, SYSTEM_PROMPT_ASSEMBLE, Enter, Prompt, Retry
from treadle.loop.request_state import restore_requests
from treadle.models import CallConfig, ModelInfo, Models, ToolSchema
from treadle.session import RequestContext, RequestHeader, Surface, SystemMessageAdded, TurnStart
from treadle.session.repair import end_of_log


@tool
async def work() -> str:
    """Do it."""
    return "done"


def headers(log: list[str]) -> list[str]:
    return [text for text in log if text.startswith(("header", "context", "system"))]


# --- Q1, Q2 -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q1", "N1")
async def test_every_request_is_the_log_before_it() -> None:
    """The stage rebuilds every request from the log at its end; here it has something to rebuild."""

    def change(proposal: Any, proceed: Any) -> CallConfig:
        return CallConfig("scripted", f"model {proposal.step}", max_tokens=proposal.step)

    async with stage(Answer("a", calls=[Call("work")]), talk("x", ValueError("no")), tools=[work]) as s:
        s.agent.system_prompt = "be brief"
        s.agent.scope.on(REQUEST, change)
        await s.ask("a")
        s.agent.system_prompt = "be long"
        await s.ask("b")
        assert [request.config.model for request in s.model.requests] == ["model 1", "model 2", "model 1"]
        assert [len(request.messages) for request in s.model.requests] == [2, 4, 6]


@pytest.mark.rule("Q1", "S4")
async def test_a_request_does_not_change_when_the_history_grows() -> None:
    async with stage("one", "two") as s:
        await s.ask("a")
        first = s.model.requests[0].messages
        before = list(first)
        await s.ask("b")
        assert list(first) == before
        assert first == before
        assert first[-1] == before[-1]
        assert first[0:1] == before[0:1]
        assert repr(first).startswith("Snapshot(")
        with pytest.raises(IndexError):
            first[5]


@pytest.mark.rule("Q2")
async def test_a_header_is_written_first_and_when_something_changed() -> None:
    def configure(proposal: Any, proceed: Any) -> CallConfig:
        return CallConfig("scripted", "other" if proposal.turn >= 3 else "m")

    async with stage() as s:
        s.agent.scope.on(REQUEST, configure)
        for text in "abcd":
            await s.ask(text)
        s.agent.tools.register(work)
        await s.ask("e")
        await s.ask("f")
        assert headers(s.full_log) == ["header initial", "context", "header change", "context", "header change"]
        last = s.facts(RequestHeader)[-1]
        assert [schema.name for schema in last.tools] == ["work"]
        assert last.config == CallConfig("scripted", "other")


@pytest.mark.rule("Q2")
async def test_a_context_is_written_when_window_or_prompt_mode_changed_only() -> None:
    model = ScriptedModel(info=ModelInfo(context_window=100))
    async with stage(model=model) as s:
        await s.ask("a")
        s.host.models.register("second", ScriptedModel(info=ModelInfo(context_window=100)))
        s.agent.scope.on(REQUEST, lambda p, proceed: CallConfig("scripted" if p.turn < 3 else "second", "m", p.turn))
        await s.ask("b")
        await s.ask("c")
        assert headers(s.full_log) == ["header initial", "context", "header change", "header change", "context"]
        assert [fact.provider for fact in s.facts(RequestContext)] == ["scripted", "second"]
        assert s.facts(RequestContext)[0].context_window == 100


@pytest.mark.rule("Q2", "Q11")
def test_request_state_is_read_back_from_a_log() -> None:
    config = CallConfig("p", "m")
    events = [
        Event("request/context", 0, 0, RequestContext("old", "m")),
        Event("request/header", 1, 0, RequestHeader(CallConfig("old", "m"), (), "initial")),
        Event("request/header", 2, 0, RequestHeader(config, (), "change")),
        Event("request/context", 3, 0, RequestContext("p", "m")),
    ]
    state = restore_requests(end_of_log(events), None)
    assert (state.header, state.context, state.fresh) == (events[2].data, events[3].data, True)
    assert restore_requests(end_of_log([]), config).override is config
    assert restore_requests(end_of_log(events[:1]), None).header is None
    assert restore_requests(end_of_log([events[1], Event("turn/start", 2, 0, TurnStart(1))]), None).context is None


@pytest.mark.rule("Q2", "Q11", "L4")
async def test_a_resumed_session_says_so_in_its_first_header_and_explicit_options_override_it_once() -> None:
    model = ScriptedModel(["two", "three"])
    async with MemoryStore() as store:
        async with stage("one", host=Host(store=store), max_tokens=50) as s:
            await s.ask("a")
        before = len(s.agent.session)
        async with Host(store=store) as host:
            host.models.register("scripted", model)
            handle = await host.agents.resume(s.agent.id, agent_options=AgentOptions(model="newer"))
            handle.agent.followup("b")
            await handle.agent.when_idle()
            handle.agent.followup("c")
            await handle.agent.when_idle()
            log = [line(entry) for entry in handle.agent.session.events[before:]]
    assert headers(log) == ["header resume", "context"]
    assert [request.config for request in model.requests] == [CallConfig("scripted", "newer", 50)] * 2
    assert "turn/start 2" in log
    assert len(model.requests[0].messages) == 3


@pytest.mark.rule("Q2", "Q12")
async def test_a_series_marks_its_start_before_the_messages_and_cuts_nothing() -> None:
    def series(proposal: Any, proceed: Any) -> Enter:
        return Enter(proposal.messages, starts_request_series=proposal.turn > 1)

    async with stage() as s:
        s.agent.scope.on(PRE_STEP, series)
        await s.ask("a")
        await s.ask("b")
        assert s.full_log[-6:-2] == ["step/start 2.1", "header series", "user b", "assistant 'Done.'"]
        assert s.requests[1] == ["user a", "assistant 'Done.'", "user b"]


@pytest.mark.rule("Q2", "Q12")
async def test_a_series_that_changes_something_is_a_change_and_still_comes_before_the_messages() -> None:
    async with stage() as s:
        s.agent.scope.on(PRE_STEP, lambda p, proceed: Enter(p.messages, starts_request_series=p.turn > 1))
        s.agent.scope.on(REQUEST, lambda p, proceed: CallConfig("scripted", f"m{p.turn}"))
        await s.ask("a")
        await s.ask("b")
        assert s.full_log[-7:-3] == ["step/start 2.1", "header change", "context", "user b"]


# --- Q3 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q3", "T1")
async def test_a_system_prompt_is_first_at_the_head_and_a_change_is_appended_where_the_route_can() -> None:
    async with stage() as s:
        s.agent.system_prompt = "one"
        await s.ask("a")
        await s.ask("b")
        s.agent.system_prompt = "two"
        await s.ask("c")
        assert s.requests[0] == ["system one", "user a"]
        assert s.requests[2][-3:] == ["assistant 'Done.'", "system two", "user c"]
        assert s.requests[2][0] == "system one"


@pytest.mark.rule("Q3", "S3")
async def test_elsewhere_a_change_replaces_the_head_and_empties_later_ones() -> None:
    model = ScriptedModel(info=ModelInfo(system_prompt_mode="replace"))
    async with stage(model=ScriptedModel()) as s:
        s.host.models.register("strict", model)
        for prompt, text in (("one", "a"), ("two", "b")):
            s.agent.system_prompt = prompt
            await s.ask(text)
        s.agent.scope.on(REQUEST, lambda p, proceed: CallConfig("strict", "m"))
        await s.ask("c")
        assert asked_system(model) == [["system two"]]
        s.agent.system_prompt = "three"
        await s.ask("d")
        assert asked_system(model)[-1] == ["system three"]
        replaced = [entry for entry in s.agent.session.events if isinstance(entry.data, SystemMessageAdded)]
        assert all(entry.source_event_seqs for entry in replaced[2:])


def asked_system(model: ScriptedModel) -> list[list[str]]:
    return [
        [f"system {one.text}" for one in request.messages if one.role == "system"]  # type: ignore[union-attr]
        for request in model.requests
    ]


@pytest.mark.rule("Q3")
@pytest.mark.parametrize("mode", ["append", "replace"])
async def test_an_empty_prompt_clears_and_a_later_one_stands_again(mode: Any) -> None:
    model = ScriptedModel(info=ModelInfo(system_prompt_mode=mode))
    async with stage(model=model) as s:
        for index, prompt in enumerate(["one", "", "", "two"]):
            s.agent.system_prompt = prompt
            await s.ask(str(index))
        assert asked_system(model) == [["system one"], [], [], ["system two"]]


@pytest.mark.rule("Q3")
async def test_a_route_that_takes_one_head_finds_it_at_the_head_after_clearing() -> None:
    model = ScriptedModel(info=ModelInfo(system_prompt_mode="replace"))
    async with stage(model=model) as s:
        for index, prompt in enumerate(["one", "", "two"]):
            s.agent.system_prompt = prompt
            await s.ask(str(index))
        assert s.requests[2][0] == "system two"


@pytest.mark.rule("Q3")
async def test_a_prompt_that_was_appended_moves_to_the_head_on_a_route_that_takes_one_there() -> None:
    strict = ScriptedModel(info=ModelInfo(system_prompt_mode="replace"))
    async with stage() as s:
        s.host.models.register("strict", strict)
        for index, prompt in enumerate(["one", "", "two"]):
            s.agent.system_prompt = prompt
            await s.ask(str(index))
        s.agent.scope.on(REQUEST, lambda p, proceed: CallConfig("strict", "m"))
        await s.ask("3")
        assert [one.role for one in strict.requests[0].messages].index("system") == 0
        assert asked_system(strict) == [["system two"]]


@pytest.mark.rule("Q3", "R1")
async def test_an_unchanged_prompt_is_not_written_again() -> None:
    async with stage() as s:
        s.host.on(
            SYSTEM_PROMPT_ASSEMBLE, lambda p, proceed: Prompt("same", (ToolSchema("t", "d", {"type": "object"}),))
        )
        await s.ask("a")
        await s.ask("b")
        assert headers(s.full_log) == ["system 'same'", "header initial", "context"]
        assert [schema.name for schema in s.model.requests[1].tools] == ["t"]


def test_a_surface_without_system_messages_has_none() -> None:
    assert Surface().system == ()


# --- Q4, Q11 ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q4", "T12")
@pytest.mark.parametrize(
    ("config", "code", "words"),
    [
        (CallConfig(None, "m"), "NO_ADAPTER", "no provider is configured"),
        (CallConfig("scripted", None), "INVALID_REQUEST", "no model is configured"),
        (CallConfig("", ""), "NO_ADAPTER", "no provider"),
        (CallConfig("nobody", "m"), "NO_ADAPTER", r"known: scripted"),
        (CallConfig("scripted", 5), "INVALID_REQUEST", "model must be text"),  # type: ignore[arg-type]
        (CallConfig("scripted", "\ud800"), "INVALID_REQUEST", "model must be text"),
        (CallConfig("scripted", "m", 0), "INVALID_REQUEST", "max_tokens must be a positive"),
        (CallConfig("scripted", "m", True), "INVALID_REQUEST", "max_tokens must be a positive"),
        (CallConfig("scripted", "m", None, "extreme"), "INVALID_REQUEST", "takes reasoning effort low, high"),
        (CallConfig("scripted", "m", None, 5), "INVALID_REQUEST", "reasoning_effort must be text"),  # type: ignore[arg-type]
    ],
)
async def test_a_call_that_cannot_be_prepared_ends_the_turn_with_a_clear_error(
    config: CallConfig, code: str, words: str
) -> None:
    model = ScriptedModel(info=ModelInfo(reasoning_efforts=("low", "high")))
    async with stage(model=model) as s:
        s.agent.scope.on(REQUEST, lambda proposal, proceed: config)
        await s.ask("a")
        assert s.ends == [f"error {code}"]
        assert words in s.errors[0].failure.message
        assert s.requests == []
        assert "user a" in s.log


@pytest.mark.rule("Q4")
async def test_a_host_without_models_says_so() -> None:
    with pytest.raises(ModelFailure, match="known: none"):
        await Models().prepare(CallConfig("p", "m"))


@pytest.mark.rule("Q4")
async def test_defaults_of_the_adapter_are_filled_in_marked_and_resolved_anew_on_another_route() -> None:
    first = ScriptedModel(
        info=ModelInfo(default_max_tokens=10, reasoning_efforts=("low",), default_reasoning_effort="low")
    )
    second = ScriptedModel(info=ModelInfo(default_max_tokens=99))
    async with stage(model=first) as s:
        s.host.models.register("second", second)
        await s.ask("a")
        assert s.model.requests[0].config == CallConfig("scripted", "m", 10, "low", ("max_tokens", "reasoning_effort"))

        async def move(proposal: Any, proceed: Any) -> CallConfig:
            return msgspec.structs.replace(await proceed(), provider="second")

        s.agent.scope.on(REQUEST, move)
        await s.ask("b")
        assert second.requests[0].config == CallConfig("second", "m", 99, None, ("max_tokens",))


@pytest.mark.rule("Q4")
async def test_explicit_values_are_kept_on_another_route() -> None:
    second = ScriptedModel(info=ModelInfo(default_max_tokens=99))
    async with stage(max_tokens=7) as s:
        s.host.models.register("second", second)
        await s.ask("a")

        async def move(proposal: Any, proceed: Any) -> CallConfig:
            return msgspec.structs.replace(await proceed(), provider="second")

        s.agent.scope.on(REQUEST, move)
        await s.ask("b")
        assert second.requests[0].config == CallConfig("second", "m", 7)


@pytest.mark.rule("Q4")
async def test_an_adapter_bound_to_a_step_serves_its_retries_although_it_was_registered_anew() -> None:
    second = ScriptedModel(["from the second"])
    model = ScriptedModel([talk(ModelFailure(Failure("no", "SERVER"))), "from the first"])
    async with Host(retries=None) as host:
        stop = host.models.register("p", model)
        with pytest.raises(MisuseError, match="has an adapter already"):
            host.models.register("p", second)
        with pytest.raises(MisuseError, match="no ModelAdapter"):
            host.models.register("q", object())  # type: ignore[arg-type]
        assert host.models.providers == ("p",)
        handle = await host.agents.create(agent_options=AgentOptions("p", "m"))

        def swap(failed: Any, proceed: Any) -> Retry:
            stop()
            stop()
            host.models.register("p", second)
            return Retry()

        handle.agent.scope.on(REQUEST_ERROR, swap)
        handle.agent.followup("a")
        await handle.agent.when_idle()
        assert [len(model.requests), len(second.requests)] == [1, 1]
        assert host.models.route("p") is second
        assert host.models.route("q") is None


@pytest.mark.rule("Q11")
async def test_next_of_the_request_hook_yields_the_options_first_and_the_logged_header_afterwards() -> None:
    seen: list[CallConfig] = []

    async def look(proposal: Any, proceed: Any) -> CallConfig:
        config = await proceed()
        seen.append(config)
        return CallConfig("scripted", "switched", 5) if proposal.turn == 1 else config

    async with stage() as s:
        s.agent.scope.on(REQUEST, look)
        await s.ask("a")
        await s.ask("b")
        assert seen == [CallConfig("scripted", "m"), CallConfig("scripted", "switched", 5)]
        assert s.model.requests[1].config.model == "switched"
        with pytest.raises(AttributeError):
            seen[0].model = "x"  # type: ignore[misc]


@pytest.mark.rule("Q11", "H6", "Q2")
async def test_the_request_hook_runs_again_before_each_retry() -> None:
    runs: list[int] = []

    def count(proposal: Any, proceed: Any) -> CallConfig:
        runs.append(proposal.step)
        return CallConfig("scripted", f"m{len(runs)}")

    async with stage(talk(ValueError("no")), "two") as s:
        s.agent.scope.on(REQUEST, count)
        s.agent.scope.on(REQUEST_ERROR, lambda failed, proceed: Retry())
        await s.ask("a")
        assert runs == [1, 1]
        assert [request.config.model for request in s.model.requests] == ["m1", "m2"]
        assert s.full_log[3:-2] == [
            "step/start 1.1",
            "user a",
            "header initial",
            "context",
            "attempt",
            "header change",
            "context",
            "assistant 'two'",
        ]


@pytest.mark.rule("Q4", "Q1")
async def test_model_info_is_asked_once_per_model_and_registration() -> None:
    asked: list[str] = []

    class Counting(ScriptedModel):
        async def model_info(self, model: str) -> ModelInfo:
            asked.append(model)
            return ModelInfo()

    async with stage(model=Counting()) as s:
        for text in "abc":
            await s.ask(text)
        s.agent.scope.on(REQUEST, lambda p, proceed: CallConfig("scripted", "other" if p.turn % 2 else "m"))
        for text in "def":
            await s.ask(text)
        assert asked == ["m", "other"]


@pytest.mark.rule("Q1", "K1")
async def test_only_name_description_and_parameters_of_a_tool_reach_the_model() -> None:
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}}
    fancy = Tool("fancy", "Fancy.", parameters, lambda arguments, run: 1, output_schema={"type": "integer"}, timeout=3)
    async with stage(tools=[fancy, work]) as s:
        await s.ask("a")
        assert s.model.requests[0].tools == (fancy.schema, work.schema)
        assert fancy.schema == ToolSchema("fancy", "Fancy.", parameters)


@pytest.mark.rule("Q1", "S1")
async def test_changing_a_tools_parameters_afterwards_changes_nothing_that_is_logged() -> None:
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    one = Tool("one", "One.", parameters, lambda arguments, run: 1)
    async with stage(tools=[one]) as s:
        await s.ask("a")
        parameters["properties"]["late"] = {"type": "string"}
        assert s.facts(RequestHeader)[0].tools[0].parameters == {"type": "object", "properties": {}}


@pytest.mark.rule("Q11", "T12")
async def test_a_gate_in_the_request_hook_holds_the_messages_back() -> None:
    gate = Gate()

    async def hold(proposal: Any, proceed: Any) -> CallConfig:
        await gate.wait()
        return await proceed()

    async with stage() as s:
        s.agent.scope.on(REQUEST, hold)
        s.agent.followup(note("a"))
        await gate.reached()
        assert s.log == ["turn/start 1", "step/start 1.1"]
        gate.open()
        await s.agent.when_idle()
        assert s.log[2] == "user a"
