"""What a listener gets from the server: words, clicks, levels, pauses, speeds, formats, and the same sound each time.

    python -m benchmarks.listening_bench [--parts prose,speeds] [--clips FOLDER] [--out FILE]

A server with the real model runs on this machine's CPU and is asked over HTTP. The prose is the beginning of *Alice in
Wonderland*. Clips are left in a folder, and those that it has already are not made again. Each part is written into the
file when it is done, beside the parts that the file has. DNSMOS needs the package `speechmos`, which is none of the
project's: install it with librosa into a folder of its own and name that in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks import common, corpus, levels, listening
from benchmarks.serving.speaker import PROSE_WORDS, SEED, VOICE, Speaker, Spoken, paragraphs, post, prose, texts
from benchmarks.speed_bench import spoken_samples
from kokoro_server.audio.formats import FORMATS
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.text.pauses import NATURAL_PAUSES
from kokoro_server.voices import VoiceBook
from tests import asr
from tests.audio_files import decode

SPEEDS_PARAGRAPH = 7  # of the book, after the prose
TRIMMED_PARAGRAPHS = 2  # of the prose, each a clip of its own with and without its ends
VOICES = (VOICE, "am_michael", "bf_emma")
SPEEDS = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 2.5, 3.0, 4.0)
WAYS = ("whole", "streamed")
SET_PAUSES = {"comma": 0.6, "semicolon": 0.9, "sentence": 1.2, "paragraph": 2.0}
REPEATS = 20
SENTENCES = 12  # that are compared with a server of before
MARKS = {"sentence": ".!?…", "semicolon": ";:—", "comma": ","}
CLICKS_PER_JOIN = 3  # that are put there to be found, one at a time
CLICK_SIZE = 0.01  # of full scale, a single sample


def main() -> None:
    options = parse()
    known = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    results = {"benchmark": "listening"} | {part: known[part] for part in ("server", *PARTS) if part in known}
    with Speaker(options.clips, options.voices.split(","), options.words, options.before) as speaker:
        for part in options.parts.split(","):
            results[part] = common.show(part, PARTS[part](speaker))
            common.write(options.out, results | speaker.facts())
    print(f"written: {options.out}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--voices", default=",".join(VOICES), help="of the prose; the first two, of the speeds")
    parser.add_argument("--words", type=int, default=PROSE_WORDS, help="of the prose, at least")
    parser.add_argument("--before", help="the URL of a server of before clips were trimmed, for the part unchanged")
    parser.add_argument("--clips", type=Path, default=Path("build/listening"), help="a folder for the clips")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "listening.json")
    return parser.parse_args()


def word_errors(text: str, heard: str) -> dict[str, Any]:
    errors, words = asr.word_errors(text, heard), len(asr._words(text))
    return {"words": words, "word_errors": errors, "word_error_rate": round(errors / words, 4), "heard": heard}


def prose_part(speaker: Speaker) -> dict[str, Any]:
    """What is understood, clicks, and levels on either side of pauses, in clips and in streams."""
    text = prose(speaker.words)
    spoken = {
        (voice, way): speaker.read(f"prose{speaker.words}_{voice}", text, way, voice=voice)
        for voice in speaker.voices
        for way in WAYS
    }
    found: dict[str, Any] = {"text": text, "words": len(text.split()), "voices": {}}
    steps = {way: defaultdict[str, list[float]](list) for way in WAYS}
    for (voice, way), one in spoken.items():
        own = level_steps(text, one)
        for name, sizes in own.items():
            steps[way][name] += sizes
        row = word_errors(text, speaker.hear(f"prose{speaker.words}_{voice}_{way}")) | {
            "seconds": round(len(one.audio) / SAMPLE_RATE, 2),
            "pieces": len(one.joins) + 1,
            "clicks": click_figures(one),
            "level_steps_db": spreads(own, 2),
        }
        found["voices"].setdefault(voice, {})[way] = common.show(f"{voice} {way}", row)
    pairs = [pair for voice in speaker.voices for pair in steps_in_pairs(text, *(spoken[voice, way] for way in WAYS))]
    return found | {
        "level_steps_db": {way: spreads(sizes, 2) for way, sizes in steps.items()},
        "joins_of_streams_db": spread([join for _, join in pairs], 2),
        "the_same_places_inside_clips_db": spread([inside for inside, _ in pairs], 2),
    }


def dnsmos_part(speaker: Speaker) -> dict[str, Any]:
    """Clips against streams."""
    text, found = prose(speaker.words), defaultdict[str, dict[str, Any]](dict)
    for voice in speaker.voices:
        for way in WAYS:
            audio = speaker.read(f"prose{speaker.words}_{voice}", text, way, voice=voice).audio
            found[voice][way] = listening.dnsmos(audio)
        common.show(voice, found[voice])
    return dict(found)


def ends_part(speaker: Speaker) -> dict[str, Any]:
    """DNSMOS of paragraphs with trimmed ends and with the model's own."""
    found = defaultdict[str, dict[str, Any]](dict)
    for voice in speaker.voices:
        for trim in (True, False):
            clips = [
                speaker.say(f"trim_{voice}_{number}_{trim}", text=paragraph, voice=voice, trim=trim)
                for number, paragraph in enumerate(paragraphs()[:TRIMMED_PARAGRAPHS])
            ]
            found[voice][f"trim: {str(trim).lower()}"] = mean([listening.dnsmos(clip) for clip in clips])
        common.show(voice, found[voice])
    return dict(found)


def mean(figures: Sequence[dict[str, float] | None]) -> dict[str, float] | None:
    known = [each for each in figures if each]
    return {name: round(statistics.fmean(each[name] for each in known), 3) for name in known[0]} if known else None


def click_figures(spoken: Spoken) -> dict[str, Any]:
    """Clicks at joins and elsewhere; and how many of those are found that are put into joins to be found."""
    found, joins = listening.clicks(spoken.audio), join_places(spoken)
    near = [place for place in found if any(begin <= place <= end for begin, end in joins)]
    steps = [float(np.abs(np.diff(spoken.audio[begin:end])).max()) for begin, end in joins]
    return {
        "at_joins": len(near),
        "elsewhere": len(found) - len(near),
        "largest_step_at_joins": round(max(steps, default=0.0), 5),
        "inserted": CLICKS_PER_JOIN * len(joins),
        "inserted_and_found": found_clicks(spoken.audio, joins),
    }


def join_places(spoken: Spoken) -> list[tuple[int, int]]:
    """The samples of the silences in which pieces meet."""
    quiet, words = listening.silences(spoken.audio), spoken.words
    found = [listening.silence_near(quiet, words[i - 1]["end"], words[i]["start"]) for i in spoken.joins]
    return [silence for silence in found if silence]


def found_clicks(audio: listening.Clip, joins: Sequence[tuple[int, int]]) -> int:
    random, found = np.random.default_rng(SEED), 0
    for begin, end in CLICKS_PER_JOIN * list(joins):
        place = int(random.integers(begin, end))
        first = max(0, place - SAMPLE_RATE // 2)
        marred = audio[first : place + SAMPLE_RATE // 2].copy()
        marred[place - first] += np.float32(CLICK_SIZE)
        found += any(abs(first + click - place) <= 2 * listening.CLICK_BLOCK for click in listening.clicks(marred))
    return found


@dataclass(frozen=True)
class Boundary:
    """Between two words with a mark between them: the silence that is heard there."""

    place: int  # of the second word in the text
    mark: str  # as a request's `pauses` has it
    joined: bool  # of two pieces
    silence: tuple[int, int]

    @property
    def kind(self) -> str:
        return f"{self.mark}, {'join' if self.joined else 'inside'}"

    @property
    def seconds(self) -> float:
        return (self.silence[1] - self.silence[0]) / SAMPLE_RATE


def boundaries(text: str, spoken: Spoken) -> Iterator[Boundary]:
    quiet, joins = listening.silences(spoken.audio), set(spoken.joins)
    for place, (one, other) in enumerate(pairwise(spoken.words), 1):
        mark = mark_in(text[one["char_end"] : other["char_start"]])
        silence = mark and listening.silence_near(quiet, one["end"], other["start"])
        if mark and silence:
            yield Boundary(other["char_start"], mark, place in joins, silence)


def mark_in(between: str) -> str | None:
    if "\n\n" in between:
        return "paragraph"
    return next((name for name, marks in MARKS.items() if any(mark in between for mark in marks)), None)


def level_steps(text: str, spoken: Spoken) -> dict[str, list[float]]:
    """How many dB louder or softer speech goes on after each pause."""
    found = defaultdict[str, list[float]](list)
    for one in boundaries(text, spoken):
        found[one.kind].append(abs(listening.level_step(spoken.audio, one.silence)))
    return found


def steps_in_pairs(text: str, whole: Spoken, streamed: Spoken) -> list[tuple[float, float]]:
    """The steps at places that are inside a piece of the clip and a join of the stream: in the clip, in the stream."""
    inside = {one.place: one.silence for one in boundaries(text, whole) if not one.joined}
    joins = {one.place: one.silence for one in boundaries(text, streamed) if one.joined}
    return [
        (abs(listening.level_step(whole.audio, silence)), abs(listening.level_step(streamed.audio, joins[place])))
        for place, silence in inside.items()
        if place in joins
    ]


def pauses_heard(text: str, spoken: Spoken) -> dict[str, list[float]]:
    """Seconds."""
    found = defaultdict[str, list[float]](list)
    for one in boundaries(text, spoken):
        found[one.kind].append(one.seconds)
    return found


def pauses_part(speaker: Speaker) -> dict[str, Any]:
    """Silences that are heard at marks, against those that are promised for joins; and what `pauses` changes."""
    text, heard, asked = prose(speaker.words), dict[str, Any](), dict[str, Any]()
    for way in WAYS:
        together = defaultdict[str, list[float]](list)
        for voice in speaker.voices:
            spoken = speaker.read(f"prose{speaker.words}_{voice}", text, way, voice=voice)
            for kind, seconds in pauses_heard(text, spoken).items():
                together[kind] += seconds
        heard[way] = spreads(together, 3)
    for name, text in texts("pauses").items():
        for way in WAYS:
            for label, fields in (("usual", {}), ("set", {"pauses": SET_PAUSES})):
                spoken = speaker.read(f"pauses_{name}_{label}", text, way, **fields)
                asked[f"{name}, {way}, {label}"] = spreads(pauses_heard(text, spoken), 3)
    return {"promised_s": asdict(NATURAL_PAUSES), "heard_s": heard, "asked_for_s": SET_PAUSES, "texts": asked}


def spreads(values: Mapping[str, Sequence[float]], digits: int) -> dict[str, Any]:
    return {name: spread(found, digits) for name, found in sorted(values.items())}


def spread(values: Sequence[float], digits: int) -> dict[str, float]:
    return {
        "count": len(values),
        "median": round(statistics.median(values), digits),
        "least": round(min(values), digits),
        "most": round(max(values), digits),
    }


def formats_part(speaker: Speaker) -> dict[str, Any]:
    """By how many ms each format is later than wav, and longer."""
    text, found = texts("repeat")["text"], dict[str, Any]()
    for way, path in (("whole", "/tts"), ("streamed", "/tts/stream")):
        files = {name: decode(speaker.post(path, text=text, seed=SEED, format=name), name) for name in FORMATS}
        found[way] = {name: against(clip, files["wav"]) for name, clip in files.items()}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "book.txt"
        source.write_text(text, encoding="utf-8")
        books = {name: decode(book(source, name, speaker.url), name) for name in ("flac", "m4b", "mp3", "opus")}
    found["book, against flac"] = {name: against(clip, books["flac"]) for name, clip in books.items()}
    return found


def book(source: Path, format: str, url: str) -> bytes:
    target = source.with_name(f"aloud.{format}")
    words = ("-m", "kokoro_server", "say", str(source), "-o", str(target), "--url", url)
    subprocess.run([sys.executable, *words], cwd=common.ROOT, check=True, capture_output=True)
    return target.read_bytes()


def against(clip: listening.Clip, wav: listening.Clip) -> dict[str, float]:
    late, longer = listening.lateness(clip, wav), len(clip) - len(wav)
    return {"late_ms": round(1000 * late / SAMPLE_RATE, 2), "longer_ms": round(1000 * longer / SAMPLE_RATE, 2)}


def levels_part(speaker: Speaker) -> dict[str, Any]:
    """The loudness of every voice, as it is and evened."""
    _, folder = common.find(None, None)
    said, found = texts("levels"), dict[str, Any]()
    for voice in VoiceBook(folder).built_in():
        row = {}
        for kind in ("own", "even"):
            clip = speaker.say(f"level_{voice}_{kind}", text=said[voice[0]], voice=voice, level=kind)
            row[kind] = {"lufs": round(levels.loudness([clip]), 2), "true_peak_db": round(levels.peak([clip]), 2)}
        found[voice] = common.show(voice, row)
    return {
        kind: levels.spread([row[kind]["lufs"] for row in found.values()])
        | {"true_peak_db": max(row[kind]["true_peak_db"] for row in found.values())}
        for kind in ("own", "even")
    } | {"voices": found}


def speeds_part(speaker: Speaker) -> dict[str, Any]:
    """What is understood at other speeds, and how fast they are in proportion to speed 1."""
    text, found = paragraphs()[SPEEDS_PARAGRAPH], dict[str, Any]()
    for voice in speaker.voices[:2]:
        clips = {
            speed: speaker.say(f"speed_{voice}_{speed:g}", text=text, voice=voice, speed=speed) for speed in SPEEDS
        }
        for speed, clip in clips.items():
            rate = spoken_samples(clips[1.0]) / spoken_samples(clip)
            heard = speaker.hear(f"speed_{voice}_{speed:g}")
            row = word_errors(text, heard) | {"rate": round(rate, 3)}
            found.setdefault(voice, {})[f"{speed:g}"] = common.show(f"{voice} {speed:g}", row)
    return {"text": text, "voices": found}


def repeat_part(speaker: Speaker) -> dict[str, Any]:
    """One stream with a seed, asked for again and again beside more and less work of other kinds."""
    said, runs = texts("repeat"), list[dict[str, Any]]()
    fields = {"text": said["text"], "voice": VOICE, "seed": SEED, "format": "pcm"}
    for turn in range(REPEATS):
        with beside(speaker, said["beside"], turn) as others:
            pcm = speaker.post("/tts/stream", **fields)
        runs.append({"others": others, "sha256": hashlib.sha256(pcm).hexdigest(), "bytes": len(pcm)})
        common.show(f"{turn + 1}", runs[-1])
    captioned, _, _ = speaker.streamed(fields)
    return {
        "streams": len(runs),
        "hashes": len({run["sha256"] for run in runs}),
        "the_same_with_word_times": hashlib.sha256(captioned).hexdigest() == runs[0]["sha256"],
        "runs": runs,
    }


@contextmanager
def beside(speaker: Speaker, said: Sequence[str], turn: int) -> Iterator[list[str]]:
    """None to three clients that ask for clips, streams or bulk work until the stream has ended."""
    stop, url = threading.Event(), speaker.url
    kinds: list[tuple[str, dict[str, str]]] = [("/tts", {}), ("/tts/stream", {}), ("/tts", {"X-Priority": "bulk"})]
    chosen = [(turn + i) % len(kinds) for i in range(turn % 4)]

    def ask(number: int, path: str, headers: dict[str, str]) -> None:
        asked = turn + number
        while not stop.is_set():
            body = {"text": said[asked % len(said)], "seed": asked}
            httpx.post(f"{url}{path}", json=body, headers=headers, timeout=600)
            asked += 1

    threads = [threading.Thread(target=ask, args=(number, *kinds[kind])) for number, kind in enumerate(chosen)]
    for thread in threads:
        thread.start()
    try:
        yield [" ".join((kinds[kind][0], *kinds[kind][1].values())) for kind in chosen]
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def unchanged_part(speaker: Speaker) -> dict[str, Any]:
    """How many sentences with `trim: false` have the bytes that a server of before has."""
    if speaker.before is None:
        return {"sentences": 0}
    same = list[bool]()
    for index, sentence in enumerate(corpus.sentences()[:SENTENCES]):
        fields: dict[str, Any] = {
            "text": sentence["text"],
            "voice": VOICES[index % len(VOICES)],
            "seed": index,
            "format": "pcm",
        }
        same.append(speaker.post("/tts", trim=False, **fields) == post(f"{speaker.before}/tts", **fields))
        common.show(sentence["text"], same[-1])
    return {"sentences": len(same), "the_same_bytes": sum(same)}


PARTS: dict[str, Callable[[Speaker], dict[str, Any]]] = {
    "prose": prose_part,
    "pauses": pauses_part,
    "speeds": speeds_part,
    "levels": levels_part,
    "formats": formats_part,
    "repeat": repeat_part,
    "dnsmos": dnsmos_part,
    "ends": ends_part,
    "unchanged": unchanged_part,
}


if __name__ == "__main__":
    main()
