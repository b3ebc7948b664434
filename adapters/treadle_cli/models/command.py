"""``treadle models``: the routes to model servers, and whether they answer (Q4, Q7, Q14)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import trio
from attrs import frozen
from cyclopts import Group, Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from treadle import Failure, MisuseError, ModelFailure
from treadle.models import Code
from treadle.printable import one_line

from ..exits import Exit, advice_for
from .explain import explain as explained
from .routes import EMBEDDED, PROVIDERS, Provider, adapter_of

SERVER = Group("Server", sort_key=1)
ERROR = Group("Errors of servers", sort_key=2)
COLUMNS = ("route", "address", "key", "answer")
MAX_LISTED = 10_000
"""How many models of one server are shown (X3)."""


@frozen
class Probe:
    """What one route answered.

    Attributes:
        route: the provider's name.
        address: where its server is.
        key: the variable that holds its key, ``None`` when it needs none.
        ready: whether that variable is set.
        models: the ids that it listed, ``None`` when it was not asked or did not answer.
        failure: why it did not.
    """

    route: str
    address: str
    key: str | None
    ready: bool = True
    models: tuple[str, ...] | None = None
    failure: Failure | None = None

    @property
    def columns(self) -> tuple[str, str, str, str]:
        """The row that shows it."""
        key = "none needed" if self.key is None else f"{self.key} ({'set' if self.ready else 'not set'})"
        return self.route, one_line(self.address), key, self.answer

    @property
    def answer(self) -> str:
        """What came of asking, in words."""
        if self.failure is not None:
            return f"{self.failure.code}: {one_line(self.failure.message)}"
        if self.models is not None:
            return f"answers; {len(self.models)} model{'' if len(self.models) == 1 else 's'}"
        return "not asked"


def models(
    provider: str | None = None,
    /,
    *,
    base_url: Annotated[str | None, Parameter(group=SERVER, env_var="TREADLE_BASE_URL")] = None,
    api_key_env: Annotated[str | None, Parameter(group=SERVER, env_var="TREADLE_API_KEY_ENV")] = None,
    probe: bool = True,
    timeout: float = 10.0,
    explain: Annotated[Path | None, Parameter(group=ERROR)] = None,
    status: Annotated[int | None, Parameter(group=ERROR)] = None,
    protocol: Annotated[str | None, Parameter(group=ERROR)] = None,
) -> int:
    """List the routes to model servers, and ask each whether it answers.

    Without arguments every route is shown, one line each; those whose key is in the environment are asked for their
    models. With PROVIDER or `--base-url` that one server is asked, and its models are listed, one line each, as
    `treadle run --model` takes them.

    Written to a pipe, the columns of a route stand between tabs.

    Exit status: 0 all that were asked answered, 1 one did not, 2 the command was called wrongly.

    Args:
        provider: one of openai-chat, openai-responses, anthropic, deepseek.
        base_url: where the server is, as in http://127.0.0.1:8080/v1.
        api_key_env: the environment variable that holds the key; the provider's usual one unless a base URL is given.
        probe: ask the servers; without it nothing goes over the network.
        timeout: seconds that a server may take.
        explain: a file with an error of a server: says what it would be taken for, whether it would be tried again
            and when, and which row of the table of refusals says so. It holds the error's body, or JSON with
            "status", "headers" and "body", or a list of such.
        status: the HTTP status of a body in such a file.
        protocol: the protocol of a body in such a file, one of the providers' names.
    """
    if explain is not None:
        return explained(explain, status, protocol)
    if status is not None or protocol is not None:
        raise MisuseError("--status and --protocol say more about a file: add --explain FILE")
    if not timeout > 0:
        raise MisuseError("--timeout must be positive")
    if provider is None and base_url is None:
        if api_key_env is not None:
            raise MisuseError("--api-key-env belongs to one server: name its PROVIDER, or give --base-url")
        return _show_routes(trio.run(_probe_all, probe, timeout))
    name = provider or next(iter(PROVIDERS))
    known = PROVIDERS.get(name)
    if known is None:
        raise MisuseError(f"there is no provider {name!r}; known are {', '.join(PROVIDERS)}")
    key = api_key_env or (known.api_key_env if base_url is None else None)
    route = _route(name, known, base_url, key)
    return _show_models(trio.run(_asked, route, timeout) if probe else route, base_url is None)


def _route(name: str, provider: Provider, base_url: str | None, key: str | None) -> Probe:
    ready = key is None or bool(os.environ.get(key, "").strip())
    return Probe(name, base_url or provider.base_url, key, ready)


async def _probe_all(probe: bool, timeout: float) -> list[Probe]:
    found = [_route(name, provider, None, provider.api_key_env) for name, provider in PROVIDERS.items()]

    async def ask(number: int) -> None:
        found[number] = await _asked(found[number], timeout)

    if probe:
        async with trio.open_nursery() as nursery:
            for number, route in enumerate(found):
                if route.ready:
                    nursery.start_soon(ask, number)
    return found


async def _asked(route: Probe, timeout: float) -> Probe:
    """Ask a route's server which models it has."""
    failure = Failure(f"no answer within {timeout:g} s", Code.TIMEOUT.value)
    listed: tuple[str, ...] | None = None
    with trio.move_on_after(timeout):
        try:
            adapter = adapter_of(PROVIDERS[route.route])(route.address, api_key_env=route.key)
            async with adapter:
                listed = (await adapter.list_models())[:MAX_LISTED]
        except ModelFailure as error:
            failure = error.failure
    if listed is not None:
        return Probe(route.route, route.address, route.key, route.ready, listed)
    return Probe(route.route, route.address, route.key, route.ready, None, failure)


def _show_routes(found: Sequence[Probe]) -> int:
    rows = [(EMBEDDED, "in this process", "none needed", "answers; it echoes"), *[each.columns for each in found]]
    console = Console()
    if console.is_terminal:
        table = Table(box=None, pad_edge=False)
        for name in COLUMNS:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*[Text(column) for column in row])
        console.print(table)
    else:
        sys.stdout.writelines(["\t".join(row) + "\n" for row in rows])
    return Exit.FAILED if any([each.failure is not None for each in found]) else Exit.OK


def _show_models(route: Probe, usual: bool) -> int:
    """The models of one server, in the form that ``treadle run`` finds them again."""
    if route.failure is not None:
        sys.stderr.write(f"treadle: {route.answer}\n")
        advice = advice_for(route.failure)
        if advice is not None:
            sys.stderr.write(f"         {advice}\n")
        return Exit.FAILED
    if route.models is None:
        sys.stdout.write("\t".join(route.columns) + "\n")
    for name in route.models or ():
        sys.stdout.write(f"{route.route}/{one_line(name)}\n" if usual else f"{one_line(name)}\n")
    return Exit.OK


__all__ = ["models"]
