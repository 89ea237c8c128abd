"""`POST /tts/captioned`: audio with the time of each word, or subtitles."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from kokoro_server.api.captioned import SUBTITLES, captioned_response
from kokoro_server.api.schemas.speech import Captioned, CaptionedRequest
from kokoro_server.api.speech import ERRORS, RequestTimeout
from kokoro_server.api.streaming import FRAMING

router = APIRouter(tags=["speech"])


@router.post(
    "/tts/captioned",
    response_model=Captioned,
    responses={
        200: {
            "description": "Audio and words; subtitles; or both as they are made",
            "content": {media: {} for media in (*FRAMING, *(media for media, _ in SUBTITLES.values()))},
        },
        **ERRORS,
    },
)
async def captioned(body: CaptionedRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and return the time of each word.

    With `format` `srt` or `vtt`, the answer is a subtitle file. Otherwise it is JSON with the audio in base64. If
    `Accept` is `application/x-ndjson` or `text/event-stream`, the answer is events as they are made: `audio` (the next
    bytes of the file and their words), then `done`; or `error`, after which the connection breaks off.
    """
    return await captioned_response(body, request, timeout)
