"""Routes to adapters, and the preparation of calls (Q4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

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
"""The largest bound on the output of one request, and the largest context window (X3)."""


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
            MisuseError: the provider has an adapter already, or ``adapter`` is none; its name or the provider's is no
                text that can be recorded (S1, X3).
        """
        if provider in self._routes:
            raise MisuseError(f"provider {provider!r} has an adapter already; end that registration first")
        if not isinstance(adapter, ModelAdapter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MisuseError(f"{type(adapter).__name__} is no ModelAdapter: it needs name, model_info and stream")
        for whose, name in (("a provider's", provider), ("an adapter's", adapter.name)):
            wrong = _unnamed(name)
            if wrong is not None or not name:
                raise MisuseError(f"{whose} name {wrong or 'must not be empty'} (Q4)")
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
        _check_names(config)
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
            told = await route.adapter.model_info(config.model)
            info = self._info[route, config.model] = _checked_info(told, config.model)
        resolved = _resolve(config, last, info)
        if resolved is not config:
            _check_names(resolved)
        return PreparedCall(resolved, info, route.adapter)


def _unnamed(name: object) -> str | None:
    """Why something is no name that can be recorded; ``None`` when it is one."""
    if not isinstance(name, str) or not text_is_lossless(name):
        return f"must be text, not {repr(name)[:200]}"
    if len(name) > MAX_NAME:
        return f"is {len(name):,} characters, more than the {MAX_NAME:,} that a name may have (X3)"
    return None


def _check_names(config: CallConfig) -> None:
    for name in ("provider", "model", "reasoning_effort"):
        value: object = getattr(config, name)
        wrong = _unnamed(value) if value is not None else None
        if wrong is not None:
            raise ModelFailure(_invalid(f"{name} {wrong} (Q4)"))


def _checked_info(info: object, model: str) -> ModelInfo:
    """What an adapter tells of a model, where the log can hold it."""
    if not isinstance(info, ModelInfo):
        raise ModelFailure(_invalid(f"its adapter tells {type(info).__name__} of model {model!r}, not ModelInfo (Q4)"))
    window, mode = cast("object", info.context_window), cast("object", info.system_prompt_mode)
    if window is not None and (type(window) is not int or not 0 < window <= MAX_TOKENS):
        raise ModelFailure(_invalid(f"its adapter tells a context window of model {model!r} that cannot be (Q4, X3)"))
    if mode not in ("append", "replace"):
        raise ModelFailure(_invalid(f"its adapter tells a system_prompt_mode of model {model!r} that is none (Q4)"))
    return info


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
