"""The lines of a list are requests as of `POST /tts`."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from kokoro_server.api.errors import validation_message
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.errors import InvalidInput
from kokoro_server.longform.bulk.makers.local import Wanted


def parse(fields: dict[str, Any]) -> Wanted:
    """Raises InvalidInput for a request that is wrong."""
    try:
        request = TTSRequest.model_validate(fields)
    except ValidationError as error:
        message, field = validation_message(error.errors())
        raise InvalidInput(message, field=field) from error
    return Wanted(request.speech(), request.rendering(request.format))
