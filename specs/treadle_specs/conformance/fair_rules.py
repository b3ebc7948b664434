"""The rules of the fair profile, and which of them are asked only of drivers that promise them."""

from __future__ import annotations

from collections.abc import Mapping

FAIR: Mapping[str, str] = {
    "F1": "each accepted message reaches the model, unless its run is cancelled before",
    "F2": "no request holds a message twice",
    "F3": "messages reach the model in the order in which they were accepted, each list by itself",
    "F4": "what reached the model stays in the history",
    "F5": "after a cancel and a settle the driver is idle",
    "F6": "nothing happens after the end of a run",
    "F7": "the result of a call that ran to its end is in the next request, with its text unless it is an error",
    "F8": "each call that is asked for starts once",
    "F9": "in every request each call is answered once, before anything else is said",
    "F10": "a driver that is running waits at a gate",
    "F11": "text that had arrived when a run was cancelled is kept",
    "F12": "a call that had started when a run was cancelled is remembered",
    "F13": "steering is in the next request",
    "F14": "a queued message waits until the run has nothing else to do",
}
"""Each rule, in one sentence."""
PROMISED: Mapping[str, str] = {
    "F11": "streamed-text",
    "F12": "started-calls",
    "F13": "steer",
    "F14": "queue",
}
"""The feature that tells that the driver's documentation promises it; without it the rule does not apply."""
WITHOUT: Mapping[str, tuple[str, ...]] = {
    "F5": ("cancel",),
    "F11": ("cancel",),
    "F12": ("cancel",),
    "F13": ("steer",),
    "F14": ("queue",),
}
"""A rule does not apply when all of these are lacking."""
EVIDENT = "F1"
"""At stake whenever a run ends: without it nothing was seen of the driver."""
