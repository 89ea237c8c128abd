"""What is understood of a word or two alone, for each way to speak them.

    python -m benchmarks.short_words [--voices af_heart] [--ways period style] [--words help OK] [--out FILE]

The ways differ in the marks around the word, in the style of the voice, and in the words around it, which are cut away
in the silence between. Each clip is trimmed as the server trims it. Whisper hears it after 0.3 s of silence, as a
listener does (`--silence`). What the file has is not heard again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common, contenders, listening
from kokoro_server.audio.join import Ends, Joiner
from kokoro_server.audio.sound import Sound
from kokoro_server.engine import vocab
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, Engine, Result, Row
from kokoro_server.engine.rows import token_starts
from kokoro_server.g2p.result import G2PResult
from kokoro_server.languages import EN_US, Language
from kokoro_server.text.pieces import Piece, PieceSizes
from kokoro_server.text.reader import Reader
from kokoro_server.voices import VoiceBook
from tests import asr

TEXTS = common.ROOT / "benchmarks" / "data" / "short_words.toml"
VOICES = ("af_heart", "am_michael")
ROWS = 8  # of one pass
WINDOW = 1_000  # frames of 10 ms
MAX_HEARD = 40  # tokens
FRAME = SAMPLE_RATE // 200  # samples: 5 ms
EARLY = 6 * SAMPLES_PER_FRAME  # samples by which a sound may be heard before its duration begins
SILENCE = 10 ** (-50 / 10)  # threshold, as a share of the loudest frame's power


@dataclass(frozen=True)
class Way:
    """`before` and `after` are phonemes. Of both, only the marks beside the word are kept.

    `style` is the number of phonemes whose style is taken, if it is not that of the row.
    """

    before: str = ""
    after: str = "."
    style: int | None = None


WAYS = {
    "bare": Way(after=""),
    "period": Way(),
    "exclaimed": Way(after="!"),
    "style 20": Way(style=20),
    "style 50": Way(style=50),
    "style 100": Way(style=100),
    "yes before": Way(before="jˈɛs. "),
    "the word is": Way(before="ðə wˈɜɹd ɪz: "),
    "please after": Way(after=". plˈiz."),
    "a sentence after": Way(after=". ðæt ɪz ðə wˈɜɹd."),
    "a sentence on either side": Way(before="ðə wˈɜɹd ɪz: ", after=". ðæt ɪz ðə wˈɜɹd."),
}


@dataclass(frozen=True)
class Said:
    clip: listening.Clip  # trimmed
    cut_db: float | None  # the loudest 5 ms at a cut, to the loudest of the clip; None where nothing was cut


def main() -> None:
    options = parse()
    known = json.loads(options.out.read_text(encoding="utf-8"))["heard"] if options.out.exists() else {}
    texts = options.words or shuffled(list(spellings()))[: options.texts]
    engine, voices = load()
    phonemes = asyncio.run(read(texts))
    for voice in options.voices:
        heard = {name: known.setdefault(voice, {}).setdefault(name, {}) for name in options.ways}
        for start in range(0, len(texts), ROWS):
            for name, found in heard.items():
                few = [text for text in texts[start : start + ROWS] if text not in found]
                said = speak(engine, partial(voices.style, voice), [phonemes[text] for text in few], WAYS[name])
                for text, each in zip(few, said, strict=True):
                    found[text] = [listen(each.clip, options.silence), each.cut_db]
            common.write(options.out, results(known))
        for name, found in heard.items():
            common.show(f"{voice}, {name}:", score({text: found[text] for text in texts}))
    print(f"written: {options.out}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voices", nargs="+", default=VOICES)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--words", nargs="+", help="in place of the 200")
    parser.add_argument("--texts", type=int, help="of the 200, in a fixed order in which all kinds are mixed")
    parser.add_argument("--silence", type=float, default=0.3, help="seconds, before each clip")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "short_words.json")
    return parser.parse_args()


@cache
def spellings() -> dict[str, list[str]]:
    """What may be written for each of the texts."""
    table = tomllib.loads(TEXTS.read_text(encoding="utf-8"))
    return {text: [text, *table["accepted"].get(text, ())] for text in table["words"]}


def shuffled(texts: list[str]) -> list[str]:
    random.Random(0).shuffle(texts)
    return texts


def load() -> tuple[Engine, VoiceBook]:
    weights, packs = common.find(None, None)
    return contenders.onnx_engine(weights, "int8"), VoiceBook(packs)


class _EnglishG2P:
    def __init__(self) -> None:
        from kokoro_server.g2p.service.english import English

        self._english = English(british=False)

    async def convert(self, texts: Sequence[str], _language: Language, /, **_: bool) -> list[G2PResult]:
        return [self._english(text) for text in texts]


async def read(texts: Sequence[str]) -> dict[str, str]:
    """The phonemes of each, as the server reads it, without a mark at the end."""
    reader, found = Reader(_EnglishG2P(), PieceSizes()), {}
    for text in texts:
        async for piece in reader.pieces(text, EN_US):
            assert isinstance(piece, Piece)
            found[text] = piece.phonemes.rstrip(".")
    return found


def speak(engine: Engine, style: Any, words: Sequence[str], way: Way) -> list[Said]:
    tokens = [vocab.tokenize(f"{way.before}{word}{way.after}") for word in words]
    rows = [Row(each, style(way.style or len(each))) for each in tokens]
    found = engine.synthesize(rows)
    return [cut_out(result, word, way) for result, word in zip(found, words, strict=True)]


def cut_out(result: Result, word: str, way: Way) -> Said:
    """The word alone, trimmed."""
    begins = token_starts(result.durations)[1:] * SAMPLES_PER_FRAME  # of each phoneme
    first = len(vocab.tokenize(way.before))
    last = first + len(vocab.tokenize(word))
    begin, end, levels = 0, len(result.audio), []
    if first:
        begin, level = quietest(result.audio, int(begins[first - 2]) - EARLY, int(begins[first]))
        levels.append(level)
    if len(way.after) > 1:
        end, level = quietest(result.audio, int(begins[last]) - EARLY, int(begins[last + 2]))
        levels.append(level)
    trimmed = Joiner(Ends()).add(
        Sound(result.audio[begin:end]), ends="sentence", pad=max(0, int(begins[first]) - begin), last=True
    )
    return Said(trimmed.sound.audio, round(max(levels), 1) if levels else None)


def quietest(audio: listening.Clip, start: int, stop: int) -> tuple[int, float]:
    """The middle of the longest silence between two places, and how loud it is there."""
    frames = audio[: len(audio) // FRAME * FRAME].reshape(-1, FRAME)
    power = np.square(frames).mean(axis=1) / np.square(frames).mean(axis=1).max()
    low, high = max(0, start) // FRAME, min(len(frames), stop // FRAME)
    silent = [*(power[low:high] < SILENCE), False]
    runs, begun = [(0, int(power[low:high].argmin()))], None  # each with its length and middle
    for index, quiet in enumerate(silent):
        if quiet and begun is None:
            begun = index
        elif not quiet and begun is not None:
            runs.append((index - begun, (index + begun) // 2))
            begun = None
    place = low + max(runs)[1]
    return place * FRAME, float(10 * np.log10(power[place - 1 : place + 1].max() + 1e-12))


def listen(clip: listening.Clip, silence: float) -> str:
    """What Whisper hears in a window of WINDOW frames: of the usual 3,000, it would take eight times as long."""
    from faster_whisper.audio import pad_or_trim

    model, tokenizer = whisper()
    audio = np.concatenate([np.zeros(int(silence * SAMPLE_RATE), np.float32), clip])
    features = pad_or_trim(model.feature_extractor(asr.resampled(audio, SAMPLE_RATE)), WINDOW)
    prompt = model.get_prompt(tokenizer, [], without_timestamps=True)
    encoded = model.encode(np.ascontiguousarray(features))
    (found,) = model.model.generate(encoded, [prompt], beam_size=5, max_length=MAX_HEARD, suppress_tokens=[-1])
    return str(tokenizer.decode(found.sequences_ids[0])).strip()


@cache
def whisper() -> tuple[Any, Any]:
    from faster_whisper import WhisperModel
    from faster_whisper.tokenizer import Tokenizer

    model = WhisperModel(str(asr._folder()), device="cpu", compute_type="int8", cpu_threads=1)
    return model, Tokenizer(model.hf_tokenizer, True, task="transcribe", language="en")


def is_right(text: str, heard: str) -> bool:
    """In a short window Whisper may write the same words again, which counts as once."""
    words = asr._words(heard)
    spelled = (asr._words(each) for each in spellings().get(text, [text]))
    return any(words and words == each * (len(words) // len(each)) for each in spelled)


def score(heard: dict[str, list[Any]]) -> dict[str, Any]:
    wrong = {text: line for text, (line, _) in heard.items() if not is_right(text, line)}
    cuts = [level for _, level in heard.values() if level is not None]
    found: dict[str, Any] = {"texts": len(heard), "understood": len(heard) - len(wrong)}
    found["share"] = round(found["understood"] / len(heard), 3)
    return found | ({"loudest_cut_db": max(cuts)} if cuts else {}) | {"misheard": wrong}


def results(known: dict[str, Any]) -> dict[str, Any]:
    scores = {voice: {name: score(heard) for name, heard in ways.items()} for voice, ways in known.items()}
    ways = {name: asdict(way) for name, way in WAYS.items()}
    return {"benchmark": "short words", "ways": ways, "voices": scores, "heard": known}


if __name__ == "__main__":
    main()
