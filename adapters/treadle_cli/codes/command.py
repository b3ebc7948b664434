"""``treadle explain``: a code, in words."""

from __future__ import annotations

from difflib import get_close_matches

from rich.console import Console
from rich.markdown import Markdown

from treadle import MisuseError

from .table import entries, explained


def explain(code: str | None = None) -> None:
    """Say what a code means and what to do about it; without one, list all.

    Codes stand in messages, in results of tools, in failures of turns and in answers over HTTP. They are stable.

    Args:
        code: the code, as in `RATE_LIMIT`.
    """
    console = Console(highlight=False)
    if code is None:
        for title, rows in entries().items():
            console.print(f"[bold]{title}[/bold]")
            for entry in rows:
                console.print(f"  {entry.code}", markup=False)
        return
    found = explained(code.upper())
    if not found:
        near = get_close_matches(code.upper(), [entry.code for rows in entries().values() for entry in rows], n=1)
        raise MisuseError(f"there is no code {code[:64]!r}" + (f"; did you mean {near[0]}?" if near else ""))
    for entry in found:
        name = f" ({entry.raised_as})" if entry.raised_as else ""
        console.print(Markdown(f"**{entry.code}**{name}: {entry.meaning}\n\n{entry.advice}"))
