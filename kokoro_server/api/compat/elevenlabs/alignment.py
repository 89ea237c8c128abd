"""The times of a text's characters, from the times of its words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kokoro_server.synthesis.captions import Timing

_MARKS = re.compile(r"[^\w\s]*")  # with the white space after them, they go with the word before them
_SPACE = re.compile(r"\s*")
_LONG_GAP = re.compile(r"(\s{1000})\s+")  # a SentenceBuffer shortens longer ones


@dataclass(frozen=True, slots=True)
class Alignment:
    """A span of the text. A character ends where the next one begins."""

    characters: str
    begin: float  # seconds: the end of the span before it
    times: list[float]  # seconds from the start of the audio: one for each character, and the end of the last

    def seconds(self) -> dict[str, list[str] | list[float]]:
        """As in answers of the REST API."""
        times = [round(time, 4) for time in self.times]
        return {
            "characters": list(self.characters),
            "character_start_times_seconds": times[:-1],
            "character_end_times_seconds": times[1:],
        }

    def milliseconds(self, *, cumulative: bool) -> dict[str, list[str] | list[int]]:
        """As in WebSocket messages: times from the end of the span before it, or `cumulative`.

        Clients add up the lengths of the spans, so the ends are rounded and not the lengths.
        """
        times = [round(1000 * time) for time in self.times]
        begin = 0 if cumulative else round(1000 * self.begin)
        return {
            "chars": list(self.characters),
            "charStartTimesMs": [time - begin for time in times[:-1]],
            "charDurationsMs": [after - time for time, after in pairwise(times)],
        }


class Characters:
    """A text, which may still grow, and how far it is aligned. Each character is aligned once; times never go back."""

    def __init__(self, text: str = "") -> None:
        self._text = text  # without its forgotten beginning
        self._aligned = 0  # characters of `_text`
        self._until = 0.0  # seconds, at the end of the aligned characters
        self._sentence_end = len(text)  # in `_text`, of the sentence that is being spoken
        self._words: list[Timing] = []  # spoken, and not aligned yet; offsets in `_text`

    @property
    def pending(self) -> str:
        return self._text[self._aligned :]

    def append(self, text: str) -> None:
        self._text += text

    def end_word(self) -> None:
        """Text that is appended next begins a new word."""
        if self._text and not self._text[-1].isspace():
            self._text += " "

    def begin_sentence(self, sentence: str) -> int:
        """Returns the offset of the next sentence to be spoken."""
        place = self._text.find(sentence, self._aligned)
        if place < 0:
            self._text = self._text[: self._aligned] + _LONG_GAP.sub(r"\1", self.pending)
            place = self._text.find(sentence, self._aligned)
        place = max(place, self._aligned)
        self._sentence_end = place + len(sentence)
        return place

    def say(self, words: Iterable[Timing]) -> None:
        """Adds words of the audio that comes next."""
        self._words += words

    def align_words(self, until: float) -> Alignment | None:
        """Aligns the characters up to the last spoken word with the time up to `until`; None without a new word."""
        if not self._words:
            return None
        return self._align(self._with_tail(self._words[-1].char_end), until)

    def align_sentence(self, until: float) -> Alignment | None:
        """Aligns the characters up to the end of the sentence, or of the text if it is spoken as a whole."""
        return self._align(self._with_tail(self._sentence_end), until)

    def forget(self) -> None:
        """Drops the aligned characters from memory."""
        self._text, self._aligned = self.pending, 0

    def _with_tail(self, end: int) -> int:
        marks = _MARKS.match(self._text, end, self._sentence_end)
        space = _SPACE.match(self._text, marks.end() if marks else end)
        assert space is not None
        return space.end()

    def _align(self, stop: int, until: float) -> Alignment | None:
        words, self._words = self._words, []
        if stop <= self._aligned:
            return None
        until = max(until, self._until)
        marks = {self._aligned: self._until}  # a character, and when it begins
        for word in words:
            for place, time in ((word.char_start, word.start), (word.char_end, word.end)):
                last_place, last_time = next(reversed(marks.items()))
                marks[min(max(place, last_place), stop)] = min(max(time, last_time), until)
        marks[stop] = until
        times = np.interp(np.arange(self._aligned, stop + 1), list(marks), list(marks.values()))
        alignment = Alignment(self._text[self._aligned : stop], self._until, times.tolist())
        self._aligned, self._until = stop, until
        return alignment
