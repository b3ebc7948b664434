"""The catalogue of hook points, made from ``treadle.hooks.points``.

Run it as a module:

    python -m treadle_specs.reports.hook_catalogue --write      # docs/hooks.md
    python -m treadle_specs.reports.hook_catalogue --check      # exit status 1 when the page is stale
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, cast

import attrs

from treadle.extensions.budgets import BUDGET_WARNING
from treadle.hooks import POINTS, HookPoint, Mode, Waterfall

from .generated import Made, attributes, cell, serve, summary

PAGE = "docs/hooks.md"

INTRODUCTION = (
    "Listen with `agent.scope.on(point, listener)` for one agent, or `host.on(point, listener)` for all; the points "
    "are in `treadle.hooks`, those of extensions in `treadle.extensions`. Generated from there by `python -m treadle_specs.reports.hook_catalogue --write`."
)

ALL: tuple[HookPoint[Any], ...] = (*POINTS, BUDGET_WARNING)
"""The points of the core, and of the extensions that ship with it."""

_MODES = {
    Mode.EMIT: (
        "Notifications",
        (
            "Every listener is called as `listener(payload)` once the commit it tells of is complete. What a listener "
            "raises is contained and reported as `agent/error`; an async one runs detached, in its scope."
        ),
    ),
    Mode.SERIAL: (
        "Serial points",
        "Listeners are called as `listener(payload)` and awaited in order; the first failure propagates.",
    ),
    Mode.WATERFALL: (
        "Waterfalls",
        (
            "Listeners are called as `listener(payload, proceed)`, the first registered outermost. Awaiting `proceed()` "
            "gives what the others and the driver would answer; a listener may answer without it, or change it."
        ),
    ),
}


def page(points: Iterable[HookPoint[Any]] = ALL) -> str:
    """Write the page."""
    points = tuple(points)
    lines = ["# Hook points", "", INTRODUCTION]
    for mode, (title, words) in _MODES.items():
        lines += ["", f"## {title}", "", words]
        for point in points:
            if point.mode is mode:
                lines += entry(point)
    lines += ["", "## Decisions", "", "What listeners of waterfalls answer.", "", "| class | fields | meaning |"]
    lines.append("| --- | --- | --- |")
    for kind in decisions(points):
        lines.append(f"| `{kind.__name__}` | {_fields(kind)} | {cell(summary(kind))} |")
    return "\n".join(lines) + "\n"


def entry(point: HookPoint[Any]) -> list[str]:
    """The lines about one point."""
    lines = ["", f"### `{point.name}`", "", f"{point.doc} Payload: `{point.payload.__name__}`."]
    if isinstance(point, Waterfall):
        lines[-1] += f" Answers: {', '.join([f'`{kind}`' for kind in _results(cast('Any', point))])}."
    documented = attributes(point.payload)
    lines += ["", "| field | type | |", "| --- | --- | --- |"]
    for field in attrs.fields(point.payload):
        lines.append(f"| `{field.name}` | `{cell(_type(field))}` | {cell(documented.get(field.name, ''))} |")
    return lines


def decisions(points: Iterable[HookPoint[Any]]) -> list[type]:
    """The classes that listeners of waterfalls may answer with, in the order of the points."""
    found: dict[type, None] = {}
    for point in points:
        if isinstance(point, Waterfall):
            found.update(dict.fromkeys([kind for kind in _answers(cast("Any", point)) if attrs.has(kind)]))
    return list(found)


def _answers(point: Any) -> tuple[type, ...]:
    given = cast("type | tuple[type, ...]", point.result)
    return given if isinstance(given, tuple) else (given,)


def _results(point: Any) -> list[str]:
    names: dict[type, str] = {object: "anything", type(None): "None"}
    return [names.get(kind, kind.__name__) for kind in _answers(point)]


def _type(field: attrs.Attribute[Any]) -> str:
    return field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))


def _fields(kind: type) -> str:
    return ", ".join([f"`{field.name}: {cell(_type(field))}`" for field in attrs.fields(kind)])


def main(arguments: list[str] | None = None) -> int:
    """Write or check the page; returns the exit status."""
    return serve("treadle_specs.reports.hook_catalogue", PAGE, lambda _: Made(page()), arguments)


if __name__ == "__main__":
    sys.exit(main())
