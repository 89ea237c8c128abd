"""Cartesia's events, the same by HTTP and over a WebSocket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

from kokoro_server.api.error_shapes import cartesia_error
from kokoro_server.errors import KokoroError
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.phonemes import PhonemeTiming

PARTIAL = 206  # HTTP's statuses, which every event has
DONE = 200


def chunk(context: str | None, audio: str, **fields: Any) -> JsonObject:
    """`audio` is in base64."""
    return {**_event("chunk", context), "data": audio, "step_time": 0.0, **fields}


def timestamps(context: str | None, words: list[tuple[str, float, float]], **fields: Any) -> JsonObject:
    names, starts, ends = zip(*words, strict=True)
    timed = {"words": names, "start": starts, "end": ends}
    return {**_event("timestamps", context), "word_timestamps": timed, **fields}


def phoneme_timestamps(
    context: str | None, phonemes: Sequence[PhonemeTiming], offset: float = 0.0, **fields: Any
) -> JsonObject:
    """The times are `offset` seconds later than those of the phonemes."""
    timed = {
        "phonemes": [phoneme.symbol for phoneme in phonemes],
        "start": [round(offset + phoneme.start, 4) for phoneme in phonemes],
        "end": [round(offset + phoneme.end, 4) for phoneme in phonemes],
    }
    return {**_event("phoneme_timestamps", context), "phoneme_timestamps": timed, **fields}


def flush_done(context: str, number: int) -> JsonObject:
    return {**_event("flush_done", context), "flush_done": True, "flush_id": number}


def done(context: str | None) -> JsonObject:
    return {"type": "done", "context_id": context, "status_code": DONE, "done": True}


def error(context: str | None, error: KokoroError) -> JsonObject:
    """`done` is false: LiveKit's plugin would take the event for the end, and not for an error."""
    status, body = cartesia_error(error.status, error.code, error.message, error.field)
    about = {"error": f"{body['title']}: {body['message']}", "done": False, "status_code": status}
    return {"type": "error", "context_id": context, **body, **about}


def _event(type: str, context: str | None) -> JsonObject:
    return {"type": type, "context_id": context, "status_code": PARTIAL, "done": False}


class WrittenWords:
    """The words of a text with the punctuation around them: joined, they read like the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = 0  # of the last word in the text

    def timed(self, words: Iterable[Timing], offset: float) -> list[tuple[str, float, float]]:
        """Returns each word with its start and end in seconds, `offset` later than in `words`."""
        return [
            (text, round(offset + word.start, 4), round(offset + word.end, 4)) for text, word in self._written(words)
        ]

    def _written(self, words: Iterable[Timing]) -> Iterator[tuple[str, Timing]]:
        for word, following in pairwise(chain(words, [None])):
            assert word is not None
            start = self._text.rfind(" ", self._end, word.char_start) + 1 or self._end
            end = word.char_end
            limit = following.char_start if following else len(self._text)
            while end < limit and not self._text[end].isspace() and (following or not self._text[end].isalnum()):
                end += 1
            self._end = end
            yield self._text[start:end].strip(), word
