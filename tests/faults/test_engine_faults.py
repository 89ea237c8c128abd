"""An engine that fails, as each endpoint tells it: an error where one can be sent, else a connection broken off."""

from __future__ import annotations

import io
import zipfile

import httpx
import pytest

from tests.servers import Server, say
from tests.services.faulty import LATE_FAILURE, NAN, RAISES, SILENT

LONG = (
    "It was late. "
    + "The quick brown fox jumps over the lazy dog while seven wizards quietly watch from the hill. " * 9
)


@pytest.mark.parametrize(("fault", "code"), [(RAISES, "engine_error"), (NAN, "bad_audio"), (SILENT, "bad_audio")])
def test_a_bad_row_is_an_error_not_silence(faulty: Server, fault: float, code: str) -> None:
    response = say(faulty, "Hello there.", speed=fault)
    assert response.status_code == 500
    assert response.json()["error"]["code"] == code


def test_a_failed_clip_of_a_batch_costs_only_itself(faulty: Server) -> None:
    body = {"requests": [{"text": "One."}, {"text": "Two.", "speed": RAISES}, {"text": "Three."}]}
    response = httpx.post(f"{faulty.url}/tts/batch", json=body, timeout=120)
    assert response.headers["x-failed-requests"] == "1"
    names = zipfile.ZipFile(io.BytesIO(response.content)).namelist()
    assert names == ["tts_001_af_heart.wav", "error_002.txt", "tts_003_af_heart.wav", "manifest.json"]


def test_a_stream_that_fails_at_once_is_an_http_error(faulty: Server) -> None:
    response = httpx.post(f"{faulty.url}/tts/stream", json={"text": LONG, "speed": RAISES}, timeout=120)
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "engine_error"


def test_a_stream_that_fails_later_is_broken_off(faulty: Server) -> None:
    body = {"text": LONG, "speed": LATE_FAILURE}
    received = 0
    with (  # noqa: PT012
        pytest.raises(httpx.RemoteProtocolError),
        httpx.stream("POST", f"{faulty.url}/tts/stream", json=body, timeout=120) as response,
    ):
        assert response.status_code == 200
        for chunk in response.iter_raw():
            received += len(chunk)
    assert received > 44
    assert httpx.get(f"{faulty.url}/health/streaming").json()["streams"]["failed"] >= 1
    assert f"stream broken off stream_id={response.headers['x-stream-id']}" in faulty.lines()
    assert 'outcome="broken_off"' in httpx.get(f"{faulty.url}/metrics").text


def test_captions_that_fail_later_say_so_and_break_off(faulty: Server) -> None:
    url, body = f"{faulty.url}/tts/captioned", {"text": LONG, "speed": LATE_FAILURE}
    lines: list[str] = []
    with (
        pytest.raises(httpx.RemoteProtocolError),
        httpx.stream("POST", url, json=body, headers={"accept": "application/x-ndjson"}, timeout=120) as response,
    ):
        lines.extend(response.iter_lines())
    assert '"type": "audio"' in lines[0]
    assert '"type": "error"' in lines[-1]
