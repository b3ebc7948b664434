"""Hook points: modes, scopes, order, payloads (contract §9)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio

from tests.stage import Gate, line, note, settled, stage, talk
from treadle import (
    Agent,
    Answer,
    AssistantMessage,
    ByHook,
    Call,
    Code,
    Failure,
    HookError,
    Host,
    Mode,
    ModelFailure,
    RetryPolicy,
    Scope,
    ScopeClosed,
    ScriptedModel,
    Signal,
    Text,
    UserMessage,
    tool,
)
from treadle.hooks import Emit, Serial, Waterfall, serial, waterfall
from treadle.points import (
    AGENT_CREATED,
    AGENT_DISPOSED,
    AGENT_ERROR,
    AGENT_STATUS,
    ASSISTANT_STREAM,
    CANCEL_REQUESTED,
    INBOX_CLAIMED,
    INBOX_DISCARDED,
    INBOX_INSERTED,
    LLM_STREAM,
    POINTS,
    PRE_STEP,
    PROMPT_SUBMIT,
    REQUEST,
    REQUEST_ERROR,
    SESSION_EVENT,
    SESSION_START,
    TOOLS_RESULT,
    TURN_STOPPING,
    Allow,
    BlockPrompt,
    Enter,
    Reject,
    Retry,
)

# --- H1, H2, H3 -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("H2", "H8")
def test_every_point_of_the_contract_exists_in_its_mode() -> None:
    modes = {point.name: point.mode.value for point in POINTS}
    emit = (
        "agent/status agent/inbox/inserted agent/inbox/claimed agent/inbox/discarded agent/inbox/updated agent/parked "
        "agent/assistant-stream agent/error agent/cancel-requested agent/disposed agent/session-start session/event "
        "tools/result agent-loop/config-start-failed agent-preset/selected"
    )
    serial_points = "agent/created agent/turn-stopping session/flush"
    waterfalls = (
        "agent/prompt-submit agent/pre-step agent/request agent/request-error llm/stream system-prompt/assemble "
        "tools/pre-execute tools/execute tools/post-execute"
    )
    expected = {name: "emit" for name in emit.split()}
    expected |= {name: "serial" for name in serial_points.split()}
    expected |= {name: "waterfall" for name in waterfalls.split()}
    assert modes == expected
    assert len(POINTS) == len(modes)


@pytest.mark.rule("H8")
@pytest.mark.parametrize(
    ("point", "fields"),
    [
        (AGENT_CREATED, "agent source signal"),
        (AGENT_STATUS, "agent status"),
        (INBOX_INSERTED, "agent message"),
        (INBOX_DISCARDED, "agent message"),
        (INBOX_CLAIMED, "agent message turn"),
        (ASSISTANT_STREAM, "agent frame"),
        (CANCEL_REQUESTED, "agent cause"),
        (AGENT_DISPOSED, "agent"),
        (SESSION_START, "agent source"),
        (PRE_STEP, "agent messages turn step signal"),
        (REQUEST, "agent turn step signal"),
        (TURN_STOPPING, "agent turn signal"),
    ],
)
def test_payloads_carry_what_the_contract_lists(point: Any, fields: str) -> None:
    assert [one.name for one in attrs.fields(point.payload)] == fields.split()


@pytest.mark.rule("H8")
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_payloads_are_frozen_and_documented(point: Any) -> None:
    assert attrs.has(point.payload)
    assert point.payload.__doc__
    assert point.doc.endswith(".")
    assert repr(point) == f"<{point.mode.value} {point.name}>"
    values = [None] * len([one for one in attrs.fields(point.payload) if one.init])
    payload = point.payload(*values)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(payload, attrs.fields(point.payload)[0].name, 1)


async def run_serial(*functions: Any) -> list[Any]:
    scope, point = Scope("s"), Serial("p", str)
    for function in functions:
        scope.on(point, function)
    await serial(scope.listeners(point), "payload")
    return []


@pytest.mark.rule("H1")
async def test_serial_awaits_in_order_and_the_first_failure_propagates() -> None:
    order: list[str] = []

    async def slow(payload: str) -> None:
        await trio.lowlevel.checkpoint()
        order.append(f"slow {payload}")

    def fail(payload: str) -> None:
        order.append("fail")
        raise ValueError

    with pytest.raises(ValueError, match=""):
        await run_serial(slow, lambda payload: order.append("sync"), fail, lambda payload: order.append("never"))
    assert order == ["slow payload", "sync", "fail"]


@pytest.mark.rule("H1")
async def test_a_waterfall_listener_may_stop_change_and_continue() -> None:
    point: Waterfall[str, str] = Waterfall("w", str, "", str)
    scope = Scope("s")

    async def base() -> str:
        return "base"

    async def outer(payload: str, proceed: Any) -> str:
        return f"outer({await proceed()})"

    def inner(payload: str, proceed: Any) -> Any:
        return "inner" if payload == "stop" else proceed()

    scope.on(point, outer)
    scope.on(point, inner)
    assert await waterfall(point, scope.listeners(point), "go", base) == "outer(base)"
    assert await waterfall(point, scope.listeners(point), "stop", base) == "outer(inner)"


@pytest.mark.rule("H1")
async def test_a_waterfall_listener_that_returns_something_else_is_named() -> None:
    async with stage("one") as s:
        s.agent.scope.on(PRE_STEP, lambda proposal, proceed: None)  # type: ignore[arg-type,return-value]
        await s.ask("a")
        error = s.errors[0].error
        assert isinstance(error, HookError)
        assert "returned NoneType at agent/pre-step, which takes Enter or Reject" in str(error)
    async with stage("one") as s:
        s.agent.scope.on(REQUEST, lambda proposal, proceed: "gpt")  # type: ignore[arg-type,return-value]
        await s.ask("a")
        assert "returned str at agent/request, which takes CallConfig" in str(s.errors[0].error)


@pytest.mark.rule("H3")
async def test_an_agents_listener_hears_only_its_agent_and_a_hosts_hears_all() -> None:
    async with stage("one", "two") as s:
        other = await s.host.agents.create(agent_options=s.agent.options)
        own: list[Agent] = []
        every: list[Agent] = []
        s.agent.scope.on(AGENT_STATUS, lambda told: own.append(told.agent))
        s.host.on(AGENT_STATUS, lambda told: every.append(told.agent))
        await s.ask("a")
        other.agent.followup("b")
        await other.agent.when_idle()
        assert own == [s.agent] * 2
        assert every == [s.agent] * 2 + [other.agent] * 2
        await other.dispose()


@pytest.mark.rule("H3", "O5")
async def test_a_listener_dies_with_its_scope_and_registering_later_raises() -> None:
    heard: list[str] = []
    async with stage("one") as s:
        s.agent.scope.on(AGENT_STATUS, lambda told: heard.append(told.status))
        await s.ask("a")
        await s.handle.dispose()
        with pytest.raises(ScopeClosed):
            s.agent.scope.on(AGENT_STATUS, lambda told: None)
        with pytest.raises(ScopeClosed):
            s.agent.scope.defer(lambda: None)
        with pytest.raises(ScopeClosed):
            Scope("child", s.agent.scope)
        assert heard == ["running", "idle"]
        assert repr(s.agent.scope) == f"<Scope {s.agent.id} (ended)>"


@pytest.mark.rule("H3", "H1")
@pytest.mark.parametrize("mode", [Mode.EMIT, Mode.SERIAL, Mode.WATERFALL])
async def test_a_listener_that_is_ended_during_a_dispatch_is_not_called_any_more(mode: Mode) -> None:
    heard: list[str] = []

    def end_second(payload: Any, *proceed: Any) -> Any:
        stop()
        stop()
        return proceed[0]() if proceed else None

    def second(payload: Any, *proceed: Any) -> Any:
        heard.append("second")
        return proceed[0]() if proceed else None

    point = {Mode.EMIT: AGENT_STATUS, Mode.SERIAL: TURN_STOPPING, Mode.WATERFALL: PRE_STEP}[mode]
    async with stage("one") as s:
        s.agent.scope.on(point, end_second)  # type: ignore[call-overload]
        stop = s.agent.scope.on(point, second)  # type: ignore[call-overload]
        await s.ask("a")
        assert heard == []
        assert s.ends == ["completed"]


@pytest.mark.rule("H3")
async def test_a_listener_that_joins_during_a_dispatch_hears_from_the_next_one_on() -> None:
    heard: list[str] = []

    def join(told: Any) -> None:
        if told.status == "running":
            s.agent.scope.on(AGENT_STATUS, lambda again: heard.append(again.status))

    async with stage("one") as s:
        s.agent.scope.on(AGENT_STATUS, join)
        await s.ask("a")
        assert heard == ["idle"]


# --- H4 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("H4")
async def test_a_commit_is_whole_before_anyone_is_told() -> None:
    seen: list[tuple[str, int]] = []
    async with stage("one", listen=False) as s:
        s.agent.scope.on(SESSION_EVENT, lambda told: seen.append((line(told.event), len(s.agent.session))))
        s.agent.followup(note("a"))
        assert seen == [("inbox next-turn @0 +a", 3), ("turn/start 1", 3), ("inbox next-turn @0 -1", 3)]
        await s.agent.when_idle()
        after = dict(seen[3:])
        assert after == {
            "step/start 1.1": 4,
            "user a": 7,
            "header initial": 7,
            "context": 7,
            "assistant 'one'": 8,
            "step/end 1.1": 9,
            "turn/end 1 completed": 10,
        }


@pytest.mark.rule("H4")
async def test_one_commit_closes_a_turn_and_opens_the_next_and_a_step_end_holds_the_next_claim() -> None:
    seen: dict[str, int] = {}
    gate = Gate()
    async with stage(talk(gate, "one"), "two", "three", listen=False) as s:
        s.agent.scope.on(SESSION_EVENT, lambda told: seen.setdefault(line(told.event), len(s.agent.session)))
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.steer(note("s"))
        s.agent.followup(note("b"))
        gate.open()
        await s.agent.when_idle()
        assert seen["step/end 1.1"] == seen["inbox next-step @0 -1"]
        assert seen["turn/end 1 completed"] == seen["turn/start 2"]


@pytest.mark.rule("H4")
async def test_a_replay_is_two_commits_and_latch_and_inbox_are_read_again_between_them() -> None:
    gate = Gate()

    def withdraw(told: Any) -> None:
        if told.event.type == "turn/end" and s.pending[0]:
            s.agent.inbox.remove("b")

    async with stage(talk("x", gate)) as s:
        s.agent.scope.on(SESSION_EVENT, withdraw)
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        s.agent.followup(note("b"))
        await s.agent.when_idle()
        assert s.ends == ["aborted user"]
        assert s.pending == ([], [])


@pytest.mark.rule("H4", "L8")
async def test_what_a_listener_causes_acts_at_once_and_is_told_behind_what_is_due() -> None:
    seen: list[Any] = []

    def reenter(told: Any) -> None:
        if told.message.id == "a":
            s.agent.inject(note("i"))
            seen.append(s.pending)

    async with stage("one") as s:
        s.agent.scope.on(INBOX_INSERTED, reenter)
        await s.ask("a")
        assert seen == [([], ["i"])]
        assert s.told[:7] == [
            "inbox next-turn @0 +a",
            "~inserted a",
            "~status running",
            "turn/start 1",
            "inbox next-turn @0 -1",
            "~claimed a 1",
            "inbox next-step @0 +i",
        ]


@pytest.mark.rule("H4")
@pytest.mark.parametrize("act", ["send", "cancel", "splice"])
async def test_every_listener_sees_events_in_log_order_whoever_reenters(act: str) -> None:
    orders: list[list[int]] = [[], []]

    def reenter(told: Any) -> None:
        orders[0].append(told.event.seq)
        if len(orders[0]) in (2, 5, 9):
            if act == "send":
                s.agent.inject(note(f"i{told.event.seq}"))
            elif act == "cancel":
                s.agent.cancel()
            else:
                s.agent.inbox.splice("next-turn", 0, 0, [note(f"t{told.event.seq}")])

    async with stage("one", "two", listen=False) as s:
        s.agent.scope.on(SESSION_EVENT, reenter)
        s.agent.scope.on(SESSION_EVENT, lambda told: orders[1].append(told.event.seq))
        await s.ask("a")
        assert orders[0] == orders[1] == list(range(len(s.agent.session)))


@pytest.mark.rule("H4", "N8")
async def test_a_listeners_failure_is_told_behind_what_is_due() -> None:
    def fail(told: Any) -> None:
        raise ValueError("listener")

    async with stage("one") as s:
        stop = s.agent.scope.on(INBOX_INSERTED, fail)
        s.agent.followup(note("a"))
        stop()
        assert s.told[:7] == [
            "inbox next-turn @0 +a",
            "~inserted a",
            "~status running",
            "turn/start 1",
            "inbox next-turn @0 -1",
            "~claimed a 1",
            "~error UNKNOWN",
        ]
        await s.agent.when_idle()


@pytest.mark.rule("H4", "S6")
async def test_an_event_that_a_plugin_appends_in_a_listener_is_told_in_log_order() -> None:
    from treadle.session.events import PresetSelected

    def append(told: Any) -> None:
        if told.event.type == "turn/start":
            s.agent.session.append(PresetSelected("p"))

    async with stage("one") as s:
        s.agent.scope.on(SESSION_EVENT, append)
        await s.ask("a")
        told = [text for text in s.told if not text.startswith("~")]
        assert told == s.full_log
        assert "agent-preset/selected" in told


# --- H6 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("H6", "Q5")
async def test_request_error_gets_the_facts_and_the_failures_before() -> None:
    seen: list[Any] = []
    policy = RetryPolicy("normal", codes=frozenset())

    def look(failed: Any, proceed: Any) -> Retry | None:
        seen.append(failed)
        return Retry() if len(seen) < 3 else None

    script = [talk(ModelFailure(Failure(f"no {index}", Code.SERVER.value, 503))) for index in range(3)]
    model = ScriptedModel(script, retry_policy=policy)
    async with stage(model=model) as s:
        s.agent.scope.on(REQUEST_ERROR, look)
        await s.ask("a")
        assert [failed.failure.message for failed in seen] == ["no 0", "no 1", "no 2"]
        last = seen[-1]
        assert [one.message for one in last.prior] == ["no 0", "no 1"]
        assert (last.turn, last.step, last.provider, last.retry_policy) == (1, 1, "scripted", policy)
        assert (last.agent, last.signal.cancelled, last.failure.status) == (s.agent, False, 503)
        assert s.ends == ["error SERVER"]
        assert s.log.count("attempt") == 3


@pytest.mark.rule("H6")
async def test_prior_failures_belong_to_their_step() -> None:
    seen: list[int] = []

    def look(failed: Any, proceed: Any) -> Retry:
        seen.append(len(failed.prior))
        return Retry()

    @tool
    async def work() -> None: ...

    bad = talk(ModelFailure(Failure("no", "SERVER")))
    async with stage(bad, Answer(calls=[Call("work")]), bad, "done", tools=[work]) as s:
        s.agent.scope.on(REQUEST_ERROR, look)
        await s.ask("a")
        assert seen == [0, 0]


@pytest.mark.rule("H6")
async def test_the_default_of_request_error_is_terminal() -> None:
    async with stage(talk(ModelFailure(Failure("no", "SERVER")))) as s:
        s.agent.scope.on(REQUEST_ERROR, lambda failed, proceed: proceed())
        await s.ask("a")
        assert (len(s.requests), s.ends) == (1, ["error SERVER"])


@pytest.mark.rule("H6", "T9")
@pytest.mark.parametrize("where", ["request hook", "before the stream", "in the stream", "a group in the stream"])
async def test_request_error_does_not_run_for_failures_of_hooks_and_middleware(where: str) -> None:
    ran: list[str] = []

    def recover(failed: Any, proceed: Any) -> Any:
        ran.append(failed.failure.message)
        return proceed()

    def fail(*given: Any) -> Any:
        raise ValueError("middleware")

    async def wrap(proposal: Any, proceed: Any) -> Any:
        inner = await proceed()

        async def play() -> Any:
            async for chunk in inner:
                yield chunk
                await inner.aclose()
                if where == "a group in the stream":
                    raise ExceptionGroup("g", [ValueError("middleware")])
                raise ValueError("middleware")

        return play()

    async with stage("one") as s:
        s.agent.scope.on(REQUEST_ERROR, recover)
        if where == "request hook":
            s.agent.scope.on(REQUEST, fail)
        else:
            s.agent.scope.on(LLM_STREAM, fail if where == "before the stream" else wrap)
        await s.ask("a")
        assert ran == []
        assert s.ends == ["error UNKNOWN"]
        assert "middleware" in s.errors[0].failure.message


@pytest.mark.rule("H6")
async def test_request_error_runs_for_a_failure_of_the_provider_below_middleware() -> None:
    ran: list[str] = []

    def recover(failed: Any, proceed: Any) -> Any:
        ran.append(failed.failure.code)
        return Retry()

    async with stage(talk("x", ModelFailure(Failure("no", "SERVER"))), "fine") as s:
        s.agent.scope.on(LLM_STREAM, lambda proposal, proceed: proceed())
        s.agent.scope.on(REQUEST_ERROR, recover)
        await s.ask("a")
        assert (ran, s.ends) == (["SERVER"], ["completed"])


@pytest.mark.rule("H6", "Q5")
async def test_request_error_runs_for_a_stream_below_middleware_that_breaks_the_protocol() -> None:
    ran: list[str] = []

    def recover(failed: Any, proceed: Any) -> Any:
        ran.append(failed.failure.code)
        return proceed()

    async with stage(["no chunk"]) as s:
        s.agent.scope.on(LLM_STREAM, lambda proposal, proceed: proceed())
        s.agent.scope.on(REQUEST_ERROR, recover)
        await s.ask("a")
        assert (ran, s.ends) == (["MALFORMED_RESPONSE"], ["error MALFORMED_RESPONSE"])


# --- H7, H9, H10 ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("H7", "H10")
async def test_prompt_submit_sees_the_claimed_prompt_and_nothing_else() -> None:
    seen: list[tuple[str, int]] = []

    def look(submission: Any, proceed: Any) -> Any:
        seen.append((submission.message.text, submission.turn))
        return proceed()

    async with stage("one", "two", "three") as s:
        s.agent.scope.on(PROMPT_SUBMIT, look)
        s.agent.inject(note("i"))
        await s.ask("a")
        s.agent.steer(note("s"))
        await s.agent.when_idle()
        await s.ask("b")
        assert seen == [("a", 1), ("b", 3)]


@pytest.mark.rule("H7", "H10", "T0")
async def test_an_allowed_prompt_may_change_content_and_bring_contexts_that_follow_it() -> None:
    contexts = (note("c1"), UserMessage("c2", (Text("c2"),)))

    async def rewrite(submission: Any, proceed: Any) -> Allow:
        assert await proceed() == Allow()
        return Allow((Text("rewritten"),), contexts)

    seen: list[list[str]] = []

    def look(proposal: Any, proceed: Any) -> Any:
        seen.append([one.text for one in proposal.messages])
        return proceed()

    async with stage("one") as s:
        s.agent.scope.on(PROMPT_SUBMIT, rewrite)
        s.agent.scope.on(PRE_STEP, look)
        s.agent.inject(note("i"))
        await s.ask("a")
        assert seen == [["i", "rewritten", "c1", "c2"]]
        assert s.requests == [["user i", "user rewritten", "user c1", "user c2"]]
        assert [one.id for one in s.model.requests[0].messages] == ["i", "a", "c1", "c2"]  # type: ignore[union-attr]


@pytest.mark.rule("H7", "H10")
async def test_a_blocked_prompt_ends_the_turn_and_its_companions_are_recorded() -> None:
    async with stage("one") as s:
        stop = s.agent.scope.on(PROMPT_SUBMIT, lambda submission, proceed: BlockPrompt("secrets"))
        receipts = [s.agent.inject(note("i")), s.agent.followup(note("a"))]
        await s.agent.when_idle()
        assert s.log == ["turn/start 1", "user i", "turn/end 1 blocked secrets"]
        assert [str(await receipt.outcome()) for receipt in receipts] == [
            "Admitted(turn=1, step=None)",
            "Rejected(reason='blocked')",
        ]
        stop()
        await s.ask("b")
        assert s.requests == [["user i", "user b"]]


@pytest.mark.rule("H7", "D3")
@pytest.mark.parametrize("wrong", [Allow(content=()), Allow(content=(Text("\ud800"),)), Allow(additional_contexts=("x",))])  # type: ignore[arg-type]
async def test_a_prompt_hook_cannot_let_in_what_a_sender_could_not_send(wrong: Allow) -> None:
    async with stage() as s:
        s.agent.scope.on(PROMPT_SUBMIT, lambda submission, proceed: wrong)
        await s.ask("a")
        assert s.log == ["turn/start 1", "turn/end 1 error INVALID_MESSAGE"]


@pytest.mark.rule("H9", "C2")
async def test_a_signal_tells_the_exact_cause_and_stays_readable() -> None:
    signals: list[Signal] = []
    gate = Gate()

    def look(proposal: Any, proceed: Any) -> Any:
        signals.append(proposal.signal)
        return proceed()

    async with stage(talk("x", gate), "two") as s:
        s.agent.scope.on(PRE_STEP, look)
        s.agent.followup(note("a"))
        await gate.reached()
        signal = signals[0]
        assert (signal.cancelled, signal.cause, repr(signal)) == (False, None, "<Signal live>")
        waited: list[Any] = []

        async def wait() -> None:
            waited.append(await signal.wait())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await settled()
            cause = ByHook("budget")
            s.agent.cancel(cause)
        assert waited == [cause]
        await s.agent.when_idle()
        assert signal.cancelled
        assert signal.cause is cause
        assert await signal.wait() is cause
        assert repr(signal).startswith("<Signal cancelled")
        await s.ask("b")
        assert signals[1].cancelled is False


@pytest.mark.rule("H9", "H7")
async def test_the_signal_of_prompt_submit_covers_that_admission_only() -> None:
    signals: list[Signal] = []
    gate, held = Gate(), Gate()

    def look(submission: Any, proceed: Any) -> Any:
        signals.append(submission.signal)
        return proceed()

    async def hold(submission: Any, proceed: Any) -> Any:
        if submission.message.id == "b":
            await held.wait()
        return await proceed()

    async with stage(talk("x", gate)) as s:
        s.agent.scope.on(PROMPT_SUBMIT, look)
        s.agent.scope.on(PROMPT_SUBMIT, hold)
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        s.agent.followup(note("b"))
        await held.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert [signal.cancelled for signal in signals] == [False, True]


@pytest.mark.rule("H2")
async def test_llm_stream_may_replace_the_adapters_stream() -> None:
    async def replace(proposal: Any, proceed: Any) -> Any:
        assert proposal.request.messages[0].text == "a"
        assert (proposal.turn, proposal.step) == (1, 1)
        return talk("from middleware")(proposal.request)

    async with stage("never") as s:
        s.agent.scope.on(LLM_STREAM, replace)
        await s.ask("a")
        assert s.log[3] == "assistant 'from middleware'"
        assert s.requests == []


@pytest.mark.rule("H2")
async def test_tools_result_is_told_after_the_result_is_recorded() -> None:
    @tool
    async def work() -> str:
        return "done"

    seen: list[Any] = []
    async with stage(Answer(calls=[Call("work"), Call("nope")]), tools=[work]) as s:
        s.agent.scope.on(TOOLS_RESULT, lambda told: seen.append((told.call.call_id, told.is_error, told.code, s.log[-1])))
        await s.ask("a")
        assert seen == [
            ("call_1", False, None, "result call_1 ok"),
            ("call_2", True, "UNKNOWN_TOOL", "result call_2 UNKNOWN_TOOL"),
        ]


@pytest.mark.rule("H1")
async def test_a_scope_closes_children_first_and_clean_ups_in_reverse_and_reports_failures() -> None:
    order: list[str] = []
    failures: list[BaseException] = []

    def fail() -> None:
        order.append("fail")
        raise ValueError

    async def slowly() -> None:
        await trio.lowlevel.checkpoint()
        order.append("async")

    scope = Scope("outer")
    child = Scope("child", scope)
    child.defer(lambda: order.append("child"))
    scope.defer(lambda: order.append("first"))
    scope.defer(slowly)
    scope.defer(fail)
    await scope.close(failures.append)
    await scope.close(failures.append)
    assert order == ["child", "fail", "async", "first"]
    assert [type(error) for error in failures] == [ValueError]
    assert child.closed


async def test_a_scope_without_a_running_host_has_no_tasks() -> None:
    with pytest.raises(ScopeClosed, match="no running host"):
        Scope("alone").spawn(trio.sleep_forever)


@pytest.mark.rule("H1")
async def test_a_host_is_used_inside_its_block_and_once() -> None:
    from treadle import MisuseError

    host = Host()
    with pytest.raises(MisuseError, match="not running"):
        host.spawn(trio.sleep_forever)
    async with host:
        assert repr(host) == "<Host with 0 agents>"
        with pytest.raises(MisuseError, match="entered once"):
            await host.__aenter__()


@pytest.mark.rule("H2", "S4")
async def test_an_answer_as_heard_is_the_answer_as_recorded() -> None:
    heard: list[Any] = []
    async with stage("one two") as s:
        s.agent.scope.on(SESSION_EVENT, lambda told: heard.append(told.event))
        s.agent.scope.on(AGENT_ERROR, lambda told: None)
        await s.ask("a")
        assert heard == list(s.agent.session.events)
        assert isinstance(s.agent.session.history()[1], AssistantMessage)


def test_points_of_plugins_are_made_like_the_own_ones() -> None:
    emit: Emit[str] = Emit("mine/told", str, "Mine.")
    assert (emit.mode, emit.name) == (Mode.EMIT, "mine/told")
    assert Enter([]).messages == ()
    assert Reject() == Reject()
