"""OpenAI's own Python client against a running server."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from kokoro_server.audio.formats import FORMATS
from kokoro_server.voices import GRADES, OPENAI_VOICES
from tests.audio_files import EXACT, EXTRA_SAMPLES, assert_same_samples, decode
from tests.servers import Server, say
from tests.services.faulty import LATE_FAILURE, RAISES

TEXT = "One small step for a person. It was late, and the lights were on; nobody knew why. Then they went out."
LONG = "It was late, and the lights were on; nobody knew why. Then, at last, they went out for good. "


def connect(server: Server, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=300, max_retries=0, **options)


def streamed(server: Server, **fields: object) -> bytes:
    """The samples as `/tts/stream` makes them: on a slow machine it cuts a text otherwise than `/tts`."""
    body = {"text": TEXT, "format": "pcm", **fields}
    return httpx.post(f"{server.url}/tts/stream", json=body, timeout=300).content


@pytest.fixture
def client(tiny_server: Server) -> Iterator[openai.OpenAI]:
    with connect(tiny_server) as client:
        yield client


@pytest.mark.parametrize("format", FORMATS)
def test_every_format(tiny_server: Server, client: openai.OpenAI, format: Any) -> None:
    # Any: the client's type allows only the formats that OpenAI has.
    made = client.audio.speech.create(
        model="gpt-4o-mini-tts",
        voice="am_adam",
        input=TEXT,
        response_format=format,
        speed=1.1,
        instructions="Speak like a pirate.",
    )
    expected = len(decode(streamed(tiny_server, voice="am_adam", speed=1.1), "pcm"))
    assert len(decode(made.content, format)) - expected in EXTRA_SAMPLES.get(format, EXACT)


def test_mp3_unless_asked_for_another(client: openai.OpenAI) -> None:
    answer = client.audio.speech.with_raw_response.create(model="tts-1", voice="af_heart", input="Hello.")
    assert answer.headers["content-type"] == "audio/mpeg"
    assert decode(answer.content, "mp3").any()


def test_audio_comes_while_it_is_made(client: openai.OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="af_heart", input=LONG * 15, response_format="pcm"
    ) as response:
        chunks = response.iter_bytes()
        first = len(next(chunks))
        rest = sum(map(len, chunks))
    assert rest > 5 * first


async def test_the_asynchronous_client(tiny_server: Server) -> None:
    async with openai.AsyncOpenAI(base_url=f"{tiny_server.url}/v1", api_key="none") as client:
        made = await client.audio.speech.create(model="kokoro", voice="af_heart", input=TEXT, response_format="pcm")
    assert_same_samples(made.content, streamed(tiny_server))


def test_events(tiny_server: Server, client: openai.OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="af_heart", input=TEXT, response_format="pcm", stream_format="sse"
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: ")]
    *deltas, done = events
    assert len(deltas) > 1
    assert {event["type"] for event in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(event["audio"]) for event in deltas) == streamed(tiny_server)
    assert done["type"] == "speech.audio.done"
    usage = done["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert min(usage.values()) > 0


def test_a_voice_may_be_an_object_and_new_fields_are_ignored(tiny_server: Server, client: openai.OpenAI) -> None:
    made = client.audio.speech.create(
        model="tts-1",
        voice={"id": "af_bella(2)+af_sky(1)"},
        input="Hello.",
        response_format="pcm",
        extra_body={"not_yet_invented": [1], "speed": None},
    )
    assert made.content == say(tiny_server, "Hello.", voice="af_bella(2)+af_sky(1)", format="pcm").content


def test_every_voice_of_openai_stands_for_one_of_ours() -> None:
    assert {"alloy", "ash", "coral", "echo", "fable", "nova", "onyx", "sage", "shimmer"} <= set(OPENAI_VOICES)
    assert set(OPENAI_VOICES.values()) <= set(GRADES)


def test_voices_are_listed_with_their_aliases(tiny_server: Server) -> None:
    answer = httpx.get(f"{tiny_server.url}/v1/audio/voices").json()
    voices = {voice["id"]: voice for voice in answer["voices"]}
    assert voices["coral"]["voice"] == "af_bella"
    assert (
        voices["af_heart"] | {"name": "af_heart", "title": "Heart", "language": "en-US", "gender": "female"}
        == voices["af_heart"]
    )


def test_voices_are_listed_by_name_alone(tiny_server: Server) -> None:
    objects = httpx.get(f"{tiny_server.url}/v1/audio/voices").json()["voices"]
    names = httpx.get(f"{tiny_server.url}/v1/audio/voices?legacy=true").json()["voices"]
    assert names == [voice["id"] for voice in objects]


def test_an_alias_is_spoken_by_the_voice_it_stands_for(tiny_server: Server, client: openai.OpenAI) -> None:
    made = client.audio.speech.create(model="tts-1-hd", voice="coral", input="Hello.", response_format="pcm")
    assert made.content == say(tiny_server, "Hello.", voice="af_bella", format="pcm").content


def test_models(client: openai.OpenAI) -> None:
    assert {model.id for model in client.models.list()} == {"kokoro", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"}
    assert client.models.retrieve("tts-1").owned_by == "hexgrad"
    assert client.models.retrieve("hexgrad/Kokoro-82M").id == "hexgrad/Kokoro-82M"


def test_models_are_listed_for_open_webui_too(tiny_server: Server) -> None:
    models = httpx.get(f"{tiny_server.url}/v1/audio/models").json()["models"]
    assert [model["id"] for model in models] == ["kokoro", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"]


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"voice": "nobody"}, "voice", "unknown_voice"),
        ({"voice": {"name": "x"}}, "voice", "invalid_input"),
        ({"input": None}, "input", "invalid_input"),
        ({"input": "a" * 100_001}, "input", "text_too_long"),
        ({"speed": 9}, "speed", "invalid_input"),
        ({"response_format": "midi"}, "response_format", "invalid_input"),
        ({"stream_format": "tape"}, "stream_format", "invalid_input"),
    ],
)
def test_a_wrong_field_is_a_bad_request(client: openai.OpenAI, fields: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(openai.BadRequestError) as failure:
        client.audio.speech.create(**{"model": "tts-1", "voice": "af_heart", "input": "Hi.", **fields})
    assert (failure.value.type, failure.value.param, failure.value.code) == ("invalid_request_error", param, code)


@pytest.mark.parametrize("model", ["gpt-4o-mini-tts-2025-12-15", "hexgrad/Kokoro-82M", "a\nb"])
def test_any_model_will_do_and_the_log_tells_its_name(tiny_server: Server, client: openai.OpenAI, model: str) -> None:
    answer = client.audio.speech.with_raw_response.create(model=model, voice="af_heart", input="Hi.")
    assert decode(answer.content, "mp3").any()
    assert answer.headers["content-disposition"] == "attachment; filename=tts_output.mp3"
    logged = f" model={model}".replace("\n", "?")
    assert any(line.endswith(logged) for line in tiny_server.lines().splitlines() if "/v1/audio/speech" in line)


@pytest.mark.parametrize("field", ["response_format", "format"])
def test_extras_are_harmless_and_formats_may_be_in_capitals(tiny_server: Server, field: str) -> None:
    body = {"input": "Hi.", field: "PCM", "use_gpu": True, "instructions": None, "user": "me"}
    answer = httpx.post(f"{tiny_server.url}/v1/audio/speech", json=body, timeout=60)
    assert answer.content == say(tiny_server, "Hi.", format="pcm").content


def test_paths_and_bodies_that_are_wrong_answer_in_the_same_shape(tiny_server: Server) -> None:
    answers = [
        httpx.get(f"{tiny_server.url}/v1/nothing"),
        httpx.get(f"{tiny_server.url}/v1/audio/speech"),
        httpx.post(f"{tiny_server.url}/v1/audio/speech", content=b"{", headers={"Content-Type": "application/json"}),
    ]
    assert [answer.status_code for answer in answers] == [404, 405, 400]
    for answer in answers:
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert set(httpx.get(f"{tiny_server.url}/nothing").json()["error"]) == {"message", "code", "field"}


def test_a_wait_that_is_too_long_is_a_rate_limit(client: openai.OpenAI) -> None:
    impatient = client.with_options(default_headers={"X-Request-Timeout": "0.000001"})
    with pytest.raises(openai.RateLimitError) as failure:
        impatient.audio.speech.create(model="tts-1", voice="af_heart", input="Hi.")
    assert (failure.value.type, failure.value.code) == ("rate_limit_error", "too_busy")
    assert int(failure.value.response.headers["retry-after"]) >= 1


def test_a_failure_midway_is_an_event_and_breaks_off(faulty: Server) -> None:
    text = "It was late. " + "Seven wizards watch the quick brown fox jump over the lazy dog, from the hill. " * 9
    with connect(faulty) as client:
        with pytest.raises(openai.InternalServerError) as failure:
            client.audio.speech.create(model="tts-1", voice="af_heart", input="Hi.", speed=RAISES)
        assert (failure.value.type, failure.value.code) == ("server_error", "engine_error")
        events: list[dict[str, Any]] = []
        with (
            pytest.raises(Exception, match="peer closed connection"),
            client.audio.speech.with_streaming_response.create(
                model="tts-1", voice="af_heart", input=text, speed=LATE_FAILURE, stream_format="sse"
            ) as response,
        ):
            events.extend(json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: "))
        assert events[0]["type"] == "speech.audio.delta"
        assert events[-1]["error"]["code"] == "engine_error"


def test_word_times(tiny_server: Server) -> None:
    body = {"model": "kokoro", "voice": "af_heart", "input": "Hello there, world.", "response_format": "pcm"}
    answer = httpx.post(f"{tiny_server.url}/v1/audio/speech/timestamps", json=body, timeout=60).json()
    assert [word["text"] for word in answer["words"]] == ["Hello", "there", "world"]
    assert base64.b64decode(answer["audio"]) == say(tiny_server, "Hello there, world.", format="pcm").content


@pytest.mark.real
def test_openai_voices_speak(real_server: Server) -> None:
    with connect(real_server) as client:
        made = client.audio.speech.create(model="tts-1", voice="alloy", input="Hello.", response_format="wav")
    assert len(decode(made.content, "wav")) == len(decode(say(real_server, "Hello.", voice="af_alloy").content, "wav"))
