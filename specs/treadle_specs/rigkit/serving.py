"""Serving rigs on stdin and stdout: what is imported once serves every run, each in a process of its own."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from .refusals import Refused
from .rig import Json, Rig

AGAIN = 75
"""The status with which the process of a run asks for the next one."""


def main(make: Callable[[], Rig]) -> None:
    """Serve one run after the other; each has a rig of its own, in a process forked for it where there is ``fork``.

    Whatever the driver prints goes to stderr: it is no reply. Ends the process.

    Args:
        make: makes a fresh rig.
    """
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if not hasattr(os, "fork"):
        while serve(make(), sys.stdin.buffer, replies):
            pass
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        loaded, telling = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(loaded)
            again = serve(make(), sys.stdin.buffer, replies)
            if again:
                with contextlib.suppress(OSError):
                    os.write(telling, "\n".join(sys.modules).encode())
            sys.stderr.flush()
            os._exit(AGAIN if again else 0)
        os.close(telling)
        _load(loaded)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != AGAIN:
            os._exit(status if status >= 0 else 128 - status)


def _load(loaded: int) -> None:
    """Import what a run imported when it needed it, so that the next ones find it there."""
    with os.fdopen(loaded, encoding="utf-8") as pipe:
        names = pipe.read().split("\n")
    for name in names:
        if name and name not in sys.modules:
            with contextlib.suppress(Exception, SystemExit):
                importlib.import_module(name)


def serve(rig: Rig, requests: BinaryIO, replies: BinaryIO) -> bool:
    """Answer each line with one line, until ``close`` or the end of the input; returns whether another run follows."""
    while line := requests.readline():
        request: Any = None
        try:
            request = json.loads(line)
        except ValueError as error:
            reply: dict[str, Any] = refusal(None, "invalid", f"no JSON: {error}")
        else:
            reply = answered(rig, request)
        replies.write(json.dumps(reply).encode("ascii") + b"\n")
        replies.flush()
        if reply["ok"] and request["do"] == "close":
            return bool(request.get("reset"))
    return False


def answered(rig: Rig, request: Any) -> dict[str, Any]:
    """The reply to one request."""
    if not isinstance(request, dict):
        return refusal(None, "invalid", "a request is an object")
    asked = cast("Json", request)
    number = asked.get("id")
    try:
        return {"id": number, "ok": True, **rig.apply(asked)}
    except Refused as why:
        return refusal(number, why.code, str(why))
    except Exception as error:
        traceback.print_exc()
        return refusal(number, "internal", repr(error))


def refusal(number: Any, code: str, message: str) -> dict[str, Any]:
    """A reply that refuses."""
    return {"id": number, "ok": False, "error": {"code": code, "message": message}}
