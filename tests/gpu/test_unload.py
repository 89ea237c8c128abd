"""A model that is unloaded gives its memory back, on the device and on the host, and speaks again when loaded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kokoro_server.batching import BatchingOptions, BatchQueue
from kokoro_server.engine import devices
from kokoro_server.engine.devices import CudaOptions
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import Result
from kokoro_server.engine.rows import warmup_row
from kokoro_server.engine.torch_engine import TorchEngine
from tests import tiny
from tests.memory import anonymous_memory

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

MB = 2**20
LEFT = 32 * MB  # what may remain: handles and workspaces that torch has no way to free
CODE = 1024 * MB  # what CUDA itself has for a process, once its kernels are loaded
PATIENCE = 300.0


def pinned() -> int:
    return int(torch.cuda.host_memory_stats()["allocated_bytes.current"])


def reserved() -> int:
    return torch.cuda.memory_reserved()


def used() -> int:
    free, total = torch.cuda.mem_get_info()
    return total - free


@pytest.fixture
def unused() -> dict[str, int]:
    """Memory in use before a model is loaded."""
    torch.zeros(1, device="cuda")
    devices.free_memory(["cuda"])
    return {"reserved": reserved(), "used": used(), "pinned": pinned()}


def make(model: Any) -> Callable[[], list[TorchEngine]]:
    def engines() -> list[TorchEngine]:
        made = [devices.on_cuda(model, torch.device("cuda:0"), CudaOptions())]
        for engine in made:
            engine.warmup()
        return made

    return engines


def loaded(model: Any, folder: Path) -> LoadedModel:
    again = make(model)
    return LoadedModel(tuple(again()), ModelFacts(tiny.write_voices(folder), "fp32", "path"), make_engines=again)


def speak(engines: Sequence[Any], rows: int = 1) -> list[Result]:
    return list(engines[0].synthesize([warmup_row()] * rows))


def test_memory_before_unloaded_and_after(model: Any, unused: dict[str, int], tmp_path: Path) -> None:
    resident = loaded(model, tmp_path)
    heard = speak(resident.engines)[0].audio.copy()
    speak(resident.engines, 64)
    while resident.engines[0].background_step():  # type: ignore[attr-defined]
        pass
    full = {"reserved": reserved(), "used": used(), "pinned": pinned()}
    assert full["reserved"] > 500 * MB
    for cycle in range(3):
        resident.unload()
        empty = {"reserved": reserved(), "used": used(), "pinned": pinned()}
        print(f"cycle {cycle} unused {unused} loaded {full} unloaded {empty}")
        assert empty["reserved"] <= unused["reserved"] + LEFT
        assert empty["pinned"] <= unused["pinned"] + LEFT
        assert empty["used"] <= unused["used"] + CODE
        resident.load()
        again = speak(resident.engines)[0].audio
        assert np.allclose(again, heard, atol=1e-3)
        speak(resident.engines, 64)


def test_audio_that_is_still_looked_at_survives(model: Any, unused: dict[str, int], tmp_path: Path) -> None:
    resident = loaded(model, tmp_path)
    [result] = speak(resident.engines)
    copy = result.audio.copy()
    resident.unload()
    resident.load()
    speak(resident.engines, 64)
    assert np.array_equal(result.audio, copy)
    dropped = threading.Thread(target=lambda each: None, args=(result,))
    del result
    dropped.start()
    dropped.join()
    speak(resident.engines)
    resident.unload()
    assert pinned() <= unused["pinned"] + LEFT


async def test_the_queue_unloads_it_while_graphs_are_still_captured_and_loads_it(
    model: Any, unused: dict[str, int], tmp_path: Path
) -> None:
    resident = loaded(model, tmp_path)
    queue = BatchQueue(resident.engines, BatchingOptions(idle_unload=3.0), model=resident)
    await queue.start()
    host = []
    try:
        for loads in range(5):
            rows = [queue.submit(warmup_row(), voice="af_heart") for _ in range(20)]
            assert len(await asyncio.gather(*rows)) == 20
            assert queue.model_state()["loads"] == loads
            async with asyncio.timeout(PATIENCE):
                while queue.model_state()["state"] != "unloaded":  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            assert reserved() <= unused["reserved"] + LEFT
            assert pinned() <= unused["pinned"] + LEFT
            host.append(anonymous_memory())
    finally:
        await queue.stop()
    print(f"host memory {[size // MB for size in host]} MB")
    assert host[-1] - host[1] < 30 * MB  # of three cycles: each took 30 MB while it had threads of its own


def test_memory_that_others_have_taken_meanwhile_is_told_and_what_was_loaded_is_freed(
    model: Any, unused: dict[str, int], tmp_path: Path
) -> None:
    resident = loaded(model, tmp_path)
    resident.unload()
    torch.cuda.set_per_process_memory_fraction(1.0)
    free, _ = torch.cuda.mem_get_info()
    taken = torch.empty(free - 200 * MB, dtype=torch.uint8, device="cuda")
    with pytest.raises(Exception, match="memory"):
        resident.load()
    resident.unload()
    assert reserved() <= unused["reserved"] + taken.numel() + LEFT
    del taken
    torch.cuda.empty_cache()
    resident.load()
    assert len(speak(resident.engines)) == 1
