"""The line being typed, in a terminal: edited by prompt_toolkit in a thread of its own, while output flows above it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from io import StringIO
from typing import TYPE_CHECKING, Any

import trio
from rich.console import Console
from rich.text import Text

from ..extras import extra_for
from .wrapping import Wrapper

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

IDLE = ("› ", "bold green")
WORKING = ("↪ ", "bold yellow")
"""The prompts: what is typed opens a turn, or steers the one that runs."""

GATHERING = 0.03
"""Seconds for which output is gathered before it is shown."""

FITTING = 0.25
"""Seconds between two looks at the width of the terminal."""

PATIENCE = 5.0
"""Seconds that the editor's thread may take to give the terminal back."""

_GIVEN_BACK = b"\x1b[?2004l\x1b[?25h\r\n"
"""Ends what prompt_toolkit may have begun: pastes in brackets, a hidden cursor."""


def can_edit() -> bool:
    """Whether input and output are a terminal in which a line can be edited."""
    return (
        sys.stdin is not None
        and sys.stdin.isatty()
        and sys.stdout.isatty()
        and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
    )


class Editor:
    """Edits what is typed, of one line or several, and shows output above it; the unfinished row of it, too.

    prompt_toolkit runs on asyncio, so it has a thread and a loop of its own. Raw mode makes Ctrl-C a key, so signals
    stay with trio. Whatever happens there is told on the trio side, in order.

    Attributes:
        on_interrupt: told of Ctrl-C, and whether it took back what was being typed.
        on_typing: told when what is being typed has changed.
    """

    def __init__(self) -> None:
        with extra_for("a conversation in a terminal needs", "cli"):
            if find_spec("prompt_toolkit") is None:  # the editor's thread imports it, while this one goes on
                raise ModuleNotFoundError(name="prompt_toolkit")
        self.on_interrupt: Callable[[bool], None] = lambda _: None
        self.on_typing: Callable[[], None] = lambda: None
        self._working = False
        self._tells, self._told = trio.open_memory_channel[Callable[[], object]](math.inf)
        self._entered, self._lines = trio.open_memory_channel[str](math.inf)
        self._started = trio.Event()
        self._ended = trio.Event()
        self._failure: Exception | None = None
        self._left = False
        self._pending: list[Text] = []
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news, self._closing = asyncio.Event(), asyncio.Event()
        self._wrapper = Wrapper()
        self._prompting = IDLE
        self._before = _terminal_modes()

    # --- on the trio side ---------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Editor]:
        """Edit inside the ``with`` block; at its end everything was shown, and the terminal is as before.

        Raises:
            OSError: the terminal cannot be used.
        """
        self._token = trio.lowlevel.current_trio_token()
        thread = threading.Thread(target=self._main, name="line editor", daemon=True)
        thread.start()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen)
                await self._started.wait()
                if self._failure is not None:
                    raise self._failure
                yield self
                nursery.cancel_scope.cancel()
        finally:
            self._left = True
            self._call(self._closing.set)
            with trio.CancelScope(shield=True), trio.move_on_after(PATIENCE):
                await self._ended.wait()
            self.give_back()

    async def _listen(self) -> None:
        async for told in self._told:
            told()

    async def lines(self) -> AsyncGenerator[str]:
        """What is entered, until Ctrl-D or the terminal's end."""
        async with self._lines:
            async for line in self._lines:
                yield line

    def _enter_line(self, line: str) -> None:
        with contextlib.suppress(trio.ClosedResourceError):  # Ctrl-D was pressed before
            self._entered.send_nowait(line)

    def _typed(self) -> None:
        self.on_typing()

    def write(self, text: Text) -> None:
        """See ``Out``."""
        with self._lock:
            self._pending.append(text)
            first = len(self._pending) == 1
        if first:
            self._call(self._news.set)

    def show_working(self, working: bool) -> None:
        """Show by the prompt whether the agent works, once everything before is shown."""
        with self._lock:
            self._working = working
        self._call(self._news.set)

    def give_back(self) -> None:
        """Set the terminal as it was before, whatever the editor's thread is doing."""
        if self._before is None:
            return
        import termios

        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)
            if not self._ended.is_set():
                os.write(sys.stdout.fileno(), _GIVEN_BACK)

    def _call(self, function: Callable[[], object]) -> None:
        """Call something on the editor's loop; nothing when that has ended."""
        if self._loop is None:
            return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    # --- on the editor's side -----------------------------------------------------------------------------------------

    def _tell(self, function: Callable[[], object]) -> None:
        """Have something called on the trio side, where its failure is one of the conversation."""
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._tells.send_nowait, function)

    def _main(self) -> None:
        try:
            asyncio.run(self._edit())
        except (OSError, EOFError) as error:  # the terminal is gone
            self._failure = error if isinstance(error, OSError) else OSError(str(error))
        finally:
            self._tell(self._entered.close)
            for event in (self._started, self._ended):
                with contextlib.suppress(trio.RunFinishedError):
                    self._token.run_sync_soon(event.set)

    async def _edit(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._left:  # before there was a loop to tell it to
            self._closing.set()
        self._loop.set_exception_handler(self._failed)
        self._session = session = self._make_session()
        session.default_buffer.on_text_changed += self._changed
        editing = asyncio.ensure_future(
            session.prompt_async(handle_sigint=False, set_exception_handler=False, pre_run=self._began)
        )
        closing = asyncio.ensure_future(self._closing.wait())
        await asyncio.wait([editing, closing], return_when=asyncio.FIRST_COMPLETED)
        closing.cancel()
        if editing.done():
            editing.result()
        self._show()
        if self._wrapper.row:
            self._pending.append(Text("\n"))
            self._show()
        if session.app.is_running:
            session.app.exit(result="")
            await editing

    def _failed(self, _: asyncio.AbstractEventLoop, __: dict[str, Any]) -> None:
        """Something failed on the loop: a terminal that is gone cannot be read or written."""
        self._closing.set()

    def _changed(self, _: object) -> None:
        self._tell(self._typed)

    def _began(self) -> None:
        self._session.app.create_background_task(self._shower())
        self._session.app.create_background_task(self._fitter(self._width))
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._started.set)

    def _make_session(self) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.output import create_output

        output = create_output(sys.stdout)
        if hasattr(output, "enable_cpr"):
            output.enable_cpr = False  # pyright: ignore[reportAttributeAccessIssue]  # an answer that comes late would be typed
        session: PromptSession[str] = PromptSession(
            self._prompt,
            multiline=True,
            key_bindings=self._keys(),
            prompt_continuation="  ",
            enable_suspend=True,
            output=output,
            erase_when_done=True,
        )
        session.app.terminal_size_polling_interval = None  # `_fitter` looks, from the first row on
        return session

    def _keys(self) -> KeyBindings:
        from prompt_toolkit.key_binding import KeyBindings

        keys = KeyBindings()
        keys.add("enter")(self._enter)
        keys.add("escape", "enter")(self._new_line)
        keys.add("c-j")(self._new_line)
        keys.add("c-c")(self._interrupt)
        keys.add("c-d")(self._end_or_delete)
        return keys

    def _new_line(self, event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return
        text = buffer.text.encode(errors="surrogateescape").decode(errors="replace")
        buffer.append_to_history()
        buffer.reset()
        if text.strip():
            self._tell(lambda: self._enter_line(text))

    def _interrupt(self, event: KeyPressEvent) -> None:
        had_text = bool(event.current_buffer.text)
        event.current_buffer.reset()
        self._tell(lambda: self.on_interrupt(had_text))

    def _end_or_delete(self, event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            self._tell(self._entered.close)

    # --- what is shown ------------------------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return self._session.app.output.get_size().columns - 1

    def _prompt(self) -> Any:
        from prompt_toolkit.formatted_text import ANSI

        rows = self._wrapper.shown(self._width) if self._wrapper.row else []
        return ANSI("".join([_ansi(row) + "\n" for row in rows]) + _ansi(Text(*self._prompting)))

    async def _shower(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            self._show()
            await asyncio.sleep(GATHERING)

    async def _fitter(self, drawn: int) -> None:
        """Draw anew when the terminal is no longer as wide as when it was drawn: no signal of that reaches a thread."""
        while True:
            await asyncio.sleep(FITTING)
            if self._width != drawn:
                drawn = self._width
                self._session.app.renderer.erase()
                self._session.app.invalidate()

    def _show(self) -> None:
        """Print the rows that are complete above the line being typed; what is unfinished is part of the prompt."""
        with self._lock:
            pending, self._pending = self._pending, []
            self._prompting = WORKING if self._working else IDLE
        rows = self._wrapper.take(Text().join(pending), self._width)
        app = self._session.app
        if rows:
            app.renderer.erase()
            app.output.write_raw("".join([_ansi(row) + "\r\n" for row in rows]))
        app.invalidate()


def _ansi(text: Text) -> str:
    """A row with its styles, as a terminal takes them."""
    if not text.spans and not text.style:
        return text.plain
    console = Console(file=StringIO(), force_terminal=True, color_system="standard", width=1 << 16, highlight=False)
    with console.capture() as captured:
        console.print(text, end="", soft_wrap=True)
    return captured.get()


def _terminal_modes() -> list[Any] | None:
    try:
        import termios
    except ImportError:
        return None
    return termios.tcgetattr(sys.stdin.fileno())
