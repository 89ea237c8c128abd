"""Which backends the tests run on.

A test that sees an engine in its own process runs on each of them. Servers are processes of their own and slow to
start, so by default those with the tiny model run on torch and those with the real model on what `auto` finds;
tests/e2e/test_backends.py, which starts a real one on each, is slow. TEST_BACKEND=torch or onnx puts all of
them, servers included, on that one; `make test-backends` does both in turn.
"""

from __future__ import annotations

import os

from kokoro_server.assets.library import Assets
from kokoro_server.config.settings import Settings
from kokoro_server.engine import devices
from kokoro_server.engine.cpu import build_cache
from kokoro_server.engine.cpu.engine import OnnxEngine
from kokoro_server.engine.protocol import Engine
from tests import tiny_model

ASKED = os.environ.get("TEST_BACKEND")
TESTED = (ASKED,) if ASKED else ("torch", "onnx")


def tiny(backend: str) -> Engine:
    """The engine around a very small model with random weights, the same on each backend."""
    return tiny_model.onnx_engine() if backend == "onnx" else tiny_model.torch_engine()


def real(backend: str, assets: Assets) -> Engine:
    """The engine as a server on a CPU has it, built once into the user's cache."""
    if backend == "onnx":
        settings = Settings.load(dotenv=None)
        key = build_cache.key(assets.digest, settings.cpu_precision)
        return OnnxEngine(build_cache.ensure(settings.cache_dir, assets.weights, key))
    return devices.load_all(assets.weights, ["cpu"])[0]
