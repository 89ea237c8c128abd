"""How near the times of words are to the sounds, in all languages: a recognizer finds where each word is spoken.

    pip install pocketsphinx
    python -m benchmarks.word_times [--url http://localhost:8880] [--languages es fr-FR] [--sentences 50] [--out FILE]

The reference is a forced alignment by pocketsphinx. Its model is of English; each phoneme of another language stands
for the nearest English one, which is near enough to find where it begins. It gets the phonemes of a word, and no times.
"""

from __future__ import annotations

import argparse
import base64
import random
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from tests import asr

DATA = common.ROOT / "benchmarks" / "data"
RATE = 24_000  # Hz
FRAME = 0.01  # seconds, of the reference
ALLOWED = 0.08  # seconds
FEWEST, MOST = 4, 6  # phrases of a sentence
SHOWN = 10  # of the words that are furthest away

Spans = list[tuple[float, float]]  # begin and end of each word, in seconds


@dataclass
class Found:
    """Of one language."""

    sentences: int = 0
    words: int = 0
    several_words_in_one: int = 0
    out_of_order: int = 0
    out_of_audio: int = 0
    characters_without_a_word: int = 0
    words_not_filled_by_phonemes: int = 0
    sentences_not_aligned: int = 0
    starts: list[float] = field(default_factory=list)  # seconds by which our time is later than the reference
    ends: list[float] = field(default_factory=list)
    furthest: list[tuple[int, str, str]] = field(default_factory=list)  # milliseconds, word, sentence

    def figures(self) -> dict[str, Any]:
        furthest = sorted(self.furthest, key=lambda each: -abs(each[0]))[:SHOWN]
        made = {"starts": spread(self.starts), "ends": spread(self.ends), "furthest": furthest}
        return vars(self) | made


def main() -> None:
    options = parse()
    tables = tomllib.loads((DATA / "word_times.toml").read_text(encoding="utf-8"))
    found = {}
    with httpx.Client(base_url=options.url, timeout=300) as client:
        for language in options.languages or tables:
            result = Found()
            for text in sentences(tables[language], options.sentences):
                measure(spoken(client, text, language, tables[language]["voice"]), text, result)
            found[language] = common.show(language, result.figures())
    common.write(options.out, {"allowed_ms": ALLOWED * 1000, "languages": found})


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://localhost:8880")
    parser.add_argument("--languages", nargs="+")
    parser.add_argument("--sentences", type=int, default=50)
    parser.add_argument("--out", type=Path, default=common.RESULTS / "word_times.json")
    return parser.parse_args()


def sentences(table: dict[str, Any], count: int) -> Iterator[str]:
    """The same ones at each call."""
    chance = random.Random(0)
    for _ in range(count):
        yield table["comma"].join(chance.sample(table["phrases"], chance.randint(FEWEST, MOST))) + table["stop"]


def spoken(client: httpx.Client, text: str, language: str, voice: str) -> dict[str, Any]:
    body = {"text": text, "language": language, "voice": voice, "format": "pcm", "timings": "phonemes"}
    answer = client.post("/tts/captioned", json=body)
    answer.raise_for_status()
    content: dict[str, Any] = answer.json()
    return content


def measure(answer: dict[str, Any], text: str, found: Found) -> None:
    """Adds what one answer shows to `found`."""
    count_faults(answer, text, found)
    words = answer["words"]
    spans = aligned(samples(answer), pronunciations(words, answer["phonemes"]))
    if len(spans) != len(words):
        found.sentences_not_aligned += 1
        return
    for word, (begin, end) in zip(words, spans, strict=True):
        found.starts.append(word["start"] - begin)
        found.ends.append(word["end"] - end)
        found.furthest.append((round(found.starts[-1] * 1000), word["text"], text))


def samples(answer: dict[str, Any]) -> NDArray[np.float32]:
    return np.frombuffer(base64.b64decode(answer["audio"]), dtype="<i2").astype(np.float32)


def count_faults(answer: dict[str, Any], text: str, found: Found) -> None:
    """Adds what needs no reference."""
    words, phonemes = answer["words"], answer["phonemes"]
    found.sentences += 1
    found.words += len(words)
    found.several_words_in_one += sum(word["phrase"] for word in words)
    found.out_of_order += sum(
        one["end"] > other["start"] or one["char_end"] > other["char_start"] for one, other in pairwise(words)
    )
    length = len(samples(answer)) / RATE + 1e-4
    found.out_of_audio += sum(not 0 <= word["start"] < word["end"] <= length for word in words)
    covered = {place for word in words for place in range(word["char_start"], word["char_end"])}
    found.characters_without_a_word += sum(text[i].isalnum() and i not in covered for i in range(len(text)))
    found.words_not_filled_by_phonemes += len(words) - sum(filled(words, phonemes))


def filled(words: Sequence[dict[str, Any]], phonemes: Sequence[dict[str, Any]]) -> Iterator[bool]:
    """Whether the phonemes of each word begin and end with it, and leave no gap."""
    for index, word in enumerate(words):
        own = [phoneme for phoneme in phonemes if phoneme["word"] == index]
        times = [word["start"], *(phoneme["end"] for phoneme in own)]
        yield bool(own) and times[-1] == word["end"] and [phoneme["start"] for phoneme in own] == times[:-1]


def pronunciations(words: Sequence[dict[str, Any]], phonemes: Sequence[dict[str, Any]]) -> list[str]:
    """The phones of each word, with spaces between them."""
    return [
        " ".join(
            phones()[symbol]
            for phoneme in phonemes
            if phoneme["word"] == index
            for symbol in phoneme["symbol"]
            if symbol in phones()
        )
        for index in range(len(words))
    ]


@cache
def phones() -> dict[str, str]:
    table = tomllib.loads((DATA / "word_times_phones.toml").read_text(encoding="utf-8"))
    return {symbol: phone for phone, symbols in table.items() for symbol in symbols}


def aligned(audio: NDArray[np.float32], words: Sequence[str]) -> Spans:
    """Where the words are heard that have these phones; nothing if they are not found."""
    from pocketsphinx import Decoder

    heard = np.clip(asr.resampled(audio, RATE), -32_768, 32_767).astype("<i2").tobytes()
    with tempfile.NamedTemporaryFile("w", suffix=".dict", encoding="utf-8") as file:
        file.writelines(f"w{index} {word}\n" for index, word in enumerate(words))
        file.flush()
        decoder = Decoder(lm=None, dict=file.name, samprate=float(asr.RATE), loglevel="FATAL")
    try:
        decoder.set_align_text(" ".join(f"w{index}" for index in range(len(words))))
        decoder.start_utt()
        decoder.process_raw(heard, full_utt=True)
        decoder.end_utt()
        found = [each for each in decoder.seg() or () if each.word.startswith("w")]
    except RuntimeError:
        return []
    return [(each.start_frame * FRAME, (each.end_frame + 1) * FRAME) for each in found]


def spread(errors: Sequence[float]) -> dict[str, float | int]:
    if not errors:
        return {"count": 0}
    away = np.abs(errors)
    return {
        "count": len(errors),
        "within_allowed": round(float(np.mean(away <= ALLOWED)), 4),
        "mean_ms": round(float(np.mean(errors)) * 1000, 1),
        "median_away_ms": round(float(np.median(away)) * 1000, 1),
        "p95_away_ms": round(float(np.percentile(away, 95)) * 1000, 1),
        "most_away_ms": round(float(away.max()) * 1000, 1),
    }


if __name__ == "__main__":
    main()
