"""A headless Chromium, driven through its own pipe: messages end with a NUL byte, no port is open, no library is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
"""The browser's path, ``None`` where there is none (Debian package: chromium)."""

DEADLINE = 60.0
"""Seconds after which an answer that has not come is a failure."""

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Browser:
    """One browser with one page, and further ones as they are opened. Use it as a context manager: it ends with its profile."""

    def __init__(self) -> None:
        assert PROGRAM is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        words = [PROGRAM, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        # the browser reads from descriptor 3 and writes to 4
        plumbing = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", plumbing, "bash", *words],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # by which its processes are known
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = bytearray()
        self._number = 0
        self._session: str | None = None
        self.page = ""
        """The first page."""
        self.told: list[dict[str, Any]] = []
        """Every event the browser sent, in order."""
        self._attach()

    def _attach(self) -> None:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.page = self._session = self._attached(page["targetId"])

    def _attached(self, target: str) -> str:
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        with self.on(session):
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        return session

    # --- pages --------------------------------------------------------------------------------------------------------

    @contextmanager
    def on(self, page: str | None) -> Iterator[None]:
        """What is called within goes to that page; ``None`` is the browser itself."""
        before, self._session = self._session, page
        try:
            yield
        finally:
            self._session = before

    @contextmanager
    def opened(self, width: int = 800, height: int = 600) -> Iterator[str]:
        """A further page, in a window of its own, so that it is not in the background."""
        with self.on(None):
            size = {"width": width, "height": height}
            target = self.call("Target.createTarget", url="about:blank", newWindow=True, **size)["targetId"]
            session = self._attached(target)
        yield session
        with self.on(None):
            self.call("Target.closeTarget", targetId=target)

    # --- the protocol -------------------------------------------------------------------------------------------------

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and wait for its answer."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        end = time.monotonic() + DEADLINE
        while True:
            answer = self._next(end)
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.told.append(answer)

    def until(self, method: str, since: int = 0) -> dict[str, Any]:
        """Wait for an event of that name, among those told from number ``since`` on."""
        end = time.monotonic() + DEADLINE
        while True:
            for event in self.told[since:]:
                if event.get("method") == method and event.get("sessionId") == self._session:
                    return event
            self.told.append(self._next(end))

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise AssertionError("the browser does not answer")
            data = os.read(self._in, 1 << 20)
            if not data:
                raise AssertionError("the browser has ended")
            self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\0")
        self._buffer = bytearray(rest)
        return json.loads(line)

    # --- the page -----------------------------------------------------------------------------------------------------

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file anew and wait until it has loaded."""
        for address in ("about:blank", path.resolve().as_uri() + fragment):
            since = len(self.told)
            self.call("Page.navigate", url=address)
            self.until("Page.loadEventFired", since)

    def run(self, expression: str) -> Any:
        """The value of an expression on the page; promises are awaited.

        Raises:
            AssertionError: it threw.
        """
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def press(self, key: str, *, text: str = "", shift: bool = False) -> None:
        """Press a key, as a person would."""
        given: dict[str, Any] = {"key": key, "code": key, "modifiers": 8 if shift else 0}
        if len(key) == 1:
            given |= {"text": text or key, "code": f"Key{key.upper()}" if key.isalpha() else ""}
        if key in _NUMBERS:
            given["windowsVirtualKeyCode"] = _NUMBERS[key]
        if key == "Enter":
            given["text"] = "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", **given)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{**given, "text": ""})

    def type(self, text: str) -> None:
        """Type a text into what has the focus."""
        self.call("Input.insertText", text=text)

    def size(self, width: int, height: int, scale: float = 1) -> None:
        """Give the page a size."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def media(self, media: str = "", features: Mapping[str, str] | None = None) -> None:
        """Show the page as on another medium (``print``), or to a reader with other preferences."""
        given = [{"name": name, "value": value} for name, value in (features or {}).items()]
        self.call("Emulation.setEmulatedMedia", media=media, features=given)

    def picture(self, path: Path, clip: Sequence[float] | None = None) -> None:
        """Write what is seen as a PNG; ``clip`` is left, top, width and height."""
        more: dict[str, Any] = {}
        if clip is not None:
            names = ("x", "y", "width", "height")
            more["clip"] = {**dict(zip(names, clip, strict=True)), "scale": 1}
            more["captureBeyondViewport"] = True
        data = self.call("Page.captureScreenshot", format="png", **more)["data"]
        path.write_bytes(base64.b64decode(data))

    # --- what happened ------------------------------------------------------------------------------------------------

    def complaints(self, since: int = 0) -> list[str]:
        """Errors and warnings of the console, and exceptions that nothing caught."""
        self.run("new Promise(done => setTimeout(done, 0))")
        found: list[str] = []
        for event in self.told[since:]:
            params = event.get("params", {})
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    found.append(str(params["exceptionDetails"].get("exception", {}).get("description")))
                case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                    found.append(str(params["args"]))
                case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                    found.append(params["entry"]["text"])
                case _:
                    pass
        return found

    def requests(self, since: int = 0) -> list[str]:
        """The addresses that were asked for."""
        sent = [event for event in self.told[since:] if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def worked(self) -> float:
        """The seconds of processor time that its processes have used; what others do on the machine does not count."""
        ticks = 0
        for place in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended meanwhile
                fields = place.read_text(encoding="utf-8").rpartition(") ")[2].split()
                if int(fields[3]) == self._process.pid:
                    ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(DEADLINE)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()


_NUMBERS = {
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "End": 35,
    "Home": 36,
    "PageUp": 33,
    "PageDown": 34,
    "Enter": 13,
    "Escape": 27,
}
