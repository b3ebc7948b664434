"""The rig as a process: one JSON object a line on stdin and stdout."""

from __future__ import annotations

import json
import os
import sys
from typing import BinaryIO

from .desk import Desk


def main() -> int:
    """Serve the tester until ``close`` or the end of the input; returns the exit status.

    Nothing else of this process may write to stdout: what tries to ends up on stderr. After ``close`` the process
    ends at once, without winding anything down: closing cancels nothing, clears nothing and closes no turn. A close
    that resets the rig leaves nothing of the run behind but what is stored, and the next run begins.
    """
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    desk = serve(Desk(), sys.stdin.buffer, own)
    own.close()
    if desk.closed:
        sys.stderr.flush()
        os._exit(0)
    desk.leave()
    return 0


def serve(desk: Desk, requests: BinaryIO, replies: BinaryIO) -> Desk:
    """Answer each line with one line; returns the last desk, closed by the tester or left open by the input."""
    while line := requests.readline():
        if not line.strip():
            continue
        replies.write(json.dumps(answer(desk, line)).encode("ascii") + b"\n")
        replies.flush()
        if desk.closed and not desk.again:
            break
        if desk.closed:
            desk.stepper.abandon()
            desk = Desk()
    return desk


def answer(desk: Desk, line: bytes) -> dict[str, object]:
    """The reply to one line."""
    try:
        request: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {"id": None, "ok": False, "error": {"code": "invalid", "message": f"no JSON: {error}"}}
    return desk.ask(request)
