"""`POST /text/reading`: what would be said of a text, and why, without speaking it."""

from __future__ import annotations

from fastapi import APIRouter, Request

from kokoro_server.api.disconnect import cancel_on_disconnect
from kokoro_server.api.schemas import ReadingRequest, ReadSentence, ReadSpan, ReadWord, TextReading
from kokoro_server.api.tts import ERRORS, get_parts
from kokoro_server.text.phonemized import PhonemizedSentence

router = APIRouter(tags=["text"])


@router.post("/text/reading", responses=ERRORS)
async def reading(body: ReadingRequest, request: Request) -> TextReading:
    """Tell how a text would be said: its phonemes, and each span that is not said as it is written.

    Offsets are in the text that was sent, in characters.
    """
    synthesizer = get_parts(request).synthesizer
    speech = body.speech()
    found = await cancel_on_disconnect(request.receive, synthesizer.reading(speech))
    return TextReading(
        language=synthesizer.language(speech).code,
        phonemes=" ".join(sentence.phonemes for sentence in found.sentences),
        sentences=[_sentence(sentence) for sentence in found.sentences],
        readings=[
            ReadSpan(
                start=claim.start,
                end=claim.end,
                source=body.text[claim.start : claim.end],
                words=claim.words.strip(),
                rule=claim.rule,
            )
            for claim in found.claims
        ],
        words=[word for sentence in found.sentences for word in _words(sentence, body.text)],
        skipped=found.skipped,
    )


def _sentence(sentence: PhonemizedSentence) -> ReadSentence:
    span = sentence.span
    return ReadSentence(start=span.start, end=span.end, text=span.text, phonemes=sentence.phonemes)


def _words(sentence: PhonemizedSentence, text: str) -> list[ReadWord]:
    return [
        ReadWord(
            start=word.start,
            end=word.end,
            text=text[word.start : word.end],
            phonemes=sentence.phonemes[word.phoneme_start : word.phoneme_end],
            phrase=word.phrase,
        )
        for word in sentence.words
    ]
