"""The page of public names: what each door of the core exports, with the first sentence of what its docstring promises.

Run it as a module:

    python -m treadle_specs.reports.public_names --write      # docs/public-names.md
    python -m treadle_specs.reports.public_names --check      # exit status 1 when the page is stale
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from treadle.hooks import HookPoint

from .generated import Made, cell, serve

PAGE = "docs/public-names.md"

DAILY = "treadle"
"""The door that repeats, of the others, what is used daily."""

THEMES = tuple(
    [
        f"treadle.{name}"
        for name in [
            "agent",
            "hooks",
            "tools",
            "models",
            "session",
            "prompt",
            "presets",
            "asyncio",
            "extensions.budgets",
            "extensions.compaction",
            "extensions.estimates",
            "extensions.usage",
            "testing",
            "errors",
        ]
    ]
)
"""The doors by theme: each public name is in one of them, or in ``treadle`` alone."""

INTRODUCTION = (
    "What may be relied on: these names, under these modules. `treadle` has what a program that embeds agents uses daily; "
    "the other modules have everything by theme, so that who writes a tool, a listener, an adapter or a store finds what "
    "it takes in one place. Every other module is internal and may change. "
    "Generated from their `__all__` by `python -m treadle_specs.reports.public_names --write`."
)


def page() -> str:
    """Write the page."""
    lines = ["# Public names", "", INTRODUCTION]
    for door in (DAILY, *THEMES):
        module = importlib.import_module(door)
        lines += ["", f"## `{door}`", "", f"{sentence(inspect.getdoc(module) or '')}", ""]
        lines += (
            ["| name | meaning | also in |", "| --- | --- | --- |"]
            if door == DAILY
            else ["| name | meaning |", "| --- | --- |"]
        )
        for name in module.__all__:
            row = f"| `{name}` | {cell(sentence(meaning(module, name)))} |"
            lines.append(row + (f" {_theme(name)} |" if door == DAILY else ""))
    return "\n".join(lines) + "\n"


def meaning(module: ModuleType, name: str) -> str:
    """What is written about a name: by its docstring, its hook point, or the string below its assignment."""
    value: Any = getattr(module, name)
    if isinstance(value, HookPoint):
        return value.doc
    if inspect.isclass(value) or inspect.isroutine(value):
        return inspect.cleandoc(value.__doc__ or "")
    return _below_assignment(module.__name__, name)


def sentence(text: str) -> str:
    """The first sentence of a docstring, in one line."""
    line = " ".join(text.partition("\n\n")[0].replace("``", "`").split())
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`])", line)[0]


def _theme(name: str) -> str:
    found = [door for door in THEMES if name in importlib.import_module(door).__all__]
    return f"`{found[0]}`" if found else ""


def _below_assignment(module: str, name: str) -> str:
    """The string below the assignment of a name, looked for where it was imported from."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        return ""
    body = ast.parse(Path(found.origin).read_text(encoding="utf-8")).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ImportFrom):
            inside = module if found.submodule_search_locations else module.rpartition(".")[0]
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), inside)
            names = [alias.name for alias in node.names]
            if name in (importlib.import_module(source).__all__ if names == ["*"] else names):
                return _below_assignment(source, name)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if name in [target.id for target in targets if isinstance(target, ast.Name)]:
                written = after.value if isinstance(after, ast.Expr) else None
                return written.value if isinstance(written, ast.Constant) and isinstance(written.value, str) else ""
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Write or check the page; returns the exit status."""
    return serve("treadle_specs.reports.public_names", PAGE, lambda _: Made(page()), arguments)


if __name__ == "__main__":
    sys.exit(main())
