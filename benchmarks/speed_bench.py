"""What is understood of speech at other speeds, and how fast it is.

    python -m benchmarks.speed_bench [--clips FOLDER] [--out FILE]

A paragraph is spoken at each speed in two ways: by the model alone, and as the server does it, which stretches the
model's audio where the model slurs or stutters. Whisper hears both. The rate is that of the speech, from its first
sound to its last, in proportion to speed 1. Clips that the folder has are not made again, and what the file has is not
heard again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import common, contenders, corpus, listening
from kokoro_server.audio.join import speech_bounds
from kokoro_server.audio.stretch import stretched
from kokoro_server.engine import vocab
from kokoro_server.engine.protocol import SAMPLE_RATE, Row
from kokoro_server.engine.rows import model_speed
from kokoro_server.voices import VoiceBook
from tests import asr

SENTENCES = (1, 9, 15, 22, 47)
VOICES = ("af_heart", "am_michael")
SPEEDS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
ROUNDS = 5  # of which the fastest counts

Speak = Callable[[float], listening.Clip]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=Path, default=Path("speed_clips"), help="a folder for the model's clips")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "speed.json")
    options = parser.parse_args()
    text = " ".join(corpus.sentences()[index]["text"] for index in SENTENCES)
    known = json.loads(options.out.read_text(encoding="utf-8"))["voices"] if options.out.exists() else {}
    results: dict[str, Any] = {"benchmark": "speed", "text": text, "words": len(asr._words(text)), "voices": {}}
    for voice, speak in speakers(options.clips):
        found = results["voices"][voice] = dict(known.get(voice, {}))
        for speed in SPEEDS:
            if str(speed) not in found:
                found[str(speed)] = common.show(f"{voice} {speed}", measure(speak, speed, text))
                common.write(options.out, results | {"voices": known | results["voices"]})
        results["stretch_ms_per_second"] = {str(speed): cost(speak(1.0), speed) for speed in SPEEDS}
        common.write(options.out, results)
    print(f"written: {options.out}")


def speakers(folder: Path) -> list[tuple[str, Speak]]:
    """The model in each voice, at a speed."""
    weights, packs = common.find(None, None)
    voices, engine = VoiceBook(packs), contenders.onnx_engine(weights, "int8")
    tokens = vocab.tokenize(" ".join(corpus.sentences()[index]["phonemes"] for index in SENTENCES))

    def speaker(voice: str) -> Speak:
        def speak(speed: float) -> listening.Clip:
            def make() -> list[listening.Clip]:
                return [engine.synthesize([Row(tokens, voices.style(voice, len(tokens)), speed)])[0].audio]

            return listening.once(folder / f"{voice}_{speed:g}.npz", make)[0]

        return speak

    return [(voice, speaker(voice)) for voice in VOICES]


def measure(speak: Speak, speed: float, text: str) -> dict[str, Any]:
    plain, made, found = speak(1.0), {"model": speak(speed)}, dict[str, Any]()
    factor = model_speed(speed) / speed
    if factor != 1:
        made["server"] = stretched(speak(model_speed(speed)), factor)[0]
    for way, clip in made.items():
        errors = asr.word_errors(text, asr.transcribe(clip, SAMPLE_RATE))
        rate = spoken_samples(plain) / spoken_samples(clip)
        found[way] = {"word_error_rate": round(errors / len(asr._words(text)), 3), "rate": round(rate, 3)}
    return found | {"server": found.get("server", found["model"])}


def cost(clip: listening.Clip, speed: float) -> float:
    """Milliseconds of a processor for each second of stretched audio."""
    factor = model_speed(speed) / speed
    if factor == 1:
        return 0.0
    took = []
    for _ in range(ROUNDS):
        begun = time.thread_time()
        stretched(clip, factor)
        took.append(time.thread_time() - begun)
    return round(1000 * min(took) / (len(clip) * factor / SAMPLE_RATE), 2)


def spoken_samples(clip: listening.Clip) -> int:
    begin, end = speech_bounds(clip)
    return end - begin


if __name__ == "__main__":
    main()
