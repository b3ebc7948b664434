"""The model of the contract as a graph, small enough for another engine: its states, who moves between them, and what is seen.

The walk is over the model alone; exploration shows that the kernel goes the same ways. States that no claim can tell apart,
now or after any further steps, are merged (bisimulation), so that the graph may be read and checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import frozen

from treadle import TreadleError
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i

from ..model.agent import CONVERGING, IDLE, MAINTAINING
from ..model.model import Model
from .alphabet import CALLS, Alphabet
from .lockstep import canonical

CALLER, AGENT, ON = "caller", "agent", "on"
"""Who takes a step: a caller, the agent by itself, or the agent when it asks for more (another attempt, more calls)."""

_ON = (i.Retried, i.CallStarted, i.CallRefused)


@frozen
class Seen:
    """What the claims speak of.

    Attributes:
        state: of the lifecycle.
        wanted: a wake was accepted that found nobody, and nothing has taken its work away (D4, D5).
        held_back: admission is held back (O0, D8).
        taken: the message ``m1`` is in a batch that a turn took, and has met no fate (I5).
        replays: what waits is about to be read again (H4).
    """

    state: str
    wanted: bool
    held_back: bool
    taken: bool
    replays: bool


@frozen
class Step:
    """A step that can be taken: by whom, what it is called, and where it leads."""

    who: str
    name: str
    to: int


@frozen
class Space:
    """States by number, the first of them the empty agent.

    Attributes:
        seen: what each state looks like.
        steps: what can be done in each; a step that changes nothing is none.
        walked: how many states of the model these stand for, and how many steps.
    """

    seen: tuple[Seen, ...]
    steps: tuple[tuple[Step, ...], ...]
    walked: tuple[int, int]


@frozen
class _Place:
    model: Model
    reread: bool = False
    wanted: bool = False

    @property
    def key(self) -> Any:
        return canonical(self.model), self.reread, self.wanted

    @property
    def seen(self) -> Seen:
        model = self.model
        taken = any([message.id == "m1" for message in model.claimed + model.accepted])
        return Seen(model.state, self.wanted, model.held_back, taken, self.reread)

    def after(self, given: i.Input) -> _Place | None:
        """Where an input leads, ``None`` when it is refused."""
        model = self.model.copy()
        try:
            effects = model.receive(given)
        except TreadleError:
            return None
        for effect in effects:
            if type(effect) is fx.Settle:
                model.recorded -= {effect.message_id}
                model.here -= {effect.message_id}
        reread = any([type(effect) is fx.Reread for effect in effects]) or (
            self.reread and type(given) is not i.Replayed
        )
        return _Place(model, reread, wanted_after(self.model, self.wanted, given, model))


def wanted_after(before: Model, wanted: bool, given: i.Input, after: Model) -> bool:
    """Whether a wake waits that must be served, told from what was asked and from what is pending (L2, D4, D5, M2).

    It is the claim's own book: nothing of what the model latches is read.
    """
    if isinstance(given, i.Deliver) and given.wakeup and before.state in (IDLE, CONVERGING, MAINTAINING):
        wanted = wanted or not (given.own and before.cause is not None)
    elif isinstance(given, i.Cancel) and not given.keep_inbox:
        wanted = False
    return wanted and after.usable and not after.leaving and after.turn == before.turn


def statespace(alphabet: Alphabet, start: Model | None = None, *, merge: bool = True) -> Space:
    """Walk the model, and merge what no claim tells apart.

    Args:
        alphabet: what may happen.
        start: the agent to begin from; an empty one without a step limit unless given.
        merge: ``False`` keeps every state of the model.
    """
    first = _Place(start or Model(pool=2, held=True))
    places, index, todo = [first], {first.key: 0}, deque([0])
    steps: list[dict[tuple[str, int], str]] = []
    while todo:
        at = todo.popleft()
        place = places[at]
        found: dict[tuple[str, int], str] = {}
        for given in alphabet.inputs(place.model, reread=place.reread):
            after = place.after(given)
            if after is None:
                continue
            to = index.setdefault(after.key, len(places))
            if to == len(places):
                places.append(after)
                todo.append(to)
            if to != at:
                found.setdefault((_who(given), to), type(given).__name__)
        steps.append(found)
    seen = [place.seen for place in places]
    classes = _merged(seen, steps) if merge else list(range(len(places)))
    return _space(seen, steps, classes)


def _who(given: Any) -> str:
    if type(given) in CALLS:
        return CALLER
    asks = type(given) in _ON or bool(getattr(given, "calls", ())) or bool(getattr(given, "contexts", ()))
    return ON if asks else AGENT


def _merged(seen: list[Seen], steps: list[dict[tuple[str, int], str]]) -> list[int]:
    """The coarsest classes in which all states look the same and can go to the same classes."""
    classes = _numbered(seen.__getitem__, len(seen))
    while True:
        count = len(set(classes))

        def look(at: int, classes: list[int] = classes) -> Any:
            ways = frozenset([(who, classes[to]) for who, to in steps[at]])
            return classes[at], ways

        classes = _numbered(look, len(seen))
        if len(set(classes)) == count:
            return classes


def _numbered(look: Callable[[int], Any], count: int) -> list[int]:
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(look(at), len(numbers)) for at in range(count)]


def _space(seen: list[Seen], steps: list[dict[tuple[str, int], str]], classes: list[int]) -> Space:
    looks: dict[int, Seen] = {}
    ways: dict[int, dict[tuple[str, int], str]] = {}
    for at, kind in enumerate(classes):
        looks.setdefault(kind, seen[at])
        for (who, to), name in steps[at].items():
            ways.setdefault(kind, {}).setdefault((who, classes[to]), name)
    return Space(
        tuple([looks[kind] for kind in range(len(looks))]),
        tuple(
            [
                tuple([Step(who, name, to) for (who, to), name in ways.get(kind, {}).items()])
                for kind in range(len(looks))
            ]
        ),
        (len(classes), sum(map(len, steps))),
    )
