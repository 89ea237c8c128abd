"""How many G2P workers a machine gets."""

from __future__ import annotations

import pytest

from kokoro_server.g2p import worker_count


@pytest.mark.parametrize(("cores", "expected"), [(0.5, 1), (2, 1), (8, 2), (8.5, 2), (16, 4), (128, 8)])
def test_the_default_worker_count_suits_the_machine(
    cores: float, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_count, "available_cores", lambda: cores)
    assert worker_count.default_worker_count() == expected


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (4, 2), (16, 8), (128, 8)])
def test_a_gpu_is_fed_by_more_workers(cores: float, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_count, "available_cores", lambda: cores)
    assert worker_count.default_worker_count(beside_gpu=True) == expected
