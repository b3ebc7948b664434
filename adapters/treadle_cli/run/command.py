"""``treadle run``: one prompt, or a conversation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import trio
from cyclopts import Group, Parameter

from treadle import MisuseError
from treadle.lossless import check_text

from ..models.local import LOCAL
from ..models.routes import Wish
from ..stores.storage import SessionChoice
from .declared import Declared
from .example_tools import EXAMPLE_TOOLS
from .talk import Choices, answer_once, converse
from .tools import tools_named

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
    local: Annotated[bool, Parameter(negative=(), group=MODEL)] = False,
    system: Annotated[str | None, Parameter(alias="-s")] = None,
    system_file: Path | None = None,
    tools: Annotated[list[str] | None, Parameter(negative=())] = None,
    no_tools: Annotated[bool, Parameter(negative=())] = False,
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

    Without PROMPT: a conversation. What is typed while the agent works steers it; Alt-Enter begins a new line;
    `/next TEXT` queues a turn of its own; Ctrl-C once stops the turn, twice leaves; `/help` shows the rest. When stdin
    is no terminal, each of its lines is a turn, one after the other, and only the answers go to stdout.

    An embedded model answers unless `--local`, `--base-url`, `--provider` or `--api-key-env` names another: it needs
    no key and no network, and echoes.

    Exit status: 0 the turn completed, 1 it failed, or something was not stored or not written, 2 the command was
    called wrongly, 3 the answer reached the output limit, 4 a hook blocked the turn, 129 the terminal hung up, 130 it
    was interrupted, 143 it was told to terminate.

    Args:
        prompt: what to ask; several words are joined.
        base_url: where the model server is, as in http://127.0.0.1:8080/v1.
        model: the model's id, or PROVIDER/ID; may be left out when the server has just one.
        api_key_env: the environment variable that holds the key; the provider's usual one unless a base URL is given.
        provider: what the server speaks: openai-chat (taken unless given), openai-responses, anthropic, deepseek;
            or embedded, or local.
        max_tokens: bound on the length of each answer.
        local: let a small real model answer, in this process; says what to install when it is not there.
        system: the system prompt.
        system_file: the file that holds the system prompt.
        tools: MODULE:NAME of a tool, a function, or a list of them, to offer instead of the example tools `now` and
            `add`; modules of the present folder are found; may be given several times.
        no_tools: offer no tools to the model.
        session_dir: the folder that holds sessions; one for the present project, in your home, unless given.
        resume: the id of a kept session to go on with.
        latest: go on with the newest session.
        save: keep the session.
        config: a treadle.toml that declares host, models and agents; it says all that the options above do.
        agent: the id of the declared agent to talk to; the first one unless given.
    """
    if config is None and agent is not None:
        raise MisuseError("--agent names an agent of a --config file: give that, too")
    if max_tokens is not None and max_tokens <= 0:
        raise MisuseError("--max-tokens must be positive")
    if local and (provider or base_url or api_key_env):
        raise MisuseError("--local is a model of its own: leave --provider, --base-url and --api-key-env out")
    wish = Wish(LOCAL if local else provider, base_url, model, api_key_env)
    session = SessionChoice(session_dir, resume, latest, save)
    session.check()
    if config is not None:
        given = [wish != Wish(), session != SessionChoice(), max_tokens, system, system_file, tools, no_tools]
        if any(given):
            raise MisuseError("--config says which model, prompt, tools and session: leave the options for these out")
        choices = Choices(wish, declared=Declared(config, agent))
    else:
        offered = tools_named(tools, Path.cwd()) if tools else () if no_tools else EXAMPLE_TOOLS
        choices = Choices(wish, system_text(system, system_file), offered, max_tokens, session)
    text = prompt_text(prompt)
    return trio.run(converse, choices) if text is None else trio.run(answer_once, choices, text)


def system_text(said: str | None, file: Path | None) -> str:
    """The system prompt, as given or from a file.

    Raises:
        MisuseError: both were given, or the file or what was given is no text.
    """
    if file is None:
        check_text(said or "", "--system")
        return said or ""
    if said is not None:
        raise MisuseError("give either --system or --system-file, not both")
    try:
        return file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise MisuseError(f"{file} is no UTF-8 text, from byte {error.start} on") from error


def prompt_text(words: tuple[str, ...]) -> str | None:
    """The prompt that the words make, ``None`` when there are none; ``-`` reads stdin.

    Raises:
        MisuseError: it is empty, or holds bytes that are no UTF-8.
    """
    if not words:
        return None
    text = (sys.stdin.read() if words == ("-",) else " ".join(words)).strip()
    if not text:
        raise MisuseError("the prompt is empty: give some text, or none at all for a conversation")
    check_text(text, "the prompt")
    return text
