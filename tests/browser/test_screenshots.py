"""The pictures of the documentation still show the page."""

from __future__ import annotations

import base64
import statistics
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser

from tests.browser import screenshots
from tests.browser.screenshots import PICTURES, SCALE, new_page
from tests.servers import ROOT, Server

pytestmark = pytest.mark.browser

ASSETS = ROOT / "docs" / "assets"
SMALL = 300_000  # bytes
ALIKE = 0.75  # of the ink: waveforms, curves and figures are never the same twice
CELLS = """async (pictures) => {
    const sizes = [], cells = [];
    for (const picture of pictures) {
        const image = new Image();
        image.src = "data:image/png;base64," + picture;
        await image.decode();
        sizes.push([image.width, image.height]);
        const canvas = new OffscreenCanvas(48, 36), context = canvas.getContext("2d");
        context.imageSmoothingQuality = "high";
        context.drawImage(image, 0, 0, canvas.width, canvas.height);
        const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
        const grey = (_, i) => Math.round((data[4 * i] + data[4 * i + 1] + data[4 * i + 2]) / 3);
        cells.push(Array.from({ length: data.length / 4 }, grey));
    }
    return { sizes, cells };
}"""


def compared(browser: Browser, one: bytes, other: bytes) -> tuple[list[list[int]], float]:
    """The sizes of two pictures, and how much of their ink is in the same places: from 0 to 1."""
    page = browser.new_page()
    found = page.evaluate(CELLS, [base64.b64encode(picture).decode() for picture in (one, other)])
    page.close()
    ink = [[abs(cell - statistics.mode(cells)) for cell in cells] for cells in found["cells"]]
    pairs = list(zip(*ink, strict=True))
    return found["sizes"], sum(map(min, pairs)) / sum(map(max, pairs))


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_the_page_as_it_is_now(
    browser: Browser, tiny_server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it does not: `make screenshots`, and look at them."""
    monkeypatch.setattr(screenshots, "SECONDS", 0.5)
    kept = (ASSETS / f"{name}.png").read_bytes()
    assert len(kept) < SMALL
    with new_page(browser) as page:
        shown = PICTURES[name](page, tiny_server.url)
    (before, now), alike = compared(browser, kept, shown)
    assert before[0] == now[0]
    assert abs(before[1] - now[1]) <= 60 * SCALE  # a line of text more or less
    assert alike > ALIKE


def test_another_page_is_noticed(browser: Browser) -> None:
    speech, book = ((ASSETS / f"{name}.png").read_bytes() for name in ("speech", "book"))
    assert compared(browser, speech, book)[1] < ALIKE - 0.2
    assert compared(browser, speech, speech)[1] == 1


def test_every_picture_is_made_here_and_shown_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "".join(Path(page).read_text(encoding="utf-8") for page in pages)
    found = {file.stem for file in ASSETS.glob("*.png")}
    assert found == set(PICTURES)
    assert [name for name in found if f"assets/{name}.png)" not in text] == []
