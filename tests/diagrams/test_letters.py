"""What became of each message: the inbox lane and the transcript stand on it."""

import pytest

from tests.diagrams.logs import Log, medley, scripted
from treadle import Text, UserMessage
from treadle.models import HookSource, ToolSource
from treadle.words import events as ev
from treadle.words import reasons
from treadle.words.messages import USER
from treadle_diagrams.log.letters import Letter, letters_of


def by_text(name: str) -> dict[str, Letter]:
    return {letter.text: letter for letter in letters_of(scripted(name))}


@pytest.mark.rule("N2", "I5")
def test_every_message_that_entered_was_accepted_claimed_and_entered_in_that_order():
    letters = letters_of(medley())
    entered = [letter for letter in letters if letter.fate == "entered"]
    assert len(entered) > 40
    for letter in entered:
        assert letter.claimed is not None
        assert letter.settled is not None
        assert letter.accepted.seq < letter.claimed.seq < letter.settled.seq
        assert letter.turn is not None


@pytest.mark.rule("N2")
def test_no_letter_is_missing_and_none_is_told_twice():
    inserted = [
        message.id for entry in medley() if isinstance(entry.data, ev.InboxSpliced) for message in entry.data.inserted
    ]
    assert sorted(dict.fromkeys(inserted)) == sorted(letter.id for letter in letters_of(medley()))


def test_a_prompt_queued_behind_others_waits_for_its_turn():
    letters = by_text("queued-messages")
    assert [letters[text].turn for text in ("one", "two", "three")] == [1, 2, 3]
    assert {letters[text].way for text in ("one", "two", "three")} == {"prompt"}


@pytest.mark.rule("D7")
def test_what_came_to_an_idle_agent_without_waking_it_was_injected():
    letters = by_text("queued-messages")
    assert letters["By the way"].way == letters["And another thing"].way == "injected"


@pytest.mark.rule("D6")
def test_what_came_during_a_turn_and_forced_a_step_is_steering():
    assert by_text("steering")["sooner, please"].way == "steering"
    assert by_text("steering")["Still there?"].way == "steering"


@pytest.mark.rule("D7")
def test_what_was_still_pending_when_a_turn_ended_by_itself_was_injected():
    log = Log().open("hello")
    log.ask("by the way", target="next-step")
    log.answer("hi").close()
    assert letters_of(log.events)[1].way == "injected"


def test_what_tools_and_hooks_hand_over_is_context():
    log = Log().open("hello")
    log.ask("see also", target="next-step", source=ToolSource("c1"))
    log.ask("mind this", target="next-step", source=HookSource("guard"))
    assert [letter.way for letter in letters_of(log.events)] == ["prompt", "context", "context"]
    assert [letter.sender for letter in letters_of(log.events)] == ["you", "tool c1", "hook guard"]


@pytest.mark.rule("I3")
def test_a_message_that_a_cancel_cleared_was_discarded():
    assert by_text("cancel-while-streaming")["never seen"].fate == "discarded"


def test_a_message_that_a_hook_took_out_was_left_out():
    letters = by_text("edited-batches")
    assert letters["drop this one"].fate == letters["drop this, too"].fate == "left out"
    assert letters["keep this one"].fate == "entered"


@pytest.mark.rule("H10")
def test_a_blocked_prompt_is_told_as_blocked_and_its_companion_entered():
    letters = by_text("blocked-prompts")
    assert letters["my secret"].fate == "blocked"
    assert letters["a companion"].fate == "entered"


@pytest.mark.rule("C6")
def test_a_prompt_whose_turn_was_aborted_before_its_step_says_so():
    log = Log()
    log.ask("hello")
    log.add(ev.TurnStart(1), ev.InboxSpliced("next-turn", 0, 1), ev.TurnEnd(1, reasons.Aborted(reasons.ByUser())))
    assert letters_of(log.events)[0].fate == "aborted"


@pytest.mark.rule("I9")
def test_an_edited_message_keeps_its_letter_and_has_its_new_text():
    letters = by_text("inbox-editing")
    assert letters["queued zero, edited"].id == "q0"
    assert len(letters["queued zero, edited"].changes) == 1
    assert letters["queued 1"].fate == letters["queued 2"].fate == letters["dropped"].fate == "discarded"


@pytest.mark.rule("I9")
def test_a_queued_message_that_is_steered_moves_and_is_not_claimed_twice():
    log = Log().open("hello")
    queued = log.ask("later")
    log.add(ev.InboxSpliced("next-turn", 0, 1), ev.InboxSpliced("next-step", 0, 0, (queued,)))
    log.answer("hi").go_on(queued).close()
    letter = letters_of(log.events)[1]
    assert (letter.way, letter.fate, letter.target, len(letter.changes)) == ("steering", "entered", "next-step", 1)
    assert letter.claimed is not None
    assert letter.claimed.seq > letter.changes[0].seq


@pytest.mark.rule("I1")
def test_an_id_that_was_discarded_and_sent_again_is_a_letter_of_its_own():
    log = Log()
    first = UserMessage("same", (Text("once"),), USER)
    again = UserMessage("same", (Text("twice"),), USER)
    log.add(ev.InboxSpliced("next-turn", 0, 0, (first,)), ev.InboxSpliced("next-turn", 0, 1, (), "canceled"))
    log.add(ev.InboxSpliced("next-turn", 0, 0, (again,)))
    assert [(letter.text, letter.fate) for letter in letters_of(log.events)] == [
        ("once", "discarded"),
        ("twice", "pending"),
    ]
