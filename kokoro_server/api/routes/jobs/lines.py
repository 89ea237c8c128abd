"""The lines of a list are requests as of `POST /tts`."""

from __future__ import annotations

from kokoro_server.api.speech import parse_clip
from kokoro_server.audio.render import Rendering
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.speech import Speech


def parse(fields: JsonObject) -> tuple[Speech, Rendering]:
    """Raises InvalidInput if a field is wrong."""
    request = parse_clip(fields)
    return request.speech(), request.rendering(request.format)
