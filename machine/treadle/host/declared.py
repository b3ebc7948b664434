"""From a checked configuration to a host whose declared agents are live (O8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..agent.handle import AgentHandle
from ..agent.options import AgentOptions
from ..errors import ConfigError, NoStore, SessionNotFound
from ..hooks.dispatch import Listener, emit
from ..hooks.points import CONFIG_START_FAILED, ConfigStartFailed
from ..ids import new_id
from ..models.scripted import ScriptedModel
from ..session.memory import MemoryStore
from ..tools.definition import Tool, tool
from .config import AgentTable, Config, PartTable
from .default_model import DefaultModel, ModelSelection
from .presets.components import import_attribute, import_callable
from .presets.documents import PresetDefinition, read_definition
from .profile import TomlProfile

if TYPE_CHECKING:
    from ..agent.agent import Agent
    from ..hooks.scope import Scope
    from ..models.routes import Models
    from ..prompt.registry import PromptRegistry
    from ..tools.registry import ToolRegistry
    from .presets.presets import Presets
    from .registry import Agents

Parts = Mapping[str, Callable[..., Any]]
"""Names that ``use`` may name, and what makes the part."""
PATHS = ("path", "directory")
"""Options that are places on disk."""
SHIPPED: dict[str, Callable[..., Any]] = {"memory": MemoryStore, "scripted": ScriptedModel}


def make_part(part: PartTable, where: str, parts: Parts, folder: Path) -> Any:
    """Make a store or model of its entry; relative paths in it start in ``folder``.

    Raises:
        ConfigError: it cannot be found, or refused its options.
    """
    maker = parts.get(part.use) or SHIPPED.get(part.use)
    try:
        if maker is None:
            if ":" not in part.use:
                known = ", ".join(sorted({*parts, *SHIPPED}))
                raise ConfigError(f"{part.use!r} is not known (known: {known}; or write package.module:attribute)")
            maker = import_callable(part.use)
        return maker(**{name: _placed(name, value, folder) for name, value in part.options.items()})
    except Exception as error:
        raise ConfigError(f"{where}: {error or type(error).__name__} (O8)") from error


def _placed(name: str, value: Any, folder: Path) -> Any:
    return str(folder / value) if name in PATHS and isinstance(value, str) and value else value


def named_tools(names: Sequence[str]) -> tuple[Tool, ...]:
    """The tools that names as in ``package.module:attribute`` stand for: a tool, a function, or several in a list.

    Raises:
        ConfigError: a name cannot be imported, or is no tool.
    """
    found: list[Tool] = []
    for name in names:
        named: Any = import_attribute(name)
        for each in cast("Sequence[Any]", named if isinstance(named, (list, tuple)) else (named,)):
            try:
                found.append(each if isinstance(each, Tool) else tool(cast("Callable[..., Any]", each)))
            except Exception as error:
                raise ConfigError(f"{name!r} is no tool: {error or type(error).__name__}") from error
    return tuple(found)


def default_model_of(config: Config) -> DefaultModel:
    """The default model of ``[default_model]``: the configured entry, and what its profile keeps.

    Raises:
        ConfigError: the profile is there and cannot be read.
    """
    table = config.default_model
    if table is None:
        return DefaultModel()
    configured = ModelSelection(table.provider, table.model, table.reasoning_effort)
    if table.profile is None:
        return DefaultModel(configured)
    profile = TomlProfile(config.path(table.profile))
    return DefaultModel(configured, saved=profile.read(), editor=profile)


def preset_definitions(config: Config) -> list[PresetDefinition]:
    """The presets of ``[presets]``, in order of their files.

    Raises:
        ConfigError: a pattern names no file, or a file cannot be read.
    """
    found: list[PresetDefinition] = []
    folder = config.where.parent
    for pattern in config.presets.files:
        paths = sorted(folder.glob(pattern)) if not Path(pattern).is_absolute() else [Path(pattern)]
        if not paths:
            raise ConfigError(f"{config.where}: presets.files: {pattern!r} names no file (O8)")
        found += [read_definition(path) for path in paths]
    return found


class Deployment:
    """Brings a configuration to life when its host is entered.

    Attributes:
        declared: the agents that came to life, by their labels (O8).
    """

    def __init__(self, config: Config, parts: Parts) -> None:
        self.config = config
        self.declared: dict[str, Agent] = {}
        where = config.where
        self.default_model = default_model_of(config)
        self.presets = preset_definitions(config)
        self.store = (
            make_part(config.store, f"{where}: [store]", parts, where.parent) if config.store is not None else None
        )
        self.models = {
            name: make_part(part, f"{where}: [models.{name}]", parts, where.parent)
            for name, part in config.models.items()
        }
        try:
            self.tools = named_tools(config.tools.use)
        except ConfigError as error:
            raise ConfigError(f"{where}: [tools]: {error} (O8)") from error

    def furnish(self, models: Models, prompt: PromptRegistry, presets: Presets, tools: ToolRegistry) -> None:
        """Register what needs no running host."""
        config = self.config
        for each in self.tools:
            tools.register(each)
        for name, model in self.models.items():
            models.register(name, model)
        if config.host.persona:
            prompt.persona(config.host.persona)
        presets.default, presets.chooser = config.presets.default, config.presets.chooser

    async def start(
        self, stack: AsyncExitStack, presets: Presets, agents: Agents, failed: Callable[[str, Exception], None]
    ) -> None:
        """Open what has to be opened, load presets, and start the declared agents, in order.

        Args:
            stack: closes what was opened.
            presets: the host's.
            agents: the host's.
            failed: told the session and the failure of each agent that cannot start.
        """
        for part in (self.store, *self.models.values()):
            if part is not None and hasattr(part, "__aenter__"):
                await stack.enter_async_context(part)
        for definition in self.presets:
            await presets.register(definition)
        for table in self.config.agents:
            exact = table.session_id or table.resume_session_id or new_id()
            try:
                handle = await self._start(agents, table, exact)
            except Exception as error:
                if agents.has_factory:
                    failed(exact, error)
            else:
                self.declared[table.id] = handle.agent

    async def _start(self, agents: Agents, table: AgentTable, exact: str) -> AgentHandle:
        options: AgentOptions = self.config.options_of(table)
        if table.resume_session_id is not None:
            return await agents.resume(exact, agent_options=options)
        if table.session_id is not None:
            try:
                return await agents.resume(exact, agent_options=options)
            except (SessionNotFound, NoStore):
                pass  # the first use creates it
        cwd = str(self.config.path(table.cwd)) if table.cwd is not None else None
        preset = table.preset if table.preset is not None else self.config.presets.default
        return await agents.create(session_id=exact, agent_options=options, cwd=cwd, agent_preset=preset)


def report_start(scope: Scope, report: Callable[[BaseException], None], session_id: str, error: Exception) -> None:
    """A declared agent could not start: the host's listeners are told, or it is reported where nobody listens (O8)."""
    listeners = scope.heard[CONFIG_START_FAILED]
    if not listeners:
        report(error)

    def failed(_: Listener, again: BaseException) -> None:
        report(again)

    emit(listeners, ConfigStartFailed(session_id, error), failed)


def host_arguments(deployment: Deployment) -> dict[str, Any]:
    """What ``Host`` is made with."""
    config = deployment.config
    table = config.host
    return {
        "store": deployment.store,
        "checks": table.checks,
        "cwd": str(config.path(table.cwd)) if table.cwd is not None else str(config.where.parent),
        "max_delegation_depth": config.limits.max_delegation_depth,
        "max_live_children": config.limits.max_live_children,
        "tool_order": table.tool_order,
        "default_model": deployment.default_model,
    }
