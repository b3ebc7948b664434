"""Local tools in the scopes of agents; what changes something is asked about first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import trio

from treadle import Agent, Host, MisuseError, Tool
from treadle.hooks import TOOLS_PRE_EXECUTE, AllowCall, AskCall, DenyCall, Disposer, Scope, ToolProposal
from treadle.models import describe
from treadle.tools import ToolRegistry

from .files import NotText, difference, edited, file_tools, read_text
from .folder import Folder
from .shell import shell_tool

KINDS = ("files", "shell")
"""What there is."""
ASKED = frozenset(["edit_file", "write_file", "run_command"])
"""Calls of these are asked about: they change something."""

Asks = Literal["changes", "always", "never"]
"""Which calls need approval: those that may change something, all, or none."""
Decision = AllowCall | DenyCall | AskCall


class LocalTools:
    """Tools for the files of a folder, and for commands run in it.

    File tools never leave the folder. Commands are programs: they run in it, and what they touch is theirs to decide;
    that is what approval is for.

    Args:
        folder: the folder; it must be there.
        kinds: ``files``, ``shell`` or both.
        asks: which calls need approval by the host's approver.

    Raises:
        MisuseError: there is no such folder, or no such kind.
    """

    def __init__(self, folder: str | Path, kinds: Iterable[str] = KINDS, *, asks: Asks = "changes") -> None:
        given = tuple(kinds)
        unknown = [kind for kind in given if kind not in KINDS]
        if unknown or not given:
            raise MisuseError(f"local tools are {' and '.join(KINDS)}, not {', '.join(unknown) or 'none'}")
        self._folder = Folder(folder)
        if not self._folder.root.is_dir():
            raise MisuseError(f"there is no folder {self._folder.root}")
        self._asks = asks
        tools: list[Tool] = []
        if "files" in given:
            tools += file_tools(self._folder)
        if "shell" in given:
            tools.append(shell_tool(self._folder.root))
        self.tools = tuple(tools)
        self._by_name = {tool.name: tool for tool in tools}

    def attach(self, place: Host | Agent | Scope) -> Disposer:
        """Offer the tools to all agents of a host, or to one agent, or to those below a scope.

        Returns:
            An idempotent function that takes them out again.

        Raises:
            MisuseError: a tool of such a name is there already.
            ScopeClosed: it has ended.
        """
        scope = place if isinstance(place, Scope) else place.scope
        registry = ToolRegistry(scope)
        disposers: list[Disposer] = []
        try:
            for tool in self.tools:
                disposers.append(registry.register(tool))  # noqa: PERF401  # those before one that fails are taken back
        except BaseException:
            for dispose in disposers:
                dispose()
            raise
        if self._asks != "never":
            disposers.append(scope.on(TOOLS_PRE_EXECUTE, self._before_call))

        def detach() -> None:
            for dispose in disposers:
                dispose()

        return detach

    async def _before_call(self, proposal: ToolProposal, proceed: Callable[[], Awaitable[Decision]]) -> Decision:
        decision = await proceed()
        name = proposal.call.name
        tool = self._by_name.get(name)
        if tool is None or proposal.agent.tools.get(name) is not tool or not isinstance(decision, AllowCall):
            return decision
        if self._asks != "always" and name not in ASKED:
            return decision
        if decision.arguments is not None:
            return DenyCall("a call that needs approval cannot be made with other arguments than the model's")
        return await trio.to_thread.run_sync(self._question, name, proposal.arguments)

    def _question(self, name: str, arguments: dict[str, Any]) -> AskCall | DenyCall:
        """What is asked: the command, or the change as a difference. What would fail is not asked about."""
        try:
            if name == "edit_file":
                path = arguments["path"]
                before, after = edited(
                    self._folder, path, arguments["old"], arguments["new"], arguments.get("every", False)
                )
                return AskCall(f"may {path} be changed?\n{difference(path, before, after)}")
            if name == "write_file":
                return self._write_question(arguments["path"], arguments["content"])
        except Exception as error:
            return DenyCall(describe(error), getattr(error, "code", "TOOL_FAILED"))
        if name == "run_command":
            return AskCall(f"may this be run in {self._folder.root}?\n{arguments['command']}")
        return AskCall(f"may {name} be called?")

    def _write_question(self, path: str, content: str) -> AskCall:
        if not self._folder.has(path):
            return AskCall(f"may {path} be written?\n{difference(path, '', content)}")
        return AskCall(f"may {path} be written over?\n{difference(path, self._before(path), content)}")

    def _before(self, path: str) -> str:
        try:
            return read_text(self._folder, path)
        except NotText:
            return "(no text)"
