"""What became of each message that was accepted: when it came, when it was claimed, where it entered (§3, N2).

Follows the splices of the inbox. Steering and injection look alike in the log. So a next-step message counts as
injected when it came to an idle agent without waking it, or was still pending when a turn ended by itself: it did not
press. Any other that came during a turn counts as steering.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from attrs import define, field

from treadle import Completed, EndReason, Event, MaxTokens, UserMessage
from treadle.models import HookSource, ToolSource
from treadle.session import InboxSpliced, StepStart, TurnEnd, TurnStart, UserMessageAdded

from .clock import steadied
from .phrases import blocks_text, source_text, tag_of

Way = Literal["prompt", "steering", "injected", "context"]
"""How a message came: for a turn of its own, into the running turn, along with the next one, from a tool or hook."""


class Mark(NamedTuple):
    """A place in the log: which event, and its time in milliseconds."""

    seq: int
    time: int


@define(eq=False)
class Letter:
    """One accepted message.

    Attributes:
        id: its identity.
        text: what it says.
        sender: whose it is, as ``source_text`` names it.
        way: how it came.
        target: the list it stands in, or stood in last.
        accepted: when it came.
        claimed: when a turn took it.
        turn: the turn that took it.
        settled: when its fate was decided.
        changes: when it was edited, or moved to the other list.
        fate: ``pending``, ``claimed``, ``entered``, ``discarded``, ``left out`` by a hook, or how the turn ended
            that took it and did not let it in.
    """

    id: str
    text: str
    sender: str
    way: Way
    target: str
    accepted: Mark
    claimed: Mark | None = None
    turn: int | None = None
    settled: Mark | None = None
    changes: list[Mark] = field(factory=list[Mark])
    fate: str = "pending"


@define(eq=False)
class Mail:
    """Follows a log's messages, event by event.

    Attributes:
        letters: all that were accepted, in order.
    """

    letters: list[Letter] = field(factory=list[Letter])
    _pending: dict[str, list[Letter]] = field(factory=lambda: {"next-turn": [], "next-step": []})
    _known: dict[str, Letter] = field(factory=dict[str, Letter])
    _claimed: list[Letter] = field(factory=list[Letter])
    _turn: int | None = None
    _fresh: list[Letter] = field(factory=list[Letter])
    _fallen: list[Letter] = field(factory=list[Letter])

    def letter(self, message_id: str) -> Letter | None:
        """The letter of that id, ``None`` when it never lay in the inbox."""
        return self._known.get(message_id)

    def waiting(self) -> int:
        """How many are pending now."""
        return sum(map(len, self._pending.values()))

    def take(self, entry: Event) -> list[Letter]:
        """Follow one event; returns the letters of which it decided that they do not enter."""
        self._fallen = []
        if isinstance(entry.data, InboxSpliced):
            self._spliced(entry.data, Mark(entry.seq, entry.time))
        else:
            self._follow(entry)
            self._fresh = []
        return self._fallen

    def _follow(self, entry: Event) -> None:
        match entry.data:
            case TurnStart() as data:
                self._turn = data.turn
                for letter in self._fresh:
                    if letter.way == "injected":
                        letter.way = "steering"
            case StepStart() as data:
                self._admit(set(data.accepted), Mark(entry.seq, entry.time))
            case UserMessageAdded() as data:
                self._enter(data.message.id, Mark(entry.seq, entry.time))
            case TurnEnd() as data:
                self._end_turn(data.reason, Mark(entry.seq, entry.time))
            case _:
                pass

    def _fall(self, letter: Letter, fate: str, at: Mark) -> None:
        letter.fate, letter.settled = fate, at
        self._fallen.append(letter)

    # --- the lists ----------------------------------------------------------------------------------------------------

    def _spliced(self, data: InboxSpliced, at: Mark) -> None:
        pending = self._pending.setdefault(data.target, [])
        start = max(0, data.start)
        removed = pending[start : start + data.removed_count]
        inserted = [self._insert(message, data.target, at) for message in data.inserted]
        pending[start : start + data.removed_count] = inserted
        self._fresh = inserted
        for letter in removed:
            if letter in inserted:
                continue
            if data.outcome is not None:
                self._fall(letter, "discarded", at)
            else:
                letter.fate, letter.claimed, letter.turn = "claimed", at, self._turn
                self._claimed.append(letter)

    def _insert(self, message: UserMessage, target: str, at: Mark) -> Letter:
        known = self._known.get(message.id)
        if known is not None and known.fate in ("pending", "claimed"):
            return self._move(known, message, target, at)
        letter = Letter(
            message.id,
            blocks_text(message.content),
            source_text(message.source),
            self._way(message, target),
            target,
            at,
        )
        self._known[message.id] = letter
        self.letters.append(letter)
        return letter

    def _move(self, letter: Letter, message: UserMessage, target: str, at: Mark) -> Letter:
        """It was edited, or taken out in order to be steered (I9)."""
        letter.changes.append(at)
        if letter in self._claimed:
            self._claimed.remove(letter)
        letter.text = blocks_text(message.content)
        if letter.target != target:
            letter.target, letter.way = target, self._way(message, target)
        letter.fate, letter.claimed, letter.turn, letter.settled = "pending", None, None, None
        return letter

    def _way(self, message: UserMessage, target: str) -> Way:
        if isinstance(message.source, (ToolSource, HookSource)):
            return "context"
        if target == "next-turn":
            return "prompt"
        return "injected" if self._turn is None else "steering"

    # --- their fates --------------------------------------------------------------------------------------------------

    def _admit(self, accepted: set[str], at: Mark) -> None:
        for letter in self._claimed:
            if letter.id not in accepted:
                self._fall(letter, "left out", at)
        self._claimed = [letter for letter in self._claimed if letter.id in accepted]

    def _enter(self, message_id: str, at: Mark) -> None:
        letter = self._known.get(message_id)
        if letter is not None:
            letter.fate, letter.settled = "entered", at
            letter.turn = self._turn if letter.turn is None else letter.turn
            self._claimed = [other for other in self._claimed if other is not letter]

    def _end_turn(self, reason: EndReason, at: Mark) -> None:
        by_itself = isinstance(reason, (Completed, MaxTokens))
        for letter in self._claimed:
            self._fall(letter, "left out" if by_itself else tag_of(reason), at)
        if by_itself:
            for letter in self._pending["next-step"]:
                letter.way = "injected" if letter.way == "steering" else letter.way
        self._claimed, self._turn = [], None


def letters_of(events: Iterable[Event]) -> Sequence[Letter]:
    """The messages of a log that lay in its inbox, in the order in which they came."""
    mail = Mail()
    for entry in steadied(events):
        mail.take(entry)
    return mail.letters
