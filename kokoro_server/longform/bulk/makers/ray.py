"""`kokoro-server bulk` on a Ray cluster, through Ray Data: an actor for each device speaks, the driver writes."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from numpy.typing import NDArray

from kokoro_server import __version__
from kokoro_server.errors import SetupError
from kokoro_server.longform.bulk.makers.local import BackendMaker, Finish
from kokoro_server.longform.bulk.outputs import ClipOutputs
from kokoro_server.longform.bulk.task import Failed, Made, Task
from kokoro_server.runtime.json import JsonObject

BLOCK = 256  # lines that an actor speaks at once
Open = Callable[[], AbstractAsyncContextManager[BackendMaker]]


class RayActor:
    """An actor with a model of its own, on an event loop in its own thread."""

    def __init__(self, open_maker: Open) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._open = open_maker()
        self._maker: BackendMaker = self._run(self._open.__aenter__())

    def __call__(self, block: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        tasks = [json.loads(task) for task in block["task"]]
        outcomes = self._run(self._outcomes([task["fields"] for task in tasks]))
        return {"task": block["task"], "outcome": np.array([pickle.dumps(each) for each in outcomes], object)}

    async def _outcomes(self, requests: list[JsonObject]) -> list[tuple[Made | Failed, bytes]]:
        return await asyncio.gather(*map(self._maker.outcome, requests))

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class RayMaker:
    """`Maker`. `open_maker` opens the maker of an actor; it is sent there by name."""

    def __init__(self, address: str, open_maker: Open) -> None:
        try:
            ray.init(address=address, ignore_reinit_error=True, logging_level="warning", log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise SetupError(f"--address {address}: there is no Ray cluster: {error}") from error
        self._open = open_maker
        self._gpus = int(ray.cluster_resources().get("GPU", 0))
        self.version = f"{__version__} ray {'gpu' if self._gpus else 'cpu'}"

    def fingerprint(self, request: JsonObject) -> str:  # noqa: ARG002
        """Empty: the voices are those of the actors' machines."""
        return ""

    async def make(self, tasks: AsyncIterator[Task], outputs: ClipOutputs, finish: Finish) -> None:
        blocks = await self._blocks(tasks)
        if blocks:
            await asyncio.to_thread(self._make, blocks, outputs, finish, asyncio.get_running_loop())

    async def _blocks(self, tasks: AsyncIterator[Task]) -> list[Any]:
        """References to blocks of tasks, which are in Ray's memory or on its disk."""
        blocks, lines = list[Any](), list[str]()

        def put() -> None:
            blocks.append(ray.put(pa.table({"task": lines})))
            lines.clear()

        async for task in tasks:
            lines.append(json.dumps(asdict(task)))
            if len(lines) == BLOCK:
                await asyncio.to_thread(put)
        if lines:
            await asyncio.to_thread(put)
        return blocks

    def _make(self, blocks: list[Any], outputs: ClipOutputs, finish: Finish, loop: asyncio.AbstractEventLoop) -> None:
        devices = self._gpus or len([node for node in ray.nodes() if node["Alive"]])
        spoken = ray.data.from_arrow_refs(blocks).map_batches(
            RayActor,
            fn_constructor_args=(self._open,),
            batch_size=BLOCK,
            concurrency=min(devices, len(blocks)),
            **({"num_gpus": 1} if self._gpus else {"scheduling_strategy": "SPREAD"}),
        )
        for row in spoken.iter_rows():
            task = Task(**json.loads(row["task"]))
            outcome, audio = pickle.loads(row["outcome"])  # noqa: S301 - our own actor's
            if isinstance(outcome, Made):
                outputs.write(task, audio)
            asyncio.run_coroutine_threadsafe(finish(task, outcome), loop).result()
