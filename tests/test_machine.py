from __future__ import annotations

from pathlib import Path

import pytest

from kokoro_server import machine
from kokoro_server.engine.cpu import engine


@pytest.mark.parametrize(("quota", "expected"), [("150000 100000", 1.5), ("50000 100000", 0.5)])
def test_a_containers_quota_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, expected: float
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    (tmp_path / "cpu.max").write_text(quota)
    assert machine.available_cores(tmp_path / "cpu.max") == expected


def test_without_a_quota_the_affinity_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    (tmp_path / "cpu.max").write_text("max 100000")
    assert machine.available_cores(tmp_path / "cpu.max") == machine.available_cores(tmp_path / "none") == 8


def test_the_cpu_engine_keeps_to_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "available_cores", lambda: 1.5)
    assert engine.default_threads() == 1
    monkeypatch.setattr(engine, "available_cores", lambda: 0.5)
    assert engine.default_threads() == 1
