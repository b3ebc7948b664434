"""The presets of a host, from asyncio code (O9, O11, O12)."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from ..hooks.scope import Scope
from ..host.presets.components import Component
from ..host.presets.documents import PresetDefinition
from ..host.presets.presets import Chooser, PresetDocument, PresetInventory, PresetRoster, Presets
from ..host.presets.revisions import Lease, PresetInfo
from .agent import BridgedAgent
from .crossing import Crossing, Undo
from .reply import Reply


class BridgedPresets:
    """The presets of the host. What is awaited raises ``BridgeClosed``, too, when the bridge is closed meanwhile."""

    __slots__ = ("_crossing", "_presets")

    def __init__(self, crossing: Crossing, presets: Presets) -> None:
        self._crossing = crossing
        self._presets = presets

    @property
    def default(self) -> str | None:
        """The preset of those who name none; may be set, from any thread."""
        return self._presets.default

    @default.setter
    def default(self, id: str | None) -> None:
        self._presets.default = id

    @property
    def chooser(self) -> Chooser:
        """See ``PresetRoster``; may be set, from any thread."""
        return self._presets.chooser

    @chooser.setter
    def chooser(self, chooser: Chooser) -> None:
        self._presets.chooser = chooser

    # --- declaring ----------------------------------------------------------------------------------------------------

    def component(self, name: str, component: Component) -> Reply[Undo]:
        """See ``Presets.component``. A component registers through its composition: it runs in the host's thread.

        Raises:
            MisuseError: from the reply: the name is taken, or holds a colon.
            BridgeClosed: from the call: the bridge is not open.
        """
        return self._crossing.register(self._presets.component, name, component)

    async def register(self, definition: PresetDefinition) -> Undo:
        """See ``Presets.register``. A cancelled declaration is taken back.

        Raises:
            MisuseError: the id is declared already.
        """

        async def declare() -> Undo:
            dispose = await self._presets.register(definition)
            return lambda: self._crossing.call(dispose)

        async def undeclare(undo: Undo) -> None:
            undo()

        return await self._crossing.run(declare, lost=undeclare)

    # --- reading ------------------------------------------------------------------------------------------------------

    async def list(self) -> tuple[PresetInfo, ...]:
        """See ``Presets.list``."""
        return await self._crossing.run(self._presets.list)

    async def resolve(self, id: str | None = None) -> PresetInfo:
        """See ``Presets.resolve``.

        Raises:
            PresetError: there is none of that id, or no default.
        """
        return await self._crossing.run(self._presets.resolve, id)

    async def roster(self) -> PresetRoster:
        """See ``Presets.roster``."""
        return await self._crossing.run(self._presets.roster)

    def read_document(self, id: str) -> PresetDocument:
        """See ``Presets.read_document``, as of now; it raises in the call."""
        return self._presets.read_document(id)

    async def inventory(self) -> tuple[PresetInventory, ...]:
        """See ``Presets.inventory``."""
        return await self._crossing.run(self._presets.inventory)

    # --- binding agents -----------------------------------------------------------------------------------------------

    def composed_preset(self, scope: Scope) -> str | None:
        """See ``Presets.composed_preset``, as of now."""
        return self._presets.composed_preset(scope)

    def service_for(self, agent: BridgedAgent, name: str) -> Any:
        """See ``Presets.service_for``, as of now. The service lives in the host's thread, unless it says otherwise."""
        return self._presets.service_for(agent.native, name)

    async def recompose(self, scope: Scope, id: str) -> PresetInfo:
        """See ``Presets.recompose``.

        Raises:
            PresetError: there is no such preset, or it is broken; then the old binding stands.
        """
        return await self._crossing.run(self._presets.recompose, scope, id)

    async def select(self, agent: BridgedAgent, id: str) -> str:
        """See ``Presets.select``.

        Raises:
            PresetError: there is no such preset, or it is broken.
            MisuseError: the agent has had a turn.
        """
        return await self._crossing.run(self._presets.select, agent.native, id)

    async def acquire_scope(self, id: str | None = None) -> BridgedLease:
        """See ``Presets.acquire_scope``. What a cancelled call leased is let go of.

        Raises:
            PresetError: there is no such preset, or it is broken.
        """

        async def release(lease: Lease) -> None:
            await lease.release()

        return BridgedLease(self._crossing, await self._crossing.run(self._presets.acquire_scope, id, lost=release))


class BridgedLease:
    """Holds a revision of a preset so that it can be read (O12). Use it as an async context manager, or ``release``.

    Attributes:
        preset: what is held.
        scope: its scope, to be used in the host's thread.
    """

    __slots__ = ("_crossing", "_lease", "preset", "scope")

    def __init__(self, crossing: Crossing, lease: Lease) -> None:
        self._crossing = crossing
        self._lease = lease
        self.preset = lease.preset
        self.scope = lease.scope

    def service(self, name: str) -> Any:
        """See ``Lease.service``, as of now."""
        return self._lease.service(name)

    async def release(self) -> None:
        """See ``Lease.release``. Once begun it is finished, also when it is cancelled."""
        await self._crossing.call_to_end(self._lease.release)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()
