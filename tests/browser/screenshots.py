"""Pictures of the page, to look at: `python -m tests.browser.screenshots URL FOLDER`, with a server running."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.books import small_book
from tests.browser.pages import PATIENCE, launch, opened, until
from tests.longform.books import library

WIDE = {"width": 1200, "height": 900}
PHONE = {"width": 390, "height": 844}
EPUB = "application/epub+zip"
LOAD = """() => {
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ text: "A crowd of others asks for speech too.", voice: "am_adam" });
    for (let i = 0; i < 20; i += 1) fetch("tts", { method: "POST", headers, body });
}"""


def picture_text(page: Page, url: str, file: Path) -> None:
    opened(page, url)
    page.get_by_label("Blend with another voice").check()
    page.screenshot(path=file.with_stem(f"{file.stem}-idle"), full_page=True)
    page.get_by_role("button", name="Speak").click()
    until(page, "window.kokoro.state.samples > 72000 && CSS.highlights.size")
    page.evaluate(LOAD)
    page.wait_for_timeout(2500)
    page.screenshot(path=file.with_stem(f"{file.stem}-speaking"), full_page=True)
    page.get_by_label("Text to speak").fill("A pause [pause:99s] that is too long.")
    page.keyboard.press("Control+Enter")
    page.get_by_role("alert").wait_for()
    page.screenshot(path=file.with_stem(f"{file.stem}-error"), full_page=True)


def picture_book(page: Page, url: str, file: Path) -> None:
    """The tab for books: before, with what is in a book, while it is made and listened to, and afterwards."""
    opened(page, f"{url}/#book")
    page.screenshot(path=file.with_stem(f"{file.stem}-book"), full_page=True)
    page.set_input_files("#book-file", {"name": "alice.epub", "mimeType": EPUB, "buffer": library.alice()})
    page.get_by_text("Voices of characters").click()
    page.screenshot(path=file.with_stem(f"{file.stem}-book-preview"), full_page=True)
    page.get_by_role("button", name="Make audiobook").click()
    job = page.locator(".job").first
    job.locator("li.done").first.wait_for()
    job.get_by_role("button", name="Play").first.click()
    until(page, "document.querySelector('#listening audio').duration > 0")
    page.screenshot(path=file.with_stem(f"{file.stem}-book-progress"))
    delete(page)
    page.set_input_files("#book-file", {"name": "holes.epub", "mimeType": EPUB, "buffer": small_book()})
    page.locator(".plan").get_by_label("Subtitles").select_option("srt")
    page.get_by_role("button", name="Make audiobook").click()
    job.locator(".file").first.wait_for()
    page.screenshot(path=file.with_stem(f"{file.stem}-book-done"), full_page=True)
    delete(page)


def delete(page: Page) -> None:
    job = page.locator(".job").first
    job.get_by_role("button", name="Delete").click()
    job.get_by_role("button", name="Delete it").click()
    job.wait_for(state="detached")


def new_page(browser: Browser, scheme: Literal["light", "dark"], size: dict[str, int]) -> Page:
    page = browser.new_page(
        viewport={"width": size["width"], "height": size["height"]},
        color_scheme=scheme,
        device_scale_factor=2,
        is_mobile=size is PHONE,
        has_touch=size is PHONE,
    )
    page.set_default_timeout(1000 * PATIENCE)
    return page


def main(url: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for scheme, (name, size) in product(schemes, {"wide": WIDE, "phone": PHONE}.items()):
            for picture in (picture_text, picture_book):
                with new_page(browser, scheme, size) as page:
                    picture(page, url, folder / f"{name}-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
