"""The model routes of a host and its default model, from asyncio code."""

from __future__ import annotations

from ..agent.options import AgentOptions
from ..host.default_model import DefaultModel, ModelSelection
from ..models.adapter import ModelAdapter
from ..models.routes import Models, PreparedCall
from ..words.call_config import CallConfig
from .crossing import Crossing, Undo
from .reply import Reply


class BridgedModels:
    """The model routes of the host. Adapters run in the host's loop: those that ship speak trio."""

    __slots__ = ("_crossing", "_models")

    def __init__(self, crossing: Crossing, models: Models) -> None:
        self._crossing = crossing
        self._models = models

    def register(self, provider: str, adapter: ModelAdapter) -> Reply[Undo]:
        """See ``Models.register``; from any thread.

        Raises:
            MisuseError: from the reply: the provider has an adapter already, or ``adapter`` is none.
            BridgeClosed: from the call: the bridge is not open.
        """
        return self._crossing.register(self._models.register, provider, adapter)

    @property
    def providers(self) -> tuple[str, ...]:
        """See ``Models.providers``, as of now."""
        return self._models.providers

    @property
    def revision(self) -> int:
        """How often routes changed so far."""
        return self._models.revision

    def route(self, provider: str) -> ModelAdapter | None:
        """See ``Models.route``, as of now."""
        return self._models.route(provider)

    async def prepare(self, config: CallConfig, last: CallConfig | None = None) -> PreparedCall:
        """See ``Models.prepare``.

        Raises:
            ModelFailure: as there.
            BridgeClosed: the bridge is not open, or was closed meanwhile.
        """
        return await self._crossing.run(self._models.prepare, config, last)


class BridgedDefaultModel:
    """What agents use that name neither provider nor model (O10)."""

    __slots__ = ("_crossing", "_default")

    def __init__(self, crossing: Crossing, default: DefaultModel) -> None:
        self._crossing = crossing
        self._default = default

    @property
    def configured(self) -> ModelSelection | None:
        """See ``DefaultModel.configured``."""
        return self._default.configured

    def current(self) -> ModelSelection | None:
        """See ``DefaultModel.current``."""
        return self._default.current()

    async def save(self, selection: ModelSelection) -> None:
        """See ``DefaultModel.save``. The editor writes in the host's loop.

        Raises:
            MisuseError: it is no ``ModelSelection``.
            BridgeClosed: the bridge is not open, or was closed meanwhile.
            Exception: what the editor raised; then the selection is what it was.
        """
        await self._crossing.run(self._default.save, selection)

    def fill(self, options: AgentOptions) -> AgentOptions:
        """See ``DefaultModel.fill``, as of now."""
        return self._default.fill(options)
