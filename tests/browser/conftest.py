from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Imported only now: where playwright is not installed, the tests that need it are skipped.
    from playwright.sync_api import sync_playwright

    from tests.browser.pages import CHROMIUM, launch

    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright, launch(playwright) as browser:
        yield browser
