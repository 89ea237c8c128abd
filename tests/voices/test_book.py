from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_server.config.defaults import SpeechDefaults, speech_defaults
from kokoro_server.config.kinds import ALL_LANGUAGES
from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM
from kokoro_server.errors import AssetError, InvalidInput, UnknownVoice
from kokoro_server.languages import EN_GB, EN_US
from kokoro_server.voices import GRADES, Pack, VoiceBook


def make_pack(seed: int) -> Pack:
    return np.random.default_rng(seed).normal(size=(MAX_TOKENS, 1, STYLE_DIM)).astype("<f4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, name in enumerate(("af_heart", "af_bella", "af_sky", "bm_lewis")):
        (tmp_path / f"{name}.bin").write_bytes(make_pack(seed).tobytes())
    return tmp_path


@pytest.fixture
def book(folder: Path) -> VoiceBook:
    return VoiceBook(folder)


def test_the_default_voice_of_a_language_is_its_first(book: VoiceBook) -> None:
    assert book.now.ranked(EN_US) == ["af_heart", "af_bella", "af_sky"]
    token = speech_defaults.set(SpeechDefaults({"en-US": "af_sky"}))
    try:
        assert book.now.ranked(EN_US) == ["af_sky", "af_heart", "af_bella"]
        speech_defaults.set(SpeechDefaults({"en-US": "af_sky+af_bella"}))  # is no voice of the list
        assert book.now.best(EN_US) == "af_sky+af_bella"
        assert book.now.ranked(EN_US) == ["af_heart", "af_bella", "af_sky"]
        speech_defaults.set(SpeechDefaults({ALL_LANGUAGES: "bm_lewis"}))  # of its own language too
        assert book.now.ranked(EN_GB) == ["bm_lewis"]
        assert book.now.best(EN_US) == "af_heart"
        speech_defaults.set(SpeechDefaults({ALL_LANGUAGES: "af_sky"}))
        assert book.now.best(EN_US) == "af_sky"
        speech_defaults.set(SpeechDefaults({"en-US": "removed"}))
        assert book.now.ranked(EN_US) == ["af_heart", "af_bella", "af_sky"]
    finally:
        speech_defaults.reset(token)


def test_names_are_sorted(book: VoiceBook) -> None:
    assert book.names() == ["af_bella", "af_heart", "af_sky", "bm_lewis"]


def test_info(book: VoiceBook) -> None:
    info = book.info("bm_lewis")
    assert (info.name, info.title, info.language, info.gender, info.grade) == ("bm_lewis", "Lewis", "b", "male", "D+")
    assert book.info("af_heart").gender == "female"
    assert GRADES["af_heart"] == "A"


def test_style_is_the_row_for_the_phoneme_count(book: VoiceBook) -> None:
    heart = make_pack(0).reshape(MAX_TOKENS, STYLE_DIM)
    for count in (1, 2, 47, 510):
        assert np.array_equal(book.style("af_heart", count), heart[count - 1])
    assert np.array_equal(book.style("af_heart", 0), heart[0]), "for a row with nothing to say, any will do"


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ("af_heart", "af_heart"),
        (" af_heart ", "af_heart"),
        ("af_heart(3)", "af_heart"),
        ("af_heart+af_heart", "af_heart"),
        ("af_bella+af_sky", "af_bella+af_sky"),
        ("af_bella,af_sky", "af_bella+af_sky"),
        ("af_bella(2) + af_sky(2)", "af_bella+af_sky"),
        ("af_bella(2)+af_sky(1)", "af_bella(2)+af_sky(1)"),
        ("af_bella(2)+af_sky", "af_bella(2)+af_sky(1)"),
        ("af_bella:0.7,af_sky:0.3", "af_bella(7)+af_sky(3)"),
        ("af_bella:.5,af_sky:0.25,bm_lewis:0.25", "af_bella(2)+af_sky(1)+bm_lewis(1)"),
        ("af_sky+af_bella+af_sky", "af_sky(2)+af_bella(1)"),
        ("af_bella-af_sky", "af_bella-af_sky"),
        ("af_bella - af_sky(0.3)", "af_bella(10)-af_sky(3)"),
        ("af_bella(2)-af_sky-af_sky+bm_lewis(4)", "af_bella(1)-af_sky(1)+bm_lewis(2)"),
    ],
)
def test_canonical(book: VoiceBook, spec: str, canonical: str) -> None:
    assert book.canonical(spec) == canonical
    assert book.canonical(canonical) == canonical


def test_a_mix_is_the_weighted_mean(book: VoiceBook) -> None:
    bella, sky = book.pack("af_bella"), book.pack("af_sky")
    np.testing.assert_allclose(book.pack("af_bella:0.7,af_sky:0.3"), 0.7 * bella + 0.3 * sky, atol=1e-6)


def test_a_voice_can_be_taken_away(book: VoiceBook) -> None:
    bella, sky = book.pack("af_bella"), book.pack("af_sky")
    np.testing.assert_allclose(book.pack("af_bella-af_sky(0.25)"), 0.8 * bella - 0.2 * sky, atol=1e-6)
    with pytest.raises(InvalidInput, match="both adds and subtracts af_bella"):
        book.pack("af_bella+af_sky-af_bella")


def test_a_voice_alone_is_its_pack_to_the_bit_and_cannot_be_changed(book: VoiceBook) -> None:
    pack = book.pack("af_bella")
    assert np.array_equal(pack, make_pack(1).reshape(MAX_TOKENS, STYLE_DIM))
    assert book.pack("af_bella+af_bella") is pack
    with pytest.raises(ValueError, match="read-only"):
        pack[0, 0] = 1.0


def test_an_unknown_voice_is_named_with_its_nearest(book: VoiceBook) -> None:
    with pytest.raises(UnknownVoice, match="no voice 'af_hart'; did you mean af_heart"):
        book.canonical("af_hart")
    with pytest.raises(UnknownVoice, match="'zz'"):
        book.style("af_sky+zz", 5)
    with pytest.raises(UnknownVoice):
        book.info("../af_sky")


@pytest.mark.parametrize(
    "spec",
    ["", "+", "af_bella+", "af bella", "af_bella(", "af_bella()", "af_bella(0)", "af_bella(-1)", "af_bella(x)",
     "-af_bella", "af_bella-",
     "af_bella:nan", "af_bella:1e9", "af_bella:inf", "+".join(["af_bella"] * 9)],
)  # fmt: skip
def test_a_bad_mix_is_refused(book: VoiceBook, spec: str) -> None:
    with pytest.raises(InvalidInput, match="voice") as raised:
        book.canonical(spec)
    assert raised.value.field == "voice"


def test_pt_packs_are_read_too(folder: Path) -> None:
    torch.save(torch.from_numpy(make_pack(9)), folder / "jf_alpha.pt")
    assert np.array_equal(VoiceBook(folder).pack("jf_alpha"), make_pack(9).reshape(MAX_TOKENS, STYLE_DIM))


@pytest.mark.parametrize("content", [b"", b"\0" * 1024, np.full((510, 256), np.nan, "<f4").tobytes()])
@pytest.mark.parametrize("suffix", [".bin", ".pt"])
def test_a_damaged_pack_is_an_asset_error_that_names_the_file(folder: Path, content: bytes, suffix: str) -> None:
    path = folder / f"af_bad{suffix}"
    path.write_bytes(content)
    with pytest.raises(AssetError, match=path.name):
        VoiceBook(folder).pack("af_bad")


def test_a_folder_without_voices_is_an_asset_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(AssetError, match="no voices"):
        VoiceBook(tmp_path)
    with pytest.raises(AssetError, match="no voices"):
        VoiceBook(tmp_path / "nowhere")


def test_files_that_are_no_voices_are_left_out(folder: Path) -> None:
    (folder / "af.bin").touch()
    (folder / "README.md").touch()
    assert len(VoiceBook(folder).names()) == 4
