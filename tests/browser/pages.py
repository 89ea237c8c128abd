"""A Chromium, Debian's or any other on the PATH, and the page in it."""

from __future__ import annotations

import shutil
import time
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, expect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--mute-audio",
    "--no-first-run",
    "--no-sandbox",
]
PATIENCE = 240  # seconds; a busy machine may take minutes for what others do in a moment


class Watch:
    """What a page should not do: complain to its console, or ask anyone but its server."""

    def __init__(self, page: Page) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def outside(self, url: str) -> list[str]:
        ours = {urlsplit(url).netloc, ""}  # blob: has none
        return [asked for asked in self.requests if urlsplit(asked).netloc not in ours]


def launch(playwright: Playwright) -> Browser:
    expect.set_options(timeout=1000 * PATIENCE)
    return playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)


def opened(page: Page, url: str) -> Page:
    """`page`, showing ours and ready for use."""
    page.goto(url)
    page.wait_for_selector("#voice option", state="attached")
    return page


def until(page: Page, expression: str) -> None:
    """Wait for something to be so. Playwright's own way needs `eval`, which the page's policy forbids."""
    deadline = time.monotonic() + PATIENCE
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"not so within {PATIENCE} s: {expression}"
        page.wait_for_timeout(20)


def new_context(browser: Browser) -> BrowserContext:
    made = browser.new_context(viewport={"width": 1200, "height": 900})
    made.set_default_timeout(1000 * PATIENCE)
    return made
