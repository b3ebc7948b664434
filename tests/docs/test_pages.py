"""Every page does what it says: its code runs and prints what is shown, its commands are ones that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, PageFault, blocks_of, run_page

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("```python\n1 / 0\n```", "ZeroDivisionError"),
        ("```python\nawait nothing()\n```", "NameError"),
        ("```python\nprint(1)\n```\n\n<!-- prints -->\n```text\n2\n```", "it prints\n1"),
        ("```sh\nfalse\n```", "exit status 1"),
        ("```sh\ntreadle run --no-such-option\n```", "no-such-option"),
        ("<!-- not run: it needs a server -->\n```sh\ntreadle run --no-such-option\n```", "no-such-option"),
        ("<!-- not run: it needs a server -->\n```python\ndef:\n```", "SyntaxError"),
        ("<!-- not run -->\n```python\npass\n```", "the reason is missing"),
        ("```toml\n[\n```", "TOMLDecodeError"),
        ("```json\n{\n```", "JSONDecodeError"),
        ("```jsn\n{}\n```", "what is 'jsn'?"),
    ],
)
def test_a_page_that_says_what_is_not_so_is_noticed(text: str, told: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(PageFault, match=r"page\.md:\d+: ") as caught:
        run_page(page, tmp_path)
    assert told in str(caught.value)


def test_what_stands_around_a_block_is_run_with_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- before:\nimport trio\n-->\n<!-- within: async with trio.open_nursery() as nursery: -->\n"
        "```python\nprint(type(nursery).__name__)\nfirst = 1\n```\n\n<!-- prints -->\n```text\nNur…\n```\n\n"
        "<!-- file: mine.py -->\n```python\nx = 7\n```\n\n"
        "```python\nimport mine\nprint(first)\nprint('between')\nprint(mine.x)\n```\n\n"
        "<!-- prints -->\n```text\n1\n…\n7\n```\n",
        encoding="utf-8",
    )
    run_page(page, tmp_path)
    assert [block.language for block in blocks_of(page.read_text(encoding="utf-8"))] == [
        "python",
        "text",
        "python",
        "python",
        "text",
    ]
