"""How a conversation looks: words, notes, and the line being typed below them."""

import io
import re

import pytest
from rich.console import Console

from treadle_cli.run.screen import ERASE, PROMPT, Screen


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def terminal(width: int = 60) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return plain(console.file.getvalue())


@pytest.fixture
def screen() -> Screen:
    console = terminal()
    return Screen(console, console, edits=True)


def test_words_flow_and_notes_stand_on_lines_of_their_own(screen: Screen) -> None:
    for word in ("One ", "two"):
        screen.answer(word)
    screen.note("note")
    screen.answer("\n\nthree")
    screen.end_line()
    screen.end_line()
    assert text_of(screen.answers) == "One two\nnote\nthree\n"


def test_thoughts_and_answers_do_not_share_a_line(screen: Screen) -> None:
    screen.thought("hm")
    screen.answer("Yes.")
    screen.thought("\n")
    screen.end_line()
    assert text_of(screen.answers) == "hm\nYes.\n"


def test_an_answer_that_ended_its_line_gets_no_second_end(screen: Screen) -> None:
    screen.answer("a line\n")
    screen.note("note")
    assert text_of(screen.answers) == "a line\nnote\n"


def test_answers_and_notes_can_go_to_different_places() -> None:
    answers, notes = terminal(), terminal()
    screen = Screen(answers, notes)
    screen.answer("before")
    screen.note("note")
    screen.answer("after")
    screen.end_line()
    assert text_of(answers) == "before\nafter\n"
    assert text_of(notes) == "note\n"


@pytest.mark.rule("X3")
def test_nothing_that_is_shown_can_act_on_the_terminal(screen: Screen) -> None:
    screen.answer("\x1b]0;owned\x07 [red]no markup[/red]")
    screen.thought("\x1b[2J")
    screen.note(("tool\x1b[31m", "bold"), "\x9b")
    screen.typing("\u202e")
    screen.typing("")
    shown = text_of(screen.answers)
    assert "␛]0;owned␇ [red]no markup[/red]" in shown
    assert "\x1b" not in shown.replace(ERASE, "")
    assert "\x9b" not in shown
    assert "\u202e" not in shown


def test_the_prompt_stands_below_what_is_shown(screen: Screen) -> None:
    screen.ask(True)
    screen.note("note")
    assert text_of(screen.answers) == f"{PROMPT}{ERASE}note\n{PROMPT}"
    screen.ask(False)
    assert text_of(screen.answers).endswith(f"{PROMPT}{ERASE}")


def test_output_waits_while_a_line_is_typed_and_comes_after_it(screen: Screen) -> None:
    screen.answer("One ")
    screen.typing("h")
    screen.answer("two ")
    screen.note("note")
    screen.typing("hi")
    assert "two" not in text_of(screen.answers)
    screen.entered("hi")
    screen.answer("three")
    assert text_of(screen.answers) == f"One \n{PROMPT}h{ERASE}{PROMPT}hi{ERASE}{PROMPT}hi\ntwo \nnote\nthree"


def test_a_line_that_is_taken_back_lets_the_output_go_on(screen: Screen) -> None:
    screen.answer("One ")
    screen.typing("h")
    screen.answer("two")
    screen.typing("")
    assert text_of(screen.answers) == f"One \n{PROMPT}h{ERASE}two"


def test_a_long_line_shows_its_end_and_all_of_it_once_entered() -> None:
    console = terminal(width=20)
    screen = Screen(console, console, edits=True)
    screen.typing("abcdefghijklmnopqrstuvwxyz")
    assert text_of(console) == f"{PROMPT}…lmnopqrstuvwxyz"[: len(PROMPT)] + "…" + "abcdefghijklmnopqrstuvwxyz"[-16:]
    screen.entered("abcdefghijklmnopqrstuvwxyz")
    assert text_of(console).endswith(f"{ERASE}{PROMPT}abcdefghijklmnopqrstuvwxyz\n")


def test_wide_characters_take_their_room() -> None:
    console = terminal(width=20)
    screen = Screen(console, console, edits=True)
    screen.typing("日本語" * 10)
    shown = text_of(console).removeprefix(PROMPT)
    assert shown.startswith("…")
    assert len(shown) <= 9


def test_where_the_terminal_echoes_the_prompt_is_drawn_and_the_line_is_not() -> None:
    console = terminal()
    screen = Screen(console, console, echoed=True)
    screen.ask(True)
    screen.entered("hello")
    screen.ask(False)
    screen.answer("Hi.")
    assert text_of(console) == f"{PROMPT}Hi."


def test_without_a_terminal_entered_lines_are_part_of_the_transcript() -> None:
    console = Console(file=io.StringIO(), width=60, highlight=False)
    screen = Screen(console, console)
    screen.ask(True)
    screen.entered("hello")
    screen.answer("Hi.")
    screen.end_line()
    assert text_of(console) == f"{PROMPT}hello\nHi.\n"
