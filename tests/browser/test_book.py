"""The page's Book tab in a real browser, against a real server."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.browser.books import small_book
from tests.browser.pages import Watch, new_context, opened, until
from tests.servers import Server

pytestmark = pytest.mark.browser

DROP = """([name, content]) => {
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([bytes], name));
    const target = document.querySelector("main");
    for (const kind of ["dragenter", "dragover", "drop"]) {
        target.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
    }
}"""
PLAYED = "document.querySelector('#listening audio').currentTime > 0"
DURATION = "document.querySelector('#listening audio').duration > 0"


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with new_context(browser) as context:
        yield context


@pytest.fixture
def page(context: BrowserContext, tiny_server: Server) -> Iterator[Page]:
    """The tab, which at the end must have asked its server alone."""
    page = context.new_page()
    watch = Watch(page)
    yield opened(page, f"{tiny_server.url}/#book")
    assert watch.outside(tiny_server.url) == []


def drop(page: Page, name: str, content: bytes) -> None:
    page.evaluate(DROP, [name, base64.b64encode(content).decode()])


def choose(page: Page, name: str, content: bytes = b"x") -> None:
    page.set_input_files("#book-file", {"name": name, "mimeType": "application/octet-stream", "buffer": content})


def test_a_book_becomes_an_audiobook(page: Page, tmp_path: Path) -> None:
    watch = Watch(page)
    drop(page, "holes.epub", small_book())
    plan = page.locator(".plan")
    expect(plan.get_by_role("heading")).to_have_text("Holes & Rabbits")
    expect(plan.locator(".byline")).to_have_text("by Nobody")
    expect(plan.locator(".facts")).to_contain_text("3 chapters, about ")
    expect(plan.locator(".remarks")).to_contain_text("Not read: 1 footnote")
    plan.get_by_role("button", name="None").click()
    plan.get_by_role("button", name="Make audiobook").click()
    expect(plan.get_by_role("alert")).to_have_text("Choose at least one chapter.")
    for number in (0, 1):
        plan.get_by_role("checkbox").nth(number).check()
    expect(plan.locator(".facts")).to_contain_text("2 of 3 chapters")
    plan.get_by_label("Voice", exact=True).select_option("bf_emma")
    plan.get_by_text("Voices of characters").click()
    plan.get_by_label("Voice of Alice").select_option("af_bella")
    plan.get_by_label("Subtitles").select_option("srt")
    plan.get_by_role("button", name="Make audiobook").click()

    job = page.locator(".job")
    expect(job.get_by_role("heading")).to_have_text("Holes & Rabbits")
    expect(plan).to_have_count(0)
    expect(job.locator(".state")).to_contain_text("Ready")
    expect(job.locator("li.done")).to_have_count(2)
    page.evaluate("document.querySelector('#listening audio').loop = true")  # however late the next button is pressed
    with page.expect_response("**/chapters/2?*"):  # before it is its turn
        job.get_by_role("button", name="Play").first.click()
        until(page, PLAYED)
    until(page, DURATION)
    expect(job.locator("li[aria-current]")).to_have_count(1)
    page.locator("#listening").get_by_role("button", name="Next").click()
    expect(page.locator("#listening audio")).to_have_attribute("src", re.compile("blob:"))
    until(page, PLAYED)
    page.locator("#listening").get_by_role("button", name="Close").click()

    with page.expect_download() as downloading:
        job.get_by_role("link", name=".m4b").click()
    file = tmp_path / downloading.value.suggested_filename
    downloading.value.save_as(file)
    assert file.suffix == ".m4b"
    assert file.read_bytes()[4:8] == b"ftyp"
    expect(job.get_by_role("link", name=".srt")).to_be_visible()

    page.reload()
    expect(job.locator(".state")).to_contain_text("Ready")
    job.locator("summary").click()
    expect(job.get_by_role("button", name="Play")).to_have_count(2)
    job.get_by_role("button", name="Delete").click()
    job.get_by_role("button", name="Keep it").click()
    job.get_by_role("button", name="Delete").click()
    job.get_by_role("button", name="Delete it").click()
    expect(job).to_have_count(0)
    page.reload()
    expect(page.locator("#voice option")).not_to_have_count(0)
    expect(page.locator("#jobs")).to_be_hidden()
    assert watch.complaints == []


def test_a_list_becomes_files(page: Page) -> None:
    lines = "".join(json.dumps({"id": f"line{i}", "text": "Hello."}) + "\n" for i in range(3))
    choose(page, "lines.jsonl", lines.encode())
    plan = page.locator(".plan")
    expect(plan.locator(".facts")).to_have_text("3 lines, 18 characters")
    expect(plan.get_by_label("Voice for dialogue")).to_be_hidden()
    plan.get_by_label("Format").select_option("mp3")
    plan.get_by_role("button", name="Make audio").click()
    job = page.locator(".job")
    expect(job.locator(".state")).to_contain_text("3 of 3 lines")
    expect(job.locator(".file")).not_to_have_count(0)
    job.get_by_role("button", name="Delete").click()
    job.get_by_role("button", name="Delete it").click()
    expect(job).to_have_count(0)


def test_what_cannot_be_read_is_told(page: Page) -> None:
    choose(page, "broken.epub", b"PK\x03\x04 but no more than that")
    expect(page.get_by_role("alert")).to_contain_text("broken.epub")
    choose(page, "picture.png")
    expect(page.get_by_role("alert")).to_contain_text(".epub")
    choose(page, "fine.txt", b"Chapter 1\n\nIt was late.")
    expect(page.locator(".plan")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_tabs_by_keyboard_and_address(page: Page, tiny_server: Server) -> None:
    page.get_by_role("tab", name="Book").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Text")).to_be_focused()
    expect(page.get_by_label("Text to speak")).to_be_visible()
    expect(page).to_have_url(f"{tiny_server.url}/#text")
    page.keyboard.press("End")
    expect(page.get_by_role("tabpanel", name="Book")).to_be_visible()
    expect(page.get_by_label("Text to speak")).to_be_hidden()
    page.go_back()
    expect(page.get_by_role("tab", name="Text")).to_have_attribute("aria-selected", "true")


def preview(chapters: int = 2, title: str = "A book") -> dict[str, Any]:
    made = [
        {"number": i + 1, "title": f"Chapter {i + 1} of it", "level": 1 + i % 5, "characters": 900, "seconds": 60.0}
        for i in range(chapters)
    ]
    book = {"kind": "book", "name": "a.epub", "title": title, "author": None, "language": "en", "chapters": made}
    told = {"remarks": [], "notes": [], "omissions": {"footnote": 1, "table of contents": 2}, "speakers": []}
    return book | told | {"characters": 900 * chapters, "seconds": 60.0 * chapters}


def job(*done: bool, state: str = "running") -> dict[str, Any]:
    chapters = [
        {"number": i + 1, "title": f"Part {i + 1}", "level": 1, "characters": 9, "done": each, "start": None}
        for i, each in enumerate(done)
    ]
    progress = {"phase": "speaking", "fraction": sum(done) / len(done), "seconds_left": 90.0, "audio_seconds": 1.0}
    known = {"id": "j1", "kind": "book", "name": "a.epub", "title": "A book", "author": "Somebody", "state": state}
    return known | {
        "created": "2026-11-16T12:00:00Z",
        "progress": progress,
        "chapters": chapters,
        "remarks": [],
        "notes": [],
        "result": None,
    }


def silence() -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(12_000, np.int16), 24_000, format="WAV")
    return file.getvalue()


def test_a_refusal_stands_beside_its_field(page: Page) -> None:
    answers = [
        (422, {}, {"code": "invalid", "message": "speed: it is too much", "field": "speed"}),
        (429, {"Retry-After": "7"}, {"code": "busy", "message": "you have 4 jobs", "field": None}),
        (413, {}, {"code": "body_too_large", "message": "it is over 9 MiB", "field": None}),
    ]

    def refuse(route: Route) -> None:
        status, headers, error = answers.pop(0)
        route.fulfill(status=status, headers=headers, json={"error": error})

    page.route("**/jobs/preview", lambda route: route.fulfill(json=preview()))
    choose(page, "a.epub")
    page.route("**/jobs", refuse)
    make = page.get_by_role("button", name="Make audiobook")
    make.click()
    expect(page.locator("[data-field=speed] .error")).to_have_text("speed: it is too much.")
    expect(page.locator(".plan").get_by_label("Speed")).to_be_focused()
    make.click()
    expect(page.get_by_role("alert")).to_have_text("You have 4 jobs. Try again in 7 s.")
    make.click()
    expect(page.get_by_role("alert")).to_have_text("It is over 9 MiB.")


def test_a_server_that_keeps_no_jobs(context: BrowserContext, tiny_server: Server) -> None:
    page = context.new_page()
    error = {"code": "forbidden", "message": "this server keeps no jobs: set JOBS_PATH", "field": None}
    page.route("**/jobs", lambda route: route.fulfill(status=403, json={"error": error}))
    opened(page, f"{tiny_server.url}/#book")
    expect(page.get_by_role("alert")).to_have_text("This server keeps no jobs: set JOBS_PATH.")
    expect(page.locator(".drop")).to_be_hidden()


def test_chapters_are_heard_while_others_are_made_over_broken_connections(page: Page, tiny_server: Server) -> None:
    """A chapter that is waited for is played when it comes, though the connection was lost before."""
    told = [job(True, False), job(True, False), job(True, True)]
    wanted: list[str] = []

    def events(route: Route) -> None:
        route.fulfill(body=f": hello\n\nevent: job\ndata: {json.dumps(told[0])}\n\n", content_type="text/event-stream")

    def chapter(route: Route) -> None:
        wanted.append(route.request.url)
        route.fulfill(body=silence(), content_type="audio/wav")

    page.route("**/jobs", lambda route: route.fulfill(json={"jobs": [told[0] | {"chapters": None}]}))
    page.route("**/jobs/j1", lambda route: route.fulfill(json=told[0]))
    page.route("**/jobs/j1/events", events)
    page.route("**/jobs/j1/chapters/*", chapter)
    page.reload()
    expect(page.locator(".job .state")).to_have_text("Speaking · 50 % · about 2 min left")
    expect(page.get_by_role("button", name="Play Part 2")).to_be_disabled()
    page.get_by_role("button", name="Play Part 1").click()
    expect(page.locator("#listening .state")).to_contain_text("as soon as it is ready")
    expect(page.get_by_text("The connection to the server is lost.")).to_be_visible()
    del told[:2]
    expect(page.locator("#listening .title")).to_have_text("Part 2")
    until(page, f"{DURATION} && {PLAYED}")
    assert [re.findall(r"chapters/(\d)", url)[0] for url in wanted] == ["1", "2"]


def test_fits_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    title = "<b>A very long title</b> of AnUnbrokenWordThatIsWiderThanThePhoneItIsReadOn" * 3
    page.route("**/jobs/preview", lambda route: route.fulfill(json=preview(300, title)))
    choose(page, "a.epub")
    expect(page.locator(".plan h2")).to_have_text(title)
    expect(page.locator(".plan").get_by_role("checkbox", checked=True)).to_have_count(300)
    expect(page.locator(".plan .remarks")).to_have_text("Not read: 1 footnote, 2 tables of contents.")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_job_that_failed_goes_on_when_it_is_told_to(page: Page) -> None:
    error = {"code": "disk_full", "message": "the disk is full: 3 MB are left", "field": None}
    failed = job(True, False, state="failed") | {"error": error}
    resumed = job(True, True, state="done") | {"error": None, "result": {"seconds": 3.0, "files": []}}
    page.route("**/jobs", lambda route: route.fulfill(json={"jobs": [failed | {"chapters": None}]}))
    page.route("**/jobs/j1/resume", lambda route: route.fulfill(status=202, json=resumed))
    page.reload()
    expect(page.locator(".job > .error")).to_have_text(["The disk is full: 3 MB are left.", ""])
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".job .state")).to_have_text("Ready · 0:03")
    expect(page.locator(".job > .error")).to_have_text(["", ""])
    expect(page.get_by_role("button", name="Resume")).to_be_hidden()
