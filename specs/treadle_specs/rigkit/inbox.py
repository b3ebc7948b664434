"""A rig with the inbox of the contract, for a driver that has none of its own: what is sent is kept, claimed and dropped here."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from .framework import user
from .refusals import Refused
from .rig import Engine, Json, Rig


class InboxRig(Rig):
    """Subclasses write ``drive``: one activity, of one turn or several.

    Attributes:
        history: the messages of a request.
        turn: its number.
        step: its number within the turn.
        cause: why the activity is being cancelled; none when it is not.
        pressing: whether steering waits that asks for another step.
        begun: whether the task has taken its first step; one that is cancelled before would never end.
    """

    def __init__(self, engine: Engine | None = None) -> None:
        super().__init__(engine)
        self.history: list[Json] = []
        self.turn = self.step = 0
        self.cause: str | None = None
        self.begun = False
        self.task: Any = None
        self._texts: dict[str, str] = {}
        self._pressing: set[str] = set()
        self._recorded: set[str] = set()
        self._claimed: list[str] = []
        self._latched = self._disposing = self._keep = False

    @property
    def pressing(self) -> bool:
        """See the class."""
        return bool(self._pressing)

    def drive(self) -> Coroutine[Any, Any, None]:
        """The activity: its first turn is open, and ``finished`` is called at its end."""
        raise NotImplementedError

    # --- verbs --------------------------------------------------------------------------------------------------------

    def do_deliver(self, request: Json) -> None:
        """A message is accepted; it may begin an activity."""
        one, box, wakes = request["message"]["id"], request["target"], request["wakeup"]
        if self._disposing:
            raise Refused("disposed")
        if one in self._recorded or one in self._claimed or any(one in pending for pending in self.boxes.values()):
            raise Refused("duplicate-message")
        if self.cause and wakes:
            box, self._latched = "next-turn", True
        self._texts[one] = request["message"]["text"]
        self.splice(box, len(self.boxes[box]), 0, [one])
        if wakes and box == "next-step":
            self._pressing.add(one)
        if wakes and not self.running:
            self._start()

    def do_cancel(self, request: Json, cause: str | None = None) -> None:
        """What is pending is dropped, unless it is to be kept, and the activity is stopped."""
        if self._disposing and cause is None:
            return
        if not request.get("keep_inbox"):
            self._latched = False
            for box in ("next-step", "next-turn"):
                self.splice(box, 0, len(self.boxes[box]), outcome="canceled")
        if self.running and self.cause is None:
            self.cause, self._keep = cause or request.get("cause", "user"), request.get("keep_inbox", False)
            self.hide_gates()
            self.note("cancel-requested", cause=self.cause)
            if self.begun:
                self.task.cancel()

    def do_dispose(self, request: Json) -> None:
        """Everything is cancelled, and nothing is accepted any more."""
        if not self._disposing:
            self.do_cancel(request, "disposed")
            self._disposing = True
            if not self.running:
                self.note("disposed")

    # --- for the activity ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.running, self._latched, self.begun = True, False, False
        self.note("status", status="running")
        self._open_turn()
        self.task = self.engine.spawn(self.drive())

    def _open_turn(self) -> None:
        self.turn, self.step = self.turn + 1, 0
        self.log("turn/start", turn=self.turn)
        self.claim(1)

    def claim(self, turns: int = 0) -> None:
        """Take all steering, and so many queued messages."""
        self._claimed += self.splice("next-step", 0, len(self.boxes["next-step"]))
        self._claimed += self.splice("next-turn", 0, turns)
        self._pressing.clear()

    def record_claimed(self) -> None:
        """What was claimed is in the log and in the history from now on."""
        for one in self._claimed:
            if one not in self._recorded:
                self._recorded.add(one)
                self.log("user/message", message=one, text=self._texts[one])
                self.history.append(user(self._texts[one]))

    def end_turn(self, **reason: Any) -> bool:
        """End the turn, and open the next one if a message is queued; returns whether it did."""
        if self._keep:
            self.record_claimed()
        self.log("turn/end", turn=self.turn, **reason)
        self._claimed = []
        goes_on = bool(self.boxes["next-turn"]) and self.cause is None
        if goes_on:
            self._open_turn()
        return goes_on

    def finished(self) -> None:
        """The activity is over; what was asked for meanwhile begins another one."""
        self.running, self.cause, self._keep = False, None, False
        self.note("status", status="idle")
        if self._disposing:
            self.note("disposed")
        elif self._latched and self.boxes["next-turn"]:
            self._start()
