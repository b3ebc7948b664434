"""What a rig in Python is written with: gates, listeners, one-breath semantics, honest settling, a fork server.

    from treadle_specs.rigkit import FrameworkRig, main    # before the framework: what it hands to threads is counted

    class Mine(FrameworkRig):
        name, version = "mine", "1.0"

        def open(self, tools): ...                            # make the agent; its model and tools go through the gates
        async def turn(self, text): ...                       # one run, to its end
        def cancel(self): ...                                 # stop it

    main(Mine)

``FrameworkRig`` is for a framework without an event log, judged by ``treadle conform --profile fair``; ``Rig`` is for a
driver that tells its own events, ``InboxRig`` for one that takes its messages from the kit's inbox. The kit stands on the standard library alone, so that it can be used in the
environment of any framework; the engine for drivers on trio (``treadle_specs.rigkit.on_trio``) needs trio.
"""

from __future__ import annotations

from pathlib import Path

from .framework import FrameworkRig, assistant, result, user
from .inbox import InboxRig
from .on_asyncio import OnAsyncio
from .refusals import Refused, ToolError, Unsupported
from .rig import Gate, Rig
from .serving import main, serve

NODE = Path(__file__).with_name("rigkit.mjs")
"""The kit for Node.js."""

__all__ = [
    "NODE",
    "FrameworkRig",
    "Gate",
    "InboxRig",
    "OnAsyncio",
    "Refused",
    "Rig",
    "ToolError",
    "Unsupported",
    "assistant",
    "main",
    "result",
    "serve",
    "user",
]
