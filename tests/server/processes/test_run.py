"""How many processes there are."""

from __future__ import annotations

import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.engine import backends
from kokoro_server.server.processes import run


@pytest.mark.parametrize(("cores", "fronts"), [(1, 1), (3.5, 1), (4, 2), (7, 3), (16, 8), (96, 8)])
def test_beside_a_gpu_there_is_a_front_for_two_cores(
    monkeypatch: pytest.MonkeyPatch, cores: float, fronts: int
) -> None:
    monkeypatch.setattr(run, "available_cores", lambda: cores)
    monkeypatch.setattr(backends, "expects_nvidia_gpu", lambda _settings: True)
    assert run.worker_count(Settings.load({}, dotenv=None)) == fronts
    assert run.worker_count(Settings.load({"SERVER_PROCESSES": "3"}, dotenv=None)) == 3


def test_elsewhere_one_process_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "available_cores", lambda: 16)
    monkeypatch.setattr(backends, "expects_nvidia_gpu", lambda _settings: False)
    assert run.worker_count(Settings.load({}, dotenv=None)) == 1
