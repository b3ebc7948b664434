"""Presets: named compositions, and the revisions that live agents keep (O9, O11, O12)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from attrs import define, frozen

from ...errors import MisuseError, PresetError
from ...hooks.dispatch import emit
from ...hooks.points import PRESET_SELECTED, PresetChosen
from ...hooks.reports import report_listener
from ...hooks.scope import Disposer, Scope
from ...lossless import check_text
from ...words.events import PresetSelected, TurnStart
from .components import SHIPPED, Component, Composition
from .documents import PresetDefinition
from .revisions import ComponentRow, Lease, PresetInfo, Report, Revision

if TYPE_CHECKING:
    from ...agent.agent import Agent
    from ...session.log import Session

Chooser = Literal["open", "locked"]
"""Whether people may choose another preset than the default."""


@frozen
class PresetRoster:
    """What a chooser shows: the presets, which one is the default, and whether people may choose."""

    presets: tuple[PresetInfo, ...]
    default: str | None
    chooser: Chooser


@frozen
class PresetDocument:
    """A preset's declaration, for viewing."""

    preset: PresetInfo
    document: str


@frozen
class PresetInventory:
    """A preset's components and their states."""

    preset: PresetInfo
    components: tuple[ComponentRow, ...]


@define(eq=False)
class Binding:
    """Which revision an agent's scope is bound to."""

    revision: Revision
    leave: Disposer


def recorded_preset(session: Session) -> str | None:
    """The preset that a session records: the last one selected, else that of its header (O9)."""
    return session.preset if session.preset is not None else session.header.agent_preset


class Presets:
    """The presets of a host.

    Args:
        scope: the host's; a preset's revisions stand below it.
        report: given the failures of clean-ups when a revision ends.

    Attributes:
        default: the preset of those who name none.
        chooser: see ``PresetRoster``.
    """

    def __init__(self, scope: Scope, report: Report) -> None:
        self._scope = scope
        self._report = report
        self._revisions: dict[str, Revision] = {}
        self._bindings: dict[Scope, Binding] = {}
        self._components: dict[str, Component] = dict(SHIPPED)
        self._numbers = 0
        self.default: str | None = None
        self.chooser: Chooser = "open"

    # --- declaring ----------------------------------------------------------------------------------------------------

    def component(self, name: str, component: Component) -> Disposer:
        """Let documents name a component; ``component(composition, …)`` is called when one is loaded (O11).

        Raises:
            MisuseError: the name is taken, holds a colon, or is no text that UTF-8 carries.
        """
        check_text(name, "a component's name")
        if name in self._components or ":" in name:
            raise MisuseError(f"the component name {name!r} is taken, or holds a colon (O11)")
        self._components[name] = component

        def dispose() -> None:
            if self._components.get(name) is component:
                del self._components[name]

        return dispose

    async def register(self, definition: PresetDefinition) -> Disposer:
        """Declare a preset and load it as a new revision; returns once that settled (O11).

        A preset that cannot be loaded stays listed with its diagnosis.

        Returns:
            The disposer: takes the declaration out. The revision lives on until its last agent and lease end.

        Raises:
            MisuseError: the id is declared already.
        """
        if definition.id in self._revisions:
            raise MisuseError(f"preset {definition.id!r} is declared already (O11); dispose that declaration first")
        self._numbers += 1
        scope = Scope(f"preset {definition.id} #{self._numbers}", self._scope)
        revision = Revision(definition, self._numbers, Composition(definition.id, scope))
        self._revisions[definition.id] = revision
        try:
            await revision.load(self._components, self._report)
        except BaseException:
            del self._revisions[definition.id]
            raise

        def dispose() -> None:
            if self._revisions.get(definition.id) is revision:
                del self._revisions[definition.id]
            if not revision.retired:
                revision.retired = True
                if self._scope.start is not None:
                    self._scope.start(lambda: revision.end_if_unused(self._report))

        return dispose

    # --- reading; no agent is started ---------------------------------------------------------------------------------

    async def list(self) -> tuple[PresetInfo, ...]:
        """Every declared preset, broken ones included."""
        revisions = list(self._revisions.values())
        for revision in revisions:
            await revision.settled.wait()
        return tuple([revision.info for revision in revisions])

    async def resolve(self, id: str | None = None) -> PresetInfo:
        """One preset, the default unless named; broken or not.

        Raises:
            PresetError: there is none of that id, or no default.
        """
        return (await self._settled(id)).info

    async def roster(self) -> PresetRoster:
        """What a chooser shows."""
        return PresetRoster(await self.list(), self.default, self.chooser)

    def read_document(self, id: str) -> PresetDocument:
        """A preset's declaration, as it was given.

        Raises:
            PresetError: there is none of that id.
        """
        revision = self._declared(id)
        return PresetDocument(revision.info, revision.definition.document)

    async def inventory(self) -> tuple[PresetInventory, ...]:
        """The components of every preset, with their states."""
        await self.list()
        return tuple([PresetInventory(revision.info, revision.rows) for revision in self._revisions.values()])

    def _declared(self, id: str | None) -> Revision:
        wanted = id if id is not None else self.default
        if wanted is None:
            raise PresetError("no preset was named, and there is no default (O11): set host.presets.default")
        revision = self._revisions.get(wanted)
        if revision is None:
            known = ", ".join(self._revisions) or "none"
            raise PresetError(f"no preset is named {wanted!r} (known: {known})")
        return revision

    async def _settled(self, id: str | None) -> Revision:
        revision = self._declared(id)
        await revision.settled.wait()
        return revision

    async def _usable(self, id: str | None) -> Revision:
        revision = await self._settled(id)
        if revision.error is not None:
            raise PresetError(f"preset {revision.definition.id!r} is broken: {revision.error}")
        return revision

    # --- binding agents -----------------------------------------------------------------------------------------------

    async def mount(self, scope: Scope, id: str | None = None) -> PresetInfo:
        """Bind an unpublished agent's scope to the present revision of a preset; belongs to setup (O12).

        A session that does not record this preset yet records it.

        Raises:
            PresetError: there is no such preset, or it is broken.
            MisuseError: the scope is bound to another one.
            ScopeClosed: the scope has ended.
        """
        revision = await self._usable(id)
        bound = self._bindings.get(scope)
        if bound is None:
            self._bind(scope, revision)
        elif bound.revision.definition.id != revision.definition.id:
            raise MisuseError(f"this agent is bound to {bound.revision.definition.id!r} already; use recompose (O12)")
        return revision.info

    def compose_from(self, child: Scope, parent: Scope) -> str | None:
        """Join a child's scope to exactly the revision that its parent holds; returns its id, ``None`` for none (O12).

        Raises:
            MisuseError: the child is bound already.
        """
        bound = self._bindings.get(parent)
        if bound is None:
            return None
        self._bind(child, bound.revision)
        return bound.revision.definition.id

    def composed_preset(self, scope: Scope) -> str | None:
        """The preset that an agent's scope is bound to."""
        bound = self._bindings.get(scope)
        return bound.revision.definition.id if bound is not None else None

    def service_for(self, agent: Agent, name: str) -> Any:
        """A service of the agent's own preset, ``None`` when it has none of that name (O11)."""
        bound = self._bindings.get(agent.scope)
        return bound.revision.composition.services.get(name) if bound is not None else None

    async def recompose(self, scope: Scope, id: str) -> PresetInfo:
        """Bind an agent's scope anew; the caller has made sure that the agent is blank (O12).

        Raises:
            PresetError: there is no such preset, or it is broken; then the old binding stands.
        """
        revision = await self._usable(id)
        await self._rebind(scope, revision)()
        return revision.info

    async def select(self, agent: Agent, id: str) -> str:
        """Choose a preset for an agent before its first turn: recorded, bound, published (O9, O12).

        Raises:
            PresetError: there is no such preset, or it is broken.
            MisuseError: the agent has had a turn.
        """
        revision = await self._usable(id)
        session = agent.session
        if next((True for entry in session.events if type(entry.data) is TurnStart), False):
            raise MisuseError(f"agent {agent.id!r} has had a turn; its preset stays (O12)")
        agent.scope.check_open()
        bound = self._bindings.get(agent.scope)
        if bound is not None and bound.revision is revision and recorded_preset(session) == id:
            return id
        finish = self._rebind(agent.scope, revision)
        listeners = agent.scope.heard[PRESET_SELECTED]
        if listeners:
            emit(listeners, PresetChosen(agent.id, id), partial(report_listener, agent))
        await finish()
        return id

    async def acquire_scope(self, id: str | None = None) -> Lease:
        """Lease a preset's present revision, the default's unless named, for reading (O12).

        Raises:
            PresetError: there is no such preset, or it is broken.
        """
        return Lease(await self._usable(id), self._report)

    async def prepare(self, agent: Agent) -> None:
        """Bind a new agent to the preset that its session records; hosts without presets leave it be."""
        recorded = recorded_preset(agent.session)
        if recorded is not None and self._revisions:
            await self.mount(agent.scope, recorded)

    def _bind(self, scope: Scope, revision: Revision) -> None:
        if scope in self._bindings:
            raise MisuseError("this scope is bound to a preset already; use recompose (O12)")
        leave = scope.join(revision.scope)
        revision.hold()
        self._bindings[scope] = Binding(revision, leave)
        scope.defer(lambda: self._unbind(scope))
        self._record(scope, revision.definition.id)

    def _record(self, scope: Scope, id: str) -> None:
        session: Session | None = getattr(scope.subject, "session", None)
        if session is not None and recorded_preset(session) != id:
            session.append(PresetSelected(id))

    def _rebind(self, scope: Scope, revision: Revision) -> Callable[[], Any]:
        """Bind anew, at once; what is returned lets go of the old revision."""
        bound = self._bindings.get(scope)
        if bound is None:
            self._bind(scope, revision)
            return _nothing
        old = bound.revision
        self._record(scope, revision.definition.id)
        bound.leave()
        bound.leave = scope.join(revision.scope)
        bound.revision = revision
        revision.hold()
        return lambda: old.release(self._report)

    async def _unbind(self, scope: Scope) -> None:
        bound = self._bindings.pop(scope)
        bound.leave()
        await bound.revision.release(self._report)


async def _nothing() -> None:
    return
