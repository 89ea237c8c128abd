"""Phonemes and visemes as data."""

from __future__ import annotations

import pytest

from kokoro_server.engine import vocab
from kokoro_server.synthesis.phonemes import AT_REST, PhonemeTiming, Viseme, VisemeSet, sounds, symbol, visemes

MARKS = frozenset(';:,.!?—…"()“” \u0303ᵝˈˌːʰʲ↓→↗↘')
SETS: dict[VisemeSet, set[str | int]] = {
    "oculus": set("sil PP FF TH DD kk CH SS nn RR aa E I O U".split()),
    "azure": set(range(22)),
}


@pytest.mark.parametrize("kind", SETS)
def test_every_sound_of_the_model_has_a_shape(kind: VisemeSet) -> None:
    found = set[str | int]()
    for each in vocab.ids():
        shapes = visemes([PhonemeTiming(each, 0.0, 0.2, 0)], kind)
        assert shapes[-1] == Viseme(AT_REST[kind], 0.2)
        assert (len(shapes) == 1) == (each in MARKS), each
        found |= {shape.viseme for shape in shapes}
    assert found == SETS[kind]


@pytest.mark.parametrize(
    ("phonemes", "expected"),
    [
        ("həlˈO", "h|ə|l|ˈO"),
        ("ˈ", ""),
        ("twˈɛnti fˈIv", "t|w|ˈɛ|n|t|i|f|ˈI|v"),
        ("mɑ̃ʒˈe", "m|ɑ̃|ʒ|ˈe"),
        ("ni↓xau↓", "n|i↓|x|a|u↓"),
        ("kʲoːto", "kʲ|oː|t|o"),
        ("“ˈA, bˈi", "ˈA|b|ˈi"),
    ],
)
def test_marks_go_with_their_sound(phonemes: str, expected: str) -> None:
    ranges = sounds(phonemes, 0, len(phonemes))
    assert "|".join(symbol(phonemes[start:end]) for start, end in ranges) == expected
    assert "".join(phonemes[start:end] for start, end in ranges) == (phonemes if expected else "")


def test_a_mouth_rests_in_long_gaps_alone() -> None:
    timed = [
        PhonemeTiming("b", 0.0, 0.1, 0),
        PhonemeTiming("ˈI", 0.1, 0.3, 0),
        PhonemeTiming("j", 0.35, 0.4, 1),
        PhonemeTiming("ɑː", 0.4, 0.5, 1),
        PhonemeTiming("m", 0.9, 1.0, 2),
    ]
    expected = [("PP", 0.0), ("aa", 0.1), ("I", 0.2), ("aa", 0.4), ("sil", 0.5), ("PP", 0.9), ("sil", 1.0)]
    assert [(each.viseme, each.start) for each in visemes(timed, "oculus")] == expected
    assert [each.viseme for each in visemes(timed, "azure")] == [21, 11, 6, 2, 0, 21, 0]
    assert visemes([], "oculus") == []
