"""All kinds of requests, and how often each is chosen."""

from __future__ import annotations

from tests.soak import compat, jobs, requests
from tests.soak.requests import Kind

SPEECH: dict[Kind, int] = {
    requests.tts: 8,
    requests.stream: 6,
    requests.openai: 4,
    requests.look: 4,
    requests.captioned: 3,
    requests.captioned_events: 3,
    requests.agent: 3,
    requests.invalid: 3,
    requests.batch: 2,
    requests.bulk: 2,
    requests.ssml: 2,
    requests.reading: 2,
    compat.elevenlabs: 2,
    compat.elevenlabs_socket: 2,
    compat.deepgram: 2,
    compat.deepgram_socket: 2,
    compat.cartesia: 2,
    compat.cartesia_socket: 2,
    compat.kokoro_fastapi: 2,
    compat.wyoming: 2,
    requests.own_voice: 1,
    jobs.preview: 1,
}
KINDS = SPEECH | {requests.self_test: 1, jobs.job: 1}
