from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch


@pytest.fixture(autouse=True)
def give_memory_back() -> Iterator[None]:
    """Engines have cycles, and each takes a tenth of the device."""
    yield
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@pytest.fixture(scope="session")
def model() -> Any:
    """Random weights of the real size."""
    from kokoro_server.engine.model import reference as kokoro

    torch.manual_seed(0)
    model = kokoro.blank()
    with torch.no_grad():
        model.predictor.F0_proj.bias.fill_(120)  # Hz: voiced
    return model
