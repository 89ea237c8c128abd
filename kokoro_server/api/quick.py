"""The short way of an ordinary request to its endpoint, past most of what FastAPI does for any."""

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


class QuickRoute(APIRoute):
    """For endpoints `(body: Model, request: Request, timeout: RequestTimeout = None) -> Response`."""


@dataclass(frozen=True, slots=True)
class _Target:
    route: APIRoute
    endpoint: Endpoint
    model: type[BaseModel]


class Shortcut:
    """Innermost middleware, for the quick routes among those of `routers`.

    A JSON body without the timeout's header is parsed and checked by pydantic in one step, and nothing is looked up
    that such a request cannot need. Whatever is not accepted here goes on to FastAPI, for it to accept or to complain.
    """

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter]) -> None:
        self.app = app
        self._targets: dict[str, _Target] = {}
        for route in (route for router in routers for route in router.routes if isinstance(route, QuickRoute)):
            model = get_type_hints(route.endpoint).get("body")
            if model is not None:
                self._targets[route.path] = _Target(route, route.endpoint, model)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = self._targets.get(scope["path"]) if scope["type"] == "http" and _is_ordinary(scope) else None
        if target is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = target.route
        request = Request(scope, receive, send)
        try:
            content = await request.body()
            response = await _answer(target, content, request)
        except Exception as error:
            response = await errors.answer_to(request, error)
        if response is None:
            await self.app(scope, _again(content, receive), send)
        else:
            await response(scope, receive, send)


def _is_ordinary(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return (
        scope["method"] == "POST"
        and headers.get(b"content-type") == b"application/json"
        and b"x-request-timeout" not in headers
    )


async def _answer(target: _Target, content: bytes, request: Request) -> Response | None:
    """None where the content is not what the endpoint takes."""
    try:
        body = target.model.model_validate_json(content)
    except ValidationError:
        return None
    return await target.endpoint(body, request)


def _again(body: bytes, receive: Receive) -> Receive:
    """For another reader of a body that has been read."""
    unread = [body]

    async def first_the_body() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return first_the_body
