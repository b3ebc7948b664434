"""What users install: a compaction with its settings (Z1)."""

from __future__ import annotations

from attrs import frozen

from ...agent import register_compactor
from ...errors import MisuseError
from ...hooks import AGENT_STATUS, MAINTENANCE, PRE_STEP, REQUEST_ERROR, Disposer, Scope
from ...host.host import Host
from ...models import Models
from .installed import Installed
from .settings import Settings


@frozen(eq=False)
class Compaction(Settings):
    """Keeps histories within their model's context window: what is old gives way to a summary (§18).

    Between turns it does so when a share of the window is full; before a step, when the next request would not fit; when
    the provider refuses a request as too long, after which the step is tried once more; and by ``Agent.compact``. The
    window's part that is left for the answer (the ``max_tokens`` of requests, at most half of it) is not counted.

    Args:
        summarize: writes the summary; the agent's own model unless given. See ``ModelSummary``.
        keep_turns: how many of the last turns are kept as they are, beside the open one.
        keep_steps: where these alone do not fit, so many of the last answers are kept, each with the results of its
            calls, and all that was said to the model in these turns; ``None`` keeps the turns in any case.
        pinned: which messages are kept as they are besides those with ``UserMessage.pinned``.
        between_turns: the share of the window beyond which history is compacted between turns.
        within_turn: the share beyond which it is compacted before a step.
        window: the model's context window in tokens, where its adapter does not know it.
        max_summary_tokens: what a summary may take.
        estimate: tokens of a message; corrected by what providers report.

    Raises:
        MisuseError: a number is none that can be.
    """

    def install(self, where: Host | Scope, models: Models | None = None) -> Disposer:
        """Compact the histories of all agents of a host, or of those that a scope shows it to.

        Args:
            where: the host; or a scope, such as the agent's that ``setup`` is given.
            models: the host's routes, where a scope is given.

        Returns:
            An idempotent function that takes it back; a compaction under way goes on.

        Raises:
            MisuseError: a scope without ``models``, or one that has a compaction of its own already.
            ScopeClosed: the scope has ended.
        """
        scope = where.scope if isinstance(where, Host) else where
        routes = where.models if isinstance(where, Host) else models
        if routes is None:
            raise MisuseError("install(scope, models=host.models): a summary may need a model")
        installed = Installed(self, routes)
        undo = [register_compactor(scope, installed)]
        undo += [
            scope.on(PRE_STEP, installed.before_step),
            scope.on(REQUEST_ERROR, installed.after_failure),
            scope.on(AGENT_STATUS, installed.status),
            scope.on(MAINTENANCE, installed.maintained),
        ]

        def dispose() -> None:
            for each in undo:
                each()

        return dispose
