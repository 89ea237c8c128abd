from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from kokoro_server.audio.loudness import LoudnessMeter, levelled, true_peaks
from kokoro_server.engine.protocol import SAMPLE_RATE, Audio
from tests.servers import PYTHON, ROOT

KEEPS_NOTHING = """
import numpy as np
from kokoro_server.audio.loudness import levelled
from kokoro_server.runtime.event_loop import trim
from tests.memory import anonymous_memory

def level(seconds):
    noise = np.random.default_rng(0).normal(scale=0.02, size=24_000 * seconds).astype(np.float32)
    noise[::40] *= 20  # few places, so that the rest of the sound is not looked at
    levelled(noise, 2.0, 0.8)
    del noise
    trim()
    return anonymous_memory()

before = level(1)
print(level(20) - before)
"""
TIME = np.arange(20 * SAMPLE_RATE) / SAMPLE_RATE


def tone(hertz: float, amplitude: float) -> Audio:
    return (amplitude * np.sin(2 * np.pi * hertz * TIME)).astype(np.float32)


def speechlike() -> Audio:
    """Loud and soft, with a long pause."""
    envelope = np.clip(np.sin(2 * np.pi * 0.3 * TIME), 0, 1) ** 2
    noise = np.random.default_rng(0).normal(scale=0.1, size=TIME.size)
    audio = envelope * (tone(150, 0.4) + tone(2500, 0.2) + noise)
    audio[5 * SAMPLE_RATE : 8 * SAMPLE_RATE] *= 0.001
    return audio.astype(np.float32)


def integrated(audio: Audio, step: int = 77_777) -> float:
    meter = LoudnessMeter()
    for start in range(0, len(audio), step):
        meter.add(audio[start : start + step])
    return meter.integrated


def test_the_standards_own_tone() -> None:
    """A sine of 997 Hz at 0 dBFS in one channel has -3.01 LUFS; meters may be off by 0.1."""
    assert integrated(tone(997, 1.0)) == pytest.approx(-3.01, abs=0.1)
    assert integrated(tone(997, 0.1)) == pytest.approx(-23.01, abs=0.1)


def test_silence_has_no_loudness_and_does_not_count() -> None:
    assert integrated(np.zeros(SAMPLE_RATE, np.float32)) == -math.inf
    assert integrated(np.zeros(0, np.float32)) == -math.inf
    spoken = tone(997, 0.1)
    assert integrated(np.concatenate([spoken, 0 * spoken])) == pytest.approx(integrated(spoken), abs=0.1)


def test_how_it_is_cut_does_not_matter() -> None:
    assert integrated(speechlike(), 10_000) == pytest.approx(integrated(speechlike(), 10**9), abs=1e-6)


def test_peaks_between_samples() -> None:
    """A quarter of the sample rate, sampled where it is 0.707: in between it is 1."""
    audio = np.sin(np.pi / 2 * np.arange(1000) + np.pi / 4)
    assert true_peaks(audio)[100:900].max() == pytest.approx(1.0, abs=0.02)


def test_levelling_keeps_peaks_under_the_ceiling_and_the_rest_as_it_was() -> None:
    audio = speechlike()
    made = levelled(audio, 2.0, 0.7)
    assert true_peaks(made.astype(np.float64)).max() <= 0.71
    quiet = slice(5 * SAMPLE_RATE, 8 * SAMPLE_RATE)
    np.testing.assert_allclose(made[quiet], 2 * audio[quiet], rtol=1e-5)
    np.testing.assert_array_equal(levelled(audio, 0.25, 0.7), audio * np.float32(0.25))


@pytest.mark.parametrize("loudest", [0.3, 1.0])
def test_peaks_between_samples_are_found_wherever_they_are(loudest: float) -> None:
    """In a few places of a signal, and everywhere in it."""
    audio = np.sin(np.pi / 2 * np.arange(SAMPLE_RATE) + np.pi / 4) * loudest
    audio[10_000:10_200] /= loudest
    made = levelled(audio.astype(np.float32), 1.0, 0.8)
    assert true_peaks(made.astype(np.float64)).max() <= 0.81
    if loudest < 0.8:
        np.testing.assert_array_equal(made[:8_000], audio[:8_000].astype(np.float32))


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
@pytest.mark.parametrize("gain", [1.0, 0.1])
def test_ffmpeg_measures_the_same(tmp_path: Path, gain: float) -> None:
    audio = speechlike() * np.float32(gain)
    soundfile.write(tmp_path / "a.wav", audio, SAMPLE_RATE, subtype="FLOAT")
    command = ["ffmpeg", "-i", str(tmp_path / "a.wav"), "-af", "ebur128=peak=true", "-f", "null", "-"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert integrated(audio) == pytest.approx(float(re.findall(r"I:\s+(\S+) LUFS", told)[-1]), abs=0.1)
    peak = 20 * math.log10(true_peaks(audio.astype(np.float64)).max())
    assert peak == pytest.approx(float(re.findall(r"Peak:\s+(\S+) dBFS", told)[-1]), abs=0.2)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what memory is held")
def test_levelling_keeps_no_memory() -> None:
    """In a process of its own, which has done nothing else that could have made memory ready."""
    kept = subprocess.run((PYTHON, "-c", KEEPS_NOTHING), cwd=ROOT, capture_output=True, check=True).stdout
    assert int(kept) < 1_000_000
