"""What presets are composed of: the components that ship, and how others are found (O11)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from attrs import field, frozen

from ...errors import ConfigError, MisuseError
from ...hooks.scope import Scope
from ...prompt.registry import PromptRegistry
from ...tools.registry import ToolRegistry

Component = Callable[..., Any]
"""``component(composition, …)``, sync or async: registers what it brings through the composition."""


@frozen(eq=False)
class Composition:
    """One revision of a preset while it is being loaded.

    Attributes:
        preset: the preset's id.
        scope: what is registered through it is visible to the agents bound to the revision, and to no others.
        services: what components provided, by name.
    """

    preset: str
    scope: Scope
    services: dict[str, Any] = field(factory=lambda: {})

    @property
    def tools(self) -> ToolRegistry:
        """Tools of the agents bound to this revision."""
        return ToolRegistry(self.scope)

    @property
    def prompt(self) -> PromptRegistry:
        """Prompt parts of the agents bound to this revision."""
        return PromptRegistry(self.scope)

    def provide(self, name: str, service: object) -> None:
        """Offer a service to the agents bound to this revision; ``presets.service_for`` finds it.

        Raises:
            MisuseError: another component provides one of that name.
        """
        if name in self.services:
            raise MisuseError(f"preset {self.preset!r} has a service named {name!r} already (O11)")
        self.services[name] = service


def persona(composition: Composition, text: str) -> None:
    """The persona of the bound agents; an agent's own shadows it (R3)."""
    composition.prompt.persona(text)


def section(
    composition: Composition, name: str, text: str, order: float = 0, complete: bool = False, template: bool = True
) -> None:
    """A section of the system prompt (R1)."""
    composition.prompt.section(name, text, order=order, complete=complete, template=template)


def variable(composition: Composition, name: str, value: str) -> None:
    """A variable of the system prompt (R1)."""
    composition.prompt.variable(name, value)


def restrict(composition: Composition, allow: Iterable[str] | None = None, deny: Iterable[str] = ()) -> None:
    """Filter the tools that the bound agents inherit from the host (K10)."""
    composition.tools.restrict(allow=allow, deny=deny)


SHIPPED: dict[str, Component] = {
    "persona": persona,
    "restrict": restrict,
    "section": section,
    "variable": variable,
}


def find(name: str, registered: dict[str, Component]) -> Component:
    """A component by its registered name, or by ``package.module:attribute``.

    Raises:
        ConfigError: there is none.
    """
    known = registered.get(name)
    if known is not None:
        return known
    if ":" not in name:
        names = ", ".join(sorted(registered))
        raise ConfigError(f"no component is named {name!r} (known: {names}; or write package.module:attribute)")
    return import_callable(name)


def import_callable(name: str) -> Any:
    """Import ``package.module:attribute``, a function or class.

    Raises:
        ConfigError: there is no such module or attribute, importing it failed, or it is something else.
    """
    found = import_attribute(name)
    if not callable(found):
        raise ConfigError(f"{name!r} is no function or class")
    return found


def import_attribute(name: str) -> Any:
    """Import ``package.module:attribute``.

    Raises:
        ConfigError: there is no such module or attribute, or importing it failed.
    """
    module, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ConfigError(f"{name!r} cannot be imported: {error or type(error).__name__}") from error
    return found
