"""One Chromium for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.diagrams.browser import Browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with Browser() as made:
        yield made
