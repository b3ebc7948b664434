"""What makes an agent's history shorter, as its handle sees it: an extension that its scope shows (Z1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from attrs import field, frozen

from ..errors import MisuseError

if TYPE_CHECKING:
    from ..hooks.scope import Disposer, Scope
    from .maintenance import MaintenanceTask

KIND = "compactor"


@frozen
class Compacted:
    """What a compaction did.

    Attributes:
        replaced: how many messages gave way to summaries; 0 where nothing was old enough.
        before: tokens that the next request was expected to take.
        after: tokens that it is expected to take now.
        events: the seqs of the summaries, in the order in which they were made.
    """

    replaced: int
    before: int
    after: int
    events: tuple[int, ...] = field(default=(), converter=tuple)


class Compactor(Protocol):
    """Makes histories shorter."""

    def __call__(self, agent: Any, instructions: str | None) -> MaintenanceTask[Compacted]:
        """Claim the idle ``Agent`` and begin; raises what ``Agent.run_maintenance`` does."""
        ...


def register_compactor(scope: Scope, compactor: Compactor) -> Disposer:
    """Have ``compactor`` do what ``Agent.compact`` asks of the agents of a scope; an inner scope's goes first.

    Returns:
        An idempotent function that takes it back.

    Raises:
        MisuseError: the scope has one of its own already.
        ScopeClosed: the scope has ended.
    """
    scope.check_open()
    own = scope.table(KIND)
    if own:
        raise MisuseError(f"scope {scope.name!r} has a compaction already; take that back first (Z1)")
    own[KIND] = compactor
    scope.changed()

    def dispose() -> None:
        if own.pop(KIND, None) is not None:
            scope.changed()

    return dispose


def compactor_of(scope: Scope) -> Compactor:
    """The compactor of the agent whose scope it is.

    Raises:
        MisuseError: none is installed.
    """
    found: Compactor | None = scope.shown[nearest_compactor]
    if found is None:
        raise MisuseError(
            "no compaction is installed for this agent: Compaction().install(host), from treadle.extensions.compaction, "
            "does so for all agents of a host (Z1)"
        )
    return found


def nearest_compactor(scope: Scope) -> Compactor | None:
    """The compactor that a scope shows, ``None`` where there is none."""
    for layer in reversed(scope.layers()):
        own: Compactor | None = layer.own(KIND).get(KIND)
        if own is not None:
            return own
    return scope.parent.shown[nearest_compactor] if scope.parent is not None else None
