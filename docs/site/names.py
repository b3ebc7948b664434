"""The reference of the API: a directive for each door, and links to public names wherever code or docstrings name them.

A name is defined in a module that is internal, and documented at its door. Here each is looked up by what it is.
"""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from typing import TYPE_CHECKING

from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from treadle_specs.reports.public_names import DAILY, THEMES, meaning

if TYPE_CHECKING:
    from types import ModuleType

    from docutils import nodes
    from sphinx.application import Sphinx

OTHERS = {
    "treadle_adapters.models.openai_chat": ["OpenAIChat"],
    "treadle_adapters.models.openai_responses": ["OpenAIResponses"],
    "treadle_adapters.models.anthropic": ["Anthropic"],
    "treadle_adapters.models.deepseek": ["DeepSeek"],
    "treadle_adapters.stores": ["open_store"],
    "treadle_adapters.stores.jsonl": ["JsonlStore"],
    "treadle_adapters.stores.sqlite": ["SqliteStore"],
    "treadle_adapters.stores.postgres": None,
    "treadle_adapters.cluster": None,
    "treadle_adapters.mcp": None,
    "treadle_adapters.telemetry": None,
    "treadle_adapters.tools": None,
    "treadle_adapters.web": None,
    "treadle_specs.agents": None,
    "treadle_specs.kits": None,
    "treadle_specs.rehearsal": None,
    "treadle_specs.rigkit": None,
}
"""The doors beyond the core's that the reference shows, and what of each; ``None`` for all that it exports."""

LITERAL = re.compile(r"``([A-Z]\w+|[a-z]\w*_\w+)(\(\))?``")


def exported(door: str) -> list[str]:
    """The names that the reference shows of a door."""
    return OTHERS.get(door) or list(importlib.import_module(door).__all__)


@cache
def homes() -> dict[str, str]:
    """The full name under which the reference has it, by public name; themes come before what repeats them."""
    found: dict[str, str] = {}
    for door in (*THEMES, DAILY, *OTHERS):
        for name in exported(door):
            found.setdefault(name, f"{door}.{name}")
    return found


class Door(SphinxDirective):
    """``{door} treadle.agent``: all that a door exports, with what its docstrings promise; what is at home elsewhere is linked."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make the nodes."""
        door = self.arguments[0]
        module = importlib.import_module(door)
        here = [name for name in exported(door) if homes()[name] == f"{door}.{name}"]
        there = [homes()[name] for name in exported(door) if name not in here]
        lines = [
            "```{eval-rst}",
            f".. py:module:: {door}",
            "",
            *inspect.cleandoc(module.__doc__ or "").splitlines(),
            "",
        ]
        if there:
            lines += [".. rubric:: From the modules by theme", ""]
            lines += [" · ".join([f":py:obj:`{home.rpartition('.')[2]} <{home}>`" for home in there]), ""]
        for name in here:
            lines += entry(module, name)
        return self.parse_text_to_nodes("\n".join([*lines, "```"]), allow_section_headings=True)


def entry(module: ModuleType, name: str) -> list[str]:
    """The directive that documents one name."""
    value = getattr(module, name)
    whole = f"{module.__name__}.{name}"
    if inspect.isclass(value):
        return [f".. auto{'exception' if issubclass(value, BaseException) else 'class'}:: {whole}", ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {whole}", ""]
    words = [f"   {line}" for line in inspect.cleandoc(meaning(module, name)).splitlines()]
    linked(None, "data", whole, value, None, words)
    return [f".. py:data:: {whole}", "", *words, ""]


def known(app: Sphinx, tree: nodes.document) -> None:
    """Have each reference to Python lead to where the reference has the name, and guess at none."""
    del app
    for node in tree.findall(addnodes.pending_xref):
        if node.get("refdomain") != "py":
            continue
        node["refspecific"] = False
        home = homes().get(node["reftarget"].rpartition(".")[2])
        if home is not None:
            node["reftarget"] = home


def linked(_: Sphinx | None, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Make links of the public names in a docstring."""
    del what, value, options

    def link(found: re.Match[str]) -> str:
        home = homes().get(found[1])
        return f":py:obj:`{found[1]}{found[2] or ''} <{home}>`" if home and home != name else found[0]

    lines[:] = [LITERAL.sub(link, line) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_directive("door", Door)
    app.connect("doctree-read", known)
    app.connect("autodoc-process-docstring", linked)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
