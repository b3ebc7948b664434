"""The two pending lists (contract §3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage import Gate, Stage, note, settled, stage, talk
from treadle import Answer, Call, DuplicateMessage, MisuseError, SessionCorrupt, Text, UserMessage, tool
from treadle.hooks import INBOX_INSERTED
from treadle.kernel.pending import Inbox, normalize
from treadle.session import InboxSpliced


def queue(s: Stage, *texts: str, target: Any = "next-turn") -> None:
    for text in texts:
        s.agent.inbox.append(target, note(text))


@pytest.mark.rule("I1")
async def test_an_id_is_unique_over_both_lists_and_a_second_one_changes_nothing() -> None:
    async with stage() as s:
        s.agent.send(note("a"), "next-turn", wakeup=False)
        before = s.full_log
        for again in (
            lambda: s.agent.inject(note("a")),
            lambda: s.agent.followup(note("a")),
            lambda: s.agent.inbox.append("next-step", note("a")),
            lambda: s.agent.inbox.splice("next-step", 0, 0, [note("b"), note("b")]),
        ):
            with pytest.raises(DuplicateMessage, match="already pending, claimed or recorded"):
                again()
        assert (s.full_log, s.pending, s.agent.status) == (before, (["a"], []), "idle")


@pytest.mark.rule("I1")
async def test_a_claimed_and_a_recorded_id_are_refused() -> None:
    gate = Gate()
    async with stage(talk(gate, "x")) as s:
        s.agent.followup(note("a"))
        with pytest.raises(DuplicateMessage):
            s.agent.steer(note("a"))
        await gate.reached()
        with pytest.raises(DuplicateMessage):
            s.agent.steer(note("a"))
        gate.open()
        await s.agent.when_idle()
        with pytest.raises(DuplicateMessage) as caught:
            s.agent.followup(note("a"))
        assert caught.value.message_id == "a"


@pytest.mark.rule("I1", "D8")
async def test_a_discarded_or_aborted_message_may_be_sent_again() -> None:
    async with stage("one") as s:
        s.agent.send(note("a"), "next-turn", wakeup=False)
        s.agent.inbox.remove("a")
        s.agent.followup(note("a"))
        s.agent.cancel()
        await s.agent.when_idle()
        await s.ask("a")
        assert (s.ends, s.requests) == (["aborted user", "completed"], [["user a"]])


@pytest.mark.rule("I1", "I2")
async def test_replacing_by_an_id_that_is_pending_elsewhere_is_refused() -> None:
    async with stage() as s:
        queue(s, "a", "b")
        with pytest.raises(DuplicateMessage):
            s.agent.inbox.replace("a", note("b"))
        assert s.pending == (["a", "b"], [])


@pytest.mark.rule("I2")
async def test_append_and_prepend_put_at_the_ends_and_wake_nobody() -> None:
    async with stage() as s:
        queue(s, "b", "c")
        s.agent.inbox.prepend("next-turn", note("a"))
        s.agent.inbox.prepend("next-step", note("s"))
        assert s.pending == (["a", "b", "c"], ["s"])
        assert s.agent.status == "idle"
        assert s.inbox_log[-2:] == ["next-turn @0 +a", "next-step @0 +s"]


@pytest.mark.rule("I2")
async def test_text_becomes_a_message_under_a_fresh_id() -> None:
    async with stage() as s:
        s.agent.inbox.append("next-turn", "one")
        s.agent.inbox.append("next-turn", "one")
        first, second = s.agent.inbox.next_turn
        assert first.text == second.text == "one"
        assert first.id != second.id


@pytest.mark.rule("I2", "I4")
async def test_replace_keeps_the_place_and_says_whether_the_message_was_pending() -> None:
    async with stage() as s:
        queue(s, "a", "b", "c")
        assert s.agent.inbox.replace("b", note("x")) is True
        assert s.agent.inbox.replace("b", note("y")) is False
        assert s.pending == (["a", "x", "c"], [])
        assert s.inbox_log[-1] == "next-turn @1 -1 +x canceled"
        assert s.notices[-2:] == ["discarded b", "inserted x"]


@pytest.mark.rule("I4", "I3")
async def test_replacing_a_message_by_itself_changed_is_an_edit() -> None:
    async with stage() as s:
        receipt = s.agent.send(note("a"), "next-turn", wakeup=False)
        assert s.agent.inbox.replace("a", UserMessage("a", (Text("edited"),))) is True
        assert s.inbox_log[-1] == "next-turn @0 -1 +edited"
        assert s.notices[-1] == "updated edited"
        assert receipt.fate is None


@pytest.mark.rule("I2")
async def test_remove_searches_both_lists_and_says_whether_the_message_was_pending() -> None:
    async with stage() as s:
        queue(s, "a", "b")
        queue(s, "s", target="next-step")
        assert [s.agent.inbox.remove(one) for one in ("s", "a", "a", "unknown")] == [True, True, False, False]
        assert s.pending == (["b"], [])


@pytest.mark.rule("I2", "I3", "I10")
@pytest.mark.parametrize(
    ("start", "count", "resolved", "taken"),
    [
        (0, 0, 0, 0),
        (1, 1, 1, 1),
        (-1, 5, 2, 1),
        (-9, 2, 0, 2),
        (9, 9, 3, 0),
        (0, 99, 0, 3),
        (1, -4, 1, 0),
    ],
)
async def test_splice_takes_coordinates_as_javascript_does_and_records_them_normalized(
    start: int, count: int, resolved: int, taken: int
) -> None:
    async with stage() as s:
        queue(s, "a", "b", "c")
        removed = s.agent.inbox.splice("next-turn", start, count, [note("x")])
        assert [one.text for one in removed] == ["a", "b", "c"][resolved : resolved + taken]
        recorded = s.facts(InboxSpliced)[-1]
        assert (recorded.start, recorded.removed_count) == (resolved, taken)
        assert normalize(3, start, count) == (resolved, taken)


@pytest.mark.rule("I2")
async def test_an_operation_that_changes_nothing_records_and_tells_nothing() -> None:
    async with stage() as s:
        queue(s, "a")
        before, told = s.full_log, list(s.told)
        s.agent.inbox.splice("next-turn", 0, 0)
        s.agent.inbox.splice("next-step", 5, 5)
        s.agent.inbox.splice("next-turn", 0, 1, [note("a")])
        s.agent.inbox.remove("unknown")
        s.agent.inbox.replace("a", note("a"))
        s.agent.inbox.clear()
        s.agent.inbox.clear()
        assert s.full_log == [*before, "inbox next-turn @0 -1 canceled"]
        assert s.told == [*told, "inbox next-turn @0 -1 canceled", "~discarded a"]


@pytest.mark.rule("I2")
async def test_coordinates_and_targets_that_are_none_are_refused() -> None:
    async with stage() as s:
        for start, count in ((0.5, 0), (0, "1"), (True, 0)):
            with pytest.raises(MisuseError, match="whole number"):
                s.agent.inbox.splice("next-turn", start, count)  # type: ignore[arg-type]
        with pytest.raises(MisuseError, match="next-turn' or 'next-step"):
            s.agent.inbox.append("now", note("a"))  # type: ignore[arg-type]
        assert s.full_log == []


@pytest.mark.rule("I3", "I4")
async def test_a_change_is_recorded_before_anyone_is_told() -> None:
    async with stage() as s:
        queue(s, "a")
        assert s.told == ["inbox next-turn @0 +a", "~inserted a"]


@pytest.mark.rule("I3")
async def test_a_removal_is_marked_canceled_and_a_claim_is_not() -> None:
    async with stage("one") as s:
        queue(s, "x")
        s.agent.inbox.remove("x")
        await s.ask("a")
        assert [fact.outcome for fact in s.facts(InboxSpliced)] == [None, "canceled", None, None]


@pytest.mark.rule("I3", "D7")
async def test_what_an_operation_puts_into_next_step_is_passive_and_a_replaced_steer_still_presses() -> None:
    gate = Gate()
    async with stage(talk(gate, "one"), talk("two")) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.steer(note("s"))
        queue(s, "p", target="next-step")
        assert s.agent.inbox.replace("s", note("t"))
        s.agent.inbox.remove("p")
        queue(s, "q", target="next-step")
        gate.open()
        await s.agent.when_idle()
        assert s.requests[1][-2:] == ["user t", "user q"]
        queue(s, "r", target="next-step")
        assert s.agent.parked == ()
        assert len(s.requests) == 2


@pytest.mark.rule("I3", "D6")
async def test_moving_a_pressing_entry_within_a_splice_keeps_that_it_presses() -> None:
    gate = Gate()
    async with stage(talk(gate, "one"), talk("two")) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.steer(note("s"))
        s.agent.inbox.splice("next-step", 0, 1, [note("p"), note("s")])
        assert s.inbox_log[-1] == "next-step @0 -1 +p +s"
        gate.open()
        await s.agent.when_idle()
        assert s.requests[1][-2:] == ["user p", "user s"]


@pytest.mark.rule("I4")
async def test_claims_are_told_per_message_with_their_turn() -> None:
    async with stage("one") as s:
        s.agent.inject(note("i"))
        await s.ask("a")
        assert [told for told in s.notices if told.startswith("claimed")] == ["claimed i 1", "claimed a 1"]


@pytest.mark.rule("I5", "N2")
async def test_next_turn_entries_are_claimed_one_per_turn_and_next_step_goes_first() -> None:
    gate = Gate()
    async with stage(talk(gate, "x"), "two", "three") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        for text in ("b", "c"):
            s.agent.followup(note(text))
        s.agent.inject(note("i"))
        s.agent.inject(note("j"))
        gate.open()
        await s.agent.when_idle()
        added = [asked[len(before) :] for before, asked in zip([[], *s.requests], s.requests, strict=False)]
        assert [[line for line in new if line.startswith("user")] for new in added] == [
            ["user a"],
            ["user i", "user j", "user b"],
            ["user c"],
        ]


@pytest.mark.rule("I5", "N2", "D6")
async def test_five_steers_and_five_followups_during_one_call_all_arrive_unmerged() -> None:
    gate = Gate()

    @tool
    async def slow() -> None:
        await gate.wait()

    async with stage(Answer(calls=[Call("slow")]), tools=[slow]) as s:
        s.agent.followup(note("go"))
        await gate.reached()
        for index in range(5):
            s.agent.steer(note(f"s{index}"))
            s.agent.followup(note(f"f{index}"))
        gate.open()
        await s.agent.when_idle()
        assert [line for line in s.log if line.startswith("user")] == [
            "user go",
            *[f"user s{index}" for index in range(5)],
            *[f"user f{index}" for index in range(5)],
        ]
        assert len(s.requests) == 2 + 5


@pytest.mark.rule("I6")
async def test_the_live_lists_equal_the_fold_of_the_log_after_every_operation() -> None:
    def folded() -> tuple[list[str], list[str]]:
        inbox = Inbox()
        for entry in s.agent.session.events:
            if isinstance(entry.data, InboxSpliced):
                inbox.fold(entry.data, entry.seq)
        lists = inbox.messages()
        return [one.text for one in lists["next-turn"]], [one.text for one in lists["next-step"]]

    async with stage("one", "two") as s:
        for act in (
            lambda: queue(s, "a", "b", "c"),
            lambda: s.agent.inbox.prepend("next-step", note("s")),
            lambda: s.agent.inbox.splice("next-turn", -2, 1, [note("x"), note("y")]),
            lambda: s.agent.inbox.replace("y", note("z")),
            lambda: s.agent.inbox.remove("a"),
            lambda: s.agent.steer(note("go")),
        ):
            act()
            assert folded() == s.pending
        await s.agent.when_idle()
        assert folded() == s.pending == ([], [])


@pytest.mark.rule("I6")
@pytest.mark.parametrize(
    ("splice", "words"),
    [
        (InboxSpliced("next-turn", 1, 0, (note("b"),)), "does not fit 0 pending"),
        (InboxSpliced("next-turn", 0, 1), "does not fit"),
        (InboxSpliced("next-turn", -1, 0, (note("b"),)), "does not fit"),
        (InboxSpliced("next-turn", 0, -1, (note("b"),)), "does not fit"),
        (InboxSpliced("next-turn", 0), "changes nothing"),
        (InboxSpliced("next-turn", 0, 0, (note("s"),)), "'s' is pending already"),
        (InboxSpliced("next-turn", 0, 0, (note("b"), note("b"))), "'b' is pending already"),
        (InboxSpliced("later", 0, 0, (note("b"),)), "'later' is unknown"),  # type: ignore[arg-type]
    ],
)
def test_a_log_whose_splices_do_not_fold_is_refused_by_seq(splice: InboxSpliced, words: str) -> None:
    inbox = Inbox()
    inbox.fold(InboxSpliced("next-step", 0, 0, (note("s"),)), 6)
    with pytest.raises(SessionCorrupt, match=f"event 7: .*{words}") as caught:
        inbox.fold(splice, 7)
    assert caught.value.seq == 7


@pytest.mark.rule("I6")
def test_an_index_that_disagrees_with_the_lists_is_noticed() -> None:
    inbox = Inbox(ids={"ghost": "next-turn"})
    with pytest.raises(AssertionError, match="indexed but not listed"):
        inbox.locate("ghost")


@pytest.mark.rule("I7")
async def test_clear_drops_next_step_first_and_then_next_turn_as_cancellations() -> None:
    async with stage() as s:
        queue(s, "a", "b")
        queue(s, "s", target="next-step")
        s.agent.inbox.clear()
        assert s.inbox_log[-2:] == ["next-step @0 -1 canceled", "next-turn @0 -2 canceled"]
        assert s.notices[-3:] == ["discarded s", "discarded a", "discarded b"]


# --- update_inbox (I9) ------------------------------------------------------------------------------------------------


@pytest.mark.rule("I9", "I4")
async def test_an_edit_keeps_id_and_place_in_one_splice_without_outcome() -> None:
    async with stage() as s:
        queue(s, "a", "b")
        assert s.agent.update_inbox("a", "edit", "changed") == "applied"
        assert s.agent.update_inbox("a", "edit", (Text("twice"),)) == "applied"
        assert s.pending == (["twice", "b"], [])
        assert s.inbox_log[-2:] == ["next-turn @0 -1 +changed", "next-turn @0 -1 +twice"]
        assert s.notices[-2:] == ["updated changed", "updated twice"]
        assert s.agent.inbox.next_turn[0].id == "a"


@pytest.mark.rule("I9")
async def test_steering_a_queued_prompt_moves_it_into_the_running_turn_in_one_commit() -> None:
    gate = Gate()
    async with stage(talk(gate, "one"), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.followup(note("q"))
        before = len(s.told)
        assert s.agent.update_inbox("q", "steer") == "applied"
        assert s.told[before:] == ["inbox next-turn @0 -1", "inbox next-step @0 +q", "~updated q"]
        gate.open()
        await s.agent.when_idle()
        assert "step/start 1.2" in s.log
        assert s.ends == ["completed"]


@pytest.mark.rule("I9", "D8")
async def test_an_update_says_why_it_did_nothing() -> None:
    gate = Gate()
    async with stage(talk(gate, "one")) as s:
        queue(s, "q")
        queue(s, "s", target="next-step")
        before = s.full_log
        assert s.agent.update_inbox("q", "steer") == "steer-unavailable"
        assert s.agent.update_inbox("s", "steer") == "not-found"
        assert s.agent.update_inbox("s", "edit", "x") == "not-found"
        assert s.agent.update_inbox("unknown", "remove") == "not-found"
        assert s.full_log == before
        s.agent.followup(note("a"))
        assert s.agent.update_inbox("q", "remove") == "not-found"
        gate.open()
        await s.agent.when_idle()


@pytest.mark.rule("I9")
async def test_a_removal_by_update_is_a_cancellation() -> None:
    async with stage() as s:
        queue(s, "q")
        assert s.agent.update_inbox("q", "remove") == "applied"
        assert s.inbox_log[-1] == "next-turn @0 -1 canceled"


@pytest.mark.rule("I9", "D3")
async def test_an_update_that_makes_no_sense_is_refused() -> None:
    async with stage() as s:
        queue(s, "q")
        before = s.full_log
        with pytest.raises(MisuseError, match="needs the new content"):
            s.agent.update_inbox("q", "edit")
        with pytest.raises(MisuseError, match="'edit', 'remove' or 'steer'"):
            s.agent.update_inbox("q", "burn")  # type: ignore[arg-type]
        with pytest.raises(MisuseError, match="UTF-8"):
            s.agent.update_inbox("q", "edit", "\ud800")
        with pytest.raises(MisuseError, match="content blocks"):
            s.agent.update_inbox("q", "edit", ())
        assert s.full_log == before


@pytest.mark.rule("I10")
async def test_claiming_is_not_public() -> None:
    async with stage() as s:
        public = {name for name in dir(s.agent.inbox) if not name.startswith("_")}
        assert public == {"append", "clear", "next_step", "next_turn", "prepend", "remove", "replace", "splice"}


@pytest.mark.rule("I5", "L2")
async def test_a_message_claimed_by_its_own_wake_can_no_longer_be_removed() -> None:
    removed: list[bool] = []
    async with stage("one") as s:
        s.agent.scope.on(INBOX_INSERTED, lambda told: removed.append(s.agent.inbox.remove(told.message.id)))
        await s.ask("a")
        await settled()
        assert removed == [False]
        assert s.requests == [["user a"]]
