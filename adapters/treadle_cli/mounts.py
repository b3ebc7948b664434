"""The table of commands. To add one, add what imports it and a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from .extras import extra_for

Target = Callable[..., Any]
"""What runs a command: a function with annotated parameters, or a cyclopts ``App``."""


@frozen
class Mount:
    """One command.

    Attributes:
        path: its words, as in ``("export", "promela")``.
        target: imports what runs it; called when the command is, not before.
        help: one line for the list of commands.
        extra: the extra that it needs.
        bare: called without arguments it is run at once, without the time that reading a command line takes.
    """

    path: tuple[str, ...]
    target: Callable[[], Target]
    help: str
    extra: str = "all"
    bare: bool = False

    @property
    def name(self) -> str:
        """Its last word."""
        return self.path[len(self.path) - 1]

    def load(self) -> Target:
        """Import what runs it.

        Raises:
            MissingExtra: a library that it needs is not installed; the text says what to install.
        """
        with extra_for(f"`treadle {' '.join(self.path)}` needs", self.extra):
            return self.target()


# --- what runs them ---------------------------------------------------------------------------------------------------


def _demo() -> Target:
    from .demo.command import demo

    return demo


def _run() -> Target:
    from .run.command import run

    return run


def _mcp_serve() -> Target:
    from .run.serving import serve

    return serve


def _serve() -> Target:
    from .run.web import serve_web

    return serve_web


def _models() -> Target:
    from .models.command import models

    return models


def _explain() -> Target:
    from .codes.command import explain

    return explain


def _show() -> Target:
    from .show.command import show

    return show


def _diagram() -> Target:
    from .show.diagram import diagram

    return diagram


def _list_sessions() -> Target:
    from .stores.sessions import list_sessions

    return list_sessions


def _show_session() -> Target:
    from .stores.sessions import show_session

    return show_session


def _fork_session() -> Target:
    from .stores.sessions import fork_session

    return fork_session


def _verify_sessions() -> Target:
    from .stores.sessions import verify_sessions

    return verify_sessions


def _repair_session() -> Target:
    from .stores.sessions import repair_session

    return repair_session


def _rig() -> Target:
    from treadle_specs.rig.wire import main

    return main


def _conform() -> Target:
    from .verify.drivers import conform

    return conform


def _replay() -> Target:
    from .verify.drivers import replay

    return replay


def _rig_check() -> Target:
    from .verify.drivers import rig_check

    return rig_check


def _explore() -> Target:
    from .verify.kernel import explore

    return explore


def _check() -> Target:
    from .verify.logs import check

    return check


def _rehearse() -> Target:
    from .verify.rehearsal import rehearse_sessions

    return rehearse_sessions


def _promela() -> Target:
    from .verify.kernel import export_promela

    return export_promela


def _export_otlp() -> Target:
    from .telemetry.export import export_otlp

    return export_otlp


def _stats() -> Target:
    from .telemetry.stats import stats

    return stats


# --- the table --------------------------------------------------------------------------------------------------------

GROUPS = {
    "mcp": "Speak the Model Context Protocol.",
    "export": "Write the lifecycle, or sessions, in another language.",
    "sessions": "Look at stored sessions.",
}
"""The first words of commands of several words."""

# fmt: off
MOUNTS: tuple[Mount, ...] = (
    Mount(("demo",),    _demo,    "Show an agent at work: no key, no network.", "cli"),
    Mount(("run",),     _run,     "Talk to an agent, or have it answer one prompt.", "cli"),
    Mount(("serve",),   _serve,   "Serve agents over HTTP, for programs and for a browser.", "web"),
    Mount(("mcp", "serve"), _mcp_serve, "Serve an agent to clients that speak the Model Context Protocol.", "mcp"),
    Mount(("models",),  _models,  "List the routes to model servers, and ask whether they answer.", "cli"),
    Mount(("explain",), _explain, "Say what a code of an error or a failure means, and what to do.", "all"),
    Mount(("show",),    _show,    "Show a session: its transcript, its events, or a page.", "cli"),
    Mount(("sessions", "list"),   _list_sessions,   "List what is stored.", "cli"),
    Mount(("sessions", "show"),   _show_session,    "Show the raw events of a session.", "cli"),
    Mount(("sessions", "fork"),   _fork_session,    "Begin a new session with the events of another.", "cli"),
    Mount(("sessions", "verify"), _verify_sessions, "Say what is wrong with sessions.", "cli"),
    Mount(("sessions", "repair"), _repair_session,  "Mend what a crash left.", "cli"),
    Mount(("diagram",), _diagram, "Draw the lifecycle from its table.", "diagrams"),
    Mount(("rig",),     _rig,     "Speak the rig protocol on stdin and stdout.", "specs", bare=True),
    Mount(("conform",), _conform, "Hold any driver behind the rig protocol to the contract.", "specs"),
    Mount(("rig-check",), _rig_check, "Walk one short session with a rig, and say what it lacks.", "specs"),
    Mount(("replay",),  _replay,  "Play saved counterexamples on a driver again.", "specs"),
    Mount(("explore",), _explore, "Visit every state of the kernel and check every property there.", "specs"),
    Mount(("check",),   _check,   "Hold session logs to the rules, whoever wrote them.", "specs"),
    Mount(("rehearse",), _rehearse, "Run recorded sessions again on today's code, without a model.", "specs"),
    Mount(("export", "otlp"),     _export_otlp,     "Write the spans of sessions as OpenTelemetry takes them.", "cli"),
    Mount(("stats",),   _stats,   "Say what models and tools took: time, tokens, failures.", "cli"),
    Mount(("export", "promela"),  _promela, "Write the lifecycle as a Promela model for spin.", "specs"),
)
# fmt: on


def chosen(tokens: Sequence[str], mounts: Sequence[Mount]) -> Mount | None:
    """The command that the words name, ``None`` when they name none; of two, the one with more words."""
    named = [mount for mount in mounts if tuple(tokens[: len(mount.path)]) == mount.path]
    return max(named, key=lambda mount: len(mount.path), default=None)
