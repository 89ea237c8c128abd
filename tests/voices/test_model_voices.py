"""Voices of a model whose folder changes: what is kept of them does not stand for others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kokoro_server.assets.models import folder
from kokoro_server.errors import AssetError, Unavailable, UnknownVoice
from kokoro_server.voices import VoiceSnapshot
from kokoro_server.voices.contents import VoiceContents
from kokoro_server.voices.of_model import ModelVoices, check_packs, some_styles
from tests.assets.test_models import described

REQUEST = {"voice": "german/df_anna", "text": "Hallo."}


def voices(path: Path) -> VoiceSnapshot:
    return VoiceSnapshot({}, {}, models={"german": ModelVoices(folder.read(path))})


def fingerprint(path: Path, request: object = REQUEST) -> str:
    return VoiceContents(voices(path)).fingerprint(request)


def replace_voice(path: Path, name: str = "df_anna") -> None:
    file = path / "voices" / f"{name}.bin"
    file.write_bytes(bytes(4) + file.read_bytes()[4:])
    os.utime(file, ns=(1, 1))


def test_a_fingerprint_changes_with_all_that_is_heard(tmp_path: Path) -> None:
    path = described(tmp_path)
    found = [fingerprint(path)]
    assert fingerprint(path) == found[0]
    replace_voice(path)
    found.append(fingerprint(path))
    (path / "model.safetensors").write_bytes(b"others")
    found.append(fingerprint(path))
    config = path / "config.json"
    config.write_text(config.read_text() + "\n")
    found.append(fingerprint(path))
    (path / "model.toml").write_text((path / "model.toml").read_text() + 'symbols = { "ʏ" = "y" }\n')
    found.append(fingerprint(path))
    assert len(set(found)) == 5
    assert fingerprint(path, {"voice": "af_heart"}) == fingerprint(described(tmp_path / "other"), {"voice": "af_heart"})


def test_every_voice_of_a_blend_counts(tmp_path: Path) -> None:
    path, blend = described(tmp_path), {"voice": "german/df_anna(2)+dm_bert(1)"}
    before = fingerprint(path, blend)
    replace_voice(path, "dm_bert")
    assert fingerprint(path, blend) != before


def test_a_voice_is_read_once_and_as_it_was_at_the_start(tmp_path: Path) -> None:
    path = described(tmp_path)
    present = voices(path)
    anna = present.pack("german/df_anna")
    replace_voice(path, "df_anna")
    replace_voice(path, "dm_bert")
    assert present.pack("german/df_anna") is anna
    with pytest.raises(Unavailable, match="german/dm_bert was changed while the server ran; restart the server"):
        present.pack("german/dm_bert")
    with pytest.raises(Unavailable):
        present.pack("german/df_anna+dm_bert")
    (path / "voices" / "dm_bert.bin").unlink()
    with pytest.raises(Unavailable):
        present.pack("german/dm_bert")


def test_a_changed_model_is_not_loaded(tmp_path: Path) -> None:
    path = described(tmp_path)
    model = folder.read(path)
    folder.check_unchanged(model)
    model.weights.write_bytes(b"others")
    with pytest.raises(AssetError, match="was changed while the server ran; restart the server"):
        folder.check_unchanged(model)
    model.weights.unlink()
    with pytest.raises(AssetError, match=r"cannot be read .*restart the server"):
        folder.check_unchanged(model)


def test_styles_for_a_calibration_are_of_several_voices(tmp_path: Path) -> None:
    model = folder.read(described(tmp_path))
    check_packs(model)
    assert len(some_styles(model, 8, 30)) == 2
    (one,) = some_styles(model, 1, 30)
    assert (one == voices(model.path).pack("german/df_anna")[29]).all()


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ("german/df_anna(0.3)+german/dm_bert(0.7)", "german/df_anna(3)+dm_bert(7)"),
        (" german/df_anna , german/dm_bert ", "german/df_anna+dm_bert"),
        ("german/df_anna-german/dm_bert(0.5)", "german/df_anna(2)-dm_bert(1)"),
        ("german/df_anna-dm_bert(0.5)", "german/df_anna(2)-dm_bert(1)"),
    ],
)
def test_every_voice_of_a_mix_may_name_the_model(spec: str, canonical: str, tmp_path: Path) -> None:
    assert voices(described(tmp_path)).canonical(spec) == canonical


@pytest.mark.parametrize("spec", ["af_heart+german/df_anna", "german/df_anna+af_heart", "german/df_anna+swiss/df_anna"])
def test_a_mix_of_two_models_is_refused(spec: str, tmp_path: Path) -> None:
    both = VoiceSnapshot({"af_heart": tmp_path}, {}, models={"german": ModelVoices(folder.read(described(tmp_path)))})
    with pytest.raises(UnknownVoice, match=r"all voices of a (mix|request) are of one model") as refused:
        both.canonical(spec)
    assert refused.value.field == "voice"
