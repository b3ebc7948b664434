"""The reference of options, made of signatures and docstrings: what each is called, what it is unless given, what it means."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator

import msgspec
from attrs import NOTHING, frozen

from treadle_adapters.models import http_model

OPTIONS = {
    "Agents": ["treadle.Host", "treadle.AgentOptions", "treadle.open_agent", "treadle.subagent", "treadle.Tool"],
    "Requests": ["treadle.Retries", "treadle.models.RetryPolicy", "treadle.models.AnswerBounds"],
    "Models": [
        "treadle_adapters.models.http_model.HTTPOptions",
        "treadle_adapters.models.openai_chat.OpenAIChat",
        "treadle_adapters.models.openai_responses.OpenAIResponses",
        "treadle_adapters.models.anthropic.Anthropic",
        "treadle_adapters.models.deepseek.DeepSeek",
    ],
    "Stores": [
        "treadle_adapters.stores.jsonl.JsonlStore",
        "treadle_adapters.stores.sqlite.SqliteStore",
        "treadle_adapters.stores.postgres.PostgresStore",
        "treadle_adapters.cluster.Replica",
    ],
    "Long sessions": [
        "treadle.extensions.budgets.Limits",
        "treadle.extensions.budgets.Budgets",
        "treadle.extensions.compaction.Compaction",
        "treadle.extensions.compaction.ModelSummary",
        "treadle.extensions.usage.Price",
    ],
    "Tools from elsewhere": [
        "treadle_adapters.mcp.StdioServer",
        "treadle_adapters.mcp.HTTPServer",
        "treadle_adapters.mcp.Limits",
        "treadle_adapters.mcp.MCPTools",
        "treadle_adapters.tools.LocalTools",
    ],
    "The web": ["treadle_adapters.web.app", "treadle_adapters.web.Limits"],
    "Telemetry": ["treadle_adapters.telemetry.Telemetry", "treadle_adapters.telemetry.Content"],
    "Tests": ["treadle.testing.ScriptedModel", "treadle.testing.Answer", "treadle_specs.agents.check_agent"],
    "asyncio": ["treadle.asyncio.Bridge"],
}
"""What has options, by the title it stands under."""


@frozen
class Option:
    """One option.

    Attributes:
        name: as it is given.
        default: what it is unless given, as text; empty where it has to be given.
        meaning: the words of the docstring, units included.
    """

    name: str
    default: str
    meaning: str


def options_of(path: str) -> list[Option]:
    """The options of a class or function, in the order of its signature.

    Raises:
        LookupError: one of them is not documented.
    """
    module, _, name = path.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    words = documented(value)
    found: list[Option] = []
    for option, default in _parameters(value):
        if option not in words:
            raise LookupError(f"{path} does not say what its option {option} means")
        found.append(Option(option, default, words[option]))
    return found


def documented(value: object) -> dict[str, str]:
    """What docstrings say about attributes and arguments: those of a class and its bases, or of a function."""
    owners = [*reversed(value.__mro__)] if inspect.isclass(value) else [value]
    texts = [one for owner in owners for one in (_own(owner), _own(vars(owner).get("__init__")))]
    found: dict[str, str] = {}
    for text in texts:
        for section in re.findall(r"^(?:Attributes|Args):\n((?:(?:    .*)?\n?)*)", text, re.MULTILINE):
            for match in re.finditer(r"^    \*{0,2}(\w+): (.+(?:\n {8,}.+)*)", section, re.MULTILINE):
                found[match[1]] = " ".join(match[2].replace("``", "`").split())
    return found


def options() -> str:
    """All options, as sections below the page's title."""
    lines: list[str] = []
    for title, paths in OPTIONS.items():
        lines += [f"## {title}", ""]
        for path in paths:
            lines += [
                f"### `{path.rpartition('.')[2]}`",
                "",
                f"In `{path.rpartition('.')[0]}`.",
                "",
                *table(options_of(path)),
                "",
            ]
    return "\n".join(lines)


def configuration() -> str:
    """The tables of ``treadle.toml``, as sections below the page's title."""
    from treadle.host.config import _File

    lines: list[str] = []
    for field in msgspec.structs.fields(_File):
        kind = _struct_in(field.type)
        plain = kind is not None and field.type in (kind, kind | None)
        title = (
            f"[{field.name}]" if plain else f"[[{field.name}]]" if field.name == "agents" else f"[{field.name}.NAME]"
        )
        if kind is None:
            raise LookupError(f"the table {field.name} is no struct")
        words = documented(kind)
        about = " ".join(inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("``", "`").split())
        rows = [Option(one.encode_name, _shown(one), words[one.name]) for one in msgspec.structs.fields(kind)]
        lines += [f"## `{title}`", "", about, "", *table(rows), ""]
    return "\n".join(lines)


def table(rows: list[Option]) -> list[str]:
    """The lines of a table of options."""
    cells = [[f"`{row.name}`", f"`{row.default}`" if row.default else "–", row.meaning] for row in rows]
    return [
        "| name | unless given | meaning |",
        "| --- | --- | --- |",
        *["| " + " | ".join([cell.replace("|", "\\|") for cell in row]) + " |" for row in cells],
    ]


def _own(value: object) -> str:
    own = vars(value).get("__doc__") if inspect.isclass(value) else getattr(value, "__doc__", None)
    return inspect.cleandoc(own) if isinstance(own, str) else ""


def _parameters(value: object) -> Iterator[tuple[str, str]]:
    if typing.is_typeddict(
        value
    ):  # they are options of every adapter, and what they are unless given stands in its code
        known = {
            "stream_idle_timeout": str(http_model.STREAM_IDLE_TIMEOUT),
            "keep_alive_timeout": str(http_model.KEEP_ALIVE_TIMEOUT),
            "retry_policy": "RetryPolicy()",
            "extra_body": "{}",
        }
        yield from [(name, known.get(name, "None")) for name in value.__annotations__]
        return
    fields = {field.alias: field for field in getattr(value, "__attrs_attrs__", ())}
    for name, parameter in inspect.signature(value).parameters.items():  # type: ignore[arg-type]
        if parameter.kind is parameter.VAR_KEYWORD:
            continue  # those of another row, which the text names
        default = fields[name].default if name in fields else _value(parameter.default, value)
        yield name, "" if default is parameter.empty or default is NOTHING else _text(default)


def _value(default: object, owner: object) -> object:
    """A default itself, where Sphinx has put the words of the signature in its place."""
    if type(default).__name__ != "DefaultValue":
        return default
    function = inspect.unwrap(getattr(owner, "__init__", owner) if inspect.isclass(owner) else owner)  # type: ignore[arg-type]
    words = str(default)
    if words in function.__globals__:
        return function.__globals__[words]
    try:
        return ast.literal_eval(words)
    except ValueError:  # an expression: its words say more than its value
        return _Words(words)


class _Words(str):
    """Words that are shown without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _text(default: object) -> str:
    """A default as a reader would write it."""
    factory = getattr(default, "factory", None)
    if factory is not None:
        default = factory() if not getattr(default, "takes_self", False) else "…"
    if callable(default) and hasattr(default, "__name__"):
        return default.__name__
    text = repr(default)
    return f"{type(default).__name__}(…)" if " object at " in text or len(text) > 60 else text


def _shown(field: msgspec.structs.FieldInfo) -> str:
    default = field.default if field.default is not msgspec.NODEFAULT else None
    if default is None and field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    return "" if field.required else repr(default)


def _struct_in(kind: object) -> type[msgspec.Struct] | None:
    """The struct that a table's type holds, however it holds it."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for one in typing.get_args(kind) if (found := _struct_in(one))), None)
