from __future__ import annotations

import random
from itertools import accumulate

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kokoro_server.text.sentence_buffer import SentenceBuffer
from kokoro_server.text.splitter import sentences

TEXTS = [
    "One. Two! Three? Four!",
    "Dr. Smith met Mrs. Jones at 5 p.m. He paid 3.14 dollars. Pi is 3.14. Really.",
    "In the U.S. The law. In the U.S. Army. J. R. R. Tolkien wrote. Smith Jr. He won.",
    'Wait... What?! "Stop!" he said. "Why?" She asked (at last.) Then he said “Go.” She went.',
    "你好。今天天气很好！真的吗？「はい。」と言った。本当？！うん。价格是３．５元。好．他走了。",
    "Chapter One\nIt was late.\n\nSteps: 1. Wash. 2. Dry.\n- an item\n- another\nLook at No. 5 here. He said no. Then.",
    "It was a long line that the editor of the text had wrapped\nAt sixty columns. See a.b/c?d=e! Mail me@a.org. Now.",
    "Say [Dr. Who](/dˈɑktəɹ hˈu/) now. [pause:1.5s] Go. It was 1990. Then came 10:30.",
    "नमस्ते। आप कैसे हैं? ठीक।",
]

FRAGMENTS = [
    *'One two Dr U.S No The He A 3 1 .5 . . ! ? … 。 你 」 , ) " [pause:1s]'.split(),
    *(" ", " ", " ", "\n", "- ", "a word or two more"),
]


def split_at_once(text: str) -> list[str]:
    return [span.text for span in sentences(text)]


def split_incrementally(pieces: list[str]) -> list[str]:
    buffer = SentenceBuffer()
    sentences = [sentence for piece in pieces for sentence in buffer.append(piece)]
    return sentences + buffer.flush()


def cut(text: str, random: random.Random) -> list[str]:
    pieces, start = [], 0
    while start < len(text):
        size = random.randint(1, 12)
        pieces.append(text[start : start + size])
        start += size
    return pieces


def ends(parts: list[str]) -> set[int]:
    """Where each part ends, white space not counted."""
    return set(accumulate(len("".join(part.split())) for part in parts))


@pytest.mark.parametrize("text", [*TEXTS, " ".join(TEXTS), "\n".join(TEXTS)])
def test_any_pieces_give_the_sentences_of_the_whole(text: str) -> None:
    assert split_incrementally(list(text)) == split_at_once(text)
    for seed in range(5):
        assert split_incrementally(cut(text, random.Random(seed))) == split_at_once(text)


@given(
    text=st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join),
    seed=st.integers(0, 1000),
)
@settings(deadline=None, max_examples=300)
@example(text="Dr\nOne", seed=0)
@example(text=f"{'One' * 15}. One\nOne", seed=0)  # after a long line, the next break is no sentence's end
def test_any_pieces_of_marks_in_any_order_give_the_sentences_of_the_whole(text: str, seed: int) -> None:
    # Some come together, as "Dr" and the line after it: alone it would not be read as "doctor".
    together = split_incrementally(cut(text, random.Random(seed)))
    whole = split_at_once(text)
    assert "".join(" ".join(together).split()) == "".join(" ".join(whole).split())
    assert ends(together) <= ends(whole)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["Hello", " there.", " How"], [[], [], ["Hello there."]]),
        (["Hello.", " ", "Then"], [[], [], ["Hello."]]),
        (["It costs 3.", "14. ", "Yes"], [[], [], ["It costs 3.14."]]),
        (["In the U.S. ", "A", "rmy. So"], [[], [], ["In the U.S. Army."]]),
        (["In the U.S. ", "The", " law"], [[], [], ["In the U.S."]]),
        (["你好。", "今"], [[], ["你好。"]]),
        (["「好。", "」", "他"], [[], [], ["「好。」"]]),
        (["A title\n", "\n", "Text"], [[], ["A title"], []]),
        (["One. Two. Three. Fo", "ur."], [["One.", "Two.", "Three."], []]),
    ],
)
def test_a_sentence_is_returned_as_soon_as_its_end_is_certain(pieces: list[str], expected: list[list[str]]) -> None:
    buffer = SentenceBuffer()
    assert [buffer.append(piece) for piece in pieces] == expected


def test_flush_returns_the_rest_and_begins_a_new_text() -> None:
    buffer = SentenceBuffer()
    assert buffer.append("One. Two") == ["One."]
    assert len(buffer) == len(" Two")
    assert buffer.flush() == ["Two"]
    assert buffer.flush() == []
    assert buffer.append("Three. Four") == ["Three."]


def test_a_sentence_without_an_end_is_broken_where_the_splitter_would() -> None:
    text = "and so it went on, " * 200
    found = split_incrementally([text[n : n + 7] for n in range(0, len(text), 7)])
    assert len(found) > 4
    assert " ".join(found) == text.strip()
