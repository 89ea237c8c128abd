"""Puts folders of models into MODELS_PATH, and takes them out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from kokoro_server.assets.models import card, folder, hub, shape, weights
from kokoro_server.assets.models.folder import ModelFolder
from kokoro_server.errors import AssetError
from kokoro_server.runtime.files import OwnedFolder

UNFINISHED = ".adding-"  # hidden: a server leaves it out
MAX_BYTES = hub.MAX_BYTES
PATTERNS = (
    card.FILE,
    shape.FILE,
    *(f"*{suffix}" for suffix in weights.SUFFIXES),
    *(f"{folder.VOICES}/*{suffix}" for suffix in folder.VOICE_SUFFIXES),
)


def add(
    source: Path,
    models: Path,
    name: str | None = None,
    own_card: Path | None = None,
    check: Callable[[ModelFolder], object] = lambda _: None,
) -> ModelFolder:
    """Copies what a model needs of a folder. It gets its name when it is whole, and has been checked.

    `own_card` takes the place of its model.toml. `check` raises AssetError for a copy that cannot be used.
    Folders that a killed process has left unfinished are removed.
    """
    wanted = name or source.resolve().name
    check_free(wanted, models)
    if not source.is_dir():
        raise AssetError(f"{source}: no such folder; name one with {card.FILE}, {shape.FILE}, weights and voices")
    try:
        models.mkdir(parents=True, exist_ok=True)
        with OwnedFolder(UNFINISHED, str(models)) as parent:
            unfinished = Path(parent) / wanted
            for path in _files(source):
                copy = unfinished / path.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
            if own_card is not None:
                unfinished.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(own_card, unfinished / card.FILE)
            _check(source, unfinished, check)
            unfinished.rename(models / wanted)
    except OSError as error:
        raise AssetError(f"{wanted} cannot be copied to {models}: {error.strerror or error}") from error
    return folder.read(models / wanted)


def check_free(name: str, models: Path) -> None:
    """Raises AssetError if no model can be added under this name."""
    folder.check_name(name)
    if (models / name).exists():
        raise AssetError(f"{models / name}: is there already; remove it first, or give another name with --name")


def remove(name: str, models: Path) -> None:
    folder.check_name(name)
    if not (models / name).is_dir():
        raise AssetError(f"{models / name}: there is no such model; 'kokoro-server models list' shows all")
    try:
        (models / name).unlink() if (models / name).is_symlink() else shutil.rmtree(models / name)
    except OSError as error:
        raise AssetError(f"{models / name} cannot be removed: {error.strerror or error}") from error


def from_hub(repository: str, cache_dir: Path, own_card: Path | None = None) -> Path:
    """The files of a model from Hugging Face, in a folder of the cache; see `hub.discard`."""
    described = card.read(own_card) if own_card is not None else None
    patterns = PATTERNS if described is None else PATTERNS[1:]
    if described is not None and described.weights:  # a repository may have them in several forms
        patterns = (*(each for each in patterns if not each.startswith("*")), described.weights)
    with hub.HubClient() as client:
        return client.fetch(repository, patterns, cache_dir, with_card=described is None)


def _files(source: Path) -> list[Path]:
    """Regular files of the right names. Links are followed only within the folder."""
    root = source.resolve()
    found = [path for pattern in PATTERNS for path in sorted(source.glob(pattern)) if path.is_file()]
    for path in found:
        if not path.resolve().is_relative_to(root):
            raise AssetError(f"{path}: links to a file elsewhere; put a copy of that file in its place")
    if sum(path.stat().st_size for path in found) > MAX_BYTES:
        raise AssetError(f"{source}: has more than {MAX_BYTES:,} bytes, too many for a model")
    return found


def _check(source: Path, unfinished: Path, check: Callable[[ModelFolder], object]) -> None:
    """Checks the copy. An error names the places of the source."""
    try:
        check(folder.read(unfinished))
    except AssetError as error:
        raise AssetError(error.message.replace(str(unfinished), str(source))) from None
