"""Files that people write: read within bounds, and everything wrong with one told at once, with its place."""

from __future__ import annotations

import string
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import ConfigError, InvalidData, MisuseError
from treadle.host.config import parse_config
from treadle.host.presets.documents import MAX_DOCUMENT, parse_document
from treadle.host.reading.documents import MAX_NESTING, Faulty
from treadle.host.reading.json import read_json
from treadle.host.reading.toml import read_toml
from treadle.host.reading.yaml import read_yaml
from treadle.presets import ModelSelection, TomlProfile, load_config, read_definition
from treadle_cli import main
from treadle_diagrams import read_coverage
from treadle_specs.conformance.scripts import read_scripts

pytestmark = pytest.mark.rule("X3")

# --- everything at once, with its place -------------------------------------------------------------------------------


@pytest.mark.rule("O8")
def test_b5_every_wrong_key_of_a_configuration_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "treadle.toml"
    path.write_text(
        "[limits]\n"
        "max_step_per_turn = 1\n"
        'convergence_warning = "long"\n'
        "[[agents]]\n"
        "id = 5\n"
        "[[agents]]\n"
        '  colour = "red"  # and no id\n'
        "[models]\n"
        'm = {use = "x", option = {}}\n'
        "[hots]\n"
    )
    known = "id, session_id, resume_session_id, provider, model, reasoning_effort, max_tokens, cwd, preset"
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).splitlines() == [
        f"{path}:2:1: unknown field `max_step_per_turn` - at `limits`: did you mean `max_steps_per_turn`?",
        f"{path}:3:1: Expected `float`, got `str` - at `limits.convergence_warning`",
        f"{path}:5:1: Expected `str`, got `int` - at `agents[0].id`",
        f"{path}:6:1: missing required field `id` - at `agents[1]`",
        f"{path}:7:3: unknown field `colour` - at `agents[1]`: known are {known}",
        f"{path}:9:17: unknown field `option` - at `models.m`: did you mean `options`?",
        f"{path}:10:1: unknown field `hots` - at the top: did you mean `host`? (O8)",
    ]


@pytest.mark.rule("O8")
def test_b5_every_contradiction_of_a_configuration_is_told_with_its_place() -> None:
    text = "[[agents]]\nid = 'a'\n[[agents]]\nid = 'a'\n[limits]\nmax_live_children = -1\n"
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "/x.toml")
    first, second = str(caught.value).splitlines()
    assert first == "/x.toml:4:1: agents[1] ('a'): agents[0] has this id already"
    assert second == "/x.toml:6:1: limits.max_live_children must not be negative (O8)"


@pytest.mark.rule("O8")
@pytest.mark.parametrize("value", ["nan", "-1"])
def test_b5_limits_are_checked_even_where_no_agent_is_declared(value: str) -> None:
    with pytest.raises(ConfigError, match=r"/x\.toml:1:1: .*convergence_warning"):
        parse_config(f"[limits]\nconvergence_warning = {value}\n", "/x.toml")


@pytest.mark.rule("O11")
def test_b5_every_fault_of_a_preset_is_told_with_its_place() -> None:
    document = (
        "- 2020-99-99\n"
        "- !!int foo\n"
        f"- x: {'1' * 5000}\n"
        "- {a: 1, a: 2}\n"
        "- &a [*a]\n"
        "- 1: 2\n"
        "- {x: {b: .nan, ? [a] : 1}}\n"
        '- "\\ud800"\n'
    )
    with pytest.raises(ConfigError) as caught:
        parse_document(document, "p.yaml")
    assert [line.split(": ", 1) for line in str(caught.value).splitlines()] == [
        ["p.yaml:1:3", "JSON has no dates: put it in quotes (S1)"],
        ["p.yaml:2:3", "tags (tag:yaml.org,2002:int) are not allowed: write the value as it is, text in quotes"],
        ["p.yaml:3:6", "a number that is too large: put it in quotes (S1)"],
        ["p.yaml:4:10", "duplicate key 'a': it stands in line 4 already"],
        ["p.yaml:5:7", "aliases (*name) are not allowed: a small text can stand for a huge one"],
        ["p.yaml:6:3", "a key must be text: put 1 in quotes"],
        ["p.yaml:7:11", "JSON has no .nan: put it in quotes (S1)"],
        ["p.yaml:7:19", "a key must be text"],
        ["p.yaml:8:3", "text with a lone surrogate, which UTF-8 cannot carry (S1) (O11)"],
    ]


def test_b5_so_many_faults_are_told_and_no_more() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config("\n".join([f"wrong{number} = 1" for number in range(500)]), "x.toml")
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert "480 faults more" in lines[-1]


# --- what YAML and TOML mean ------------------------------------------------------------------------------------------


@pytest.mark.rule("O11")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", None), ("~", None), ("null", None), ("true", True), ("False", False), ("no", "no"), ("0", 0),
        ("-17", -17), ("+4", 4), ("010", 10), ("1_000", 1000), ("0x1F", 31), ("0o17", 15), ("0b101", 5),
        ("1.5", 1.5), ("-.5", -0.5), ("1e3", 1000.0), ("9223372036854775807", 2**63 - 1), ("'12'", "12"),
        ('"true"', "true"), ("! 12", "12"), ("1.2.3", "1.2.3"), ("_", "_"), ("0x", "0x"), ("-", [None]),
        ("[a, {b: [1]}]", ["a", {"b": [1]}]), ("|\n  two\n  lines", "two\nlines"), ("<<", "<<"),
    ],
)  # fmt: skip
def test_yaml_means_what_its_core_schema_says(written: str, meant: Any) -> None:
    assert read_yaml(f"- {written}").value == [meant]


@pytest.mark.rule("O11")
@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("a: b: c", (1, 5), "mapping values are not allowed"),
        ("- a\n--- \n- b", (2, 1), "a second document"),
        ("%YAML 1.1\n---\n- a", (2, 1), "directives"),
        ("- a\n- '\x00'", (2, 4), "U+0000"),
        ("- 9223372036854775808", (1, 3), "too large"),
        ("- 1e400", (1, 3), "too large"),
        ("- [a", (1, 5), "no valid YAML"),
        ("- *a", (1, 3), "aliases"),
        ("? {a: 1}\n: 2", (1, 3), "a key must be text"),
    ],
)
def test_what_is_no_yaml_of_ours_is_told_with_its_place(text: str, place: tuple[int, int], said: str) -> None:
    with pytest.raises(Faulty) as caught:
        read_yaml(text)
    (fault,) = caught.value.faults
    assert (fault.line, fault.column) == place
    assert said in fault.text


_KEYS = st.text(string.ascii_lowercase, min_size=1, max_size=6)
_VALUES = st.recursive(
    st.integers(-9, 10**6) | st.booleans() | st.text(string.ascii_letters + " #[]{}=,.\\n", max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=25,
)


def _written(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case str():
            return f"'{value}'"
        case list():
            return "[\n # remark\n" + ",\n".join([_written(one) for one in value]) + "]"
        case _:
            return "{" + ", ".join([f"{key} = {_written(one)}" for key, one in value.items()]) + "}"


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, max_size=6), st.lists(st.dictionaries(_KEYS, _VALUES, max_size=3), max_size=3))
def test_b5_the_places_of_toml_are_those_of_its_parts(top: dict[str, Any], tables: list[dict[str, Any]]) -> None:
    text = "".join([f"{key} = {_written(value)} # remark\n" for key, value in top.items()])
    for table in tables:
        text += '[[ "Rows" ]]\n' + "".join([f"{key} = {_written(value)}\n" for key, value in table.items()])
    read = read_toml(text)
    assert read.value == {**top, **({"Rows": tables} if tables else {})}
    lines = text.split("\n")

    def check(value: Any, path: tuple[str | int, ...]) -> None:
        line, column = read.places[path]
        rest = lines[line - 1][column - 1 :]
        if path and isinstance(path[-1], str):
            assert rest.startswith(("[[", path[-1])), (path, rest)
        elif path and not isinstance(value, dict):
            assert rest.startswith(_written(value).split("\n")[0]), (path, rest)
        for key, one in value.items() if isinstance(value, dict) else ():
            check(one, (*path, key))
        for number, one in enumerate(value if isinstance(value, list) else ()):
            check(one, (*path, number))

    check(read.value, ())


# --- nothing but the documented error ---------------------------------------------------------------------------------

_TOML = ["a", ".", "=", "[", "]", "[[", "]]", "{", "}", ",", "\n", "1", "'", '"', "'''", '"""', "\\", "#", " ", "\r\n",
         "2020-99-99", "nan", "0x", "agents", "id", "limits", "\x00", "\ufeff", "é", "\x0c", "1" * 5000]  # fmt: skip
_YAML = ["- ", "a", ": ", "[", "]", "{", "}", ",", "\n", "  ", "'", '"', "|\n", ">\n", "&a ", "*a", "!!int ", "! ", "? ",
         "---\n", "...\n", "%YAML 1.1\n", "%TAG ! x\n", "<<: ", "#", "\t", "2020-99-99", "0x", ".nan", "1" * 5000, "\x00",
         "\\ud800", "\ufeff", "\u2028", "persona", "@"]  # fmt: skip
_JSON = [
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    '"',
    '"a"',
    "1",
    "1" * 5000,
    "NaN",
    "null",
    "\\",
    "\n",
    "\x00",
    "-",
    "e9",
    "\ufeff",
]


def refusal(read: Callable[[], object]) -> str:
    """What the documented error says; the names of both files when there was none. Any other error is let through."""
    try:
        read()
    except (ConfigError, Faulty) as error:
        return str(error)
    return "x.toml x.yaml"


@settings(max_examples=250, deadline=None)
@given(st.lists(st.sampled_from(_TOML) | st.text(max_size=3), max_size=30).map("".join))
def test_b5_whatever_stands_in_a_toml_file_its_error_is_the_documented_one(text: str) -> None:
    assert "x.toml" in refusal(lambda: parse_config(text, "x.toml"))


@settings(max_examples=250, deadline=None)
@given(st.lists(st.sampled_from(_YAML) | st.text(max_size=3), max_size=30).map("".join))
def test_b5_whatever_stands_in_a_preset_its_error_is_the_documented_one(text: str) -> None:
    assert "x.yaml" in refusal(lambda: parse_document(text, "x.yaml"))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_JSON) | st.text(max_size=3), max_size=20).map("".join))
def test_b5_whatever_stands_in_a_json_file_its_error_is_the_documented_one(text: str) -> None:
    refusal(lambda: read_json(text))


# --- work that grows with the length, and no faster -------------------------------------------------------------------

HOSTILE: dict[str, Callable[[int], str]] = {
    "a dotted key": lambda n: "a" + ".a" * n + " = 1",
    "a dotted header": lambda n: "[a" + ".a" * n + "]",
    "a dotted key without a value": lambda n: "a." * n,
    "dots after a value": lambda n: "x = 1 " + "a." * n,
    "arrays in arrays": lambda n: "x = " + "[" * n,
    "tables in tables": lambda n: "x = " + "{a = " * n,
    "a long integer": lambda n: "x = " + "1" * n,
    "a long fraction": lambda n: "x = 0." + "1" * n,
    "many keys": lambda n: "".join([f"k{number} = 1\n" for number in range(n // 8)]),
    "many tables": lambda n: "".join([f"[t{number}]\n" for number in range(n // 8)]),
    "quotes that do not end": lambda n: 'x = """' + '""a' * (n // 3),
    "quotes of one kind": lambda n: "x = " + "'" * n,
    "backslashes": lambda n: 'x = "' + "\\" * n,
    "brackets": lambda n: "[" * n,
    "yaml lists": lambda n: "- " * n,
    "yaml mappings": lambda n: "{a: " * n,
    "yaml keys": lambda n: "? " * n,
    "yaml items": lambda n: "- a\n" * (n // 4),
    "yaml anchors": lambda n: "- &a x\n" * (n // 8),
    "yaml tags": lambda n: "- !!str x\n" * (n // 10),
    "words": lambda n: "- " + "x " * (n // 2),
    "blank lines": lambda n: "- 'x" + "\n" * n + "'",
    "remarks": lambda n: "#\n" * (n // 2),
    "a json number": lambda n: "1" * n,
}
READERS: dict[str, Callable[[str], Any]] = {
    "toml": lambda text: parse_config(text, "x"),
    "yaml": lambda text: parse_document(text, "x"),
    "json": read_json,
}


def steps(read: Callable[[str], Any], text: str) -> int:
    """How many calls, of Python's functions and of C's, reading takes; whether it is refused or not."""
    count = 0

    def called(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        read(text)
    except (ConfigError, Faulty):
        pass
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("shape", HOSTILE)
def test_b5_reading_takes_steps_in_proportion_to_the_length_and_no_more(shape: str, reader: str) -> None:
    read, make = READERS[reader], HOSTILE[shape]
    read_yaml("- a")  # what the first use of a library does is not counted
    small, large = steps(read, make(2_000)), steps(read, make(8_000))
    assert large <= 5 * small + 2_000


def test_b5_a_dotted_key_never_reaches_a_parser_that_takes_the_square_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(text: str) -> Any:
        raise AssertionError("parsed")

    monkeypatch.setattr("tomllib.loads", loads)
    for shape in ("a dotted key", "a dotted header", "a dotted key without a value", "arrays in arrays"):
        with pytest.raises(ConfigError, match="X3"):
            parse_config(HOSTILE[shape](400_000), "x.toml")


@pytest.mark.parametrize("depth", [MAX_NESTING - 2, MAX_NESTING + 1])
def test_b5_what_nests_as_deep_as_allowed_is_read(depth: int) -> None:
    fits = depth < MAX_NESTING
    for read, text in (
        (read_toml, "x = " + "[" * depth + "]" * depth),
        (read_toml, "a" + ".a" * depth + " = 1"),
        (read_yaml, "[" * depth + "]" * depth),
    ):
        if fits:
            read(text)
            continue
        with pytest.raises(Faulty, match="nested deeper"):
            read(text)


# --- every door -------------------------------------------------------------------------------------------------------


def _preset(path: Path) -> Any:
    definition = read_definition(path)
    return parse_document(definition.document, definition.where)


DOORS: dict[str, Callable[[Path], Any]] = {
    "treadle.toml": load_config,
    "preset": _preset,
    "profile": lambda path: TomlProfile(path).read(),
    "profile, written": lambda path: TomlProfile(path)._write(ModelSelection("p", "m")),  # pyright: ignore[reportPrivateUsage]
    "script of replay": read_scripts,
    "coverage": read_coverage,
}
CONTENTS = {
    "latin-1": b"persona: caf\xe9",
    "zeros": bytes(200),
    "huge": b"#" * (17 << 20),
    "deep": b"[" * 100_000,
    "a long number": b"x = " + b"1" * 5_000,
    "a bare long number": b"1" * 5_000,
    "dots": b"a" + b".a" * 100_000 + b" = 1",
    "the wrong kind": b"42",
    "half a thing": b'[{"name": "x", "steps": [{"do"',
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("door", DOORS)
def test_b5_no_file_passes_a_door_but_by_the_documented_error(door: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / "given.yaml"
    path.write_bytes(CONTENTS[content])
    with pytest.raises((ConfigError, MisuseError)) as caught:
        DOORS[door](path)
    assert isinstance(caught.value, (ConfigError, InvalidData, MisuseError))
    assert "given.yaml" in str(caught.value)
    assert len(str(caught.value)) < 20_000
    assert path.read_bytes() == CONTENTS[content]


def test_b5_a_preset_longer_than_allowed_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"p: the document is longer than 262,144 characters"):
        parse_document("#" * (MAX_DOCUMENT + 1), "p")


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--config", "{file}", "hello"],
        ["run", "--no-save", "--system-file", "{file}", "hello"],
        ["replay", "{file}"],
        ["diagram", "--coverage", "{file}"],
        ["conform", "--core", "--expect", "{file}"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_b5_the_command_tells_what_is_wrong_with_a_file_and_where(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "given"
    path.write_bytes(b"line\ncaf\xe9")
    assert main([word.replace("{file}", str(path)) for word in words]) in (1, 2)
    told = capsys.readouterr()
    assert told.out == ""
    assert str(path) in told.err
    if words[0] != "diagram":
        assert f"{path}:2:4: the byte 0xe9 is no UTF-8: save the file as UTF-8" in told.err
    assert "Traceback" not in told.err


def test_b5_an_error_of_a_server_is_explained_whatever_the_file_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content in CONTENTS.values():
        path = tmp_path / "body"
        path.write_bytes(content)
        assert main(["models", "--explain", str(path), "--status", "500"]) == 0
        assert "code" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("5", "script 1: Expected `object`, got `int`"),
        ('{"name": "x", "steps": 5}', "Expected `array`, got `int` - at `$.steps`"),
        ('{"name": "x", "steps": [{}]}', "steps[0]: `do` names no verb"),
        ('{"name": "x", "steps": [{"do": "deliver"}]}', "steps[0]: Object missing required field `message`"),
        ('[{"name": "x", "steps": []}, {"steps": []}]', "script 2: Object missing required field `name`"),
        ('{"name": "x", "steps": [{"do": "listen", "request": {"do": "deliver"}}]}', "steps[0]"),
        ("[" * 300 + "]" * 300, "deep"),
    ],
)
def test_b5_a_script_is_checked_before_a_driver_sees_it(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(content)
    with pytest.raises(MisuseError) as caught:
        read_scripts(path)
    assert said in str(caught.value)
