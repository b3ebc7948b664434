"""What code gives as a value becomes plain JSON by one conversion, or an honest failure (contract §11 K9, §12 S1)."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import io
import math
import pathlib
import types
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stage import Stage, stage
from treadle import Answer, Call, Text, ToolOutput, tool
from treadle.errors import InvalidData
from treadle.hooks import TOOLS_EXECUTE, TOOLS_POST_EXECUTE, TOOLS_PRE_EXECUTE, AllowCall, ReplaceResult
from treadle.session import ToolResultAdded, decode_event, encode_event
from treadle.tools import plain as plain_module
from treadle.tools.plain import plain

WHEN = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


@dataclasses.dataclass
class Record:
    a: Any = 1
    _b: Any = 2


@attrs.define
class Shape:
    a: Any = 1
    _b: Any = 2


class Bare(msgspec.Struct):
    a: Any = 1
    b: Any = 2


class Tagged(msgspec.Struct, tag="tagged", rename="camel"):
    first_name: Any = 1
    left_out: Any = msgspec.UNSET


class Row(msgspec.Struct, array_like=True):
    a: Any = 1
    b: Any = 2


class Pair(NamedTuple):
    a: Any = 1
    b: Any = 2


class Model(pydantic.BaseModel):
    when: dt.datetime
    price: decimal.Decimal
    more: dict[str, Any] = {}


class Root(pydantic.RootModel[list[int]]):
    pass


class Color(enum.Enum):
    RED = "red"
    POINT = (1, 2)


class Level(enum.IntEnum):
    HIGH = 3


class Name(enum.StrEnum):
    LONG = "long"


class Later(dt.datetime):
    """As other libraries have them."""


class Price(decimal.Decimal):
    pass


class Span(dt.timedelta):
    pass


class Raw(bytes):
    pass


class Ratio(float):
    pass


class Count(int):
    pass


class Word(str):
    __slots__ = ()


BECOMES: dict[str, tuple[Any, Any]] = {
    "a dataclass": (Record(), {"a": 1, "_b": 2}),
    "an attrs class": (Shape(), {"a": 1, "_b": 2}),
    "a struct": (Bare(), {"a": 1, "b": 2}),
    "a tagged struct": (Tagged(), {"type": "tagged", "firstName": 1}),
    "a struct like an array": (Row(), [1, 2]),
    "a named tuple": (Pair(), [1, 2]),
    "a pydantic model": (
        Model(when=WHEN, price=decimal.Decimal("1.10"), more={"on": dt.date(2026, 1, 2)}),
        {"when": "2026-01-02T03:04:05Z", "price": "1.10", "more": {"on": "2026-01-02"}},
    ),
    "a pydantic root model": (Root([1, 2]), [1, 2]),
    "a datetime": (WHEN, "2026-01-02T03:04:05Z"),
    "a naive datetime": (dt.datetime(2026, 1, 2), "2026-01-02T00:00:00"),  # noqa: DTZ001
    "a datetime of another library": (Later(2026, 1, 2, tzinfo=dt.UTC), "2026-01-02T00:00:00+00:00"),
    "a date": (dt.date(2026, 1, 2), "2026-01-02"),
    "a time": (dt.time(3, 4), "03:04:00"),
    "a timedelta": (dt.timedelta(minutes=2), "PT120S"),
    "a timedelta of another library": (Span(minutes=2), "PT120S"),
    "a Decimal": (decimal.Decimal("1.10"), "1.10"),
    "a Decimal beyond every float": (
        decimal.Decimal("12345678901234567890.123456789"),
        "12345678901234567890.123456789",
    ),
    "a Decimal of another library": (Price("1.10"), "1.10"),
    "a UUID": (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "a Path": (pathlib.PurePosixPath("/a/b"), "/a/b"),
    "bytes": (b"\xffhi", "/2hp"),
    "a bytearray": (bytearray(b"hi"), "aGk="),
    "a memoryview": (memoryview(b"hxix")[::2], "aGk="),
    "bytes of another library": (Raw(b"hi"), "aGk="),
    "an enum": (Color.RED, "red"),
    "an enum of a tuple": (Color.POINT, [1, 2]),
    "an enum of numbers": (Level.HIGH, 3),
    "an enum of text": (Name.LONG, "long"),
    "a float of another library": (Ratio(1.5), 1.5),
    "a number of another library": (Count(7), 7),
    "text of another library": ([Word("w")], ["w"]),
    "a set": ({3, 1, 2}, [1, 2, 3]),
    "a set of many kinds": ({"b", 1, None, ("a",)}, ["b", 1, ["a"], None]),
    "a frozenset": (frozenset("ba"), ["a", "b"]),
    "an ordered dict": (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    "a counter": (collections.Counter("aab"), {"a": 2, "b": 1}),
    "a read-only mapping": (types.MappingProxyType({"a": 1}), {"a": 1}),
    "a deque": (collections.deque([1, 2]), [1, 2]),
    "a range": (range(3), [0, 1, 2]),
    "keys of a mapping": ({"b": 1, "a": 2}.keys(), ["a", "b"]),
    "values of a mapping": ({"b": 1, "a": 2}.values(), [1, 2]),
    "keys that become text": (
        {dt.date(2026, 1, 2): 1, Color.RED: 2, Word("w"): 3},
        {"2026-01-02": 1, "red": 2, "w": 3},
    ),
    "an integer beyond a double": (2**53 + 1, 2**53 + 1),
    "the largest integer": (2**63 - 1, 2**63 - 1),
}
"""Values, and the JSON that each becomes."""


class Silent:
    """An object without fields."""


class Torn:
    """Looks like a pydantic model, and cannot be read."""

    def model_dump(self, **options: Any) -> Any:
        raise LookupError("no value for it")


@dataclasses.dataclass
class Half:
    a: int = dataclasses.field(init=False)


def cycle() -> Any:
    record = Record()
    record.a = [{"back": record}]
    return record


def bomb() -> Any:
    """Few objects, each in the next one ten times: 10**30 values in all."""
    value: Any = ["x"]
    for _ in range(30):
        value = [value] * 10
    return value


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = Record(value)
    return value


async def coroutine() -> None:
    pass


REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "an open file": (lambda: io.StringIO("x"), "", "_io.StringIO is not JSON (S1): read it"),
    "a generator": (lambda: (x for x in "ab"), "", "generator is not JSON (S1): collect it into a list"),
    "an iterator": (lambda: iter([1]), "", "list_iterator is not JSON (S1): collect it into a list"),
    "a function": (lambda: print, "", "builtin_function_or_method is not JSON (S1): give its name"),
    "a class": (lambda: Record, "", "type is not JSON (S1): give its name"),
    "an object": (Silent, "", "Silent is not JSON (S1): use text"),
    "a complex number": (lambda: 1j, "", "complex is not JSON (S1): use text"),
    "an object that cannot be read": (Torn, "", "cannot be read: LookupError"),
    "an object of which a field is missing": (Half, "", "cannot be read: AttributeError"),
    "a cycle": (cycle, ".a[0].back", "contains itself (S1)"),
    "NaN": (lambda: math.nan, "", "nan is not JSON"),
    "NaN of another library": (lambda: Ratio("nan"), "", "nan is not JSON"),
    "an infinity": (lambda: -math.inf, "", "-inf is not JSON"),
    "an integer beyond 64 bits": (lambda: Count(2**64), "", "integer beyond 64 bits; send it as text"),
    "text that UTF-8 cannot carry": (lambda: "\ud800", "", "lone surrogate"),
    "a path of undecodable bytes": (lambda: pathlib.PurePosixPath("caf\udce9"), "", "byte 0xe9"),
    "a key that is a number": (lambda: {1: "a"}, ".(a key)", "key 1 is not text (S1): make it text"),
    "a key that is a tuple": (lambda: {(1, 2): "a"}, ".(a key)", "key [1, 2] is not text"),
    "a key that is an object": (lambda: {Silent(): 1}, ".(a key)", "Silent is not JSON"),
    "a key that UTF-8 cannot carry": (lambda: {"\ud800": 1}, ".\ud800", "lone surrogate"),
    "two keys that become one": (lambda: {Color.RED: 1, "red": 2}, ".red", "one of the two would be lost"),
    "a block among values": (lambda: {"text": Text("x")}, ".text", "Text is no value (K9)"),
    "an output among values": (lambda: [ToolOutput("x")], "[0]", "ToolOutput is no value (K9)"),
    "nesting beyond the bound": (lambda: deep(300), ".a.a.a", "nested deeper than 200 levels (X3)"),
    "nesting beyond the stack": (lambda: deep(100_000), ".a.a.a", "nested deeper than 200 levels (X3)"),
    "more values than there is memory for": (bomb, "[0][0]", "more than 200000 values in one result (X3)"),
    "more text than is recorded": (lambda: ["x" * 1_000_000] * 100, "[67]", "more than the 67,108,864"),
    "more bytes than are recorded": (lambda: [b"x" * 1_000_000] * 100, "[28]", "more than the 67,108,864"),
}
"""What gives values that JSON cannot hold, with the place and what is said of it."""


# --- the conversion ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("K9", "S1")
@pytest.mark.parametrize("kind", BECOMES)
def test_a_value_becomes_the_json_that_stands_for_it_wherever_it_is(kind: str) -> None:
    value, made = BECOMES[kind]
    assert plain(value) == made
    assert type(plain(value)) is type(made)
    assert plain({"in": [Record(value)]}) == {"in": [{"a": made, "_b": 2}]}
    assert msgspec.json.decode(msgspec.json.encode(plain(value))) == made


PARAMETERS = [
    dt.datetime,
    dt.date,
    dt.time,
    dt.timedelta,
    decimal.Decimal,
    uuid.UUID,
    bytes,
    set,
    Level,
    Name,
    Bare,
    Pair,
]


@pytest.mark.rule("K9", "K1")
@pytest.mark.parametrize("kind", PARAMETERS)
def test_what_a_value_becomes_is_what_a_parameter_of_its_type_takes(kind: Any) -> None:
    value = next(value for value, _ in BECOMES.values() if type(value) is kind)
    assert msgspec.convert(plain(value), kind) == value


@pytest.mark.rule("S1", "N5")
def test_what_a_value_becomes_is_nobody_elses() -> None:
    shared = [1]
    made = plain({"a": shared, "b": shared})
    shared.append(2)
    made["a"].append(3)
    assert made == {"a": [1, 3], "b": [1]}


@pytest.mark.rule("K9", "S1", "X3")
@pytest.mark.parametrize("kind", REFUSED)
async def test_what_json_cannot_hold_is_a_failure_that_names_tool_type_and_place_and_the_turn_goes_on(
    kind: str,
) -> None:
    make, place, words = REFUSED[kind]

    @tool
    async def one() -> Any:
        return {"deep": [Record(make())]}

    async with stage(Answer(calls=[Call("one")]), "went on", tools=[one]) as s:
        await s.ask("a")
        told = s.results()["call_1"]
        assert s.facts(ToolResultAdded)[0].code == "INVALID_OUTPUT"
        assert told.startswith(
            f"tool 'one' ran, but its output cannot be shown: $.deep[0].a{place}".replace("\ud800", "\ufffd")
        )
        assert words in told
        assert told.endswith("It may have taken effect.")
        assert len(told) < 2_000
        assert s.ends == ["completed"]
        assert s.agent.session.history()[-1].text == "went on"


@pytest.mark.rule("K9", "X3")
def test_a_value_of_as_many_parts_as_it_may_have_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_module, "MAX_NODES", 11)
    assert plain(list(range(10))) == list(range(10))
    with pytest.raises(InvalidData, match="more than 11 values"):
        plain(list(range(11)))


@pytest.mark.rule("K9")
async def test_a_block_alone_is_content() -> None:
    @tool
    async def one() -> Any:
        return Text("alone")

    async with stage(Answer(calls=[Call("one")]), tools=[one]) as s:
        await s.ask("a")
        assert s.results() == {"call_1": "alone"}


# --- any nesting ------------------------------------------------------------------------------------------------------

Paired = tuple[Any, Any]
"""A value, and the JSON that it becomes."""

LEAVES: st.SearchStrategy[Paired] = st.one_of(
    st.sampled_from([BECOMES[kind] for kind in BECOMES if not isinstance(BECOMES[kind][0], range)]),
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
    ).map(lambda value: (value, value)),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(lambda value: (value, value)),
    st.datetimes().map(lambda value: (value, value.isoformat())),
    st.dates().map(lambda value: (value, value.isoformat())),
    st.uuids().map(lambda value: (value, str(value))),
    st.decimals().map(lambda value: (value, str(value))),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def nested(inner: st.SearchStrategy[Paired]) -> st.SearchStrategy[Paired]:
    """Each kind of holder, around two or any number of values."""

    def two(make: Callable[[Any, Any], Any], expect: Callable[[Any, Any], Any]) -> st.SearchStrategy[Paired]:
        return st.tuples(inner, inner).map(
            lambda pairs: (make(pairs[0][0], pairs[1][0]), expect(pairs[0][1], pairs[1][1]))
        )

    many = st.lists(inner, max_size=4)
    named = st.dictionaries(NAMES, inner, max_size=4)
    return st.one_of(
        many.map(lambda pairs: ([value for value, _ in pairs], [made for _, made in pairs])),
        many.map(lambda pairs: (tuple([value for value, _ in pairs]), [made for _, made in pairs])),
        many.map(lambda pairs: (collections.deque([value for value, _ in pairs]), [made for _, made in pairs])),
        st.sets(NAMES, max_size=4).map(lambda names: (names, sorted(names))),
        st.frozensets(st.integers(-9, 9), max_size=4).map(lambda numbers: (numbers, sorted(numbers))),
        named.map(
            lambda pairs: (
                {name: pair[0] for name, pair in pairs.items()},
                {name: pair[1] for name, pair in pairs.items()},
            )
        ),
        two(Record, lambda a, b: {"a": a, "_b": b}),
        two(Shape, lambda a, b: {"a": a, "_b": b}),
        two(Bare, lambda a, b: {"a": a, "b": b}),
        two(Tagged, lambda a, b: {"type": "tagged", "firstName": a, "leftOut": b}),
        two(Row, lambda a, b: [a, b]),
        two(Pair, lambda a, b: [a, b]),
    )


PAIRED = st.recursive(LEAVES, nested, max_leaves=12)
Broken = tuple[Any, str]
"""A value that holds something that JSON cannot, and where."""


def around(inner: st.SearchStrategy[Broken]) -> st.SearchStrategy[Broken]:
    """Each kind of holder, around a value that is broken and one that is not."""

    def beside(make: Callable[[Any, Any], Any], place: str) -> st.SearchStrategy[Broken]:
        return st.tuples(inner, LEAVES).map(lambda both: (make(both[0][0], both[1][0]), place + both[0][1]))

    return st.one_of(
        beside(lambda bad, good: [good, bad], "[1]"),
        beside(lambda bad, good: (bad, good), "[0]"),
        beside(lambda bad, good: {"good": good, "bad": bad}, ".bad"),
        beside(Record, ".a"),
        beside(lambda bad, good: Shape(good, bad), "._b"),
        beside(lambda bad, good: Bare(good, bad), ".b"),
        beside(Tagged, ".firstName"),
        beside(lambda bad, good: Row(good, bad), "[1]"),
        beside(Pair, "[0]"),
    )


BROKEN = st.recursive(st.builds(Silent).map(lambda value: (value, "")), around, max_leaves=8)


@pytest.mark.rule("K9", "S1")
@settings(max_examples=200)
@given(PAIRED)
def test_any_nesting_of_these_kinds_becomes_json_that_reads_back_as_it_is(pair: Paired) -> None:
    value, made = pair
    found = plain(value)
    assert found == made
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


@pytest.mark.rule("K9", "S1")
@settings(max_examples=200)
@given(BROKEN)
def test_wherever_json_cannot_hold_something_the_place_is_named(broken: Broken) -> None:
    value, place = broken
    with pytest.raises(InvalidData) as caught:
        plain(value)
    assert caught.value.path == f"${place}"
    assert "Silent is not JSON" in str(caught.value)


# --- the doors --------------------------------------------------------------------------------------------------------

GIVEN = {"at": WHEN, "of": [Record(decimal.Decimal("1.10"), {Color.RED})], "where": pathlib.PurePosixPath("/x")}
MADE = {"at": "2026-01-02T03:04:05Z", "of": [{"a": "1.10", "_b": ["red"]}], "where": "/x"}
SHOWN = msgspec.json.encode(MADE).decode()


def returning(s: Stage, make: Callable[[Any], Any], **options: Any) -> None:
    async def work() -> Any:
        return make(GIVEN)

    s.agent.tools.register(tool(work, **options))


def replacing(s: Stage, point: Any, make: Callable[[Any], Any]) -> None:
    returning(s, lambda _: "its own")
    s.agent.scope.on(point, lambda payload, follow: make(GIVEN))


DOORS: dict[str, tuple[Callable[[Stage], object], str, Any]] = {
    "what a tool returns": (lambda s: returning(s, lambda v: v), SHOWN, None),
    "what a tool returns that declares its output": (
        lambda s: returning(s, lambda v: v, output_schema={"type": "object", "properties": {"at": {"type": "string"}}}),
        SHOWN,
        MADE,
    ),
    "the value of an output": (lambda s: returning(s, lambda v: ToolOutput("said", value=v)), "said", MADE),
    "the value of an output that is shown": (lambda s: returning(s, lambda v: ToolOutput(value=v)), SHOWN, MADE),
    "the value of a failure": (lambda s: returning(s, lambda v: ToolOutput("no", is_error=True, value=v)), "no", MADE),
    "a replaced execution": (lambda s: replacing(s, TOOLS_EXECUTE, lambda v: v), SHOWN, None),
    "a replaced value": (lambda s: replacing(s, TOOLS_POST_EXECUTE, lambda v: ReplaceResult(None, v)), SHOWN, None),
    "a replaced value beside content": (
        lambda s: replacing(s, TOOLS_POST_EXECUTE, lambda v: ReplaceResult((Text("said"),), v)),
        "said",
        MADE,
    ),
    "a renderer, which gets what was returned": (
        lambda s: returning(s, lambda v: v, render=lambda v: str(v["at"].year)),
        "2026",
        None,
    ),
}
"""Where code gives a value for a result: how it comes in, what the model reads, and what is recorded for programs."""


@pytest.mark.rule("K9", "K2")
@pytest.mark.parametrize("door", DOORS)
async def test_a_value_is_made_plain_at_every_door_of_a_result(door: str) -> None:
    enter, shown, recorded = DOORS[door]
    async with stage(Answer(calls=[Call("work")]), "done") as s:
        enter(s)
        await s.ask("a")
        (fact,) = s.facts(ToolResultAdded)
        assert s.results() == {"call_1": shown}
        assert fact.value == recorded
        assert all(decode_event(encode_event(entry)) == entry for entry in s.agent.session.events)


@pytest.mark.rule("K9", "K2", "K3")
async def test_arguments_that_a_hook_changes_are_made_plain_and_fit_parameters_of_their_types() -> None:
    got: list[Any] = []

    @tool
    async def work(at: dt.datetime, path: str, data: bytes) -> None:
        got.append((at, path, data))

    changed = {"at": WHEN, "path": pathlib.PurePosixPath("/x"), "data": b"\xff"}
    asked = Call("work", {"at": "2026-01-01T00:00:00Z", "path": "", "data": ""})
    async with stage(Answer(calls=[asked]), "done", tools=[work]) as s:
        s.agent.scope.on(TOOLS_PRE_EXECUTE, lambda payload, follow: AllowCall(changed))
        s.agent.scope.on(TOOLS_EXECUTE, lambda payload, follow: got.append(payload.arguments) or follow())
        await s.ask("a")
    assert got == [{"at": "2026-01-02T03:04:05Z", "path": "/x", "data": "/w=="}, (WHEN, "/x", b"\xff")]


@pytest.mark.rule("K9", "K2", "K3")
async def test_arguments_of_a_hook_that_json_cannot_hold_run_nothing_and_are_told_of() -> None:
    ran: list[Any] = []

    @tool(parameters={"type": "object"}, name="work")
    async def work(**arguments: Any) -> None:
        ran.append(arguments)

    async with stage(Answer(calls=[Call("work")]), "done", tools=[work]) as s:
        s.agent.scope.on(TOOLS_PRE_EXECUTE, lambda payload, follow: AllowCall({"a": [(x for x in "ab")]}))
        await s.ask("a")
        assert "of the arguments of tool 'work' cannot be given: $.a[0]: generator is not JSON" in s.results()["call_1"]
        assert s.facts(ToolResultAdded)[0].code == "INVALID_ARGUMENTS"
        assert ran == []
        assert s.ends == ["completed"]


@pytest.mark.rule("K9", "K2")
async def test_a_hooks_value_beside_content_that_json_cannot_hold_is_told_of() -> None:
    async with stage(Answer(calls=[Call("work")]), "done") as s:
        replacing(s, TOOLS_POST_EXECUTE, lambda v: ReplaceResult((Text("said"),), {"a": io.BytesIO()}))
        await s.ask("a")
        told = s.results()["call_1"]
        assert told.startswith(
            "tool 'work' ran, but its output cannot be shown: $.a: _io.BytesIO is not JSON (S1): read it"
        )
        assert s.ends == ["completed"]
