"""Custom voices on a server with API keys: whose they are, and what strangers' packs and a lack of files do to it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests import servers
from tests.assets.test_torch_reader import nested
from tests.servers import Server, in_one_process, wait_for, without_files

KEYS = {name: f"{name}s-secret-key" for name in ("alice", "bob", "root")}
ENTRIES = {"house": "af_sky", "granny": {"voice": "bf_emma", "owner": "bob"}}
SHARE = 100  # voices of each caller


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("voices")


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    environ = {
        "API_KEYS": ",".join(f"{name}={key}" for name, key in KEYS.items()),
        "ADMIN_KEYS": "root",
        "VOICES_PATH": str(folder),
        "G2P_SERVICE_URL": "http://127.0.0.1:9",
    }
    (folder / "voices.json").write_text(json.dumps(ENTRIES))
    with servers.running(servers.TINY, tmp_path_factory.mktemp("server") / "log", **environ) as server:
        yield server


Caller = Callable[[str], httpx.Client]


@pytest.fixture
def of(server: Server, folder: Path) -> Iterator[Caller]:
    """A client of the server for each key. Afterwards the voices are those of the beginning."""
    clients = {
        name: httpx.Client(base_url=server.url, headers={"X-API-Key": key}, timeout=300) for name, key in KEYS.items()
    }
    yield clients.__getitem__
    (folder / "voices.json").write_text(json.dumps(ENTRIES))
    wait_for(lambda: custom(clients["root"]) == set(ENTRIES))
    for client in clients.values():
        client.close()


def custom(client: httpx.Client) -> set[str]:
    return {voice["name"] for voice in client.get("/voices").json()["voices"] if voice["blend"]}


def define(client: httpx.Client, name: str, voice: str = "af_heart") -> httpx.Response:
    return client.post("/voices", json={"name": name, "voice": voice})


def say(client: httpx.Client, voice: str) -> httpx.Response:
    return client.post("/tts", json={"phonemes": "hˈIlO.", "voice": voice, "format": "pcm"})


def reason(answer: httpx.Response) -> str:
    assert answer.status_code == 403, answer.text
    return str(answer.json()["error"]["message"])


def test_a_voice_belongs_to_the_key_that_defined_it(of: Caller, folder: Path) -> None:
    alice, bob, root = of("alice"), of("bob"), of("root")
    assert define(alice, "mine").status_code == 201
    assert json.loads((folder / "voices.json").read_text())["mine"] == {"voice": "af_heart", "owner": "alice"}
    assert "mine" in custom(bob)
    assert say(bob, "mine").status_code == 200
    for refused in (define(bob, "mine"), bob.delete("/voices/mine")):
        assert "belongs to another key: only its owner or one of ADMIN_KEYS may change it" in reason(refused)
    assert define(alice, "mine", "af_sky").status_code == 201
    assert define(root, "mine", "am_adam").status_code == 201
    assert alice.delete("/voices/mine").status_code == 204, "it is hers, whoever changed it since"
    assert alice.delete("/voices/mine").status_code == 404


def test_the_servers_voices_are_changed_by_an_admin_alone(of: Caller) -> None:
    alice, root = of("alice"), of("root")
    for refused in (define(alice, "house"), alice.delete("/voices/house")):
        assert "belongs to the server" in reason(refused)
    for name in ("alloy", "Alloy", "aura-2-thalia-en"):
        assert "one of the server's names" in reason(define(alice, name))
        assert define(root, name).status_code == 201
        assert reason(define(alice, name))
        assert root.delete(f"/voices/{name}").status_code == 204
    assert define(root, "house", "af_bella").status_code == 201
    assert reason(alice.delete("/voices/house")), "it is still the server's"


def test_nobody_takes_all_the_places(of: Caller, folder: Path) -> None:
    alice, bob = of("alice"), of("bob")
    hers = {f"hers-{n}": {"voice": "af_sky", "owner": "alice"} for n in range(SHARE)}
    (folder / "voices.json").write_text(json.dumps(ENTRIES | hers))
    wait_for(lambda: "hers-0" in custom(alice))
    full = define(alice, "another")
    assert full.status_code == 409
    assert f"each caller may define {SHARE} voices" in full.json()["error"]["message"]
    assert define(alice, "hers-0", "af_bella").status_code == 201
    assert define(bob, "another").status_code == 201
    assert alice.delete("/voices/hers-1").status_code == 204
    assert define(alice, "hers-1").status_code == 201


def test_a_pack_that_would_take_forever_is_named_and_harms_nobody(of: Caller, folder: Path) -> None:
    """246 bytes of tuples within tuples froze every process that read them."""
    client = of("alice")
    path = folder / "bomb.pt"
    with zipfile.ZipFile(folder / "bomb.unfinished", "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}" + nested(60) + b"K\x01s.")
    (folder / "bomb.unfinished").rename(path)

    def shown() -> str:
        client.get("/voices")
        return str(client.get("/health").json()["degraded"])

    try:
        wait_for(lambda: "bomb.pt: not a torch file (it has a dict whose key is a tuple)" in shown())
        assert say(client, "af_heart").status_code == 200
    finally:
        path.unlink()
    wait_for(lambda: "bomb.pt" not in shown())


@in_one_process
def test_out_of_descriptors_a_voice_comes_back_later(server: Server, of: Caller) -> None:
    client = of("alice")
    assert say(client, "af_heart").status_code == 200  # and the connection stays open
    with without_files(server):
        assert say(client, "af_heart").status_code == 200
        for refused in (say(client, "zf_xiaobei"), say(client, "jf_alpha+af_heart"), define(client, "mine")):
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
            assert int(refused.headers["retry-after"]) >= 1
            assert "Too many open files" in refused.json()["error"]["message"]
    for voice in ("zf_xiaobei", "jf_alpha+af_heart"):
        assert say(client, voice).status_code == 200
    assert define(client, "mine").status_code == 201
