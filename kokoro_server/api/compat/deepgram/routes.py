"""`POST /v1/speak` and `/v2/speak`: a text by HTTP."""

from __future__ import annotations

from typing import Annotated
from uuid import NAMESPACE_URL, uuid5

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from kokoro_server.api.compat.deepgram.schemas import FileParameters, SpeakBody
from kokoro_server.api.speech import AUDIO, RequestTimeout, Responses
from kokoro_server.api.state import get_services
from kokoro_server.api.streaming import stream_response
from kokoro_server.observability.logs import request_id

router = APIRouter(tags=["Deepgram"])

ERRORS: Responses = {
    "4XX": {"description": 'A parameter is wrong (400), too busy (429): `{"err_code", "err_msg", "request_id"}`'},
    "5XX": {"description": "As for POST /tts"},
}


ANSWERS: Responses = {200: {"description": "The audio, sent while it is made", "content": AUDIO}, **ERRORS}


@router.post("/v1/speak", response_class=StreamingResponse, responses=ANSWERS)
@router.post("/v2/speak", response_class=StreamingResponse, responses=ANSWERS)
async def speak(
    body: SpeakBody, parameters: Annotated[FileParameters, Query()], request: Request, timeout: RequestTimeout = None
) -> Response:
    """Speak a text, as Deepgram's `speak.v1.audio.generate` does, and send the audio as it is made."""
    request.scope["model"] = parameters.model  # for the log
    services = get_services(request)
    asked = await parameters.to_tts_request(body.text, services)
    response = await stream_response(asked, request, timeout)
    voice = services.voices.canonical(asked.voice)
    response.headers.update(
        {
            "dg-request-id": request_id.get(),
            "dg-model-name": voice,
            "dg-model-uuid": model_uuid(voice),
            "dg-char-count": str(len(body.text)),
        }
    )
    return response


def model_uuid(voice: str) -> str:
    """The same id for a voice every time: Deepgram's clients expect one."""
    return str(uuid5(NAMESPACE_URL, f"kokoro:{voice}"))
