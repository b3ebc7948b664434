"""What is played with a user's agent: prompts, what the model answers to each, and what people do meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from treadle import Answer, Call, Failure, MisuseError
from treadle.testing import Script

if TYPE_CHECKING:
    from .world import World

Meanwhile = Callable[["World"], object]
"""Something that somebody does, at a moment when the agent waits for it: a synchronous function of the world."""


@frozen(init=False)
class Turn:
    """One prompt, and what the model answers until the turn is over.

    Attributes:
        prompt: what is asked; each turn of a scenario asks something else, since the model knows the turn by it.
        answers: what the model answers, one per step: text, an ``Answer``, a ``Failure``, or a function of the request
            that gives one. After the last one it says "Done."; a call that was broken off is made again when it is
            asked to go on.
        meanwhile: done one after the other, each when the agent can go on only by somebody's doing: an approval, say.
    """

    prompt: str
    answers: tuple[Script, ...]
    meanwhile: tuple[Meanwhile, ...]

    def __init__(self, prompt: str, *answers: Script, meanwhile: Iterable[Meanwhile] = ()) -> None:
        if not prompt:
            raise MisuseError("a turn needs a prompt")
        self.__attrs_init__(prompt, answers, tuple(meanwhile))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def _turns(given: Iterable[Turn | str]) -> tuple[Turn, ...]:
    return tuple([Turn(one) if isinstance(one, str) else one for one in given])


@frozen
class Scenario:
    """Turns, one after the other.

    Attributes:
        turns: the turns; text is one with no answers.
        children: what sub-agents answer, by the prompt that they are given.

    Raises:
        MisuseError: two turns have the same prompt, or there is none.
    """

    turns: tuple[Turn, ...] = field(converter=_turns)
    children: Mapping[str, Sequence[Script]] = field(factory=lambda: {})

    def __attrs_post_init__(self) -> None:
        prompts = [turn.prompt for turn in self.turns]
        if not prompts:
            raise MisuseError("a scenario needs at least one turn: Scenario([Turn('Hello', 'Hi.')])")
        for prompt in {*prompts, *self.children}:
            if prompts.count(prompt) + (prompt in self.children) > 1:
                raise MisuseError(f"two turns have the prompt {prompt!r}; the model tells turns apart by their prompts")

    @property
    def answers(self) -> dict[str, tuple[Script, ...]]:
        """What is answered to each prompt."""
        told = {prompt: tuple(answers) for prompt, answers in self.children.items()}
        return told | {turn.prompt: turn.answers for turn in self.turns}

    def smaller(self) -> Iterator[Scenario]:
        """Each scenario that lacks one thing of this one, the largest things first."""
        for at in range(len(self.turns) if len(self.turns) > 1 else 0):
            yield evolve(self, turns=self.turns[:at] + self.turns[at + 1 :])
        for prompt in self.children:
            yield evolve(self, children={key: value for key, value in self.children.items() if key != prompt})
        for at, turn in enumerate(self.turns):
            for answers in _smaller(turn.answers):
                changed = Turn(turn.prompt, *answers, meanwhile=turn.meanwhile)
                yield evolve(self, turns=(*self.turns[:at], changed, *self.turns[at + 1 :]))
        for prompt, answers in self.children.items():
            for fewer in _smaller(tuple(answers)):
                yield evolve(self, children={**self.children, prompt: fewer})

    def source(self) -> str:
        """The scenario as Python; what has no text of its own there stands as its name."""
        turns = ", ".join([_turn_source(turn) for turn in self.turns])
        if not self.children:
            return f"Scenario([{turns}])"
        told = ", ".join([f"{prompt!r}: [{_sources(answers)}]" for prompt, answers in self.children.items()])
        return f"Scenario([{turns}], children={{{told}}})"


def as_scenario(given: Scenario | Turn | str | Iterable[Turn | str]) -> Scenario:
    """A scenario of what stands for one.

    Raises:
        MisuseError: it holds something that is no turn.
    """
    if isinstance(given, Scenario):
        return given
    turns: list[Any] = [given] if isinstance(given, str | Turn) else list(given)
    for one in turns:
        if not isinstance(one, str | Turn):
            raise MisuseError(f"a scenario holds turns, not {one!r}: Turn('a prompt', 'an answer')")
    return Scenario(turns)


def _smaller(answers: tuple[Script, ...]) -> Iterator[tuple[Script, ...]]:
    """Answers without one of them, or without one of their calls."""
    for at in range(len(answers)):
        yield answers[:at] + answers[at + 1 :]
    for at, answer in enumerate(answers):
        if isinstance(answer, Answer) and len(answer.calls) > 1:
            for call in range(len(answer.calls)):
                fewer = evolve(answer, calls=answer.calls[:call] + answer.calls[call + 1 :])
                yield (*answers[:at], fewer, *answers[at + 1 :])


def _turn_source(turn: Turn) -> str:
    meanwhile = f", meanwhile=[{', '.join([_name(one) for one in turn.meanwhile])}]" if turn.meanwhile else ""
    answers = f", {_sources(turn.answers)}" if turn.answers else ""
    return f"Turn({turn.prompt!r}{answers}{meanwhile})"


def _sources(answers: Iterable[Script]) -> str:
    return ", ".join([_source(answer) for answer in answers])


def _source(answer: Any) -> str:
    match answer:
        case Answer(calls=calls) if calls:
            asked = ", ".join([_call_source(call) for call in calls])
            return _fields(answer, f"calls=[{asked}]")
        case Answer():
            return _fields(answer, "")
        case str():
            return repr(answer)
        case Failure():
            return f"Failure({answer.message!r}, {answer.code!r})"
        case _:
            return _name(answer)


def _fields(answer: Answer, calls: str) -> str:
    told = [f"{name}={getattr(answer, name)!r}" for name in ("text", "reasoning") if getattr(answer, name)]
    told += [calls] if calls else []
    told += [f"{name}={getattr(answer, name)!r}" for name in ("finish", "usage", "failure") if getattr(answer, name)]
    return f"Answer({', '.join(told)})"


def _call_source(call: Call) -> str:
    return f"Call({call.name!r}, {call.arguments!r})"


def _name(value: Any) -> str:
    return getattr(value, "__qualname__", None) or repr(value)
