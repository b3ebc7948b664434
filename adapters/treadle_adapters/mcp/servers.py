"""Which servers of tools there are: what is said about each, and what it may cost."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from attrs import Attribute, evolve, field, frozen

from treadle import MisuseError
from treadle.errors import ConfigError

from ..processes import INHERITED

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
"""How a server may be named: its name stands in the names of its tools."""

Asks = Literal["destructive", "always", "never"]
"""Which calls need approval: of tools that do not say they do no harm, all, or none."""


def _positive(_: Any, attribute: Attribute[Any], value: Any) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
        raise MisuseError(f"{attribute.name} must be a positive number, not {value!r}")


@frozen(kw_only=True)
class Limits:
    """What a server may cost. Whatever it does beyond, it harms nobody else.

    Attributes:
        start_seconds: how long it may take to start and to list its tools.
        call_seconds: how long a call may take.
        message_bytes: how long one of its messages may be.
        tools: how many of its tools are taken.
        unasked: how many messages that nobody asked for it may send within ten seconds.
        end_seconds: how long it has to end after its input was closed, and again after SIGTERM.
    """

    start_seconds: float = field(default=30.0, validator=_positive)
    call_seconds: float = field(default=300.0, validator=_positive)
    message_bytes: int = field(default=16 * 1024 * 1024, validator=_positive)
    tools: int = field(default=1_000, validator=_positive)
    unasked: int = field(default=10_000, validator=_positive)
    end_seconds: float = field(default=2.0, validator=_positive)


@frozen(kw_only=True)
class _Server:
    """What is said of any server.

    Attributes:
        prefix: whether its tools are named ``NAME__tool``; else they have their own names.
        asks: which calls need approval.
        parallel: whether calls of tools that only read may overlap.
        limits: what it may cost.
    """

    prefix: bool = True
    asks: Asks = "destructive"
    parallel: bool = True
    limits: Limits = field(factory=Limits)


@frozen
class StdioServer(_Server):
    """A server that is a child process and speaks on its stdin and stdout.

    Attributes:
        command: its words.
        env: variables that it gets.
        inherit: names of our variables that it gets as well; all others are kept from it.
        cwd: its working directory.
    """

    command: tuple[str, ...] = field(converter=tuple)
    env: Mapping[str, str] = field(factory=dict[str, str], kw_only=True, repr=False)
    inherit: tuple[str, ...] = field(default=INHERITED, converter=tuple, kw_only=True)
    cwd: str | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not self.command or not all(isinstance(cast("object", word), str) and word for word in self.command):
            raise MisuseError("a server's command needs at least one word, and words are text")


@frozen
class HTTPServer(_Server):
    """A server that is reached over streamable HTTP.

    Attributes:
        url: its address.
        headers: sent with every request; never shown.
        auth: makes what authenticates requests: an ``httpx2.Auth``, such as the SDK's ``OAuthClientProvider``. It is asked
            once for each connection.
    """

    url: str
    headers: Mapping[str, str] = field(factory=dict[str, str], kw_only=True, repr=False)
    auth: Callable[[], Any] | None = field(default=None, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        if not re.match(r"https?://[^/\s]", self.url):
            raise MisuseError(f"a server's address begins with http:// or https://, unlike {self.url!r}")


Server = StdioServer | HTTPServer
"""Either kind."""


def check_name(name: str) -> str:
    """The name of a server, checked.

    Raises:
        MisuseError: it could not stand in the name of a tool.
    """
    if not NAME.fullmatch(name):
        raise MisuseError(f"a server of tools is named by 1 to 32 letters, digits, _ and -, not {name!r}")
    return name


def servers_named(words: list[str]) -> dict[str, Server]:
    """The servers of a command line: each a command or an address, with ``NAME=`` before it where it is to be named.

    Raises:
        MisuseError: a word is neither, or a name stands twice.
    """
    found: dict[str, Server] = {}
    for word in words:
        named = re.match(rf"({NAME.pattern})=(?=\S)", word)
        said = word[named.end() :] if named else word
        server = _said(said)
        name = named[1] if named else _unlike(found, _name_of(server))
        if name in found:
            raise MisuseError(f"two servers are named {name!r}: write NAME={said!r}")
        found[name] = server
    return found


def _said(text: str) -> Server:
    if re.match(r"https?://", text):
        return HTTPServer(text)
    try:
        return StdioServer(tuple(shlex.split(text)))
    except ValueError as error:
        raise MisuseError(f"the command {text!r} cannot be read: {error}") from error


def _name_of(server: Server) -> str:
    """A name from the last word of a command that is no option, or from the host of an address."""
    if isinstance(server, HTTPServer):
        told = re.sub(r"https?://([^@/]*@)?([^/:]+).*", r"\2", server.url)
    else:
        plain = [word for word in server.command if not word.startswith("-")]
        packages = [word for word in plain if re.search(r"mcp|server", Path(word).name)]
        told = re.sub(r"\.[a-z]+$", "", Path((packages or plain or ["server"])[0]).name)
    told = re.sub(r"^(mcp-)?server-|-mcp$|^mcp-", "", told)
    return re.sub(r"[^A-Za-z0-9_-]+", "-", told).strip("-_")[:24] or "server"


def _unlike(found: Mapping[str, Server], name: str) -> str:
    number = 2
    tried = name
    while tried in found:
        tried, number = f"{name}{number}", number + 1
    return tried


# --- treadle.toml -----------------------------------------------------------------------------------------------------


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[mcp.NAME]``: ``command`` or ``url``, and what else is said of the server."""

    command: str | tuple[str, ...] | None = None
    url: str | None = None
    env: dict[str, str] = {}
    inherit: tuple[str, ...] = INHERITED
    cwd: str | None = None
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}
    prefix: bool = True
    asks: Asks = "destructive"
    parallel: bool = True
    limits: dict[str, float] = {}


def servers_declared(tables: Any, where: Path, variable: Callable[[str], str | None]) -> dict[str, Server]:
    """The servers that the tables ``[mcp.NAME]`` of a configuration file declare.

    Args:
        tables: what stands under ``mcp``.
        where: the file; a relative ``cwd`` starts in its folder.
        variable: reads an environment variable: ``headers_env`` names those that hold headers.

    Raises:
        ConfigError: a table is wrong; the text names it.
    """
    if not isinstance(tables, dict):
        raise ConfigError(f"{where}: [mcp] must hold tables, as in [mcp.files]")
    found: dict[str, Server] = {}
    for name, raw in cast("dict[str, Any]", tables).items():
        try:
            found[check_name(name)] = _declared(msgspec.convert(raw, _Table), where, variable)
        except (msgspec.ValidationError, MisuseError, TypeError) as error:
            raise ConfigError(f"{where}: [mcp.{name}]: {error}") from error
    return found


def _declared(table: _Table, where: Path, variable: Callable[[str], str | None]) -> Server:
    if (table.command is None) == (table.url is None):
        raise MisuseError("give either command or url")
    limits = evolve(
        Limits(), **{key: int(value) if value == int(value) else value for key, value in table.limits.items()}
    )
    if table.url is not None:
        headers = dict(table.headers)
        for header, name in table.headers_env.items():
            value = variable(name)
            if value is None:
                raise MisuseError(f"headers_env: {name} is not set")
            headers[header] = value
        return HTTPServer(
            table.url, headers=headers, prefix=table.prefix, asks=table.asks, parallel=table.parallel, limits=limits
        )
    command = table.command if not isinstance(table.command, str) else tuple(shlex.split(table.command))
    return StdioServer(
        command or (),
        env=table.env,
        inherit=table.inherit,
        cwd=str((where.parent / table.cwd).resolve()) if table.cwd is not None else str(where.parent),
        prefix=table.prefix,
        asks=table.asks,
        parallel=table.parallel,
        limits=limits,
    )
