"""What an agent's requests remember of the ones before (Q1, Q2)."""

from __future__ import annotations

from attrs import define, field

from ..hooks.points import Prompt
from ..models.routes import PreparedCall
from ..prompt.contexts import Snapshots
from ..session.repair import LogEnd
from ..words.call_config import CallConfig
from ..words.events import RequestContext, RequestHeader
from ..words.failures import Failure


@define(eq=False)
class RequestState:
    """What is remembered between the requests of an agent; what matters of it can be read back from the log (Q1).

    Attributes:
        header: the latest logged header, ``None`` before the first request.
        context: the latest logged context.
        fresh: no request was made since the session was resumed (Q2).
        override: explicit options of a resume, used once (Q11).
        prompt: what was assembled for the open step.
        prior: failures of earlier attempts of the open step (H6).
        revision: attempts of this attached agent so far (Q9).
        snapshots: what the model was last told by dynamic contexts (R1).
        call: the last prepared call.
        routes: the revision of the models that it was prepared on (Q4).
        told: the call whose model the latest context tells of.
    """

    header: RequestHeader | None = None
    context: RequestContext | None = None
    fresh: bool = False
    override: CallConfig | None = None
    prompt: Prompt = field(factory=Prompt)
    prior: list[Failure] = field(factory=lambda: [])
    revision: int = 0
    snapshots: Snapshots = field(factory=Snapshots)
    call: PreparedCall | None = None
    routes: int = -1
    told: PreparedCall | None = None


def restore_requests(end: LogEnd, override: CallConfig | None, snapshots: Snapshots | None = None) -> RequestState:
    """The request state of a resumed session: what its log ends with (Q2), and what it last told by dynamic contexts."""
    told = Snapshots() if snapshots is None else snapshots
    return RequestState(end.header, end.context, fresh=True, override=override, snapshots=told)
