"""Books whose process is killed and that are asked for again."""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from kokoro_server.longform.books.work_folder import WorkFolder
from tests import servers
from tests.services import fake_g2p

SAY = ("-m", "tests.services.say")
PATIENCE = 300.0  # seconds
CHAPTERS = 2


@pytest.fixture(scope="module")
def g2p() -> Iterator[str]:
    with fake_g2p.running() as url:
        yield url


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "ships.txt"
    chapters = (
        f"Chapter {chapter}\n\n"
        + "\n\n".join(
            " ".join(f"The ship number {chapter * 100 + line * 10 + n} came home on a Sunday." for n in range(4))
            for line in range(5)
        )
        for chapter in range(1, CHAPTERS + 1)
    )
    path.write_text("\n\n\n".join(chapters))
    return path


def start(document: Path, output: Path, g2p: str, log: Path, *options: str, **environ: str) -> subprocess.Popen[bytes]:
    arguments = (*SAY, str(document), "-o", str(output), "--subtitles", str(output.with_suffix(".srt")), *options)
    return servers.spawn(arguments, log, G2P_SERVICE_URL=g2p, **environ)


def finish(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.wait(PATIENCE) == 0, log.read_text()
    return log.read_text()


def kept(output: Path) -> int:
    return len(passages(output))


def passages(output: Path) -> list[Path]:
    found = (output.with_suffix(".work") / "stretches").glob("*")
    return [path for path in found if not path.name.endswith(".unfinished")]


def wait_for(process: subprocess.Popen[bytes], output: Path, count: int) -> None:
    """Until so many are kept; unless it ends before."""
    deadline = time.monotonic() + PATIENCE
    while kept(output) < count and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)


def kill_when(process: subprocess.Popen[bytes], output: Path, count: int) -> None:
    wait_for(process, output, count)
    process.kill()
    process.wait()


def test_a_book_that_is_killed_goes_on_and_is_the_same(tmp_path: Path, document: Path, g2p: str) -> None:
    whole, output, log = tmp_path / "whole.m4b", tmp_path / "book.m4b", tmp_path / "log"
    finish(start(document, whole, g2p, log), log)
    kill_when(start(document, output, g2p, log, SAY_SLOWNESS="0.1"), output, 3)
    before = kept(output)
    assert not output.exists()
    told = finish(start(document, output, g2p, log), log)
    assert before >= 3
    assert f"kept={before}" in told
    assert output.read_bytes() == whole.read_bytes()
    assert output.with_suffix(".srt").read_bytes() == whole.with_suffix(".srt").read_bytes()
    shown = re.sub(r"^\d+\n.* --> .*$", "", output.with_suffix(".srt").read_text(), flags=re.MULTILINE)
    assert shown.split() == document.read_text().split()  # all that is written, in order
    assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", ".m4b", ".m4b", ".srt", ".srt", ".txt"]


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "format"), [("onnx", "m4b"), ("onnx", "opus"), ("torch", "m4b")])
def test_ten_kills_at_random_moments(tmp_path: Path, document: Path, g2p: str, backend: str, format: str) -> None:
    # One row a call, as ONNX always does: where rows share a batch, the last bit of a sample goes by what shares it.
    environ = {"SAY_ENGINE": "tiny", "KOKORO_BACKEND": backend, "KOKORO_MAX_BATCH_SIZE": "1"}
    whole, output, log = tmp_path / f"whole.{format}", tmp_path / f"book.{format}", tmp_path / "log"
    started = time.monotonic()
    finish(start(document, whole, g2p, log, **environ), log)
    longest = time.monotonic() - started
    chance = random.Random(format)
    for _ in range(10):
        process = start(document, output, g2p, log, **environ)
        time.sleep(chance.uniform(0.3, 0.9) * longest)  # what is sooner is before anything is spoken
        process.kill()
        process.wait()
    finish(start(document, output, g2p, log, **environ), log)
    assert output.read_bytes() == whole.read_bytes()
    assert output.with_suffix(".srt").read_bytes() == whole.with_suffix(".srt").read_bytes()


@pytest.mark.slow
def test_rows_that_share_a_batch_change_a_sample_by_one_step_at_most(tmp_path: Path, document: Path, g2p: str) -> None:
    environ = {"SAY_ENGINE": "tiny", "KOKORO_BACKEND": "torch"}
    batches, single, log = tmp_path / "batches.flac", tmp_path / "single.flac", tmp_path / "log"
    as_spoken = ("--loudness", "off", "--keep-work")
    finish(start(document, batches, g2p, log, *as_spoken, **environ), log)
    finish(start(document, single, g2p, log, *as_spoken, KOKORO_MAX_BATCH_SIZE="1", **environ), log)
    folders = [WorkFolder(path.with_suffix(".work")) for path in (batches, single)]
    for key in (path.name for path in passages(batches)):
        assert most_steps(*(np.frombuffer(folder.need(key).pcm, "<i2") for folder in folders)) <= 1
    # Where peaks are limited, what is limited is rounded once more.
    assert most_steps(*(soundfile.read(path, dtype="int16")[0] for path in (batches, single))) <= 2
    assert batches.with_suffix(".srt").read_bytes() == single.with_suffix(".srt").read_bytes()


def most_steps(one: np.ndarray, other: np.ndarray) -> int:
    assert len(one) == len(other)
    return int(np.abs(one.astype(int) - other).max())


@pytest.mark.slow
def test_a_server_that_restarts_speaks_on_and_the_same_as_here(tmp_path: Path, document: Path, g2p: str) -> None:
    log, server_log = tmp_path / "log", tmp_path / "server.log"
    whole, output = tmp_path / "whole.flac", tmp_path / "book.flac"
    finish(start(document, whole, g2p, log, SAY_ENGINE="tiny", KOKORO_BACKEND="onnx"), log)
    environ = {"KOKORO_BACKEND": "onnx", "G2P_SERVICE_URL": g2p, "PORT": str(servers.free_port())}
    with servers.running(servers.TINY, server_log, **environ) as server:
        process = start(document, output, g2p, log, "--url", server.url)
        wait_for(process, output, 2)
        server.process.kill()
        server.process.wait()
    assert process.poll() is None, log.read_text()
    with servers.running(servers.TINY, server_log, **environ):
        finish(process, log)
    assert output.read_bytes() == whole.read_bytes()
    assert output.with_suffix(".srt").read_bytes() == whole.with_suffix(".srt").read_bytes()
