"""The OpenAPI document, made from the table of operations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import msgspec

import treadle

from .api import SESSION, Operation
from .problems import Problem
from .shapes import ENCODER

STREAM = "The stream of a session as server-sent events. Resume with Last-Event-ID, or with the query's after."
SOCKET = 'Streams of many sessions over one WebSocket: say {"watch": SESSION, "after": PLACE}, {"unwatch": SESSION}.'


def document(table: Iterable[Operation]) -> bytes:
    """The document as JSON (OpenAPI 3.1)."""
    table = tuple(table)
    kinds = [Problem, *[kind for one in table for kind in (one.takes, one.gives) if kind not in (None, bytes)]]
    schemas, components = msgspec.json.schema_components(
        kinds, schema_hook=lambda _: {"type": "object"}, ref_template="#/components/schemas/{name}"
    )
    by_kind = dict(zip(map(repr, kinds), schemas, strict=True))
    wrong = {
        "description": "Refused, with a code.",
        "content": {"application/problem+json": {"schema": by_kind[repr(Problem)]}},
    }
    paths: dict[str, dict[str, Any]] = {}
    for one in table:
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one, by_kind, wrong)
    paths[SESSION + "/stream"] = {
        "get": {
            "operationId": "stream",
            "summary": STREAM,
            "parameters": [*_in_path(SESSION), _parameter("after", "query"), _parameter("Last-Event-ID", "header")],
            "responses": {
                "200": {"description": "The stream.", "content": {"text/event-stream": {}}},
                "default": wrong,
            },
        }
    }
    paths["/api/socket"] = {
        "get": {
            "operationId": "socket",
            "summary": SOCKET,
            "responses": {"101": {"description": "The socket."}, "default": wrong},
        }
    }
    return ENCODER.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "treadle", "version": treadle.__version__},
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{"token": []}],
        }
    )


def _described(one: Operation, by_kind: dict[str, Any], wrong: dict[str, Any]) -> dict[str, Any]:
    text = inspect.getdoc(one.run) or ""
    content = {one.media: {} if one.gives is bytes else {"schema": by_kind[repr(one.gives)]}}
    made: dict[str, Any] = {
        "operationId": getattr(one.run, "__name__", one.path),
        "summary": text.partition("\n")[0],
        "parameters": [*_in_path(one.path), *[_parameter(name, "query") for name in one.query]],
        "responses": {str(one.status): {"description": "Done.", "content": content}, "default": wrong},
    }
    if one.takes is not None:
        made["requestBody"] = {"content": {"application/json": {"schema": by_kind[repr(one.takes)]}}}
    return made


def _in_path(path: str) -> list[dict[str, Any]]:
    return [{**_parameter(name, "path"), "required": True} for name in re.findall(r"{(\w+)}", path)]


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {"type": "string"}}
