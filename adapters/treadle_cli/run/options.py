"""What ``treadle run`` can be told on the command line, by theme."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from attrs import frozen
from cyclopts import Group, Parameter

from treadle import MisuseError, Tool
from treadle.host.reading.documents import Faulty, error_of, read_text
from treadle.lossless import MAX_PART_BYTES, check_text

from ..models.local import LOCAL
from ..models.routes import Wish
from ..stores.storage import SessionChoice
from .equipment import Equipment, equipment, local_kinds
from .example_tools import EXAMPLE_TOOLS
from .tools import tools_named

MODEL = Group("Model", sort_key=1)
SESSION = Group("Session", sort_key=2)
CONFIG = Group("Configuration", sort_key=3)


@Parameter(name="*")
@frozen
class AgentWords:
    """What the agent is told, and what it can do.

    Attributes:
        system: the system prompt.
        system_file: the file that holds the system prompt.
        tools: MODULE:NAME of a tool, a function, or a list of them, to offer instead of the example tools `now` and
            `add`; modules of the present folder are found; `files` and `shell` are tools for the present folder, which
            ask before they change something; may be given several times.
        mcp: a server of tools that speaks the Model Context Protocol: a command or an address, NAME= before it to name it;
            may be given several times.
        no_tools: offer no tools to the model.
        yes: approve every call that asks for approval.
    """

    system: Annotated[str | None, Parameter(alias="-s")] = None
    system_file: Path | None = None
    tools: Annotated[list[str] | None, Parameter(negative=())] = None
    mcp: Annotated[list[str] | None, Parameter(negative=())] = None
    no_tools: Annotated[bool, Parameter(negative=())] = False
    yes: Annotated[bool, Parameter(negative=())] = False

    def prompt(self) -> str:
        """The system prompt, as given or from a file.

        Raises:
            MisuseError: both were given, or the file or what was given is no text.
        """
        if self.system_file is None:
            check_text(self.system or "", "--system")
            return self.system or ""
        if self.system is not None:
            raise MisuseError("give either --system or --system-file, not both")
        try:
            return read_text(self.system_file, MAX_PART_BYTES).strip()
        except Faulty as error:
            raise MisuseError(str(error_of(self.system_file, error.faults))) from error

    def offered(self) -> tuple[Tool, ...]:
        """What is offered to the model.

        Raises:
            ConfigError: a name cannot be imported, or is no tool.
            MisuseError: a name is no ``module:attribute``.
        """
        _, names = local_kinds(self.tools or ())
        return (
            tools_named(names, Path.cwd())
            if names
            else ()
            if self.no_tools or self.tools or self.mcp
            else EXAMPLE_TOOLS
        )

    def equipment(self) -> tuple[Equipment, ...]:
        """What the host is furnished with beside that.

        Raises:
            MisuseError: a server's word is wrong.
            MissingExtra: a library is not installed.
        """
        kinds, _ = local_kinds(self.tools or ())
        return equipment(kinds, self.mcp or (), Path.cwd())


@Parameter(name="*", group=MODEL)
@frozen
class ModelWords:
    """Which model answers.

    Attributes:
        base_url: where the model server is, as in http://127.0.0.1:8080/v1.
        model: the model's id, or PROVIDER/ID; may be left out when the server has just one.
        api_key_env: the environment variable that holds the key; the provider's usual one unless a base URL is given.
        provider: what the server speaks: openai-chat (taken unless given), openai-responses, anthropic, deepseek;
            or embedded, or local.
        max_tokens: bound on the length of each answer.
        local: let a small real model answer, in this process; says what to install when it is not there.
    """

    base_url: Annotated[str | None, Parameter(env_var="TREADLE_BASE_URL")] = None
    model: Annotated[str | None, Parameter(env_var="TREADLE_MODEL", alias="-m")] = None
    api_key_env: Annotated[str | None, Parameter(env_var="TREADLE_API_KEY_ENV")] = None
    provider: Annotated[str | None, Parameter(env_var="TREADLE_PROVIDER")] = None
    max_tokens: int | None = None
    local: Annotated[bool, Parameter(negative=())] = False

    def wish(self) -> Wish:
        """Which model is meant.

        Raises:
            MisuseError: the options contradict each other, or are out of range.
        """
        if self.max_tokens is not None and self.max_tokens <= 0:
            raise MisuseError("--max-tokens must be positive")
        if self.local and (self.provider or self.base_url or self.api_key_env):
            raise MisuseError("--local is a model of its own: leave --provider, --base-url and --api-key-env out")
        return Wish(LOCAL if self.local else self.provider, self.base_url, self.model, self.api_key_env)


@Parameter(name="*", group=SESSION)
@frozen
class SessionWords:
    """Where the session is kept, and which one.

    Attributes:
        session_dir: the folder that holds sessions, or a database, as in `postgres://user@host/database`; a folder for
            the present project, in your home, unless given.
        resume: the id of a kept session to go on with.
        latest: go on with the newest session.
        save: keep the session.
    """

    session_dir: Annotated[str | None, Parameter(env_var="TREADLE_SESSION_DIR")] = None
    resume: str | None = None
    latest: Annotated[bool, Parameter(name="--continue", alias="-c", negative=())] = False
    save: bool = True

    def choice(self) -> SessionChoice:
        """Which session is meant.

        Raises:
            MisuseError: the options contradict each other.
        """
        choice = SessionChoice(self.session_dir, self.resume, self.latest, self.save)
        choice.check()
        return choice


@Parameter(name="*", group=CONFIG)
@frozen
class ConfigWords:
    """A configuration that says all of this instead.

    Attributes:
        config: a treadle.toml that declares host, models and agents; it says all that the options above do.
        agent: the id of the declared agent to talk to; the first one unless given.
    """

    config: Path | None = None
    agent: str | None = None
