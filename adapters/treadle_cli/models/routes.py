"""Which model a command talks to, from what was said on the command line."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from attrs import frozen

from treadle import MisuseError, ModelFailure
from treadle.models import ModelAdapter
from treadle.printable import one_line

from ..extras import extra_for
from .echo import echo_model
from .local import LOCAL, MODEL, local_model

if TYPE_CHECKING:
    from treadle_adapters.models.http_model import HTTPModel

EMBEDDED = "embedded"


@frozen
class Provider:
    """A kind of model server.

    Attributes:
        adapter: imports what speaks to it; called when it is spoken to, not before.
        base_url: where it usually is.
        api_key_env: the variable that usually holds its key; not read for a server at another address.
    """

    adapter: Callable[[], type[HTTPModel]]
    base_url: str
    api_key_env: str


def _openai_chat() -> type[HTTPModel]:
    from treadle_adapters.models.openai_chat import OpenAIChat

    return OpenAIChat


def _openai_responses() -> type[HTTPModel]:
    from treadle_adapters.models.openai_responses import OpenAIResponses

    return OpenAIResponses


def _anthropic() -> type[HTTPModel]:
    from treadle_adapters.models.anthropic import Anthropic

    return Anthropic


def _deepseek() -> type[HTTPModel]:
    from treadle_adapters.models.deepseek import DeepSeek

    return DeepSeek


PROVIDERS: dict[str, Provider] = {
    "openai-chat": Provider(_openai_chat, "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openai-responses": Provider(_openai_responses, "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": Provider(_anthropic, "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "deepseek": Provider(_deepseek, "https://api.deepseek.com", "DEEPSEEK_API_KEY"),
}
"""The providers by name. The first is taken when only an address or a key is given."""


@frozen
class Wish:
    """What was said about the model.

    Attributes:
        provider: one of ``PROVIDERS``, or ``embedded``, or ``local``.
        base_url: where the server is.
        model: the model's id.
        api_key_env: the environment variable that holds the key.
    """

    provider: str | None = None
    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None


@frozen
class Route:
    """A model to talk to."""

    provider: str
    model: str
    adapter: ModelAdapter

    def __str__(self) -> str:
        if self.provider == EMBEDDED:
            return "the embedded model"
        if self.provider == LOCAL:
            return f"{self.model}, a small model in this process"
        return f"{self.model} ({self.provider})"


@asynccontextmanager
async def route_for(wish: Wish) -> AsyncGenerator[Route]:
    """Find the model that is meant, and keep its connections open inside the block.

    Raises:
        MisuseError: what was said does not name one; the text says what to add.
        MissingExtra: the ``models`` extra, or the local model, is not installed.
        ModelFailure: the server was asked which models it has, and did not say.
    """
    wish = _split(wish)
    if _embedded(wish):
        yield Route(EMBEDDED, "echo", echo_model())
        return
    if wish.provider == LOCAL:
        if wish.base_url is not None or wish.api_key_env is not None or wish.model is not None:
            raise MisuseError("the local model needs neither --base-url nor --api-key-env, and there is just one")
        async with local_model() as adapter:
            yield Route(LOCAL, MODEL, adapter)
        return
    name = wish.provider or next(iter(PROVIDERS))
    provider = PROVIDERS.get(name)
    if provider is None:
        raise MisuseError(f"there is no provider {name!r}; known are {', '.join([*PROVIDERS, EMBEDDED, LOCAL])}")
    key = wish.api_key_env or (provider.api_key_env if wish.base_url is None else None)
    if key is not None and not os.environ.get(key, "").strip():
        raise MisuseError(f"the environment variable {key} holds no key: set it, or name another with --api-key-env")
    async with adapter_of(provider)(wish.base_url or provider.base_url, api_key_env=key) as adapter:
        yield Route(name, wish.model or await _only_model(adapter), adapter)


def _split(wish: Wish) -> Wish:
    """``--model PROVIDER/NAME`` names the provider as well, when nothing else does."""
    first, slash, rest = (wish.model or "").partition("/")
    if slash and rest and wish.provider is None and wish.base_url is None and first in PROVIDERS:
        return Wish(first, None, rest, wish.api_key_env)
    return wish


def _embedded(wish: Wish) -> bool:
    elsewhere = wish.base_url is not None or wish.api_key_env is not None
    if wish.provider == EMBEDDED:
        if elsewhere:
            raise MisuseError("the embedded model needs neither --base-url nor --api-key-env")
        return True
    if wish.provider is None and not elsewhere and wish.model is not None:
        raise MisuseError(
            f"where is model {wish.model!r}? Give --base-url URL for a server of your own, "
            f"or --provider NAME ({', '.join(PROVIDERS)}) with its key in the environment"
        )
    return wish.provider is None and not elsewhere


def adapter_of(provider: Provider) -> type[HTTPModel]:
    """The class that speaks to a provider.

    Raises:
        MissingExtra: the ``models`` extra is not installed.
    """
    with extra_for("models over HTTP need", "models"):
        return provider.adapter()


async def _only_model(adapter: HTTPModel) -> str:
    """The one model that a server has, when it was not named."""
    try:
        found = await adapter.list_models()
    except ModelFailure as error:
        raise MisuseError(f"say which model: --model NAME (the server did not list any: {error})") from error
    if len(found) == 1:
        return found[0]
    known = ", ".join([one_line(name, 60) for name in found[:20]]) or "none"
    raise MisuseError(f"say which model: --model NAME; the server has {known}")
