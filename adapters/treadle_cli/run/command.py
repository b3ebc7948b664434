"""``treadle run``: one prompt, or a conversation."""

from __future__ import annotations

import sys

import trio
from attrs import evolve

from treadle import MisuseError
from treadle.lossless import MAX_PART_BYTES, check_text

from ..models.routes import Wish
from ..stores.storage import SessionChoice
from .declared import Declared
from .options import AgentWords, ConfigWords, ModelWords, SessionWords
from .talk import Choices, answer_once, converse


def run(
    *prompt: str,
    agent: AgentWords = AgentWords(),
    model: ModelWords = ModelWords(),
    session: SessionWords = SessionWords(),
    config: ConfigWords = ConfigWords(),
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
        agent: what the agent is told, and what it can do.
        model: which model answers.
        session: where the session is kept, and which one.
        config: a configuration that says all of this instead.
    """
    choices = choices_of(agent, model, session, config)
    text = prompt_text(prompt)
    return trio.run(converse, choices) if text is None else trio.run(answer_once, choices, text)


def choices_of(agent: AgentWords, model: ModelWords, session: SessionWords, config: ConfigWords) -> Choices:
    """What all options together ask for.

    Raises:
        MisuseError: they contradict each other.
    """
    if config.config is None and config.agent is not None:
        raise MisuseError("--agent names an agent of a --config file: give that, too")
    wish, kept = model.wish(), session.choice()
    if config.config is None:
        offered, equipment = agent.offered(), agent.equipment()
        return Choices(wish, agent.prompt(), offered, model.max_tokens, kept, equipment=equipment, approves=agent.yes)
    if wish != Wish() or kept != SessionChoice() or model.max_tokens or evolve(agent, yes=False) != AgentWords():
        raise MisuseError("--config says which model, prompt, tools and session: leave the options for these out")
    return Choices(wish, declared=Declared(config.config, config.agent), approves=agent.yes)


def prompt_text(words: tuple[str, ...]) -> str | None:
    """The prompt that the words make, ``None`` when there are none; ``-`` reads stdin.

    Raises:
        MisuseError: it is empty or too long, or holds bytes that are no UTF-8.
    """
    if not words:
        return None
    text = (sys.stdin.read(MAX_PART_BYTES + 1) if words == ("-",) else " ".join(words)).strip()
    if len(text) > MAX_PART_BYTES:
        raise MisuseError(f"the prompt is longer than {MAX_PART_BYTES:,} characters: shorten it (X3)")
    if not text:
        raise MisuseError("the prompt is empty: give some text, or none at all for a conversation")
    check_text(text, "the prompt")
    return text
