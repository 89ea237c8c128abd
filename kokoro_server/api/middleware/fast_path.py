"""A fast path from an ordinary request to its endpoint, which skips most of what FastAPI does for every request."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, get_type_hints

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kokoro_server.api import errors

Endpoint = Callable[[Any, Request], Coroutine[Any, Any, Response]]


class FastPathRoute(APIRoute):
    """Its endpoints take exactly `(body: Model, request: Request, timeout: RequestTimeout = None)`; see `FastPath`."""


@dataclass(frozen=True, slots=True)
class _Target:
    route: APIRoute
    endpoint: Endpoint
    model: type[BaseModel]


class FastPath:
    """Innermost ASGI middleware, for those routes of `routers` that are a FastPathRoute.

    Pydantic parses and validates a JSON body in one step, and FastAPI's dependency resolution is left out: a request
    without the X-Request-Timeout header needs none. A request that is not accepted here goes on to FastAPI, which
    accepts it or answers with the error.
    """

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter]) -> None:
        self.app = app
        self._targets: dict[str, _Target] = {}
        for route in (route for router in routers for route in router.routes if isinstance(route, FastPathRoute)):
            model = get_type_hints(route.endpoint).get("body")
            if model is not None:
                self._targets[route.path] = _Target(route, route.endpoint, model)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = self._targets.get(scope["path"]) if scope["type"] == "http" and _is_eligible(scope) else None
        if target is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = target.route
        request = Request(scope, receive, send)
        try:
            content = await request.body()
            response = await _call(target, content, request)
        except Exception as error:
            response = await errors.response_for(request, error)
        if response is None:
            await self.app(scope, _replay(content, receive), send)
        else:
            await response(scope, receive, send)


def _is_eligible(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return (
        scope["method"] == "POST"
        and headers.get(b"content-type") == b"application/json"
        and b"x-request-timeout" not in headers
    )


async def _call(target: _Target, content: bytes, request: Request) -> Response | None:
    """Returns the endpoint's response; None if the content is not valid for it."""
    try:
        body = target.model.model_validate_json(content)
    except ValidationError:
        return None
    return await target.endpoint(body, request)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Returns a `receive` that repeats the body, which has been read."""
    unread = [body]

    async def replayed_receive() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return replayed_receive
