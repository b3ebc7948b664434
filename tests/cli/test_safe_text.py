"""Text of models and tools cannot act on a terminal (X3)."""

import pytest

from treadle_adapters.cli.safe_text import one_line, safe_text

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
        ("\x9b31m \x90 \x85", "�31m � �"),
        ("user\u202etxt.exe", "user�txt.exe"),
        ("\u2066hidden\u2069", "�hidden�"),
        ("two\u2028lines", "two�lines"),
        ("half \ud83e", "half �"),
    ],
)
def test_control_characters_are_shown_instead_of_obeyed(given: str, shown: str) -> None:
    assert safe_text(given) == shown


def test_no_control_character_is_left_whatever_comes() -> None:
    everything = "".join(map(chr, range(0x3000)))
    left = {character for character in safe_text(everything) if not character.isprintable() and character != " "}
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
