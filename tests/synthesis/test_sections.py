from __future__ import annotations

import pytest

from kokoro_server.synthesis.http_backend import SECTION, sections

SENTENCE = "The quick brown fox jumps over the lazy dog, and Dr. Smith looks on. "


@pytest.mark.parametrize(
    "text",
    [
        "Short.",
        SENTENCE * 500,
        ("\n\n".join([SENTENCE * 5] * 40)),
        "word " * 3000,
        "x" * (2 * SECTION + 1),
        "\n\n" + SENTENCE * 100 + "\n\n",
    ],
)
def test_sections_are_the_text(text: str) -> None:
    cut = list(sections(text))
    assert "".join(section for _, section in cut) == text
    assert all(text[start:].startswith(section) for start, section in cut)
    assert all(0 < len(section) <= SECTION for _, section in cut)


def test_sections_end_with_a_paragraph_where_there_is_one() -> None:
    text = "\n\n".join([SENTENCE * 5] * 40)
    *others, _ = sections(text)
    assert len(others) > 2
    assert all(section.endswith("\n\n") for _, section in others)


def test_sections_end_with_a_sentence_where_there_is_no_paragraph() -> None:
    *others, _ = sections(SENTENCE * 500)
    assert all(section.endswith("looks on.") for _, section in others)
