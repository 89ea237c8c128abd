"""The published description, and requests drawn from it by schemathesis."""

from __future__ import annotations

import os

import httpx
import schemathesis
from hypothesis import HealthCheck, given, settings

from tests.servers import Server

EXAMPLES = os.environ.get("FUZZ_EXAMPLES")  # of requests to each endpoint; with it others are drawn each time


def test_no_request_makes_the_server_fail(tiny_server: Server) -> None:
    schema = schemathesis.openapi.from_url(f"{tiny_server.url}/openapi.json")
    for result in schema.get_all_operations():
        operation = result.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=int(EXAMPLES or 8),
            derandomize=not EXAMPLES,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        def answers(case: schemathesis.Case) -> None:
            response = case.call(timeout=120)
            # With a time limit of next to nothing, a busy machine answers that the time is over.
            is_late = response.status_code == 504 and "X-Request-Timeout" in (case.headers or {})
            assert response.status_code < 500 or is_late, response.text
            assert b"Traceback" not in response.content

        answers()


def test_every_field_is_described_with_an_example(tiny_server: Server) -> None:
    schemas = httpx.get(f"{tiny_server.url}/openapi.json").json()["components"]["schemas"]
    for name in ("TTSRequest", "CaptionedRequest", "BatchRequest"):
        for field, about in schemas[name]["properties"].items():
            assert about.get("description"), f"{name}.{field}"
            assert about.get("examples") or "enum" in about or "anyOf" in about, f"{name}.{field}"
