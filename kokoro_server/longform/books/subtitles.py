"""Subtitles of a whole book."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.longform.books.assembly import SpokenChapter
from kokoro_server.longform.books.work_folder import write
from kokoro_server.synthesis import captions
from kokoro_server.synthesis.captions import Cue

SUBTITLES = {".srt": captions.srt, ".vtt": captions.vtt}


def write_subtitles(path: Path, chapters: Sequence[SpokenChapter]) -> None:
    write(path, SUBTITLES[path.suffix.lower()](list(cues(chapters))).encode())


def cues(chapters: Sequence[SpokenChapter]) -> Iterator[Cue]:
    """The cues of all chapters. No cue reaches into the next chapter: the pause between them is longer."""
    for chapter in chapters:
        begin = round(chapter.start / SAMPLE_RATE, 3)
        for cue in captions.cues(chapter.words, chapter.text):
            yield replace(cue, start=round(cue.start + begin, 3), end=round(cue.end + begin, 3))
