"""The add-on of deploy/home-assistant: what the Supervisor accepts, and its start beside a Supervisor."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from kokoro_server import __version__
from kokoro_server.config.settings import Settings
from tests.servers import PYTHON, ROOT, free_port, wait_for

ADD_ON = ROOT / "deploy" / "home-assistant"
# Of what the linter of add-ons (frenck/action-addon-linter) and the Supervisor's schema allow, the keys that ours has.
KINDS: dict[str, type] = {
    **dict.fromkeys(("name", "version", "slug", "description", "panel_icon", "panel_title"), str),
    **dict.fromkeys(("arch", "discovery", "backup_exclude"), list),
    **dict.fromkeys(("ports", "environment", "options", "schema"), dict),
    **dict.fromkeys(("ingress", "ingress_stream"), bool),
    "ingress_port": int,
}
REQUIRED = {"arch", "description", "name", "slug", "version"}
DEFAULTS = {"ingress": False, "ingress_port": 8099, "ingress_stream": False, "panel_icon": "mdi:puzzle"}
ELEMENT = re.compile(r"(bool|email|url|port|str|password|int|float|match\(.*\)|list\(.+\))\??")


def document(name: str) -> Any:
    return yaml.safe_load((ADD_ON / name).read_text())


def elements(schema: Any) -> Iterator[str]:
    for part in schema.values() if isinstance(schema, dict) else schema:
        yield from (part,) if isinstance(part, str) else elements(part)


def test_the_supervisor_accepts_its_configuration() -> None:
    config = document("config.yaml")
    assert config.keys() >= REQUIRED
    assert config.keys() <= KINDS.keys()
    for key, value in config.items():
        assert type(value) is KINDS[key], key
        assert value != DEFAULTS.get(key), f"{key} is the default, which the linter refuses"
    assert config["version"] == __version__
    assert set(config["arch"]) <= {"amd64", "aarch64"}
    assert re.fullmatch(r"[-_.A-Za-z0-9]+", config["slug"])
    assert all(re.fullmatch(r"\d+/(tcp|udp)", port) for port in config["ports"])
    assert all(isinstance(value, str) for value in config["environment"].values())
    assert all(ELEMENT.fullmatch(element) for element in elements(config["schema"]))


def test_every_option_and_port_is_explained() -> None:
    config, english = document("config.yaml"), document("translations/en.yaml")
    assert english["configuration"].keys() == config["schema"].keys()
    assert english["network"].keys() == config["ports"].keys()
    assert all({"name", "description"} == text.keys() for text in english["configuration"].values())


def test_its_settings_are_ours() -> None:
    environment = document("config.yaml")["environment"]
    del environment["KOKORO_CACHE_DIR"]  # which the image knows
    settings = Settings(**{name.lower(): value for name, value in environment.items()})
    assert (settings.wyoming_port, settings.wyoming_host) == (10200, "0.0.0.0")
    assert settings.allowed_hosts == ("*",)


@pytest.fixture
def supervisor() -> Iterator[HTTPServer]:
    """A Supervisor that keeps what it is told, in `told`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.told.append((self.path, self.headers["Authorization"], json.loads(body)))  # type: ignore[attr-defined]
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.told = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_it_starts_with_its_options_and_is_discovered(supervisor: HTTPServer, tmp_path: Path) -> None:
    port, wyoming = free_port(), free_port()
    # The image's entry point, as far as this test goes: the server with the tiny model. It writes its environment down.
    (tmp_path / "entrypoint").write_text(
        f'#!/bin/sh\nenv > "{tmp_path}/environment"\ncd "{ROOT}" && exec "{PYTHON}" -m tests.services.tiny\n'
    )
    (tmp_path / "entrypoint").chmod(0o755)
    settings = [{"name": "LOG_LEVEL", "value": "info"}, {"name": "WYOMING_PORT", "value": str(wyoming)}]
    options = {"voice": "af_sky", "api_keys": "page=a-key-of-eight", "settings": settings}
    (tmp_path / "options.json").write_text(json.dumps(options))
    environment = document("config.yaml")["environment"] | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "ADD_ON_DATA": str(tmp_path),
        "SUPERVISOR_URL": f"http://127.0.0.1:{supervisor.server_port}",
        "SUPERVISOR_TOKEN": "secret",
        "PORT": str(port),
        "JOBS_PATH": str(tmp_path / "jobs"),
        "VOICES_PATH": str(tmp_path / "voices"),
        "WYOMING_HOST": "127.0.0.1",
    }
    del environment["KOKORO_CACHE_DIR"]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, str(ADD_ON / "run")], env=os.environ | environment, stdout=log, stderr=log
        )
    try:
        wait_for(lambda: supervisor.told or server.poll() is not None)  # type: ignore[attr-defined]
        assert supervisor.told, (tmp_path / "log").read_text()
        [(path, token, told)] = supervisor.told  # type: ignore[attr-defined]
        assert (path, token) == ("/discovery", "Bearer secret")
        assert told["service"] == "wyoming"
        assert re.fullmatch(rf"tcp://[^/:]+:{wyoming}", told["config"]["uri"])
        url = f"http://127.0.0.1:{port}"
        # As ingress sends it: by the name of Home Assistant, whatever that is, from a frame of the same origin.
        ingress = {"Host": "my.home.example", "X-Ingress-Path": "/api/hassio_ingress/abc"}
        wait_for(lambda: _answers(url))
        page = httpx.get(url, headers=ingress)
        assert page.status_code == 200
        assert page.headers["x-frame-options"] == "SAMEORIGIN"
        assert not re.search(r'(?:src|href)="/', page.text)
        asked = ingress | {"Origin": "https://my.home.example", "X-API-Key": "a-key-of-eight"}
        spoken = httpx.post(f"{url}/tts", json={"text": "Hello."}, headers=asked, timeout=120)
        assert spoken.headers["x-voice-used"] == "af_sky"
        assert httpx.post(f"{url}/tts", json={"text": "Hello."}, headers=ingress).status_code == 401
        seen = (tmp_path / "environment").read_text()
        assert "LOG_LEVEL=info" in seen
        assert "secret" not in seen  # the server does not need the Supervisor's token
    finally:
        server.terminate()
        server.wait(timeout=60)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/live").status_code == 200
    except httpx.TransportError:
        return False
