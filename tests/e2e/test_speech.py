"""The real model through the real server: what comes out is speech, and the speech that was asked for."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray

from kokoro_server.assets.library import Assets
from kokoro_server.audio.formats import FORMATS, Format
from kokoro_server.engine import vocab
from kokoro_server.engine.model import reference
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.voices import VoiceBook
from tests.audio_files import EXACT, EXTRA_SAMPLES
from tests.audio_files import decode as decode_file
from tests.servers import ROOT, Server, assert_same_audio, say

pytestmark = pytest.mark.real

PACKAGE = {"PYTHONPATH": str(ROOT)}
TEXT = "The birch canoe slid on the smooth planks."
PHONEMES = "ðə bˈɜɹʧ kənˈu slˈɪd ˌɔn ðə smˈuð plˈæŋks."


def decode(content: bytes) -> NDArray[np.float32]:
    audio, rate = soundfile.read(io.BytesIO(content), dtype="float32")
    assert rate == SAMPLE_RATE
    return np.asarray(audio)


def decibels(audio: NDArray[np.float32]) -> float:
    return float(20 * np.log10(np.sqrt(np.mean(audio**2))))


def test_readme_curl_gives_speech(real_server: Server, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    found = re.search(r"^curl .*?/tts.*?(?<!\\)$", readme, re.MULTILINE | re.DOTALL)
    assert found is not None
    command = shlex.split(found.group().replace("\\\n", " ").replace("http://localhost:8880", real_server.url))
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    (written,) = tmp_path.iterdir()
    audio = decode(written.read_bytes())
    assert 1.0 < len(audio) / SAMPLE_RATE < 10.0
    assert -40 < decibels(audio) < -10


def test_readme_python_examples_run(real_server: Server, tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        code = example.replace("http://localhost:8880", real_server.url)
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=300, env=os.environ | PACKAGE)
    for file in ("hello.wav", "hello.mp3"):
        audio = decode_file((tmp_path / file).read_bytes(), file[-3:])
        assert -40 < decibels(audio) < -10


def test_clip_is_as_long_and_as_loud_as_the_reference_models(real_server: Server, assets: Assets) -> None:
    response = say(real_server, TEXT, trim=False)
    assert response.status_code == 200
    audio = decode(response.content)
    tokens = vocab.tokenize(PHONEMES)
    style = torch.from_numpy(VoiceBook(assets.voices).style("af_heart", len(tokens))).reshape(1, -1)
    expected, _ = reference.load(assets.weights).forward_with_tokens(torch.tensor([[0, *tokens, 0]]), style, 1.0)
    assert len(audio) == pytest.approx(len(expected), rel=0.1)
    assert decibels(audio) == pytest.approx(decibels(expected.numpy()), abs=1.5)
    assert np.isfinite(audio).all()
    assert np.abs(audio).max() < 1.0
    assert np.abs(audio[:240]).max() < 0.05, "a click at the start"


def test_speed_changes_the_length(real_server: Server) -> None:
    slow, fast = (len(decode(say(real_server, TEXT, speed=speed).content)) for speed in (0.8, 1.6))
    assert slow / fast == pytest.approx(2.0, rel=0.15)


def test_all_54_voices_are_there(real_server: Server) -> None:
    voices = httpx.get(f"{real_server.url}/voices").json()["voices"]
    assert len(voices) == 54
    assert {voice["language"] for voice in voices} == {
        "en-US", "en-GB", "es", "fr-FR", "hi", "it", "pt-BR", "ja", "zh",
    }  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_speech_whole_and_streamed(real_server: Server, format: Format) -> None:
    whole = say(real_server, "Good morning.", format=format)
    body = {"text": "Good morning.", "format": format}
    streamed = httpx.post(f"{real_server.url}/tts/stream", json=body, timeout=300)
    expected = float(whole.headers["x-audio-duration"]) * SAMPLE_RATE
    for response in (whole, streamed):
        audio = decode_file(response.content, format)
        assert len(audio) - round(expected) in EXTRA_SAMPLES.get(format, EXACT)
        assert -40 < decibels(audio) < -10
        assert np.abs(audio).max() < 1.0
        assert np.abs(audio[:240]).max() < 0.05, "a click at the start"


def test_whole_streamed_and_batched_are_the_same_speech(real_server: Server) -> None:
    fields = {"text": "Good morning, you. It is late.", "format": "pcm", "sample_format": "pcm_f32le", "seed": 5}
    whole, streamed = (
        httpx.post(f"{real_server.url}{path}", json=fields, timeout=300).content for path in ("/tts", "/tts/stream")
    )
    batch = {"requests": [{"text": "Somebody else.", "voice": "am_adam"}, fields]}
    answer = httpx.post(f"{real_server.url}/tts/batch", json=batch, timeout=300)
    batched = zipfile.ZipFile(io.BytesIO(answer.content)).read("tts_002_af_heart.pcm")
    assert_same_audio(streamed, whole)
    assert_same_audio(batched, whole)


def test_words_are_timed_where_they_are_heard(real_server: Server) -> None:
    """The model is silent in a long pause between two words and loud inside each of them."""
    body = {"text": "Yes. [pause:1s] No.", "format": "pcm", "sample_format": "pcm_f32le"}
    answer = httpx.post(f"{real_server.url}/tts/captioned", json=body, timeout=300).json()
    audio = np.frombuffer(base64.b64decode(answer["audio"]), "<f4")
    yes, no = answer["words"]
    assert (yes["text"], no["text"]) == ("Yes", "No")
    assert no["start"] - yes["end"] > 0.9
    for word in (yes, no):
        inside = audio[int(word["start"] * SAMPLE_RATE) : int(word["end"] * SAMPLE_RATE)]
        assert decibels(inside) > decibels(audio) - 6


@pytest.mark.slow
def test_twenty_thousand_characters_of_real_speech(real_server: Server) -> None:
    text = "".join(f"This is sentence number {n}, and it is not the last one. " for n in range(360))[:20_000]
    body = {"text": text, "speed": 4, "format": "pcm"}
    words: list[str] = []
    samples = 0
    url, headers = f"{real_server.url}/tts/captioned", {"accept": "application/x-ndjson"}
    with httpx.stream("POST", url, json=body, headers=headers, timeout=600) as response:
        for line in response.iter_lines():
            event = json.loads(line)
            assert event["type"] in ("audio", "done")
            words += [word["text"] for word in event.get("words", ())]
            samples += len(base64.b64decode(event.get("audio", ""))) // 2
    assert words == re.findall(r"\w+", text)
    assert event["duration"] == pytest.approx(samples / SAMPLE_RATE, abs=1e-3)


@pytest.mark.asr
def test_asr_hears_the_words(real_server: Server) -> None:
    from tests.asr import transcribe, word_error_rate

    audio = decode(say(real_server, TEXT).content)
    assert word_error_rate(TEXT, transcribe(audio, SAMPLE_RATE)) <= 0.13
