"""`/health`, the probes `/health/live` and `/health/ready`, and `/config`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from kokoro_server import __version__, degraded
from kokoro_server.api.tts import get_parts
from kokoro_server.config import without_credentials
from kokoro_server.degraded import Degradation
from kokoro_server.errors import KokoroError
from kokoro_server.siblings import Siblings

router = APIRouter(tags=["health"])


@router.get("/health")
async def health(request: Request) -> dict[str, Any]:
    """Everything at a glance. `status` is `ok`, or `degraded` when speech cannot be made or a device is lost, and when
    something works worse than it should: `degraded` lists what, and what to do about it.
    """
    parts = get_parts(request)
    siblings: Siblings = request.app.state.siblings
    await siblings.refresh()
    g2p = await _g2p(request)
    devices = parts.queue.device_states()
    worse = _degradations(request)
    healthy = g2p["status"] == "ok" and "lost" not in devices.values() and not worse
    return {
        "status": "ok" if healthy else "degraded",
        "version": __version__,
        "device": ", ".join(parts.model.devices),
        "devices": devices,
        "model": parts.queue.model_state(),
        "backend": parts.model.backend,
        "compute": parts.model.compute,
        "kernels": parts.model.kernels,
        "weights": {"precision": parts.model.precision, "source": parts.model.source},
        "voices": len(parts.model.voices.names()),
        "g2p": g2p,
        "degraded": worse,
        **({"processes": processes} if (processes := siblings.processes()) else {}),
    }


def _degradations(request: Request) -> list[dict[str, str]]:
    return [
        {
            "name": each.reason.value,
            "message": each.message,
            "since": datetime.fromtimestamp(each.since, UTC).isoformat(timespec="seconds"),
        }
        for each in _current(request)
    ]


def _current(request: Request) -> list[Degradation]:
    """What is worse in any process of the server, oldest first; what several see is told once."""
    siblings: Siblings = request.app.state.siblings
    found = [*degraded.current(get_parts(request).conditions), *siblings.degradations()]
    found.sort(key=lambda each: each.since)
    return list({(each.reason, each.message): each for each in reversed(found)}.values())[::-1]


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
