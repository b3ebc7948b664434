"""What has become of every message of an agent at rest: one fate, and none overlooked."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Admitted, Agent, Completed, MaxTokens, Rejected, State
from treadle.session import TurnEnd, UserMessageAdded

from ...exploration.violation import require
from .sent import NEXT_STEP, NEXT_TURN, Sent


def nothing_overlooked(agent: Agent, lists: Mapping[str, list[str]], sent: Mapping[str, Sent]) -> None:
    """What a wake brought waits only behind a turn that parked it (L2, L3)."""
    ends = [e for e in agent.session.events if isinstance(e.data, TurnEnd)]
    for name in [*lists[NEXT_TURN], *lists[NEXT_STEP]]:
        one = sent.get(name)
        if one is None or not one.woke:
            continue
        parked = [e for e in ends if e.seq > one.at and not isinstance(e.data.reason, (Completed, MaxTokens))]
        require(parked, "L2", "{} is idle, and {} waits for nothing", agent.id, name)


def hold_fates(agent: Agent, lists: Mapping[str, list[str]], sent: Mapping[str, Sent], told: set[str]) -> None:
    """A message is pending or has one fate, and the log agrees with it (D8, N2)."""
    for name, one in sent.items():
        if name in told:
            continue
        fate = one.receipt.fate
        pending = name in lists[NEXT_TURN] or name in lists[NEXT_STEP]
        recorded = [
            e for e in agent.session.events if isinstance(e.data, UserMessageAdded) and e.data.message.id == name
        ]
        require(len(recorded) <= 1, "N2", "{} is recorded {} times", name, len(recorded))
        if agent.state is State.IDLE:
            require((fate is None) == pending, "D8", "{} has the fate {}, and is pending: {}", name, fate, pending)
        if isinstance(fate, Admitted):
            require(recorded, "D8", "{} is admitted, and not recorded", name)
        if isinstance(fate, Rejected) and fate.reason == "discarded":
            require(not recorded, "D8", "{} is discarded, and recorded", name)
        if fate is not None:
            told.add(name)
