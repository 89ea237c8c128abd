"""How near a row that begins early is to the same row made as a whole, in every voice (a CPU with our kernels).

    python -m benchmarks.beginnings_bench [--sentences 3] [--heard 1] [--out FILE]

Spectra are compared over the speech, in dB of the log-mel spectrum; the yardstick is the distance between two noises.
Around the seam, where the beginning goes over into the whole, clicks and steps of the level are looked for in both.
Whisper hears `--heard` sentences of each voice. The factor is that of the level by which two ARM cores are planned.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common, contenders, corpus, listening
from kokoro_server.engine import vocab
from kokoro_server.engine.cpu import decode
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Row
from kokoro_server.engine.speed import EARLY_LEVEL
from kokoro_server.voices import VoiceBook

OTHER_NOISE = 1_000_000  # added to a seed
AROUND = 960  # samples before and after the seam whose levels are compared
SEAM_MS = 20  # within which a click counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=3, help="for each voice, all of them other ones")
    parser.add_argument("--heard", type=int, default=1, help="of them that Whisper hears")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "beginnings_cpu.json")
    options = parser.parse_args()
    weights, packs = common.find(None, None)
    engine, book = contenders.onnx_engine(weights, "int8"), VoiceBook(packs)
    engine.real_time_factor = EARLY_LEVEL
    voices, sentences = sorted(path.stem for path in packs.glob("*_*")), corpus.sentences()
    found, texts = [], []
    heard: dict[str, list[str]] = {"whole": [], "early": []}
    for number, voice in enumerate(voices * options.sentences):
        sentence = sentences[number % len(sentences)]
        tokens = tuple(vocab.tokenize(sentence["phonemes"]))
        row = Row(tokens, np.asarray(book.style(voice, len(tokens))).reshape(-1), 1.0, seed=number)
        one, clips = measured(engine, row)
        found.append({"voice": voice, **one})
        if clips and number < options.heard * len(voices):
            texts.append(sentence["text"])
            for name, clip in clips.items():
                heard[name].append(transcribed(clip))
    spoken = [each for each in found if each["beginnings"]]
    results = {"benchmark": "beginnings", "rows": len(found), "begun_early": len(spoken), **summary(spoken)}
    if texts:
        results["heard"] = listening.compare(heard, "whole", texts)
    common.write(options.out, results)
    print({name: value for name, value in results.items() if name != "heard"})
    print({name: each["word_error_rate"] for name, each in results.get("heard", {}).get("engines", {}).items()})


def measured(engine: Any, row: Row) -> tuple[dict[str, Any], dict[str, listening.Clip]]:
    beginnings: list[listening.Clip] = []
    early = engine.synthesize_early(row, lambda beginning: beginnings.append(beginning.audio))
    if not beginnings:
        return {"beginnings": 0}, {}
    [whole], [other] = engine.synthesize([row]), engine.synthesize([replace(row, seed=row.seed + OTHER_NOISE)])
    speech, cut = slice(int(whole.durations[0]) * SAMPLES_PER_FRAME, None), len(beginnings[-1])
    window = slice(speech.start, cut)
    found = {
        "beginnings": len(beginnings),
        "distance_db": distance(whole.audio[speech], early.audio[speech]),
        "noise_db": distance(whole.audio[speech], other.audio[speech]),
        "window_db": distance(whole.audio[window], early.audio[window]),
        "window_noise_db": distance(whole.audio[window], other.audio[window]),
        "level_db": listening.level(early.audio[window]) - listening.level(whole.audio[window]),
        "step_db": step(early.audio, cut) - step(whole.audio, cut),
        "clicks": clicks(early.audio, cut) - clicks(whole.audio, cut),
        "rest_is_equal": bool(np.array_equal(early.audio[cut + decode.SEAM :], whole.audio[cut + decode.SEAM :])),
    }
    return found, {"whole": whole.audio, "early": early.audio}


def step(audio: listening.Clip, at: int) -> float:
    """By how many dB it is louder after the seam than before."""
    before, after = audio[at - AROUND : at], audio[at + decode.SEAM : at + decode.SEAM + AROUND]
    return listening.level(after + 1e-9) - listening.level(before + 1e-9)


def clicks(audio: listening.Clip, at: int) -> int:
    near = SEAM_MS * 24
    return sum(at - near <= place <= at + decode.SEAM + near for place in listening.clicks(audio))


def distance(one: listening.Clip, other: listening.Clip) -> float:
    """The mean of the differences."""
    from tests.engine.kmodel import log_mel

    return float(np.abs(log_mel(one) - log_mel(other)).mean())


def transcribed(clip: listening.Clip) -> str:
    from kokoro_server.engine.protocol import SAMPLE_RATE
    from tests import asr

    return asr.transcribe(clip, SAMPLE_RATE).strip()


def summary(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    voices = sorted({each["voice"] for each in found})
    means = {voice: np.mean([each["distance_db"] for each in found if each["voice"] == voice]) for voice in voices}
    return {
        **{name: spread([each[name] for each in found]) for name in (
            "distance_db", "noise_db", "window_db", "window_noise_db", "level_db", "step_db"
        )},
        "below_the_distance_of_two_noises": share(each["distance_db"] < each["noise_db"] for each in found),
        "below_1_db": share(each["distance_db"] < 1 for each in found),
        "worst_voices_db": {voice: round(float(means[voice]), 3) for voice in sorted(voices, key=means.get)[-3:]},
        "clicks_more": sum(each["clicks"] for each in found),
        "rest_is_equal": all(each["rest_is_equal"] for each in found),
    }  # fmt: skip


def spread(values: Sequence[float]) -> dict[str, float]:
    return {
        name: round(float(value), 3)
        for name, value in zip(
            ("mean", "p1", "p99", "most"),
            (np.mean(values), *np.percentile(values, (1, 99)), np.max(np.abs(values))),
            strict=True,
        )
    }


def share(flags: Any) -> float:
    return round(float(np.mean(list(flags))), 4)


if __name__ == "__main__":
    main()
