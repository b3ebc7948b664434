"""A rig in a process of its own, as the suite and the cases use it; a process that can be reset serves many runs."""

from __future__ import annotations

import threading

from .. import run_cases
from ..protocol.fault import RigFault
from ..protocol.process import TIMEOUT_S, RigProcess
from .ledger import Json, items

RESET = "reset"
"""The feature of rigs that become as if just started by ``close`` with ``reset``."""


class Rigs:
    """Starts rigs of one command; those that can be reset are used again.

    Args:
        command: starts one.
        timeout: seconds for one reply.
        reuse: use processes that can be reset again; otherwise each run ends its own.
    """

    def __init__(self, command: str, timeout: float = TIMEOUT_S, *, reuse: bool = True) -> None:
        self.command, self.timeout, self.reuse = command, timeout, reuse
        self._free: list[RigProcess] = []
        self._lock = threading.Lock()

    def take(self) -> RigProcess:
        """A process that was just started, or is as one.

        Raises:
            RigFault: it cannot be started.
        """
        with self._lock:
            if self._free:
                return self._free.pop()
        return RigProcess(self.command, timeout=self.timeout)

    def give(self, process: RigProcess) -> None:
        """Take back a process that was reset."""
        with self._lock:
            self._free.append(process)

    def make(self) -> ProcessRig:
        """A rig for one run."""
        return ProcessRig(self)

    def close(self) -> None:
        """End what is left."""
        while self._free:
            self._free.pop().drop()


class ProcessRig:
    """A rig in a process, for one run.

    Args:
        rigs: where processes come from.

    Raises:
        RigFault: here and in every call: the rig does not keep to the protocol.
    """

    def __init__(self, rigs: Rigs) -> None:
        self._rigs = rigs
        self._rig = rigs.take()
        self._resets = False

    def ask(self, request: Json) -> Json:
        """The reply to one request, under the id that the caller gave it."""
        reply = self._rig.ask(request)
        if request["do"] == "hello" and reply["ok"]:
            self._resets = RESET in items(reply, "features")
        return {**reply, "id": request.get("id")}

    def drop(self) -> None:
        """End the process whatever it does."""
        self._rig.drop()

    def close(self, *, kill: bool = False) -> None:
        """End the run by a close, or the process by a kill."""
        if kill:
            self._rig.drop()
        elif not self._reset():
            reply = self._rig.ask({"do": "close"})
            status = self._rig.exit_status() if reply["ok"] else 1
            self._rig.drop()
            if status:
                what = "refused" if not reply["ok"] else f"followed by exit status {status}"
                raise RigFault(f"`close` is {what}", "`close` is answered, and the process ends with status 0")

    def _reset(self) -> bool:
        """Have the process become as if just started, and give it back; whether it can."""
        able = self._resets and self._rigs.reuse and self._rig.ask({"do": "close", "reset": True})["ok"]
        if able:
            self._rigs.give(self._rig)
        return able

    def stop(self) -> None:
        """End the run; a process that cannot be reset is ended."""
        if not self._reset():
            self._rig.stop()


class CaseRig:
    """A rig as the runner of cases wants it: it begins with ``hello``, and ends by ``close`` or by a kill."""

    def __init__(self, rigs: Rigs) -> None:
        self.gates: list[Json] = []
        self._rigs = rigs
        self._rig: RigProcess | None = rigs.take()
        self._resets = False

    @property
    def process(self) -> RigProcess:
        """The process; there is one until it was given back."""
        if self._rig is None:
            raise run_cases.Failure("the rig was closed")
        return self._rig

    def hello(self) -> list[str]:
        """Greet the rig; returns its features."""
        reply = self.ask({"do": "hello"})
        if not reply.get("ok"):
            raise run_cases.Failure(f"hello answered {reply}")
        features: list[str] = reply["features"]
        self._resets = RESET in features
        return features

    def ask(self, request: Json) -> Json:
        """The reply to one request."""
        if request["do"] != "close" or not self._resets:
            return self.process.ask(request)
        reply = self.process.ask({**request, "reset": True})
        if reply["ok"]:
            self._rigs.give(self.process)
            self._rig = None
        return reply

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()

    def exit_status(self) -> int:
        """How the process ended after a close or a kill."""
        return self._rig.exit_status() if self._rig is not None else 0

    def stop(self) -> None:
        """End the process, if it was not given back."""
        if self._rig is not None:
            rig, self._rig = self._rig, None
            rig.stop()
