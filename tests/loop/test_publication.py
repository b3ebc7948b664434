"""Commit, then publish (contract §9, H4)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.stage import Gate, line, note, stage, talk
from treadle.hooks import AGENT_STATUS, ASSISTANT_STREAM, INBOX_INSERTED, SESSION_EVENT
from treadle.session import event


@event("publication-test/remark")
class Remark(msgspec.Struct, frozen=True):
    """Something that a plugin writes into the log."""


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


@pytest.mark.rule("H4", "H3")
async def test_what_is_due_to_a_listener_that_left_is_told_to_nobody() -> None:
    heard: list[str] = []

    def once(told: Any) -> None:
        heard.append(type(told).__name__)
        stop()

    for point, expected in ((SESSION_EVENT, "SessionEventAdded"), (ASSISTANT_STREAM, "AssistantStream")):
        heard.clear()
        async with stage("one", listen=False) as s:
            stop = s.agent.scope.on(point, once)
            await s.ask("a")
            assert heard == [expected]
            assert s.ends == ["completed"]


@pytest.mark.rule("L3", "H4")
async def test_nothing_is_told_as_parked_once_a_listener_has_woken_the_agent_again() -> None:
    gate = Gate()

    def wake(told: Any) -> None:
        if told.status == "idle" and not s.ends[1:]:
            s.agent.followup(note("c"))

    async with stage(talk("x", gate), "two", "three") as s:
        s.agent.scope.on(AGENT_STATUS, wake)
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.followup(note("b"))
        s.agent.cancel(keep_inbox=True)
        await s.agent.when_idle()
        assert s.ends == ["aborted user", "completed", "completed"]
        assert not [told for told in s.notices if told.startswith("parked")]


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
    def append(told: Any) -> None:
        if told.event.type == "turn/start":
            s.agent.session.append(Remark())

    async with stage("one") as s:
        s.agent.scope.on(SESSION_EVENT, append)
        await s.ask("a")
        told = [text for text in s.told if not text.startswith("~")]
        assert told == s.full_log
        assert "publication-test/remark" in told
