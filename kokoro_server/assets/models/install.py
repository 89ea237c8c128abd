"""Puts folders of models into MODELS_PATH, and takes them out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kokoro_server.assets.models import card, folder, shape, weights
from kokoro_server.assets.models.folder import ModelFolder
from kokoro_server.errors import AssetError

UNFINISHED = ".adding-"  # hidden: a server leaves it out
MAX_BYTES = 5_000_000_000
PATTERNS = (card.FILE, shape.FILE, *(f"*{suffix}" for suffix in weights.SUFFIXES), f"{folder.VOICES}/*")


def add(source: Path, models: Path, name: str | None = None) -> ModelFolder:
    """Copies what a model needs of a folder. It gets its name when it is whole, and has been checked."""
    wanted = name or source.resolve().name
    folder.check_name(wanted)
    if not source.is_dir():
        raise AssetError(f"{source}: no such folder; name one with {card.FILE}, {shape.FILE}, weights and voices")
    if (models / wanted).exists():
        raise AssetError(f"{models / wanted}: is there already; remove it first, or give another name with --name")
    unfinished = models / f"{UNFINISHED}{os.getpid()}" / wanted
    try:
        for path in _files(source):
            copy = unfinished / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        _explained(source, unfinished)
        unfinished.rename(models / wanted)
    except OSError as error:
        raise AssetError(f"{wanted} cannot be copied to {models}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished.parent, ignore_errors=True)
    return folder.read(models / wanted)


def remove(name: str, models: Path) -> None:
    folder.check_name(name)
    if not (models / name).is_dir():
        raise AssetError(f"{models / name}: there is no such model; 'kokoro-server models list' shows all")
    try:
        (models / name).unlink() if (models / name).is_symlink() else shutil.rmtree(models / name)
    except OSError as error:
        raise AssetError(f"{models / name} cannot be removed: {error.strerror or error}") from error


def from_hub(repo: str, staging: Path) -> Path:
    """The files of a model from Hugging Face, in a folder below `staging`."""
    from huggingface_hub import snapshot_download

    target = staging / repo.rpartition("/")[2].lower()
    try:
        snapshot_download(repo, local_dir=target, allow_patterns=list(PATTERNS))
    except Exception as error:  # whatever the hub's client raises
        reason = str(error).partition("\n")[0]
        raise AssetError(
            f"hf:{repo} cannot be fetched ({type(error).__name__}: {reason:.200}); "
            "download its files in another way, and add their folder"
        ) from error
    return target


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


def _explained(source: Path, unfinished: Path) -> None:
    """Checks the copy. An error names the places of the source."""
    try:
        folder.read(unfinished)
    except AssetError as error:
        raise AssetError(error.message.replace(str(unfinished), str(source))) from None
