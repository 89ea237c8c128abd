"""`POST /tts`: a whole clip."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from kokoro_server.api.middleware.fast_path import FastPathRoute
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.api.speech import AUDIO, ERRORS, RequestTimeout, clip_response

router = APIRouter(tags=["speech"], route_class=FastPathRoute)


@router.post("/tts", response_class=Response, responses={200: {"description": "The clip", "content": AUDIO}, **ERRORS})
async def tts(body: TTSRequest, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a text and answer with the whole clip. With the header `X-Priority: bulk`, other requests go first."""
    return await clip_response(body, request, timeout)
