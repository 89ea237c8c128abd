"""A real Prometheus: that of this machine, or one that apt fetches, which needs neither root nor an installation."""

from __future__ import annotations

import contextlib
import math
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.deploy.definitions import PROMETHEUS

PATIENCE = 120.0  # seconds


@dataclass(frozen=True, slots=True)
class Tools:
    prometheus: str
    promtool: str


def find(folder: Path) -> Tools:
    """Skips the test where there is none."""
    installed = shutil.which("prometheus"), shutil.which("promtool")
    if installed[0] and installed[1]:
        return Tools(installed[0], installed[1])
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        pytest.skip("no prometheus and promtool on the PATH, and no apt to fetch them")
    fetched = subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, text=True)
    if fetched.returncode:
        pytest.skip(f"no prometheus and promtool on the PATH, and apt cannot fetch them: {fetched.stderr.strip()}")
    (package,) = folder.glob("prometheus_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    return Tools(str(folder / "usr/bin/prometheus"), str(folder / "usr/bin/promtool"))


@dataclass(frozen=True, slots=True)
class Prometheus:
    url: str

    def get(self, path: str, **parameters: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=30).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def numbers(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """What it is now, by labels; only what is a number."""
        found = [(each["metric"], float(each["value"][1])) for each in self.get("query", query=expression)["result"]]
        return [(labels, value) for labels, value in found if math.isfinite(value)]


@contextlib.contextmanager
def running(tools: Tools, folder: Path, servers: Sequence[str]) -> Iterator[Prometheus]:
    """With the settings of deploy/, but for whom it asks and how often."""
    settings = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings["rule_files"] = [str(PROMETHEUS / name) for name in settings["rule_files"]]
    (job,) = settings["scrape_configs"]
    job["static_configs"] = [{"targets": [url.removeprefix("http://") for url in servers]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{sock.getsockname()[1]}"
    arguments = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [tools.prometheus, *arguments, f"--web.listen-address={address}"], stdout=log, stderr=log
        )
    try:
        _wait_until_ready(process, f"http://{address}", folder / "prometheus.log")
        yield Prometheus(f"http://{address}")
    finally:
        process.terminate()
        process.wait(60)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/-/ready", timeout=5).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace"))
