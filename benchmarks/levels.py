"""How loud each voice is, and the gain that brings it to the common level: the table of the voices.

    python -m benchmarks.levels --clips clips --table kokoro_server/voices/levels.toml --out levels.json

Each voice says two short texts of its own language, and its loudness over both is measured by EBU R 128. A few blends
are spoken too: their gains are not measured, but mixed of those of their parts. The clips are left in a folder, and
those that it has already are not made again.

The gain of any other pack is estimated: a linear function of its mean style, fitted to the measured voices. To say how
good that is, each voice is estimated by a function that was fitted to the 53 others.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common, listening
from kokoro_server.audio.limiter import Values
from kokoro_server.audio.loudness import LoudnessMeter, levelled, true_peaks
from kokoro_server.cli.backends import open_backend
from kokoro_server.config.settings import Settings
from kokoro_server.engine import loader
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.speech_backend import SpeechBackend
from kokoro_server.synthesis.utterance import PEAK_CEILING
from kokoro_server.voices import VoiceBook, mix
from kokoro_server.voices.levels import mean_style

TARGET = -23.0  # LUFS, the level of EBU R 128
TEXTS = common.ROOT / "benchmarks" / "data" / "levels.toml"
HEAD = f"""# dB by which a voice is made louder or softer for all to have the loudness of {TARGET:g} LUFS.
# Written by benchmarks/levels.py.
[gains]"""
PACKS = """
# The estimate for other packs: the offset plus the mean style times the weights.
[packs]"""
RIDGE = 0.01  # what is added for each squared weight: there are more weights than voices
BLENDS = (
    "af_heart+am_michael",
    "af_bella(2)+af_sky(1)",
    "af_nicole+bm_george",
    "bf_emma(3)+zf_xiaobei(1)",
    "am_adam+jf_alpha+ff_siwis",
)


def main() -> None:
    options = parse()
    _, folder = common.find(None, None)
    book = VoiceBook(folder)
    names = book.built_in()
    missing = [name for name in (*names, *BLENDS) if not (options.clips / f"{name}.npz").exists()]
    if missing:
        asyncio.run(speak_all(missing, options.clips))
    clips = {name: listening.kept(options.clips / f"{name}.npz") for name in (*names, *BLENDS)}
    gains = {name: round(TARGET - loudness(clips[name]), 2) for name in names}
    mixed = {name: blended(name, gains) for name in BLENDS}
    styles, measured = np.stack([mean_style(book.pack(name)) for name in names]), np.array(list(gains.values()))
    if options.table:
        options.table.write_text(table(gains, *fitted(styles, measured)), encoding="utf-8")
    rows = {name: row(clips[name], gain) for name, gain in (gains | mixed).items()}
    voices = [rows[name] for name in names]
    results = {
        "benchmark": "levels",
        "target_lufs": TARGET,
        "before": spread([each["before_lufs"] for each in voices]),
        "after": spread([each["after_lufs"] for each in voices]),
        "after_by_the_gain_of_the_other_text": spread([one for each in voices for one in each["other_text_lufs"]]),
        "estimates_of_packs": left_out_errors(styles, measured),
        "true_peak_before_db": max(each["before_peak_db"] for each in voices),
        "true_peak_after_db": max(each["after_peak_db"] for each in voices),
        "voices": {name: rows[name] for name in names},
        "blends": {name: rows[name] for name in BLENDS},
    }
    common.write(options.out, results)
    print(f"written: {options.out}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clips", type=Path, required=True, help="a folder for the clips")
    parser.add_argument("--table", type=Path, help="where to write the table of gains")
    parser.add_argument("--out", type=Path, default=Path("levels.json"))
    return parser.parse_args()


async def speak_all(voices: Sequence[str], folder: Path) -> None:
    texts = tomllib.loads(TEXTS.read_text(encoding="utf-8"))
    async with open_backend(Settings.load(dotenv=None), None, loader.load) as backend:
        for name in voices:
            listening.keep(folder / f"{name}.npz", [await say(backend, name, text) for text in texts[name[0]]])
            print(name, flush=True)


async def say(backend: SpeechBackend, voice: str, text: str) -> listening.Clip:
    spoken = await backend.speak(Speech(voice, text))
    return (np.frombuffer(spoken.pcm, "<i2") / listening.FULL).astype(np.float32)


def loudness(clips: Sequence[listening.Clip]) -> float:
    meter = LoudnessMeter()
    for clip in clips:
        meter.add(clip)
    return meter.integrated


def peak(clips: Sequence[listening.Clip]) -> float:
    return 20 * math.log10(max(float(true_peaks(clip.astype(np.float64)).max()) for clip in clips))


def louder(clips: Sequence[listening.Clip], gain: float) -> list[listening.Clip]:
    """The clips as the server makes them."""
    return [levelled(clip, float(10 ** (gain / 20)), PEAK_CEILING) for clip in clips]


def blended(name: str, gains: dict[str, float]) -> float:
    """The gain of a blend, mixed of those of its parts as the server mixes it."""
    parts = mix.parse(name, gains)
    return sum(gains[part] * weight for part, weight in parts.items()) / sum(parts.values())


def fitted(styles: Values, gains: Values) -> tuple[float, Values]:
    """The offset and the weights with which the styles give the gains."""
    mean, middle = styles.mean(axis=0), float(gains.mean())
    away = styles - mean
    weights = away.T @ np.linalg.solve(away @ away.T + RIDGE * np.eye(len(gains)), gains - middle)
    return middle - float(mean @ weights), weights


def left_out_errors(styles: Values, gains: Values) -> dict[str, float]:
    """How far the estimate of each voice is from its gain, in dB, if it has no part in the fit."""
    errors = []
    for index, gain in enumerate(gains):
        offset, weights = fitted(np.delete(styles, index, axis=0), np.delete(gains, index))
        errors.append(abs(offset + float(styles[index] @ weights) - float(gain)))
    return {
        "rms": round(float(np.sqrt(np.mean(np.square(errors)))), 2),
        "most": round(max(errors), 2),
        "share_within_1": round(float(np.mean(np.array(errors) <= 1)), 2),
        "rms_without_estimate": round(float(np.sqrt(np.mean(np.square(gains)))), 2),
    }


def row(clips: Sequence[listening.Clip], gain: float) -> dict[str, Any]:
    made, (first, second) = louder(clips, gain), clips
    others = (louder([first], TARGET - loudness([second])), louder([second], TARGET - loudness([first])))
    return {
        "before_lufs": round(loudness(clips), 2),
        "before_peak_db": round(peak(clips), 2),
        "gain_db": round(gain, 2),
        "after_lufs": round(loudness(made), 2),
        "after_peak_db": round(peak(made), 2),
        "other_text_lufs": [round(loudness(other), 2) for other in others],
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"least": min(values), "most": max(values), "mean": round(float(np.mean(values)), 2)}


def table(gains: dict[str, float], offset: float, weights: Values) -> str:
    lines = (f"{name} = {gain:.2f}" for name, gain in gains.items())
    written = [
        ", ".join(f"{weight:.3f}" for weight in weights[start : start + 12]) for start in range(0, len(weights), 12)
    ]
    packs = (f"offset = {offset:.3f}", "weights = [", *(f"    {line}," for line in written), "]")
    return "\n".join((HEAD, *lines, PACKS, *packs, ""))


if __name__ == "__main__":
    main()
