"""The page in a real browser, against a real server."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
import soundfile

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from kokoro_server.audio.formats import FORMATS
from tests import servers
from tests.audio_files import decode
from tests.browser.pages import Watch, new_context, opened, until
from tests.servers import Server, say
from tests.services.faulty import LATE_FAILURE

pytestmark = pytest.mark.browser

RATE = 24_000
FRAME = 0.025  # seconds of sound, where the clock counts frames
TEXT = "One small step for a person. It was late, and the lights were on; nobody knew why. Then they went out."
PAIR = "One small step for a person. It was late."  # two sounds
LONG = "It was late, and the lights were on; nobody knew why. Then, at last, they went out for good. " * 40
ENDED = "window.kokoro.state.phase === 'finished'"


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with new_context(browser) as context:
        context.add_init_script(path=Path(__file__).parent / "ear.js")
        yield context


@pytest.fixture
def page(context: BrowserContext, tiny_server: Server) -> Iterator[Page]:
    """The page, open and ready, which at the end must have asked its server alone and complained of nothing."""
    page = context.new_page()
    watch = Watch(page)
    yield opened(page, tiny_server.url)
    assert watch.complaints == []
    assert watch.outside(tiny_server.url) == []


@pytest.fixture
def troubled(context: BrowserContext, tiny_server: Server) -> Page:
    """The page where the browser itself may complain: it logs every response that is no success to the console."""
    return opened(context.new_page(), tiny_server.url)


def speak(page: Page, text: str) -> None:
    page.get_by_label("Text to speak").fill(text)
    page.get_by_role("button", name="Speak").click()


def heard(page: Page) -> list[dict[str, Any]]:
    sounds: list[dict[str, Any]] = page.evaluate("window.ear.sounds")
    return sounds


def count_frames(page: Page, step: float = FRAME) -> None:
    """Let the clock of the page's sound count frames, which come when the machine has time for them."""
    page.evaluate("window.ear.countFrames", step)


def words(page: Page) -> list[str]:
    marked: list[str] = page.evaluate("window.ear.words")
    return marked


def late(sounds: list[dict[str, Any]]) -> int:
    """How many sounds came after the end of the one before. Every other one must follow it to the sample."""
    found = 0
    for one, other in pairwise(sounds):
        end = round(one["when"] * RATE) + one["samples"]
        if math.ceil(other["now"] * RATE) > end:
            found += 1
        else:
            assert abs(other["when"] * RATE - end) < 1e-3
    return found


def test_speaks_the_whole_text(page: Page, tiny_server: Server) -> None:
    speak(page, TEXT)
    until(page, ENDED)
    sounds = heard(page)
    assert len(sounds) > 1
    assert page.evaluate("window.ear.contextRate") == RATE
    assert all(sound["when"] >= sound["now"] and sound["rate"] == RATE for sound in sounds)
    whole = say(tiny_server, TEXT, format="pcm", optimize_for_latency=True)  # cut as a stream is
    assert sum(sound["samples"] for sound in sounds) == len(whole.content) // 2
    state = page.evaluate("window.kokoro.state")
    assert state["gaps"] == late(sounds)
    assert state["played"] == state["scheduled"] == len(sounds)
    expect(page.get_by_role("button", name="Speak")).to_be_visible()
    expect(page.locator("#status")).to_contain_text("Finished")
    expect(page.locator("#status")).to_contain_text("first audible sound after")
    expect(page.locator("#time")).to_have_text(re.compile(r"^(0:0[1-9]|0:1\d) / \1$"))


def test_leaves_no_gap_when_all_is_there(page: Page) -> None:
    page.route("**/tts/captioned", lambda route: route.fulfill(response=route.fetch()))
    speak(page, PAIR)
    until(page, ENDED)
    assert len(heard(page)) == 2
    assert late(heard(page)) == page.evaluate("window.kokoro.state.gaps") == 0


def test_marks_each_word_as_it_is_said(page: Page) -> None:
    count_frames(page)
    speak(page, "😀 One small step. Was it late?")
    until(page, ENDED)
    said = words(page)
    assert [word.strip(".,?") for word in said if word.strip(".,?😀 ")] == ["One", "small", "step", "Was", "it", "late"]
    assert not page.evaluate('CSS.highlights.has("spoken")')


def test_a_mouth_speaks_along(page: Page, tiny_server: Server) -> None:
    count_frames(page)
    mouth = page.locator("#mouth")
    expect(mouth).to_have_attribute("data-viseme", "sil")
    page.evaluate("""() => {
        window.shapes = [];
        const mouth = document.querySelector("#mouth"), lips = mouth.querySelector("ellipse");
        const note = () => window.shapes.push([mouth.dataset.viseme, Number(lips.getAttribute("ry"))]);
        new MutationObserver(note).observe(mouth, { attributes: true, attributeFilter: ["data-viseme"] });
    }""")
    speak(page, TEXT)
    until(page, ENDED)
    seen: list[tuple[str, float]] = page.evaluate("window.shapes")
    body = {"text": TEXT, "format": "pcm", "visemes": "oculus"}
    accept = {"accept": "application/x-ndjson"}
    lines = httpx.post(f"{tiny_server.url}/tts/captioned", json=body, headers=accept, timeout=300).text.splitlines()
    sent = [each for line in lines for each in json.loads(line).get("visemes", ())]
    rest = iter(each["viseme"] for each in sent)
    assert all(shape in rest for shape, _ in seen[:-1]), "in the order in which they were sent"
    shown = iter(shape for shape, _ in seen)
    long = [one["viseme"] for one, other in pairwise(sent) if other["start"] - one["start"] > 1.01 * FRAME]
    assert all(shape in shown for shape, _ in groupby(long)), "all that last longer than a frame"
    assert {shape for shape, _ in seen} > {"sil", "aa", "PP", "nn"}
    openings = dict(seen)
    assert openings["PP"] < openings["sil"] < openings["nn"] < openings["aa"]
    expect(mouth).to_have_attribute("data-viseme", "sil")


def test_a_text_that_is_edited_meanwhile_is_not_marked(page: Page) -> None:
    speak(page, PAIR)
    until(page, "window.ear.words.length > 0")
    page.get_by_label("Text to speak").fill("Other words.")
    until(page, ENDED)
    assert not page.evaluate('CSS.highlights.has("spoken")')


def test_shows_what_is_said_in_other_words(page: Page) -> None:
    field = page.get_by_label("Text to speak")
    field.fill("😀 Dr. Ng paid $5.")
    until(page, "window.kokoro.state.readings === 3")
    assert page.evaluate("[...CSS.highlights.get('read')].map(String)") == ["😀", "Dr.", "$5"]
    expect(page.locator("#reading")).to_be_hidden()
    box = page.evaluate("[...CSS.highlights.get('read')][2].getBoundingClientRect().toJSON()")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#reading")).to_have_text("five dollars money")
    page.mouse.move(1, 1)
    expect(page.locator("#reading")).to_be_hidden()
    field.press("Home")
    for _ in range(4):
        field.press("ArrowRight")
    expect(page.locator("#reading .words")).to_have_text("Doctor")
    field.fill("Plain words.")
    expect(page.locator("#reading")).to_be_hidden()
    until(page, "window.kokoro.state.readings === 0")


def test_draws_the_waveform(page: Page) -> None:
    speak(page, "One small step.")
    until(page, ENDED)
    heights = page.evaluate(
        """() => {
            const canvas = document.querySelector("#waveform");
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const inked = (x, y) => data[4 * (y * canvas.width + x) + 3] > 0;
            const column = (x) => Array.from({ length: canvas.height }, (_, y) => inked(x, y)).filter(Boolean).length;
            return Array.from({ length: canvas.width }, (_, x) => column(x));
        }"""
    )
    assert len(set(heights)) > 8


def test_stops_at_once_and_leaves_the_server_idle(page: Page, tiny_server: Server) -> None:
    speak(page, LONG)
    until(page, "window.kokoro.state.phase === 'speaking'")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#status")).to_have_text("Stopped.")
    assert page.evaluate("window.ear.stopped") > 0
    scheduled = len(heard(page))
    until(
        page,
        """async () => {
            const { queue_status } = await (await fetch("health/batching")).json();
            return queue_status.current_size === 0 && queue_status.running_rows === 0;
        }""",
    )
    assert len(heard(page)) == scheduled
    assert not page.evaluate('CSS.highlights.has("spoken")')


def test_does_not_read_much_further_ahead_than_is_listened_to(page: Page) -> None:
    count_frames(page, 0)  # the listener has heard nothing
    speak(page, LONG)
    until(page, "window.kokoro.state.samples > 60 * 24000")
    page.wait_for_timeout(500)
    assert page.evaluate("window.kokoro.state.samples") < 90 * RATE
    page.keyboard.press("Escape")
    expect(page.locator("#status")).to_have_text("Stopped.")


def test_keys_speak_and_stop(page: Page) -> None:
    page.get_by_label("Text to speak").fill(LONG)
    page.keyboard.press("Control+Enter")
    until(page, "window.kokoro.state.phase === 'speaking'")
    page.keyboard.press("Escape")
    expect(page.locator("#status")).to_have_text("Stopped.")


def test_a_new_speech_takes_the_place_of_the_one_before(page: Page) -> None:
    count_frames(page)
    speak(page, LONG)
    until(page, "window.kokoro.state.phase === 'speaking'")
    page.get_by_label("Text to speak").fill("Hello.")
    page.keyboard.press("Control+Enter")
    until(page, ENDED)
    state = page.evaluate("window.kokoro.state")
    assert state["played"] == state["scheduled"] > 0
    assert state["samples"] < 5 * RATE
    assert words(page)[-1].startswith("Hello")


def test_sends_the_chosen_voice_and_delivery(page: Page) -> None:
    page.get_by_label("Voice", exact=True).select_option("af_bella")
    page.get_by_label("Blend with another voice").check()
    page.get_by_label("Second voice", exact=True).select_option("am_adam")
    page.get_by_label("Share of the second voice").fill("30")
    page.get_by_label("Speed").fill("1.5")
    page.get_by_label("Pitch").fill("-2")
    page.get_by_label("Volume").fill("-6")
    with page.expect_request("**/tts/captioned") as asked:
        speak(page, "Hello.")
    until(page, ENDED)
    assert asked.value.post_data_json == {
        "text": "Hello.",
        "voice": "af_bella(70)+am_adam(30)",
        "speed": 1.5,
        "pitch": -2,
        "volume": -6,
        "format": "pcm",
        "visemes": "oculus",
    }


def test_a_voice_has_a_sample_in_its_own_language(page: Page) -> None:
    page.get_by_label("Voice", exact=True).select_option("ff_siwis")
    with page.expect_request("**/tts/captioned") as asked:
        page.get_by_role("button", name="Sample").click()
    until(page, ENDED)
    body = asked.value.post_data_json
    assert body["voice"] == "ff_siwis"
    assert body["text"].startswith("Bonjour")


def test_voices_are_grouped_by_language(page: Page) -> None:
    groups = page.locator("#voice optgroup").evaluate_all("groups => groups.map(group => group.label)")
    assert groups == ["American English", "British English", "Spanish", "French", "Japanese", "Mandarin Chinese"]
    assert page.locator("#voice").input_value() == "af_heart"


@pytest.mark.parametrize("format", [name for name in FORMATS if name != "pcm"])  # which has no button
def test_a_download_decodes(page: Page, tmp_path: Path, format: str) -> None:
    page.get_by_label("Text to speak").fill(TEXT)
    with page.expect_download() as downloading:
        page.locator(f"[data-format={format}]").click()
    file = tmp_path / downloading.value.suggested_filename
    downloading.value.save_as(file)
    assert file.suffix == f".{format}"
    assert len(decode(file.read_bytes(), format)) > RATE
    if format != "aac":  # which libsndfile does not know
        assert soundfile.info(file).samplerate == RATE or format == "opus"


@pytest.mark.parametrize(("format", "mark"), [("srt", "00:00:0"), ("vtt", "WEBVTT")])
def test_subtitles_download(page: Page, tmp_path: Path, format: str, mark: str) -> None:
    page.get_by_label("Text to speak").fill(TEXT)
    with page.expect_download() as downloading:
        page.locator(f"[data-format={format}]").click()
    file = tmp_path / downloading.value.suggested_filename
    downloading.value.save_as(file)
    assert mark in file.read_text()
    assert "small step" in file.read_text()


def test_charts_move_under_load(page: Page, tiny_server: Server) -> None:
    until(page, "window.kokoro.state.charts.queue.length > 0")
    with ThreadPoolExecutor(12) as pool:
        for seed in range(24):
            pool.submit(say, tiny_server, TEXT, seed=seed)
        until(
            page,
            """() => {
                const { batch, throughput } = window.kokoro.state.charts;
                return Math.max(...batch) > 1 && Math.max(...throughput) > 0;
            }""",
        )
    expect(page.locator("#tile-throughput .note")).not_to_have_text("0 phrases since the start")
    expect(page.locator("#tile-sound .figure")).to_have_text(re.compile(r"^\d[\d.,]* m?s$"))
    expect(page.locator("#tile-sound .note")).to_have_text(re.compile(r"^first audio after \d"))
    expect(page.locator("#batcher-state")).to_have_text("healthy")
    expect(page.locator("#devices li")).to_have_text(re.compile(r"^cpu · \d+(\.\d)? % busy"))


def test_says_when_there_is_nothing_to_say(page: Page) -> None:
    speak(page, "   ")
    expect(page.get_by_role("alert")).to_contain_text("nothing to say")


def test_shows_the_servers_own_words(troubled: Page) -> None:
    speak(troubled, "[pause:99s]")
    answer = troubled.get_by_role("alert")
    expect(answer).to_be_visible()
    expect(answer).to_contain_text("30")
    expect(troubled.get_by_role("button", name="Speak")).to_be_visible()
    speak(troubled, "Hello.")
    expect(answer).to_be_hidden()
    until(troubled, ENDED)


def test_says_when_to_come_back(troubled: Page) -> None:
    def busy(route: Route) -> None:
        error = {"error": {"code": "queue_full", "message": "too many requests are waiting", "field": None}}
        route.fulfill(status=429, json=error, headers={"Retry-After": "7"})

    troubled.route("**/tts/captioned", busy)
    speak(troubled, TEXT)
    expect(troubled.get_by_role("alert")).to_have_text("Too many requests are waiting. Try again in 7 s.")


def test_a_failure_in_mid_speech_is_reported(context: BrowserContext, tmp_path: Path, shared_g2p: str) -> None:
    fails = tmp_path / "fails"
    environ = {"G2P_SERVICE_URL": shared_g2p, "HANG_ENDS": str(fails)}
    with servers.running(servers.FAULTY, tmp_path / "log", **environ) as server:
        page = opened(context.new_page(), server.url)
        page.get_by_label("Speed").fill(str(LATE_FAILURE))
        speak(page, LONG)
        until(page, "window.kokoro.state.scheduled > 0")
        fails.touch()
        # The page learns of it by the last line of the stream or by the broken connection, whichever the browser sees.
        expect(page.get_by_role("alert")).to_contain_text("broke off")
        until(page, "window.kokoro.state.phase === 'failed'")
        state = page.evaluate("window.kokoro.state")
        assert state["played"] == state["scheduled"] > 0


def test_a_stream_that_breaks_off_is_reported(troubled: Page, tiny_server: Server) -> None:
    whole = httpx.post(
        f"{tiny_server.url}/tts/captioned",
        json={"text": TEXT, "format": "pcm", "visemes": "oculus"},
        headers={"Accept": "application/x-ndjson"},
        timeout=300,
    ).text.splitlines(keepends=True)
    troubled.route("**/tts/captioned", lambda route: route.fulfill(body="".join(whole[:1])))
    speak(troubled, TEXT)
    expect(troubled.get_by_role("alert")).to_contain_text("broke off")
    until(troubled, "window.kokoro.state.phase === 'failed'")
    assert len(heard(troubled)) == 1


def test_says_when_the_server_cannot_be_reached(troubled: Page) -> None:
    troubled.context.set_offline(True)
    speak(troubled, TEXT)
    expect(troubled.get_by_role("alert")).to_contain_text("cannot be reached")
    expect(troubled.locator("#batcher-state")).to_have_text("cannot be reached")


def test_fits_a_phone(context: BrowserContext, tiny_server: Server) -> None:
    page = context.new_page()
    page.set_viewport_size({"width": 360, "height": 740})
    opened(page, tiny_server.url)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    expect(page.get_by_role("button", name="Speak")).to_be_in_viewport()
