"""The configuration of model calls and what the model is told of tools: data of ``request/header`` (Q1, Q4)."""

from __future__ import annotations

from typing import Any

import msgspec


class ToolSchema(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What the model is told about a tool; nothing else of it reaches the model (K1)."""

    name: str
    description: str
    parameters: dict[str, Any]


class CallConfig(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The frozen configuration of a model call (Q4, Q11).

    Attributes:
        provider: the route; an adapter must be registered under it.
        model: the model's id, read by the adapter.
        max_tokens: positive bound on the output of one request.
        reasoning_effort: a word that the exact model knows.
        defaulted: which of these the adapter filled in; they are resolved anew when the route changes.
    """

    provider: str | None = None
    model: str | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    defaulted: tuple[str, ...] = ()
