"""Several clients at once on a CPU: how long each waits, and when a stream starts that comes while others are spoken.

    python -m benchmarks.crowd_bench [--url NAME=http://localhost:8880 ...] [--rounds 5] [--out FILE]

Without a URL a server with the real model is started. Several servers, as of two versions, take turns in every round,
so that what else the machine does is the same for each.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks import common
from tests import servers

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
    parser.add_argument("--url", action="append", metavar="NAME=URL", help="a server that runs already")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=common.RESULTS / "crowd_cpu.json")
    options = parser.parse_args()
    if options.url:
        named = dict(url.split("=", 1) for url in options.url)
        results = asyncio.run(measure(named, options.rounds))
    else:
        with (
            tempfile.TemporaryDirectory() as folder,
            servers.running(servers.REAL, Path(folder) / "log", KOKORO_DEVICE="cpu") as server,
        ):
            results = asyncio.run(measure({"this": server.url}, options.rounds))
    common.write(options.out, {"benchmark": "crowd", "rounds": options.rounds, "servers": results})


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
    """The start of a stream alone, the time of a long row, and the start of a stream that comes while four are spoken.

    A fifth goes before them: while it is spoken the four are all there.
    """
    alone = await first_audio(client, url)
    row = await say(client, url, LONG_ROW)
    rows = [asyncio.create_task(say(client, url, LONG_ROW)) for _ in range(5)]
    await asyncio.wait(rows, return_when=asyncio.FIRST_COMPLETED)
    beside = await first_audio(client, url)
    await asyncio.gather(*rows)
    return {"first_audio_alone_s": alone, "long_row_s": row, "first_audio_beside_four_long_rows_s": beside}


async def say(client: httpx.AsyncClient, url: str, text: str) -> float:
    began = time.perf_counter()
    (await client.post(f"{url}/tts", json={"text": text})).raise_for_status()
    return time.perf_counter() - began


async def first_audio(client: httpx.AsyncClient, url: str) -> float:
    """Seconds until the first samples; the rest is taken too, so that nothing is left to do for the server."""
    began, first = time.perf_counter(), 0.0
    async with client.stream("POST", f"{url}/tts/stream", json={"text": STREAM, "format": "pcm"}) as response:
        response.raise_for_status()
        async for _ in response.aiter_raw():
            first = first or time.perf_counter() - began
    return first


def _spread(runs: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    values = {key: [run[key] for run in runs] for key in runs[0]}
    return {
        key: {"median": round(statistics.median(found), 3), "min": round(min(found), 3)}
        for key, found in values.items()
    }


if __name__ == "__main__":
    main()
