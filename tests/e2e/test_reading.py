"""How a text is read, over real HTTP and with the real G2P."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from kokoro_server.api.schemas.answers import ReadingAnswer
from tests.servers import Server

TOKYO = "Tokyo (東京) is large."


def post(server: Server, path: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=120)


def reading(server: Server, text: str, **fields: Any) -> dict[str, Any]:
    response = post(server, "/text/reading", {"text": text, **fields})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_a_reading_says_what_is_said_and_why(tiny_server: Server) -> None:
    text = "Dr. Ng paid $5.\nFrom 3:30–4:30pm it's 40–60°C."
    answer = reading(tiny_server, text)
    assert answer["language"] == "en-US"
    readings = {span["source"]: span["words"] for span in answer["readings"]}
    assert readings["$5"] == "five dollars"
    assert readings["Dr."] == "Doctor"
    assert all(text[span["start"] : span["end"]] == span["source"] and span["rule"] for span in answer["readings"])
    assert [sentence["text"] for sentence in answer["sentences"]] == text.split("\n")
    assert answer["phonemes"] == " ".join(sentence["phonemes"] for sentence in answer["sentences"])
    words = [word["text"] for word in answer["words"]]
    assert words[:4] == ["Dr.", "Ng", "paid", "$5"]
    assert all(text[word["start"] : word["end"]] == word["text"] and word["phonemes"] for word in answer["words"])


def test_a_long_text_is_read_whole(tiny_server: Server) -> None:
    text = "Item 12 costs $3.50 (10% off) since 3/4/2025; see **page 7**.\n" * 400
    answer = reading(tiny_server, text)
    ReadingAnswer.model_validate(answer)
    assert len(answer["sentences"]) == 400
    assert sum(span["rule"] == "money" for span in answer["readings"]) == 400


def test_the_language_is_the_voices_unless_one_is_given(tiny_server: Server) -> None:
    assert reading(tiny_server, "10/12/2024", voice="bf_emma")["language"] == "en-GB"
    assert reading(tiny_server, "10/12/2024", voice="bf_emma", language="en-US")["language"] == "en-US"
    dates = [reading(tiny_server, "10/12/2024", language=code)["readings"][0]["words"] for code in ("en-US", "en-GB")]
    assert dates[0].startswith("October")
    assert "December" in dates[1]


def test_normalize_and_lexicon(tiny_server: Server) -> None:
    assert reading(tiny_server, "It is 5kg.", normalize=False)["readings"] == []
    some = reading(tiny_server, "**Five** kg is 5kg.", normalize=["units"])
    assert "five kilograms" in [span["words"] for span in some["readings"]]
    said = reading(tiny_server, "Kokoro on nginx.", lexicon={"Kokoro": "/kˈOkəɹO/", "nginx": "engine x"})
    assert [(span["source"], span["words"], span["rule"]) for span in said["readings"]] == [
        ("Kokoro", "/kˈOkəɹO/", "lexicon"),
        ("nginx", "engine x", "lexicon"),
    ]
    assert said["phonemes"].startswith("kˈOkəɹO")


@pytest.mark.parametrize("path", ["/text/reading", "/tts", "/tts/stream", "/tts/captioned"])
@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("normalize", ["numbers", "nonsense"], "list of kinds"),
        ("normalize", "yes", "true, false"),
        ("code_blocks", "read", "announce"),
        ("lexicon", {"word": "/#/"}, "not phonemes"),
        ("lexicon", {str(n): "one" for n in range(1001)}, "1000"),
        ("lexicon", {"word": 5}, "string"),
        ("unspeakable", "drop", "skip"),
    ],
)
def test_bad_fields_are_named(tiny_server: Server, path: str, field: str, value: Any, said: str) -> None:
    response = post(tiny_server, path, {"text": "One.", field: value})
    assert response.status_code == 422, response.text
    error = response.json()["error"]
    assert error["field"].split(".")[0] == field
    assert said in error["message"]


def test_letters_that_cannot_be_said_are_named(tiny_server: Server) -> None:
    for path in ("/text/reading", "/tts", "/tts/stream", "/tts/captioned"):
        response = post(tiny_server, path, {"text": TOKYO})
        assert (response.status_code, response.json()["error"]["code"]) == (422, "unspeakable")
        assert "'東' (U+6771)" in response.json()["error"]["message"]
    response = post(tiny_server, "/v1/audio/speech", {"input": TOKYO, "unspeakable": "refuse"})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "input")


def test_or_they_are_left_out_and_counted(tiny_server: Server) -> None:
    body = {"text": TOKYO, "unspeakable": "skip"}
    for path in ("/tts", "/tts/stream", "/tts/captioned"):
        assert post(tiny_server, path, body).headers["x-skipped-characters"] == "2"
    assert post(tiny_server, "/tts/captioned", body).json()["skipped"] == 2
    assert reading(tiny_server, **body)["skipped"] == "東京"
    assert "x-skipped-characters" not in post(tiny_server, "/tts", {**body, "text": "Tokyo."}).headers
    openai = post(tiny_server, "/v1/audio/speech", {"input": TOKYO})
    assert openai.headers["x-skipped-characters"] == "2"
    archive = post(tiny_server, "/tts/batch", {"requests": [body, {"text": TOKYO}]})
    manifest = json.loads(zipfile.ZipFile(io.BytesIO(archive.content)).read("manifest.json"))
    assert [(clip["status"], clip["skipped"]) for clip in manifest] == [("ok", 2), ("error", 0)]


def test_over_a_websocket_too(tiny_server: Server) -> None:
    with connect(tiny_server.url.replace("http", "ws") + "/tts/ws") as socket:
        socket.send(json.dumps({"type": "start", "unspeakable": "skip", "lexicon": {"Tokyo": "Edo"}}))
        socket.send(json.dumps({"type": "append", "text": TOKYO}))
        socket.send(json.dumps({"type": "close"}))
        events = [json.loads(message) for message in socket if isinstance(message, str)]
    [done] = [event for event in events if event["type"] == "done"]
    assert done["skipped"] == 2
