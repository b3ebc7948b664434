"""``treadle run --config``: the declared agent answers (O8)."""

from pathlib import Path

import pytest

from treadle_cli import main

Capture = pytest.CaptureFixture[str]

DECLARED = """\
[models.scripted]
use = "scripted"
options = { default = "From the file." }
[models.local]
use = "embedded"
[store]
use = "jsonl"
options = { path = "SESSIONS" }
[[agents]]
id = "first"
session_id = "kept"
provider = "scripted"
model = "m"
[[agents]]
id = "second"
provider = "local"
model = "echo"
[[agents]]
id = "gone"
resume_session_id = "nowhere"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("BASE_URL", "MODEL", "API_KEY_ENV", "PROVIDER", "SESSION_DIR"):
        monkeypatch.delenv(f"TREADLE_{name}", raising=False)
    path = tmp_path / "treadle.toml"
    path.write_text(DECLARED.replace("SESSIONS", "sessions"))
    return str(path)


@pytest.mark.rule("O8")
def test_the_first_declared_agent_answers_and_its_session_goes_on(file: str, tmp_path: Path, capsys: Capture) -> None:
    for _ in range(2):
        assert main(["run", "hello", "--config", file]) == 0
        assert capsys.readouterr().out == "From the file.\n"
    assert any("kept" in path.name for path in (tmp_path / "sessions").rglob("*"))


@pytest.mark.rule("O8")
def test_another_declared_agent_is_named_by_its_label(file: str, capsys: Capture) -> None:
    assert main(["run", "hello", "--config", file, "--agent", "second"]) == 0
    assert "hello" in capsys.readouterr().out


@pytest.mark.rule("O8", "N8")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--agent", "gone"], "session nowhere did not start"),
        (["--agent", "nobody"], "started: first, second"),
        (["--model", "x"], "leave the options for these out"),
    ],
)
def test_what_cannot_be_is_told(file: str, words: list[str], said: str, capsys: Capture) -> None:
    assert main(["run", "hello", "--config", file, *words]) == 2
    assert said in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.rule("O8", "N8")
def test_a_wrong_file_and_a_missing_one_are_told(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "treadle.toml"
    path.write_text("[[agents]]\n")
    assert main(["run", "hello", "--config", str(path)]) != 0
    assert "missing required field" in capsys.readouterr().err.replace("\n", " ")
    assert main(["run", "hello", "--agent", "x"]) == 2
    assert "--config" in capsys.readouterr().err


@pytest.mark.rule("O8")
def test_e6_tools_of_the_file_come_from_modules_beside_it(tmp_path: Path, file: str, capsys: Capture) -> None:
    (tmp_path / "loom_beside.py").write_text('def weave(thread: str) -> str:\n    "Weave."\n    return thread\n')
    path = Path(file)
    path.write_text('[tools]\nuse = ["loom_beside:weave"]\n' + path.read_text())
    assert main(["run", "hello", "--config", file]) == 0
    log = next((tmp_path / "sessions").rglob("kept*"))
    assert "weave" in log.read_text()
    path.write_text(path.read_text().replace("loom_beside:weave", "loom_beside:knit"))
    assert main(["run", "hello", "--config", file]) != 0
    assert "loom_beside:knit" in capsys.readouterr().err.replace("\n", " ")
