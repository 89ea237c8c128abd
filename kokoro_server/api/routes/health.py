"""`/health`, the probes `/health/live` and `/health/ready`, and `/config`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from kokoro_server import __version__
from kokoro_server.api.routes.tts import get_services
from kokoro_server.config.settings import without_credentials
from kokoro_server.errors import KokoroError
from kokoro_server.observability import conditions as degraded
from kokoro_server.observability.conditions import Degradation
from kokoro_server.observability.siblings import Siblings

router = APIRouter(tags=["health"])


@router.get("/health")
async def health(request: Request) -> dict[str, Any]:
    """Everything at a glance. `status` is `ok`, or `degraded` when speech cannot be made or a device is lost, and when
    something works worse than it should: `degraded` lists what, and what to do about it.
    """
    services = get_services(request)
    siblings: Siblings = request.app.state.siblings
    await siblings.refresh()
    g2p = await _g2p(request)
    devices = services.queue.device_states()
    worse = _degradations(request)
    healthy = g2p["status"] == "ok" and "lost" not in devices.values() and not worse
    return {
        "status": "ok" if healthy else "degraded",
        "version": __version__,
        "device": ", ".join(services.model.facts.devices),
        "devices": devices,
        "model": services.queue.model_state(),
        "backend": services.model.facts.backend,
        "compute": services.model.facts.compute,
        "kernels": services.model.facts.kernels,
        "weights": {"precision": services.model.facts.precision, "source": services.model.facts.source},
        "voices": len(services.voices.names()),
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
    found = [*degraded.current(get_services(request).conditions), *siblings.degradations()]
    found.sort(key=lambda each: each.since)
    return list({(each.reason, each.message): each for each in reversed(found)}.values())[::-1]


async def _g2p(request: Request) -> dict[str, Any]:
    services = get_services(request)
    facts: dict[str, Any] = {"mode": "embedded" if services.child else "remote"}
    if services.child:
        facts |= {"state": services.child.state, "restarts": services.child.restarts}
    try:
        facts["url"] = without_credentials(services.g2p.url)
        return facts | await services.g2p.health()
    except KokoroError as error:
        return facts | {"status": "unavailable", "error": error.message}


@router.head("/health/live", include_in_schema=False)
@router.get("/health/live")
async def live(request: Request) -> JSONResponse:
    """200 while the process does its work; 503 when only a restart will help."""
    return _probe(get_services(request).queue.alive)


@router.head("/health/ready", include_in_schema=False)
@router.get("/health/ready")
async def ready(request: Request) -> JSONResponse:
    """200 while requests are accepted."""
    return _probe(get_services(request).queue.ready)


def _probe(passed: bool) -> JSONResponse:
    return JSONResponse({"status": "ok" if passed else "unavailable"}, 200 if passed else 503)


@router.get("/config")
async def config(request: Request) -> dict[str, Any]:
    """The settings in force, by variable name; credentials left out."""
    return get_services(request).settings.public()
