"""A directive for what the code knows: ``{made} package.module:function`` shows the Markdown that a function returns."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx


class Made(SphinxDirective):
    """Shows what is made when the site is, so that it cannot be older than the code."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make the nodes."""
        module, _, function = self.arguments[0].partition(":")
        return self.parse_text_to_nodes(
            getattr(importlib.import_module(module), function)(), allow_section_headings=True
        )


def commands() -> str:
    """All commands of ``treadle`` with their options, as sections below the page's title."""
    from treadle_cli.commands import whole

    text = whole().generate_docs(heading_level=1)
    return "## " + text.partition("\n## treadle ")[2].join(["treadle ", ""])


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_directive("made", Made)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
