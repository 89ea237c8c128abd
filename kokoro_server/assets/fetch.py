"""Fill a cache: take the model file from the first source that delivers, convert it, and add the missing voices."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from hashlib import sha256

from kokoro_server.assets import files
from kokoro_server.assets.cache import CONVERTER_VERSION, AssetCache, WeightsRecord
from kokoro_server.assets.catalog import Catalog
from kokoro_server.assets.sources import ModelSource, VoiceSource
from kokoro_server.errors import AssetError

log = logging.getLogger(__name__)


def weights(cache: AssetCache, candidates: Sequence[ModelSource], catalog: Catalog) -> WeightsRecord:
    """Fetch and convert weights from the first source that delivers. The cache's lock must be held."""
    failures = []
    for candidate in candidates:
        try:
            return _fetch_and_convert(cache, candidate, catalog)
        except AssetError as error:
            log.info("source delivers no weights source=%s reason=%s", candidate.name, error)
            failures.append(f"{candidate.name}: {error}")
    raise _nothing_delivered("the Kokoro-82M weights", failures, cache)


def voices(cache: AssetCache, candidates: Sequence[VoiceSource], catalog: Catalog) -> None:
    """Fetch each missing voice from the first source that has it. The cache's lock must be held."""
    failures = []
    for candidate in candidates:
        missing = cache.missing_voices(catalog.voices)
        if not missing:
            break
        try:
            for name, content in candidate.fetch(missing, cache.staging):
                _store_voice(cache, name, content, catalog)
        except AssetError as error:
            log.info("source delivers no voices source=%s reason=%s", candidate.name, error)
            failures.append(f"{candidate.name}: {error}")
    if cache.missing_voices(catalog.voices):
        raise _nothing_delivered("the voices", failures, cache)
    cache.add_voices(catalog.voices)


def _fetch_and_convert(cache: AssetCache, source: ModelSource, catalog: Catalog) -> WeightsRecord:
    from kokoro_server.assets import convert  # late: most starts find converted weights and need no converter

    model = source.model
    origin = model.sha256
    if any(record.origin == origin for record in cache.records()):
        log.warning("cached weights are damaged, converting again source=%s cache=%s", source.name, cache.directory)
    raw = source.fetch(cache.staging)
    files.require_space(cache.directory, catalog.converted_bytes)
    started = time.monotonic()
    target = cache.directory / f"kokoro-{model.precision}-{origin[:8]}.safetensors"
    version = str(CONVERTER_VERSION)
    metadata = {"precision": model.precision, "source": source.name, "origin": origin, "converter": version}
    with files.atomic_path(target) as unfinished:
        convert.to_safetensors(raw, model, unfinished, metadata)
        size, digest = unfinished.stat().st_size, files.sha256(unfinished)
    record = WeightsRecord(target.name, size, digest, model.precision, source.name, origin)
    cache.add_weights(record)
    if raw.is_relative_to(cache.staging):
        raw.unlink()
    seconds = time.monotonic() - started
    log.info("converted model=%s source=%s path=%s seconds=%.1f", raw.name, source.name, target, seconds)
    return record


def _store_voice(cache: AssetCache, name: str, content: bytes, catalog: Catalog) -> None:
    digest = sha256(content).hexdigest()
    if digest != catalog.voices[name]:
        raise AssetError(f"voice {name}: wrong content, expected sha256 {catalog.voices[name]}, got {digest}")
    files.atomic_write(cache.voice(name), content)


def _nothing_delivered(what: str, failures: Sequence[str], cache: AssetCache) -> AssetError:
    tried = "\n".join(f"  {failure}" for failure in failures)
    return AssetError(
        f"{what} could not be fetched; tried\n{tried}\n"
        "By hand: set KOKORO_MODEL_PATH to a kokoro-v1_0.pth or model.onnx of Kokoro-82M v1.0, its voices in a folder "
        f"'voices' beside it; or copy the cache of another machine to {cache.directory} (KOKORO_CACHE_DIR)."
    )
