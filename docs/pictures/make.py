"""Makes the pictures in this folder from a run of the demo: ``python docs/pictures/make.py``.

It needs the extras ``all`` and Debian's ``chromium``, and takes as long as the demo does. Look at what it made: times
differ from run to run, so nothing else tells whether the pictures are good.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.diagrams.browser import Browser  # noqa: E402  # found once the path is there
from treadle import Event  # noqa: E402
from treadle.session import ToolResultAdded  # noqa: E402
from treadle_cli.show.transcript import Transcript  # noqa: E402
from treadle_diagrams import SessionFile, read_session, sequence_svg, session_page, transcript  # noqa: E402

HERE = Path(__file__).parent
THEMES = ("light", "dark")
COLUMNS = 88
BELOW = 10
"""Units below the last row of the terminal."""
_FRAMED = """new Promise(done => {
    const frame = document.createElement("div");
    frame.style.cssText = "position: fixed; inset: 0; z-index: 9; border: 1px solid var(--frame)";
    document.body.append(frame);
    setTimeout(done, 300);
})"""
DARK = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
)
"""The terminal's colours; they are those of the drawings."""


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as folder:
        session = demo(Path(folder))
        (HERE / "terminal.svg").write_text(terminal(session), encoding="utf-8", newline="\n")
        (HERE / "sequence.svg").write_text(sequence_svg(session.events, 4), encoding="utf-8", newline="\n")
        page = Path(folder) / "page.html"
        page.write_text(session_page(session.header, session.events), encoding="utf-8")
        photograph(page, stopped_call(session.events))


def demo(folder: Path) -> SessionFile:
    """Run the demo at its own pace; returns the log it leaves."""
    command = [sys.executable, "-m", "treadle_cli", "demo", "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # our own command
    return read_session(folder / "session.jsonl")


def terminal(session: SessionFile) -> str:
    """The transcript as a terminal shows it."""
    console = Console(record=True, width=COLUMNS, force_terminal=True, file=StringIO())
    shown = Transcript(console)
    for entry in transcript(session.events):
        shown.tell(entry)
    template = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    template = template.replace("Fira Code", "DejaVu Sans Mono")
    drawing = console.export_svg(title="treadle show session.jsonl", theme=DARK, code_format=template, unique_id="t")
    return with_margin(drawing)


def with_margin(drawing: str) -> str:
    """As much room below the last row as there is beside the rows."""

    def more(found: re.Match[str]) -> str:
        return f"{found[1]}{float(found[2]) + BELOW:g}{found[3]}"

    whole = re.sub(r'(viewBox="0 0 [\d.]+ )([\d.]+)(")', more, drawing, count=1)
    return re.sub(r'(<rect fill="[^"]*" stroke="[^"]*"[^>]* height=")([\d.]+)(")', more, whole, count=1)


def stopped_call(events: tuple[Event, ...]) -> int:
    """The event in which a stopped tool comes to rest: there is most to be seen."""
    return next(entry.seq for entry in events if isinstance(entry.data, ToolResultAdded) and entry.data.is_error)


def photograph(page: Path, seq: int) -> None:
    """Take the page's picture, in each theme."""
    with Browser() as browser:
        browser.size(1160, 770, 1.6)
        for theme in THEMES:
            browser.media(features={"prefers-color-scheme": theme})
            browser.open(page, f"#e{seq}")
            browser.run(_FRAMED)
            browser.picture(HERE / f"page-{theme}.png")


if __name__ == "__main__":
    main()
