"""Several clients at once on a CPU: how long each waits, and when a stream starts that comes while others are spoken.

    python -m benchmarks.crowd_bench --url NAME=http://localhost:8880 [--url ...] [--rounds 5] [--out FILE]

Several servers, as of two versions, take turns in every round, so that what else the machine does is the same for each.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks import common
from benchmarks.stream_bench import silence

CLIENTS = (
    "The train to the coast leaves from platform nine.",
    "Please remember to water the plants before you go to the office.",
    "Nobody expected the weather to change so quickly in the mountains.",
    "Her brother keeps an old radio in the kitchen and never turns it off.",
)
LONG_ROW = (
    "When in the course of a long afternoon a traveller without luggage walks along the narrow road that follows the "
    "river he will sooner or later meet somebody who knows him."
)
STREAM = "It was late, and the lights were on. Somewhere above her, very slowly, something was turning."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", action="append", metavar="NAME=URL", required=True, help="a running server")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=common.RESULTS / "crowd_cpu.json")
    options = parser.parse_args()
    found = asyncio.run(measure(dict(url.split("=", 1) for url in options.url), options.rounds))
    common.write(options.out, {"benchmark": "crowd", "rounds": options.rounds, "servers": found})


async def measure(urls: Mapping[str, str], rounds: int) -> dict[str, Any]:
    async with httpx.AsyncClient(timeout=600) as client:
        for url in urls.values():
            await say(client, url, CLIENTS[0])  # the first of all is slower
        crowds: dict[str, list[dict[str, float]]] = {name: [] for name in urls}
        streams: dict[str, list[dict[str, float]]] = {name: [] for name in urls}
        for _ in range(rounds):
            for name, url in urls.items():
                crowds[name].append(await crowd(client, url))
            for name, url in urls.items():
                streams[name].append(await beside_long_rows(client, url))
    return {
        name: common.show(name, {"four_clients": _spread(crowds[name]), "stream": _spread(streams[name])})
        for name in urls
    }


async def crowd(client: httpx.AsyncClient, url: str) -> dict[str, float]:
    """Four clips that are asked for at once."""
    began = time.perf_counter()
    seconds = await asyncio.gather(*(say(client, url, text) for text in CLIENTS))
    return {"mean_s": statistics.fmean(seconds), "first_s": min(seconds), "total_s": time.perf_counter() - began}


async def beside_long_rows(client: httpx.AsyncClient, url: str) -> dict[str, float]:
    """The start of a stream alone, the time of a long row, and the start of a stream that comes as four of them begin.

    A fifth goes before them: while it is spoken, the four gather.
    """
    alone = await first_sound(client, url)
    row = await say(client, url, LONG_ROW)
    before = asyncio.create_task(say(client, url, LONG_ROW))
    await _queued(client, url, before, "running_rows", 1)
    rows = [asyncio.create_task(say(client, url, LONG_ROW)) for _ in range(4)]
    await _queued(client, url, before, "current_size", 4)
    await before
    beside = await first_sound(client, url)
    await asyncio.gather(*rows)
    found = {"long_row_s": row}
    for name, (audio, audible) in {"alone": alone, "beside_four_long_rows": beside}.items():
        found |= {f"first_audio_{name}_s": audio, f"first_audible_{name}_s": audible}
    return found


async def _queued(client: httpx.AsyncClient, url: str, before: asyncio.Task[float], what: str, count: int) -> None:
    while not before.done():
        if (await client.get(f"{url}/health/batching")).json()["queue_status"][what] == count:
            return
        await asyncio.sleep(0.01)


async def say(client: httpx.AsyncClient, url: str, text: str) -> float:
    began = time.perf_counter()
    (await client.post(f"{url}/tts", json={"text": text})).raise_for_status()
    return time.perf_counter() - began


async def first_sound(client: httpx.AsyncClient, url: str) -> tuple[float, float]:
    """Seconds until the first samples, and until the first audible one if they are played from then on.

    The rest is taken too, so that nothing is left to do for the server.
    """
    began, first, pcm = time.perf_counter(), 0.0, b""
    async with client.stream("POST", f"{url}/tts/stream", json={"text": STREAM, "format": "pcm"}) as response:
        response.raise_for_status()
        async for data in response.aiter_raw():
            first = first or time.perf_counter() - began
            pcm += data
    return first, first + silence(pcm)


def _spread(runs: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    values = {key: [run[key] for run in runs] for key in runs[0]}
    return {
        key: {"median": round(statistics.median(found), 3), "min": round(min(found), 3)}
        for key, found in values.items()
    }


if __name__ == "__main__":
    main()
