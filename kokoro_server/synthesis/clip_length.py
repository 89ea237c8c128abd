"""How long the audio of a script will be, as far as its text shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kokoro_server import languages
from kokoro_server.text import pauses, script
from kokoro_server.text.lexicon import request_lexicon
from kokoro_server.text.pace import SECONDS_PER_PHONEME
from kokoro_server.text.pauses import NATURAL_PAUSES, Pause
from kokoro_server.text.script import Run, Script
from kokoro_server.text.splitter import BLANK_LINE

# Seconds for a character at speed 1, spaces and the gaps between sentences included. Measured with one voice in each
# language, six in English: `tests/synthesis/test_clip_length.py` has the measurements.
SECONDS_PER_CHARACTER = {languages.FR: 0.052, languages.HI: 0.090, languages.JA: 0.175, languages.ZH: 0.230}
SECONDS_PER_LETTER = 0.060  # in the other languages
SECONDS_PER_DIGIT = 0.40  # beyond those of a character: "1998" has four characters and is said as twenty
SENTENCE_ENDS = ".!?…‽。！？｡．।॥\n\x85\u2028\u2029"


def predicted_seconds(parts: Script, *, phonemes: bool = False, lexicon: Mapping[str, str] | None = None) -> float:
    """The seconds that a script takes, pauses included, without a look at how its words are said.

    Prose is met to within 20 %, numbers and abbreviations to within half; a voice that whispers, such as af_nicole,
    takes half as long again. A hundred thousand characters cost a millisecond. `phonemes`: the text is phonemes.
    `lexicon` is the request's own: a word in it may be said as five hundred characters. Raises InvalidInput for a
    wrong entry.
    """
    seconds = sum(part.seconds for part in parts if isinstance(part, Pause))
    for run in script.runs(parts):
        if "[" in run.text.text:
            seconds += pauses.total_silence(run.text.text, origin=run.text.starts)
        text = pauses.PAUSE_MARKUP.sub("", _said(run, lexicon))
        characters = len(text) - text.count("  ")
        if phonemes:
            spoken = characters * SECONDS_PER_PHONEME
        else:
            spoken = characters * SECONDS_PER_CHARACTER.get(run.delivery.language, SECONDS_PER_LETTER)
            spoken += sum(map(text.count, "0123456789")) * SECONDS_PER_DIGIT
        seconds += spoken / run.delivery.speed
    return seconds


def longer_pauses(parts: Script, pauses: Mapping[str, float]) -> float:
    """About the seconds by which a script is longer if sentences and paragraphs have these pauses."""
    longer = {name: max(asked - getattr(NATURAL_PAUSES, name), 0.0) for name, asked in pauses.items()}
    sentence, paragraph = longer.get("sentence"), longer.get("paragraph")
    seconds = 0.0
    for run in script.runs(parts) if sentence or paragraph else ():
        text = run.text.text
        if sentence:
            seconds += sentence * sum(map(text.count, SENTENCE_ENDS)) / run.delivery.speed
        if paragraph:
            seconds += paragraph * len(BLANK_LINE.findall(text)) / run.delivery.speed
    return seconds


def _said(run: Run, lexicon: Mapping[str, str] | None) -> str:
    """The text of a run with what SSML and the lexicon prescribe for parts of it."""
    text = _replaced(run.text.text, ((claim.start, claim.end, claim.words) for claim in run.claims))
    if not lexicon:
        return text
    return _replaced(text, request_lexicon(lexicon, run.delivery.language, None).readings(text))


def _replaced(text: str, readings: Iterable[tuple[int, int, str]]) -> str:
    parts, end = list[str](), 0
    for start, stop, words in readings:
        parts += (text[end:start], words)
        end = stop
    return "".join((*parts, text[end:]))
