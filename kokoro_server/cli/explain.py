"""`kokoro-server say --explain`: how a text would be read, and by which rules."""

from __future__ import annotations

from collections.abc import Sequence

from kokoro_server import languages
from kokoro_server.cli import one_line
from kokoro_server.client import KokoroClient
from kokoro_server.config.settings import Settings
from kokoro_server.synthesis.auto_language import asks_for_auto, settled
from kokoro_server.synthesis.speech import Speech
from kokoro_server.text import markup, spoken
from kokoro_server.text.lexicon import Lexicon
from kokoro_server.text.options import ReadingOptions
from kokoro_server.text.pauses import split_pauses
from kokoro_server.text.spoken import Claim
from kokoro_server.text.traced import Traced
from kokoro_server.text.written import WrittenText
from kokoro_server.voices.custom import catalogued

HEADINGS = ("written", "said", "rule")
MAX_WIDTH = 48  # characters of a column


def explain(settings: Settings, speech: Speech, url: str | None) -> str:
    """A table of the spans that are read in other words, and the text as it is said. With a `url`, by that server."""
    claims = _remote(url, speech, settings.key_to_send) if url else _local(settings, speech)
    said = spoken.apply(claims, Traced.of(speech.written)).text
    return "\n".join((*_table(claims, speech.written), "", said))


def _local(settings: Settings, speech: Speech) -> list[Claim]:
    text, voices = speech.written, catalogued(settings)
    speech = settled(speech, voices) if asks_for_auto(speech) else speech
    language = languages.of_request(speech.language, voices.language(speech.voice))
    lexicon = Lexicon.load(settings.lexicon_path).now(language) if settings.lexicon_path else None
    markup.check_pronunciations(text)
    return list(
        WrittenText(list(split_pauses(text)), language, lexicon, ReadingOptions(name_signs=True), alone=True).claims()
    )


def _remote(url: str, speech: Speech, api_key: str | None) -> list[Claim]:
    fields = {"unspeakable": "skip"} | ({"language": speech.language} if speech.language else {})
    with KokoroClient(url, api_key=api_key) as client:
        reading = client.reading(speech.written, speech.voice or None, **fields)
    return [Claim(span.start, span.end, span.words, span.rule) for span in reading.readings]


def _table(claims: Sequence[Claim], text: str) -> list[str]:
    spans = ((one_line(text[claim.start : claim.end], MAX_WIDTH), claim) for claim in claims)
    rows = [(written, one_line(claim.words, MAX_WIDTH) or "-", claim.rule) for written, claim in spans]
    widths = [min(MAX_WIDTH, max(len(row[column]) for row in (HEADINGS, *rows))) for column in range(2)]
    return [f"{written:{widths[0]}}  {said:{widths[1]}}  {rule}" for written, said, rule in (HEADINGS, *rows)]
