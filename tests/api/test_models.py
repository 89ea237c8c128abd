"""Models beside Kokoro v1.0, on a server with real G2P: what a German and a Chinese fine-tune go through but the sound.

Their weights are random. The ones of other sizes than Kokoro v1.0 run by torch.
"""

from __future__ import annotations

import importlib.util
import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from websockets.sync.client import connect

from tests import other_models, servers
from tests.assets.test_models import FOLDERS, described
from tests.servers import TINY, Server

POLISH = """name = "A table"
license = "CC0-1.0"
[languages.pl]
letter = "p"
g2p = "table"
letters = { "sz" = "ʃ", "s" = "s", "z" = "z", "a" = "a", "l" = "l" }
"""
REPLACING = other_models.GERMAN + 'symbols = { "ɾ" = "r", "r" = "l" }\n'
AUDIO = {"format": "pcm"}
CARTESIA_RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    other_models.write(folder / "german")
    zh = other_models.BOPOMOFO + "".join(other_models.configuration()["vocab"]) + "ɹæ"
    voices = " ".join([*(f"zf_{number:03}" for number in range(1, 99)), "zm_101", "af_maple", "af_sol", "bf_vale"])
    card = other_models.CHINESE + "[languages.en-GB]\n"
    other_models.write(folder / "chinese", card, "".join(dict.fromkeys(zh)), voices)
    other_models.write(folder / "table", POLISH, "aszlʃ .,", "pf_ola")
    other_models.write(folder / "replacing", REPLACING)
    for number, (damage, _) in enumerate(FOLDERS.values()):
        damage(described(folder, f"broken-{number}"))
    described(folder, "damaged")  # only its weights are, which nobody reads before they are needed
    return folder


@pytest.fixture(scope="module", params=["1", pytest.param("2", marks=pytest.mark.slow)])
def server(models: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Server]:
    """With one process, and with two and an engine process."""
    home = tmp_path_factory.mktemp("server")
    environ = {"MODELS_PATH": str(models), "KOKORO_CACHE_DIR": str(home / "cache"), "KOKORO_IDLE_UNLOAD_S": "1"}
    environ |= {"DEFAULT_LANGUAGE": "fr"}  # which none of these models has
    environ |= {"SERVER_PROCESSES": request.param, "KOKORO_BACKEND": "torch", "KOKORO_DEVICE": "cpu"}
    with servers.running(TINY, home / "log", **environ) as running:
        yield running


def speak(server: Server, voice: str, text: str, **fields: object) -> httpx.Response:
    return servers.say(server, text, voice=voice, **AUDIO, **fields)


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


def health(server: Server) -> dict[str, Any]:
    answer: dict[str, Any] = httpx.get(f"{server.url}/health", timeout=60).json()
    return answer


def states(server: Server) -> dict[str, str]:
    return {each["name"]: each["state"] for each in health(server)["models"]}


def test_wrong_folders_leave_the_server_alive_and_are_named(server: Server) -> None:
    found = states(server)
    assert [name for name, state in found.items() if state == "broken"] == sorted(
        f"broken-{number}" for number in range(len(FOLDERS))
    )
    messages = [each["message"] for each in health(server)["degraded"] if each["name"] == "models"]
    assert len([each for each in messages if "cannot be used: " in each]) == len(FOLDERS) >= 30
    assert refusal(speak(server, "broken-1/df_anna", "Hallo."))[:2] == (503, "engine_unavailable")
    assert speak(server, "af_heart", "Still here.").status_code == 200


def test_damaged_weights_are_found_when_they_are_needed(server: Server) -> None:
    for _ in range(2):
        status, code, message = refusal(speak(server, "damaged/df_anna", "Hallo."))
        assert (status, code) == (503, "engine_unavailable")
        assert "the model damaged cannot be loaded" in message
    assert states(server)["damaged"] == "failed"
    (message,) = (each["message"] for each in health(server)["degraded"] if "damaged" in each["message"])
    assert "not a safetensors file" in message
    assert "fetch it again" in message


def test_a_german_model_by_the_name_of_its_voice(server: Server) -> None:
    answer = speak(server, "german/df_anna", "Guten Tag, wie geht es Ihnen?")
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-voice-used"] == "german/df_anna"
    assert len(answer.content) > 24_000
    assert speak(server, "german/df_anna", "Guten Tag, wie geht es Ihnen?", language="de").content == answer.content
    mixed = speak(server, "german/df_anna(2)+german/dm_bert", "Guten Tag.")
    assert mixed.headers["x-voice-used"] == "german/df_anna(2)+dm_bert(1)"
    assert speak(server, "af_heart", "Hello.").status_code == 200


def test_its_words_and_phonemes_have_times(server: Server) -> None:
    body = {"text": "Guten Tag, mein Freund.", "voice": "german/df_anna", "timings": "phonemes"}
    spoken = httpx.post(f"{server.url}/tts/captioned", json=body, timeout=60).json()
    assert [word["text"] for word in spoken["words"]] == ["Guten", "Tag", "mein", "Freund"]
    assert {phoneme["word"] for phoneme in spoken["phonemes"]} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("voice", "text", "fields", "error"),
    [
        ("german/df_anna", "Hi", {"language": "en-US"}, (400, "unknown_language", "use one of de")),
        ("german/df_nobody", "Hi", {}, (400, "unknown_voice", "but df_anna, dm_bert")),
        ("af_heart", "Hi [voice:german/df_anna]da[/voice]", {}, (400, "unknown_voice", "all voices of a request")),
        ("german/df_anna", "Hi [voice:af_heart]da[/voice]", {}, (400, "unknown_voice", "all voices of a request")),
        ("german/df_anna", "[Foo](/ↂ/)", {}, (422, "invalid_input", "not phonemes of the model: 'ↂ'")),
        (
            "german/df_anna",
            "Foo",
            {"lexicon": {"Foo": "/ɹ/"}},
            (422, "invalid_input", "not phonemes of the model: 'ɹ'"),
        ),
        (
            "german/df_anna",
            '<speak><phoneme alphabet="kokoro" ph="ɹ">a</phoneme></speak>',
            {"ssml": True},
            (400, "invalid_ssml", "the model has no phonemes 'ɹ'"),
        ),
        ("german/df_anna", "Was heißt 五?", {}, (422, "unspeakable", "cannot be said in German: '五'")),
        ("table/pf_ola", "Szala!", {}, (422, "unspeakable", "'!' (U+0021)")),
        ("table/pf_ola", "Szalom.", {}, (422, "unspeakable", "no entry for 'om'")),
        ("af_heart", "Hi", {"language": "de"}, (400, "unknown_language", "use one of en-US, en-GB, es")),
        ("nobody/df_anna", "Hi", {}, (400, "unknown_voice", "there is no voice 'nobody/df_anna'")),
    ],
)
def test_what_it_cannot_say_is_an_error(
    server: Server, voice: str, text: str, fields: dict[str, Any], error: tuple[int, str, str]
) -> None:
    status, code, message = refusal(speak(server, voice, text, **fields))
    assert (status, code) == error[:2]
    assert error[2] in message


def test_its_own_phonemes_are_spoken(server: Server) -> None:
    body = {"phonemes": "ʃˈøːnə ɡɾˈyːsə.", "voice": "german/df_anna", **AUDIO}
    assert httpx.post(f"{server.url}/tts", json=body, timeout=60).status_code == 200


def test_a_table_of_letters_in_place_of_g2p(server: Server) -> None:
    body = {"text": "Szala.", "voice": "table/pf_ola"}
    reading = httpx.post(f"{server.url}/text/reading", json=body, timeout=60).json()
    assert reading["phonemes"].startswith("ʃala")
    assert speak(server, "table/pf_ola", "Szala.").status_code == 200


def test_symbols_are_replaced(server: Server) -> None:
    phonemes = [
        httpx.post(f"{server.url}/text/reading", json={"text": "drei Rosen", "voice": f"{model}/df_anna"}).json()
        for model in ("german", "replacing")
    ]
    plain, replaced = (each["phonemes"] for each in phonemes)
    assert plain != replaced == plain.translate(str.maketrans("ɾr", "rl"))


def test_chinese_is_read_as_for_version_1_1(server: Server) -> None:
    if importlib.util.find_spec("pypinyin_dict") is None:
        status, code, message = refusal(speak(server, "chinese/zf_001", "你好。"))
        assert (status, code) == (400, "language_not_installed")
        assert "kokoro-server[zh-1-1]" in message
        return
    body = {"text": "你好，我是Alice。", "voice": "chinese/zf_001"}
    found = list[httpx.Response]()

    def read() -> bool:  # on a slow machine the dictionary takes longer to load than the first request may wait
        found.append(httpx.post(f"{server.url}/text/reading", json=body, timeout=120))
        return found[-1].status_code != 503

    servers.wait_for(read)
    reading = found[-1].json()
    assert "ㄋㄧ2ㄏㄠ3" in reading["phonemes"]
    assert "ˈælɪs" in reading["phonemes"]
    assert speak(server, "chinese/zf_001", "你好，世界。").status_code == 200


def test_every_list_has_them(server: Server) -> None:
    voices = {each["name"]: each for each in httpx.get(f"{server.url}/voices", timeout=60).json()["voices"]}
    assert voices["german/df_anna"] | {"installed": True} == {
        "name": "german/df_anna",
        "title": "Anna",
        "language": "de",
        "gender": "female",
        "grade": None,
        "blend": None,
        "installed": True,
    }
    assert len([name for name in voices if name.startswith("chinese/")]) == 102
    models = [each["id"] for each in httpx.get(f"{server.url}/v1/models").json()["data"]]
    assert models[:4] == ["kokoro", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"]
    assert {"german", "chinese", "table"} < set(models)
    names = {each["id"] for each in httpx.get(f"{server.url}/v1/audio/voices", timeout=60).json()["voices"]}
    assert "german/df_anna" in names


def openai(server: Server, **fields: object) -> httpx.Response:
    body = {"input": "Hallo.", "response_format": "pcm", **fields}
    return httpx.post(f"{server.url}/v1/audio/speech", json=body, timeout=120)


def test_openais_field_names_a_model(server: Server) -> None:
    for voice in ({}, {"voice": "df_anna"}, {"voice": "german/df_anna"}, {"voice": "alloy"}):
        answer = openai(server, model="german", **voice)
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-voice-used"] == "german/df_anna"
    assert openai(server, model="german", voice="dm_bert").headers["x-voice-used"] == "german/dm_bert"
    for name in ("tts-1", "gpt-4o-mini-tts", "anything"):
        assert openai(server, model=name, voice="af_heart").headers["x-voice-used"] == "af_heart"
    assert openai(server, model="german", voice="df_x").status_code == 400
    assert openai(server, model="broken-0").status_code == 503


FOREIGN_MODELS = [
    ("model_id", "/v1/text-to-speech/{voice}?output_format=pcm_24000", {"text": "Hallo."}),
    ("model_id", "/v1/text-to-speech/{voice}/stream?output_format=pcm_24000", {"text": "Hallo."}),
    ("model_id", "/tts/bytes", {"transcript": "Hallo.", "output_format": CARTESIA_RAW}),
]


@pytest.mark.parametrize(("field", "path", "body"), FOREIGN_MODELS)
def test_fields_of_other_services_name_a_model(server: Server, field: str, path: str, body: dict[str, Any]) -> None:
    def used(voice: str, model: str) -> tuple[int, str | None]:
        fields = body | {field: model} | ({} if "{voice}" in path else {"voice": {"id": voice}})
        url = server.url + path.format(voice=quote(voice, safe=""))
        answer = httpx.post(url, json=fields, timeout=120)
        return answer.status_code, answer.headers.get("x-voice-used")

    assert used("german/dm_bert", "anything") == (200, "german/dm_bert")
    assert used("dm_bert", "german") == (200, "german/dm_bert")
    assert used("af_heart", "german") == (200, "german/df_anna")
    assert used("af_bella", "anything") == (200, "af_bella")
    assert used("bf_emma", "german")[0] == 400
    assert used("af_heart", "broken-0")[0] == 503


def test_elevenlabs_stock_voices_and_lists(server: Server) -> None:
    george = "/v1/text-to-speech/JBFqnCBsd6RMkjVDRZzb?output_format=pcm_24000"
    answer = httpx.post(server.url + george, json={"text": "Hallo.", "model_id": "german"}, timeout=120)
    assert answer.headers["x-voice-used"] == "german/df_anna"
    listed = httpx.get(f"{server.url}/elevenlabs/v1/models", timeout=60).json()
    (german,) = (each for each in listed if each["model_id"] == "german")
    assert [each["language_id"] for each in german["languages"]] == ["de"]
    found = httpx.get(f"{server.url}/v1/voices/german%2Fdf_anna", headers={"xi-api-key": "none"}, timeout=60)
    assert found.json()["voice_id"] == "german/df_anna"
    assert httpx.get(f"{server.url}/cartesia/voices/german%2Fdf_anna", timeout=60).json()["language"] == "de"


@pytest.mark.parametrize(
    ("model", "used"),
    [("german/dm_bert", "german/dm_bert"), ("german", "german/df_anna"), ("aura-2-helena-en", "af_heart")],
)
def test_deepgrams_model_names_one(server: Server, model: str, used: str) -> None:
    answer = httpx.post(f"{server.url}/v1/speak?model={model}&encoding=flac", json={"text": "Hallo."}, timeout=120)
    assert answer.headers["dg-model-name"] == used
    broken = httpx.post(f"{server.url}/v1/speak?model=broken-0", json={"text": "Hallo."}, timeout=120)
    assert broken.status_code == 503


@pytest.mark.parametrize("path", ["german%2Fdf_anna/stream-input", "df_anna/stream-input?model_id=german"])
def test_elevenlabs_socket_speaks_with_a_model(server: Server, path: str) -> None:
    separator = "&" if "?" in path else "?"
    url = f"{server.url.replace('http', 'ws', 1)}/v1/text-to-speech/{path}{separator}output_format=pcm_24000"
    with connect(url) as socket:
        socket.send(json.dumps({"text": "Guten Tag."}))
        socket.send(json.dumps({"text": ""}))
        messages = [json.loads(message) for message in socket]
    heard = b"".join(b64decode(message["audio"]) for message in messages if message.get("audio"))
    assert heard == speak(server, "german/df_anna", "Guten Tag.").content


def test_a_stream_is_the_clip(server: Server) -> None:
    body = {"text": "Guten Tag.", "voice": "german/df_anna", **AUDIO}
    streamed = httpx.post(f"{server.url}/tts/stream", json=body, timeout=60)
    assert streamed.content == speak(server, "german/df_anna", "Guten Tag.").content


def test_a_model_is_unloaded_while_the_other_speaks(server: Server) -> None:
    before = speak(server, "german/df_anna", "Guten Tag.").content
    assert states(server)["german"] == "loaded"

    def unloaded() -> bool:
        assert speak(server, "af_heart", "Still speaking.").status_code == 200
        return states(server)["german"] == "unloaded"

    servers.wait_for(unloaded)
    assert speak(server, "german/df_anna", "Guten Tag.").content == before


def test_jobs_and_batches_speak_with_them(server: Server) -> None:
    clips = {"requests": [{"text": "Hallo.", "voice": "german/df_anna"}, {"text": "Hello.", "voice": "af_heart"}]}
    answer = httpx.post(f"{server.url}/tts/batch", json=clips, timeout=120)
    assert answer.headers["x-failed-requests"] == "0"
    with httpx.stream("POST", f"{server.url}/tts/bulk", json=clips, timeout=120) as lines:
        assert lines.status_code == 200
        assert b"error" not in lines.read()


def test_health_of_a_server_without_models_has_no_such_key(tiny_server: Server) -> None:
    assert "models" not in json.dumps(health(tiny_server))
