from __future__ import annotations

import logging

import pytest

from kokoro_server.g2p import vocabulary


def test_what_the_model_knows_is_left_alone() -> None:
    assert vocabulary.fit("həlˈO, wˈɜɹld!") == ("həlˈO, wˈɜɹld!", "")


@pytest.mark.parametrize(
    ("given", "fitted"),
    [
        ("gato", "ɡato"),
        ("a\nb\tc", "a b c"),
        ("bõ", "bo\u0303"),  # one character for what the model has two for
        ("«sim»", "(sim)"),
        ("¿ke?", "ke?"),
        ("ano–ano", "ano—ano"),
    ],
)
def test_what_has_an_equivalent_is_replaced_without_notice(given: str, fitted: str) -> None:
    assert vocabulary.fit(given) == (fitted, "")


def test_what_has_none_is_reported_once_in_the_answer_and_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert vocabulary.fit("aↂbↂcↁ") == ("abc", "ↂↁ")
        assert vocabulary.fit("ↂ") == ("", "ↂ")
    assert len(caplog.records) == 2
