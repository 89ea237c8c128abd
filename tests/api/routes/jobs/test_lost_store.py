"""A jobs.sqlite that is lost or damaged, on a real server process: the jobs are found again from their folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.routes.jobs.test_jobs import KEYS, TEXT, send, until_ended
from tests.servers import TINY, Server, running, wait_for

ANN = {"X-API-Key": "key-of-ann"}


def listed(server: Server, name: str = "ann") -> dict[str, str]:
    answer = httpx.get(f"{server.url}/jobs", headers={"X-API-Key": f"key-of-{name}"}, timeout=60)
    return {job["id"]: job["state"] for job in answer.json()["jobs"]}


def condition(server: Server) -> str:
    degraded: list[dict[str, Any]] = httpx.get(f"{server.url}/health", headers=ANN, timeout=60).json()["degraded"]
    return "".join(each["message"] for each in degraded if each["name"] == "jobs_lost")


@pytest.fixture
def settings(tmp_path: Path, shared_g2p: str) -> dict[str, str]:
    return {"JOBS_PATH": str(tmp_path / "jobs"), "G2P_SERVICE_URL": shared_g2p, **KEYS}


def test_jobs_are_found_again(tmp_path: Path, settings: dict[str, str]) -> None:
    jobs = tmp_path / "jobs"
    with running(TINY, tmp_path / "log", **settings) as server:
        first = send(server, TEXT, format="flac", headers=ANN).json()["id"]
        until_ended(server, first, ANN)
        content = httpx.get(f"{server.url}/jobs/{first}/result", headers=ANN).content

    for path in jobs.glob("jobs.sqlite*"):
        path.unlink()
    for path in jobs.iterdir():  # a day later
        os.utime(path, (1, 1))
    with running(TINY, tmp_path / "log2", **settings) as server:
        wait_for(lambda: listed(server) == {first: "done"})
        wait_for(lambda: "1 jobs were missing in jobs.sqlite" in condition(server))
        assert listed(server, "bob") == {}
        assert httpx.get(f"{server.url}/jobs/{first}/result", headers=ANN).content == content
        second = httpx.post(f"{server.url}/jobs", json={"items": [{"id": "a", "text": "Hi."}]}, headers=ANN).json()[
            "id"
        ]
        assert until_ended(server, second, ANN)["state"] == "done"

    (jobs / "jobs.sqlite").write_bytes(b"This is no database. " * 500)
    with running(TINY, tmp_path / "log3", **settings) as server:
        wait_for(lambda: listed(server) == {first: "done", second: "done"})
        wait_for(lambda: "jobs.sqlite was damaged and is kept as jobs.sqlite.damaged-" in condition(server))
        assert httpx.delete(f"{server.url}/jobs/{second}", headers=ANN).status_code == 204
        wait_for(lambda: not (jobs / second).exists())
        wait_for(lambda: f"job removed id={second} why=deleted bytes=" in server.lines())
