"""One message followed: the files and functions that a ``followup`` walks through until the model is asked, in order.

    python docs/follow_message.py            # the walk, file by file, and its figures
    python docs/follow_message.py --figures  # the figures only

What is followed is a plain agent (no hooks, no tools, no store) in its second turn, when all that is made once exists.
Counted are the calls of treadle's own functions from the call of ``followup`` to the call of the adapter's ``stream``,
the files in which they stand, and how often a call lies in another file than the call before it. Comprehensions that
the interpreter runs as functions of their own are counted, too (before Python 3.12).

==============  =====  ========  =====
                files  switches  calls
==============  =====  ========  =====
first release      25        90    134
now                16        39     85
==============  =====  ========  =====

A test holds the walk to 16 files and 45 switches.
"""

from __future__ import annotations

import sys
import types
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

import treadle

HOUSE = Path(treadle.__file__).parent
Step = tuple[str, str]
"""A call: the file, seen from the package's folder, and the function."""


class Followed(treadle.ScriptedModel):
    """A model that answers "yes", and ends the trace as soon as it is asked."""

    def stream(self, request: treadle.ModelRequest) -> AsyncIterator[Any]:
        """See ``ModelAdapter.stream``."""
        sys.settrace(None)
        return super().stream(request)


async def walk() -> list[Step]:
    """The calls between ``followup`` and the model's request, in order."""
    steps: list[Step] = []

    def trace(frame: types.FrameType, event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(HOUSE):
            steps.append((path.relative_to(HOUSE).as_posix(), frame.f_code.co_qualname))

    model = Followed(default="yes")
    async with treadle.open_agent(model=model) as agent:
        agent.followup("first")
        await agent.when_idle()
        sys.settrace(trace)
        agent.followup("second")
        await wait_all_tasks_blocked()
    assert len(model.requests) == 2, "the walk ends where the model is asked"
    return steps


def figures(steps: list[Step]) -> tuple[int, int, int]:
    """How many files a walk visits, how often it goes from one to another, and how many calls it makes."""
    files = [file for file, _ in steps]
    switches = sum([before != after for before, after in pairwise(files)])
    return len(set(files)), switches, len(steps)


def main() -> None:
    """Print the walk and its figures."""
    steps = trio.run(walk)
    if "--figures" not in sys.argv:
        last = ""
        for file, function in steps:
            print(f"{file if file != last else '':24}{function}")
            last = file
    print("{} files, {} switches between them, {} calls".format(*figures(steps)))


if __name__ == "__main__":
    main()
