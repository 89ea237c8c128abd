"""The gains that bring all voices to one level."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kokoro_server.assets.library import Assets
from kokoro_server.voices import GRADES, CustomVoice, VoiceBook, VoiceInfo
from kokoro_server.voices.levels import GAINS, estimated_gain
from tests import tiny


@pytest.fixture
def book(tmp_path: Path) -> VoiceBook:
    return VoiceBook(tiny.write_voices(tmp_path))


def custom(source: str | np.ndarray) -> CustomVoice:
    return CustomVoice(VoiceInfo("own", "Own", "a", "female", None), source)


def test_every_voice_of_the_model_has_a_gain() -> None:
    assert len(GAINS) == 54
    assert GAINS.keys() >= GRADES.keys()
    assert all(-12 < gain < 12 for gain in GAINS.values())
    assert len(set(GAINS.values())) > 20, "voices differ"


def test_the_gain_of_a_blend_is_mixed_of_those_of_its_parts(book: VoiceBook) -> None:
    heart, adam = GAINS["af_heart"], GAINS["am_adam"]
    assert book.now.gain("af_heart") == heart
    assert book.now.gain("af_heart+am_adam") == pytest.approx((heart + adam) / 2)
    assert book.now.gain("af_heart(3)+am_adam(1)") == pytest.approx((3 * heart + adam) / 4)
    assert book.now.gain("af_heart-am_adam(0.3)") == heart, "what is taken away is not heard"


def test_a_named_blend_has_the_gain_of_its_recipe(book: VoiceBook) -> None:
    pack = book.pack("af_sky")
    voices = book.held({"duo": custom("af_heart+am_adam"), "granny": custom(pack), "trio": custom("duo+granny")}).now
    assert voices.gain("duo") == pytest.approx(book.now.gain("af_heart+am_adam"))
    assert voices.gain("trio") == pytest.approx((voices.gain("duo") + voices.gain("granny")) / 2)


def test_the_gain_of_a_pack_of_ones_own_is_estimated_from_its_styles(book: VoiceBook) -> None:
    one, other = book.pack("af_sky"), book.pack("am_adam")
    mixed = ((one + other) / 2).astype(np.float32)
    voices = book.held({"one": custom(one), "other": custom(other), "mixed": custom(mixed)}).now
    assert voices.gain("one") != voices.gain("other")
    assert voices.gain("mixed") == pytest.approx(voices.gain("one+other"), abs=0.001), "as a blend of the two"


def test_no_pack_is_made_louder_or_softer_than_all_voices(book: VoiceBook) -> None:
    pack = book.pack("af_sky")
    estimates = {estimated_gain((pack * factor).astype(np.float32)) for factor in (-1000, 1000)}
    assert estimates == {min(GAINS.values()), max(GAINS.values())}


@pytest.mark.real
def test_a_copy_of_a_voice_has_nearly_its_gain(assets: Assets) -> None:
    book = VoiceBook(assets.voices)
    errors = [estimated_gain(book.pack(name)) - gain for name, gain in GAINS.items()]
    assert max(map(abs, errors)) < 0.5
