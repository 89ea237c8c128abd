"""Kokoro v1.0 itself as a model of MODELS_PATH: under another name, in another format, with another vocabulary."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from kokoro_server.assets.library import Assets
from kokoro_server.config.settings import Settings
from kokoro_server.engine import loader, vocab
from kokoro_server.server.app import create_app

CARD = """name = "Kokoro v1.0, shuffled"
license = "Apache-2.0"
[languages.en-US]
[languages.fr-FR]
"""
EMBEDDINGS = ("bert.embeddings.word_embeddings.weight", "text_encoder.embedding.weight")
SPOKEN = [("af_heart", "həlˈO wˈɜɹld."), ("ff_siwis", "bɔ̃ʒˈuʁ, sˈa vˈa?")]


def shuffled(folder: Path, assets: Assets) -> Path:
    """As a checkpoint of torch. Every phoneme has another number, and its embeddings with it."""
    config, state = dict(vocab.config()), load_file(assets.weights)
    order = np.random.default_rng(0).permutation(np.arange(1, config["n_token"]))
    number = {old: int(new) for old, new in zip(range(1, config["n_token"]), order, strict=True)}
    for name in EMBEDDINGS:
        moved = state[name].copy()
        moved[order] = state[name][1:]
        assert not np.array_equal(moved, state[name])
        state[name] = moved
    checkpoint: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in state.items():
        module, _, key = name.partition(".")
        checkpoint.setdefault(module, {})[f"module.{key}"] = torch.from_numpy(tensor)
    folder.mkdir(parents=True)
    torch.save(checkpoint, folder / "shuffled.pth")
    config["vocab"] = {symbol: number[old] for symbol, old in config["vocab"].items()}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.toml").write_text(CARD)
    (folder / "voices").mkdir()
    for voice, _ in SPOKEN:
        shutil.copy(assets.voices / f"{voice}.bin", folder / "voices")
    return folder


@pytest.mark.real
@pytest.mark.parametrize("backend", ["torch", pytest.param("onnx", marks=pytest.mark.slow)])  # which builds int8 first
async def test_it_sounds_the_same_to_the_bit(backend: str, assets: Assets, tmp_path: Path) -> None:
    shuffled(tmp_path / "models" / "twin", assets)
    run_by = {"KOKORO_BACKEND": backend, "KOKORO_DEVICE": "cpu"}
    usual = Settings.load(run_by, dotenv=None)
    environ = {"MODELS_PATH": str(tmp_path / "models"), "KOKORO_CACHE_DIR": str(tmp_path / "cache")}
    environ |= run_by | {"G2P_SERVICE_URL": "http://localhost:9"}
    app = create_app(Settings.load(environ, dotenv=None), load=lambda _: loader.load(usual))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        for voice, phonemes in SPOKEN:
            body = {"phonemes": phonemes, "format": "pcm", "sample_format": "pcm_f32le"}
            ours = await client.post("/tts", json={**body, "voice": voice}, timeout=600)
            theirs = await client.post("/tts", json={**body, "voice": f"twin/{voice}"}, timeout=600)
            assert theirs.status_code == 200, theirs.text
            assert theirs.headers["x-voice-used"] == f"twin/{voice}"
            assert theirs.content == ours.content
            assert len(ours.content) > 4 * 12_000
        (found,) = (await client.get("/health")).json()["models"]
        assert found["state"] == "loaded"
