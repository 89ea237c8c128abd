"""The application's state, which `server.app` fills, with its types."""

from __future__ import annotations

from typing import cast

from starlette.datastructures import State
from starlette.requests import HTTPConnection

from kokoro_server.api.async_render import Renderers
from kokoro_server.api.middleware.shutdown import RunningRequests
from kokoro_server.api.middleware.stream_slots import StreamPlaces, StreamStats
from kokoro_server.callers.limits import CallerLimits
from kokoro_server.callers.shares import SharedLimit
from kokoro_server.longform.jobs.service import Jobs
from kokoro_server.observability.siblings import Siblings
from kokoro_server.synthesis.services import Services


class AppState(State):
    services: Services
    renderers: Renderers
    streams: StreamStats
    places: StreamPlaces
    answers: SharedLimit  # bytes of whole clips that wait in memory for their readers
    running: RunningRequests
    limits: CallerLimits
    siblings: Siblings
    jobs: Jobs | None  # None without JOBS_PATH


def app_state(connection: HTTPConnection) -> AppState:
    return cast(AppState, connection.app.state)


def get_services(connection: HTTPConnection) -> Services:
    return app_state(connection).services
