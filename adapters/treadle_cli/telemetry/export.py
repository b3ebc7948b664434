"""``treadle export otlp``: the spans of sessions, as a collector takes them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from treadle import MisuseError, TreadleError
from treadle_adapters.traces import Content, Family, OtlpWriter, replay

from ..exits import Exit
from ..extras import extra_for
from ..private import write_private
from .logs import damaged, read_all

PATH = "/v1/traces"
"""Where a collector takes spans over HTTP."""
PATIENCE = 30.0
"""Seconds in which it has to answer."""


class ExportRefused(TreadleError):
    """A collector did not take the spans."""

    code = "EXPORT_REFUSED"


def export_otlp(
    log: Annotated[list[str], Parameter(consume_multiple=True, negative=())],
    /,
    *,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    endpoint: str | None = None,
    header: Annotated[list[str] | None, Parameter(negative=())] = None,
    content: Annotated[bool, Parameter(negative=())] = False,
    name: str | None = None,
    service: str = "treadle",
) -> int:
    """Write the spans of sessions as OTLP, as if somebody had watched.

    They are those that `treadle_adapters.telemetry` makes of a live agent, with ids that follow from the log. As a file they
    are OTLP/JSON, one request per line, which a collector's `otlpjsonfile` receiver reads.

    Args:
        log: session files, or sessions in a database, as in `postgres://host/database#SESSION`. With the file of a parent beside it, a sub-agent's turn stands in the call that made it.
        out: the file to write; stdout unless given.
        endpoint: the address of a collector, as in `http://127.0.0.1:4318`: the spans are sent there instead.
        header: a header of these requests, as in `authorization=secret`; may be given several times.
        content: with what was said: messages, arguments, results.
        name: what the agent is called; its preset unless given.
        service: the name of the service.
    """
    if endpoint is not None and out is not None:
        raise MisuseError("give either --out or --endpoint")
    if header and endpoint is None:
        raise MisuseError("--header is for requests: give --endpoint with it")
    sessions = read_all(log)
    family = Family([(session.header, session.events) for session in sessions])
    lines: list[bytes] = []
    with ExitStack() as stack:
        write = _sender(stack, endpoint, _headers(header or [])) if endpoint is not None else lines.append
        writer = OtlpWriter(write, service)
        for session in sessions:
            replay(
                session.header,
                session.events,
                writer,
                content=Content() if content else None,
                agent_name=name,
                made_by=family.made_by(session.header),
            )
        writer.flush()
    text = b"".join([line + b"\n" for line in lines])
    if out is not None:
        write_private(out, text)
    elif endpoint is None:
        sys.stdout.buffer.write(text)
    if out is not None or endpoint is not None:
        told = (
            f"sent {writer.written:,} spans to {endpoint}" if endpoint else f"wrote {writer.written:,} spans to {out}"
        )
        sys.stderr.write(told + "\n")
    return Exit.FAILED if damaged(sessions) else Exit.OK


def _headers(given: list[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in given]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise MisuseError("--header takes name=value")
    return {name: value for name, _, value in pairs}


def _sender(stack: ExitStack, endpoint: str, headers: dict[str, str]) -> Callable[[bytes], object]:
    """What sends a request.

    Raises:
        MisuseError: the address cannot be used.
        ExportRefused: from the function, when the collector cannot be reached or does not take it.
    """
    with extra_for("sending spans needs", "models"):
        import httpx
    if not endpoint.startswith(("http://", "https://")):
        raise MisuseError("--endpoint must begin with http:// or https://")
    address = endpoint if endpoint.endswith(PATH) else endpoint.rstrip("/") + PATH
    client = stack.enter_context(httpx.Client(timeout=PATIENCE, headers=headers))

    def send(request: bytes) -> None:
        try:
            answer = client.post(address, content=request, headers={"Content-Type": "application/json"})
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ExportRefused(
                f"{address} cannot be reached ({type(error).__name__}): is a collector there?"
            ) from error
        if answer.status_code == 415:
            raise ExportRefused(
                f"{address} does not take OTLP as JSON: send it through a collector, see docs/telemetry.md"
            )
        if not answer.is_success:
            raise ExportRefused(f"{address} answered {answer.status_code}; what was sent before stays there")

    return send
