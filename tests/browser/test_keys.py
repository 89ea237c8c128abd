"""Pages in a real browser before a server that asks for keys, and pages of other origins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests import servers
from tests.browser.pages import PATIENCE, Watch, new_context, until
from tests.servers import Server

pytestmark = pytest.mark.browser

KEY = "alices-secret-key"
ENDED = "window.kokoro.state.phase === 'finished'"
OPEN_SOCKET = """([url, key]) => new Promise((resolve) => {
    const encoded = btoa(key).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    const socket = new WebSocket(url, ["kokoro", `key.${encoded}`]);
    socket.onmessage = ({ data }) => resolve(`${socket.protocol} ${JSON.parse(data).type}`);
    socket.onerror = () => resolve("refused");
})"""
FETCH_VOICES = """([url, key]) => fetch(url, { headers: { Authorization: `Bearer ${key}` } })
    .then((answer) => answer.headers.get("x-request-id") ? `${answer.status}` : "no id", () => "refused")"""

# What a page of another origin does with OpenAI's API: it fetches speech, decodes it and plays it.
SPEAK = """async ([url, key]) => {
    const body = JSON.stringify({ model: "kokoro", voice: "af_heart", input: "Hello from another page." });
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    try {
        const answer = await fetch(`${url}/v1/audio/speech`, { method: "POST", headers, body });
        const audio = new AudioContext();
        const clip = await audio.decodeAudioData(await answer.arrayBuffer());
        const source = new AudioBufferSourceNode(audio, { buffer: clip });
        source.connect(audio.destination);
        await new Promise((resolve) => { source.onended = resolve; source.start(); });
        return clip.getChannelData(0).some((sample) => Math.abs(sample) > 0.001) ? "heard" : "silence";
    } catch (error) {
        return error instanceof TypeError ? "refused" : `${error}`;
    }
}"""


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with new_context(browser) as context:
        yield context


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, shared_g2p: str) -> Iterator[Server]:
    """It takes requests from pages of https://listed.example too."""
    environ = {"API_KEYS": f"alice={KEY}", "CORS_ORIGINS": "https://listed.example", "G2P_SERVICE_URL": shared_g2p}
    with servers.running(servers.TINY, tmp_path_factory.mktemp("locked") / "log", **environ) as server:
        yield server


def give(page: Page, key: str) -> None:
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Use it").click()


def test_the_page_asks_for_a_key_until_it_has_one_and_keeps_it(context: BrowserContext, locked: Server) -> None:
    page = context.new_page()
    watch = Watch(page)
    page.goto(locked.url)
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.locator("#batcher-state")).to_have_text("asks for a key")
    give(page, "not-the-secret-key")
    expect(page.get_by_role("alert").filter(has_text="does not take")).to_be_visible()
    give(page, KEY)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#voice option")).not_to_have_count(0)
    expect(page.locator("#batcher-state")).to_have_text("healthy")
    page.get_by_label("Text to speak").fill("Hello.")
    page.get_by_role("button", name="Speak").click()
    until(page, ENDED)
    with page.expect_download() as download:
        page.get_by_role("button", name="WAV").click()
    assert download.value.suggested_filename.endswith(".wav")
    page.reload()
    expect(page.locator("#voice option")).not_to_have_count(0)
    assert all("401" in complaint for complaint in watch.complaints), watch.complaints
    assert not any(KEY in url for url in watch.requests)


def test_whoever_declines_is_asked_again_when_they_speak(context: BrowserContext, locked: Server) -> None:
    page = context.new_page()
    page.goto(locked.url)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#error")).to_contain_text("needs an API key")
    page.wait_for_timeout(2500)  # in which the queue's state would be asked for twice
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_label("Text to speak").fill("Hello.")
    page.get_by_role("button", name="Speak").click()
    give(page, KEY)
    until(page, ENDED)


def test_a_book_is_made_and_fetched_with_the_key(context: BrowserContext, locked: Server) -> None:
    page = context.new_page()
    watch = Watch(page)
    page.goto(f"{locked.url}/#book")
    give(page, KEY)
    book = {"name": "note.txt", "mimeType": "text/plain", "buffer": b"It was late."}
    page.set_input_files("#book-file", book)
    page.get_by_role("button", name="Make audiobook").click()
    page.get_by_role("button", name="Play").click(timeout=1000 * PATIENCE)
    until(page, "document.querySelector('#listening audio').duration > 0")
    with page.expect_download() as download:
        page.get_by_role("link", name=".m4b").click()
    assert download.value.suggested_filename == "note.m4b"
    assert Path(download.value.path()).read_bytes()[4:8] == b"ftyp"
    page.reload()
    expect(page.get_by_role("link", name=".m4b")).to_be_visible()
    assert not any(KEY in url for url in watch.requests)


def test_a_page_opens_a_websocket_with_a_key(context: BrowserContext, locked: Server) -> None:
    page = context.new_page()
    page.goto(f"{locked.url}/docs")
    url = locked.url.replace("http", "ws") + "/tts/ws"
    assert page.evaluate(OPEN_SOCKET, [url, KEY]) == "kokoro ready"
    assert page.evaluate(OPEN_SOCKET, [url, "not-the-secret-key"]) == "refused"


@pytest.mark.parametrize(("origin", "allowed"), [("https://listed.example", True), ("https://other.example", False)])
def test_pages_of_other_origins(context: BrowserContext, locked: Server, origin: str, allowed: bool) -> None:
    context.grant_permissions(["local-network-access"], origin=origin)  # or Chromium would ask before 127.0.0.1
    page = context.new_page()
    page.route(f"{origin}/", lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
    page.goto(f"{origin}/")
    socket = page.evaluate(OPEN_SOCKET, [locked.url.replace("http", "ws") + "/tts/ws", KEY])
    assert socket == ("kokoro ready" if allowed else "refused")
    assert page.evaluate(FETCH_VOICES, [f"{locked.url}/voices", KEY]) == ("200" if allowed else "refused")
    assert page.evaluate(SPEAK, [locked.url, KEY]) == ("heard" if allowed else "refused")


def test_the_documentation_is_all_our_own_and_can_be_tried(context: BrowserContext, tiny_server: Server) -> None:
    page = context.new_page()
    watch = Watch(page)
    page.goto(f"{tiny_server.url}/docs")
    for path in ("/tts", "/tts/stream", "/v1/audio/speech", "/health", "/tts/ws"):
        expect(page.locator("summary > code", has_text=path).first).to_be_visible()
    page.locator("summary", has=page.get_by_text("/tts", exact=True)).first.click()
    expect(page.get_by_text("number from 0.25 to 4; default 1")).to_be_visible()
    expect(page.locator("pre").first).to_contain_text(f"curl {tiny_server.url}/tts")
    page.get_by_label("Body").fill('{"text": "Hello. It\'s us.", "speed": 1.25}')
    expect(page.locator("pre").first).to_contain_text(r"It'\''s us.")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("x-audio-duration")).to_be_visible()
    until(page, "document.querySelector('audio').duration > 0")
    page.get_by_label("Body").fill('{"text": "Hello.", "speed": 99}')
    assert watch.complaints == []
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".outcome")).to_contain_text("less than or equal to 4")
    assert watch.outside(tiny_server.url) == []
