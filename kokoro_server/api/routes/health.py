"""`/health`, the probes `/health/live` and `/health/ready`, and `/config`."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from kokoro_server import __version__
from kokoro_server.api.state import app_state, get_services
from kokoro_server.config.public import public, without_credentials
from kokoro_server.errors import KokoroError
from kokoro_server.observability import conditions
from kokoro_server.runtime.json import JsonObject

router = APIRouter(tags=["health"])


@router.get("/health")
async def health(request: Request) -> JsonObject:
    """The whole server at a glance.

    `status` is `ok`, or `degraded` if speech cannot be made, a device is lost, or something works worse than it should.
    `degraded` lists these faults, and what to do about each.
    """
    services, siblings = get_services(request), app_state(request).siblings
    await siblings.refresh()
    g2p = await _g2p(request)
    facts = services.model.facts
    devices = services.queue.device_states()
    worse = _degradations(request)
    healthy = g2p["status"] == "ok" and "lost" not in devices.values() and not worse
    return {
        "status": "ok" if healthy else "degraded",
        "version": __version__,
        "device": ", ".join(facts.devices),
        "devices": devices,
        "model": services.queue.model_state(),
        "backend": facts.backend,
        "compute": facts.compute,
        "kernels": facts.kernels,
        "weights": {"precision": facts.precision, "source": facts.source},
        "voices": len(services.voices.names()),
        "g2p": g2p,
        "degraded": worse,
        **({"models": services.models.shown()} if services.models else {}),
        **({"processes": processes} if (processes := siblings.processes()) else {}),
    }


def _degradations(request: Request) -> list[dict[str, str]]:
    """The degradations in all processes of the server, oldest first; one that several processes report counts once."""
    state = app_state(request)
    found = [*conditions.current(state.services.conditions), *state.siblings.degradations()]
    found.sort(key=lambda each: each.since)
    oldest = list({(each.reason, each.message): each for each in reversed(found)}.values())[::-1]
    return [
        {
            "name": each.reason.value,
            "message": each.message,
            "since": datetime.fromtimestamp(each.since, UTC).isoformat(timespec="seconds"),
        }
        for each in oldest
    ]


async def _g2p(request: Request) -> JsonObject:
    services = get_services(request)
    facts: JsonObject = {"mode": "embedded" if services.child else "remote"}
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
    return _probe(None if get_services(request).queue.alive else "only a restart of the process helps")


@router.head("/health/ready", include_in_schema=False)
@router.get("/health/ready")
async def ready(request: Request) -> JSONResponse:
    """200 while texts are spoken. 503 names the part that is down: the engine, or for more than two seconds G2P."""
    return _probe(get_services(request).why_not_ready())


def _probe(reason: str | None) -> JSONResponse:
    return JSONResponse({"status": "unavailable", "reason": reason}, 503) if reason else JSONResponse({"status": "ok"})


@router.get("/config")
async def config(request: Request) -> JsonObject:
    """The settings in force, by variable name; credentials left out."""
    return public(get_services(request).settings)
