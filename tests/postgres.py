"""A PostgreSQL server of the tests' own, on 127.0.0.1, for as long as they run."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Literal

import psycopg
from attrs import define


def programs() -> Path | None:
    """The folder with the server's programs, if it is installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return installed[-1].parent if installed else None


def nobody() -> dict[str, Any]:
    """Who runs the server: it refuses to be run by root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            known = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": known.pw_uid, "group": known.pw_gid, "extra_groups": []}
    raise AssertionError("there is no user but root to run a server")


@define(eq=False)
class Server:
    """A server in a directory of its own.

    Attributes:
        programs: the folder with its programs.
        directory: where its data lie.
        port: where it listens on 127.0.0.1.
        durable: whether commits are synced; only a server that is to be compared needs that.
    """

    programs: Path
    directory: Path
    port: int
    durable: bool = False

    @classmethod
    def make(cls, programs: Path, *, durable: bool = False) -> Server:
        """A new one, started."""
        directory = Path(tempfile.mkdtemp(prefix="treadle-pg-"))
        run_by = nobody()
        if run_by:
            os.chown(directory, run_by["user"], run_by["group"])
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        server = cls(programs, directory, port, durable)
        server._run("initdb", "-D", str(directory / "data"), "-U", "treadle", "-A", "trust", "-E", "UTF8", "--no-sync")
        server.start()
        return server

    @property
    def url(self) -> str:
        return f"postgres://treadle@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 200,
            **({} if self.durable else {"fsync": "off", "full_page_writes": "off"}),
        }
        options = " ".join([f"-c {name}='{value}'" for name, value in settings.items()])
        self._run(
            "pg_ctl",
            "-D",
            str(self.directory / "data"),
            "-w",
            "-l",
            str(self.directory / "log"),
            "-o",
            options,
            "start",
        )

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop it: ``fast`` ends what is connected, ``immediate`` is as if it were killed."""
        self._run("pg_ctl", "-D", str(self.directory / "data"), "-w", "-m", mode, "stop")

    def remove(self) -> None:
        """Stop it and take its data away."""
        try:
            self.stop("immediate")
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def connect(self, schema: str = "public") -> Any:
        """A connection in autocommit mode; statements are made of any text."""
        return psycopg.connect(self.url, autocommit=True, options=f"-c search_path={schema}")

    def _run(self, program: str, *words: str) -> None:
        told = subprocess.run(
            [str(self.programs / program), *words],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # the server inherits it: a pipe would never end
            stderr=subprocess.STDOUT,
            check=False,
            timeout=120,
            **nobody(),
        )
        log = self.directory / "log"
        assert told.returncode == 0, f"{program} failed: {log.read_text()[-2_000:] if log.exists() else told}"
