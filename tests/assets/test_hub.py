"""`models add hf:REPO`, from a server on this machine that behaves like the hub, and like a broken or hostile one."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kokoro_server.assets.models import hub, install
from kokoro_server.cli import main as cli
from kokoro_server.errors import AssetError
from kokoro_server.runtime.backoff import Backoff
from tests import other_models

COMMIT = "c0" * 20
REPO = "someone/German-1.0"
NO_WAIT = Backoff(0.0)


class FakeHub:
    """`files` by their paths. Each test breaks what it is about."""

    def __init__(self, source: Path) -> None:
        self.files = {
            path.relative_to(source).as_posix(): path.read_bytes() for path in source.rglob("*") if path.is_file()
        } | {"README.md": b"# German", "run.py": b"raise SystemExit"}
        self.large = {name for name in self.files if name.endswith((".safetensors", ".bin"))}
        self.asked = list[tuple[str, str | None]]()  # paths and ranges
        self.tokens = set[tuple[str, str | None]]()  # by host
        self.status: tuple[int, dict[str, str]] | None = None  # of every answer
        self.cut: dict[str, list[int]] = {}  # bytes after which the next answers for a file end
        self.changes: dict[str, bytes] = {}  # the content that is sent in place of the announced one
        self.ranges = True
        self.entries: list[dict[str, Any]] | None = None
        self.redirect_to: str | None = None

    def listing(self) -> dict[str, Any]:
        return {"sha": COMMIT, "siblings": self.entries or [self.entry(name) for name in self.files]}

    def entry(self, name: str) -> dict[str, Any]:
        content = self.files[name]
        entry: dict[str, Any] = {"rfilename": name, "size": len(content)}
        if name in self.large:
            return entry | {"lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}}
        return entry | {"blobId": hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()}


class Handler(BaseHTTPRequestHandler):
    fake: FakeHub

    def do_GET(self) -> None:
        fake, path = self.fake, self.path
        fake.asked.append((path, self.headers["Range"]))
        fake.tokens.add((self.headers["Host"].partition(":")[0], self.headers["Authorization"]))
        if fake.status:
            self._answer(fake.status[0], b"{}", fake.status[1])
        elif path == f"/api/models/{REPO}/revision/main?blobs=true":
            self._answer(200, json.dumps(fake.listing()).encode())
        elif path.startswith(f"/{REPO}/resolve/{COMMIT}/"):
            port = self.server.server_address[1]
            target = fake.redirect_to or f"http://localhost:{port}/cdn/{path.split('/', 5)[5]}"
            self._answer(302, b"", {"Location": target})
        elif path.startswith("/cdn/"):
            self._send(path.removeprefix("/cdn/"))
        else:
            self._answer(404, b"{}")

    def _send(self, name: str) -> None:
        fake = self.fake
        content = fake.changes.get(name, fake.files[name])
        start = 0
        if fake.ranges and self.headers["Range"]:
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        ends = fake.cut.get(name, [])
        end = start + ends.pop(0) if ends else len(content)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        self.wfile.write(content[start:end])
        self.close_connection = True

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    fake = FakeHub(other_models.write(tmp_path / "source"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Of", (Handler,), {"fake": fake}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(hub, "BACKOFF", NO_WAIT)
    yield fake
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(tmp_path: Path, with_card: bool = True) -> Path:
    with hub.HubClient(backoff=NO_WAIT) as client:
        patterns = install.PATTERNS if with_card else install.PATTERNS[1:]
        return client.fetch(REPO, patterns, tmp_path / "cache", with_card=with_card)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_model_is_fetched_whole_and_nothing_else_is(fake: FakeHub, tmp_path: Path) -> None:
    folder = fetch(tmp_path)
    assert folder.name == "german-1.0"
    assert contents(folder) == {name: data for name, data in fake.files.items() if name not in ("README.md", "run.py")}
    fake.asked.clear()
    assert fetch(tmp_path) == folder
    assert len(fake.asked) == 1  # the list alone


def test_a_download_goes_on_where_it_was_cut_off(fake: FakeHub, tmp_path: Path) -> None:
    fake.cut["model.safetensors"] = [1_000, 50_000, 0, 7]
    folder = fetch(tmp_path)
    assert (folder / "model.safetensors").read_bytes() == fake.files["model.safetensors"]
    ranges = [range for path, range in fake.asked if path == "/cdn/model.safetensors"]
    assert ranges == [None, "bytes=1000-", "bytes=51000-", "bytes=51000-", "bytes=51007-"]


def test_another_command_goes_on_too(fake: FakeHub, tmp_path: Path) -> None:
    fake.cut["model.safetensors"] = [1_000] + [0] * hub.ATTEMPTS
    with pytest.raises(AssetError, match=r"model.safetensors cannot be fetched .*the same command goes on from there"):
        fetch(tmp_path)
    fake.cut.clear()
    fake.asked.clear()
    fetch(tmp_path)
    assert ("/cdn/model.safetensors", "bytes=1000-") in fake.asked


def test_a_hub_that_cannot_go_on_starts_again(fake: FakeHub, tmp_path: Path) -> None:
    fake.ranges = False
    fake.cut["model.safetensors"] = [1_000]
    assert (fetch(tmp_path) / "model.safetensors").read_bytes() == fake.files["model.safetensors"]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "voices/df_anna.bin"])
def test_other_content_than_announced_is_refused(fake: FakeHub, tmp_path: Path, name: str) -> None:
    fake.changes[name] = bytes(len(fake.files[name]))
    with pytest.raises(AssetError, match=r"wrong content, .*twice"):
        fetch(tmp_path)
    assert name not in contents(tmp_path / "cache")


def test_more_bytes_than_announced_are_not_kept(fake: FakeHub, tmp_path: Path) -> None:
    fake.changes["config.json"] = fake.files["config.json"] + bytes(5_000_000)
    with pytest.raises(AssetError, match=r"config.json has more than the [\d,]+ bytes announced"):
        fetch(tmp_path)
    assert not [name for name in contents(tmp_path / "cache") if "config.json" in name]


def test_fewer_bytes_than_announced_are_refused(fake: FakeHub, tmp_path: Path) -> None:
    fake.changes["config.json"] = fake.files["config.json"][:-5]
    with pytest.raises(AssetError, match=r"config\.json cannot be fetched"):
        fetch(tmp_path)


@pytest.mark.parametrize(
    ("status", "headers", "message"),
    [
        (404, {}, "there is no such repository or file, or it is private"),
        (401, {"X-Error-Code": "RepoNotFound"}, "there is no such repository or file, or it is private"),
        (401, {"X-Error-Code": "GatedRepo"}, "accepted its terms: do so at http.*German-1.0, and set HF_TOKEN"),
        (403, {}, "accepted its terms"),
        (418, {}, "the hub answers 418"),
        (503, {}, "cannot be reached .the hub answers 503.; try again later"),
        (302, {"Location": "/loop"}, "TooManyRedirects"),
    ],
)
def test_refusals_say_what_to_do(
    fake: FakeHub, tmp_path: Path, status: int, headers: dict[str, str], message: str
) -> None:
    fake.status = status, headers
    with pytest.raises(AssetError, match=message) as raised:
        fetch(tmp_path)
    assert "\n" not in raised.value.message
    assert raised.value.message.startswith(f"hf:{REPO}")


def test_no_hub(fake: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(AssetError, match=r"http://127.0.0.1:9 cannot be reached .*ConnectError"):
        fetch(tmp_path)


def test_the_token_goes_to_the_hub_alone(fake: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fetch(tmp_path)
    assert fake.tokens == {("127.0.0.1", "Bearer hf_secret"), ("localhost", None)}


def test_an_encrypted_hub_does_not_lead_to_one_without(tmp_path: Path) -> None:
    import httpx

    with (
        hub.HubClient("https://hub.example") as client,
        pytest.raises(httpx.UnsupportedProtocol, match="without encryption"),
    ):
        client._only_as_safe(httpx.Request("GET", "http://cdn.example/x"))


ENTRY = {"rfilename": "config.json", "size": 5, "blobId": "0" * 40}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"rfilename": "voices/../../evil.bin"}, None),
        ({"rfilename": "../evil.pth"}, None),
        ({"rfilename": "voices/\x00.bin"}, "a file is named"),
        ({"rfilename": "voices/.bashrc.bin"}, "a file is named"),
        ({"rfilename": "-x.pth"}, "a file is named"),
        ({"rfilename": 7}, None),
        ({"size": -1}, "size of 'config.json' is -1"),
        ({"size": "5"}, "size of 'config.json' is '5'"),
        ({"size": 10**13, "lfs": {"sha256": "0" * 64}}, "up to 1100 of"),
        ({"size": 10**9}, "has no hash"),
        ({"blobId": None}, "has no hash"),
        ({"blobId": "x" * 40}, "has no hash"),
        ({"lfs": {"sha256": "0", "size": 5}}, "has no hash"),
        ({"lfs": {"sha256": "0" * 64, "size": 6}}, "size of 'config.json' is 5"),
    ],
)
def test_hostile_lists(fake: FakeHub, tmp_path: Path, entry: dict[str, Any], message: str | None) -> None:
    """A name that is not wanted is left out."""
    fake.entries = [ENTRY | entry]
    with pytest.raises(AssetError, match=message or r"has no model.toml"):
        fetch(tmp_path)
    assert not (tmp_path / "cache").exists()


def test_too_many_files(fake: FakeHub, tmp_path: Path) -> None:
    fake.entries = [ENTRY | {"rfilename": f"voices/df_{number}.bin"} for number in range(hub.MAX_FILES + 1)]
    with pytest.raises(AssetError, match="has 1101 files"):
        fetch(tmp_path)


def test_a_download_that_nobody_finishes_is_removed_after_a_week(fake: FakeHub, tmp_path: Path) -> None:
    for commit, days in (("a0", 8), ("b0", 6)):
        left = tmp_path / "cache" / "hub" / commit
        (left / "other-model").mkdir(parents=True)
        (left / "other-model" / ".model.safetensors.unfinished").write_bytes(b"half")
        os.utime(left, (time.time() - days * 86_400,) * 2)
    fetch(tmp_path)
    assert sorted(path.name for path in (tmp_path / "cache" / "hub").iterdir()) == ["b0", COMMIT]


@pytest.mark.parametrize("name", ["german", "a/b/c", "../x", "a/..", "https://x/y", "", "a/b?c", "a/" + "b" * 200])
def test_names_that_are_no_repository(fake: FakeHub, tmp_path: Path, name: str) -> None:
    with hub.HubClient() as client, pytest.raises(AssetError, match="is no repository; write hf:OWNER/NAME"):
        client.repository(name, install.PATTERNS)
    assert fake.asked == []


def test_two_at_once_do_not_mix(fake: FakeHub, tmp_path: Path) -> None:
    folder = fetch(tmp_path)
    with hub._alone(folder.parent / "lock", REPO), pytest.raises(AssetError, match="by another process"):
        fetch(tmp_path)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return other_models.for_commands(tmp_path, monkeypatch)


def test_the_command_adds_it(fake: FakeHub, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "add", f"hf:{REPO}"]) == 0
    assert "german-1.0 added; restart the server, then speak with german-1.0/df_anna" in capsys.readouterr().out
    assert [path.name for path in models.iterdir()] == ["german-1.0"]
    assert not (tmp_path / "cache" / "hub" / COMMIT).exists()
    fake.asked.clear()
    assert cli.main(["models", "add", f"hf:{REPO}"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert fake.asked == []  # nothing is fetched in vain


def test_a_repository_without_a_description_needs_one(
    fake: FakeHub, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As most of those with a fine-tune of Kokoro."""
    fake.files |= {"other.onnx": b"another form of the weights"}
    del fake.files["model.toml"]
    assert cli.main(["models", "add", f"hf:{REPO}"]) == 1
    assert "has no model.toml; write one" in capsys.readouterr().err
    assert len(fake.asked) == 1
    card = tmp_path / "mine.toml"
    card.write_text('weights = "model.safetensors"\n' + other_models.GERMAN)
    assert cli.main(["models", "add", f"hf:{REPO}", "--card", str(card), "--name", "mine"]) == 0
    assert not [path for path, _ in fake.asked if "other.onnx" in path]
    assert (models / "mine" / "model.toml").read_text() == card.read_text()
    card.write_text("[languages.xx]")
    assert cli.main(["models", "add", f"hf:{REPO}", "--card", str(card), "--name", "yours"]) == 1
    assert "no language of espeak-ng or misaki has this code" in capsys.readouterr().err


def test_a_wrong_model_is_not_added(fake: FakeHub, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake.files["config.json"] = b"{}"
    assert cli.main(["models", "add", f"hf:{REPO}"]) == 1
    assert "n_layer is missing" in capsys.readouterr().err
    assert not models.exists() or list(models.iterdir()) == []
