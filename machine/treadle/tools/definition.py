"""What a tool is: its definition, what it is given, and what it may return (K1)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

import msgspec
from attrs import field, frozen

from ..errors import MisuseError
from ..lossless import MAX_PART_BYTES
from ..words.call_config import ToolSchema
from ..words.messages import Block, ToolCall, UserMessage
from ..words.signal import Signal
from .offer import check_naming, parameters_of
from .schema import Checker, schema_of, signature_struct

if TYPE_CHECKING:
    from ..agent.agent import Agent

LARGEST_RESULT = MAX_PART_BYTES // 2
"""The largest ``max_result_bytes``: with its value beside it a result still fits into an event (X3)."""

MAX_RESULT_BYTES = 256 * 1024
"""How much of a result the model reads unless told otherwise (K9)."""


class ToolRun(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """What a running tool is given beside its arguments.

    Attributes:
        agent: the agent that runs it.
        call: the call as the model made it.
        turn: number of the open turn.
        step: number of the open step.
        signal: tells when the turn is cancelled; the tool's scope is cancelled as well.
    """

    agent: Agent
    call: ToolCall
    turn: int
    step: int
    signal: Signal


@frozen(eq=False)
class ToolOutput:
    """What a tool returns when a plain value does not say enough.

    Attributes:
        content: text, blocks, or ``None`` to have the value shown.
        is_error: whether the call failed.
        code: the kind of failure.
        value: the structured value, for programs; made plain JSON as whatever a tool returns is (K9).
        concludes_turn: asks to end the turn here (T5); of no effect on an error.
        contexts: messages handed over beside the result, each with its identity (K11).
    """

    content: str | tuple[Block, ...] | None = None
    is_error: bool = False
    code: str | None = None
    value: Any = None
    concludes_turn: bool = False
    contexts: tuple[UserMessage, ...] = field(default=(), converter=tuple)


@frozen(eq=False)
class Tool:
    """A registered tool.

    Only name, description and parameters reach the model (K1).

    Attributes:
        name: what the model calls it.
        description: what the model is told.
        parameters: JSON schema of the arguments, an object; a copy is kept, rewritten into JSON Schema 2020-12 where it is
            of an older draft or of OpenAPI.
        execute: ``execute(arguments, run)``, sync or async. A sync one runs in a worker thread (K8).
        output_schema: JSON schema that the returned value must fit.
        render: turns the value, as it was returned, into what the model reads.
        final_content: last word on the content, after all hooks.
        timeout: seconds the body may take; then it is cancelled and the result is a timeout. A sync one cannot be
            interrupted: its thread is waited for, and what it returned too late is dropped, unless it is
            ``abandon_on_cancel``, which ends the call at once.
        parallel: ``True``, or a function of the arguments that answers ``True``, lets calls overlap; anything else
            runs alone (K4).
        present_call: renders a call for people (K11).
        present_result: renders a result for people (K11).
        abandon_on_cancel: a worker thread that was cancelled or ran out of time is not waited for; its late result is
            dropped (C10).
        max_result_bytes: how much of the result the model reads (K9).
    """

    name: str
    description: str
    parameters: dict[str, Any]
    execute: Callable[[dict[str, Any], ToolRun], Any]
    output_schema: dict[str, Any] | None = None
    render: Callable[[Any], str | tuple[Block, ...]] | None = None
    final_content: Callable[[tuple[Block, ...]], tuple[Block, ...]] | None = None
    timeout: float | None = None
    parallel: bool | Callable[[dict[str, Any]], Any] = False
    present_call: Callable[[ToolCall], str] | None = None
    present_result: Callable[[tuple[Block, ...]], str] | None = None
    abandon_on_cancel: bool = False
    max_result_bytes: int = MAX_RESULT_BYTES
    arguments: Checker = field(init=False, repr=False)
    output: Checker | None = field(init=False, repr=False)
    schema: ToolSchema = field(init=False, repr=False)
    is_async: bool = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        _check_fields(self)
        put = object.__setattr__
        checker = parameters_of(self.parameters, self.name)
        put(self, "parameters", checker.schema)
        put(self, "arguments", checker)
        output = self.output_schema
        put(self, "output", Checker(output, f"the output of tool {self.name!r}") if output is not None else None)
        put(self, "schema", ToolSchema(self.name, self.description, self.parameters))
        put(self, "is_async", any(map(inspect.iscoroutinefunction, (self.execute, type(self.execute).__call__))))


def _check_fields(tool: Tool) -> None:
    check_naming(tool.name, tool.description)
    name = tool.name
    if not callable(tool.execute):
        raise MisuseError(f"tool {name!r} needs a function to execute (K1)")
    if tool.timeout is not None and not tool.timeout > 0:
        raise MisuseError(f"tool {name!r}: timeout must be positive seconds, not {tool.timeout!r} (K1)")
    if type(tool.max_result_bytes) is not int or not 256 <= tool.max_result_bytes <= LARGEST_RESULT:
        raise MisuseError(f"tool {name!r}: max_result_bytes must be a whole number from 256 to {LARGEST_RESULT} (K9)")
    for option in ("render", "final_content", "present_call", "present_result"):
        function = getattr(tool, option)
        if function is not None and not callable(function):
            raise MisuseError(f"tool {name!r}: {option} must be a function (K1)")


@overload
def tool(function: Callable[..., Any]) -> Tool: ...
@overload
def tool(function: None = None, **options: Any) -> Callable[[Callable[..., Any]], Tool]: ...
@overload
def tool(function: Callable[..., Any] | None, **options: Any) -> Any: ...
def tool(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a ``Tool`` of a function; usable as a decorator, with or without options.

    The parameters' schema comes from the type hints unless ``parameters`` is given; a parameter named ``run`` gets
    the ``ToolRun``. Name and description come from the function and its docstring unless given.

    It may return text, blocks, a ``ToolOutput``, or any value that has a plain form as JSON: beside what JSON has itself
    dataclasses, attrs classes, structs, pydantic models, mappings, sequences, sets, dates and times, UUIDs, decimals,
    paths, enums, and bytes, which become base64. What has none gives an error result that names it and its place (K9).

    Args:
        function: sync or async; arguments are passed by keyword.
        **options: any field of ``Tool`` but ``execute``.

    Raises:
        MisuseError: the hints cannot be expressed in JSON, or an option is wrong.
    """
    if function is None:

        def decorate(given: Callable[..., Any]) -> Tool:
            return tool(given, **options)

        return decorate
    takes_run = "run" in inspect.signature(function).parameters
    name = options.pop("name", function.__name__)
    description = options.pop("description", inspect.getdoc(function) or name)
    parameters = options.pop("parameters", None)
    struct = None
    if parameters is None:
        struct = signature_struct(function, "run" if takes_run else None)
        parameters = schema_of(struct)
    execute = _adapter(function, struct, takes_run)
    return Tool(name=name, description=description, parameters=parameters, execute=execute, **options)


def _adapter(
    function: Callable[..., Any], struct: type[msgspec.Struct] | None, takes_run: bool
) -> Callable[[dict[str, Any], ToolRun], Any]:
    """Call ``function`` by keyword, its arguments converted to its types."""

    def keywords(arguments: dict[str, Any], run: ToolRun) -> dict[str, Any]:
        given = arguments
        if struct is not None:
            converted = msgspec.convert(arguments, struct)
            given = {name: getattr(converted, name) for name in struct.__struct_fields__}
        return {**given, "run": run} if takes_run else given

    if inspect.iscoroutinefunction(function):

        async def execute_async(arguments: dict[str, Any], run: ToolRun) -> Any:
            return await function(**keywords(arguments, run))

        return execute_async

    def execute_sync(arguments: dict[str, Any], run: ToolRun) -> Any:
        return function(**keywords(arguments, run))

    return execute_sync
