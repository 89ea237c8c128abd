"""What unloading an idle model frees, and how long the first request after it waits.

    python -m benchmarks.idle_bench [--device cpu|cuda] [--cycles 3] [--rows 4] [--settle 1] [--out FILE]

The real model behind the real queue, in this process: no HTTP, no G2P. Memory of this process and of the device: before
the model is loaded, with it, after it was unloaded, and after the request that loads it again, over several cycles.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import common, corpus
from kokoro_server.batching import BatchingOptions, BatchQueue
from kokoro_server.config.settings import Settings
from kokoro_server.engine import loader
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.runtime.event_loop import freeze_heap
from kokoro_server.voices import VoiceBook

VOICE = "af_heart"
POLL = 0.05  # seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="as KOKORO_DEVICE")
    parser.add_argument("--backend", default="auto", choices=("auto", "torch", "onnx"))
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--rows", type=int, default=4, help="spoken at once while it is loaded; 64 fill a GPU's batch")
    parser.add_argument(
        "--settle", type=float, default=1.0, help="seconds idle before it is unloaded: graphs are captured"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    settings = Settings.load({"KOKORO_DEVICE": options.device, "KOKORO_BACKEND": options.backend}, dotenv=None)
    found = asyncio.run(measure(settings, options.cycles, options.rows, options.settle))
    given = {name: getattr(options, name) for name in ("device", "cycles", "rows", "settle")}
    out = options.out or common.RESULTS / f"idle_{options.device.partition(':')[0]}.json"
    common.write(out, {"benchmark": "idle", **given, **found})


async def measure(settings: Settings, cycles: int, rows: int, settle: float) -> dict[str, Any]:
    states = [{"state": "before", **common.show("before", memory())}]
    started = time.perf_counter()
    model = loader.load(settings)
    first_load = time.perf_counter() - started
    queue = BatchQueue(model.engines, BatchingOptions(idle_unload=settle), model=model)
    await queue.start()
    freeze_heap()
    await speak(queue, model, 1)
    warm = await speak(queue, model, 1)
    waits = []
    try:
        for cycle in range(cycles):
            await speak(queue, model, rows)
            await asyncio.sleep(settle / 2)
            states.append({"state": "loaded", "cycle": cycle, **common.show("loaded", memory())})
            while queue.model_state()["state"] != "unloaded":  # noqa: ASYNC110
                await asyncio.sleep(POLL)
            states.append({"state": "unloaded", "cycle": cycle, **common.show("unloaded", memory())})
            waits.append(common.show("first request, seconds", await speak(queue, model, 1)))
        states.append({"state": "loaded", "cycle": cycles, **common.show("loaded", memory())})
    finally:
        await queue.stop()
    return {
        "backend": model.facts.backend,
        "compute": model.facts.compute,
        "kernels": model.facts.kernels,
        "first_load_s": round(first_load, 2),
        "request_s": {"loaded": round(warm, 3), "unloaded": [round(wait, 3) for wait in waits]},
        "queue": queue.model_state(),
        "memory_mb": states,
    }


async def speak(queue: BatchQueue, model: LoadedModel, rows: int) -> float:
    """The seconds until all are spoken."""
    spoken = [corpus.row(VoiceBook(model.facts.voices), index, VOICE, seed=index) for index in range(rows)]
    started = time.perf_counter()
    await asyncio.gather(*(queue.submit(row, voice=VOICE) for row in spoken))
    return time.perf_counter() - started


def memory() -> dict[str, float]:
    """Megabytes. `device_used` is what all programs have of the device; the rest is this process's."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    found = {
        "rss": _mb(1024 * int(status["VmRSS"].split()[0])),
        "anonymous": _mb(1024 * int(status["RssAnon"].split()[0])),
    }
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return found
    free, total = torch.cuda.mem_get_info()
    return found | {
        "device_used": _mb(total - free),
        "device_reserved": _mb(torch.cuda.memory_reserved()),
        "device_allocated": _mb(torch.cuda.memory_allocated()),
        "pinned": _mb(torch.cuda.host_memory_stats().get("allocated_bytes.current", 0)),
    }


def _mb(size: float) -> float:
    return round(size / 1e6, 1)


if __name__ == "__main__":
    main()
