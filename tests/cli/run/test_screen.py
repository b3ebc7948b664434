"""How a conversation looks: words in rows, and notes between them."""

import errno
import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from treadle_cli.run.screen import Screen, Stream
from treadle_cli.run.wrapping import Wrapper, rows_of


def never(error: OSError) -> None:
    raise error


def stream(width: int | None = None) -> Stream:
    """A terminal of a width, or no terminal."""
    console = Console(file=io.StringIO(), force_terminal=width is not None, width=width or 60, highlight=False)
    return Stream(console, never)


def text_of(out: Stream) -> str:
    """What a terminal shows then, as far as backspaces go."""
    assert isinstance(out.console.file, io.StringIO)
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.console.file.getvalue())
    while found := re.search(r"\x08+( +)\x08+", text):
        text = cut(text[: found.start()], len(found[1])) + text[found.end() :]
    return text


def cut(text: str, cells: int) -> str:
    while cells > 0:
        cells -= cell_len(text[-1])
        text = text[:-1]
    return text


@pytest.fixture
def out() -> Stream:
    return stream(60)


def test_words_flow_and_notes_stand_on_lines_of_their_own(out: Stream) -> None:
    screen = Screen(out, out)
    for word in ("One ", "two"):
        screen.answer(word)
    screen.note("note")
    screen.answer("\n\nthree")
    screen.end_line()
    screen.end_line()
    assert text_of(out) == "One two\nnote\nthree\n"


def test_thoughts_and_answers_do_not_share_a_line(out: Stream) -> None:
    screen = Screen(out, out)
    screen.thought("hm")
    screen.answer("Yes.")
    screen.thought("\n")
    screen.end_line()
    assert text_of(out) == "hm\nYes.\n"


def test_an_answer_that_ended_its_line_gets_no_second_end(out: Stream) -> None:
    screen = Screen(out, out)
    screen.answer("a line\n")
    screen.note("note")
    assert text_of(out) == "a line\nnote\n"


def test_an_empty_row_stands_between_turns_where_it_is_wished(out: Stream) -> None:
    Screen(out, out).end_turn()
    Screen(out, out, spaced=True).end_turn()
    assert text_of(out) == "\n"


def test_answers_and_notes_can_go_to_different_places() -> None:
    answers, notes = stream(60), stream(60)
    screen = Screen(answers, notes)
    screen.answer("before")
    screen.note("note")
    screen.answer("after")
    screen.end_line()
    assert text_of(answers) == "before\nafter\n"
    assert text_of(notes) == "note\n"


@pytest.mark.rule("X3")
def test_nothing_that_is_shown_can_act_on_the_terminal(out: Stream) -> None:
    screen = Screen(out, out)
    screen.answer("\x1b]0;owned\x07 [red]no markup[/red]")
    screen.thought("\x1b[2J")
    screen.note(("tool\x1b[31m", "bold"), "\x9b\u202e")
    shown = text_of(out)
    assert "␛]0;owned␇ [red]no markup[/red]" in shown
    assert not {"\x1b", "\x9b", "\u202e"} & set(shown)


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("one two three four", ["one two", "three four"]),
        ("exactly ten", ["exactly", "ten"]),
        ("abcdefghij klm", ["abcdefghij", "klm"]),
        ("abcdefghijklmnop", ["abcdefghij", "klmnop"]),
        ("日本語日本語", ["日本語日本", "語"]),
        ("a 日本語 日本語", ["a 日本語", "日本語"]),
        ("two\n\nparts", ["two", "", "parts"]),
        ("  indented text", ["  indented", "text"]),
        ("a\tb", ["a   b"]),
    ],
)
def test_e9_words_are_not_broken_at_the_terminal_s_width(text: str, rows: list[str]) -> None:
    """However the text is cut into pieces, and in a terminal that shows them as they come."""
    for size in (1, 2, 3, len(text)):
        wrapper, shown, screen = Wrapper(), [], stream(11)
        for at in range(0, len(text), size):
            piece = Text(text[at : at + size])
            shown += wrapper.take(piece, 10)
            screen.write(piece)
        assert [row.plain for row in [*shown, *wrapper.shown(10)]] == rows
        assert [row.rstrip() for row in text_of(screen).split("\n")] == rows


def test_an_unfinished_row_is_broken_anew_when_the_terminal_becomes_narrower() -> None:
    wrapper = Wrapper()
    assert wrapper.take(Text("one two three"), 20) == []
    assert [row.plain for row in wrapper.shown(8)] == ["one two", "three"]


def test_styles_go_with_their_words() -> None:
    first, second = rows_of(Text.assemble("plain ", ("bold words", "bold")), 11)
    assert (first.plain, second.plain) == ("plain bold ", "words")
    assert [(span.start, span.end, span.style) for span in second.spans] == [(0, 5, "bold")]


def test_what_is_no_terminal_gets_the_text_as_it_is() -> None:
    out = stream()
    out.write(Text("word " * 100 + "\tend\n", "bold"))
    assert text_of(out) == "word " * 100 + "\tend\n"


def test_e3_what_cannot_be_written_is_told_once() -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    told: list[OSError] = []
    out = Stream(Console(file=Full()), told.append)
    for _ in range(3):
        out.write(Text("word "))
    assert [error.errno for error in told] == [errno.ENOSPC]
    assert out.failure is told[0]
