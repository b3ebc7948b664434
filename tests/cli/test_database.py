"""Commands that are given a database where a file or a folder could be: each does the same there (P6, X1)."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.postgres import Server
from treadle import Session
from treadle.session import new_id
from treadle_adapters.stores.postgres import PostgresStore
from treadle_cli import main
from treadle_specs.kits.store_bench import extend
from treadle_specs.rig.scripts import SCRIPTS, record

Capture = pytest.CaptureFixture[str]
HEADER, EVENTS = record(SCRIPTS["one-tool"])
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def url(postgres: Server) -> str:
    """A database of the test's own, with one session in it."""
    name = f"d{new_id().replace('-', '')}"
    with postgres.connect() as conn:
        conn.execute(f"create database {name}")
    url = f"postgres://treadle:geheim@127.0.0.1:{postgres.port}/{name}"

    async def store() -> None:
        async with PostgresStore(url) as made:
            await (await made.create(HEADER, EVENTS)).close()

    trio.run(store)
    return url


@pytest.mark.slow
@pytest.mark.rule("P6", "S5", "X1")
def test_sessions_lists_shows_forks_verifies_and_repairs_in_a_database(url: str, capsys: Capture) -> None:
    where = ("--session-dir", url)
    assert main(["sessions", "list", *where]) == 0
    assert capsys.readouterr().out.split("\t")[0] == HEADER.id
    assert main(["sessions", "show", HEADER.id, *where]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(EVENTS) + 1
    assert main(["sessions", "fork", HEADER.id, "--as", "copy", *where]) == 0
    assert main(["sessions", "verify", *where]) == 0
    assert f"copy: {len(EVENTS) + 1} events" in capsys.readouterr().out
    assert main(["sessions", "repair", "copy", *where]) == 0
    assert main(["sessions", "show", "nobody", *where]) != 0
    told = capsys.readouterr()
    assert "nobody" in told.err
    assert "geheim" not in told.out + told.err


@pytest.mark.slow
@pytest.mark.rule("P3", "X1")
def test_what_reads_a_log_reads_it_from_a_database(url: str, tmp_path: Path, capsys: Capture) -> None:
    named = f"{url}#{HEADER.id}"
    for words in ([named], [url], [HEADER.id, "--session-dir", url], ["--session-dir", url]):
        assert main(["show", *words]) == 0
        assert "What is there?" in capsys.readouterr().out
    assert main(["show", named, "--events", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(EVENTS)
    page = tmp_path / "page.html"
    assert main(["show", named, "--html", str(page)]) == 0
    assert "What is there?" in page.read_text()
    assert main(["stats", named, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["export", "otlp", named, "--out", str(tmp_path / "spans")]) == 0
    assert main(["diagram", "--sequence", named]) == 0
    assert main(["diagram", "--log", named]) == 0
    assert main(["show", f"{url}#nobody"]) != 0
    told = capsys.readouterr()
    assert "nobody" in told.err
    assert "geheim" not in told.out + told.err + page.read_text()


@pytest.mark.slow
@pytest.mark.rule("P2", "P4")
def test_a_conversation_is_kept_in_a_database_and_continued_from_it(url: str, capsys: Capture) -> None:
    run = ["run", "--session-dir", url]
    assert main([*run, "one more thing"]) == 0
    assert main([*run, "--continue", "and another"]) == 0
    capsys.readouterr()
    assert main(["show", url]) == 0
    told = capsys.readouterr().out
    assert "one more thing" in told
    assert "and another" in told
    assert main([*run, "--resume", "nobody", "hello"]) != 0
    assert "geheim" not in capsys.readouterr().err


def configured(tmp_path: Path, *store: str) -> str:
    file = tmp_path / "treadle.toml"
    lines = (
        '[[agents]]\nid = "a"\nsession_id = "declared"\nprovider = "echo"\nmodel = "echo"',
        '[models.echo]\nuse = "embedded"',
    )
    file.write_text("\n".join([*lines, "[store]", 'use = "postgres"', "[store.options]", *store]))
    return str(file)


@pytest.mark.slow
@pytest.mark.rule("O8", "X1")
def test_a_database_is_declared_in_a_configuration(
    url: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONS_URL", url)
    assert main(["run", "--config", configured(tmp_path, 'url_env = "SESSIONS_URL"'), "declared in a file"]) == 0
    assert main(["show", f"{url}#declared"]) == 0
    assert "declared in a file" in capsys.readouterr().out
    for wrong, said in (
        (f'url = "{url}"', "url_env"),
        ('url_env = "NOBODY_SET_THIS"', "NOBODY_SET_THIS is not set"),
        ('url = "postgres://h/db"\nurl_env = "SESSIONS_URL"', "either url or url_env"),
        ('url = "sessions.sqlite"', "postgres://user@host/database"),
    ):
        assert main(["run", "--config", configured(tmp_path, wrong), "hello"]) != 0
        told = capsys.readouterr()
        assert said in told.err
        assert "geheim" not in told.err


@pytest.mark.slow
@pytest.mark.rule("P3")
def test_show_follows_a_session_in_a_database_until_it_is_interrupted(url: str) -> None:
    folders = ("machine", "adapters", "specs", "diagrams", ".")
    child = subprocess.Popen(
        [sys.executable, "-m", "treadle_cli", "show", "--follow", "--events", "--json", f"{url}#{HEADER.id}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in folders)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None

    async def write() -> None:
        async with PostgresStore(url) as store:
            opened = await store.open_write(HEADER.id)
            await opened.writer.append(extend(Session(opened.stored.header, opened.stored.events)))
            await opened.writer.close()

    try:
        seen = [json.loads(child.stdout.readline())["seq"] for _ in EVENTS]
        trio.run(write)
        seen += [json.loads(child.stdout.readline())["seq"] for _ in range(6)]
        assert seen == list(range(len(EVENTS) + 6))
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=60) == 130
    finally:
        child.kill()
        child.communicate()


@pytest.mark.rule("X1")
@pytest.mark.parametrize("words", [["sessions", "list", "--session-dir"], ["show"], ["stats"]])
def test_a_database_that_cannot_be_reached_is_told_without_its_password(words: list[str], capsys: Capture) -> None:
    assert main([*words, "postgres://u:geheim@127.0.0.1:1/db"]) != 0
    told = capsys.readouterr().err
    assert "127.0.0.1:1/db cannot be reached" in told
    assert "geheim" not in told
