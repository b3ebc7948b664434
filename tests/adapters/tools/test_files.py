"""Tools for files: what they do in their folder, what is asked first, and that nothing leads out."""

from __future__ import annotations

import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from tests.adapters.tools.stage import staged
from treadle import Host, MisuseError
from treadle_adapters.tools import Folder, LocalTools, NoSuchFile, OutsideFolder
from treadle_adapters.tools.files import read_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder beside a secret."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (inside / "a.txt").write_text("one\ntwo\nthree\n")
    (inside / "sub" / "b.py").write_text("print('two')\n")
    return inside


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


async def test_files_are_read_listed_and_searched_without_asking(folder: Path) -> None:
    async with staged(folder) as stage:
        assert await stage.told("read_file", path="a.txt") == "     1  one\n     2  two\n     3  three"
        assert await stage.told("read_file", path="a.txt", first_line=2, lines=1) == "     2  two\n[lines 2 to 2 of 3]"
        assert await stage.told("list_files") == "a.txt\nsub/"
        assert await stage.told("list_files", depth=2) == "a.txt\nsub/\nsub/b.py"
        assert await stage.told("search_files", text="two") == "a.txt:2: two\nsub/b.py:1: print('two')"
        assert (
            await stage.told("search_files", text="TWO", names="*.py", ignore_case=True) == "sub/b.py:1: print('two')"
        )
        assert await stage.told("search_files", text="two", path="sub") == "sub/b.py:1: print('two')"
        assert await stage.told("search_files", text="nine") == "(found nowhere)"
        assert stage.asked == []


async def test_a_change_is_shown_to_whoever_approves_it(folder: Path) -> None:
    (folder / "a.txt").chmod(0o640)
    async with staged(folder) as stage:
        assert "-two\n+TWO" in await stage.told("edit_file", path="a.txt", old="two", new="TWO")
        assert await stage.told("write_file", path="sub/new.txt", content="hi\n") == "wrote sub/new.txt: 3 bytes"
        assert await stage.told("write_file", path="a.txt", content="all new\n") == "wrote a.txt: 8 bytes"
        edit, new, over = stage.asked
        assert "may a.txt be changed?" in edit
        assert "-two\n+TWO" in edit
        assert "may sub/new.txt be written?" in new
        assert "+hi" in new
        assert "may a.txt be written over?" in over
        assert "-three\n+all new" in over
    assert (folder / "a.txt").read_text() == "all new\n"
    assert mode(folder / "a.txt") == 0o640
    assert names(folder) == [
        "a.txt",
        "b.py",
        "new.txt",
        "sub",
    ]


async def test_what_is_not_approved_is_not_done(folder: Path) -> None:
    async with staged(folder, approve=False) as stage:
        assert (await stage.told("edit_file", path="a.txt", old="two", new="2")).startswith("NOT_APPROVED: ")
        assert (await stage.told("write_file", path="new", content="")).startswith("NOT_APPROVED: ")
    assert (folder / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert not (folder / "new").exists()


async def test_an_edit_that_does_not_fit_is_not_asked_about(folder: Path) -> None:
    (folder / "twice").write_text("x x")
    async with staged(folder) as stage:
        assert (await stage.told("edit_file", path="a.txt", old="four", new="4")).startswith("TOOL_EDIT_MISFIT: ")
        assert (await stage.told("edit_file", path="twice", old="x", new="y")).startswith("TOOL_EDIT_MISFIT: ")
        assert (await stage.told("edit_file", path="gone", old="x", new="y")).startswith("TOOL_NO_SUCH_FILE: ")
        assert stage.asked == []
        await stage.told("edit_file", path="twice", old="x", new="y", every=True)
    assert (folder / "twice").read_text() == "y y"


@pytest.mark.parametrize(("asks", "count"), [("never", 0), ("always", 2), ("changes", 1)])
async def test_who_attaches_the_tools_decides_what_is_asked(folder: Path, asks: str, count: int) -> None:
    async with staged(folder, asks=asks) as stage:
        await stage.told("read_file", path="a.txt")
        await stage.told("write_file", path="new", content="")
        assert len(stage.asked) == count


ESCAPES = [
    "../secret",
    "sub/../../secret",
    "/etc/passwd",
    "link",
    "up/secret",
    "absolute/secret",
    "chain1",
    "round",
    "sub/../up/secret",
    "a.txt/../../secret",
    "new\nline",
    "nul\0",
    "\u202etxt",
    "x" * 5_000,
    "~/.ssh/id_rsa",
    "",
    ".",
    "device",
    "pipe",
    "socket",
    "sub",
]


@pytest.fixture
def trapped(folder: Path) -> Path:
    """A folder full of ways out."""
    (folder / "link").symlink_to("../secret")
    (folder / "up").symlink_to("..")
    (folder / "absolute").symlink_to(folder.parent / "outside")
    (folder / "chain1").symlink_to("chain2")
    (folder / "chain2").symlink_to("sub/../up/secret")
    (folder / "round").symlink_to("round")
    (folder / "new\nline").write_text("hidden")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(folder)  # a socket's path has few characters
        made.bind("socket")
        os.chdir(here)
    if os.geteuid() == 0:
        os.mknod(folder / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    return folder


@pytest.mark.parametrize("path", ESCAPES, ids=lambda path: ascii(path)[:20])
async def test_nothing_leads_out_and_only_plain_files_are_opened(trapped: Path, path: str) -> None:
    before = {one: one.lstat().st_mtime_ns for one in trapped.parent.rglob("*")}
    async with staged(trapped) as stage:
        for told in (
            await stage.told("read_file", path=path),
            await stage.told("edit_file", path=path, old="secret", new="x"),
            await stage.told("write_file", path=path, content="x"),
        ):
            assert told.startswith(("TOOL_OUTSIDE_FOLDER: ", "TOOL_NO_SUCH_FILE: ")), told
        assert stage.asked == []
    assert (trapped.parent / "secret").read_text() == "secret"
    assert {one: one.lstat().st_mtime_ns for one in trapped.parent.rglob("*")} == before


@pytest.mark.parametrize("path", ["..", "up", "absolute", "/", "/etc", "round"])
async def test_no_folder_outside_is_listed_or_searched(trapped: Path, path: str) -> None:
    async with staged(trapped) as stage:
        for told in (
            await stage.told("list_files", path=path),
            await stage.told("search_files", text="secret", path=path),
        ):
            assert told.startswith(("TOOL_OUTSIDE_FOLDER: ", "TOOL_NO_SUCH_FILE: ")), told


async def test_a_listing_names_links_and_goes_into_none(trapped: Path) -> None:
    async with staged(trapped) as stage:
        told = (await stage.told("list_files", depth=5)).splitlines()
        assert "up (a link)" in told
        assert repr("new\nline") in told
        assert not [line for line in told if "secret" in line]
        assert await stage.told("search_files", text="secret") == "(found nowhere)"


def test_links_and_dots_that_stay_inside_are_followed(folder: Path) -> None:
    (folder / "inner").symlink_to("sub/b.py")
    (folder / "sub" / "back").symlink_to("../a.txt")
    found = Folder(folder)
    assert read_text(found, "inner") == "print('two')\n"
    assert read_text(found, "sub/back") == read_text(found, "sub/../a.txt") == read_text(found, str(folder / "a.txt"))
    assert found.written("inner", b"changed") == "sub/b.py"
    assert (folder / "inner").is_symlink()
    assert (folder / "sub" / "b.py").read_text() == "changed"


def test_whoever_exchanges_folders_and_links_meanwhile_gains_nothing(folder: Path) -> None:
    """A thread makes ``sub`` a folder and a link to the outside in turns, while files in it are read and written."""
    (folder / "sub" / "secret").write_text("harmless")
    (folder / "way out").symlink_to("../outside")
    found, stop = Folder(folder), threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            (folder / "sub").rename(folder / "kept")
            (folder / "way out").rename(folder / "sub")
            (folder / "sub").rename(folder / "way out")
            (folder / "kept").rename(folder / "sub")

    thread = threading.Thread(target=exchange)
    thread.start()
    seen: set[str] = set()
    try:
        for _ in range(2_000):
            try:
                seen.add(read_text(found, "sub/secret"))
                found.written("sub/secret", b"harmless")
            except (OutsideFolder, NoSuchFile):
                seen.add("refused")
    finally:
        stop.set()
        thread.join()
    assert "harmless" in seen
    assert seen <= {"harmless", "refused"}
    assert (folder.parent / "outside" / "secret").read_text() == "secret"


async def test_what_is_no_text_or_too_large_is_refused(folder: Path) -> None:
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    (folder / "nul").write_bytes(b"a\0b")
    with (folder / "huge").open("wb") as file:
        file.truncate(50_000_000)
    async with staged(folder) as stage:
        for name in ("binary", "nul", "huge"):
            assert (await stage.told("read_file", path=name)).startswith("TOOL_NOT_TEXT: ")
        assert await stage.told("search_files", text="a", names="nul") == "(found nowhere)"


def test_a_folder_and_kinds_are_checked(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="no folder"):
        LocalTools(tmp_path / "gone")
    with pytest.raises(MisuseError, match="not web"):
        LocalTools(tmp_path, ["web"])


async def test_tools_that_cannot_all_be_attached_are_not_attached_at_all(tmp_path: Path) -> None:
    async with Host() as host:
        detach = LocalTools(tmp_path, ["shell"]).attach(host)
        with pytest.raises(MisuseError, match="already"):
            LocalTools(tmp_path).attach(host)
        assert [tool.name for tool in host.tools.list()] == ["run_command"]
        detach()
        detach()
        assert host.tools.list() == ()
