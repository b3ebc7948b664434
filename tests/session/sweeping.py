"""What a crash sweep does to one cut of a log, and what must hold afterwards."""

from collections.abc import Iterable, Sequence

from tests.invariants import check_invariants
from treadle import AgentOptions, Event, Host, Interrupted, ScriptedModel, Session
from treadle.session import EndSeed, InboxSpliced, SessionStore, StepStart, TurnEnd, UserMessageAdded
from treadle_specs.rig.script_tools import TOOLS
from treadle_specs.rig.scripts import OPTIONS

RAN = "tool bodies that ran after a resume"


def settled_ids(events: Iterable[Event]) -> tuple[set[str], set[str]]:
    """The ids that were accepted, and those of them whose fate a log tells: recorded, discarded, left out, or ended
    with their turn."""
    accepted: set[str] = set()
    pending: dict[str, list[str]] = {"next-turn": [], "next-step": []}
    claimed: set[str] = set()
    entered: set[str] = set()
    told: set[str] = set()
    for entry in events:
        data = entry.data
        if isinstance(data, InboxSpliced):
            box = pending[data.target]
            removed = box[data.start : data.start + data.removed_count]
            fresh = [message.id for message in data.inserted]
            box[data.start : data.start + data.removed_count] = fresh
            accepted |= set(fresh)
            claimed -= set(fresh)
            told -= set(fresh)
            gone = set(removed) - set(fresh)
            if data.outcome is None:
                claimed |= gone
            else:
                told |= gone
        elif isinstance(data, StepStart):
            entered |= set(data.accepted)
            told |= claimed - entered
            claimed.clear()
        elif isinstance(data, UserMessageAdded):
            told.add(data.message.id)
            claimed.discard(data.message.id)
            entered.discard(data.message.id)
        elif isinstance(data, TurnEnd):
            if not isinstance(data.reason, Interrupted):
                told |= claimed | entered
            claimed.clear()
            entered.clear()
    told |= set(pending["next-turn"]) | set(pending["next-step"])
    return accepted, told


async def resumed(host: Host, model: ScriptedModel, session_id: str, recorded: Sequence[Event]) -> Session:
    """Resume a session that was cut, run one turn on, close it; checks everything on the way."""
    handle = await host.agents.resume(session_id, agent_options=OPTIONS)
    session = handle.agent.session
    before = len(session)
    assert list(session.events)[: len(recorded)] == list(recorded), "something recorded was lost"
    assert before - len(recorded) == (handle.recovery.appended if handle.recovery else 0)
    check_invariants(session)
    assert handle.agent.status == "idle"
    accepted, told = settled_ids(session.events)
    assert accepted <= told, f"lost: {accepted - told}"
    asked = len(model.requests)
    handle.agent.followup("go on")
    await handle.agent.when_idle()
    check_invariants(session, model.requests[asked:])
    assert not [entry for entry in list(session.events)[before:] if entry.type == "tool/call"], "a tool was re-run"
    await handle.dispose(keep_inbox=True)
    return session


async def check_reloaded(store: SessionStore, session: Session) -> None:
    """Reload what a resumed session left, and resume it again: it adds nothing."""
    stored = await store.open_read(session.id)
    assert stored.torn is None
    assert list(stored.events) == list(session.events)
    assert list(Session(stored.header, stored.events).history()) == list(session.history())
    async with Host(store=store) as host:
        handle = await host.agents.resume(session.id)
        assert handle.recovery is not None
        assert handle.recovery.appended == 0
        await handle.dispose(keep_inbox=True)
    assert await store.revision(session.id) == stored.revision, "resuming twice added something"


def furnish(host: Host) -> ScriptedModel:
    """A model that answers everything, and the tools of the scripts."""
    model = ScriptedModel(default="Going on.")
    host.models.register("scripted", model)
    for each in TOOLS:
        host.tools.register(each)
    return model


__all__ = ["AgentOptions", "EndSeed", "check_reloaded", "furnish", "resumed", "settled_ids"]
