"""Routes to adapters, and the preparation of calls (Q4)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from attrs import frozen

from ..errors import MisuseError
from ..lossless import text_is_lossless
from ..words.call_config import CallConfig
from ..words.failures import Code, Failure, ModelFailure
from .adapter import ModelAdapter, ModelInfo

MAX_NAME = 1_000
"""How many characters the names in a configuration may have: of provider, model and effort (X3)."""
MAX_TOKENS = 1_000_000_000
"""The largest bound on the output of one request (X3)."""


@frozen(eq=False)
class Route:
    """One registration of an adapter under a provider's name."""

    provider: str
    adapter: ModelAdapter


@frozen(eq=False)
class PreparedCall:
    """A configuration bound to one registration: what the attempts of a step use (Q4).

    Attributes:
        config: defaults of the adapter filled in and marked in ``defaulted``.
        info: what is known about the model.
        adapter: serves the attempts, also when the route is registered anew meanwhile.
    """

    config: CallConfig
    info: ModelInfo
    adapter: ModelAdapter


class Models:
    """The model routes of a host."""

    def __init__(self) -> None:
        self._routes: dict[str, Route] = {}
        self._info: dict[tuple[Route, str], ModelInfo] = {}
        self.revision = 0

    def register(self, provider: str, adapter: ModelAdapter) -> Callable[[], None]:
        """Serve ``provider`` by ``adapter``.

        Returns:
            An idempotent function that ends the registration.

        Raises:
            MisuseError: the provider has an adapter already, or ``adapter`` is none.
        """
        if provider in self._routes:
            raise MisuseError(f"provider {provider!r} has an adapter already; end that registration first")
        if not isinstance(adapter, ModelAdapter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MisuseError(f"{type(adapter).__name__} is no ModelAdapter: it needs name, model_info and stream")
        route = self._routes[provider] = Route(provider, adapter)
        self.revision += 1

        def dispose() -> None:
            if self._routes.get(provider) is route:
                del self._routes[provider]
                self._info = {key: info for key, info in self._info.items() if key[0] is not route}
                self.revision += 1

        return dispose

    @property
    def providers(self) -> tuple[str, ...]:
        """The registered providers, in order of registration."""
        return tuple(self._routes)

    def route(self, provider: str) -> ModelAdapter | None:
        """The adapter registered for a provider, ``None`` when there is none."""
        found = self._routes.get(provider)
        return found.adapter if found is not None else None

    async def prepare(self, config: CallConfig, last: CallConfig | None = None) -> PreparedCall:
        """Resolve a configuration into a call bound to the present registration (Q4).

        Args:
            config: what the request hook left.
            last: the last logged configuration; on another route its defaulted values are resolved anew.

        Raises:
            ModelFailure: no provider or model, no adapter, or a value the exact model does not take.
        """
        for name in ("provider", "model", "reasoning_effort"):
            value: object = getattr(config, name)
            if value is not None and not (isinstance(value, str) and text_is_lossless(value)):
                raise ModelFailure(_invalid(f"{name} must be text, not {value!r} (Q4)"))
            if value is not None and len(value) > MAX_NAME:
                told = f"{name} is {len(value):,} characters, more than the {MAX_NAME:,} that a name may have (X3)"
                raise ModelFailure(_invalid(told))
        if not config.provider or not config.model:
            missing = "provider" if not config.provider else "model"
            raise ModelFailure(
                Failure(
                    f"no {missing} is configured for this call (Q4): give the agent a {missing}, or set one in an "
                    "agent/request hook",
                    Code.NO_ADAPTER.value if not config.provider else Code.INVALID_REQUEST.value,
                )
            )
        route = self._routes.get(config.provider)
        if route is None:
            known = ", ".join(self._routes) or "none"
            raise ModelFailure(
                Failure(f"no adapter serves provider {config.provider!r} (known: {known})", Code.NO_ADAPTER.value)
            )
        info = self._info.get((route, config.model))
        if info is None:
            info = self._info[route, config.model] = await route.adapter.model_info(config.model)
        return PreparedCall(_resolve(config, last, info), info, route.adapter)


def _resolve(config: CallConfig, last: CallConfig | None, info: ModelInfo) -> CallConfig:
    moved = last is not None and (last.provider, last.model) != (config.provider, config.model)
    fields = {"max_tokens": config.max_tokens, "reasoning_effort": config.reasoning_effort}
    marks: set[str] = {name for name in fields if name in config.defaulted}
    if moved:
        for name in marks:
            fields[name] = None
        marks = set[str]()
    max_tokens, effort = fields["max_tokens"], fields["reasoning_effort"]
    if max_tokens is None and info.default_max_tokens is not None:
        max_tokens = info.default_max_tokens
        marks.add("max_tokens")
    if effort is None and info.default_reasoning_effort is not None:
        effort = info.default_reasoning_effort
        marks.add("reasoning_effort")
    if max_tokens is not None and (type(max_tokens) is not int or not 0 < max_tokens <= MAX_TOKENS):
        given = "a larger one" if type(max_tokens) is int and max_tokens > 0 else repr(max_tokens)
        raise ModelFailure(
            _invalid(f"max_tokens must be a positive whole number up to {MAX_TOKENS:,}, not {given} (Q4)")
        )
    if effort is not None and info.reasoning_efforts and effort not in info.reasoning_efforts:
        known = ", ".join(info.reasoning_efforts)
        raise ModelFailure(_invalid(f"model {config.model!r} takes reasoning effort {known}, not {effort!r} (Q4)"))
    defaulted = tuple(sorted(marks))
    if (max_tokens, effort, defaulted) == (config.max_tokens, config.reasoning_effort, config.defaulted):
        return config
    return msgspec.structs.replace(config, max_tokens=max_tokens, reasoning_effort=effort, defaulted=defaulted)


def _invalid(message: str) -> Failure:
    return Failure(message, Code.INVALID_REQUEST.value)
