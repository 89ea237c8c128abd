"""The pictures of the documentation: `make screenshots` makes them, test_screenshots.py compares them with the page."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests import servers
from tests.browser.books import small_book
from tests.browser.pages import PATIENCE, launch, opened, until
from tests.longform.books import library

WIDTH, SCALE = 1100, 1.5
SECONDS = 3  # between the bursts of requests that the monitor shows
EPUB = "application/epub+zip"
TEXT = (
    "Dr. Ng paid $5 on 3/4/2025, from 3:30–4:30pm. The fox came back, looked at the old house for a while, "
    "and went its way. Nothing is cut, skipped or replaced by silence."
)
# Three seconds have been heard, and a word is marked.
SPEAKS = """() => {
    const seconds = Number(document.querySelector("#time").textContent.slice(2, 4));
    return window.kokoro.state.phase === "finished" || (seconds >= 3 && CSS.highlights.has("spoken"));
}"""
LOAD = """(count) => {
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ text: "Many people ask for speech at the same time.", voice: "am_adam" });
    for (let i = 0; i < count; i += 1) fetch("tts", { method: "POST", headers, body });
}"""


def speech(page: Page, url: str) -> bytes:
    """The page while a text is spoken, with the word that is heard and the words that are not said as written."""
    opened(page, url)
    page.set_viewport_size({"width": WIDTH, "height": 680})
    page.get_by_label("Text to speak").fill(TEXT)
    page.get_by_role("button", name="Speak").click()
    until(page, "window.kokoro.state.readings > 0")
    until(page, SPEAKS)
    page.evaluate("scrollTo(0, 0)")
    return page.screenshot()


def book(page: Page, url: str) -> bytes:
    """The tab Book: chapters of a file, and how they will be read."""
    opened(page, f"{url}/#book")
    page.set_viewport_size({"width": WIDTH, "height": 860})
    page.set_input_files("#book-file", {"name": "alice.epub", "mimeType": EPUB, "buffer": library.alice()})
    page.get_by_text("Voices of characters").click()
    page.get_by_role("button", name="Make audiobook").wait_for()
    return page.screenshot()


def job(page: Page, url: str) -> bytes:
    """A book that is made, with its files."""
    opened(page, f"{url}/#book")
    page.set_input_files("#book-file", {"name": "holes.epub", "mimeType": EPUB, "buffer": small_book()})
    page.locator(".plan").get_by_label("Subtitles").select_option("srt")
    page.get_by_role("button", name="Make audiobook").click()
    card = page.locator(".job").first
    card.locator(".file").first.wait_for()
    picture = card.screenshot()
    card.get_by_role("button", name="Delete").click()
    card.get_by_role("button", name="Delete it").click()
    card.wait_for(state="detached")
    return picture


def monitor(page: Page, url: str) -> bytes:
    """The queue and the devices, live."""
    opened(page, url)
    for count in (2, 5, 3, 8, 4, 6, 2, 5):
        page.evaluate(LOAD, count)
        page.wait_for_timeout(1000 * SECONDS)
    box = page.locator("section.batcher").bounding_box()
    assert box is not None
    margin = 24  # on all sides, so that the tiles do not touch the picture's edge
    clip = {
        "x": box["x"] - margin,
        "y": box["y"] - margin,
        "width": box["width"] + 2 * margin,
        "height": box["height"] + 2 * margin,
    }
    return page.screenshot(full_page=True, clip=clip)  # type: ignore[arg-type]


PICTURES: dict[str, Callable[[Page, str], bytes]] = {"speech": speech, "book": book, "job": job, "monitor": monitor}


@contextmanager
def new_page(browser: Browser) -> Iterator[Page]:
    viewport = {"width": WIDTH, "height": 800}
    with browser.new_context(viewport=viewport, color_scheme="light", device_scale_factor=SCALE) as context:  # type: ignore[arg-type]
        context.set_default_timeout(1000 * PATIENCE)
        yield context.new_page()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as temporary,
        servers.running(servers.REAL, Path(temporary, "real")) as real,
        servers.running(servers.TINY, Path(temporary, "tiny")) as tiny,
        sync_playwright() as playwright,
        launch(playwright) as browser,
    ):
        for name, picture in PICTURES.items():
            server = tiny if picture is monitor else real  # whose queue shows the load rather than a slow machine
            with new_page(browser) as page:
                (folder / f"{name}.png").write_bytes(picture(page, server.url))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
