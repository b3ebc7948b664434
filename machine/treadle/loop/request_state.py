"""What an agent's requests remember of the ones before (Q1, Q2)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from ..errors import InvalidData, PromptError
from ..lossless import check_bytes
from ..models.routes import Models, PreparedCall
from ..prompt.contexts import Snapshots
from ..sums import ENCODER
from ..words.call_config import CallConfig, ToolSchema
from ..words.events import Event, RequestContext, RequestHeader
from ..words.failures import Failure
from ..words.messages import MOST_TEXT


@define(eq=False)
class RequestState:
    """What is remembered between the requests of an agent; what matters of it can be read back from the log (Q1).

    Attributes:
        header: the latest logged header, ``None`` before the first request.
        context: the latest logged context.
        fresh: no request was made since the session was resumed (Q2).
        override: explicit options of a resume, used once (Q11).
        system: the system text assembled for the open step.
        tools: the tool schemas assembled for the open step.
        prior: failures of earlier attempts of the open step (H6).
        revision: attempts of this attached agent so far (Q9).
        snapshots: what the model was last told by dynamic contexts (R1).
    """

    header: RequestHeader | None = None
    context: RequestContext | None = None
    fresh: bool = False
    override: CallConfig | None = None
    system: str = ""
    tools: tuple[ToolSchema, ...] = ()
    prior: list[Failure] = field(factory=list[Failure])
    revision: int = 0
    snapshots: Snapshots = field(factory=Snapshots)
    call: PreparedCall | None = None
    told: PreparedCall | None = None
    _prepared: tuple[CallConfig, CallConfig | None, int, PreparedCall] | None = None

    def assembled(self, system: str, tools: tuple[ToolSchema, ...]) -> None:
        """Keep what was assembled for the step that is being admitted.

        Raises:
            PromptError: it is more than one event can hold; nothing is recorded of it (X3).
        """
        if len(system) > MOST_TEXT:
            raise PromptError(
                f"the system prompt is {len(system):,} characters, more than the {MOST_TEXT:,} allowed (X3)"
            )
        if tools is not self.tools and tools:
            try:
                check_bytes(len(ENCODER.encode(tools)), "what the tools say to the model")
            except InvalidData as error:
                raise PromptError(str(error)) from error
        self.system, self.tools = system, tools

    def prepared(self, models: Models, config: CallConfig) -> PreparedCall | None:
        """The call that was prepared for the same configuration on the same registrations, if any."""
        known = self._prepared
        if known is None or known[0] is not config or known[2] != models.revision:
            return None
        return known[3] if known[1] is (self.header.config if self.header is not None else None) else None

    async def prepare(self, models: Models, config: CallConfig) -> PreparedCall:
        """Prepare the call, and remember it for the requests that follow (Q4)."""
        last = self.header.config if self.header is not None else None
        call = await models.prepare(config, last)
        self._prepared = (config, last, models.revision, call)
        return call


def restore_requests(events: Sequence[Event], override: CallConfig | None) -> RequestState:
    """Read the request state back from a resumed session's events (Q2)."""
    state = RequestState(fresh=True, override=override)
    for entry in reversed(events):
        if state.header is None and type(entry.data) is RequestHeader:
            state.header = entry.data
        elif state.context is None and type(entry.data) is RequestContext:
            state.context = entry.data
        if state.header is not None and state.context is not None:
            break
    return state
