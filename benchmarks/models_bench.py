"""Two models in one server under load: what each gets alone, and both at once. On a CPU or a GPU.

    python -m benchmarks.models_bench [--clients 2] [--seconds 20] [--rounds 2] [--processes 1] [--out FILE]

The second model is Kokoro v1.0 from a folder of MODELS_PATH. Each client asks for one clip after the other, of
phonemes, so that G2P plays no part. A model's share is its audio beside the other model, divided by its audio alone:
together the shares should be 1. In the end the second model idles, and is unloaded while the first one speaks.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks import common
from kokoro_server.assets import library
from kokoro_server.config.settings import Settings
from kokoro_server.engine import vocab
from kokoro_server.engine.protocol import SAMPLE_RATE
from tests import servers
from tests.servers import Server

VOICES = {"own": "af_heart", "second": "twin/af_heart"}
CARD = 'name = "Kokoro v1.0 again"\nlicense = "Apache-2.0"\n[languages.en-US]\n'
WORDS = "həlˈO wˈɜɹld ðɪs ɪz ɐ spˈiʧ sˈɜɹvəɹ wˌɪʧ spˈiks fɔɹ tˈu mˈɑdᵊlz ænd nˈʌn ʌv ðˌɛm wˈAts".split()
WORDS_EACH = 12  # about four seconds
WARM_CLIPS = 2
IDLE_SECONDS = 5
PATIENCE = 900.0  # seconds, for the first load, which builds the model


class Counted:
    """Answers of one model's clients."""

    def __init__(self) -> None:
        self.seconds = 0.0  # of audio
        self.waits = list[float]()
        self.failures = list[str]()
        self._lock = threading.Lock()

    def add(self, answer: httpx.Response, waited: float) -> None:
        with self._lock:
            self.waits.append(waited)
            if answer.status_code == 200:
                self.seconds += len(answer.content) / 2 / SAMPLE_RATE
            else:
                self.failures.append(answer.text[:200])


def speak(client: httpx.Client, voice: str, number: int) -> httpx.Response:
    random = np.random.default_rng(number)
    phonemes = " ".join(random.choice(WORDS, WORDS_EACH)) + "."
    return client.post("/tts", json={"phonemes": phonemes, "voice": voice, "format": "pcm"})


def load(server: Server, names: tuple[str, ...], clients: int, until: Callable[[], bool]) -> dict[str, Counted]:
    """All clients of these models at once. A clip that has begun is waited for."""
    found = {name: Counted() for name in names}
    numbers = iter(range(10**9))

    def work(name: str) -> None:
        with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
            while not until():
                begun = time.monotonic()
                answer = speak(client, VOICES[name], next(numbers))
                found[name].add(answer, time.monotonic() - begun)

    with ThreadPoolExecutor(clients * len(names)) as pool:
        for done in [pool.submit(work, name) for name in names for _ in range(clients)]:
            done.result()
    return found


def measured(server: Server, names: tuple[str, ...], clients: int, seconds: float) -> dict[str, Any]:
    started = time.monotonic()
    found = load(server, names, clients, lambda: time.monotonic() - started > seconds)
    took = time.monotonic() - started
    return {
        name: {
            "audio_s_per_s": round(counted.seconds / took, 4),
            "clips": len(counted.waits),
            "failed": len(counted.failures),
            "p50_s": round(statistics.median(counted.waits), 3),
            "longest_s": round(max(counted.waits), 3),
        }
        for name, counted in found.items()
    }


def shares(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """The median over the rounds: each compares what was measured one after the other."""

    def of(name: str, each: dict[str, Any]) -> float:
        return float(each["both"][name]["audio_s_per_s"]) / float(each["alone"][name]["audio_s_per_s"])

    found = {name: round(statistics.median(of(name, each) for each in rounds), 3) for name in VOICES}
    together = statistics.median(sum(of(name, each) for name in VOICES) for each in rounds)
    return found | {"together": round(together, 3)}


def unloading(server: Server) -> dict[str, Any]:
    """The second model leaves memory while the first one speaks, and comes back."""

    def state() -> str:
        return str(httpx.get(f"{server.url}/health", timeout=PATIENCE).json()["models"][0]["state"])

    started = time.monotonic()
    found = load(server, ("own",), 1, lambda: state() == "unloaded" or time.monotonic() - started > PATIENCE)
    after, begun = state(), time.monotonic()
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        answer = speak(client, VOICES["second"], 0)
    return {
        "state": after,
        "first_model_clips_meanwhile": len(found["own"].waits),
        "first_model_failures": found["own"].failures,
        "first_clip_after_s": round(time.monotonic() - begun, 3),
        "first_clip_status": answer.status_code,
    }


def twin(folder: Path) -> None:
    """Kokoro v1.0 as a folder of MODELS_PATH."""
    settings = Settings.load(dotenv=None)
    assets = library.ensure(settings.cache_dir, settings.asset_source, settings.model_path)
    (folder / "voices").mkdir(parents=True)
    (folder / "model.toml").write_text(CARD)
    (folder / "config.json").write_text(json.dumps(vocab.config()))
    (folder / "kokoro.safetensors").symlink_to(assets.weights)
    (folder / "voices" / "af_heart.bin").symlink_to(assets.voices / "af_heart.bin")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=2, help="of each model")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--processes", default="1", help="SERVER_PROCESSES")
    parser.add_argument("--note", default="", help="about the machine, for the file")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "models.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        twin(Path(home) / "models" / "twin")
        environ = {"MODELS_PATH": f"{home}/models", "SERVER_PROCESSES": options.processes, "QUEUE_TIMEOUT": "600"}
        environ |= {"KOKORO_CACHE_DIR": os.environ.get("KOKORO_CACHE_DIR") or str(Settings.load(dotenv=None).cache_dir)}
        environ |= {"KOKORO_IDLE_UNLOAD_S": str(int(2 * options.seconds + IDLE_SECONDS))}
        with servers.running(servers.REAL, Path(home) / "log", **environ) as server:
            for name in VOICES:
                for number in range(WARM_CLIPS):
                    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
                        speak(client, VOICES[name], number).raise_for_status()
            rounds = []
            for _ in range(options.rounds):
                alone: dict[str, Any] = {}
                for name in VOICES:
                    alone |= measured(server, (name,), 2 * options.clients, options.seconds)
                rounds.append(
                    {"alone": alone, "both": measured(server, tuple(VOICES), options.clients, options.seconds)}
                )
            health = httpx.get(f"{server.url}/health", timeout=PATIENCE).json()
            result = common.facts() | {
                "note": options.note,
                "device": health["device"],
                "compute": health["compute"],
                "clients_of_each": options.clients,
                "seconds": options.seconds,
                "processes": options.processes,
                "rounds": rounds,
                "shares": shares(rounds),
                "unloading": unloading(server),
            }
    options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
