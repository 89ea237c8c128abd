"""The `kokoro` package's own model classes, without its G2P.

`import kokoro` runs `kokoro/__init__.py`, which imports `kokoro.pipeline`, misaki and, through them, espeak-ng and
phonemizer: GPL code that this process must not load. `kokoro.model` needs none of that, so a bare package module with
the right `__path__` is registered first and only the submodules run.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import load_file

from kokoro_server.engine import vocab
from kokoro_server.errors import AssetError


def kokoro_model() -> ModuleType:
    """The module `kokoro.model`, loaded without running the package's `__init__`."""
    register("kokoro")
    return importlib.import_module("kokoro.model")


def register(name: str) -> None:
    """Make the submodules of `kokoro` importable from a package of this name, without running its `__init__`."""
    if name in sys.modules:
        return
    spec = importlib.machinery.PathFinder.find_spec("kokoro")
    if spec is None or not spec.submodule_search_locations:
        raise AssetError("the 'kokoro' package is not installed; pip install kokoro==0.9.4")
    package = ModuleType(name)
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    package.__spec__.submodule_search_locations = package.__path__
    sys.modules[name] = package


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the warnings of the package's modules: old-style weight norm, dropout in LSTMs of one layer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield


def blank(configuration: dict[str, Any] | None = None) -> Any:
    """A KModel with random weights. Its constructor insists on loading a file, so it gets an empty one."""
    module = kokoro_model()
    original = torch.load
    module.torch.load = lambda *_args, **_kwargs: {}
    try:
        with quiet():
            return module.KModel(
                repo_id="hexgrad/Kokoro-82M", config=configuration or vocab.config(), model="none"
            ).eval()
    finally:
        module.torch.load = original


def load(weights: Path) -> Any:
    """A KModel with the weights of a converted safetensors file; AssetError unless it has exactly the model's tensors.

    KModel's own loader retries with strict=False, which silently turns a wrong file into random weights.
    """
    return load_strictly(blank(), weights)


def load_strictly(model: Any, weights: Path, *, assign: bool = False) -> Any:
    """Copy the weights of a file into a model, or with `assign` put them in place of its own."""
    try:
        model.load_state_dict(load_file(weights), strict=True, assign=assign)
    except (RuntimeError, OSError) as error:
        raise AssetError(
            f"{weights}: not a complete Kokoro-82M state ({error}); run 'kokoro-server assets fetch'"
        ) from error
    return model
