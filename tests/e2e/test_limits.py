"""What a request may not do: it is told so in a few words, and costs nobody else."""

from __future__ import annotations

import io
import json
import zipfile

import httpx
import pytest

from tests.servers import Server


def test_a_text_that_utf_8_cannot_hold_costs_only_its_own_clip(tiny_server: Server) -> None:
    content = '{"requests": [{"text": "\\ud800"}, {"text": "Fine."}]}'
    headers = {"Content-Type": "application/json"}
    response = httpx.post(f"{tiny_server.url}/tts/batch", content=content, headers=headers, timeout=60)
    assert (response.status_code, response.headers["x-failed-requests"]) == (200, "1")
    zipped = zipfile.ZipFile(io.BytesIO(response.content))
    assert {"error_001.txt", "tts_002_af_heart.wav", "manifest.json"} == set(zipped.namelist())
    assert [clip["status"] for clip in json.loads(zipped.read("manifest.json"))] == ["error", "ok"]


@pytest.mark.parametrize("field", ["text", "phonemes"])
@pytest.mark.parametrize("path", ["/tts", "/tts/stream", "/tts/captioned"])
def test_too_much_silence_is_refused(tiny_server: Server, path: str, field: str) -> None:
    response = httpx.post(f"{tiny_server.url}{path}", json={field: "a " + "[pause:30s]" * 21}, timeout=60)
    error = response.json()["error"]
    assert (response.status_code, error["field"]) == (422, field)
    assert "630 s; at most 600 s are allowed (MAX_SILENCE)" in error["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"text": "a " * 100, "lexicon": {"a": "banana " * 60}},
        {"text": "<speak>" + f'<sub alias="{"many more words " * 60}">x</sub> ' * 99 + "</speak>", "ssml": True},
    ],
    ids=["lexicon", "ssml"],
)
def test_readings_cannot_multiply_a_text(tiny_server: Server, body: dict[str, object]) -> None:
    response = httpx.post(f"{tiny_server.url}/tts", json=body, timeout=60)
    error = response.json()["error"]
    assert (response.status_code, error["field"]) == (413, "text")
    assert "characters; at most 10000 are allowed" in error["message"]


def test_probes_answer_head(tiny_server: Server) -> None:
    for probe in ("live", "ready"):
        response = httpx.head(f"{tiny_server.url}/health/{probe}")
        assert (response.status_code, response.content) == (200, b"")


def test_a_million_unknown_fields_are_one_complaint(tiny_server: Server) -> None:
    fields = {f"field{number}": number for number in range(140_000)}
    response = httpx.post(f"{tiny_server.url}/tts", json={"text": "Hi.", **fields}, timeout=60)
    assert response.status_code == 422
    assert len(response.content) < 1000
    few = httpx.post(f"{tiny_server.url}/tts", json={"text": "Hi.", **{f"x{number}": 1 for number in range(20)}})
    assert few.json()["error"]["message"].endswith("; and 15 more")


@pytest.mark.parametrize("path", ["/tts", "/tts/batch", "/v1/audio/speech"])
def test_a_million_values_are_not_parsed(tiny_server: Server, path: str) -> None:
    content = '{"text": "Hi.", "requests": [' + "[]," * 1_000_000 + "[]]}"
    headers = {"Content-Type": "application/json"}
    response = httpx.post(f"{tiny_server.url}{path}", content=content, headers=headers, timeout=60)
    assert response.status_code == (400 if path.startswith("/v1") else 413)
    assert "commas and opening brackets" in response.json()["error"]["message"]


@pytest.mark.parametrize("mark", [",", "[", "{"])
def test_a_text_may_be_of_commas_and_brackets_alone(tiny_server: Server, mark: str) -> None:
    response = httpx.post(f"{tiny_server.url}/tts", json={"text": mark * 100_000}, timeout=60)
    assert (response.status_code, response.json()["error"]["code"]) == (422, "nothing_to_say")


def test_unknown_fields_of_a_batch_are_one_complaint(tiny_server: Server) -> None:
    fields = {f"field{number}": 0 for number in range(100_000)}
    body = {"requests": [{"text": "Hi."}], **fields}
    response = httpx.post(f"{tiny_server.url}/tts/batch", json=body, timeout=60)
    assert (response.status_code, len(response.content) < 1000) == (422, True)
    assert response.json()["error"]["message"].startswith("at most 100 fields are allowed")
