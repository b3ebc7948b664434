"""From the words on the command line to a command, and from what it raises to an exit status."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter, UnknownOptionError
from rich.console import Console
from rich.text import Text

import treadle
from treadle import MisuseError, TreadleError
from treadle.containment import leaving_in
from treadle.printable import printable

from . import mounts
from .exits import Exit
from .extras import MissingExtra
from .mounts import GROUPS, Mount, chosen

_ABOUT = "A verified driver core for AI agents. Begin with `treadle demo`."


def run_command(tokens: list[str]) -> int:
    """Run ``treadle`` with these words and return its exit status."""
    forgive_encoding()
    return _written(_ended(tokens))


def _ended(tokens: list[str]) -> int:
    try:
        return _status(_run(tokens))
    except CycloptsError as error:
        say_error(*_wrong_words(error))
        return Exit.USAGE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except SystemExit as leaving:  # a module of the user's that was imported left
        return _left(leaving.code)
    except Exception as error:
        return _told(error)
    except BaseExceptionGroup as group:  # what of a trio program was interrupted before it took signals itself
        if not isinstance(leaving_in(group), KeyboardInterrupt):
            raise
        return Exit.INTERRUPTED


def _wrong_words(error: CycloptsError) -> tuple[str, str]:
    """What is wrong with the words on the command line, and what shows the right ones.

    A name is suggested when it is near without the dashes that all of them share.
    """
    text = str(error).strip()
    if isinstance(error, UnknownOptionError):
        text = text.partition(" Did you mean ")[0]
        known = {name.lstrip("-"): name for one in error.argument_collection or () for name in one.names if one.parse}
        near = get_close_matches((error.token.keyword or error.token.value).lstrip("-"), known, n=1)
        text += f" Did you mean {known[near[0]]}?" if near else ""
    command = " ".join(["treadle", *(error.command_chain or ())])
    return text, f"{command} --help shows what there is"


def _written(status: int) -> int:
    """See that all output is written before the process ends; what is not is a failure, told once."""
    try:
        if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by whoever started this
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        _let_go_of_stdout()
        if status == Exit.OK and not isinstance(error, BrokenPipeError):
            say_error(f"the output cannot be written: {_words(error)}")
        return status or Exit.FAILED
    return status


def _run(given: list[str]) -> Any:
    mount = chosen(given, mounts.MOUNTS)
    return _app([mount] if mount else [])(
        _dash_last(given) or ["--help"], exit_on_error=False, print_error=False, result_action="return_value"
    )


def _dash_last(tokens: list[str]) -> list[str]:
    """A lone ``-`` stands for stdin; put it where it is not taken for an option."""
    options = tokens[: tokens.index("--")] if "--" in tokens else tokens
    if "-" not in options:
        return tokens
    at = options.index("-")
    rest = tokens[:at] + tokens[at + 1 :]
    return [*rest, "-"] if "--" in rest else [*rest, "--", "-"]


def whole() -> App:
    """All commands with all that they take, as their documentation shows them; to run one imports less.

    Raises:
        MissingExtra: a library that a command needs is not installed.
    """
    return _app([mount for mount in mounts.MOUNTS if not mount.bare])


def _app(loaded: Collection[Mount]) -> App:
    """Put the commands together; only what runs those ``loaded`` is imported."""
    app = App(
        name="treadle",
        help=_ABOUT,
        version=treadle.__version__,
        help_format="markdown",
        suppress_keyboard_interrupt=False,
    )
    groups: dict[str, App] = {}
    for each in mounts.MOUNTS:
        parent = app
        if len(each.path) > 1:
            first = each.path[0]
            if first not in groups:
                groups[first] = App(name=first, help=GROUPS.get(first, ""))
                app.command(groups[first])
            parent = groups[first]
        if each in loaded:
            parent.command(each.load(), name=each.name)
        else:
            parent.command(_not_loaded, name=each.name, help=each.help)
    return app


def _not_loaded(*tokens: Annotated[str, Parameter(show=False)]) -> None:
    """Stand in the list of commands for one that was not asked for."""


def _left(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or Exit.OK
    say_error(str(code))
    return Exit.FAILED


def _status(result: Any) -> int:
    return Exit.OK if result is None or result is True else int(result)


def _told(error: Exception) -> int:
    """Say an error on stderr, in words where it is ours, and return the exit status."""
    single: BaseException = error
    while isinstance(single, BaseExceptionGroup) and len(single.exceptions) == 1:  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        single = single.exceptions[0]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if isinstance(single, BrokenPipeError):
        return Exit.FAILED
    if not isinstance(single, (TreadleError, OSError)):
        raise error
    more = None
    if isinstance(single, TreadleError) and type(single) not in (MisuseError, MissingExtra):
        more = f"{single.code}: treadle explain {single.code} says more"
    say_error(_words(single), more)
    return Exit.USAGE if isinstance(single, (MisuseError, MissingExtra)) else Exit.FAILED


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename is not None else error.strerror
    return str(error)


def say_error(text: str, then: str | None = None) -> None:
    """Print an error, and what to do about it, on stderr."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text.assemble(("treadle: ", "bold red"), printable(text)))
    if then:
        console.print(Text.assemble(("         ", ""), (printable(then), "dim")))


def forgive_encoding() -> None:
    """A terminal that cannot show a character gets a substitute instead of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _let_go_of_stdout() -> None:
    """Whoever read our output is gone; keep the interpreter from complaining about it at exit."""
    with contextlib.suppress(OSError, ValueError):  # stdout may be no file: then nothing is flushed to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
