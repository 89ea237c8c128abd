"""Pictures of the page, to look at: `python -m tests.browser.screenshots URL FOLDER`, with a server running."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, sync_playwright

from tests.browser.pages import launch, opened, until

WIDE = {"width": 1200, "height": 900}
PHONE = {"width": 390, "height": 844}
LOAD = """() => {
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ text: "A crowd of others asks for speech too.", voice: "am_adam" });
    for (let i = 0; i < 20; i += 1) fetch("tts", { method: "POST", headers, body });
}"""


def picture(browser: Browser, url: str, file: Path, scheme: Literal["light", "dark"], size: dict[str, int]) -> None:
    page = browser.new_page(
        viewport={"width": size["width"], "height": size["height"]},
        color_scheme=scheme,
        device_scale_factor=2,
        is_mobile=size is PHONE,
        has_touch=size is PHONE,
    )
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
    page.close()


def main(url: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for scheme in ("light", "dark"):
            picture(browser, url, folder / f"wide-{scheme}.png", scheme, WIDE)
            picture(browser, url, folder / f"phone-{scheme}.png", scheme, PHONE)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
