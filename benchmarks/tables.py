"""Figures as text in columns."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from .measure import Row
from .peers.table import WORK, Standing

_SIGNS = {"ratio": "≤", "at-most": "≤", "at-least": "≥"}


def table(rows: Iterable[Row]) -> str:
    """The rows as aligned text."""
    lines = [("name", "ours", "floor", "unit", "ratio", "by wall", "bar", "ok?")]
    lines += [
        (
            row.name,
            number(row.ours),
            number(row.floor),
            row.unit,
            number(row.ratio, 2),
            number(row.wall, 2),
            bar(row),
            "yes" if row.ok else "NO",
        )
        for row in rows
    ]
    return aligned(lines, left={0, 3})


def peers_table(standings: Iterable[Standing]) -> str:
    """What drivers reached, in units per second of processor time, as aligned text."""
    lines = [("driver", "version", *[f"{kind}/CPU s" for kind in WORK])]
    lines += [(one.peer, one.version, *[number(one.rates[kind]) for kind in WORK]) for one in standings]
    return aligned(lines, left={0, 1})


def aligned(lines: Sequence[Sequence[str]], left: Container[int]) -> str:
    """Lines of cells as text in columns; those in ``left`` begin at their left."""
    widths = [max([len(line[column]) for line in lines]) for column in range(len(lines[0]))]
    return "\n".join(
        [
            "  ".join(
                [
                    cell.ljust(width) if column in left else cell.rjust(width)
                    for column, (cell, width) in enumerate(zip(line, widths, strict=True))
                ]
            )
            for line in lines
        ]
    )


def bar(row: Row) -> str:
    """What a row is held to."""
    return f"{_SIGNS[row.rule]} {number(row.bar)}{' ×' if row.rule == 'ratio' else ''}"


def number(value: float | None, digits: int | None = None) -> str:
    """A figure as tables have it: three significant digits or so; a dash where there is none."""
    if value is None:
        return "–"
    if digits is None:
        digits = 0 if value >= 1_000 else 1 if value >= 10 or value == int(value) else 3
    return f"{value:,.{digits}f}"
