"""``treadle run``: one prompt, or a conversation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import trio
from cyclopts import Group, Parameter

from treadle import MisuseError

from ..models.routes import Wish
from ..stores.storage import SessionChoice
from .declared import Declared
from .talk import Choices, answer_once, converse

MODEL = Group("Model", sort_key=1)
SESSION = Group("Session", sort_key=2)
CONFIG = Group("Configuration", sort_key=3)


def run(
    *prompt: str,
    base_url: Annotated[str | None, Parameter(group=MODEL, env_var="TREADLE_BASE_URL")] = None,
    model: Annotated[str | None, Parameter(group=MODEL, env_var="TREADLE_MODEL", alias="-m")] = None,
    api_key_env: Annotated[str | None, Parameter(group=MODEL, env_var="TREADLE_API_KEY_ENV")] = None,
    provider: Annotated[str | None, Parameter(group=MODEL, env_var="TREADLE_PROVIDER")] = None,
    max_tokens: Annotated[int | None, Parameter(group=MODEL)] = None,
    system: Annotated[str | None, Parameter(alias="-s")] = None,
    tools: bool = True,
    session_dir: Annotated[Path | None, Parameter(group=SESSION, env_var="TREADLE_SESSION_DIR")] = None,
    resume: Annotated[str | None, Parameter(group=SESSION)] = None,
    latest: Annotated[bool, Parameter(name="--continue", alias="-c", negative=(), group=SESSION)] = False,
    save: Annotated[bool, Parameter(group=SESSION)] = True,
    config: Annotated[Path | None, Parameter(group=CONFIG)] = None,
    agent: Annotated[str | None, Parameter(group=CONFIG)] = None,
) -> int:
    """Talk to an agent, or have it answer one prompt.

    With PROMPT: one turn. The answer goes to stdout, everything else to stderr, and the exit status tells how the
    turn ended. `-` reads the prompt from stdin.

    Without PROMPT: a conversation. A line typed while the agent works steers it; `/next TEXT` queues a turn of its
    own; Ctrl-C once stops the turn, twice leaves; `/help` shows the rest. When stdin is no terminal, its lines are
    taken in the same way.

    An embedded model answers unless `--base-url`, `--provider` or `--api-key-env` names another: it needs no key and
    no network, and echoes.

    Exit status: 0 the turn completed, 1 it failed, 2 the command was called wrongly, 3 the answer reached the output
    limit, 4 a hook blocked the turn, 130 it was interrupted.

    Args:
        prompt: what to ask; several words are joined.
        base_url: where the model server is, as in http://127.0.0.1:8080/v1.
        model: the model's id, or PROVIDER/ID; may be left out when the server has just one.
        api_key_env: the environment variable that holds the key; the provider's usual one unless a base URL is given.
        provider: what the server speaks: openai-chat (taken unless given), openai-responses, anthropic, deepseek;
            or embedded.
        max_tokens: bound on the length of each answer.
        system: the system prompt.
        tools: offer the example tools `now` and `add` to the model.
        session_dir: the folder that holds sessions; one for the present project, in your home, unless given.
        resume: the id of a kept session to go on with.
        latest: go on with the newest session.
        save: keep the session.
        config: a treadle.toml that declares host, models and agents; it says all that the options above do.
        agent: the id of the declared agent to talk to; the first one unless given.
    """
    if config is None and agent is not None:
        raise MisuseError("--agent names an agent of a --config file: give that, too")
    if config is not None and (model_named(base_url, model, api_key_env, provider) or system or session_dir or resume):
        raise MisuseError("--config says which model, prompt and session: leave the options for these out")
    if max_tokens is not None and max_tokens <= 0:
        raise MisuseError("--max-tokens must be positive")
    session = SessionChoice(session_dir, resume, latest, save)
    session.check()
    declared = Declared(config, agent) if config is not None else None
    wish = Wish(provider, base_url, model, api_key_env)
    choices = Choices(wish, system or "", tools, max_tokens, session, declared)
    text = prompt_text(prompt)
    return trio.run(converse, choices) if text is None else trio.run(answer_once, choices, text)


def model_named(*said: str | None) -> bool:
    """Whether any of the options that name a model was given."""
    return any([word is not None for word in said])


def prompt_text(words: tuple[str, ...]) -> str | None:
    """The prompt that the words make, ``None`` when there are none; ``-`` reads stdin.

    Raises:
        MisuseError: it is empty.
    """
    if not words:
        return None
    text = (sys.stdin.read() if words == ("-",) else " ".join(words)).strip()
    if not text:
        raise MisuseError("the prompt is empty: give some text, or none at all for a conversation")
    return text
