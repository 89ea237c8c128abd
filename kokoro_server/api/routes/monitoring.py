"""The batch queue: `/health/batching`, `/metrics` and the self-test `/test/batching`."""

from __future__ import annotations

import asyncio
import math
import time

from fastapi import APIRouter, Request, Response

from kokoro_server.api.speech import ERRORS, error_responses, only
from kokoro_server.api.state import app_state, get_services
from kokoro_server.batching.entry import Outcome
from kokoro_server.batching.state import QueueSnapshot
from kokoro_server.config.defaults import BUILT_IN_VOICE
from kokoro_server.engine import vocab
from kokoro_server.engine.protocol import SAMPLE_RATE, Row
from kokoro_server.errors import BadRequest, TooBusy, for_client
from kokoro_server.observability.metrics import merged
from kokoro_server.observability.siblings import Family
from kokoro_server.runtime.json import JsonObject

router = APIRouter(tags=["batching"])

OFF = error_responses({400: "Batching is off"})

# The phrases of the self-test. Phonemes need no G2P.
TEST_PHONEMES = ("wˈʌn.", "wˈʌn, tˈu.", "wˈʌn, tˈu, θɹˈi.", "wˈʌn, tˈu, θɹˈi, fˈɔɹ.")


@router.get("/health/batching")
async def batching(request: Request) -> JsonObject:
    """The state of the batch queue and its counts. `status` is `healthy`, `degraded`, `unhealthy` or `disabled`.

    `clip_audio` are the seconds of long clips, as predicted, that are `held` in memory while they are made, or
    `waiting` until there is room. `first_audio` and `first_audible` are how many answers have begun, and the
    `total_seconds` from their requests to the first audio and to the first audible sound.
    """
    siblings = app_state(request).siblings
    await siblings.refresh()
    families = merged([get_services(request).metrics.families(), *siblings.metrics()])
    found = {family[0]: family for family in families}
    return dict(await get_services(request).queue.state()) | {
        "clip_audio": {labels["state"]: value for _, labels, value in found["tts_clip_audio_seconds"][3]},
        "first_audio": _waits(found["tts_time_to_first_audio_seconds"]),
        "first_audible": _waits(found["tts_time_to_first_audible_seconds"]),
    }


def _waits(histogram: Family) -> dict[str, float]:
    """Its count and its sum, over all labels."""
    name, _, _, samples = histogram
    count, total = (sum(value for each, _, value in samples if each == f"{name}_{end}") for end in ("count", "sum"))
    return {"count": int(count), "total_seconds": round(total, 3)}


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Metrics in Prometheus' text format."""
    metrics = get_services(request).metrics
    siblings = app_state(request).siblings
    await siblings.refresh()
    return Response(metrics.render(siblings.metrics()), headers={"Content-Type": metrics.content_type})


@router.post("/test/batching", responses=OFF | only(ERRORS, 429, 503, 504))
async def self_test(request: Request) -> JsonObject:
    """Speak four short phrases at once through the real queue and model, and report how they were batched.

    `verdict` is `good` when all were spoken, at least half as many together as the model and the settings allow; else
    `needs_tuning`.
    """
    queue = get_services(request).queue
    if not queue.options.enabled:
        raise BadRequest("batching is off (ENABLE_KOKORO_BATCHING=false), so there is nothing to test")
    started = time.perf_counter()
    outcomes = await asyncio.gather(
        *(_speak(request, phonemes, seed) for seed, phonemes in enumerate(TEST_PHONEMES)), return_exceptions=True
    )
    total_ms = (time.perf_counter() - started) * 1000
    succeeded = [outcome for outcome in outcomes if isinstance(outcome, Outcome)]
    if not succeeded and (busy := next((outcome for outcome in outcomes if isinstance(outcome, TooBusy)), None)):
        raise busy
    sizes = [outcome.batch_size for outcome in succeeded]
    good = len(succeeded) == len(outcomes) and _together(sizes) >= _possible(await queue.state()) / 2
    return {
        "test_requests": len(outcomes),
        "successful": len(succeeded),
        "total_time_ms": round(total_ms, 1),
        "avg_time_per_request_ms": round(total_ms / len(outcomes), 1),
        # 1.0: all four ran in one forward pass; 0.25: each ran alone.
        "batching_efficiency": round(_together(sizes) / len(outcomes), 3),
        "verdict": "good" if good else "needs_tuning",
        "batch_sizes": sizes,
        "fire_reasons": [outcome.fire_reason.value for outcome in succeeded],
        "audio_seconds": [round(len(outcome.result.audio) / SAMPLE_RATE, 3) for outcome in succeeded],
        "errors": [for_client(outcome).message for outcome in outcomes if isinstance(outcome, BaseException)],
    }


def _together(sizes: list[int]) -> float:
    return sum(sizes) / len(sizes) if sizes else 0.0


def _possible(state: QueueSnapshot) -> int:
    """How many of the phrases can share a forward pass if the devices divide them equally."""
    most: int = state["config"]["max_batch_size"]
    return min(most, math.ceil(len(TEST_PHONEMES) / len(state["devices"])))


async def _speak(request: Request, phonemes: str, seed: int) -> Outcome:
    services, tokens = get_services(request), vocab.tokenize(phonemes)
    style = services.voices.style(BUILT_IN_VOICE, len(tokens))
    async with services.queue.admission():
        row = Row(tokens, style, seed=seed)
    return await services.queue.submit(row, voice=BUILT_IN_VOICE)
