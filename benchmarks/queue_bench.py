"""The batch queue against no batching, a fixed 50 ms window and, where installed, Ray Serve's `@serve.batch`.

    python -m benchmarks.queue_bench [--seconds 3] [--out FILE]

All drive the same engine double, which takes FIXED + PER_FRAME · (rows × longest row), and see the same texts and
arrivals in the same run, so the ratios between them hold on any machine. Then the queue in front of several such
engines, and what the queue itself costs, with an engine that takes no time.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from kokoro_server.batching import BatchingOptions, BatchQueue, Priority
from kokoro_server.batching.devices.activity import percentiles
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, STYLE_DIM, EngineLimits, Result, Row

FIXED = 0.020  # seconds a batch
PER_FRAME = 2e-5  # seconds a padded frame
MAX_ROWS = 16
WINDOW = 0.050  # the fixed window, and Ray Serve's wait
CLIENTS = (1, 4, 16, 64, 256)
LOADS = (0.2, 0.5, 0.8)  # Poisson arrivals, as a share of what full batches could do
DEVICES = (1, 2, 4)
DEVICE_CLIENTS = (16, 64, 256)
VOICES = ("af_heart", "am_adam", "bf_emma", "bm_george")

Submit = Callable[[Row, str], Awaitable[Any]]


class SleepingEngine:
    device = "double"
    limits = EngineLimits(max_tokens=510, max_rows=MAX_ROWS, max_padded_frames=1_000_000)

    def __init__(self, fixed: float = FIXED, per_frame: float = PER_FRAME) -> None:
        self._fixed = fixed
        self._per_frame = per_frame
        self.batches: list[int] = []

    def warmup(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        frames = [_frames(row) for row in rows]
        self.batches.append(len(rows))
        time.sleep(self._fixed + self._per_frame * len(rows) * max(frames))
        return [_result(row) for row in rows]


class InstantEngine:
    device = "double"
    limits = EngineLimits(max_tokens=510, max_rows=64, max_padded_frames=1_000_000)

    def __init__(self, result: Result) -> None:
        self._result = result

    def warmup(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        return [self._result] * len(rows)


def _frames(row: Row) -> int:
    return 2 * len(row.tokens) + 20


def _result(row: Row) -> Result:
    durations = np.full(len(row.tokens) + 2, 2, dtype=np.int64)
    durations[[0, -1]] = 10
    return Result(audio=np.ones(_frames(row) * SAMPLES_PER_FRAME, dtype=np.float32), durations=durations)


def make_texts(count: int, seed: int) -> list[tuple[Row, str]]:
    """Sentences of 16 to 100 phonemes in four voices."""
    choose = random.Random(seed)
    style = np.zeros(STYLE_DIM, dtype=np.float32)
    return [(Row((1,) * choose.randint(16, 100), style), choose.choice(VOICES)) for _ in range(count)]


@asynccontextmanager
async def shared_queue(*engines: SleepingEngine, **options: Any):
    queue = BatchQueue(engines, BatchingOptions(queue_timeout=600, max_queue_size=100_000, **options))
    await queue.start()
    yield lambda row, voice: queue.submit(row, voice=voice)
    await queue.stop()


@asynccontextmanager
async def fixed_window(engine: SleepingEngine):
    """Gather for 50 ms from the first arrival or until full, then hand over, whether the device is free or not."""
    arrivals: asyncio.Queue[tuple[Row, asyncio.Future[Result]]] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    device = ThreadPoolExecutor(1)

    async def run(batch: list[tuple[Row, asyncio.Future[Result]]]) -> None:
        results = await loop.run_in_executor(device, engine.synthesize, [row for row, _ in batch])
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)

    async def gather() -> None:
        running = set()
        while True:
            batch = [await arrivals.get()]
            closes = loop.time() + WINDOW
            while len(batch) < MAX_ROWS and (left := closes - loop.time()) > 0:
                try:
                    batch.append(await asyncio.wait_for(arrivals.get(), left))
                except TimeoutError:
                    break
            task = loop.create_task(run(batch))
            running.add(task)
            task.add_done_callback(running.discard)

    async def submit(row: Row, _voice: str) -> Result:
        future: asyncio.Future[Result] = loop.create_future()
        arrivals.put_nowait((row, future))
        return await future

    gatherer = loop.create_task(gather())
    yield submit
    gatherer.cancel()
    device.shutdown(cancel_futures=True)


@asynccontextmanager
async def ray_serve(engine: SleepingEngine):
    """Only the batching decorator, in this process: its router and replicas would add to every request."""
    from ray import serve

    device = ThreadPoolExecutor(1)

    @serve.batch(max_batch_size=MAX_ROWS, batch_wait_timeout_s=WINDOW)
    async def run(rows: list[Row]) -> list[Result]:
        return await asyncio.get_running_loop().run_in_executor(device, engine.synthesize, rows)

    yield lambda row, _voice: run(row)
    device.shutdown(cancel_futures=True)


def contenders() -> dict[str, Callable[[SleepingEngine], Any]]:
    found = {
        "shared_queue": shared_queue,
        "no_batching": lambda engine: shared_queue(engine, enabled=False),
        "fixed_window_50ms": fixed_window,
    }
    if importlib.util.find_spec("ray") is not None:
        found["ray_serve_batch"] = ray_serve
    return found


async def closed_loop(submit: Submit, clients: int, seconds: float) -> dict[str, Any]:
    """Each client sends its next text when it has the audio of the last."""
    latencies: list[float] = []
    ends = time.perf_counter() + seconds

    async def client(number: int) -> None:
        texts = make_texts(200, seed=number)
        while (sent := time.perf_counter()) < ends:
            row, voice = texts[len(latencies) % len(texts)]
            await submit(row, voice)
            latencies.append(time.perf_counter() - sent)

    started = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    return _summary(latencies, time.perf_counter() - started)


async def poisson(submit: Submit, rate: float, seconds: float) -> dict[str, Any]:
    """Texts arrive whether or not the earlier ones are done; what is not done after as long again is given up."""
    choose = random.Random(7)
    latencies: list[float] = []
    tasks: list[asyncio.Task[None]] = []

    async def client(row: Row, voice: str) -> None:
        sent = time.perf_counter()
        await submit(row, voice)
        latencies.append(time.perf_counter() - sent)

    started = time.perf_counter()
    due = started
    for row, voice in make_texts(int(rate * seconds), seed=11):
        due += choose.expovariate(rate)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(client(row, voice)))
    _, late = await asyncio.wait(tasks, timeout=seconds)
    took = time.perf_counter() - started
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return {**_summary(latencies, took), "given_up": len(late)}


def _summary(latencies: list[float], seconds: float) -> dict[str, Any]:
    milliseconds = [1000 * latency for latency in latencies]
    return {"per_second": round(len(latencies) / seconds, 2), "latency_ms": percentiles(milliseconds)}


async def measure(load: Callable[[Submit], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Every contender under the same load, and how the shared queue compares."""
    measured: dict[str, Any] = {}
    for name, contender in contenders().items():
        engine = SleepingEngine()
        async with contender(engine) as submit:
            measured[name] = await load(submit)
        measured[name]["avg_batch_size"] = round(statistics.fmean(engine.batches), 2)
    ours = measured["shared_queue"]
    for name in measured.keys() - {"shared_queue"}:
        theirs = measured[name]
        theirs["ours_by_theirs"] = {
            "throughput": round(ours["per_second"] / theirs["per_second"], 2),
            "p50": round(ours["latency_ms"]["p50"] / theirs["latency_ms"]["p50"], 2),
            "p95": round(ours["latency_ms"]["p95"] / theirs["latency_ms"]["p95"], 2),
        }
    return measured


async def several_devices(clients: int, seconds: float) -> dict[str, Any]:
    """The same load on ever more devices, and how throughput compares to that of one."""
    measured: dict[str, Any] = {}
    for count in DEVICES:
        engines = [SleepingEngine() for _ in range(count)]
        async with shared_queue(*engines) as submit:
            found = await closed_loop(submit, clients, seconds)
        found["avg_batch_size"] = round(statistics.fmean(size for engine in engines for size in engine.batches), 2)
        found["batches"] = [len(engine.batches) for engine in engines]
        measured[str(count)] = found
        found["throughput_by_one"] = round(found["per_second"] / measured["1"]["per_second"], 2)
    return measured


async def overhead(entries: int = 20_000) -> dict[str, Any]:
    """Queue, future and thread hop, with an engine that takes no time."""
    row, voice = Row((1,), np.zeros(STYLE_DIM, dtype=np.float32)), "af_heart"
    queue = BatchQueue([InstantEngine(_result(row))])
    await queue.start()

    async def client(count: int, priority: Priority) -> list[float]:
        times = []
        for _ in range(count):
            sent = time.perf_counter()
            await queue.submit(row, voice=voice, priority=priority)
            times.append(1000 * (time.perf_counter() - sent))
        return times

    alone = await client(2000, Priority.BYPASS)  # the lane without a waiting window
    started = time.perf_counter()
    await asyncio.gather(*(client(entries // 64, Priority.NORMAL) for _ in range(64)))
    per_second = entries // 64 * 64 / (time.perf_counter() - started)
    await queue.stop()
    return {"entries_per_second_at_64": round(per_second), "alone_ms": percentiles(alone)}


async def run(seconds: float) -> dict[str, Any]:
    longest = _frames(Row((1,) * 100, np.zeros(STYLE_DIM, dtype=np.float32)))
    capacity = MAX_ROWS / (FIXED + PER_FRAME * MAX_ROWS * longest)
    results: dict[str, Any] = {"clients": {}, "poisson": {}, "overhead": await overhead()}
    for clients in CLIENTS:
        results["clients"][str(clients)] = await measure(lambda submit, n=clients: closed_loop(submit, n, seconds))
    for share in LOADS:
        rate = share * capacity
        measured = await measure(lambda submit, rate=rate: poisson(submit, rate, seconds))
        results["poisson"][f"{rate:.0f}_per_second"] = measured
    results["devices"] = {str(clients): await several_devices(clients, seconds) for clients in DEVICE_CLIENTS}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "queue_bench.json")
    arguments = parser.parse_args()
    settings = {"fixed_s": FIXED, "per_frame_s": PER_FRAME, "max_rows": MAX_ROWS, "window_s": WINDOW}
    common.write(arguments.out, {"benchmark": "queue", "settings": settings, **asyncio.run(run(arguments.seconds))})


if __name__ == "__main__":
    main()
