"""`POST /text/reading`: how a text would be read, and why, without speaking it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator

from fastapi import APIRouter, Request, Response

from kokoro_server.api.disconnect import cancel_on_disconnect
from kokoro_server.api.schemas.answers import ReadingAnswer
from kokoro_server.api.schemas.speech import ReadingRequest
from kokoro_server.api.speech import ERRORS, ChunkedBodyResponse
from kokoro_server.api.state import get_services
from kokoro_server.runtime.json import JsonObject
from kokoro_server.text.phonemized import PhonemizedSentence
from kokoro_server.text.reader import Reading
from kokoro_server.text.spoken import Claim

router = APIRouter(tags=["text"])

PART_BYTES = 64 * 1024  # of an answer, about


@router.post("/text/reading", response_model=ReadingAnswer, responses=ERRORS)
async def reading(body: ReadingRequest, request: Request) -> Response:
    """Show how a text would be read: its phonemes, and each span that is not read as it is written.

    Offsets count characters of the text that was sent.
    """
    synthesizer = get_services(request).synthesizer
    speech = body.speech()
    found = await cancel_on_disconnect(request.receive, synthesizer.reading(speech))
    chunks = await asyncio.to_thread(_json, found, speech.written, synthesizer.language(speech).code)
    return ChunkedBodyResponse(chunks, media_type="application/json", headers={})


def _json(found: Reading, text: str, language: str) -> list[bytes]:
    """Returns a `ReadingAnswer` as JSON, made item by item: a long one made at once would hold the GIL."""
    head = {
        "language": language,
        "phonemes": " ".join(sentence.phonemes for sentence in found.sentences),
        "skipped": found.skipped,
    }
    lists = {
        "sentences": map(_sentence, found.sentences),
        "readings": (_span(claim, text) for claim in found.claims),
        "words": (word for sentence in found.sentences for word in _words(sentence, text)),
    }
    chunks, part = list[bytes](), bytearray(json.dumps(head)[:-1].encode())
    for name, items in lists.items():
        for item in (f', "{name}": ['.encode(), *_items(items), b"]"):
            part += item
            if len(part) > PART_BYTES:
                chunks.append(bytes(part))
                part.clear()
    return [*chunks, bytes(part) + b"}"]


def _items(items: Iterable[JsonObject]) -> Iterator[bytes]:
    comma = ""
    for item in items:
        yield (comma + json.dumps(item)).encode()
        comma = ", "


def _sentence(sentence: PhonemizedSentence) -> JsonObject:
    span = sentence.span
    return {"start": span.start, "end": span.end, "text": span.text, "phonemes": sentence.phonemes}


def _span(claim: Claim, text: str) -> JsonObject:
    source, words = text[claim.start : claim.end], claim.words.strip()
    return {"start": claim.start, "end": claim.end, "source": source, "words": words, "rule": claim.rule}


def _words(sentence: PhonemizedSentence, text: str) -> Iterator[JsonObject]:
    for word in sentence.words:
        written, phonemes = text[word.start : word.end], sentence.phonemes[word.phoneme_start : word.phoneme_end]
        yield {
            "start": word.start,
            "end": word.end,
            "text": written,
            "phonemes": phonemes,
            "phrase": word.phrase,
            "read_as": word.read_as or None,
        }
