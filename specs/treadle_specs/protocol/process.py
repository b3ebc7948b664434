"""A rig as a child process: every wait is bounded, every byte is counted, and whatever comes is a reply or a fault."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import signal
import subprocess
import time
from typing import Any

from .fault import Json, RigFault, shown
from .reading import ONE_LINE, read_reply

TIMEOUT_S = 30.0
"""How long a rig may take for one reply, unless told otherwise."""
LONGEST = 16 * 2**20
"""No reply is longer, in bytes."""
ENDING_S = 10.0
"""How long a rig may take to end after ``close``, or after the end of its input."""
LAST_LINES = 5
_PIECE = 2**16
_TAIL = 2**12


class RigProcess:
    """One rig.

    Args:
        command: starts it.
        timeout: seconds for one reply.

    Raises:
        RigFault: it cannot be started.
    """

    def __init__(self, command: str, *, timeout: float = TIMEOUT_S) -> None:
        self.timeout = timeout
        self.count = 0
        self._request: Json | None = None
        self._fault: RigFault | None = None
        self._over = False
        self._out = bytearray()
        self._err = bytearray()
        self._selector = selectors.DefaultSelector()
        self.proc = _started(command)
        for pipe, events in (
            (self._pipe("stdout"), selectors.EVENT_READ),
            (self._pipe("stderr"), selectors.EVENT_READ),
        ):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, events)
        os.set_blocking(self._pipe("stdin").fileno(), False)

    def _pipe(self, name: str) -> Any:
        return getattr(self.proc, name)

    # --- talking ------------------------------------------------------------------------------------------------------

    def ask(self, request: Json) -> Json:
        """The reply to one request, which gets its id here.

        Raises:
            RigFault: the rig does not answer, or with what is no reply to this request; it is ended then.
        """
        if self._fault is not None:
            raise self._fault
        self._surplus()
        self.count += 1
        self._request = {"id": self.count, **{key: value for key, value in request.items() if key != "id"}}
        try:
            self._send(json.dumps(self._request).encode("ascii") + b"\n")
            return read_reply(self._line(time.monotonic() + self.timeout), self._request)
        except RigFault as fault:
            raise self._failed(fault) from None

    def _surplus(self) -> None:
        """Whatever came since the last reply answers nothing."""
        self._look(0)
        if self._out:
            line = bytes(self._out.partition(b"\n")[0])
            raise self._failed(RigFault(_unasked(line, self.count), ONE_LINE, request=self._request, reply=_told(line)))

    def _failed(self, fault: RigFault) -> RigFault:
        """Keep the fault, with the last words of the rig, and end it."""
        self.kill()
        fault.stderr = self.last_words()
        self._fault = fault
        return fault

    def last_words(self) -> tuple[str, ...]:
        """The last lines that the rig wrote to stderr; none when it was dropped."""
        if not self._over:
            self._look(0)
        lines = [shown(line) for line in self._err.decode("utf-8", "replace").split("\n") if line.strip()]
        return tuple(lines[-LAST_LINES:])

    def _send(self, data: bytes) -> None:
        """Write a request; a rig that does not read it is waited for as one that does not answer."""
        deadline = time.monotonic() + self.timeout
        stdin = self._pipe("stdin")
        left = memoryview(data)
        self._selector.register(stdin, selectors.EVENT_WRITE)
        try:
            while left and (wait := deadline - time.monotonic()) > 0:
                if self._look(wait):
                    left = left[os.write(stdin.fileno(), left[:_PIECE]) :]
            if left:
                raise RigFault(f"the request is not read within {self.timeout:g} s", ONE_LINE, request=self._request)
        except BrokenPipeError:
            pass  # it reads no more; what it says at its end is told when no reply comes
        finally:
            self._selector.unregister(stdin)

    def _line(self, deadline: float) -> bytes:
        """The next line of the rig."""
        searched = 0
        while (end := self._out.find(b"\n", searched)) < 0:
            searched = len(self._out)
            if searched > LONGEST:
                self._refuse(
                    f"the reply is longer than {LONGEST // 2**20} MiB", f"no line is longer than {LONGEST // 2**20} MiB"
                )
            if not self._open("stdout"):
                self._refuse(self._ended(), "a rig ends after `close`, or when its input ends")
            wait = deadline - time.monotonic()
            if wait <= 0:
                half = ", but half a line" if self._out else ""
                self._refuse(
                    f"no reply within {self.timeout:g} s{half}",
                    "each request gets exactly one reply, ended by a newline",
                )
            self._look(wait)
        line = bytes(self._out[:end])
        del self._out[: end + 1]
        return line

    def _refuse(self, what: str, says: str) -> None:
        raise RigFault(what, says, request=self._request, reply=_told(bytes(self._out[:_TAIL])))

    def _open(self, name: str) -> bool:
        return self._pipe(name) in self._selector.get_map()

    def _ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.proc.wait(1)
        status = self.proc.returncode
        if status is None:
            return "the rig closed its output, and gave no reply"
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return f"the rig ended with {how}, and gave {'half a line' if self._out else 'no reply'}"

    def _look(self, wait: float) -> bool:
        """Take in what comes within a time, once; returns whether stdin takes more."""
        writable = False
        for key, _ in self._selector.select(wait):
            if key.fileobj is self.proc.stdin:
                writable = True
            else:
                self._take(key.fileobj)
        return writable

    def _take(self, pipe: Any) -> None:
        try:
            piece = os.read(pipe.fileno(), _PIECE)
        except BlockingIOError:
            return
        if not piece:
            self._selector.unregister(pipe)
        elif pipe is self.proc.stdout:
            self._out += piece
        else:
            self._err += piece
            del self._err[:-_TAIL]

    # --- ending -------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End the whole process group: the command may be a wrapper (uv run, env, sh)."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.proc.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.proc.wait(ENDING_S)

    def exit_status(self) -> int:
        """Wait for the rig to end by itself, taking in what it still says.

        Raises:
            RigFault: it does not end, or it says something after its last reply.
        """
        deadline = time.monotonic() + ENDING_S
        while self._selector.get_map() and (wait := deadline - time.monotonic()) > 0 and len(self._out) <= _PIECE:
            self._look(wait)
        self._surplus()
        try:
            return self.proc.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            says = "a rig ends after `close`, or when its input ends"
            raise self._failed(
                RigFault(f"the rig does not end within {ENDING_S:g} s", says, request=self._request)
            ) from None

    def stop(self) -> None:
        """End the rig by ending its input.

        Raises:
            RigFault: it does not end, or it says something after its last reply.
        """
        if self._over:
            return
        try:
            with contextlib.suppress(OSError):
                self._pipe("stdin").close()
            if self._fault is None:
                self.exit_status()
        finally:
            self.drop()

    def drop(self) -> None:
        """End the rig whatever it does."""
        if self._over:
            return
        self._over = True
        self.kill()
        self._selector.close()
        for name in ("stdin", "stdout", "stderr"):
            with contextlib.suppress(OSError):
                self._pipe(name).close()


def _started(command: str) -> subprocess.Popen[bytes]:
    says = "the tester starts the rig as a child process"
    try:
        words = shlex.split(command)
        pipe = subprocess.PIPE
        # The rig is what the tester was told to start.
        return subprocess.Popen(words, bufsize=0, start_new_session=True, stdin=pipe, stdout=pipe, stderr=pipe)
    except (OSError, ValueError, IndexError) as error:
        raise RigFault(f"the rig cannot be started with {shown(command)!r}: {error}", says) from error


def _told(line: bytes) -> str:
    return shown(line.decode("utf-8", "replace").strip())


def _unasked(line: bytes, count: int) -> str:
    """What is wrong with a line that nobody asked for."""
    with contextlib.suppress(ValueError, RecursionError):
        found: Any = json.loads(line)
        if isinstance(found, dict) and found.get("id") == count:  # pyright: ignore[reportUnknownMemberType]  # of anything
            return f"a second reply to request {count}"
    return (
        f"a line that answers no request, after the reply to request {count}" if count else "a line before any request"
    )
