"""How near the times of words are to the sounds, in all languages, by two measures.

    pip install pocketsphinx
    python -m benchmarks.word_times [--url http://localhost:8880] [--languages es fr-FR] [--sentences 50] [--out FILE]

At pauses it is the silence: where the level falls below LEVEL, a word has ended, and after it the next one begins.
For all words it is a forced alignment by pocketsphinx. Its model is of English; each phoneme of another language stands
for the nearest English one, which is near enough to find where it begins. It gets the phonemes of a word, and no times.
At pauses the alignment is measured by the silence, too: what it errs.
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
LEVEL = 10 ** (-40 / 10)  # of silence, as a share of the loudest power
LEVEL_FRAME = 120  # samples: 5 ms
LEAST_SILENCE = 0.15  # seconds; before a plosive it is silent for less

Spans = list[tuple[float, float]]  # begin and end of each word, or of each silence, in seconds


@dataclass
class Errors:
    """Seconds by which times are later than the reference."""

    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    def spreads(self) -> dict[str, Any]:
        return {"starts": spread(self.starts), "ends": spread(self.ends)}


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
    by_silence: Errors = field(default_factory=Errors)
    by_alignment: Errors = field(default_factory=Errors)
    alignment_by_silence: Errors = field(default_factory=Errors)
    furthest: list[tuple[int, str, str]] = field(default_factory=list)  # milliseconds by the silence, word, sentence

    def figures(self) -> dict[str, Any]:
        spreads = {name: value.spreads() for name, value in vars(self).items() if isinstance(value, Errors)}
        furthest = sorted(self.furthest, key=lambda each: -abs(each[0]))[:SHOWN]
        return vars(self) | spreads | {"furthest": furthest}


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
    """The same ones at each call. Half of them have commas between their phrases, half are paragraphs of a phrase."""
    chance = random.Random(0)
    for number in range(count):
        between = table["stop"] + "\n\n" if number % 2 else table["comma"]
        yield between.join(chance.sample(table["phrases"], chance.randint(FEWEST, MOST))) + table["stop"]


def spoken(client: httpx.Client, text: str, language: str, voice: str) -> dict[str, Any]:
    body = {"text": text, "language": language, "voice": voice, "format": "pcm", "timings": "phonemes"}
    answer = client.post("/tts/captioned", json=body)
    answer.raise_for_status()
    content: dict[str, Any] = answer.json()
    return content


def measure(answer: dict[str, Any], text: str, found: Found) -> None:
    """Adds what one answer shows to `found`."""
    count_faults(answer, text, found)
    words, audio = answer["words"], samples(answer)
    times: Spans = [(word["start"], word["end"]) for word in words]
    by_alignment = aligned(audio, pronunciations(words, answer["phonemes"]))
    if len(by_alignment) == len(words):
        for (begin, end), reference in zip(times, by_alignment, strict=True):
            found.by_alignment.starts.append(begin - reference[0])
            found.by_alignment.ends.append(end - reference[1])
    else:
        found.sentences_not_aligned += 1
        by_alignment = []
    for index, (begin, end) in pauses(times, silences(audio)):
        add_pause(found.by_silence, times, index, begin, end)
        if by_alignment:
            add_pause(found.alignment_by_silence, by_alignment, index, begin, end)
        for word, away in ((index, times[index][1] - begin), (index + 1, times[index + 1][0] - end)):
            found.furthest.append((round(away * 1000), words[word]["text"], text))


def add_pause(errors: Errors, words: Spans, index: int, begin: float, end: float) -> None:
    """Of a pause after a word."""
    errors.ends.append(words[index][1] - begin)
    errors.starts.append(words[index + 1][0] - end)


def pauses(words: Spans, silent: Spans) -> Iterator[tuple[int, tuple[float, float]]]:
    """Each word with a silence between it and the next one, and the longest such silence."""
    for index, (one, other) in enumerate(pairwise(words)):
        between = [each for each in silent if one[0] < each[0] and each[1] < other[1]]
        if between:
            yield index, max(between, key=lambda each: each[1] - each[0])


def silences(audio: NDArray[np.float32]) -> Spans:
    frames = audio[: len(audio) // LEVEL_FRAME * LEVEL_FRAME].reshape(-1, LEVEL_FRAME)
    power = np.convolve(np.mean(frames**2, axis=1), np.full(3, 1 / 3), "same")
    edges = np.diff(np.concatenate([[False], power < power.max(initial=0.0) * LEVEL, [False]]).astype(int))
    seconds = np.stack([np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)], axis=1) * (LEVEL_FRAME / RATE)
    return [(float(begin), float(end)) for begin, end in seconds if end - begin >= LEAST_SILENCE]


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
