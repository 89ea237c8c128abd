"""The fast path to an endpoint and FastAPI's own path give the same responses."""

from __future__ import annotations

from typing import Annotated

import pytest
from fastapi import APIRouter, FastAPI, Header, Request, Response
from fastapi.testclient import TestClient
from pydantic import BaseModel, ConfigDict, Field

from kokoro_server.api import errors
from kokoro_server.api.middleware.fast_path import FastPath, FastPathRoute
from kokoro_server.errors import TooBusy
from kokoro_server.http.body import BodyLimit

Timeout = Annotated[float | None, Header(alias="X-Request-Timeout", gt=0)]
ELIGIBLE = {"Content-Type": "application/json"}
NOT_ELIGIBLE = {"Content-Type": "application/json; charset=utf-8"}


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=100)
    count: int = Field(default=1, ge=1)


router = APIRouter(route_class=FastPathRoute)


@router.post("/echo", response_class=Response)
async def echo(body: Body, request: Request, timeout: Timeout = None) -> Response:
    if body.text == "busy":
        raise TooBusy("too many", retry_after=3)
    if body.text == "broken":
        raise RuntimeError("not foreseen")
    fast = "endpoint" not in request.scope  # FastAPI's router puts it there
    return Response(f"{body.text * body.count} {timeout}", headers={"X-Fast-Path": str(fast)})


@router.get("/echo")
async def look() -> str:
    return "look"


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    app.add_middleware(FastPath, routers=[router])
    app.add_middleware(BodyLimit, limit=1000, seconds=60, max_marks=100)
    errors.install(app)
    app.include_router(router)
    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ('{"text": "hi", "count": 2}', 200),
        ('{"text": "busy"}', 429),
        ('{"text": "broken"}', 500),
        ('{"text": "hi", "count": 0}', 422),
        ('{"text": "hi", "size": 1}', 422),
        ('{"text": "h', 422),
        ("", 422),
        ("[]", 422),
        ('{"text": "' + "x" * 1000 + '"}', 413),
        ('{"text": "hi", "size": [' + "[]," * 60 + "[]]}", 413),
    ],
)
def test_both_paths_give_the_same_response(client: TestClient, body: str, status: int) -> None:
    fast, slow = (client.post("/echo", content=body, headers=headers) for headers in (ELIGIBLE, NOT_ELIGIBLE))
    assert (fast.status_code, fast.content) == (slow.status_code, slow.content)
    assert fast.status_code == status
    assert fast.headers.get("retry-after") == slow.headers.get("retry-after")


def test_which_requests_take_the_fast_path(client: TestClient) -> None:
    content = '{"text": "hi"}'
    assert client.post("/echo", content=content, headers=ELIGIBLE).headers["x-fast-path"] == "True"
    assert client.post("/echo", content=content, headers=NOT_ELIGIBLE).headers["x-fast-path"] == "False"
    timed = client.post("/echo", content=content, headers={**ELIGIBLE, "X-Request-Timeout": "2"})
    assert (timed.text, timed.headers["x-fast-path"]) == ("hi 2.0", "False")


def test_other_methods_and_paths_are_left_alone(client: TestClient) -> None:
    assert client.get("/echo").json() == "look"
    assert client.put("/echo", content="{}", headers=ELIGIBLE).status_code == 405
    assert client.post("/nowhere", content="{}", headers=ELIGIBLE).status_code == 404
