"""`/health`, the probes `/health/live` and `/health/ready`, and `/config`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from kokoro_server import __version__
from kokoro_server.api.tts import get_parts
from kokoro_server.config import without_credentials
from kokoro_server.errors import KokoroError

router = APIRouter(tags=["health"])

INT8_NOTE = "weights come from an int8 export: no full-precision source could be reached when they were fetched"


@router.get("/health")
async def health(request: Request) -> dict[str, Any]:
    """Everything at a glance. `status` is `ok`, or `degraded` when speech cannot be made or a device is lost."""
    parts = get_parts(request)
    g2p = await _g2p(request)
    weights = {"precision": parts.model.precision, "source": parts.model.source}
    if parts.model.precision == "int8":
        weights["note"] = INT8_NOTE
    devices = parts.queue.device_states()
    healthy = g2p["status"] == "ok" and "lost" not in devices.values()
    return {
        "status": "ok" if healthy else "degraded",
        "version": __version__,
        "device": ", ".join(engine.device for engine in parts.model.engines),
        "devices": devices,
        "backend": parts.model.backend,
        "compute": parts.model.compute,
        "weights": weights,
        "voices": len(parts.model.voices.names()),
        "g2p": g2p,
    }


async def _g2p(request: Request) -> dict[str, Any]:
    parts = get_parts(request)
    facts: dict[str, Any] = {"mode": "embedded" if parts.child else "remote"}
    if parts.child:
        facts |= {"state": parts.child.state, "restarts": parts.child.restarts}
    try:
        facts["url"] = without_credentials(parts.g2p.url)
        return facts | await parts.g2p.health()
    except KokoroError as error:
        return facts | {"status": "unavailable", "error": error.message}


@router.head("/health/live", include_in_schema=False)
@router.get("/health/live")
async def live(request: Request) -> JSONResponse:
    """200 while the process does its work; 503 when only a restart will help."""
    return _probe(get_parts(request).queue.alive)


@router.head("/health/ready", include_in_schema=False)
@router.get("/health/ready")
async def ready(request: Request) -> JSONResponse:
    """200 while requests are accepted."""
    return _probe(get_parts(request).queue.ready)


def _probe(passed: bool) -> JSONResponse:
    return JSONResponse({"status": "ok" if passed else "unavailable"}, 200 if passed else 503)


@router.get("/config")
async def config(request: Request) -> dict[str, Any]:
    """The settings in force, by variable name; credentials left out."""
    return get_parts(request).settings.public()
