"""What an agent is made with where ``make_agent`` does not say all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from attrs import evolve, frozen

from treadle import AgentOptions, Host, MisuseError, ModelRequest
from treadle.models import CallConfig, Chunk, Finish, Finished, ModelInfo, RetryPolicy
from treadle.session import AssistantMessageAdded, RequestContext, RequestHeader

from .recording import Recording


def recorded_config(recording: Recording) -> CallConfig | None:
    """What the first recorded request was made with; ``None`` when there is none."""
    return next((entry.data.config for entry in recording.events if type(entry.data) is RequestHeader), None)


@frozen(eq=False)
class BareModel:
    """Stands for the model of a session where ``make_agent`` registers none; what the log tells of it is known."""

    recording: Recording
    retry_policy: RetryPolicy | None = None

    @property
    def name(self) -> str:
        """The recorded adapter's."""
        answers = (one.data.message for one in self.recording.events if type(one.data) is AssistantMessageAdded)
        return next((answer.adapter for answer in answers if answer.adapter), "recorded")

    async def model_info(self, model: str) -> ModelInfo:
        """See ``ModelAdapter.model_info``."""
        for entry in self.recording.events:
            data = entry.data
            if type(data) is RequestContext and data.model == model:
                return ModelInfo(data.context_window, system_prompt_mode=data.system_prompt_mode)
        return ModelInfo()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """See ``ModelAdapter.stream``; never asked."""
        del request
        yield Finished(Finish("stop"))


def serve(host: Host, recording: Recording) -> None:
    """Serve the recorded route, where ``make_agent`` leaves all models to others."""
    asked = recorded_config(recording)
    if not host.models.providers and asked is not None and asked.provider is not None:
        host.models.register(asked.provider, BareModel(recording))


def unserved(host: Host, options: AgentOptions, recording: Recording) -> str | None:
    """Why no request could be made: neither the agent's route nor the recorded one is served; else ``None``."""
    asked = recorded_config(recording)
    wanted = [name for name in (options.provider, asked.provider if asked is not None else None) if name is not None]
    if asked is None or any(host.models.route(name) is not None for name in wanted):
        return None
    known = ", ".join(host.models.providers) or "none"
    return f"no adapter serves provider {wanted[0]!r} (known: {known}): have make_agent register one"


def fields_of(made: object, recording: Recording) -> dict[str, Any]:
    """What an agent is created with, of what ``make_agent`` returned.

    Raises:
        MisuseError: it returned something else.
    """
    fields: dict[str, Any]
    if made is None or isinstance(made, AgentOptions):
        fields = {"agent_options": made or AgentOptions()}
    elif isinstance(made, Mapping):
        fields = {"agent_options": AgentOptions(), **cast("Mapping[str, Any]", made)}
    else:
        raise MisuseError(
            "make_agent creates an agent on the host that it is given, or returns AgentOptions, the arguments of "
            f"agents.create as a mapping, or None; it returned {type(made).__name__}"
        )
    options, asked = fields["agent_options"], recorded_config(recording)
    if options.provider is None and options.model is None and asked is not None:
        fields["agent_options"] = evolve(options, provider=asked.provider, model=asked.model)
    return fields
