"""A real server process, its real G2P child, real HTTP. The tiny model where the sound does not matter."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import soundfile

from kokoro_server.engine.protocol import SAMPLE_RATE
from tests import servers
from tests.servers import Server, family, in_one_process, say

GPL = ("phonemizer", "espeakng_loader", "misaki")


def samples(response: httpx.Response) -> int:
    data, rate = soundfile.read(io.BytesIO(response.content))
    assert rate == SAMPLE_RATE
    return len(data)


def told_where_the_time_went(response: httpx.Response) -> None:
    steps = dict(step.split(";dur=") for step in response.headers["server-timing"].split(", "))
    text, queue, inference, total = (float(steps[name]) for name in ("text", "queue", "inference", "total"))
    assert min(text, inference) > 0
    assert total >= text + queue + inference - 0.2  # they are rounded


def test_a_stream_tells_where_the_time_until_its_first_audio_went(tiny_server: Server) -> None:
    for text in ("Hello there.", "This is the first sentence. " * 5):
        response = httpx.post(f"{tiny_server.url}/tts/stream", json={"text": text}, timeout=300)
        assert response.status_code == 200
        told_where_the_time_went(response)


def test_a_clip_that_begins_with_silence_tells_what_its_text_took(tiny_server: Server) -> None:
    told_where_the_time_went(say(tiny_server, "[pause:30s] Hello there."))


def test_a_clip_has_the_headers_it_promises(tiny_server: Server) -> None:
    response = say(tiny_server, "Hello there.", voice="am_adam")
    assert response.status_code == 200
    assert response.headers["content-type"] == "audio/wav"
    assert response.headers["content-disposition"] == "attachment; filename=tts_output.wav"
    assert response.headers["x-voice-used"] == "am_adam"
    assert response.headers["x-batching-enabled"] == "true"
    assert int(response.headers["x-batch-size"]) >= 1
    assert float(response.headers["x-queue-time-ms"]) >= 0
    assert float(response.headers["x-inference-time-ms"]) > 0
    told_where_the_time_went(response)
    assert float(response.headers["x-audio-duration"]) == pytest.approx(samples(response) / SAMPLE_RATE, abs=1e-3)


def test_pcm_is_the_wav_without_its_header(tiny_server: Server) -> None:
    wav, pcm = say(tiny_server, "Hello there."), say(tiny_server, "Hello there.", format="pcm")
    assert pcm.headers["content-type"] == "audio/pcm"
    assert len(wav.content) == len(pcm.content) + 44
    assert samples(wav) == len(pcm.content) // 2


def test_language_follows_the_voice_unless_it_is_said(tiny_server: Server) -> None:
    spanish = say(tiny_server, "Hola, me llamo Dora.", voice="ef_dora")
    english = say(tiny_server, "Hola, me llamo Dora.", voice="ef_dora", language="en-US")
    assert spanish.status_code == english.status_code == 200
    assert samples(spanish) != samples(english)


def test_long_text_is_spoken_whole(tiny_server: Server) -> None:
    """Twice as many sentences take about twice as long: none is cut off, none is skipped."""
    sentence = "The quick brown fox jumps over the lazy dog while seven wizards quietly watch from the hill. "
    six, twelve = (samples(say(tiny_server, sentence * count)) for count in (6, 12))
    assert twelve == pytest.approx(2 * six, rel=0.1)


def test_text_without_a_single_break_is_spoken_whole(tiny_server: Server) -> None:
    short, long = (samples(say(tiny_server, "la" * count)) for count in (150, 1000))
    assert long > 5 * short


@pytest.mark.parametrize(
    ("body", "status", "code", "says"),
    [
        ({}, 422, "invalid_input", "text: give exactly one of text, turns or phonemes"),
        ({"text": ""}, 422, "nothing_to_say", "text is empty"),
        ({"text": " \n\t "}, 422, "nothing_to_say", "text is empty"),
        ({"text": "🙂🙂"}, 422, "nothing_to_say", "nothing that can be spoken"),
        ({"text": "..."}, 422, "nothing_to_say", "nothing that can be spoken"),
        ({"text": "x" * 100_001}, 413, "text_too_long", "at most 100000"),
        ({"text": 5}, 422, "invalid_input", "text: Input should be a valid string (got 5)"),
        ({"text": "hi", "voice": "af_hart"}, 400, "unknown_voice", "af_heart"),
        ({"text": "hi", "voice": ""}, 422, "invalid_input", "not a name or a mix"),
        ({"text": "hi", "language": "xx"}, 400, "unknown_language", "en-US"),
        (
            {"text": "hi", "speed": 0},
            422,
            "invalid_input",
            "speed: Input should be greater than or equal to 0.25 (got 0)",
        ),
        ({"text": "hi", "speed": 9}, 422, "invalid_input", "speed: Input should be less than or equal to 4 (got 9)"),
        ({"text": "hi", "speed": "fast"}, 422, "invalid_input", "speed: Input should be a valid number"),
        ({"text": "hi", "format": "exe"}, 422, "invalid_input", "format: Input should be 'wav'"),
        ({"text": "hi", "volumen": 3}, 422, "invalid_input", "volumen: there is no such field"),
    ],
)
def test_bad_input_is_refused_in_words(
    tiny_server: Server, body: dict[str, object], status: int, code: str, says: str
) -> None:
    response = httpx.post(f"{tiny_server.url}/tts", json=body, timeout=60)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"] == code
    assert says in error["message"]
    assert error["field"] in (*body, "text")


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b'"text"', b"[]", b""])
def test_a_body_that_is_no_json_object_is_refused(tiny_server: Server, content: bytes) -> None:
    response = httpx.post(f"{tiny_server.url}/tts", content=content, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422)
    assert response.json()["error"]["message"]


def test_a_missing_body_is_named(tiny_server: Server) -> None:
    response = httpx.post(f"{tiny_server.url}/tts", headers={"content-type": "application/json"})
    assert response.json()["error"]["message"] == "the body is missing"


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("GET", "/tss", 404, "there is no endpoint /tss; /docs lists them"),
        ("GET", "/v1/v1/audio/speech", 404, "there is no endpoint /v1/v1/audio/speech; /docs lists them"),
        ("DELETE", "/tts", 405, "/tts takes no DELETE; /docs lists the endpoints"),
    ],
)
def test_a_wrong_address_is_named(tiny_server: Server, method: str, path: str, status: int, says: str) -> None:
    response = httpx.request(method, f"{tiny_server.url}{path}")
    assert response.status_code == status
    assert response.json()["error"]["message"] == says


def test_nan_speed_is_refused(tiny_server: Server) -> None:
    content = b'{"text": "hi", "speed": NaN}'
    response = httpx.post(f"{tiny_server.url}/tts", content=content, headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert "speed" in response.json()["error"]["message"]


def test_unknown_path_and_method_answer_in_the_same_shape(tiny_server: Server) -> None:
    assert httpx.get(f"{tiny_server.url}/nowhere").json()["error"]["code"] == "not_found"
    assert httpx.get(f"{tiny_server.url}/tts/batch").status_code == 405


def test_voices_config_and_health(tiny_server: Server) -> None:
    voices = httpx.get(f"{tiny_server.url}/voices").json()
    assert {"name": "bf_emma", "title": "Emma", "language": "en-GB", "gender": "female"}.items() <= next(
        voice for voice in voices["voices"] if voice["name"] == "bf_emma"
    ).items()
    assert httpx.get(f"{tiny_server.url}/config").json()["MAX_TOKENS_PER_CHUNK"] == 400
    health = httpx.get(f"{tiny_server.url}/health").json()
    assert health["status"] == "ok"
    assert health["weights"]["precision"] == "fp32"
    assert health["g2p"]["mode"] == "embedded"
    assert httpx.get(f"{tiny_server.url}/health/live").status_code == 200
    assert httpx.get(f"{tiny_server.url}/health/ready").status_code == 200


def test_request_id_is_kept_or_given(tiny_server: Server) -> None:
    kept = httpx.get(f"{tiny_server.url}/voices", headers={"x-request-id": "abc-1"})
    assert kept.headers["x-request-id"] == "abc-1"
    given = httpx.get(f"{tiny_server.url}/voices", headers={"x-request-id": "bad id!"})
    assert given.headers["x-request-id"] not in ("", "bad id!")


def test_it_leaves_no_profile_of_pytorch_behind(tiny_server: Server) -> None:
    assert say(tiny_server, "Good morning.").status_code == 200
    pids = [tiny_server.process.pid, *family(tiny_server.process.pid)]
    assert [pid for pid in pids if Path(f"/tmp/perf-{pid}.map").exists()] == []


@in_one_process
def test_the_speech_process_loads_no_gpl_code(tiny_server: Server) -> None:
    for voice in ("af_heart", "bf_emma", "ff_siwis"):
        assert say(tiny_server, "Bonjour.", voice=voice).status_code == 200
    modules = httpx.get(f"{tiny_server.url}/modules").json()
    assert "kokoro_modules.istftnet" in modules
    assert [name for name in modules if name.partition(".")[0] in GPL] == []


@pytest.fixture(scope="module")
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that has something to lose."""
    with servers.running(servers.TINY, tmp_path_factory.mktemp("doomed") / "log") as server:
        yield server


def test_killed_g2p_child_comes_back(doomed: Server) -> None:
    before = doomed.child_pid()
    os.kill(before, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while (response := say(doomed, "Is it back?")).status_code != 200:
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert doomed.child_pid() != before
    assert httpx.get(f"{doomed.url}/health").json()["g2p"]["restarts"] == 1


def assert_stops_with_its_child(server: Server, number: int) -> None:
    child = server.child_pid()
    assert servers.alive(child)
    assert server.stop(number) == 0
    assert servers.gone_within(child, 5)
    assert "Traceback" not in server.lines()


def test_stopping_the_server_stops_its_child(doomed: Server) -> None:
    """The last one on this server."""
    assert_stops_with_its_child(doomed, signal.SIGTERM)


@pytest.mark.slow
def test_interrupting_the_server_stops_its_child(log_file: Path) -> None:
    with servers.running(servers.TINY, log_file) as server:
        assert_stops_with_its_child(server, signal.SIGINT)


@pytest.mark.slow  # tests/g2p/test_child.py kills another parent
def test_killing_the_server_leaves_no_orphan(log_file: Path) -> None:
    with servers.running(servers.TINY, log_file) as server:
        child = server.child_pid()
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
        assert servers.gone_within(child, 10)


def test_a_taken_port_is_one_line_and_no_start(tiny_server: Server, log_file: Path) -> None:
    port = tiny_server.url.rpartition(":")[2]
    process = servers.spawn(servers.REAL, log_file, PORT=port)
    assert process.wait(timeout=60) == 1
    lines = log_file.read_text().splitlines()
    assert len(lines) == 1
    assert port in lines[0]


def test_a_bad_setting_is_one_line_and_no_start(log_file: Path) -> None:
    process = servers.spawn(servers.REAL, log_file, KOKORO_DEVICE="toaster")
    assert process.wait(timeout=60) == 1
    assert log_file.read_text() == (
        "kokoro-server: KOKORO_DEVICE='toaster': must be one of auto, cpu, cuda, cuda:<number>, mps\n"
    )


def test_a_remote_g2p_service_is_used_when_named(tiny_server: Server, shared_g2p: str, log_file: Path) -> None:
    with servers.running(servers.TINY, log_file, G2P_SERVICE_URL=shared_g2p) as server:
        assert httpx.get(f"{server.url}/health").json()["g2p"]["mode"] == "remote"
        assert say(server, "Hello there.").content == say(tiny_server, "Hello there.").content


@pytest.mark.slow  # tests/faults/test_g2p_matrix.py takes the service away from a server that has used it
def test_a_remote_g2p_service_that_is_down_is_a_503(log_file: Path) -> None:
    with servers.running(servers.TINY, log_file, G2P_SERVICE_URL="http://127.0.0.1:9") as server:
        response = say(server, "Hello.")
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "g2p_unavailable"
        assert int(response.headers["retry-after"]) >= 1
        health = httpx.get(f"{server.url}/health").json()
        assert health["status"] == "degraded"
