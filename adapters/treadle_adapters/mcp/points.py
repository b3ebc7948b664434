"""Hook points of this room: a server asks a person, or asks for a model. Whoever does not listen refuses."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from treadle import Agent
from treadle.hooks import Waterfall


@frozen
class Elicitation:
    """A server asks a person for something.

    Attributes:
        server: its name.
        message: what it says.
        schema: JSON schema of the answer; ``None`` where the person is sent to ``url``.
        url: where the person is sent.
        agent: whose call it belongs to; ``None`` where that cannot be told.
    """

    server: str
    message: str
    schema: dict[str, Any] | None
    url: str | None
    agent: Agent | None


@frozen
class Accept:
    """The person answers; what the schema gives a default and ``content`` leaves out is filled in."""

    content: dict[str, Any] | None = None


@frozen
class Decline:
    """The person does not want to answer."""


@frozen
class Dismiss:
    """The person leaves the question open."""


@frozen
class Sampling:
    """A server asks for an answer of a model.

    Attributes:
        server: its name.
        request: the parameters of ``sampling/createMessage``, as JSON.
        agent: whose call it belongs to; ``None`` where that cannot be told.
    """

    server: str
    request: dict[str, Any]
    agent: Agent | None


@frozen
class Sampled:
    """What the model answered.

    Attributes:
        text: its words.
        model: its id.
        stop_reason: why it ended, in the protocol's words.
    """

    text: str
    model: str
    stop_reason: str = "endTurn"


@frozen
class RefuseSampling:
    """The server gets no answer, and reads ``reason``."""

    reason: str = "no model is lent to servers of tools"


MCP_ELICITATION: Waterfall[Elicitation, Accept | Decline | Dismiss] = Waterfall(
    "mcp/elicitation", Elicitation, "Answer what a server asks a person, or decline.", (Accept, Decline, Dismiss)
)
"""By default it declines."""
MCP_SAMPLING: Waterfall[Sampling, Sampled | RefuseSampling] = Waterfall(
    "mcp/sampling", Sampling, "Lend a server a model, or refuse.", (Sampled, RefuseSampling)
)
"""By default it refuses."""
