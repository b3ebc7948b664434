"""What a deployment declares in ``treadle.toml``, read and checked before anything starts (O8)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec
from attrs import field, frozen

from ..agent.options import MAX_STEPS_PER_TURN, AgentOptions
from ..errors import MisuseError
from ..ids import session_id as checked_id
from ..models.bounds import DEFAULT_BOUNDS
from .publication import MAX_DELEGATION_DEPTH, MAX_LIVE_CHILDREN
from .reading.documents import Faulty, Where, error_of, faults_in, read_text
from .reading.shapes import faults_of
from .reading.toml import read_toml

MAX_FILE = 1 << 20
"""Bytes that a configuration file may have (X3)."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the tables: an unknown key is a mistake, not a wish."""


class HostTable(_Strict, frozen=True):
    """``[host]``.

    Attributes:
        cwd: working directory of sessions that name none, relative to the file.
        checks: verify the invariants while running.
        persona: the default persona (R3).
        tool_order: canonical order of tools; the others follow by name (R1).
    """

    cwd: str | None = None
    checks: bool = False
    persona: str | None = None
    tool_order: tuple[str, ...] = ()


class LimitsTable(_Strict, frozen=True):
    """``[limits]``: of every declared agent, and of the host.

    Attributes:
        max_steps_per_turn: see ``AgentOptions`` (T11).
        max_parallel_tool_calls: see ``AgentOptions`` (K4).
        max_tokens: bound on the output of one request, where the agent names none (Q4).
        convergence_warning: seconds, see ``AgentOptions`` (C10).
        max_answer_bytes: see ``AgentOptions`` (X3).
        max_answer_calls: see ``AgentOptions``.
        max_answer_seconds: see ``AgentOptions``.
        max_delegation_depth: see ``Host`` (O6).
        max_live_children: see ``Host`` (O6).
    """

    max_steps_per_turn: int | None = MAX_STEPS_PER_TURN
    max_parallel_tool_calls: int = 10
    max_tokens: int | None = None
    convergence_warning: float = 5.0
    max_answer_bytes: int = DEFAULT_BOUNDS.bytes
    max_answer_calls: int = DEFAULT_BOUNDS.calls
    max_answer_seconds: float = DEFAULT_BOUNDS.seconds
    max_delegation_depth: int | None = MAX_DELEGATION_DEPTH
    max_live_children: int | None = MAX_LIVE_CHILDREN


class PartTable(_Strict, frozen=True):
    """A part that code provides: a store, or a model of ``[models]``.

    Attributes:
        use: a name that ``from_config`` was given, or ``package.module:attribute``.
        options: passed to it as keyword arguments; a relative ``path`` or ``directory`` starts in the file's folder.
    """

    use: str
    options: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<part {self.use}>"  # options may hold what must not be shown (X1)


class ToolsTable(_Strict, frozen=True):
    """``[tools]``: what every agent of the host may call.

    Attributes:
        use: names as in ``package.module:attribute``, of tools, of functions, or of lists of them.
    """

    use: tuple[str, ...] = ()


class DefaultModelTable(_Strict, frozen=True):
    """``[default_model]``: used by agents that name neither provider nor model (O10).

    Attributes:
        provider: the route.
        model: the model's id.
        reasoning_effort: a word that the model takes.
        profile: the file that keeps what a person chose instead, relative to this one.
    """

    provider: str
    model: str
    reasoning_effort: str | None = None
    profile: str | None = None


class PresetsTable(_Strict, frozen=True):
    """``[presets]`` (O9).

    Attributes:
        files: preset files, or patterns of them, relative to this one; a file's name is the preset's id.
        default: the preset of agents that name none.
        chooser: whether people may choose another.
    """

    files: tuple[str, ...] = ()
    default: str | None = None
    chooser: Literal["open", "locked"] = "open"


class AgentTable(_Strict, frozen=True):
    """One ``[[agents]]`` entry (O8).

    Attributes:
        id: a label, unique in the file; ``host.declared`` finds the agent by it.
        session_id: the exact session: first use creates it, later ones resume it.
        resume_session_id: a session that must be there.
        provider: the route.
        model: the model's id.
        reasoning_effort: a word that the model takes.
        max_tokens: bound on the output of one request.
        cwd: working directory, relative to the file.
        preset: the preset it is bound to (O9).
    """

    id: str
    session_id: str | None = None
    resume_session_id: str | None = None
    provider: str | None = None
    model: str | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    cwd: str | None = None
    preset: str | None = None


class _File(_Strict, frozen=True):
    host: HostTable = HostTable()
    limits: LimitsTable = LimitsTable()
    store: PartTable | None = None
    models: dict[str, PartTable] = {}
    tools: ToolsTable = ToolsTable()
    default_model: DefaultModelTable | None = None
    presets: PresetsTable = PresetsTable()
    agents: tuple[AgentTable, ...] = ()


@frozen
class Config:
    """A checked configuration.

    ``where`` is its file; relative paths in it start in that file's folder. ``others`` holds the tables that an extension
    reads, as they are.
    """

    where: Path
    host: HostTable
    limits: LimitsTable
    store: PartTable | None
    models: dict[str, PartTable]
    tools: ToolsTable
    default_model: DefaultModelTable | None
    presets: PresetsTable
    agents: tuple[AgentTable, ...]
    others: dict[str, Any] = field(factory=dict[str, Any])

    def path(self, name: str) -> Path:
        """A path of the file, made absolute."""
        return (self.where.parent / name).resolve()

    def options_of(self, agent: AgentTable) -> AgentOptions:
        """The options of a declared agent, limits included."""
        limits = self.limits
        return AgentOptions(
            provider=agent.provider,
            model=agent.model,
            reasoning_effort=agent.reasoning_effort,
            max_tokens=agent.max_tokens if agent.max_tokens is not None else limits.max_tokens,
            max_steps_per_turn=limits.max_steps_per_turn,
            max_parallel_tool_calls=limits.max_parallel_tool_calls,
            convergence_warning=limits.convergence_warning,
            max_answer_bytes=limits.max_answer_bytes,
            max_answer_calls=limits.max_answer_calls,
            max_answer_seconds=limits.max_answer_seconds,
        )


def load_config(path: str | Path, others: Collection[str] = ()) -> Config:
    """Read a configuration file and check all of it, but for the tables that ``others`` names.

    Raises:
        ConfigError: the file cannot be read, is no TOML, or is wrong; every mistake is named with its place.
    """
    where = Path(path).resolve()
    try:
        text = read_text(where, MAX_FILE)
    except (Faulty, OSError) as error:
        raise error_of(where, faults_in(error)) from error
    return parse_config(text, where, others)


def parse_config(text: str, where: str | Path = "treadle.toml", others: Collection[str] = ()) -> Config:
    """As ``load_config``, from text; ``where`` names it in errors and is where relative paths start."""
    place = Path(where).resolve()
    try:
        read = read_toml(text)
    except Faulty as error:
        raise error_of(place, error.faults, "O8") from error
    left = {name: read.value[name] for name in others if name in read.value}
    ours = {name: table for name, table in read.value.items() if name not in left}
    wrong = list(faults_of(ours, _File))
    if wrong:
        raise error_of(place, [read.fault(*one) for one in wrong], "O8")
    file = msgspec.convert(ours, _File)
    config = Config(
        place,
        file.host,
        file.limits,
        file.store,
        file.models,
        file.tools,
        file.default_model,
        file.presets,
        file.agents,
        left,
    )
    mistakes = list(_mistakes(config))
    if mistakes:
        raise error_of(place, [read.fault(*one) for one in mistakes], "O8")
    return config


def _mistakes(config: Config) -> Iterable[tuple[Where, str]]:
    """Every contradiction with its place, before anything starts."""
    labels: dict[str, int] = {}
    sessions: dict[str, str] = {}
    for number, agent in enumerate(config.agents):
        here, at = f"agents[{number}] ({agent.id!r})", ("agents", number)
        if not agent.id.strip():
            yield (*at, "id"), f"agents[{number}]: id is empty"
        elif agent.id in labels:
            yield (*at, "id"), f"{here}: agents[{labels[agent.id]}] has this id already"
        labels.setdefault(agent.id, number)
        if agent.session_id is not None and agent.resume_session_id is not None:
            yield at, f"{here}: session_id and resume_session_id exclude each other"
        exact = agent.session_id or agent.resume_session_id
        if exact is not None:
            if exact in sessions:
                yield (*at, "session_id"), f"{here}: session {exact!r} is that of agent {sessions[exact]!r} already"
            sessions.setdefault(exact, agent.id)
        yield from [(at, wrong) for wrong in _wrong_values(config, agent, here, exact)]
    parts: dict[Where, PartTable] = {("models", name): part for name, part in config.models.items()}
    for path, part in {**parts, **({("store",): config.store} if config.store else {})}.items():
        if "api_key" in part.options:
            yield (
                (*path, "options", "api_key"),
                f"{path[-1]}: api_key in a file is not safe (X1): name its variable with api_key_env",
            )
    if not config.agents:
        yield from [(("limits",), wrong) for wrong in _wrong_options(config, AgentTable("any"))]
    if config.limits.max_delegation_depth is not None and config.limits.max_delegation_depth < 0:
        yield ("limits", "max_delegation_depth"), "limits.max_delegation_depth must not be negative"
    if config.limits.max_live_children is not None and config.limits.max_live_children < 0:
        yield ("limits", "max_live_children"), "limits.max_live_children must not be negative"


def _wrong_values(config: Config, agent: AgentTable, here: str, exact: str | None) -> Iterable[str]:
    if exact is not None:
        try:
            checked_id(exact)
        except MisuseError as error:
            yield f"{here}: {error}"
    if agent.resume_session_id is not None and config.store is None:
        yield f"{here}: resume_session_id needs a [store]"
    if agent.resume_session_id is not None and (agent.cwd is not None or agent.preset is not None):
        yield f"{here}: a resumed session has its cwd and preset already"
    yield from [f"{here}: {wrong}" for wrong in _wrong_options(config, agent)]
    if agent.provider is not None and config.models and agent.provider not in config.models:
        known = ", ".join(config.models) or "none"
        yield f"{here}: provider {agent.provider!r} is not in [models] (there: {known})"
    if (agent.provider is None) != (agent.model is None):
        yield f"{here}: give provider and model, or neither"


def _wrong_options(config: Config, agent: AgentTable) -> Iterable[str]:
    """What keeps an agent's options, limits included, from being some."""
    try:
        config.options_of(agent)
    except MisuseError as error:
        yield str(error)
