"""The format of the session log, written down from the classes that read and write it (S7, S8, P5).

python -m treadle_specs.reports.log_format --write      # docs/log-format.md
python -m treadle_specs.reports.log_format --check      # exit status 1 when the page is stale
"""

from __future__ import annotations

import re
import sys
import types
from typing import Any, Literal, Union, cast, get_args, get_origin

import msgspec

from treadle import Event, SessionHeader
from treadle.extensions.budgets import BudgetNearlySpent
from treadle.extensions.compaction import SummarySource
from treadle.extensions.usage import SubAgentUsage
from treadle.session import FORMAT_VERSION, Append, EventType, OpenSum, Replace, known_types
from treadle.session.codec import HEADER_TAG
from treadle.session.upgrade import FIRST_VERSION, STEPS

from ..logs.glossary import GLOSSARY, INTRODUCTION, VERSIONING
from .generated import Made, attributes, serve, summary

PAGE = "docs/log-format.md"
ENTERING = "How an event enters the history"
BROUGHT = (SummarySource,)
"""Members of structures that are registered when their extension is imported, as it is here."""
OF_EXTENSIONS = (BudgetNearlySpent, SubAgentUsage)
"""The events of the extensions that ship with the core."""
PLAIN: dict[object, str] = {str: "text", int: "integer", float: "number", bool: "boolean", Any: "any JSON"}


def document() -> str:
    """The whole document, as Markdown."""
    core = [known for known in known_types() if known.core]
    others = [known for data in OF_EXTENSIONS for known in known_types() if known.data is data]
    parts = [
        INTRODUCTION,
        "## The header\n\n" + _about(SessionHeader) + _header_table(),
        "## The envelope of an event\n\n" + _about(Event) + _fields(Event),
        f"### {ENTERING}\n\n" + _members((Append, Replace), "kind"),
        "## Event types\n\n" + _overview(core),
        *[_event(known) for known in core],
        "## Event types of extensions\n\nWhoever does not know them skips them: they are ignorable (S2).",
        *[_event(known) for known in others],
        "## Structures\n",
        *[_structure(kind) for kind in _reached([known.data for known in [*core, *others]])],
        VERSIONING.format(first=FIRST_VERSION, current=FORMAT_VERSION, steps=_steps()),
    ]
    return "\n\n".join([part.strip() for part in parts]) + "\n"


# --- parts ------------------------------------------------------------------------------------------------------------


def _overview(core: list[EventType]) -> str:
    rows = [
        f"| [`{known.tag}`](#{_anchor(known.tag)}) | {known.since} | {'yes' if known.surface else ''} "
        f"| {summary(known.data)} |"
        for known in core
    ]
    return "\n".join(["| type | since | surface | meaning |", "| --- | --- | --- | --- |", *rows])


def _event(known: EventType) -> str:
    surface = "an event of the surface" if known.surface else "not of the surface"
    return f"### `{known.tag}`\n\n{summary(known.data)} Since format {known.since}; {surface}.\n\n{_fields(known.data)}"


def _structure(kind: type) -> str:
    family = OpenSum.of(kind)
    if family is None:
        return f"### {_title(kind)}\n\n{_about(kind)}{_fields(kind)}"
    unknown = f"A member whose `{family.tag_field}` is unknown is kept as it is."
    return f"### {_title(kind)}\n\n{summary(kind)} {unknown}\n\n{_members(_own(family), family.tag_field)}"


def _own(family: OpenSum[Any]) -> tuple[type, ...]:
    """The members that treadle brings; others may have registered more in this process."""
    return tuple([member for member in family.members if member.__module__.startswith("treadle.")])


def _members(kinds: tuple[type, ...], tag_field: str) -> str:
    parts: list[str] = []
    for kind in kinds:
        table = _fields(kind)
        parts.append(f"`{tag_field}: {_config(kind).tag!s}`: {summary(kind)}" + (f"\n\n{table}" if table else ""))
    return "\n\n".join(parts)


def _header_table() -> str:
    first = [
        f'| `type` | `"{HEADER_TAG}"` | | what the line is |',
        "| `formatVersion` | integer | | the format of the log (P5) |",
    ]
    head, rule, *rows = _fields(SessionHeader).splitlines()
    rows = [row for row in rows if not row.startswith("| `formatVersion`")]
    return "\n".join([head, rule, *first, *rows])


def _fields(kind: type) -> str:
    rows: list[str] = []
    told = attributes(kind)
    for each in msgspec.structs.fields(kind):
        default = "" if each.required or each.default is msgspec.UNSET else f"`{_default(each)}`"
        said = told.get(each.name) or GLOSSARY.get(f"{kind.__name__}.{each.name}") or GLOSSARY.get(each.name, "")
        rows.append(f"| `{each.encode_name}` | {_type(each.type)} | {default} | {said.rstrip('.')} |")
    return "\n".join(["| key | holds | if left out | meaning |", "| --- | --- | --- | --- |", *rows]) if rows else ""


def undescribed() -> list[str]:
    """Fields that the document says nothing about; a test holds that there are none."""
    text = document()
    return re.findall(r"^\| `\w+` \|.*\|  \|$", text, re.MULTILINE)


def _default(each: Any) -> str:
    value = each.default if each.default is not msgspec.NODEFAULT else each.default_factory()
    return msgspec.json.encode(value, enc_hook=lambda _: None).decode()


def _steps() -> str:
    rows = [f"| {version} | {version + 1} |" for version in sorted(STEPS)]
    return (
        "\n".join(["| from | to |", "| --- | --- |", *rows])
        if rows
        else "There is no step yet: this is the first format."
    )


# --- types and docstrings ---------------------------------------------------------------------------------------------


def _type(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Literal:
        return " or ".join([f'`"{value}"`' for value in get_args(kind)])
    if origin in (Union, types.UnionType):
        parts = [_type(each) for each in get_args(kind) if each not in (type(None), msgspec.UnsetType)]
        return " or ".join(parts) + (" or null" if type(None) in get_args(kind) else "")
    if origin in (tuple, list):
        inner = [each for each in get_args(kind) if each is not Ellipsis]
        return f"list of {_type(inner[0])}"
    if origin is dict or kind is dict:
        return "object"
    if kind in PLAIN:
        return PLAIN[kind]
    if kind in (Append, Replace):
        return f"[{kind.__name__.lower()}](#{_anchor(ENTERING)})"
    return f"[{_title(kind)}](#{_anchor(_title(kind))})"


def _reached(kinds: list[type]) -> list[type]:
    """Every structure and family that the fields of some classes lead to, in the order in which they are met."""
    found: dict[type, None] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop(0)
        family = OpenSum.of(kind)
        members = _own(family) if family is not None else (kind,)
        for member in members:
            for each in msgspec.structs.fields(member):
                for inner in _leaves(each.type):
                    if inner not in found:
                        found[inner] = None
                        waiting.append(inner)
    return list(found)


def _leaves(kind: Any) -> list[type]:
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return []
    if arguments:
        return [leaf for each in arguments for leaf in _leaves(each)]
    known = isinstance(kind, type) and (hasattr(kind, "__struct_config__") or OpenSum.of(kind) is not None)
    return [cast("type", kind)] if known else []


def _config(kind: type) -> Any:
    return getattr(kind, "__struct_config__")  # noqa: B009  # msgspec's structs have it, their types do not say so


def _title(kind: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")


def _about(kind: type) -> str:
    return summary(kind) + "\n\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the document, or check that it is up to date; returns the exit status."""
    return serve("treadle_specs.reports.log_format", PAGE, lambda _: Made(document()), arguments)


if __name__ == "__main__":
    sys.exit(main())
