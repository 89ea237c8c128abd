"""The simulation of a cluster: it agrees with what was measured, and more machines serve more listeners."""

from __future__ import annotations

import json

import pytest

from benchmarks import cluster_sim, common
from benchmarks.cluster.events import Simulation, open_loop
from benchmarks.cluster.measured import STREAM, Machine, first_piece


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(common.RESULTS)


def test_it_agrees_with_what_one_machine_was_measured_to_do(machine: Machine) -> None:
    error = cluster_sim.errors(cluster_sim.validation(machine, seconds=1.5))
    assert error["audio_per_second"]["mean"] < 0.12
    assert error["first_audio_p95_ms"]["mean"] < 0.3


def test_many_streams_share_batches_that_keep_the_device_at_work(machine: Machine) -> None:
    """Against 2,588 and 3,641 seconds of audio a second, and 80 and 159 ms, measured when batches were smaller."""
    crowds = {each["streams"]: each["of_streams"] for each in cluster_sim.crowds(machine, 2.0) if not each["clips"]}
    assert crowds[64]["audio_per_second"] > 3_200
    assert crowds[128]["audio_per_second"] > 3_900
    assert crowds[8]["first_audio_ms"]["p95"] < 40
    assert crowds[64]["first_audio_ms"]["p95"] < 80
    assert crowds[128]["first_audio_ms"]["p95"] < 140


def test_clips_do_not_starve_beside_streams(machine: Machine) -> None:
    for each in cluster_sim.crowds(machine, 2.0):
        if each["clips"]:
            assert each["of_clips"]["first_audio_ms"]["p99"] < 700


def test_twice_the_machines_serve_twice_the_listeners(machine: Machine) -> None:
    _, of_one = cluster_sim.fleet(machine, 2_000, 1, most=1_500)
    _, of_two = cluster_sim.fleet(machine, 4_000, 2, most=3_000)
    _, of_few = cluster_sim.fleet(machine, 6_000, 1, most=3_000)
    one, two, few = (cluster_sim.percentiles(answered)["p95"] for answered in (of_one, of_two, of_few))
    assert two < 1.2 * one  # two that share what comes are rather better
    assert few > 2 * one


def test_of_a_lost_zone_only_what_was_heard_is_lost(machine: Machine) -> None:
    simulation = Simulation(machine, 3, STREAM, zones=3)
    open_loop(simulation, 3_000)
    simulation.at(1.0, lambda: simulation.lose_zone(0))
    simulation.run(4.0)
    lost, *alive = simulation.replicas
    assert [replica.alive for replica in (lost, *alive)] == [False, True, True]
    silent = [request for request in lost.requests if request.first_audio is None]
    assert not silent  # they were asked again, and heard
    assert simulation.broken_off == sum(request.ended > 1e9 for request in lost.requests)


def test_a_stream_begins_with_a_clause() -> None:
    assert first_piece("Short enough to be said at once.") == 32
    assert first_piece("Yesterday, the gardener opened the window, closed the door and left early.") == 42
    unbroken = "The old gardener and his neighbour opened every window by the river"
    assert first_piece(unbroken) == len(unbroken)


def test_the_results_are_those_of_this_simulation() -> None:
    results = json.loads((common.RESULTS / "cluster_sim.json").read_text(encoding="utf-8"))
    assert [size["listeners"] for size in results["sizes"]] == list(cluster_sim.LISTENERS)
    assert results["error"] == cluster_sim.errors(results["validation"])
