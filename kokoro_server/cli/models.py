"""`kokoro-server models`: the models of MODELS_PATH."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from kokoro_server.assets.models import folder, hub, install, weights
from kokoro_server.assets.models.folder import ModelFolder
from kokoro_server.config.settings import Settings
from kokoro_server.engine import folders
from kokoro_server.errors import AssetError, ConfigError, KokoroError
from kokoro_server.voices.of_model import check_packs

HUB = "hf:"
NOT_SET = "MODELS_PATH is not set; name the folder for models in it, such as MODELS_PATH=~/kokoro-models"


def run(settings: Settings, options: argparse.Namespace) -> int:
    if settings.models_path is None:
        raise ConfigError(NOT_SET)
    actions: dict[str, Callable[[Settings, Path, argparse.Namespace], int]] = {
        "add": _add,
        "list": _list,
        "check": _check,
        "remove": _remove,
    }
    return actions[options.action](settings, settings.models_path, options)


def _add(settings: Settings, models: Path, options: argparse.Namespace) -> int:
    source: str = options.source
    own_card: Path | None = options.card
    if fetched := source.startswith(HUB):
        name = options.name or source.removeprefix(HUB).rpartition("/")[2].lower()
        install.check_free(name, models)  # a download would be in vain
        path = install.from_hub(source.removeprefix(HUB), settings.cache_dir, own_card)
    else:
        path = Path(source).expanduser()
    added = install.add(path, models, options.name, own_card, partial(_check_all, settings))
    if fetched:
        hub.discard(path)
    sys.stdout.write(f"{added.name} added; restart the server, then speak with {added.name}/{added.default_voice}\n")
    return 0


def _list(_settings: Settings, models: Path, _options: argparse.Namespace) -> int:
    shelf = folder.scan(models)
    for name, model in shelf.models.items():
        codes = ",".join(language.code for language in model.card.spoken)
        facts = f"{len(model.voices):>4} voices  {model.card.license:<12} {model.card.name}"
        sys.stdout.write(f"{name:<24} {codes:<12} {facts}\n")
    for name, reason in shelf.broken.items():
        sys.stdout.write(f"{name:<24} BROKEN: {reason}\n")
    if not shelf.models and not shelf.broken:
        sys.stdout.write(f"none in {models}; 'kokoro-server models add' adds one\n")
    return 0


def _check(settings: Settings, models: Path, options: argparse.Namespace) -> int:
    shelf, wrong = folder.scan(models), False
    names = [options.name] if options.name else [*shelf.models, *shelf.broken]
    for name in names:
        try:
            if name not in shelf.models:
                missing = f"{models / name}: there is no such model; 'kokoro-server models list' shows all"
                raise AssetError(shelf.broken.get(name, missing))
            _check_all(settings, shelf.models[name])
        except KokoroError as error:
            wrong = True
            sys.stdout.write(f"BAD  {name}  {error.message}\n")
        else:
            sys.stdout.write(f"ok   {name}\n")
    return 1 if wrong else 0


def _remove(settings: Settings, models: Path, options: argparse.Namespace) -> int:
    model, made = folder.scan(models).models.get(options.name), None
    if model is not None:
        with suppress(AssetError):  # nothing can have been made of weights that cannot be read
            made = weights.place(settings.cache_dir, model.weights, model.config)
    install.remove(options.name, models)
    if made is not None:
        folders.discard(settings, made)
    sys.stdout.write(f"{options.name} removed; restart the server\n")
    return 0


def _check_all(settings: Settings, model: ModelFolder) -> None:
    """The voices and the weights too."""
    check_packs(model)
    folders.converted(settings, model)
