"""The life of one server on one host: started when it is needed, started again after a crash, ended with the host.

The SDK is imported in a worker thread, when the first server is needed: that takes most of a second.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

import trio

from treadle import ToolError, ToolOutput, ToolRun
from treadle.hooks import Scope
from treadle.models import describe

from .servers import Server

if TYPE_CHECKING:
    from .session import Session

LOGGER = logging.getLogger("treadle.mcp")
FIRST_BACKOFF, LONGEST_BACKOFF = 0.5, 60.0
"""Seconds until a server that failed is started again; they double with each failure in a row."""
LASTED = 60.0
"""A connection that lasted as many seconds was sound: the next failure is a first one."""


class Unavailable(ToolError):
    """A server of tools cannot be started or reached; the call was not made."""

    code = "TOOL_UNAVAILABLE"


class Attempt:
    """One attempt to connect: waited for by whoever needs the server."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.session: Session | None = None
        self.failure = ""


class Connection:
    """One server on one host, shared by its agents.

    Args:
        name: the server's.
        server: what is known of it.
        root: the host's scope: the connection's task is started there, and ends with it.

    Attributes:
        session: the open connection; ``None`` while there is none.
        version: counts listings of the server's tools; 0 before the first.
        failure: why the last attempt failed, empty when it did not.
    """

    def __init__(self, name: str, server: Server, root: Scope) -> None:
        self.name = name
        self.server = server
        self._root = root
        self._attempt: Attempt | None = None
        self._failures = 0
        self._not_before = 0.0
        self._ending = False
        self._over: trio.Event | None = None
        self.session: Session | None = None
        self.tools: tuple[Any, ...] = ()
        self.version = 0
        self.failure = ""

    @property
    def resting(self) -> bool:
        """Whether it failed and is left alone for a while."""
        return self.session is None and self._attempt is None and trio.current_time() < self._not_before

    async def need(self) -> Session:
        """An open connection; one is made where there is none.

        Raises:
            Unavailable: it cannot be had; the text says why.
        """
        while True:
            session = self.session
            if session is not None and not session.lost.is_set():
                return session
            if self._ending:
                raise Unavailable(f"server {self.name} was ended with its host. The call was not made.")
            attempt = self._attempt
            if attempt is None:
                wait = self._not_before - trio.current_time()
                if wait > self.server.limits.start_seconds:
                    raise self._unavailable(f"{self.failure}; it is tried again in {wait:.0f} s")
                if wait > 0:
                    await trio.sleep(wait)
                    continue
                attempt = self._begin()
            await attempt.over.wait()
            if attempt.session is None:
                raise self._unavailable(attempt.failure)

    def _unavailable(self, why: str) -> Unavailable:
        return Unavailable(f"server {self.name} is not available: {why}. The call was not made.")

    def _begin(self) -> Attempt:
        attempt = self._attempt = Attempt()
        before, self._over = self._over, trio.Event()
        over = self._over

        async def live() -> None:
            try:
                if before is not None:
                    await before.wait()  # the process of the connection before
                await trio.sleep(max(0.0, self._not_before - trio.current_time()))
                await self._live(attempt)
            finally:
                if self._attempt is attempt:
                    self._attempt = None
                attempt.over.set()
                over.set()

        try:
            self._root.spawn(live)
        except BaseException:
            self._attempt = None
            over.set()
            raise
        return attempt

    async def _live(self, attempt: Attempt) -> None:
        """Hold the connection while it lasts."""
        began = trio.current_time()
        session: Session | None = None
        try:
            connected = (await trio.to_thread.run_sync(_sdk)).connected
            async with connected(self.name, self.server, self._root, self._listed) as session:
                self.session = attempt.session = session
                self.failure = ""
                self._attempt = None
                self._listed()
                attempt.over.set()
                assert session is not None
                await session.lost.wait()
        except Exception as error:
            if session is None:
                attempt.failure = _why(error)
            else:
                session.reason = _why(error)
        finally:
            if session is not None:
                session.lose("it was ended")
            self.session = None
        if self._ending:
            return
        self.failure = attempt.failure if session is None else session.reason
        lasted = trio.current_time() - began > LASTED and session is not None
        self._failures = 1 if lasted else self._failures + 1
        wait = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** (self._failures - 1))
        self._not_before = trio.current_time() + wait
        LOGGER.warning("server of tools %s: %s; it may be started again in %.1f s", self.name, self.failure, wait)

    def _listed(self) -> None:
        assert self.session is not None
        self.tools = self.session.tools
        self.version += 1

    async def call(self, tool: str, arguments: dict[str, Any], run: ToolRun) -> ToolOutput:
        """Call a tool of the server; a connection that turns out to be over before anything was sent is made anew.

        Raises:
            Unavailable: the server cannot be had.
        """
        for _ in range(3):
            session = await self.need()
            try:
                output = await session.call(tool, arguments, run)
            except Exception as error:
                if type(error).__name__ != "Gone":
                    raise
                await trio.lowlevel.checkpoint()
                continue
            if not output.is_error:
                self._failures = 0
            return output
        raise self._unavailable("its connection breaks off again and again")

    async def end(self) -> None:
        """End the server with its process, and do not start it again."""
        self._ending = True
        if self.session is not None:
            self.session.lose("its host has ended")
        if self._over is not None:
            if self.session is None and self._attempt is not None:
                return  # it is still starting: the end of the scope cancels that
            await self._over.wait()


def _sdk() -> Any:
    try:
        return importlib.import_module(".session", __package__)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("treadle"):
            raise
        raise Unavailable(f"servers of tools need {error.name}: pip install 'treadle[mcp]'") from error


def _why(error: BaseException) -> str:
    """The first real reason in whatever a connection raised."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return describe(error)[:500]  # pyright: ignore[reportUnknownArgumentType]
