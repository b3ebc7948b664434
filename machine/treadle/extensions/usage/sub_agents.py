"""Sub-agents count towards those above them: each of their attempts is noted in every log above."""

from __future__ import annotations

from ...hooks import SESSION_EVENT, Disposer, Scope, SessionEventAdded
from ...session import UserMessageAdded
from .charge import SubAgentUsage
from .ledger import charged

_KIND = "usage/sub-agents"


def count_sub_agents(scope: Scope) -> Disposer:
    """Note the attempts of sub-agents in the logs of the agents above them, for the agents of a scope.

    A host's scope covers all of its agents. Doing so twice notes nothing twice.

    Returns:
        An idempotent function that stops it, once everybody who asked for it has called theirs.

    Raises:
        ScopeClosed: the scope has ended.
    """
    held = scope.table(_KIND)
    if not held:
        held["stop"] = scope.on(SESSION_EVENT, _note)
    mine = object()
    asked: set[object] = held.setdefault("asked", set())
    asked.add(mine)

    def dispose() -> None:
        asked.discard(mine)
        if not asked and held:
            held.pop("stop")()
            held.clear()

    return dispose


def _note(told: SessionEventAdded) -> None:
    above = told.agent.parent
    charge = charged(told.session, told.event) if above is not None else None
    if charge is None:
        return
    data = told.event.data
    name = data.message.id if isinstance(data, UserMessageAdded) else data.attempt_id
    while above is not None:
        above.session.append(SubAgentUsage(told.agent.id, name, charge), ignorable=True)
        above = above.parent
