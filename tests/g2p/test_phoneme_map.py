from __future__ import annotations

import logging

import pytest

from kokoro_server.g2p.phoneme_map import to_model_symbols


def test_symbols_of_the_model_are_left_alone() -> None:
    assert to_model_symbols("həlˈO, wˈɜɹld!") == ("həlˈO, wˈɜɹld!", "")


@pytest.mark.parametrize(
    ("phonemes", "expected"),
    [
        ("gato", "ɡato"),
        ("a\nb\tc", "a b c"),
        ("bõ", "bo\u0303"),  # one character for what the model has two for
        ("«sim»", "(sim)"),
        ("¿ke?", "ke?"),
        ("ano–ano", "ano—ano"),
    ],
)
def test_a_phoneme_with_an_equivalent_is_replaced_without_notice(phonemes: str, expected: str) -> None:
    assert to_model_symbols(phonemes) == (expected, "")


def test_a_phoneme_without_one_is_reported_once_in_the_result_and_once_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert to_model_symbols("aↇbↇcↈ") == ("abc", "ↇↈ")
        assert to_model_symbols("ↇ") == ("", "ↇ")
    assert len(caplog.records) == 2
