"""What is heard of the kinds of text that people send: ten clips of each genre of tests/text/spoken/genres.json.

    python -m benchmarks.genres_bench [--clips FOLDER] [--each 10] [--out FILE]

A server with the real model runs on this machine's CPU and is asked over HTTP; Whisper hears the clips. Whisper writes
numbers and abbreviations as people do, so what it hears is read by the rules of the server before it is compared with
the words that the server says. Letters are compared joined: Whisper writes names of letters as it likes.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.serving.speaker import VOICE, Speaker
from kokoro_server.languages import EN_US
from kokoro_server.text import spoken
from tests import asr
from tests.text.spoken import readings

CASES = readings.HERE / "genres.json"
NOT_A_GENRE = "plain"
_INITIALS = re.compile(r"\b(?:[A-Za-z]\.)+[A-Za-z]?(?![A-Za-z])")


def main() -> None:
    options = _options()
    genres = defaultdict[str, list[str]](list)
    for case in readings.load(CASES):
        if case.kind != NOT_A_GENRE:
            genres[case.kind].append(case.text)
    found: dict[str, Any] = {}
    with Speaker(options.clips, [VOICE], 0) as speaker:
        for genre, texts in genres.items():
            found[genre] = common.show(
                genre, _genre(speaker, texts[:: max(1, len(texts) // options.each)][: options.each])
            )
            common.write(options.out, {"benchmark": "genres", "voice": VOICE, "genres": found} | speaker.facts())
    print(f"written: {options.out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=Path, default=Path("build/genres"), help="a folder for the clips")
    parser.add_argument("--each", type=int, default=10, help="clips of a genre")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "genres.json")
    return parser.parse_args()


def _genre(speaker: Speaker, texts: list[str]) -> dict[str, Any]:
    clips = [_clip(speaker, text) for text in texts]
    words, errors = (sum(clip[figure] for clip in clips) for figure in ("words", "word_errors"))
    return {
        "clips": len(clips),
        "heard_right": sum(not clip["word_errors"] for clip in clips),
        "words": words,
        "word_errors": errors,
        "wrong": [clip for clip in clips if clip["word_errors"]],
    }


def _clip(speaker: Speaker, text: str) -> dict[str, Any]:
    said = spoken.speak(text, EN_US)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]  # clips that the folder has are not made again
    speaker.say(name, text=text, voice=VOICE)
    return compare(text, said, speaker.hear(name))


def compare(text: str, said: str, heard: str) -> dict[str, Any]:
    one, other = plain_words(said), plain_words(spoken.speak(heard, EN_US))
    errors = 0 if one.replace(" ", "") == other.replace(" ", "") else asr.word_errors(one, other)
    return {"text": text, "said": said, "heard": heard, "words": len(one.split()), "word_errors": errors}


def plain_words(text: str) -> str:
    """Small letters without marks, initials as one word, and the words that are said alike alike."""
    joined = _INITIALS.sub(lambda match: match[0].replace(".", ""), text)
    words = re.sub(r"[^\w\s]|_", " ", re.sub(r"['’]", "", joined)).lower().split()
    text = " ".join(_SAME.get(word, word) for word in words)
    return re.sub(r"\b(?:\w (?=\w\b))+\w\b", lambda match: match[0].replace(" ", ""), text)


_SAME = {
    "eh": "a",
    "okay": "ok",
    "mr": "mister",
    "mrs": "missus",
    "miz": "ms",
    "oh": "o",
    "youre": "your",
    "its": "its",
}


if __name__ == "__main__":
    main()
