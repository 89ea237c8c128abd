"""The lines of a list are requests as of `POST /tts`."""

from __future__ import annotations

from kokoro_server.api.speech import parse_clip
from kokoro_server.longform.bulk.makers.local import Wanted
from kokoro_server.runtime.json import JsonObject


def parse(fields: JsonObject) -> Wanted:
    """Raises InvalidInput if a field is wrong."""
    request = parse_clip(fields)
    return Wanted(request.speech(), request.rendering(request.format))
