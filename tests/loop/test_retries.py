"""Retrying failed attempts by the adapter's policy, in virtual time (contract §10, Q6)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.stage import Gate, settled, stage, talk
from treadle import Answer, Call, Failure, Host, ModelFailure, Retries, ScriptedModel, tool
from treadle.hooks import REQUEST_ERROR, Retry
from treadle.loop.retry import delay_of, install_retries
from treadle.models import RETRIED_CODES, Code, Finish, Finished, RetryPolicy
from treadle.session import AssistantAttempt, RequestHeader, RetryScheduled, RetryStarted, decode_event, encode_event

NORMAL = RetryPolicy()
STEADY = RetryPolicy(jitter=0)
ALWAYS = RetryPolicy("always", jitter=0)
SERVER = Failure("down", Code.SERVER.value, 503)


def model(*script: Any, policy: RetryPolicy | None = STEADY, default: Any = "Done.") -> ScriptedModel:
    return ScriptedModel(script, retry_policy=policy, default=default)


def host(chance: float = 0.5) -> Host:
    return Host(checks=True, retries=Retries(lambda: chance))


def limited(retry_after: float | None) -> Failure:
    return Failure("slow down", Code.RATE_LIMIT.value, 429, retry_after)


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q6", "Q7")
@pytest.mark.parametrize("code", list(Code))
def test_a_normal_policy_retries_five_codes_and_an_always_policy_every_code(code: Code) -> None:
    failure = Failure("no", code.value)
    assert (delay_of(NORMAL, 0, failure, 0.5) is not None) is (code.value in RETRIED_CODES)
    assert delay_of(ALWAYS, 0, failure, 0.5) == 0.5


@pytest.mark.rule("Q6")
def test_the_retried_codes_and_the_numbers_of_a_normal_policy() -> None:
    assert {"EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"} == RETRIED_CODES
    assert (NORMAL.kind, NORMAL.max_retries, NORMAL.base_delay, NORMAL.max_delay, NORMAL.jitter) == (
        "normal",
        5,
        0.5,
        10.0,
        0.1,
    )


@pytest.mark.rule("Q6")
def test_waits_double_from_half_a_second_to_ten_seconds() -> None:
    policy = RetryPolicy(max_retries=9)
    assert [delay_of(policy, retries, SERVER, 0.5) for retries in range(10)] == [
        0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0, None,
    ]  # fmt: skip


@pytest.mark.rule("Q6")
@pytest.mark.parametrize(("chance", "first", "last"), [(0.0, 0.45, 9.0), (0.5, 0.5, 10.0), (1.0, 0.55, 10.0)])
def test_jitter_moves_a_wait_by_a_tenth_either_way_and_never_beyond_the_maximum(
    chance: float, first: float, last: float
) -> None:
    policy = RetryPolicy(max_retries=9)
    assert delay_of(policy, 0, SERVER, chance) == pytest.approx(first)
    assert delay_of(policy, 8, SERVER, chance) == pytest.approx(last)


@pytest.mark.rule("Q6")
@pytest.mark.parametrize(
    ("asked", "delay"),
    [(None, 0.5), (0.0, 0.5), (0.1, 0.5), (3.5, 3.5), (10.0, 10.0), (10.001, None), (86_400.0, None), (-5.0, 0.5)],
)
@pytest.mark.parametrize("policy", [STEADY, ALWAYS], ids=["normal", "always"])
def test_a_providers_wait_is_honoured_up_to_the_maximum_and_terminal_beyond_it(
    policy: RetryPolicy, asked: float | None, delay: float | None
) -> None:
    assert delay_of(policy, 0, limited(asked), 0.5) == delay


@pytest.mark.rule("Q6")
def test_a_policy_may_name_other_codes_and_counts() -> None:
    policy = RetryPolicy(max_retries=1, codes=frozenset({"MINE"}), base_delay=3, max_delay=3, jitter=0)
    assert delay_of(policy, 0, Failure("no", "MINE"), 0.5) == 3
    assert delay_of(policy, 1, Failure("no", "MINE"), 0.5) is None
    assert delay_of(policy, 0, SERVER, 0.5) is None


@pytest.mark.rule("Q6")
def test_thousands_of_retries_do_not_overflow() -> None:
    assert delay_of(RetryPolicy(max_retries=10_000, jitter=0), 9_999, SERVER, 0.5) == 10.0


# --- a turn that is retried -------------------------------------------------------------------------------------------


@pytest.mark.rule("Q6", "Q9")
async def test_a_failed_attempt_is_retried_in_its_step_and_the_waits_are_recorded(autojump_clock: MockClock) -> None:
    async with stage(host=host(), model=model(SERVER, limited(3.0), "fine")) as s:
        await s.ask("a")
        assert trio.current_time() == pytest.approx(3.5)
        assert s.log == [
            "turn/start 1",
            "step/start 1.1",
            "user a",
            "attempt",
            "llm/retry",
            "llm/retry-started",
            "attempt",
            "llm/retry",
            "llm/retry-started",
            "assistant 'fine'",
            "step/end 1.1",
            "turn/end 1 completed",
        ]
        assert s.facts(RetryScheduled) == [
            RetryScheduled(1, 1, 2, 0.5, SERVER),
            RetryScheduled(1, 1, 3, 3.0, limited(3.0)),
        ]
        assert s.facts(RetryStarted) == [RetryStarted(1, 1, 2), RetryStarted(1, 1, 3)]
        assert s.requests == [["user a"]] * 3
        assert s.errors == []


@pytest.mark.rule("Q6", "S1")
async def test_a_scheduled_wait_is_in_the_log_before_it_begins_and_reads_back(autojump_clock: MockClock) -> None:
    async with stage(host=host(), model=model(limited(9.0), "fine")) as s:
        s.agent.followup("a")
        await settled()
        (entry,) = [one for one in s.agent.session.events if isinstance(one.data, RetryScheduled)]
        assert trio.current_time() == 0
        assert s.facts(RetryStarted) == []
        assert decode_event(encode_event(entry)) == entry
        await s.agent.when_idle()


@pytest.mark.rule("Q6")
async def test_five_retries_are_made_and_the_sixth_failure_ends_the_turn(autojump_clock: MockClock) -> None:
    async with stage(host=host(), model=model(default=SERVER)) as s:
        await s.ask("a")
        assert (len(s.requests), s.ends) == (6, ["error SERVER"])
        assert [wait.delay for wait in s.facts(RetryScheduled)] == [0.5, 1.0, 2.0, 4.0, 8.0]
        assert trio.current_time() == pytest.approx(15.5)
        assert [error.failure for error in s.errors] == [SERVER]


@pytest.mark.rule("Q6")
@pytest.mark.parametrize("failure", [Failure("no", Code.QUOTA.value, 429), limited(11.0)], ids=["code", "wait"])
async def test_a_terminal_failure_is_not_waited_for(failure: Failure, autojump_clock: MockClock) -> None:
    async with stage(host=host(), model=model(failure)) as s:
        await s.ask("a")
        assert (len(s.requests), s.ends, trio.current_time()) == (1, [f"error {failure.code}"], 0)
        assert s.facts(RetryScheduled) == []


@pytest.mark.rule("Q6", "Q5")
@pytest.mark.parametrize(
    "fails",
    [
        talk("partial", ModelFailure(SERVER)),
        talk("partial", Finished(Finish("error", SERVER)), finish=None),
        talk(ModelFailure(SERVER)),
    ],
    ids=["raised", "finished", "raised at once"],
)
async def test_every_form_of_a_failure_is_retried_and_no_partial_text_reaches_the_next_request(
    fails: Any, autojump_clock: MockClock
) -> None:
    async with stage(host=host(), model=model(fails, "fine")) as s:
        await s.ask("a")
        assert s.requests == [["user a"], ["user a"]]
        assert s.ends == ["completed"]
        assert [attempt.finish.failure for attempt in s.facts(AssistantAttempt)] == [SERVER]


@pytest.mark.rule("Q6", "Q5")
async def test_an_empty_answer_is_retried(autojump_clock: MockClock) -> None:
    async with stage(host=host(), model=model([Finished(Finish("stop"))], "fine")) as s:
        await s.ask("a")
        assert [wait.failure.code for wait in s.facts(RetryScheduled)] == ["EMPTY_RESPONSE"]
        assert s.ends == ["completed"]


@pytest.mark.rule("Q6")
async def test_each_step_has_its_own_retries(autojump_clock: MockClock) -> None:
    @tool
    async def work() -> None: ...

    policy = RetryPolicy(max_retries=1, jitter=0)
    script = (SERVER, Answer(calls=[Call("work")]), SERVER, "fine")
    async with stage(host=host(), model=model(*script, policy=policy), tools=[work]) as s:
        await s.ask("a")
        assert s.ends == ["completed"]
        assert [(wait.step, wait.attempt, wait.delay) for wait in s.facts(RetryScheduled)] == [(1, 2, 0.5), (2, 2, 0.5)]


@pytest.mark.rule("Q6", "Q2")
async def test_a_retry_writes_no_second_header(autojump_clock: MockClock) -> None:
    async with stage(host=host(), model=model(SERVER, "fine")) as s:
        await s.ask("a")
        assert len(s.facts(RequestHeader)) == 1


@pytest.mark.rule("Q6")
@pytest.mark.parametrize("off", ["host", "adapter"])
async def test_without_the_listener_or_a_policy_every_failure_is_terminal(off: str, autojump_clock: MockClock) -> None:
    opened = Host(checks=True, retries=None) if off == "host" else host()
    async with stage(host=opened, model=model(SERVER, policy=None if off == "adapter" else STEADY)) as s:
        await s.ask("a")
        assert (len(s.requests), s.ends) == (1, ["error SERVER"])


@pytest.mark.rule("Q6", "H3")
async def test_retries_can_be_installed_for_one_agent_and_taken_away(autojump_clock: MockClock) -> None:
    async with stage(host=Host(checks=True, retries=None), model=model(SERVER, "fine", SERVER)) as s:
        dispose = install_retries(s.agent.scope, Retries(lambda: 0.5))
        await s.ask("a")
        dispose()
        await s.ask("b")
        assert s.ends == ["completed", "error SERVER"]


@pytest.mark.rule("Q6", "H6")
async def test_another_listener_that_retries_is_followed_without_a_wait(autojump_clock: MockClock) -> None:
    async with stage(host=host(), model=model(SERVER, Failure("no", Code.QUOTA.value), SERVER, "fine")) as s:
        s.agent.scope.on(
            REQUEST_ERROR, lambda failed, proceed: Retry() if failed.failure.code == "QUOTA" else proceed()
        )
        await s.ask("a")
        assert s.ends == ["completed"]
        # The retries that others decide on count as well.
        assert [(wait.attempt, wait.delay) for wait in s.facts(RetryScheduled)] == [(2, 0.5), (4, 2.0)]


# --- cancelling the wait ----------------------------------------------------------------------------------------------


@pytest.mark.rule("Q6", "C8", "C11")
@pytest.mark.parametrize("kept", [False, True])
async def test_a_cancel_during_the_wait_ends_the_turn_at_once_without_an_error(
    kept: bool, autojump_clock: MockClock
) -> None:
    async with stage(host=host(), model=model(limited(9.0), "fine")) as s:
        s.agent.followup("a")
        await trio.sleep(2)
        assert len(s.facts(RetryScheduled)) == 1
        s.agent.cancel(keep_inbox=kept)
        await s.agent.when_idle()
        assert trio.current_time() == 2
        assert s.ends == ["aborted user"]
        assert s.log[-4:] == ["attempt", "llm/retry", "step/end 1.1", "turn/end 1 aborted user"]
        assert s.errors == []
        assert not [text for text in s.told if text.startswith("~error")]
        assert len(s.requests) == 1


@pytest.mark.rule("Q6", "C5")
async def test_a_cancelled_wait_leaves_nothing_behind_for_the_next_turn(autojump_clock: MockClock) -> None:
    async with stage(host=host(), model=model(talk("half", ModelFailure(limited(9.0))), "fine")) as s:
        s.agent.followup("a")
        await trio.sleep(1)
        s.agent.cancel()
        await s.agent.when_idle()
        await s.ask("b")
        assert s.requests[1] == ["user a", "user b"]
        assert s.ends == ["aborted user", "completed"]
        await trio.sleep(20)
        assert len(s.requests) == 2


@pytest.mark.rule("Q6", "O4")
async def test_disposal_during_the_wait_does_not_wait_for_it(autojump_clock: MockClock) -> None:
    async with stage(host=host(), model=model(limited(9.0))) as s:
        s.agent.followup("a")
        await trio.sleep(1)
        await s.handle.dispose(keep_inbox=True)
        assert trio.current_time() == 1
        assert s.ends == ["aborted disposed"]
        assert s.errors == []


@pytest.mark.rule("Q6", "D6")
async def test_steering_during_the_wait_comes_with_the_step_after_the_retry(autojump_clock: MockClock) -> None:
    async with stage(host=host(), model=model(limited(3.0), "one", "two")) as s:
        s.agent.followup("a")
        await trio.sleep(1)
        s.agent.steer("b")
        await s.agent.when_idle()
        assert s.requests == [["user a"], ["user a"], ["user a", "assistant 'one'", "user b"]]
        assert trio.current_time() == 3


@pytest.mark.rule("C8")
async def test_a_cancel_that_races_the_end_of_the_wait_wins(autojump_clock: MockClock) -> None:
    gate = Gate()

    async def look(failed: Any, proceed: Any) -> Any:
        decided = await proceed()
        await gate.wait()
        return decided

    async with stage(host=Host(checks=True, retries=None), model=model(SERVER, "fine")) as s:
        install_retries(s.agent.scope, Retries(lambda: 0.5))
        s.agent.scope.on(REQUEST_ERROR, look)
        s.agent.followup("a")
        await gate.reached()
        s.agent.cancel()
        gate.open()
        await s.agent.when_idle()
        assert (len(s.requests), s.ends, s.errors) == (1, ["aborted user"], [])
