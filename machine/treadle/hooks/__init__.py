"""Where others take part: scopes of registrations, the hook points with their payloads and decisions, their dispatch.

What a listener needs is here: listen with ``agent.scope.on(point, listener)`` or ``host.on(point, listener)``.
May import: the root, ``words``, the kernel's effects, ``models``, ``session``; names ``Agent`` for typing only.
"""

from ..kernel.effects import Status
from ..words.frames import FrameChunk, FrameEnd, FrameStart, StreamFrame
from . import points
from .dispatch import Emit, HookPoint, Mode, Serial, Waterfall
from .others import decide, tell
from .points import *  # noqa: F403  # named there, once
from .registry import HookRegistry
from .scope import Disposer, Scope

__all__ = [
    "Disposer",
    "Emit",
    "FrameChunk",
    "FrameEnd",
    "FrameStart",
    "HookPoint",
    "HookRegistry",
    "Mode",
    "Scope",
    "Serial",
    "Status",
    "StreamFrame",
    "Waterfall",
    "decide",
    "tell",
]
__all__ += points.__all__
