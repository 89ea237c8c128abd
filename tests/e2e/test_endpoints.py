"""Every endpoint and format over real HTTP, decoded by a library that did not encode it."""

from __future__ import annotations

import base64
import io
import itertools
import json
import re
import socket
import time
import tomllib
import wave
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from kokoro_server.audio.formats import FORMATS, Format
from tests.audio_files import EXACT, EXTRA_SAMPLES, decode
from tests.servers import Server, assert_same_audio, say

RATE = 24_000
TEXT = "One small step for a person. It was late, and the lights were on; nobody knew why. Then they went out."
LONG = "It was late, and the lights were on; nobody knew why. Then, at last, they went out for good. "
JSON = {"Content-Type": "application/json"}


def stream(server: Server, text: str, **fields: object) -> httpx.Response:
    return httpx.post(f"{server.url}/tts/stream", json={"text": text, **fields}, timeout=300)


def batch(server: Server, requests: list[object]) -> httpx.Response:
    return httpx.post(f"{server.url}/tts/batch", json={"requests": requests}, timeout=300)


def floats(response: httpx.Response) -> NDArray[np.float32]:
    assert response.status_code == 200, response.text
    return np.frombuffer(response.content, "<f4")


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_decodes_to_the_same_length_whole_and_streamed(tiny_server: Server, format: Format) -> None:
    whole = say(tiny_server, TEXT, format=format, optimize_for_latency=True)  # cut as a stream is
    streamed = stream(tiny_server, TEXT, format=format)
    assert whole.status_code == streamed.status_code == 200
    assert whole.headers["content-type"] == streamed.headers["content-type"]
    expected = round(float(whole.headers["x-audio-duration"]) * RATE)
    for response in (whole, streamed):
        audio = decode(response.content, format)
        assert len(audio) - expected in EXTRA_SAMPLES.get(format, EXACT)
        assert np.isfinite(audio).all()
        assert 0.001 < np.sqrt(np.mean(audio**2)) < 0.9


def test_a_batch_is_the_clip_and_a_stream_is_the_clip_with_a_short_start(tiny_server: Server) -> None:
    fields = {"format": "pcm", "sample_format": "pcm_f32le", "seed": 7, "voice": "am_adam", "speed": 1.1}
    whole, streamed = say(tiny_server, TEXT, **fields), stream(tiny_server, TEXT, **fields)
    zipped = zipfile.ZipFile(io.BytesIO(batch(tiny_server, [{"text": TEXT, **fields}]).content))
    assert_same_audio(streamed.content, say(tiny_server, TEXT, **fields, optimize_for_latency=True).content)
    assert_same_audio(zipped.read("tts_001_am_adam.pcm"), whole.content)
    other = say(tiny_server, TEXT, **{**fields, "seed": 8})
    assert len(other.content) == len(whole.content)
    assert other.content != whole.content


def test_streamed_wav_opens_as_one_file(tiny_server: Server) -> None:
    response = stream(tiny_server, LONG * 4)
    audio, rate = soundfile.read(io.BytesIO(response.content))
    assert rate == RATE
    assert len(audio) == (len(response.content) - 44) // 2
    with wave.open(io.BytesIO(response.content)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
    assert response.content.count(b"RIFF") == 1
    headers = response.headers
    assert headers["x-accel-buffering"] == "no"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-stream-id"] == headers["x-request-id"]
    assert headers["x-streaming-mode"] == "bypass-first-2-chunks"
    assert headers["x-bypass-chunks"] == "2"
    assert headers["x-batching-enabled"] == "true"
    assert headers["transfer-encoding"] == "chunked"


def test_audio_starts_before_the_text_is_done(tiny_server: Server) -> None:
    with httpx.stream("POST", f"{tiny_server.url}/tts/stream", json={"text": LONG * 20}, timeout=300) as response:
        chunks = response.iter_raw()
        first = len(next(chunks))
        rest = sum(map(len, chunks))
    assert rest > 5 * first


def test_controls_do_what_they_say(tiny_server: Server) -> None:
    pcm = {"format": "pcm", "sample_format": "pcm_f32le"}
    plain = floats(say(tiny_server, TEXT, **pcm))
    assert_same_audio(say(tiny_server, TEXT, pitch=0, volume=0, **pcm).content, plain.tobytes())
    high = floats(say(tiny_server, TEXT, pitch=5, **pcm))
    assert len(high) == len(plain)
    assert not np.allclose(high, plain)
    soft = floats(say(tiny_server, TEXT, volume=-6, **pcm))
    assert np.allclose(soft, plain * 10 ** (-6 / 20), atol=1e-6)
    loud = floats(say(tiny_server, TEXT, volume=20, **pcm))
    assert np.abs(loud).max() <= 1.0
    assert np.sqrt(np.mean(loud**2)) > np.sqrt(np.mean(plain**2))
    quick = floats(say(tiny_server, TEXT, speed=2, **pcm))
    assert len(quick) < 0.75 * len(plain)
    resampled = floats(say(tiny_server, TEXT, sample_rate=48_000, **pcm))
    assert len(resampled) == 2 * len(plain)


def test_pauses_are_exact_to_the_sample(tiny_server: Server) -> None:
    pcm = {"format": "pcm", "sample_format": "pcm_f32le"}
    lengths = [len(floats(say(tiny_server, f"One.[pause:{pause}]Two.", **pcm))) for pause in ("1s", "1.5s", "1501ms")]
    assert lengths[1] - lengths[0] == RATE // 2
    assert lengths[2] - lengths[1] == RATE // 1000
    silence = floats(say(tiny_server, "[pause:250ms]", **pcm))
    assert len(silence) == RATE // 4
    assert not silence.any()


def test_phonemes_instead_of_text(tiny_server: Server) -> None:
    spelt = httpx.post(f"{tiny_server.url}/tts", json={"phonemes": "həlˈO ðˈɛɹ."}, timeout=60)
    assert spelt.status_code == 200
    assert spelt.content == say(tiny_server, "[Hello](/həlˈO/) [there](/ðˈɛɹ/).").content


def test_batch_gives_every_clip_or_its_reason(tiny_server: Server) -> None:
    response = batch(
        tiny_server,
        [
            {"text": "One.", "voice": "af_heart"},
            {"text": "Two.", "voice": "nobody"},
            {"text": "Hola.", "voice": "ef_dora", "speed": 1.2, "format": "mp3"},
            {"text": ""},
            {"text": "Five.", "speed": 9},
            "six",
            {"text": "Seven.", "voice": "af_bella(2)+af_sky(1)", "format": "flac", "language": "en-GB"},
        ],
    )
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/zip"
    assert response.headers["x-total-requests"] == "7"
    assert response.headers["x-failed-requests"] == "4"
    assert response.headers["x-batching-enabled"] == "true"
    archive = zipfile.ZipFile(io.BytesIO(response.content))
    assert archive.testzip() is None
    assert archive.namelist() == [
        "tts_001_af_heart.wav", "error_002.txt", "tts_003_ef_dora.mp3", "error_004.txt", "error_005.txt",
        "error_006.txt", "tts_007_af_bella(2)+af_sky(1).flac", "manifest.json",
    ]  # fmt: skip
    assert archive.getinfo("tts_001_af_heart.wav").compress_type == zipfile.ZIP_STORED
    assert "nobody" in archive.read("error_002.txt").decode()
    assert "Two." in archive.read("error_002.txt").decode()
    manifest = json.loads(archive.read("manifest.json"))
    assert [line["status"] for line in manifest] == ["ok", "error", "ok", "error", "error", "error", "ok"]
    first = manifest[0]
    assert (first["index"], first["file"], first["text"], first["voice"], first["speed"], first["error"]) == (
        1, "tts_001_af_heart.wav", "One.", "af_heart", 1.0, None,
    )  # fmt: skip
    audio, _ = soundfile.read(io.BytesIO(archive.read("tts_001_af_heart.wav")))
    assert first["duration"] == pytest.approx(len(audio) / RATE, abs=1e-3)


def test_batch_of_bad_clips_is_still_a_zip(tiny_server: Server) -> None:
    response = batch(tiny_server, [{"text": "x", "voice": "nobody"}] * 3)
    assert response.headers["x-failed-requests"] == "3"
    names = zipfile.ZipFile(io.BytesIO(response.content)).namelist()
    assert names == ["error_001.txt", "error_002.txt", "error_003.txt", "manifest.json"]


def test_a_batchs_manifest_is_json_whatever_was_sent(tiny_server: Server) -> None:
    body = '{"requests": [{"text": "One.", "speed": 1e999}, {"text": "Two."}]}'
    response = httpx.post(f"{tiny_server.url}/tts/batch", content=body, headers=JSON, timeout=120)
    content = zipfile.ZipFile(io.BytesIO(response.content)).read("manifest.json")
    assert [clip["status"] for clip in json.loads(content, parse_constant=pytest.fail)] == ["error", "ok"]


def test_batch_has_a_limit_and_needs_a_clip(tiny_server: Server) -> None:
    over = batch(tiny_server, [{"text": "x"}] * 51)
    assert over.status_code == 400
    assert "at most 50" in over.json()["error"]["message"]
    assert batch(tiny_server, []).status_code == 422


def test_word_timings_cover_the_text_in_order(tiny_server: Server) -> None:
    text = "Dr. Smith paid $5.50 on March 3rd. [pause:1s] Then he [left](/lˈɛft/), quickly."
    body = {"text": text, "speed": 1.2}
    answer = httpx.post(f"{tiny_server.url}/tts/captioned", json=body, timeout=60).json()
    words = answer["words"]
    assert [word["text"] for word in words] == [text[word["char_start"] : word["char_end"]] for word in words]
    said = " ".join(word["text"] for word in words)
    assert re.findall(r"\w+", said) == re.findall(r"\w+", re.sub(r"\[pause:1s\]|\(/.*?/\)", "", text))
    times = [time for word in words for time in (word["start"], word["end"])]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= answer["duration"]
    march, then = (next(word for word in words if word["text"] == name) for name in ("3rd", "Then"))
    assert then["start"] - march["end"] > 1.0
    audio, _ = soundfile.read(io.BytesIO(base64.b64decode(answer["audio"])))
    assert answer["duration"] == pytest.approx(len(audio) / RATE, abs=1e-3)
    assert say(tiny_server, text, speed=1.2).content == base64.b64decode(answer["audio"])


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("es", "Hola, amigo. ¿Qué tal?", "Hola|amigo|Qué|tal"),
        ("fr-FR", "Il y a 25 amis, n'est-ce pas ?", "Il|y|a|25|amis|n'est-ce|pas"),
        ("hi", "मेरा नाम राम है।", "मेरा|नाम|राम|है"),
        ("it", "C'è un po' d'acqua.", "C'è|un|po'|d'acqua"),
        ("pt-BR", "Custa R$ 10, certo?", "Custa|R$ 10|certo"),
        ("ja", "価格は¥500です。", "価格|は|¥500|です"),
        ("zh", "我有25%的书。", "我|有|25%|的|书"),
    ],
)
def test_all_languages_are_timed_by_word(tiny_server: Server, language: str, text: str, words: str) -> None:
    body = {"text": text, "language": language, "timings": "phonemes"}
    answer = httpx.post(f"{tiny_server.url}/tts/captioned", json=body, timeout=60).json()
    assert [word["text"] for word in answer["words"]] == words.split("|")
    assert not any(word["phrase"] for word in answer["words"])
    assert all(text[word["char_start"] : word["char_end"]] == word["text"] for word in answer["words"])
    assert [phoneme["word"] for phoneme in answer["phonemes"]] == sorted(
        phoneme["word"] for phoneme in answer["phonemes"]
    )


@pytest.mark.parametrize("language", ["es", "fr-FR", "hi", "it", "pt-BR", "ja", "zh"])
def test_the_words_of_many_sentences_are_in_order_and_within_the_audio(tiny_server: Server, language: str) -> None:
    path = Path(__file__).parent.parent / "text" / "language_sentences.toml"
    sentences = tomllib.loads(path.read_text(encoding="utf-8"))[language]
    text = " ".join((sentences * 2)[:50])
    body = {"text": text, "language": language}
    answer = httpx.post(f"{tiny_server.url}/tts/captioned", json=body, timeout=120).json()
    times = [time for word in answer["words"] for time in (word["start"], word["end"])]
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] <= answer["duration"]
    assert all(word["start"] < word["end"] for word in answer["words"])
    said = "".join(word["text"] for word in answer["words"])
    assert re.findall(r"\w", said) == re.findall(r"\w", text)


SOUNDS = {"text": "Bob paid $25, [pause:200ms] and [left](/lˈɛft/).", "timings": "phonemes", "visemes": "oculus"}


def test_phonemes_fill_their_words(tiny_server: Server) -> None:
    answer = httpx.post(f"{tiny_server.url}/tts/captioned", json=SOUNDS, timeout=60).json()
    words, phonemes = answer["words"], answer["phonemes"]
    for number, word in enumerate(words):
        own = [phoneme for phoneme in phonemes if phoneme["word"] == number]
        times = [(phoneme["start"], phoneme["end"]) for phoneme in own]
        assert (times[0][0], times[-1][1]) == (word["start"], word["end"])
        assert all(one[1] == other[0] for one, other in itertools.pairwise(times))
    said = "".join(phoneme["symbol"] for phoneme in phonemes)
    assert said == "bˈɑbpˈAdtwˈɛntifˈIvdˈɑləɹzændlˈɛft"
    visemes = [each["viseme"] for each in answer["visemes"]]
    assert visemes[:5] == ["PP", "aa", "PP", "E", "I"]
    assert visemes.count("sil") == 2, "at the pause and at the end"
    starts = [each["start"] for each in answer["visemes"]]
    assert starts == sorted(starts)
    assert starts[-1] == words[-1]["end"] <= answer["duration"]
    plain = httpx.post(f"{tiny_server.url}/tts/captioned", json={"text": SOUNDS["text"]}, timeout=60).json()
    assert {name: answer[name] for name in plain} == plain
    assert set(answer) - set(plain) == {"phonemes", "visemes"}


@pytest.mark.parametrize("accept", ["application/x-ndjson", "text/event-stream"])
def test_phonemes_are_streamed_with_the_audio(tiny_server: Server, accept: str) -> None:
    url = f"{tiny_server.url}/tts/captioned"
    response = httpx.post(url, json=SOUNDS, headers={"accept": accept}, timeout=60)
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith(("{", "data: "))]
    events = [json.loads(line) for line in lines][:-1]
    whole = httpx.post(url, json=SOUNDS, timeout=60).json()
    assert [each for event in events for each in event["visemes"]] == whole["visemes"]
    symbols = [phoneme["symbol"] for event in events for phoneme in event["phonemes"]]
    assert symbols == [phoneme["symbol"] for phoneme in whole["phonemes"]]
    for event in events:
        assert {phoneme["word"] for phoneme in event["phonemes"]} == set(range(len(event["words"])))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"timings": "letters"}, "'words' or 'phonemes'"),
        ({"visemes": "tongue"}, "'oculus' or 'azure'"),
        ({"visemes": "azure", "format": "srt"}, "subtitles have no visemes"),
        ({"timings": "phonemes", "format": "vtt"}, "subtitles have no timings"),
    ],
)
def test_wrong_timings_are_refused(tiny_server: Server, fields: dict[str, str], says: str) -> None:
    response = httpx.post(f"{tiny_server.url}/tts/captioned", json={"text": "Hello."} | fields, timeout=60)
    assert response.status_code == 422
    assert says in response.json()["error"]["message"]


@pytest.mark.parametrize(("format", "media_type"), [("srt", "application/x-subrip"), ("vtt", "text/vtt")])
def test_subtitles(tiny_server: Server, format: str, media_type: str) -> None:
    response = httpx.post(f"{tiny_server.url}/tts/captioned", json={"text": LONG * 2, "format": format}, timeout=60)
    assert response.headers["content-type"].startswith(media_type)
    assert response.text.startswith("WEBVTT" if format == "vtt" else "1\n00:00:0")
    assert len(re.findall(r"-->", response.text)) >= 3
    assert "nobody knew why" in response.text.replace("\n", " ")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (
            "fr-FR",
            "Les enfants de la grande maison ont vu 25 oiseaux dans les arbres de leur vieil oncle " * 2,
        ),
        (
            "es",
            "La vieja casa de la esquina tiene una puerta roja y 12 ventanas que dan a la calle del pueblo " * 2,
        ),
    ],
)
def test_subtitles_of_other_languages_follow_their_words(tiny_server: Server, language: str, text: str) -> None:
    body = {"text": text, "language": language}
    words = httpx.post(f"{tiny_server.url}/tts/captioned", json=body, timeout=60).json()["words"]
    subtitles = httpx.post(f"{tiny_server.url}/tts/captioned", json=body | {"format": "srt"}, timeout=60).text
    cues = re.findall(r"(\d+):(\d+):(\d+),(\d+) --> .*\n((?:.+\n)+)", subtitles)
    assert len(cues) > 2
    place = 0
    for hours, minutes, seconds, milliseconds, lines in cues:
        assert lines.split() == [word["text"] for word in words[place : place + len(lines.split())]]
        start = 3600 * int(hours) + 60 * int(minutes) + int(seconds) + int(milliseconds) / 1000
        assert start == pytest.approx(words[place]["start"], abs=0.002)
        place += len(lines.split())
    assert place == len(words)


@pytest.mark.parametrize("accept", ["application/x-ndjson", "text/event-stream"])
def test_timings_are_streamed_with_the_audio(tiny_server: Server, accept: str) -> None:
    text = "One small step. [pause:100ms] It was late. [pause:100ms] They went out."  # a clip too is cut at pauses
    url, body = f"{tiny_server.url}/tts/captioned", {"text": text, "format": "pcm", "sample_format": "pcm_f32le"}
    response = httpx.post(url, json=body, headers={"accept": accept}, timeout=60)
    assert response.headers["content-type"].startswith(accept)
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith(("{", "data: "))]
    events = [json.loads(line) for line in lines]
    assert {event["type"] for event in events[:-1]} == {"audio"}
    assert events[-1]["type"] == "done"
    whole = httpx.post(url, json=body, timeout=60).json()
    streamed = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    assert_same_audio(streamed, base64.b64decode(whole["audio"]))
    assert [word for event in events[:-1] for word in event["words"]] == whole["words"]
    assert events[-1]["duration"] == pytest.approx(whole["duration"])


@pytest.mark.parametrize("characters", [3_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_thousands_of_characters_are_spoken_whole(tiny_server: Server, characters: int) -> None:
    text = "".join(f"This is sentence number {n}, and it is not the last one. " for n in range(360))[:characters]
    # A clip of low latency is cut as a stream is. The tiny model's voices speak pieces of other lengths at other rates.
    body = {"text": text, "speed": 2, "format": "pcm", "optimize_for_latency": True}
    answer = httpx.post(f"{tiny_server.url}/tts/captioned", json=body, timeout=300).json()
    spoken = [word["text"] for word in answer["words"]]
    assert spoken == re.findall(r"\w+", text)
    streamed = httpx.post(f"{tiny_server.url}/tts/stream", json=body, timeout=300)
    assert len(streamed.content) == pytest.approx(len(base64.b64decode(answer["audio"])), rel=0.005)


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"voice": "af_heart(0)+af_sky"}, 422, "weight '0'"),
        ({"voice": "af_heart++af_sky"}, 422, "not a name or a mix"),
        ({"pitch": 13}, 422, "pitch: Input should be less than or equal to 12"),
        ({"volume": 40}, 422, "volume: Input should be less than or equal to 20"),
        ({"seed": -1}, 422, "seed: Input should be greater than or equal to 0"),
        ({"sample_rate": 7999}, 422, "sample_rate: Input should be greater than or equal to 8000"),
        ({"sample_rate": 44_100, "format": "opus"}, 422, "allowed: 8000, 12000, 16000, 24000, 48000"),
        ({"sample_format": "pcm_f32le", "format": "mp3"}, 422, "sample_format is for wav and pcm"),
        ({"text": "Hi [pause:-1s]"}, 422, "at most 30 s"),
        ({"text": "Hi [pause:1h]"}, 422, "at most 30 s"),
        ({"text": "[Hi](/ж/)"}, 422, "U+0436"),
        ({"text": None}, 422, "give exactly one of text, turns or phonemes"),
        ({"phonemes": "a"}, 422, "give exactly one of text, turns or phonemes"),
        ({"text": None, "phonemes": "жa"}, 422, "U+0436"),
        ({"text": None, "phonemes": ""}, 422, ""),
    ],
)
@pytest.mark.parametrize("path", ["/tts", "/tts/stream", "/tts/captioned"])
def test_bad_input_on_every_endpoint(
    tiny_server: Server, path: str, fields: dict[str, object], status: int, says: str
) -> None:
    response = httpx.post(f"{tiny_server.url}{path}", json={"text": "Hi", **fields}, timeout=60)
    assert response.status_code == status, response.text
    assert says in response.json()["error"]["message"]


def test_a_body_over_the_limit_is_refused_before_it_is_read(tiny_server: Server) -> None:
    response = httpx.post(f"{tiny_server.url}/tts", content=b'{"text": "' + b"a" * 11_000_000 + b'"}', timeout=60)
    assert response.status_code == 413
    assert "MAX_BODY_SIZE" in response.json()["error"]["message"]


def test_a_client_that_leaves_mid_stream_frees_the_queue(tiny_server: Server) -> None:
    before = httpx.get(f"{tiny_server.url}/health/streaming").json()["streams"]["abandoned"]
    with httpx.stream("POST", f"{tiny_server.url}/tts/stream", json={"text": LONG * 300}, timeout=60) as response:
        next(response.iter_raw())
    deadline = time.monotonic() + 120
    while True:
        found = httpx.get(f"{tiny_server.url}/health/streaming").json()
        if not found["streams"]["active"] and not found["batch_queue_stats"]["queue_status"]["current_size"]:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert found["streams"]["abandoned"] == before + 1
    assert found["bypass_chunks_config"] == 2
    assert "Traceback" not in tiny_server.lines()
    assert 'endpoint="/tts/stream",outcome="client_gone"' in httpx.get(f"{tiny_server.url}/metrics").text


def test_a_slow_reader_neither_stops_others_nor_fills_memory(tiny_server: Server) -> None:
    """A client that reads nothing: the server makes a few pieces ahead and waits, and serves others meanwhile."""
    address = urlsplit(tiny_server.url)
    body = json.dumps({"text": LONG * 400, "format": "wav"}).encode()
    head = (
        "POST /tts/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(head.encode() + body)
        made = -1
        deadline = time.monotonic() + 120
        while made != (made := _requests_made(tiny_server)):
            assert time.monotonic() < deadline
            time.sleep(0.5)
        assert say(tiny_server, "Hello there.").status_code == 200
        assert httpx.get(f"{tiny_server.url}/health/streaming").json()["streams"]["active"] == 1


def _requests_made(server: Server) -> int:
    found: int = httpx.get(f"{server.url}/health/batching").json()["performance"]["total_requests"]
    return found


def test_lexicon_is_used_and_read_again(tmp_path: Path, log_file: Path, shared_g2p: str) -> None:
    from tests import servers

    lexicon = tmp_path / "lexicon.toml"
    lexicon.write_text('["*"]\n"Kokoro" = "/kˈOkəɹO/"\n')
    environ = {"LEXICON_PATH": str(lexicon), "G2P_SERVICE_URL": shared_g2p}
    with servers.running(servers.TINY, log_file, **environ) as server:
        assert say(server, "Kokoro speaks.").content == say(server, "[Kokoro](/kˈOkəɹO/) speaks.").content
        time.sleep(1.1)
        lexicon.write_text('["*"]\n"Kokoro" = "/ˈa/"\n')
        assert say(server, "Kokoro speaks.").content == say(server, "[Kokoro](/ˈa/) speaks.").content
