"""The default model: one selection, readable and savable, independent of any host (O10)."""

from __future__ import annotations

from typing import Any, Protocol

import trio
from attrs import evolve, field, frozen

from ..agent.options import AgentOptions
from ..errors import MisuseError
from ..lossless import check_text


def _word(_: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise MisuseError(f"a model selection needs its {attribute.name} as text, not {value!r} (O10)")
    check_text(value, f"a model selection's {attribute.name}")


def _word_or_none(instance: Any, attribute: Any, value: Any) -> None:
    if value is not None:
        _word(instance, attribute, value)


@frozen
class ModelSelection:
    """A provider, a model of its, and how hard it thinks; ``None`` leaves that to the adapter (O10)."""

    provider: str = field(validator=_word)
    model: str = field(validator=_word)
    reasoning_effort: str | None = field(default=None, validator=_word_or_none)


class SelectionEditor(Protocol):
    """Keeps a saved selection beyond this process; ``TomlProfile`` is one."""

    async def write(self, selection: ModelSelection) -> None:
        """Write the whole selection; return once it is kept."""
        ...


class DefaultModel:
    """What agents use that name neither provider nor model.

    Args:
        configured: the entry of the deployment's configuration.
        saved: what an earlier process saved; it goes before the configured entry.
        editor: keeps what is saved. Without one a saved selection lasts as long as this process, and the configured
            entry stays what it is.
    """

    def __init__(
        self,
        configured: ModelSelection | None = None,
        *,
        saved: ModelSelection | None = None,
        editor: SelectionEditor | None = None,
    ) -> None:
        self._configured = configured
        self._current = saved if saved is not None else configured
        self._editor = editor
        self._saving = trio.Lock()

    @property
    def configured(self) -> ModelSelection | None:
        """The configured entry; no save changes it."""
        return self._configured

    def current(self) -> ModelSelection | None:
        """The selection as of now, detached: later saves do not change what was returned. ``None``: there is none."""
        return self._current

    async def save(self, selection: ModelSelection) -> None:
        """Make this the whole selection; returns once the editor, if there is one, has kept it.

        Raises:
            MisuseError: it is no ``ModelSelection``.
            Exception: what the editor raised; then the selection is what it was.
        """
        if not isinstance(selection, ModelSelection):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MisuseError(f"save takes a ModelSelection, not {type(selection).__name__} (O10)")
        async with self._saving:
            if self._editor is not None:
                await self._editor.write(selection)
            self._current = selection

    def fill(self, options: AgentOptions) -> AgentOptions:
        """The options with the selection filled in, where they name neither provider nor model."""
        chosen = self._current
        if chosen is None or options.provider is not None or options.model is not None:
            return options
        return evolve(
            options,
            provider=chosen.provider,
            model=chosen.model,
            reasoning_effort=options.reasoning_effort or chosen.reasoning_effort,
        )
