"""Fill a cache: take the model file from the first source that delivers, convert it, complete the voices."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from kokoro_server.assets import files, sources
from kokoro_server.assets.cache import CONVERTER, Cache, Record
from kokoro_server.assets.catalog import Catalog, Model
from kokoro_server.errors import AssetError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Offer:
    """A model file to be had from a source. `fetch` puts it into the staging folder, or says where it lies."""

    source: str
    model: Model
    fetch: Callable[[Path], Path]


@dataclass(frozen=True)
class VoiceOffer:
    """Voices to be had from a source: `fetch` takes the names wanted and the staging folder."""

    source: str
    fetch: Callable[[Sequence[str], Path], sources.Voices]


def offer(source: str, catalog: Catalog) -> Offer:
    return Offer(
        source, sources.model_of(source, catalog), lambda staging: sources.fetch_model(source, catalog, staging)
    )


def voice_offer(source: str, catalog: Catalog) -> VoiceOffer:
    return VoiceOffer(source, lambda names, staging: sources.fetch_voices(source, names, catalog, staging))


def voice_folder(folder: Path) -> VoiceOffer:
    return VoiceOffer("path", lambda names, _staging: sources.voices_in(folder, names))


def weights(cache: Cache, offers: Sequence[Offer], catalog: Catalog) -> Record:
    """Weights made from the first offer that delivers. The cache's lock must be held."""
    failures = []
    for candidate in offers:
        try:
            return _build(cache, candidate, catalog)
        except AssetError as error:
            log.info("weights not from here source=%s reason=%s", candidate.source, error)
            failures.append(f"{candidate.source}: {error}")
    raise _nothing_delivered("the Kokoro-82M weights", failures, cache)


def voices(cache: Cache, offers: Sequence[VoiceOffer], catalog: Catalog) -> None:
    """Complete the voices, each from the first offer that has it. The cache's lock must be held."""
    failures = []
    for candidate in offers:
        missing = cache.missing_voices(catalog.voices)
        if not missing:
            break
        try:
            for name, content in candidate.fetch(missing, cache.staging):
                _keep_voice(cache, name, content, catalog)
        except AssetError as error:
            log.info("voices not from here source=%s reason=%s", candidate.source, error)
            failures.append(f"{candidate.source}: {error}")
    if cache.missing_voices(catalog.voices):
        raise _nothing_delivered("the voices", failures, cache)
    cache.add_voices(catalog.voices)


def _build(cache: Cache, candidate: Offer, catalog: Catalog) -> Record:
    from kokoro_server.assets import convert  # late: what is there already needs no converter

    model = candidate.model
    origin = model.file.sha256
    if any(record.origin == origin for record in cache.records()):
        log.warning(
            "cached weights are damaged, making them anew source=%s cache=%s", candidate.source, cache.directory
        )
    raw = candidate.fetch(cache.staging)
    files.require_space(cache.directory, catalog.converted_bytes)
    started = time.monotonic()
    target = cache.directory / f"kokoro-{model.precision}-{origin[:8]}.safetensors"
    facts = {"precision": model.precision, "source": candidate.source, "origin": origin, "converter": str(CONVERTER)}
    with files.replacing(target) as unfinished:
        convert.to_safetensors(raw, model, unfinished, facts)
        size, digest = unfinished.stat().st_size, files.sha256(unfinished)
    record = Record(target.name, size, digest, model.precision, candidate.source, origin)
    cache.add_weights(record)
    if raw.is_relative_to(cache.staging):
        raw.unlink()
    seconds = time.monotonic() - started
    log.info("converted model=%s source=%s path=%s seconds=%.1f", raw.name, candidate.source, target, seconds)
    return record


def _keep_voice(cache: Cache, name: str, content: bytes, catalog: Catalog) -> None:
    digest = sha256(content).hexdigest()
    if digest != catalog.voices[name]:
        raise AssetError(f"voice {name}: wrong content, expected sha256 {catalog.voices[name]}, got {digest}")
    files.write(cache.voice(name), content)


def _nothing_delivered(what: str, failures: Sequence[str], cache: Cache) -> AssetError:
    tried = "\n".join(f"  {failure}" for failure in failures)
    return AssetError(
        f"{what} could not be had; tried\n{tried}\n"
        "By hand: set KOKORO_MODEL_PATH to a kokoro-v1_0.pth or model.onnx of Kokoro-82M v1.0, its voices in a folder "
        f"'voices' beside it; or copy the cache of another machine to {cache.directory} (KOKORO_CACHE_DIR)."
    )
