"""The table of commands. To add one, add a row."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from attrs import frozen

from treadle.errors import TreadleError


class MissingExtra(TreadleError):
    """A command needs libraries that are not installed."""

    code = "MISSING_EXTRA"


@frozen
class Mount:
    """One command.

    Attributes:
        path: its words, as in ``("export", "promela")``.
        target: what runs it, as ``module:name``; imported when the command is called, not before. A function with
            annotated parameters, or a cyclopts ``App``.
        help: one line for the list of commands.
        extra: the extra that it needs.
        raw: ``target`` takes the list of arguments as it is, and parses it itself.
        bare: called without arguments it is run at once, without the time that reading a command line takes.
    """

    path: tuple[str, ...]
    target: str
    help: str
    extra: str = "all"
    raw: bool = False
    bare: bool = False

    @property
    def name(self) -> str:
        """Its last word."""
        return self.path[len(self.path) - 1]

    @property
    def exists(self) -> bool:
        """Whether this treadle has the command: its module is there, whether or not its libraries are."""
        module = self.target.partition(":")[0]
        try:
            return find_spec(module) is not None
        except ImportError:
            return False

    def load(self) -> Any:
        """Import the target.

        Raises:
            MissingExtra: a library that it needs is not installed; the text says what to install.
        """
        module, _, name = self.target.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0].startswith("treadle"):
                raise
            raise MissingExtra(
                f"`treadle {' '.join(self.path)}` needs {error.name}: pip install 'treadle[{self.extra}]'"
            ) from error


GROUPS = {
    "export": "Write the lifecycle in another language.",
    "sessions": "Look at stored sessions.",
}
"""The first words of commands of several words."""

# fmt: off
MOUNTS: tuple[Mount, ...] = (
    Mount(("demo",),     "treadle_adapters.cli.demo:demo",
          "Show an agent at work: no key, no network.", "cli"),
    Mount(("run",),      "treadle_adapters.cli.run:run",
          "Talk to an agent, or have it answer one prompt.", "cli"),
    Mount(("models",),   "treadle_adapters.cli.models:models",
          "List the routes to model servers, and ask whether they answer.", "cli"),
    Mount(("show",),     "treadle_adapters.cli.show:show",
          "Show a session: its transcript, its events, or a page.", "cli"),
    Mount(("sessions", "list"), "treadle_adapters.cli.sessions:list_sessions",
          "List what is stored.", "cli"),
    Mount(("sessions", "show"), "treadle_adapters.cli.sessions:show_session",
          "Show the raw events of a session.", "cli"),
    Mount(("sessions", "fork"), "treadle_adapters.cli.sessions:fork_session",
          "Begin a new session with the events of another.", "cli"),
    Mount(("sessions", "verify"), "treadle_adapters.cli.sessions:verify_sessions",
          "Say what is wrong with sessions.", "cli"),
    Mount(("sessions", "repair"), "treadle_adapters.cli.sessions:repair_session",
          "Mend what a crash left.", "cli"),
    Mount(("diagram",),  "treadle_adapters.cli.diagram:diagram",
          "Draw the lifecycle from its table.", "diagrams"),
    Mount(("rig",),      "treadle_specs.rig.wire:main",
          "Speak the rig protocol on stdin and stdout.", "specs", bare=True),
    Mount(("conform",),  "treadle_specs.conformance.command:main",
          "Hold any driver behind the rig protocol to the contract.", "specs", raw=True),
    Mount(("replay",),   "treadle_specs.conformance.command:replay_main",
          "Play saved counterexamples on a driver again.", "specs", raw=True),
    Mount(("explore",),  "treadle_specs.exploration.explorer:main",
          "Visit every state of the kernel and check every property there.", "specs", raw=True),
    Mount(("check",),    "treadle_specs.logs.checker:main",
          "Hold session logs to the rules, whoever wrote them.", "specs", raw=True),
    Mount(("export", "promela"), "treadle_specs.exploration.promela:main",
          "Write the lifecycle as a Promela model for spin.", "specs", raw=True),
)
# fmt: on


def available() -> tuple[Mount, ...]:
    """The commands of this installation."""
    return tuple(mount for mount in MOUNTS if mount.exists)


def chosen(tokens: Sequence[str], mounts: Sequence[Mount]) -> Mount | None:
    """The command that the words name, ``None`` when they name none."""
    for mount in mounts:
        if tuple(tokens[: len(mount.path)]) == mount.path:
            return mount
    return None
