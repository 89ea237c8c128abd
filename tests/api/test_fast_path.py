"""The short way to an endpoint and FastAPI's give the same answers."""

from __future__ import annotations

from typing import Annotated

import pytest
from fastapi import APIRouter, FastAPI, Header, Request, Response
from fastapi.testclient import TestClient
from pydantic import BaseModel, ConfigDict, Field

from kokoro_server.api import errors
from kokoro_server.api.body_limit import BodyLimit
from kokoro_server.api.fast_path import FastPath, FastPathRoute
from kokoro_server.errors import TooBusy

Timeout = Annotated[float | None, Header(alias="X-Request-Timeout", gt=0)]
ORDINARY = {"Content-Type": "application/json"}
OTHER = {"Content-Type": "application/json; charset=utf-8"}


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=100)
    count: int = Field(default=1, ge=1)


router = APIRouter(route_class=FastPathRoute)


@router.post("/echo", response_class=Response)
async def echo(body: Order, request: Request, timeout: Timeout = None) -> Response:
    if body.text == "busy":
        raise TooBusy("too many", retry_after=3)
    if body.text == "broken":
        raise RuntimeError("not foreseen")
    quick = "endpoint" not in request.scope  # which the router leaves there
    return Response(f"{body.text * body.count} {timeout}", headers={"X-Quick": str(quick)})


@router.get("/echo")
async def look() -> str:
    return "look"


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    app.add_middleware(FastPath, routers=[router])
    app.add_middleware(BodyLimit, limit=1000)
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
    ],
)
def test_both_ways_answer_alike(client: TestClient, body: str, status: int) -> None:
    quick, usual = (client.post("/echo", content=body, headers=headers) for headers in (ORDINARY, OTHER))
    assert (quick.status_code, quick.content) == (usual.status_code, usual.content)
    assert quick.status_code == status
    assert quick.headers.get("retry-after") == usual.headers.get("retry-after")


def test_who_goes_which_way(client: TestClient) -> None:
    content = '{"text": "hi"}'
    assert client.post("/echo", content=content, headers=ORDINARY).headers["x-quick"] == "True"
    assert client.post("/echo", content=content, headers=OTHER).headers["x-quick"] == "False"
    timed = client.post("/echo", content=content, headers={**ORDINARY, "X-Request-Timeout": "2"})
    assert (timed.text, timed.headers["x-quick"]) == ("hi 2.0", "False")


def test_others_are_left_alone(client: TestClient) -> None:
    assert client.get("/echo").json() == "look"
    assert client.put("/echo", content="{}", headers=ORDINARY).status_code == 405
    assert client.post("/nowhere", content="{}", headers=ORDINARY).status_code == 404
