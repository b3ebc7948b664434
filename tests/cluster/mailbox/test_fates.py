"""What became of a message, read from the log alone, is what its receipt told (A5, D8)."""

import random
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from treadle import Admitted, AgentOptions, Answer, Call, Host, Receipt, Rejected, ScriptedModel, message, tool
from treadle.hooks import PRE_STEP, Enter, Reject
from treadle.session import InboxSpliced
from treadle_adapters.cluster.mailbox.fates import Fate

PROGRAMS = 100
OPTIONS = AgentOptions(provider="scripted", model="m")


@tool
async def rest() -> str:
    """Let others have a turn."""
    for _ in range(3):
        await trio.lowlevel.checkpoint()
    return "rested"


class Program:
    """Random operations on one agent, by a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.receipts: dict[str, Receipt] = {}

    def answer(self, _: Any) -> Any:
        what = self.chance.random()
        if what < 0.15:
            raise RuntimeError("down")
        return Answer("I rest.", calls=(Call("rest", {}),)) if what < 0.5 else "done"

    async def before_step(self, proposal: Any, proceed: Any) -> Any:
        decided = await proceed()
        what = self.chance.random()
        if what < 0.08:
            return Reject()
        if what > 0.94:
            raise RuntimeError("broken hook")
        if what < 0.3 and isinstance(decided, Enter) and decided.messages:
            return Enter(decided.messages[1:])
        return decided

    def act(self, agent: Any) -> None:
        what = self.chance.choice(
            ("followup", "followup", "steer", "inject", "cancel", "keep", "remove", "edit", "order")
        )
        waiting = [*agent.inbox.next_turn, *agent.inbox.next_step]
        if what in ("followup", "steer", "inject"):
            given = message(f"m{len(self.receipts)}", id=f"m{len(self.receipts)}")
            self.receipts[given.id] = getattr(agent, what)(given)
        elif what in ("cancel", "keep"):
            agent.cancel(keep_inbox=what == "keep")
        elif waiting and what == "remove":
            agent.inbox.remove(self.chance.choice(waiting).id)
        elif waiting and what == "edit":
            agent.update_inbox(self.chance.choice(waiting).id, self.chance.choice(("edit", "steer")), "edited")
        elif what == "order":
            mine = list(agent.inbox.next_turn)
            self.chance.shuffle(mine)
            agent.inbox.splice("next-turn", 0, len(mine), mine)

    async def run(self) -> list[Any]:
        async with Host(checks=True) as host:
            host.models.register("scripted", ScriptedModel([self.answer] * 200))
            host.tools.register(rest)
            host.on(PRE_STEP, self.before_step)
            agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
            for _ in range(14):
                self.act(agent)
                for _ in range(self.chance.randrange(12)):
                    await trio.lowlevel.checkpoint()
            await wait_all_tasks_blocked()
            return list(agent.session.events)


def fate_in(events: list[Any], name: str) -> Admitted | Rejected | None:
    """Its fate, read from where it was put into the inbox."""
    first = next(
        entry.seq
        for entry in events
        if isinstance(entry.data, InboxSpliced) and any(one.id == name for one in entry.data.inserted)
    )
    fate = Fate(name)
    for entry in events[first:]:
        fate.take(entry)
    return fate.fate


@pytest.mark.rule("A5", "D8")
async def test_a_fate_is_the_same_by_the_log_and_by_the_receipt() -> None:
    seen: set[str] = set()
    for seed in range(PROGRAMS):
        program = Program(seed)
        events = await program.run()
        for name, receipt in program.receipts.items():
            if receipt.fate == Rejected("disposed"):
                continue  # pending when the host ended
            assert fate_in(events, name) == receipt.fate, f"seed {seed}, {name}"
            seen.add(getattr(receipt.fate, "reason", "admitted" if getattr(receipt.fate, "step", 0) else "kept"))
    assert seen >= {"admitted", "kept", "discarded", "left-out", "blocked", "aborted", "failed"}, seen
