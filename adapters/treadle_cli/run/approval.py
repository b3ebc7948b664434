"""Who approves the calls that ask for it: the person at the terminal, or nobody."""

from __future__ import annotations

import trio
from attrs import define, field

from treadle.hooks import ToolProposal

from .screen import Screen

WORDS = {"y": True, "yes": True, "n": False, "no": False}
"""What may be answered; ``a`` approves all further calls of the tool as well."""


@define(eq=False)
class _Question:
    tool: str
    answered: trio.Event = field(factory=trio.Event)
    approved: bool = False


class Approval:
    """Asks on a screen, one question after the other; the next line that is ``y``, ``n`` or ``a`` answers.

    Args:
        screen: where it asks.
        everything: approve all calls without asking.

    Attributes:
        present: whether somebody is there to answer; where nobody is, nothing is approved.
    """

    def __init__(self, screen: Screen, *, everything: bool = False) -> None:
        self.present = False
        self._screen = screen
        self._everything = everything
        self._always: set[str] = set()
        self._open: list[_Question] = []

    async def __call__(self, proposal: ToolProposal, question: str) -> bool:
        """See ``Host(approver=…)``."""
        name = proposal.call.name
        if self._everything or name in self._always:
            return True
        if not self.present:
            self._screen.note(
                ("  not approved: ", "yellow"),
                (f"nobody is here to be asked ({name}); --yes approves all calls", "dim"),
            )
            return False
        asked = _Question(name)
        self._open.append(asked)
        try:
            self._screen.note(("? ", "bold yellow"), question, ("  y, n, or a for always", "dim"))
            await asked.answered.wait()
        finally:
            self._open.remove(asked)
        return asked.approved

    def answer(self, line: str) -> bool:
        """Take a line as the answer to the question that is open; returns whether it was one."""
        word = line.strip().lower()
        if not self._open or (word not in WORDS and word != "a"):
            return False
        asked = next((one for one in self._open if not one.answered.is_set()), None)
        if asked is None:
            return False
        if word == "a":
            self._always.add(asked.tool)
        asked.approved = WORDS.get(word, True)
        asked.answered.set()
        return True
