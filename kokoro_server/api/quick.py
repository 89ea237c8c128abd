"""Routes that take the short way with an ordinary request, and FastAPI's with any other."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, get_type_hints

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError


class QuickRoute(APIRoute):
    """For endpoints `(body: Model, request: Request, timeout: RequestTimeout = None) -> Response`.

    A JSON body without the timeout's header is parsed and checked by pydantic in one step, and nothing is looked up
    that such a request cannot need. Whatever is not accepted there goes to FastAPI, for it to accept or to complain.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        usual = super().get_route_handler()
        endpoint: Callable[..., Coroutine[Any, Any, Response]] = self.endpoint
        model: type[BaseModel] | None = get_type_hints(endpoint).get("body")
        if model is None:
            return usual

        async def handle(request: Request) -> Response:
            headers = dict(request.scope["headers"])
            if headers.get(b"content-type") != b"application/json" or b"x-request-timeout" in headers:
                return await usual(request)
            try:
                body = model.model_validate_json(await request.body())
            except ValidationError:
                return await usual(request)
            return await endpoint(body, request)

        return handle
