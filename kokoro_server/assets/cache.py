"""The folder that keeps the weights and voices.

    <cache>/manifest.json                         which files are here, and their hashes
    <cache>/kokoro-<precision>-<origin>.safetensors   one for each published model file that was converted
    <cache>/voices/<name>.bin
    <cache>/staging/                              unfinished downloads: kept after an interruption, gone after success
    <cache>/onnx/                                 graphs built from the weights for a CPU; see engine/cpu/build_cache.py
    <cache>/speeds.json                           how fast a CPU runs them; see engine/speed.py
    <cache>/.lock, .lock-holder                   held while something is fetched or built; who holds it, and why

Files are replaced atomically, so reading needs no lock and works in a folder that is read-only.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from kokoro_server.assets import files
from kokoro_server.assets.catalog import VOICE_BYTES, WeightPrecision
from kokoro_server.runtime.files import UNFINISHED

log = logging.getLogger(__name__)

CONVERTER_VERSION = 1  # raise it when the conversion changes: weights of another version are converted again
MANIFEST = "manifest.json"
WAIT_LOG_S = 30.0  # between two lines of the log while waiting for the lock
WORK_PREFIX = "work-"  # of a download client's private folder in staging: worthless once the client has ended


@dataclass(frozen=True)
class WeightsRecord:
    """A weights file in the manifest. `origin` is the sha256 of the model file that it was converted from."""

    file: str
    size: int
    sha256: str
    precision: WeightPrecision
    source: str
    origin: str
    converter: int = CONVERTER_VERSION


@dataclass(frozen=True)
class Manifest:
    weights: list[WeightsRecord]
    voices: dict[str, dict[str, object]]  # name -> size, sha256


class AssetCache:
    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()  # download clients run in a working directory of their own
        self.voices = self.directory / "voices"
        self.staging = self.directory / "staging"
        self._manifest = self.directory / MANIFEST
        self._holder = self.directory / ".lock-holder"
        self._attempt = self.directory / ".last-attempt"

    def records(self) -> list[WeightsRecord]:
        """The weights files that this version of the converter wrote here. They are not hashed: some may be damaged."""
        return [record for record in self._read().weights if record.converter == CONVERTER_VERSION]

    def find(self, origin: str) -> WeightsRecord | None:
        """The record of intact weights that were converted from the model file with this sha256."""
        for record in self.records():
            if record.origin == origin and files.intact(self.directory / record.file, record.sha256, record.size):
                return record
        return None

    def missing_voices(self, digests: Mapping[str, str]) -> list[str]:
        """The voices that are missing or damaged."""
        return [name for name, digest in digests.items() if not files.intact(self.voice(name), digest, VOICE_BYTES)]

    def voice(self, name: str) -> Path:
        return self.voices / f"{name}.bin"

    def attempted_within(self, seconds: float) -> bool:
        """Whether better weights were sought in the last `seconds`."""
        try:
            return abs(time.time() - self._attempt.stat().st_mtime) < seconds
        except OSError:
            return False

    def note_attempt(self) -> None:
        self._attempt.touch()

    def add_weights(self, record: WeightsRecord) -> None:
        manifest = self._read()
        kept = [each for each in manifest.weights if each.file != record.file]
        self._write(Manifest([*kept, record], manifest.voices))

    def add_voices(self, digests: Mapping[str, str]) -> None:
        added = {name: {"size": VOICE_BYTES, "sha256": digest} for name, digest in digests.items()}
        manifest = self._read()
        if manifest.voices != {**manifest.voices, **added}:
            self._write(Manifest(manifest.weights, {**manifest.voices, **added}))

    def _read(self) -> Manifest:
        try:
            manifest = json.loads(self._manifest.read_text(encoding="utf-8"))
            return Manifest([WeightsRecord(**record) for record in manifest["weights"]], manifest["voices"])
        except FileNotFoundError:
            return Manifest([], {})
        except (ValueError, TypeError, KeyError) as error:
            log.warning("manifest unreadable, taken as empty path=%s error=%r", self._manifest, error)
            return Manifest([], {})

    def _write(self, manifest: Manifest) -> None:
        files.atomic_write(self._manifest, (json.dumps(asdict(manifest), indent=2) + "\n").encode())

    @contextmanager
    def filling(self, doing: str) -> Iterator[None]:
        """`locked`, for a download. `staging` is kept after a failure, so that the next one continues there."""
        with self.locked(doing):
            self._prepare()
            yield
            shutil.rmtree(self.staging, ignore_errors=True)

    def _prepare(self) -> None:
        """Make the folders and remove unfinished files that a crash left."""
        self.voices.mkdir(parents=True, exist_ok=True)
        self.staging.mkdir(exist_ok=True)
        for folder in (self.directory, self.voices, self.staging):
            for unfinished in folder.glob("*" + UNFINISHED):
                unfinished.unlink()
        for work in self.staging.glob(WORK_PREFIX + "*"):
            shutil.rmtree(work, ignore_errors=True)

    @contextmanager
    def locked(self, doing: str) -> Iterator[None]:
        """Wait until no other process is filling this cache. `doing` is shown to processes that wait."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.directory / ".lock")
        wait = 0.0
        while not lock.is_locked:
            try:
                lock.acquire(timeout=wait)
            except Timeout:
                log.info("waiting for another process holder=%r path=%s", self.holder, lock.lock_file)
                wait = WAIT_LOG_S
        try:
            self._holder.write_text(f"process {os.getpid()}, {doing} since {time.strftime('%H:%M:%S')}", "utf-8")
            yield
        finally:
            self._holder.unlink(missing_ok=True)
            lock.release()

    @property
    def holder(self) -> str:
        """Which process holds the lock, what it does, and since when."""
        try:
            return self._holder.read_text("utf-8")
        except OSError:
            return "unknown"
