"""kill -9 at any moment of a bulk run: the same command goes on, and ends with the bytes of an undisturbed run."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile

from tests.longform.bulk.runs import Bulk, records, texts, tree, write
from tests.servers import ROOT, TINY, Server, family, free_port, gone_within, running, spawn

LINES = 300
SERVICE = ("-m", "tests.services.bulk")


def run(out: Path, *arguments: object, **environ: str) -> subprocess.Popen[bytes]:
    words = (*SERVICE, *map(str, arguments[:1]), str(out), *map(str, arguments[1:]))
    return spawn(words, out.with_suffix(".log"), **environ)


def finished_lines(out: Path) -> int:
    journal = out / ".bulk" / "journal"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def kill_when(process: subprocess.Popen[bytes], out: Path, lines: int) -> bool:
    """Kill it when it has finished so many lines. False if it has come to its end before."""
    while process.poll() is None:
        if finished_lines(out) >= lines:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
        time.sleep(0.001)
    return False


@pytest.mark.parametrize(
    "arguments", [pytest.param((), id="files", marks=pytest.mark.slow), pytest.param(("--shards", "40"), id="shards")]
)
def test_a_killed_run_ends_as_an_undisturbed_one(bulk: Bulk, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    source = write(tmp_path / "in.jsonl", texts(LINES))
    undisturbed, out = tmp_path / "undisturbed", tmp_path / "out"
    assert bulk.run(source, undisturbed, *arguments) == 0
    assert kill_when(run(out, source, *arguments, BULK_SPEAKER="double"), out, LINES // 2)
    with (out / ".bulk" / "journal").open("ab") as journal:
        journal.write(b"+0123")  # as if it had been killed in the middle of a line
    assert bulk.run(source, out, *arguments) == 0
    assert len(bulk.backend.spoken) <= LINES - LINES // 2
    assert tree(out) == tree(undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("backend", "arguments"),
    [
        ("onnx", ("--format", "wav")),
        ("onnx", ("--format", "opus")),
        ("onnx", ("--shards", "10")),
        ("torch", ("--format", "wav")),
    ],
)
def test_ten_kills_at_random_moments_of_a_real_run(
    tmp_path: Path, tiny_server: Server, backend: str, arguments: tuple[str, ...]
) -> None:
    """The tiny model in the run's own process; the G2P of a server beside it."""
    url = httpx.get(f"{tiny_server.url}/health", timeout=60).json()["g2p"]["url"]
    environ = {"G2P_SERVICE_URL": url, "KOKORO_BACKEND": backend}
    source = write(tmp_path / "in.jsonl", texts(120))
    undisturbed, out = tmp_path / "undisturbed", tmp_path / "out"
    assert run(undisturbed, source, *arguments, **environ).wait(600) == 0
    chance, kills = random.Random(7), 0
    for moment in sorted(chance.sample(range(1, 100), 10)):
        process = run(out, source, *arguments, **environ)
        kills += kill_when(process, out, moment)
        time.sleep(chance.random() / 10)
    assert kills == 10
    assert run(out, source, *arguments, **environ).wait(600) == 0
    assert len(records(out / "manifest.jsonl")) == 120
    assert_same(tree(out), tree(undisturbed), exact=backend == "onnx")


def assert_same(one: dict[str, bytes], other: dict[str, bytes], *, exact: bool) -> None:
    """Byte for byte; opus, whose streams have numbers by chance, sample for sample.

    On torch, several rows share a pass, and which ones hangs on the moment: so a sample may be rounded the other way.
    """
    assert one.keys() == other.keys()
    for name in one:
        if name.endswith(".opus") or (name.endswith(".wav") and not exact):
            samples, others = (soundfile.read(io.BytesIO(each[name]), dtype="int16")[0] for each in (one, other))
            assert samples.shape == others.shape
            assert np.abs(samples.astype(int) - others).max() <= (0 if exact else 1), name
        else:
            assert one[name] == other[name], name


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_outlives_its_server(tmp_path: Path) -> None:
    """kill -9 while it speaks; it is started anew on the same port, and the run goes on by itself."""
    port = str(free_port())
    source, out = write(tmp_path / "in.jsonl", texts(150)), tmp_path / "out"
    with running(TINY, tmp_path / "first.log", PORT=port) as server:
        process = run(out, source, "--url", server.url, "--processes", "2")
        while process.poll() is None and finished_lines(out) < 20:
            time.sleep(0.01)
        assert process.poll() is None
        server.stop(signal.SIGKILL)
    with running(TINY, tmp_path / "second.log", PORT=port):
        assert process.wait(300) == 0, out.with_suffix(".log").read_text()
    assert len(records(out / "manifest.jsonl")) == 150
    assert not (out / "failures.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_stop_leaves_no_process_and_goes_on(
    tmp_path: Path, tiny_server: Server, number: signal.Signals
) -> None:
    source, out = write(tmp_path / "in.jsonl", texts(100)), tmp_path / "out"
    process = run(out, source, "--url", tiny_server.url, "--processes", "2")
    while process.poll() is None and finished_lines(out) < 5:
        time.sleep(0.01)
    children = family(process.pid)
    process.send_signal(number)
    assert process.wait(60) != 0
    assert all(gone_within(child, 30) for child in children)
    before = finished_lines(out)
    assert before < 100
    assert run(out, source, "--url", tiny_server.url).wait(300) == 0
    assert finished_lines(out) <= 101  # nothing is made twice but what was told as the run ended
    assert len(records(out / "manifest.jsonl")) == 100


@pytest.mark.slow
def test_shards_are_a_web_dataset(tmp_path: Path) -> None:
    """Read by the package itself, which is fetched for it."""
    packages, out = tmp_path / "packages", tmp_path / "out"
    source = write(tmp_path / "in.jsonl", texts(25))
    assert run(out, source, "--shards", "10", BULK_SPEAKER="double").wait(120) == 0
    pip = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(packages),
        "webdataset",
        "braceexpand",
    )
    if subprocess.run(pip, check=False).returncode:
        pytest.skip("webdataset cannot be fetched")
    script = (
        "import sys, webdataset as wds\n"
        "samples = list(wds.WebDataset(sys.argv[1], shardshuffle=False, empty_check=False).decode())\n"
        "print(len(samples), sorted(k for k in samples[3] if not k.startswith('_')), samples[3]['json']['id'])\n"
    )
    command = (sys.executable, "-W", "ignore", "-c", script, str(out / "shard-{000000..000002}.tar"))
    environ = os.environ | {"PYTHONPATH": str(packages)}
    shown = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=ROOT, check=False)
    assert shown.stdout.strip() == "25 ['flac', 'json'] clip-0003", shown.stderr
