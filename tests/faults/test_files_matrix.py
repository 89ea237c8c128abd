"""Rows of the fault matrix: files that are damaged or missing, and a disk that is full. A server that runs beside the
one that cannot start notices nothing.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from kokoro_server.assets import library
from kokoro_server.config.settings import Settings
from kokoro_server.engine.cpu import build_cache
from tests import servers
from tests.assets.sandbox import Sandbox, wait_until
from tests.faults.checks import PATIENCE, injected
from tests.servers import Server

FETCHING = ("-m", "tests.services.fetching")
NOWHERE = {"PATH": "/nowhere", "PIP_NO_INDEX": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}


def corrupt(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


DAMAGE: dict[str, Callable[[Path], None]] = {"corrupt": corrupt, "truncated": truncate, "missing": Path.unlink}
MOSTLY_SLOW = ["corrupt", *(pytest.param(name, marks=pytest.mark.slow) for name in ("truncated", "missing"))]


class Fetcher:
    """Servers whose files come from a sandbox's registries, or from nowhere."""

    def __init__(self, folder: Path, g2p: str) -> None:
        self.sandbox = Sandbox(folder)
        self.sandbox.publish()
        self.cache = folder / "cache"
        self.log = folder / "log"
        self._environ = {**self.sandbox.environment(), "SANDBOX": str(folder), "KOKORO_CACHE_DIR": str(self.cache)}
        self._environ |= {"G2P_SERVICE_URL": g2p, "KOKORO_ASSET_SOURCE": "npm"}

    def fetch(self) -> None:
        """Fill the cache, as the first start did."""
        environ = {**self._environ, "PYTHONPATH": str(servers.ROOT)}
        command = ["-m", "tests.assets.sandbox", str(self.sandbox.folder), str(self.cache), "npm"]
        process = servers.spawn(tuple(command), self.log, **environ)
        assert process.wait(timeout=PATIENCE) == 0, self.log.read_text()

    def speaks(self) -> bool:
        with servers.running(FETCHING, self.log, **self._environ) as server:
            return httpx.post(f"{server.url}/tts", json={"text": "Hello."}, timeout=PATIENCE).status_code == 200

    def complaint(self, meanwhile: Callable[[], None] = lambda: None, **environ: str) -> str:
        """What a server says that cannot start."""
        process = servers.spawn(FETCHING, self.log, **self._environ | environ)
        try:
            meanwhile()
            assert process.wait(timeout=PATIENCE) == 1
        finally:
            process.kill()
        said = self.log.read_text()
        assert "is ready" not in said
        assert "Traceback" not in said
        return said


@pytest.fixture
def fetcher(tmp_path: Path, quick_g2p: str) -> Fetcher:
    return Fetcher(tmp_path, quick_g2p)


@pytest.mark.parametrize("damage", MOSTLY_SLOW)
async def test_damaged_weights_and_voices(faulty: Server, fetcher: Fetcher, damage: str) -> None:
    """They are never used: fetched anew, or the start ends with a message that says what was tried."""
    how = "in the cache, before a start without and with the registries"
    async with injected(faulty, f"{damage} weights and voices", how):
        await asyncio.to_thread(fetcher.fetch)
        (weights,) = fetcher.cache.glob("*.safetensors")
        for path in (weights, fetcher.cache / "voices" / "af_heart.bin"):
            DAMAGE[damage](path)
        assert "could not be fetched" in await asyncio.to_thread(fetcher.complaint, **NOWHERE)
        assert await asyncio.to_thread(fetcher.speaks)


@pytest.mark.parametrize("damage", MOSTLY_SLOW)
async def test_damaged_graphs(faulty: Server, tmp_path: Path, quick_g2p: str, damage: str) -> None:
    """Without the weights they cannot be made anew, and a damaged one is not used."""
    settings = Settings.load(dotenv=None)
    weights = library.recorded(settings.cache_dir)
    key = weights and build_cache.key(weights.digest, settings.cpu_precision)
    if key is None or (built := build_cache.find(settings.cache_dir, key)) is None:
        pytest.skip("nothing has been built here: kokoro-server assets build")
    copy = tmp_path / "onnx" / built.name
    shutil.copytree(built, copy)
    (tmp_path / "manifest.json").write_bytes((settings.cache_dir / "manifest.json").read_bytes())
    (tmp_path / "voices").symlink_to(settings.cache_dir / "voices")
    DAMAGE[damage](copy / "text.onnx")
    environ = {**NOWHERE, "KOKORO_CACHE_DIR": str(tmp_path), "KOKORO_BACKEND": "onnx", "G2P_SERVICE_URL": quick_g2p}
    async with injected(faulty, f"{damage} graphs", "in a cache without weights, and no registry"):
        process = servers.spawn(servers.REAL, tmp_path / "log", **environ, HF_HOME=str(tmp_path / "hub"))
        assert await asyncio.to_thread(process.wait, PATIENCE) == 1
        said = (tmp_path / "log").read_text()
        assert "could not be fetched" in said
        assert "Traceback" not in said


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("only root can make a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
async def test_a_disk_that_is_too_small(faulty: Server, fetcher: Fetcher) -> None:
    with small_disk(fetcher.cache, "100k"):
        async with injected(faulty, "disk too small to fetch to", "a tmpfs of 100 kB; then it has room"):
            assert "no space in" in await asyncio.to_thread(fetcher.complaint)
            room = ["mount", "-o", "remount,size=50m", str(fetcher.cache)]
            assert (await asyncio.to_thread(subprocess.run, room, check=False)).returncode == 0
            assert await asyncio.to_thread(fetcher.speaks)


@pytest.mark.slow
async def test_disk_full_while_fetching(faulty: Server, fetcher: Fetcher) -> None:
    filler, holding = fetcher.cache / "filler", fetcher.sandbox.hold("tiny-b")

    def fill() -> None:
        wait_until(lambda: "tiny-b" in fetcher.sandbox.npm_requests())
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1000))
        holding.unlink()

    with small_disk(fetcher.cache, "5m"):
        async with injected(faulty, "disk full while fetching", "filled while a download runs; then it has room"):
            assert "could not be fetched" in await asyncio.to_thread(fetcher.complaint, fill)
            filler.unlink()
            assert await asyncio.to_thread(fetcher.speaks)
