"""The properties that exploration checks, each with the rules it stands for.

The model of the contract says in full what each input leads to; these are the promises that its steps add up to.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class Property:
    """One property: what holds, the rules it stands for, and whether it is about every step or about what must come."""

    text: str
    rules: tuple[str, ...]
    liveness: bool = False


PROPERTIES: tuple[Property, ...] = (
    Property(
        "the kernel does what the model of the contract does, and whatever an input does not concern stays as it was",
        ("L1", "H4", "T1", "C3", "C7", "K4", "K6", "Q12", "T3"),
    ),
    Property("every accepted message reaches exactly one fate, and is told so", ("I5", "N2", "D8", "I4")),
    Property("the live inbox is the fold of its recorded splices", ("I6", "I3", "I2")),
    Property("turns, steps, calls and results are balanced, nested and numbered", ("L4", "T10", "N1", "N3", "K5")),
    Property("nothing of a turn follows its end", ("N4", "T10")),
    Property("status alternates and matches the state", ("L5",)),
    Property("lists are first in, first out; no message is in two turns", ("I5", "I1")),
    Property("at most one operation is owed, and it fits the state", ("L7", "L1")),
    Property("nothing is accepted or started after a dispose", ("L9", "O4")),
    Property("the first cause wins, and is told once", ("C2", "C3", "C11")),
    Property("no model request, step or turn starts under a cancel", ("C4", "C6", "C9")),
    Property("a turn ends with the reason that the contract has for it", ("T6", "T7", "T9", "T11")),
    Property("a step enters with the decided batch, recorded before its attempt", ("T0", "T1", "T2", "T12")),
    Property(
        "a turn goes on while results are owed or something presses, and only then", ("T3", "T4", "T5", "T8", "D6")
    ),
    Property("a turn opens when a wake says so, and only then", ("L2", "D4", "D7", "M2")),
    Property(
        "what must be refused is refused, nothing else is, and it changes nothing", ("L1", "L9", "M1", "D8", "I1", "K5")
    ),
    Property("what an activity leaves behind is told", ("L3", "N8")),
    Property("no wake is lost: an idle agent never holds one that nothing replays", ("L2", "D4", "D5"), liveness=True),
    Property("from every state idle or disposed is reachable without a further call", ("L7", "L8"), liveness=True),
    Property("a cancel converges: convergence goes round in no circle", ("C4", "N7"), liveness=True),
    Property("a dispose ends", ("O4", "N7"), liveness=True),
    Property(
        "maintenance starts whenever the agent is truly idle, and serves the wakes it held up",
        ("M1", "M2", "M3"),
        liveness=True,
    ),
    Property("queued prompts are not starved by steering: each new turn claims one", ("I5",), liveness=True),
)
