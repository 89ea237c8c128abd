"""How many machines so many listeners need, on paper: a simulation with the measured times of one H200 and its fronts.

    python -m benchmarks.cluster_sim [--target-ms 100] [--hourly-cost 4] [--quick] [--out FILE]

A listener hears sentences of a stream, one after the other, without a break. The queue's own policy forms the batches;
requests go to the machine with less audio pending, of two at random. First the same clients as in `serve_bench` are
simulated, and what comes out is compared with what was measured. Streams beside each other were measured when their
batches were smaller: they are not compared, and `crowds` has both.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.cluster.events import Request, Simulation, closed, open_loop
from benchmarks.cluster.measured import CLIP, STREAM, Machine

LISTENERS = (10, 100, 1_000, 3_000, 10_000, 100_000, 1_000_000)
ONE_MACHINE = (500, 1_000, 1_500, 2_000, 2_500, 3_000, 3_500, 4_000, 4_500)
CLIENTS = (1, 16, 64, 128, 256)
CROWDS = ((1, 0), (8, 0), (16, 0), (32, 0), (64, 0), (128, 0), (256, 0), (8, 8), (32, 32), (96, 32), (32, 96), (8, 56))
TARGETS = (0.05, 0.1, 0.2)  # seconds, of the 95th percentile of first audio
MAX_STALLED = 0.01
ZONES = 3
WARM_UP = 0.7  # seconds
MOST_REQUESTS = 40_000  # of a fleet that are simulated
LOSS_AT, LOSS_END = 2.0, 7.0
BYTES_PER_SECOND = 48_000  # of 16-bit audio
# Ray Serve's HTTP proxy, seconds of CPU for a request, as measured on slow cores: what it costs to have one in the way.
RAY_PROXY = 0.0105


def percentiles(requests: Sequence[Request]) -> dict[str, float]:
    """Milliseconds until first audio."""
    waits = [1000 * (request.first_audio - request.asked) for request in requests if request.first_audio is not None]
    return {f"p{share}": round(float(np.percentile(waits, share)), 1) for share in (50, 95, 99)} if waits else {}


def stalled(requests: Sequence[Request]) -> float:
    """The share of those whose first piece was over before the rest was there."""
    return statistics.mean(request.ended - request.first_audio > request.pieces[0] for request in requests)


def validation(machine: Machine, seconds: float) -> list[dict[str, Any]]:
    found = []
    for endpoint, every in ((CLIP, CLIENTS), (STREAM, CLIENTS[:1])):
        for clients in every:
            simulation = closed(machine, endpoint, clients, WARM_UP + seconds)
            answered = [each for each in simulation.answered if WARM_UP <= each.ended < WARM_UP + seconds]
            measured = machine.run(endpoint, clients)
            (replica,) = simulation.replicas
            pairs = {
                "audio_per_second": (
                    sum(sum(each.pieces) for each in answered) / seconds,
                    measured["audio_per_second"],
                ),
                "batch_rows_mean": (replica.rows / replica.batches, measured["batch_rows_mean"]),
            }
            for name, value in percentiles(answered).items():
                pairs[f"first_audio_{name}_ms"] = value, measured["first_audio_ms"][name]
            figures = {
                name: {"simulated": round(one, 1), "measured": other, "error": round(one / other - 1, 3)}
                for name, (one, other) in pairs.items()
            }
            found.append(common.show("validation", {"endpoint": endpoint, "clients": clients, **figures}))
    return found


def crowds(machine: Machine, seconds: float) -> list[dict[str, Any]]:
    """Clients of streams, and of clips beside them, each of which asks again when it is answered."""
    found = []
    for streams, clips in CROWDS:
        simulation = closed(machine, STREAM, streams, WARM_UP + seconds, clips=clips)
        answered = [each for each in simulation.answered if WARM_UP <= each.ended < WARM_UP + seconds]
        row: dict[str, Any] = {"streams": streams, "clips": clips}
        for name, kind in (("of_streams", True), ("of_clips", False)):
            if of_kind := [each for each in answered if each.stream is kind]:
                audio = sum(sum(each.pieces) for each in of_kind) / seconds
                row[name] = {"audio_per_second": round(audio), "first_audio_ms": percentiles(of_kind)}
        if streams in CLIENTS and not clips:
            measured = machine.run(STREAM, streams)
            row["measured_with_smaller_batches"] = {
                name: measured[name] for name in ("audio_per_second", "first_audio_ms")
            }
        found.append(common.show("crowd", row))
    return found


def errors(validated: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Over all windows, by figure."""
    names = [name for name in validated[0] if isinstance(validated[0][name], dict)]
    every = {name: [abs(window[name]["error"]) for window in validated] for name in names}
    return {name: {"mean": round(statistics.mean(of), 3), "largest": max(of)} for name, of in every.items()}


def fleet(machine: Machine, listeners: float, replicas: int, most: int) -> tuple[Simulation, list[Request]]:
    rate = listeners / machine.clip_seconds
    until = WARM_UP + max(1.0, min(20.0, most / rate))
    simulation = Simulation(machine, replicas, STREAM)
    open_loop(simulation, listeners)
    simulation.run(until)
    # Those of the end may not have been answered yet, the slow ones least of all.
    return simulation, [each for each in simulation.answered if WARM_UP <= each.asked < until - 0.3]


def capacity(machine: Machine, target: float, most: int) -> int:
    """The most listeners, in steps of 50, whom one machine serves in time and without a wait later on."""
    low, high = 0, 120  # steps; nothing makes 6,000 audio-s/s
    while high - low > 1:
        middle = (low + high) // 2
        _, answered = fleet(machine, 50 * middle, 1, most)
        in_time = percentiles(answered).get("p95", math.inf) <= 1000 * target and stalled(answered) <= MAX_STALLED
        low, high = (middle, high) if in_time else (low, middle)
    return 50 * low


def one_machine(machine: Machine, listeners: Sequence[int], seconds: float) -> list[dict[str, Any]]:
    """What shows that a machine has enough to do: what waits grows with every listener, the device is soon busy."""
    found = []
    for number in listeners:
        simulation = Simulation(machine, 1, STREAM)
        (replica,) = simulation.replicas
        open_loop(simulation, number)
        queued = []
        for when in np.arange(WARM_UP, seconds, 0.05):
            simulation.run(float(when))
            queued.append(replica.queued_audio)
        row = {
            "listeners": number,
            "queued_audio_s": round(statistics.mean(queued), 1),
            "device_busy": round(replica.busy / simulation.now, 3),
            "first_audio_ms": percentiles(simulation.answered),
        }
        found.append(common.show("one machine", row))
    return found


def sizes(machine: Machine, listeners: Sequence[int], each: int, hourly: float, most: int) -> list[dict[str, Any]]:
    found = []
    for number in listeners:
        replicas = math.ceil(number / each)
        simulation, answered = fleet(machine, number, replicas, most)
        with_zones = ZONES * math.ceil(replicas / (ZONES - 1))
        row = {
            "listeners": number,
            "replicas": replicas,
            "first_audio_ms": percentiles(answered),
            "stalled": round(stalled(answered), 4),
            "device_busy": round(sum(each.busy for each in simulation.replicas) / replicas / simulation.now, 3),
            "cost_per_hour": round(replicas * hourly, 2),
            "cost_per_1000_listener_hours": round(1000 * replicas * hourly / number, 3),
            "replicas_that_survive_a_zone": with_zones,
            "cost_per_hour_that_survives_a_zone": round(with_zones * hourly, 2),
            "requests_per_second": round(number / machine.clip_seconds, 1),
            "gigabits_per_second": round(8e-9 * BYTES_PER_SECOND * number, 3),
            "ray_proxy_cores": round(RAY_PROXY * number / machine.clip_seconds, 1),
        }
        found.append(common.show("size", row))
    return found


def saturation(machine: Machine) -> dict[str, dict[str, float]]:
    """Streams a second that each part of a machine could do if it were alone, and listeners."""
    costs = machine.costs(STREAM)
    audio, seconds = machine.full_batch
    parts = {
        "device, in full batches": audio / (seconds + machine.gap) / machine.clip_seconds,
        "fronts": machine.fronts / costs.front,
        "engine process's loop": 1 / costs.engine_loop,
        "G2P workers": machine.g2p_workers / costs.g2p,
        "G2P service's loop": 1 / costs.g2p_parent,
        "all cores": machine.cores / costs.cores,
        "10 Gbit/s network": 10e9 / 8 / BYTES_PER_SECOND / machine.clip_seconds,
        "a core of Ray Serve's proxy": 1 / RAY_PROXY,
    }
    return {
        name: {"requests_per_second": round(rate), "listeners": round(rate * machine.clip_seconds)}
        for name, rate in sorted(parts.items(), key=lambda part: part[1])
    }


def zone_loss(machine: Machine, listeners: int, each: int) -> list[dict[str, Any]]:
    """A third of the machines goes at once: with just enough of them before, and with enough after."""
    needed = math.ceil(listeners / each)
    found = []
    for name, replicas in (
        ("just enough before", ZONES * math.ceil(needed / ZONES)),
        ("enough after", ZONES * math.ceil(needed / (ZONES - 1))),
    ):
        simulation = Simulation(machine, replicas, STREAM, zones=ZONES)
        open_loop(simulation, listeners)
        simulation.at(LOSS_AT, lambda simulation=simulation: simulation.lose_zone(0))
        simulation.run(LOSS_END)
        alive = [replica for replica in simulation.replicas if replica.alive]

        def asked(since: float, until: float, simulation: Simulation = simulation) -> dict[str, float]:
            return percentiles([request for request in simulation.answered if since <= request.asked < until])

        row = {
            "listeners": listeners,
            "replicas": name,
            "before": replicas,
            "after": len(alive),
            "first_audio_ms_before": asked(WARM_UP, LOSS_AT),
            "first_audio_ms_in_the_second_of_the_loss": asked(LOSS_AT, LOSS_AT + 1),
            "first_audio_ms_after": asked(LOSS_AT + 2, LOSS_END - 1),
            "broken_off": simulation.broken_off,
            "waiting_audio_s_of_a_machine_at_the_end": round(statistics.mean(each.pending for each in alive), 1),
        }
        found.append(common.show("zone loss", row))
    return found


def simulate(machine: Machine, target: float, hourly: float, *, quick: bool = False) -> dict[str, Any]:
    most = 2_000 if quick else MOST_REQUESTS
    validated = validation(machine, 1.0 if quick else 5.0)
    capacities = {f"{1000 * each:g}": capacity(machine, each, min(most, 10_000)) for each in sorted({*TARGETS, target})}
    common.show("capacity", capacities)
    each = capacities[f"{1000 * target:g}"]
    return {
        "benchmark": "cluster simulation",
        "assumptions": {
            "cost_of_a_machine_per_hour": hourly,
            "first_audio_p95_target_ms": 1000 * target,
            "machine": f"{machine.gpu}, "
            f"{machine.cores} cores, {machine.fronts} fronts, {machine.g2p_workers} G2P workers",
            "listener": f"hears sentences of {machine.clip_seconds:.1f} s one after the other, each a stream",
            "not simulated": "the load balancer, the network's limits, refusals (429), other sizes of text",
        },
        "validation": validated,
        "error": errors(validated),
        "crowds": crowds(machine, 1.0 if quick else 10.0),
        "listeners_of_one_machine_by_target_ms": capacities,
        "one_machine": one_machine(machine, ONE_MACHINE, 2.0 if quick else 15.0),
        "saturation": saturation(machine),
        "sizes": sizes(machine, LISTENERS[:3] if quick else LISTENERS, each, hourly, most),
        "zone_loss": zone_loss(machine, 3_000 if quick else 30_000, each),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target-ms", type=float, default=100, help="first audio, 95th percentile")
    parser.add_argument("--hourly-cost", type=float, default=4.0, help="of a machine with one GPU; an assumption")
    parser.add_argument("--quick", action="store_true", help="a few seconds, and rough")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "cluster_sim.json")
    options = parser.parse_args()
    machine = Machine(common.RESULTS)
    common.write(options.out, simulate(machine, options.target_ms / 1000, options.hourly_cost, quick=options.quick))


if __name__ == "__main__":
    main()
