"""How much louder or softer speech goes on after a comma: inside a row, and where a sentence is spoken in two rows.

    python -m benchmarks.join_levels [--sentences 25] [--out FILE]

The same sentences both ways, cut at the first comma where a stream would be.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common, contenders, corpus, listening
from kokoro_server.audio.audible import AUDIBLE
from kokoro_server.engine import vocab
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Engine, Result, Row
from kokoro_server.engine.rows import token_starts
from kokoro_server.voices import VoiceBook

VOICES = ("af_heart", "am_michael", "bf_emma")
CUT = range(25, 71)  # phonemes before the comma
REST = 30  # phonemes after it, at least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=25, help="for each of three voices")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "join_levels.json")
    options = parser.parse_args()
    weights, packs = common.find(None, None)
    engine, book = contenders.onnx_engine(weights, "int8"), VoiceBook(packs)
    inside, at_joins = list[float](), list[float]()
    for phonemes, comma in cut_sentences()[: options.sentences]:
        for voice in VOICES:
            whole = speak(engine, book, voice, phonemes)
            middle = round(np.mean(token_starts(whole.durations)[comma : comma + 2]) * SAMPLES_PER_FRAME)
            parts = [speak(engine, book, voice, part) for part in (phonemes[:comma], phonemes[comma:].strip())]
            inside.append(step(whole.audio[:middle], whole.audio[middle:]))
            at_joins.append(step(parts[0].audio, parts[1].audio))
    results: dict[str, Any] = {"benchmark": "join_levels", "pairs": len(inside), "voices": VOICES}
    results["step_db"] = {"inside": spread(inside), "at_joins": spread(at_joins)}
    common.write(options.out, results)
    print(results["step_db"])


def cut_sentences() -> list[tuple[str, int]]:
    """Phonemes of sentences, and how many of them are before the first phrase's end, its comma included."""
    found = [(sentence["phonemes"], sentence["phonemes"].find(",") + 1) for sentence in corpus.sentences()]
    return [(phonemes, cut) for phonemes, cut in found if cut in CUT and len(phonemes) - cut >= REST]


def speak(engine: Engine, book: VoiceBook, voice: str, phonemes: str) -> Result:
    tokens = tuple(vocab.tokenize(phonemes))
    return engine.synthesize([Row(tokens, np.asarray(book.style(voice, len(tokens))).reshape(-1), 1.0)])[0]


def step(before: listening.Clip, after: listening.Clip) -> float:
    """By how many dB the first 0.4 s of sound are louder than the last 0.4 s before them."""
    ends = [power[power > AUDIBLE**2 * power.max()] for power in map(listening.frame_power, (before, after))]
    return abs(float(10 * np.log10(ends[1][: listening.BESIDE].mean() / ends[0][-listening.BESIDE :].mean())))


def spread(steps: list[float]) -> dict[str, float]:
    return {"median": round(float(np.median(steps)), 2), "p90": round(float(np.percentile(steps, 90)), 2)}


if __name__ == "__main__":
    main()
