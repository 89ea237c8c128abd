"""The models of MODELS_PATH, each a folder:

<name>/model.toml      see `card`
<name>/config.json     Kokoro's own; see `shape`
<name>/*.safetensors   or .pth, or .onnx: the weights
<name>/voices/         a pack for each voice; see `voices.packs`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from kokoro_server.assets.models import card, shape, weights
from kokoro_server.assets.models.card import ModelCard
from kokoro_server.assets.models.shape import ModelConfig
from kokoro_server.errors import AssetError, ConfigError

VOICES = "voices"
VOICE_SUFFIXES = (".bin", ".pt", ".npy", ".safetensors")
VOICE_NAME = re.compile(r"[a-z][fm]_\w{1,60}", re.ASCII)
MAX_VOICES = 1_000
MAX_MODELS = 100
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
NAME_RULE = "small letters, digits, dots, hyphens and underscores"
# That stand for the server's default model.
RESERVED = ("kokoro", "tts-1", "tts-1-hd", "gpt-4o-mini-tts")


@dataclass(frozen=True, slots=True, eq=False)
class ModelFolder:
    """A model whose description has been checked. Its weights and voices have not been read."""

    name: str
    path: Path
    card: ModelCard
    config: ModelConfig
    weights: Path
    voices: Mapping[str, Path]  # by name
    identity: str  # changes with config.json and with the file of the weights
    version: str  # changes with model.toml, too: with the same one, and the same voice, a text sounds the same

    @property
    def default_voice(self) -> str:
        return self.card.voice or next(iter(self.voices))


@dataclass(frozen=True, slots=True)
class ModelShelf:
    """The models of a folder, and what is wrong with those that cannot be used."""

    models: Mapping[str, ModelFolder] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)


def scan(path: Path) -> ModelShelf:
    """Looks at every folder in `path`. Hidden ones and files do not count. Raises ConfigError for no folder."""
    try:
        folders = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    except OSError as error:
        raise ConfigError(
            f"MODELS_PATH={path}: {error.strerror}; it must be a folder with a folder for each model"
        ) from error
    if len(folders) > MAX_MODELS:
        raise ConfigError(f"MODELS_PATH={path}: has {len(folders)} folders; at most {MAX_MODELS} are allowed")
    models, broken = dict[str, ModelFolder](), dict[str, str]()
    for folder in folders:
        try:
            models[folder.name] = read(folder)
        except AssetError as error:
            broken[_printable(folder.name)] = _printable(error.message)
    return ModelShelf(models, broken)


def _printable(text: str) -> str:
    """Names of files may be no UTF-8, and could then be neither logged nor sent."""
    return text.encode(errors="backslashreplace").decode()


def read(path: Path) -> ModelFolder:
    """Raises AssetError for the first thing that is wrong with the folder."""
    check_name(path.name)
    try:
        described = card.read(path / card.FILE)
        config = shape.read(path / shape.FILE)
        found = _weights(path, described.weights)
        voices, identity = _voices(path / VOICES, described), identity_of(path / shape.FILE, found)
        version = sha256(identity.encode() + (path / card.FILE).read_bytes()).hexdigest()[:16]
        return ModelFolder(path.name, path, described, config, found, voices, identity, version)
    except OSError as error:
        raise AssetError(f"{path}: cannot be read ({error}); let this user read it") from error


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise AssetError(f"{name!r:.80} cannot be a model's name; rename the folder, with {NAME_RULE} alone")
    if name in RESERVED:
        raise AssetError(f"{name!r} stands for the server's own model; give the folder another name")


def _weights(folder: Path, named: str | None) -> Path:
    if named is not None:
        if Path(named).name != named or Path(named).suffix not in weights.SUFFIXES:
            raise AssetError(
                f"{folder / card.FILE}: weights is {named!r:.80}; it must name a file of the folder that ends in "
                f"{' or '.join(weights.SUFFIXES)}"
            )
        if not (folder / named).is_file():
            raise AssetError(f"{folder / card.FILE}: weights names {named}, which is not in the folder; copy it there")
        return folder / named
    found = sorted(path for path in folder.iterdir() if path.suffix in weights.SUFFIXES and path.is_file())
    if len(found) == 1:
        return found[0]
    if not found:
        raise AssetError(f"{folder}: has no weights; copy a file there that ends in {' or '.join(weights.SUFFIXES)}")
    raise AssetError(
        f"{folder}: has several files of weights, {', '.join(path.name for path in found[:5])}; name one of them in "
        f'{card.FILE}: weights = "{found[0].name}"'
    )


def check_unchanged(model: ModelFolder) -> None:
    """Raises AssetError if its weights or config.json are others than when it was read."""
    try:
        unchanged = identity_of(model.path / shape.FILE, model.weights) == model.identity
    except OSError as error:
        raise AssetError(
            f"{model.path}: cannot be read ({error.strerror}); put it back, or restart the server"
        ) from error
    if not unchanged:
        raise AssetError(f"{model.path}: was changed while the server ran; restart the server")


def identity_of(config: Path, found: Path) -> str:
    """By the size and time of the weights: to read them all would take too long."""
    stat = found.stat()
    return sha256(config.read_bytes() + f"{found.name} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:16]


def _voices(folder: Path, described: ModelCard) -> dict[str, Path]:
    files = sorted(path for path in folder.iterdir() if path.suffix in VOICE_SUFFIXES) if folder.is_dir() else []
    if not files:
        raise AssetError(f"{folder}: has no voices; copy packs there that end in {' or '.join(VOICE_SUFFIXES)}")
    if len(files) > MAX_VOICES:
        raise AssetError(f"{folder}: has {len(files)} packs; at most {MAX_VOICES} are allowed")
    voices = dict[str, Path]()
    for path in files:
        if not VOICE_NAME.fullmatch(path.stem):
            raise AssetError(
                f"{path}: cannot be a voice's name; rename the file: the letter of a language, f or m, '_' and a name, "
                "as in df_anna"
            )
        if described.language_of(path.stem) is None:
            raise AssetError(
                f"{path}: no language of {card.FILE} has the letter {path.stem[0]!r}; add "
                f'letter = "{path.stem[0]}" to the language of this voice'
            )
        if path.stem in voices:
            raise AssetError(f"{path}: {voices[path.stem].name} is the same voice; remove one of the two")
        voices[path.stem] = path
    if described.voice is not None and described.voice not in voices:
        raise AssetError(f"{folder.parent / card.FILE}: voice is {described.voice!r:.80}; name one of {_some(voices)}")
    return voices


def _some(voices: Mapping[str, Path]) -> str:
    return ", ".join([*voices][:10]) + (", …" if len(voices) > 10 else "")
