"""Cartesia's SDK, and the plugins of pipecat and LiveKit that speak its protocol, against a real server."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.clients import agents
from tests.clients.agents import Word
from tests.servers import Server

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    cartesia = pytest.importorskip("cartesia")
    livekit = pytest.importorskip("livekit.plugins.cartesia")
    pipecat = pytest.importorskip("pipecat.services.cartesia.tts")
    from livekit.agents import APIError, APIStatusError

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("default")]

RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}
HOW: dict[str, Any] = {"model_id": "sonic-3", "voice": "af_heart", "output_format": RAW, "language": "en"}
UUID = "6ccbfb76-1fc6-48f7-b71d-91ac6298247b"


def client(server: Server) -> Any:
    base = server.url + "/cartesia"
    return cartesia.Cartesia(api_key="none", base_url=base, websocket_base_url=base.replace("http", "ws", 1))


def test_sdk_by_http(real_server: Server) -> None:
    tts = client(real_server).tts
    agents.assert_lasts(real_server, tts.generate(transcript=agents.TEXT, **HOW).read())
    with pytest.raises(cartesia.BadRequestError) as refusal:
        tts.generate(transcript=agents.TEXT, **HOW | {"voice": UUID})
    assert UUID in str(refusal.value)
    events = list(tts.generate_sse(transcript=agents.TEXT, add_timestamps=True, **HOW))
    agents.assert_lasts(real_server, b"".join(event.audio for event in events if event.type == "chunk"))
    assert events[-1].type == "done"
    told = [event.word_timestamps for event in events if event.type == "timestamps"]
    starts = [start for each in told for start in each.start]
    assert starts == sorted(starts)
    assert " ".join(word for each in told for word in each.words) == agents.TEXT


def test_sdk_lists_voices(real_server: Server) -> None:
    names = [voice.id for voice in client(real_server).voices.list(limit=20)]
    assert len(names) == len(set(names)) > 40
    assert client(real_server).voices.get("bf_emma").gender == "feminine"


def test_sdk_by_websocket(real_server: Server) -> None:
    with client(real_server).tts.websocket_connect() as connection:

        def turn(texts: list[str]) -> tuple[bytes, list[Word]]:
            context = connection.context(add_timestamps=True, **HOW)
            for text in texts:
                context.push(text)
            context.no_more_inputs()
            audio, words = b"", []
            for event in context.receive():
                assert event.type != "error", event
                if event.type == "chunk":
                    audio += event.audio
                elif event.type == "timestamps":
                    words += zip(event.word_timestamps.words, event.word_timestamps.start, strict=True)
            return audio, words

        audio, words = turn([f"{word} " for word in agents.TEXT.split()])
        agents.assert_lasts(real_server, audio)
        agents.assert_timed(real_server, words)
        interrupted = connection.context(**HOW)
        interrupted.push(agents.LONG)
        interrupted.cancel()
        agents.assert_lasts(real_server, turn([agents.TEXT])[0])
        agents.assert_queue_is_empty(real_server)
        wrong = connection.context(**HOW | {"voice": UUID})
        wrong.push("Hello.")
        (error,) = wrong.receive()
        assert (error.type, error.status_code) == ("error", 400)
        assert UUID in error.error


async def test_livekit(real_server: Server) -> None:
    async with agents.http_session() as session:
        tts = livekit.TTS(
            base_url=f"{real_server.url}/cartesia", api_key="none", voice="af_heart", http_session=session
        )
        words: list[Word] = []
        agents.assert_lasts(real_server, await agents.livekit_stream(tts, agents.TEXT, words))
        agents.assert_timed(real_server, words)
        agents.assert_lasts(real_server, await agents.livekit_chunks(tts, agents.TEXT))
        async with agents.dropping_work(real_server):
            await agents.livekit_interrupted(tts)
        tts.update_options(voice=UUID)
        with pytest.raises(APIStatusError) as refusal:
            await agents.livekit_chunks(tts, "Hello.")
        assert refusal.value.status_code == 400
        with pytest.raises(APIError, match=UUID):
            await agents.livekit_stream(tts, "Hello.")
        await tts.aclose()


async def test_pipecat(tiny_server: Server) -> None:
    """The tiny model: pipecat gives up a turn of which nothing is heard in three seconds."""
    url = tiny_server.url.replace("http", "ws", 1) + "/cartesia/tts/websocket"

    def service(voice: str) -> Any:
        settings = pipecat.CartesiaTTSService.Settings(voice=voice)
        return pipecat.CartesiaTTSService(api_key="none", url=url, sample_rate=24000, settings=settings)

    audio, words, errors = await agents.pipecat_turn(service("af_heart"), agents.SENTENCES)
    agents.assert_lasts(tiny_server, audio)
    assert " ".join(words) == agents.TEXT
    assert not errors
    async with agents.dropping_work(tiny_server):
        await agents.pipecat_interrupted(service("af_heart"))
    _audio, _words, errors = await agents.pipecat_turn(service(UUID), ["Hello."])
    assert any(UUID in error for error in errors)
