"""How the server is doing and how it is set."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from kokoro_server import __version__
from kokoro_server.api.tts import parts
from kokoro_server.config import without_credentials
from kokoro_server.errors import KokoroError

router = APIRouter(tags=["health"])

INT8_NOTE = "weights come from an int8 export: no full-precision source could be reached when they were fetched"


@router.get("/health")
async def health(request: Request) -> dict[str, Any]:
    """Everything at a glance. `status` is `ok`, or `degraded` when speech cannot be made or a device is lost."""
    running = parts(request)
    g2p = await _g2p(request)
    weights = {"precision": running.model.precision, "source": running.model.source}
    if running.model.precision == "int8":
        weights["note"] = INT8_NOTE
    devices = running.queue.device_states()
    is_well = g2p["status"] == "ok" and "lost" not in devices.values()
    return {
        "status": "ok" if is_well else "degraded",
        "version": __version__,
        "device": ", ".join(engine.device for engine in running.model.engines),
        "devices": devices,
        "backend": running.model.backend,
        "compute": running.model.compute,
        "weights": weights,
        "voices": len(running.model.voices.names()),
        "g2p": g2p,
    }


async def _g2p(request: Request) -> dict[str, Any]:
    running = parts(request)
    facts: dict[str, Any] = {"mode": "embedded" if running.child else "remote"}
    if running.child:
        facts |= {"state": running.child.state, "restarts": running.child.restarts}
    try:
        facts["url"] = without_credentials(running.g2p.url)
        return facts | await running.g2p.health()
    except KokoroError as error:
        return facts | {"status": "unavailable", "error": error.message}


@router.get("/health/live")
async def live(request: Request) -> JSONResponse:
    """200 while the process does its work; 503 when only a restart will help."""
    return _yes_or_no(parts(request).queue.alive)


@router.get("/health/ready")
async def ready(request: Request) -> JSONResponse:
    """200 while requests are welcome."""
    return _yes_or_no(parts(request).queue.ready)


def _yes_or_no(fine: bool) -> JSONResponse:
    return JSONResponse({"status": "ok" if fine else "unavailable"}, 200 if fine else 503)


@router.get("/config")
async def config(request: Request) -> dict[str, Any]:
    """The settings in force, by variable name; credentials left out."""
    return parts(request).settings.public()
