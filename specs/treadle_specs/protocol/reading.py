"""One line of a rig, read as the reply to one request."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, cast

import jsonschema_rs

from .fault import Json, RigFault, shown

SCHEMA = Path(__file__).parents[1] / "rig-protocol.schema.json"
"""What a rig may answer, for rigs to be checked in their own language."""
ONE_LINE = (
    "each request gets exactly one reply: one JSON object on one line of stdout, and nothing else; logs go to stderr"
)
SAME_ID = "a reply carries the id of its request"


@cache
def schema() -> Json:
    """The schema of replies, as it is shipped."""
    return cast("Json", json.loads(SCHEMA.read_text(encoding="utf-8")))


@cache
def _validator(definition: str | None) -> Any:
    return jsonschema_rs.validator_for(_part(definition))


def _part(definition: str | None) -> Json:
    whole = schema()
    return whole if definition is None else {**whole["$defs"][definition], "$defs": whole["$defs"]}


def read_reply(line: bytes, request: Json) -> Json:
    """The reply that a line holds.

    Args:
        line: as the rig wrote it.
        request: with the id that was sent.

    Raises:
        RigFault: it is none, or not one that the protocol has for this request.
    """
    reply = _object(line, request)
    told = shown(line.decode("utf-8", "replace").strip())
    _hold(None, reply, request, told)
    number, asked = reply["id"], request["id"]
    if type(number) is not int or number != asked:
        _fail(_other_id(number, asked), SAME_ID, request, told)
    if reply["ok"] and request["do"] in schema()["$defs"]:
        _hold(request["do"], reply, request, told)
    return reply


def _other_id(number: Any, asked: int) -> str:
    if number == asked - 1:
        return f"a second reply to request {number}, where the one to request {asked} is due"
    return f"the reply has the id {json.dumps(number)}, and the request has {asked}"


def _object(line: bytes, request: Json) -> Json:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        _fail("the reply is not UTF-8", ONE_LINE, request, shown(line.decode("utf-8", "replace")))
    if not text.strip():
        _fail("an empty line, and no reply", ONE_LINE, request, "")
    try:
        reply: Any = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        _fail(f"the line is no JSON: {why}", ONE_LINE, request, shown(text.strip()))
    if not isinstance(reply, dict):
        _fail(f"the reply is {_kind(reply)}, and no object", ONE_LINE, request, shown(text.strip()))
    return cast("Json", reply)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _kind(value: Any) -> str:
    for kind, name in (
        (list, "a list"),
        (str, "a text"),
        (bool, "true or false"),
        (int, "a number"),
        (float, "a number"),
    ):
        if isinstance(value, kind):
            return name
    return "null"


def _hold(definition: str | None, reply: Json, request: Json, told: str) -> None:
    error = next(iter(_validator(definition).iter_errors(reply)), None)
    if error is None:
        return
    where = "".join([f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path])
    what = f"{where.removeprefix('.') or 'the reply'}: {shown(error.message)}"
    _fail(what, _description(_part(definition), error.schema_path), request, told)


def _description(place: Any, path: list[Any]) -> str:
    """What the schema says at a place, or nearest above it."""
    found = _told_at(place)
    for step in path:
        place = place[step]
        found = _told_at(place) or found
    return found


def _told_at(place: Any) -> str:
    return cast("Json", place).get("description", "") if isinstance(place, dict) else ""


def _fail(what: str, says: str, request: Json, reply: str) -> NoReturn:
    raise RigFault(what, says, request=request, reply=reply)
