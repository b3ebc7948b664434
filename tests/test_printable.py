"""Text of models and tools acts nowhere, on no terminal and on no page (X3)."""

import pytest

from treadle.printable import call_text, one_line, printable

pytestmark = pytest.mark.rule("X3")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain, ünïcödé, 日本語, 🧶", "plain, ünïcödé, 日本語, 🧶"),
        ("lines\nand\ttabs", "lines\nand\ttabs"),
        ("dos\r\nlines", "dos\nlines"),
        ("over\rwritten", "over␍written"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x1b[2J\x1b[H", "␛[2J␛[H"),
        ("back\x08space", "back␈space"),
        ("\x00\x7f", "␀␡"),
        ("\x9b31m \x90 \x85", "[U+009B]31m [U+0090] [U+0085]"),
        ("user\u202etxt.exe", "user[U+202E]txt.exe"),
        ("\u2066hidden\u2069", "[U+2066]hidden[U+2069]"),
        ("two\u2028lines", "two[U+2028]lines"),
        ("half \ud83e", "half [U+D83E]"),
        ("\u206aold\u206f", "[U+206A]old[U+206F]"),
        ("no \ufffe \uffff", "no [U+FFFE] [U+FFFF]"),
    ],
)
def test_control_characters_are_shown_instead_of_obeyed(given: str, shown: str) -> None:
    assert printable(given) == shown


def test_no_control_character_is_left_whatever_comes() -> None:
    everything = "".join(map(chr, range(0x3000)))
    left = {character for character in printable(everything) if not character.isprintable() and character != " "}
    assert {c for c in left if ord(c) < 0xA0} == {"\n", "\t"}


@pytest.mark.parametrize(
    ("given", "limit", "shown"),
    [
        ("a\n  b\tc", 10, "a b c"),
        ("0123456789", 10, "0123456789"),
        ("0123456789x", 10, "012345678…"),
        ("x" * 100_000, 5, "xxxx…"),
        (" " * 1000 + "x", 10, "…"),
        ("\x1b[31mred", 20, "␛[31mred"),
    ],
)
def test_one_line_is_short_and_safe(given: str, limit: int, shown: str) -> None:
    assert one_line(given, limit) == shown


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"a": 1, "b": "two\\n\u202e"}', 'tool(a=1, b="two\\n[U+202E]")'),
        ("", "tool()"),
        ("[1, 2]", "tool([1, 2])"),
        ('{"half', 'tool({"half)'),
        ("[" * 90_000, "tool(" + "[" * 34 + "…"),
        ('{"a": "' + "x" * 100_000 + '"}', 'tool({"a": "' + "x" * 27 + "…"),
    ],
)
def test_a_call_is_shown_on_one_line_whatever_its_arguments_are(arguments: str, shown: str) -> None:
    assert call_text("tool", arguments, 40) == shown
