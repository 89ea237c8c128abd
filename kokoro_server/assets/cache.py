"""The folder that keeps the weights and voices.

    <cache>/manifest.json                         what is here and its hashes
    <cache>/kokoro-<precision>-<origin>.safetensors   one for each model file it was ever made from
    <cache>/voices/<name>.bin
    <cache>/staging/                              downloads under way: kept after an interruption, gone after success
    <cache>/onnx/                                 what is built from the weights for a CPU; see built.py
    <cache>/.lock                                 held while something is fetched or built

Files are replaced whole, so reading needs no lock and works in a folder that is read-only.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from kokoro_server.assets import files
from kokoro_server.assets.catalog import VOICE_BYTES, Precision

log = logging.getLogger(__name__)

CONVERTER = 1  # raise when the conversion changes: weights of another version are made anew
MANIFEST = "manifest.json"
WORK = "work-"  # prefix of a client's private folder in staging: worthless once the client has ended


@dataclass(frozen=True)
class Record:
    """What the manifest says of one weights file. `origin` is the sha256 of the model file it was made from."""

    file: str
    size: int
    sha256: str
    precision: Precision
    source: str
    origin: str
    converter: int = CONVERTER


@dataclass(frozen=True)
class Manifest:
    weights: list[Record]
    voices: dict[str, dict[str, object]]  # name -> size, sha256


class Cache:
    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()  # the clients that fetch run in a folder of their own
        self.voices = self.directory / "voices"
        self.staging = self.directory / "staging"
        self._manifest = self.directory / MANIFEST

    def records(self) -> list[Record]:
        """The weights files that were made here by this version of the converter, damaged or not."""
        return [record for record in self._read().weights if record.converter == CONVERTER]

    def find(self, origin: str) -> Record | None:
        """The record of intact weights made from the model file with this sha256."""
        found = (record for record in self.records() if record.origin == origin)
        return next((record for record in found if self.is_intact(record)), None)

    def is_intact(self, record: Record) -> bool:
        return files.intact(self.directory / record.file, record.sha256, record.size)

    def missing_voices(self, pins: Mapping[str, str]) -> list[str]:
        """Voices that are not there or whose content is wrong."""
        return [name for name, digest in pins.items() if not files.intact(self.voice(name), digest, VOICE_BYTES)]

    def voice(self, name: str) -> Path:
        return self.voices / f"{name}.bin"

    def add_weights(self, record: Record) -> None:
        manifest = self._read()
        others = [other for other in manifest.weights if other.file != record.file]
        self._write(Manifest([*others, record], manifest.voices))

    def add_voices(self, pins: Mapping[str, str]) -> None:
        added = {name: {"size": VOICE_BYTES, "sha256": digest} for name, digest in pins.items()}
        manifest = self._read()
        if manifest.voices != {**manifest.voices, **added}:
            self._write(Manifest(manifest.weights, {**manifest.voices, **added}))

    def _read(self) -> Manifest:
        try:
            manifest = json.loads(self._manifest.read_text(encoding="utf-8"))
            return Manifest([Record(**record) for record in manifest["weights"]], manifest["voices"])
        except FileNotFoundError:
            return Manifest([], {})
        except (ValueError, TypeError, KeyError) as error:
            log.warning("manifest unreadable, taken as empty path=%s error=%r", self._manifest, error)
            return Manifest([], {})

    def _write(self, manifest: Manifest) -> None:
        files.write(self._manifest, (json.dumps(asdict(manifest), indent=2) + "\n").encode())

    def prepare(self) -> None:
        """Make the folders. Call with the lock held: what a crash left unfinished is removed."""
        self.voices.mkdir(parents=True, exist_ok=True)
        self.staging.mkdir(exist_ok=True)
        for folder in (self.directory, self.voices, self.staging):
            for unfinished in folder.glob("*" + files.UNFINISHED):
                unfinished.unlink()
        for work in self.staging.glob(WORK + "*"):
            shutil.rmtree(work, ignore_errors=True)

    def clear_staging(self) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other process is filling this cache."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.directory / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            log.info("another process is fetching or building, waiting for it cache=%s", self.directory)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()
