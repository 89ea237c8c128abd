"""Pinned memory that was used for copies from the device goes back to the system."""

from __future__ import annotations

import pytest
import torch

from kokoro_server.engine.cuda.pinned_buffers import IDLE_SECONDS, PinnedBuffers, empty_cache

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

BLOCK = 1 << 24  # samples: 64 MiB


def pinned_bytes() -> int:
    return int(torch.cuda.host_memory_stats()["allocated_bytes.current"])


def test_what_is_not_needed_any_more_is_given_back() -> None:
    now = 0.0
    buffers = PinnedBuffers(now=lambda: now)
    audio = torch.ones(16, BLOCK // 16, device="cuda")

    def copy_out() -> object:
        pinned, view = buffers.acquire(16, BLOCK // 16)
        pinned.copy_(audio, non_blocking=True)
        torch.cuda.synchronize()
        assert view[15, -1] == 1.0
        return view

    empty_cache()
    before = pinned_bytes()
    crowd = [copy_out() for _ in range(8)]
    assert pinned_bytes() - before == 8 * BLOCK * 4
    del crowd
    for _ in range(6):
        copy_out()
        now += IDLE_SECONDS / 2
    assert pinned_bytes() - before == BLOCK * 4
