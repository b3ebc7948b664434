"""From words to commands: help, versions, wrong words, missing libraries, exit statuses."""

import importlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import treadle
from tests.cli.terminal import ROOT, Terminal, environment
from treadle import MisuseError, SessionLocked
from treadle_cli import command, main, mounts
from treadle_cli.commands import run_command
from treadle_cli.mounts import MOUNTS, Mount, chosen

Capture = pytest.CaptureFixture[str]


def fails_with(error: BaseException) -> Any:
    def command() -> None:
        """Fail."""
        raise error

    return command


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a function of the test's own among the commands, as ``treadle it``."""

    def mount(target: Any) -> None:
        row = Mount(("it",), lambda: target, "Do it.")
        monkeypatch.setattr(mounts, "MOUNTS", (row,))

    return mount


@pytest.mark.slow
def test_without_words_the_help_lists_every_command(capsys: Capture) -> None:
    assert main([]) == 0
    told = capsys.readouterr().out
    for mount in MOUNTS:
        assert mount.path[0] in told
    assert "treadle demo" in told


def test_the_version_is_the_package_s(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == treadle.__version__


def test_an_unknown_command_names_the_known_ones(capsys: Capture) -> None:
    assert main(["dance"]) == 2
    told = capsys.readouterr().err
    assert "dance" in told
    assert "demo" in told


@pytest.mark.parametrize(("option", "near"), [("--foo", ""), ("--quick", ""), ("--faste", "Did you mean --fast?")])
def test_e8_an_unknown_option_gets_no_suggestion_but_a_near_one(option: str, near: str, capsys: Capture) -> None:
    assert main(["demo", option]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"treadle: Unknown option: {option}." + (f" {near}" if near else "")
    assert told[1].strip() == "treadle demo --help shows what there is"


@pytest.mark.slow
def test_e8_a_log_that_is_not_there_is_said_to_be_unreadable(tmp_path: Any) -> None:
    command = [sys.executable, "-m", "treadle_cli", "check", str(tmp_path / "none.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    told = done.stdout
    assert "none.jsonl: cannot be read" in told
    assert "finding" not in told


@pytest.mark.slow
def test_e9_the_list_of_sessions_does_not_cut_an_id(tmp_path: Any) -> None:
    folder = str(tmp_path / "kept")
    assert main(["run", "--session-dir", folder, "hello"]) == 0
    (log,) = (tmp_path / "kept").glob("*.jsonl")
    with Terminal(["sessions", "list", "--session-dir", folder], tmp_path, columns=80) as terminal:
        assert terminal.end() == 0
        assert terminal.rows[1].startswith(log.stem + " ")


@pytest.mark.parametrize("mount", MOUNTS, ids=lambda mount: " ".join(mount.path))
def test_e9_no_help_shows_raw_backticks(mount: Mount, capsys: Capture) -> None:
    main([*mount.path, "--help"])
    assert "``" not in capsys.readouterr().out


@pytest.mark.parametrize("mount", MOUNTS, ids=lambda mount: " ".join(mount.path))
def test_every_command_can_be_loaded_and_explains_itself(mount: Mount, capsys: Capture) -> None:
    assert chosen(mount.path, MOUNTS) is mount
    assert callable(mount.load())
    assert main([*mount.path, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: treadle {' '.join(mount.path)}")


@pytest.mark.parametrize("mount", MOUNTS, ids=lambda mount: " ".join(mount.path))
def test_e9_every_command_refuses_an_unknown_option_in_the_same_words(mount: Mount, capsys: Capture) -> None:
    words = " ".join(mount.path)
    assert main([*mount.path, "--no-such-option"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "treadle: Unknown option: --no-such-option.",
        f"         treadle {words} --help shows what there is",
    ]


def test_the_longest_words_that_name_a_command_choose_it() -> None:
    rows = (Mount(("export", "promela"), lambda: main, ""), Mount(("export",), lambda: main, ""))
    for order in (rows, rows[::-1]):
        assert chosen(["export", "promela", "-o", "x"], order) is rows[0]
        assert chosen(["export"], order) is rows[1]
        assert chosen(["--help"], order) is None


@pytest.mark.slow
def test_help_imports_no_other_package_and_no_network() -> None:
    probe = (
        "import sys; from treadle_cli import main; main([]);"
        "print(sorted({n.partition('.')[0] for n in sys.modules}"
        " & {'httpx', 'hypothesis', 'treadle_specs', 'treadle_diagrams', 'apsw'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], env=environment(), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_command_of_two_words_stands_under_its_first(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    rows = (Mount(("export", "tea"), lambda: main, "Export tea."),)
    monkeypatch.setattr(mounts, "MOUNTS", rows)
    assert main(["export", "--help"]) == 0
    assert "Export tea." in capsys.readouterr().out


def test_a_missing_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Any
) -> None:
    (tmp_path / "needs_wool.py").write_text("import wool_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    rows = (Mount(("knit",), lambda: importlib.import_module("needs_wool").knit, "Knit.", "specs"),)
    monkeypatch.setattr(mounts, "MOUNTS", rows)
    assert main(["knit"]) == 2
    told = capsys.readouterr().err
    assert "wool_that_is_not_there" in told
    assert "pip install 'treadle[specs]'" in told


def test_without_the_extra_of_the_command_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in [name for name in sys.modules if name.startswith("treadle_cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cyclopts", None)  # type: ignore[arg-type]
    assert main(["demo"]) == 2
    assert "pip install 'treadle[cli]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (MisuseError("do it the other way"), 2, "do it the other way"),
        (SessionLocked("process 7 has it"), 1, "process 7 has it"),
        (PermissionError(13, "Permission denied", "/root/x"), 1, "Permission denied: /root/x"),
        (OSError("disk on fire"), 1, "disk on fire"),
        (ExceptionGroup("of one", [ExceptionGroup("of one", [MisuseError("inside")])]), 2, "inside"),
        (MisuseError("colour \x1b[31m bell \x07"), 2, "colour ␛[31m bell ␇"),
        (KeyboardInterrupt(), 130, ""),
        (BaseExceptionGroup("of a nursery", [KeyboardInterrupt(), ValueError()]), 130, ""),
        (BrokenPipeError(), 1, ""),
        (SystemExit(2), 2, ""),
        (SystemExit(), 0, ""),
        (SystemExit("no wool"), 1, "no wool"),
    ],
)
def test_errors_become_words_and_exit_statuses(
    error: BaseException, status: int, told: str, mounted: Any, capsys: Capture
) -> None:
    mounted(fails_with(error))
    assert run_command(["it"]) == status
    assert told in capsys.readouterr().err


def test_a_group_that_asks_for_something_else_is_not_taken_for_ctrl_c(mounted: Any) -> None:
    mounted(fails_with(BaseExceptionGroup("of a nursery", [SystemExit(3)])))
    with pytest.raises(BaseExceptionGroup):
        run_command(["it"])


@pytest.fixture
def as_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Be the process, with these words; what Ctrl-C does is as before afterwards."""
    before = signal.getsignal(signal.SIGINT)

    def process(*words: str, ctrl_c: Any = signal.default_int_handler) -> int:
        signal.signal(signal.SIGINT, ctrl_c)
        monkeypatch.setattr(sys, "argv", ["treadle", *words])
        return command()

    yield process
    signal.signal(signal.SIGINT, before)


@pytest.mark.rule("H11")
def test_ctrl_c_is_heard_while_a_command_runs_and_ends_the_process_at_once_when_it_does_not(
    mounted: Any, as_process: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[Any] = []

    def imported() -> Any:
        known.append(signal.getsignal(signal.SIGINT))
        return lambda: known.append(signal.getsignal(signal.SIGINT))

    monkeypatch.setattr(mounts, "MOUNTS", (Mount(("it",), imported, "Do it."),))
    assert as_process("it") == 0
    assert known[0] is signal.SIG_DFL
    assert known[-1] is signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL


@pytest.mark.rule("H11")
def test_ctrl_c_in_a_command_is_its_exit_status(mounted: Any, as_process: Callable[..., int], capfd: Any) -> None:
    mounted(lambda: signal.raise_signal(signal.SIGINT))
    assert as_process("it") == 130
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert capfd.readouterr() == ("", "")


@pytest.mark.rule("H11")
def test_ctrl_c_that_is_ignored_stays_ignored(mounted: Any, as_process: Callable[..., int]) -> None:
    mounted(lambda: signal.raise_signal(signal.SIGINT))
    assert as_process("it", ctrl_c=signal.SIG_IGN) == 0
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_fault_of_ours_is_not_hidden(mounted: Any) -> None:
    mounted(fails_with(ZeroDivisionError("ours")))
    with pytest.raises(ZeroDivisionError):
        run_command(["it"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["it", "-"], ("-",)),
        (["it", "-", "--loud"], ("-",)),
        (["it", "--", "-", "x"], ("-", "x")),
        (["it", "a", "-", "--", "b"], ("a", "b", "-")),
    ],
)
def test_a_lone_dash_is_no_option(words: list[str], expected: tuple[str, ...], mounted: Any) -> None:
    got: list[tuple[str, ...]] = []

    def it(*given: str, loud: bool = False) -> None:
        """Do it."""
        got.append(given)

    mounted(it)
    assert main(words) == 0
    assert got == [expected]


@pytest.mark.slow
def test_output_that_nobody_reads_any_more_ends_quietly() -> None:
    command = f"{sys.executable} -m treadle_cli diagram -f svg | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], env=environment(), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


@pytest.mark.slow
def test_a_terminal_that_knows_few_characters_gets_substitutes(tmp_path: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "treadle_cli", "demo", "--fast", "--out", str(tmp_path)],
        env=environment(PYTHONIOENCODING="ascii"),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"the turn is complete" in done.stdout


@pytest.mark.slow
def test_a_bare_command_runs_without_the_command_line_library(tmp_path: Any) -> None:
    probe = "import sys; from treadle_cli import main; s = main(['rig']); print(s, 'cyclopts' in sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", probe], env=environment(), input="", capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "0 False"


def test_a_bare_command_that_misses_a_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Any
) -> None:
    (tmp_path / "needs_silk.py").write_text("import silk_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        mounts,
        "MOUNTS",
        (Mount(("weave",), lambda: importlib.import_module("needs_silk").weave, "Weave.", "specs", bare=True),),
    )
    assert main(["weave"]) == 2
    assert "pip install 'treadle[specs]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mistake", "error"),
    [
        (lambda: importlib.import_module("treadle_cli").no_such_name, AttributeError),
        (lambda: importlib.import_module("treadle_cli.no_such_module"), ModuleNotFoundError),
    ],
)
def test_a_mistake_inside_a_command_s_module_is_not_taken_for_a_missing_library(
    monkeypatch: pytest.MonkeyPatch, mistake: Any, error: type[Exception]
) -> None:
    monkeypatch.setattr(mounts, "MOUNTS", (Mount(("weave",), mistake, "Weave."),))
    with pytest.raises(error):
        main(["weave"])
