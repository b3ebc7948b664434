"""Hosts for asyncio programs: one runs in a trio thread of its own, and its agents are used from asyncio code.

    async with Bridge(Host()) as bridge:
        handle = await bridge.agents.create(agent_options=options)
        receipt = handle.agent.followup("Hello")
        await handle.agent.when_idle()

Each class here stands for one of the host's side, and has its methods, under their names and with their parameters:

- What only looks answers at once, as of now, from any thread; where looking keeps what it found, it is an act.
- What acts in the call there acts in the call here, too. It is on its way when the call returns, in the order of
  calling, from any thread, and no cancellation takes it back. What it gives is a ``Reply``: awaiting that only waits.
- What is awaited there is a coroutine here, for the bridge's loop. A cancellation reaches it there, and goes on here
  once it has settled.
- What undoes a registration may be called from any thread, and gives a ``Reply`` as well.

Whatever raises there raises here, the very object: from the ``Reply`` or the coroutine that is awaited, a message that
cannot be accepted and a bridge that is not open (``BridgeClosed``) from the call itself.

An asyncio function that is *registered* (a tool's body, a listener, a guard, what provides prompt text, a maintenance
task) runs in the bridge's loop, in the context of whoever called it in the host's, and is cancelled with it; a plain
function runs where the host calls it. What *registers* (``setup``, a component of a preset) acts on scopes, and is a
function of the host's thread, as it is there; ``Bridge.in_loop`` brings any other asyncio function back.

This room may import any other room of ``treadle``, and none of them imports it. Inside, ``import asyncio`` is the
standard library's.
"""

from .agent import BridgedAgent
from .agents import BridgedAgents
from .bridge import Bridge
from .crossing import Undo
from .handle import BridgedHandle
from .inbox import BridgedInbox, BridgedReceipt
from .models import BridgedDefaultModel, BridgedModels
from .presets import BridgedLease, BridgedPresets
from .registries import BridgedHooks, BridgedPrompt, BridgedTools
from .reply import Reply
from .sessions import BridgedSessions, BridgedStore
from .streams import EventStream, FrameStream

__all__ = [
    "Bridge",
    "BridgedAgent",
    "BridgedAgents",
    "BridgedDefaultModel",
    "BridgedHandle",
    "BridgedHooks",
    "BridgedInbox",
    "BridgedLease",
    "BridgedModels",
    "BridgedPresets",
    "BridgedPrompt",
    "BridgedReceipt",
    "BridgedSessions",
    "BridgedStore",
    "BridgedTools",
    "EventStream",
    "FrameStream",
    "Reply",
    "Undo",
]
