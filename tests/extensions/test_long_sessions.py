"""Sessions of thousands of turns in a window that holds a few dozen (contract §18)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.extensions.windowed import Windowed
from tests.invariants import check_reload, check_rules
from tests.stage import stage
from treadle import Answer, Call, Host, Message, ModelRequest, UserMessage, message, tool
from treadle.extensions.compaction import Compaction, SummarySource
from treadle.session import Event, Replace, Session, TurnStart

WINDOW = 32_000
KEPT = 3


class Turns:
    """A scripted model's side of a long session: what each turn says, and what its requests must hold.

    Attributes:
        turn: the number of the turn that runs.
        prompts: what was asked, by turn.
        pinned: ids of the messages that must be in every request from their turn on.
        looked: how many requests were held to this.
    """

    def __init__(self, seed: int, most_steps: int = 3) -> None:
        self.chance = random.Random(seed)
        self.turn = 0
        self.prompts: list[UserMessage] = []
        self.pinned: list[str] = []
        self.said: list[list[Message]] = []
        self.looked = self.steps = 0
        self.most_steps = most_steps

    def next(self) -> UserMessage:
        """The prompt of the next turn; every hundredth is pinned."""
        self.turn += 1
        self.steps = 0
        words = "word " * self.chance.randint(5, 400)
        pinned = self.turn % 100 == 1
        prompt = message(f"turn {self.turn}: {words}", id=f"t{self.turn}", pinned=pinned)
        if pinned:
            self.pinned.append(prompt.id)
        self.prompts.append(prompt)
        return prompt

    def answer(self, request: ModelRequest) -> Answer:
        """Call tools a few times, then answer; the request is looked at first."""
        self.look(request.messages)
        self.steps += 1
        if self.steps <= self.most_steps and self.chance.random() < 0.5:
            calls = [Call("look", {"much": self.chance.randint(1, 500)}) for _ in range(self.chance.randint(1, 3))]
            return Answer("I look.", calls=tuple(calls))
        return Answer(f"answer {self.turn} " + "said " * self.chance.randint(5, 300))

    def look(self, messages: Any) -> None:
        """Pinned messages and the last three turns are there as they were, in their order."""
        self.looked += 1
        ids = [one.id for one in messages if isinstance(one, UserMessage) and one.id[0] == "t"]
        wanted = [*self.pinned, *[one.id for one in self.prompts[-KEPT - 1 :] if one.id not in self.pinned]]
        assert set(wanted) <= set(ids), f"turn {self.turn}: {set(wanted) - set(ids)} are gone"
        assert ids == sorted(ids, key=lambda name: int(name[1:]))
        place = next(n for n, one in enumerate(messages) if getattr(one, "id", "") == self.prompts[-KEPT - 1 :][0].id)
        tail = list(messages)[place:]
        if self.said and len(self.said[-1]) > 1:
            assert tail[: len(self.said[-1])] == self.said[-1]

    def over(self, session: Session) -> None:
        """A turn is over: the next request begins its last turns as they are now."""
        first = self.prompts[-KEPT:][0].id
        history = list(session.history())
        place = next(n for n, one in enumerate(history) if getattr(one, "id", "") == first)
        self.said.append(history[place:])


@tool
async def look(much: int) -> str:
    """Look at something."""
    return "sight " * much


async def run(turns: int, seed: int, model: Windowed, script: Turns, **options: Any) -> list[Event]:
    host = Host()
    Compaction(**options).install(host)
    async with stage(model=model, host=host, tools=[look], listen=False) as s:
        s.agent.system_prompt = "Be brief."
        for _ in range(turns):
            s.agent.followup(script.next())
            await s.agent.when_idle()
            script.over(s.agent.session)
        ends = [entry for entry in s.ends if entry != "completed"]
        assert ends == []
        check_rules(s.agent.session.events)
        check_reload(s.agent.session)
        model.requests.clear()
        return list(s.agent.session.events)


@pytest.mark.slow
@pytest.mark.rule("Z1", "Z2", "Z3", "Z5", "Z6", "N1")
@pytest.mark.parametrize("rate", [1.0, 1.4])
async def test_two_thousand_turns_fit_a_window_of_32k(rate: float) -> None:
    script = Turns(7)
    model = Windowed(WINDOW, script.answer, lambda _: "They went on. " * 60, rate=rate)
    events = await run(2_000, 7, model, script)
    assert sum(isinstance(entry.data, TurnStart) for entry in events) == 2_000
    assert model.refused == 0
    summaries = [entry for entry in events if isinstance(entry.surface_op, Replace)]
    assert len(summaries) > 20
    assert script.looked > 2_500
    assert {entry.data.message.source.why for entry in summaries} <= {"share", "window"}


@pytest.mark.rule("Z1", "Z2", "Z5")
async def test_a_hundred_turns_in_a_small_window_by_a_model_that_tells_nothing_of_what_it_takes() -> None:
    script = Turns(3, most_steps=1)
    model = Windowed(12_000, script.answer, lambda _: "They went on. " * 60, told=False, reports=False, rate=1.3)
    events = await run(100, 3, model, script)
    whys = [entry.data.message.source.why for entry in events if isinstance(entry.surface_op, Replace)]
    assert whys[0] == "refused"
    assert whys.count("refused") < 4, "what was refused once is known from then on"
    assert len(whys) > 3
    assert isinstance(next(e.data.message.source for e in events if isinstance(e.surface_op, Replace)), SummarySource)
