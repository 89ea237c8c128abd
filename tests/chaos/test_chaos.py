"""The short form of `make test-chaos`."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.faults import EVERY, ONCE, schedule
from tests.chaos.run import Options, run

SECONDS = 15.0


def test_every_request_gets_an_honest_answer_while_processes_die(tmp_path: Path) -> None:
    options = Options(SECONDS, variants=1, clients=4, gap=(0.5, 2.0), long_work=False)
    found = run(options, tmp_path / "log")
    assert not found["violations"]
    assert any("skipped" not in entry for entry in found["log"])


def test_a_seed_repeats_a_schedule_of_all_faults() -> None:
    planned = schedule(3, 600.0, 2)
    assert planned == schedule(3, 600.0, 2) != schedule(4, 600.0, 2)
    missing = {("stop", "server"), ("descriptors", "server")}
    assert {(fault.what, fault.target) for fault in planned} == {*EVERY, *ONCE} - missing
    assert {fault.target for fault in schedule(3, 600.0, 1)}.isdisjoint({"engine", "api", "spare"})
