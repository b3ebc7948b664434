"""One loaded preset: an immutable revision that lives as long as somebody holds it (O9, O11, O12)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self

import trio
from attrs import define, field, frozen

from ...errors import ConfigError
from ...hooks.scope import Scope
from ..reading.documents import MAX_TOLD
from .components import Component, Composition, find
from .documents import ComponentSpec, PresetDefinition, parse_document

Report = Callable[[BaseException], None]


@frozen
class PresetInfo:
    """What people are shown of a preset.

    Attributes:
        id: its identity.
        title: for people.
        description: for people.
        revision: number of the loaded revision; grows with every registration under the host.
        error: why it could not be loaded, ``None`` when it was (O9).
    """

    id: str
    title: str
    description: str
    revision: int
    error: str | None = None


@frozen
class ComponentRow:
    """One component of a preset, and what became of it."""

    name: str
    state: Literal["active", "failed", "not started"]
    error: str | None = None


@define(eq=False)
class Revision:
    """A definition as it was loaded, with what its components registered."""

    definition: PresetDefinition
    number: int
    composition: Composition
    settled: trio.Event = field(factory=trio.Event)
    specs: tuple[ComponentSpec, ...] = ()
    active: int = 0
    error: str | None = None
    holders: int = 0
    retired: bool = False

    @property
    def scope(self) -> Scope:
        """Where its components registered."""
        return self.composition.scope

    @property
    def info(self) -> PresetInfo:
        """See ``PresetInfo``."""
        given = self.definition
        return PresetInfo(given.id, given.title or given.id, given.description, self.number, self.error)

    @property
    def rows(self) -> tuple[ComponentRow, ...]:
        """Its components, in order."""
        rows: list[ComponentRow] = []
        for index, spec in enumerate(self.specs):
            if index < self.active:
                rows.append(ComponentRow(spec.name, "active" if self.error is None else "not started"))
            elif index == self.active and self.error is not None:
                rows.append(ComponentRow(spec.name, "failed", self.error))
            else:
                rows.append(ComponentRow(spec.name, "not started"))
        return tuple(rows)

    async def load(self, registered: dict[str, Component], report: Report) -> None:
        """Run the components, in order. A failure is kept as the diagnosis, and everything is taken back (O9)."""
        try:
            self.specs = parse_document(self.definition.document, self.where)
            for spec in self.specs:
                await self._compose(spec, registered)
                self.active += 1
        except Exception as error:
            self.error = "\n".join(self._diagnosis(error, registered))
            self.composition.services.clear()
            await self.scope.close(report)
        except BaseException:
            self.error = "its loading was stopped"
            with trio.CancelScope(shield=True):
                await self.scope.close(report)
            raise
        finally:
            self.settled.set()

    @property
    def where(self) -> str:
        """What names its document in errors."""
        return self.definition.where or self.definition.id

    def _diagnosis(self, error: Exception, registered: dict[str, Component]) -> list[str]:
        """Why it could not be loaded; when a component is not there, all that are not."""
        if not self.specs:
            return [str(error) or type(error).__name__]
        wrong = [(self.active, error)]
        if isinstance(error, ConfigError):
            for index, spec in enumerate(self.specs[self.active + 1 :], self.active + 1):
                try:
                    find(spec.name, registered)
                except ConfigError as other:
                    wrong.append((index, other))
        return [self._line(index, one) for index, one in wrong[:MAX_TOLD]]

    def _line(self, index: int, error: Exception) -> str:
        spec = self.specs[index]
        line, column = spec.place
        return f"{self.where}:{line}:{column}: component {index + 1} ({spec.name}): {error or type(error).__name__}"

    async def _compose(self, spec: ComponentSpec, registered: dict[str, Component]) -> None:
        component = find(spec.name, registered)
        arguments, options = spec.split()
        result = component(self.composition, *arguments, **options)
        if inspect.isawaitable(result):
            await result

    def hold(self) -> None:
        """One more agent or lease needs it."""
        self.holders += 1

    async def release(self, report: Report) -> None:
        """One less; the last one out of a retired revision ends it."""
        self.holders -= 1
        await self.end_if_unused(report)

    async def end_if_unused(self, report: Report) -> None:
        """End it when it is retired and nobody holds it any more (O12)."""
        if self.retired and not self.holders:
            with trio.CancelScope(shield=True):
                await self.scope.close(report)


class Lease:
    """Holds a revision so that its registrations can be read, for example to show a cold transcript (O12).

    Use it as an async context manager, or ``await release()``.

    Attributes:
        preset: what is held.
        scope: its scope; what the host registers is visible there, too.
    """

    __slots__ = ("_released", "_report", "_revision", "preset", "scope")

    def __init__(self, revision: Revision, report: Report) -> None:
        revision.hold()
        self._revision = revision
        self._report = report
        self._released = False
        self.preset = revision.info
        self.scope = revision.scope

    def service(self, name: str) -> Any:
        """A service of the held revision, ``None`` when there is none."""
        return self._revision.composition.services.get(name)

    async def release(self) -> None:
        """Let go of the revision. Idempotent."""
        if not self._released:
            self._released = True
            await self._revision.release(self._report)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()
