from __future__ import annotations

import re

import pytest

from kokoro_server.config.defaults import SpeechDefaults, speech_defaults
from kokoro_server.errors import KokoroError
from kokoro_server.longform.books.book import Block, Book, Chapter
from kokoro_server.longform.books.casting import Casting, VoiceChoice
from kokoro_server.longform.books.options import Options
from kokoro_server.longform.books.passages import CHAPTER_GAP, LIMIT, SCENE_GAP, SENTENCE_GAP, chapter_text, cut
from kokoro_server.longform.books.plan import estimated_seconds, make_plan
from kokoro_server.synthesis.captions import Timing
from tests.longform.books.doubles import VOICES, book, paragraphs

MARKUP = re.compile(r"\[[^\]]*\]")


def passages_of(chapter: Chapter, **options: object) -> list[str]:
    casting = Casting(Options(**options), VOICES)  # type: ignore[arg-type]
    return [passage.text for passage in cut(0, chapter, casting, 1.0, "en")]


def test_passages_are_all_of_the_text_and_not_too_long() -> None:
    long = " ".join(f"This is the sentence with the number {n}, and it has a comma." for n in range(200))
    chapter = Chapter("Long", (Block("A Heading", "heading"), *paragraphs("Short.", long, "x" * 4000, "End.")))
    casting = Casting(Options(dialogue_voice="bf_emma"), VOICES)
    made = cut(0, chapter, casting, 1.0, None)
    text = chapter_text(chapter)
    for passage in made:
        assert 0 < passage.characters <= LIMIT
        assert all(text[o.source : o.source_end] == passage.text[o.start : o.end] for o in passage.origins)
    said = "".join(text[o.source : o.source_end] for passage in made for o in passage.origins)
    assert "".join(said.split()) == "".join(text.split())
    ends = [passage.text for passage in made if passage.gap == SENTENCE_GAP and "number" in passage.text]
    assert ends
    assert all(end.endswith("comma.") for end in ends)
    assert made[-1].gap == CHAPTER_GAP


@pytest.mark.parametrize(("default", "language"), [("fr-FR", "fr-FR"), ("auto", None), (None, None)])
def test_a_book_without_a_language_is_read_in_the_default_one(default: str | None, language: str | None) -> None:
    token = speech_defaults.set(SpeechDefaults(language=default))
    try:
        assert Casting(Options(voice="af_heart"), VOICES).choice(None) == VoiceChoice("af_heart", language)
    finally:
        speech_defaults.reset(token)


@pytest.mark.parametrize(
    ("heading", "said"),
    [
        ("I—DOWN THE RABBIT-HOLE", "1—DOWN THE RABBIT-HOLE"),
        ("II. The Pool of Tears", "2. The Pool of Tears"),
        ("IV", "4"),
        ("IX The End", "9 The End"),
        ("ACT I. Scene II.", "ACT 1. Scene II."),
        ("I Am Born", "I Am Born"),
        ("V. S. Naipaul", "V. S. Naipaul"),
        ("Civil War", "Civil War"),
    ],
)
def test_the_numeral_of_a_heading_is_a_number(heading: str, said: str) -> None:
    chapter = Chapter("C", (Block(heading, "heading"), Block(heading)))
    casting = Casting(Options(), VOICES)
    (passage,) = cut(0, chapter, casting, 1.0, "en")
    assert re.split(r"\n\[pause:[^\]]*\]\n", passage.text) == [said, heading]
    text = chapter_text(chapter)
    words = [Timing(w[0], 0.0, 0.1, w.start(), w.end(), False) for w in re.finditer(r"\w+", said)]
    assert [passage.in_chapter(word, text).text for word in words] == re.findall(r"\w+", heading)


def test_what_looks_like_markup_in_a_book_is_text() -> None:
    written = "He wrote [voice:nobody], [/Voice], [pause:9s] and [word](/abc/), see [1]."
    (text,) = passages_of(Chapter("C", paragraphs(written)))
    assert text == "He wrote (voice:nobody], (/Voice], (pause:9s] and [word)(/abc/), see [1]."


def test_a_scene_break_is_a_longer_pause() -> None:
    with_mark = Chapter("C", paragraphs("One.", "* * *", "Two."))
    marked = Chapter("C", (Block("One."), Block("Two.", after_break=True)))
    plain = Chapter("C", paragraphs("One.", "Two."))
    pauses = [
        float(re.findall(r"pause:([\d.]+)s", passages_of(chapter)[0])[0]) for chapter in (with_mark, marked, plain)
    ]
    assert pauses[0] == pauses[1] > SCENE_GAP - 0.2 > pauses[2]


def test_all_voices_of_a_book_are_equally_loud() -> None:
    chapter = Chapter("C", paragraphs("Nobody speaks here."))
    (passage,) = cut(0, chapter, Casting(Options(), VOICES), 1.0, "en")
    assert passage.speech().level == "even", "another passage may have another voice"


def test_what_characters_say_has_their_voice() -> None:
    chapter = Chapter("C", paragraphs("“Who are you?” said Alice.", "“I,” said the Cat, “am mad.” (He grinned.)"))
    assert passages_of(chapter)[0].startswith("“Who are you?” said Alice.\n[pause:")
    (text,) = passages_of(chapter, cast={"Alice": "af_bella"}, dialogue_voice="bf_emma")
    first, second = re.split(r"\n\[pause:[^\]]*\]\n", text)
    assert first == "[voice:af_bella]“Who are you?”[/voice] said Alice."
    assert second == "[voice:bf_emma]“I,”[/voice] said the Cat, [voice:bf_emma]“am mad.”[/voice] (He grinned.)"
    assert MARKUP.sub("", text).split() == chapter_text(chapter).split()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"voice": "nosuch"}, "there is no voice 'nosuch'"),
        ({"dialogue_voice": "bf_ema"}, "did you mean bf_emma"),
        ({"cast": {"Alice": "af_bella+nosuch"}}, "there is no voice 'nosuch'"),
        ({"language": "xx"}, "unknown language 'xx'"),
        ({"language": "de"}, "unknown language 'de'"),  # which no model here has
    ],
)
def test_a_voice_or_language_that_there_is_not_is_told_at_once(options: dict[str, object], message: str) -> None:
    """And not hours later, where somebody first speaks with it."""
    with pytest.raises(KokoroError, match=message):
        make_plan(book(), Options(**options), VOICES)  # type: ignore[arg-type]


def test_each_language_has_its_voice() -> None:
    def choice(tag: str | None, **options: object) -> tuple[VoiceChoice, list[str]]:
        casting = Casting(Options(**options), VOICES)  # type: ignore[arg-type]
        return casting.choice(tag), casting.notes

    assert choice("en") == choice("en-GB") == choice(None) == choice("und") == (VoiceChoice("af_heart"), [])
    assert choice("fr-CA") == (VoiceChoice("ff_siwis"), ["ff_siwis reads what is in French"])
    assert choice("es")[0] == VoiceChoice("em_alex")  # whose grade is the best
    assert choice("fr", language="en-GB") == (VoiceChoice("af_heart", "en-GB"), [])
    assert choice("fr", voice="af_bella(2)+bf_emma(1)")[0] == VoiceChoice("af_bella(2)+bf_emma(1)", "fr-FR")
    assert choice("xx") == (VoiceChoice("af_heart"), ["no voice speaks 'xx': af_heart reads it as American English"])
    assert "no voice for Japanese is installed" in choice("ja")[1][0]
    assert "no voice for German is installed" in choice("de")[1][0]


def test_a_block_in_another_language_is_a_passage_of_its_own() -> None:
    chapter = Chapter("C", (Block("One."), Block("Deux.", language="fr"), Block("Three.")))
    plan = make_plan(Book("B", (chapter,), language="en"), Options(), VOICES)
    assert [(passage.text, passage.choice.voice) for passage in plan.passages] == [
        ("One.", "af_heart"),
        ("Deux.", "ff_siwis"),
        ("Three.", "af_heart"),
    ]


def test_a_book_that_names_no_language_may_be_read_in_the_one_of_its_text() -> None:
    def voices(named: str | None, asked: str | None = None) -> set[str]:
        blocks = (Block("Un"), Block("Il était une fois un roi qui avait trois filles."), Block("Oui."))
        french = Book("B", (Chapter("Un", blocks),), language=named)
        return {each.choice.voice for each in make_plan(french, Options(language=asked), VOICES).passages}

    assert voices(None) == {"af_heart"}
    assert voices(None, "auto") == {"ff_siwis"}
    assert voices("en", "auto") == {"af_heart"}  # the book says so


def test_the_key_of_a_passage_is_what_it_sounds_like() -> None:
    plan = make_plan(book(), Options(), VOICES)
    keys = {passage.key("1", "") for passage in plan.passages}
    assert len(keys) == len(plan.passages)
    assert keys.isdisjoint(passage.key("2", "") for passage in plan.passages)
    assert keys.isdisjoint(passage.key("1", "") for passage in make_plan(book(), Options(speed=1.1), VOICES).passages)


def test_a_paragraph_of_dialogue_as_long_as_a_book() -> None:
    """Each of its quotations was looked for in each of its passages, which took hours."""
    count = 15_000
    text = " ".join(f'"Come here, {number}," said Alice, and went.' for number in range(count))
    made = passages_of(Chapter("Long", (Block(text),)), cast={"Alice": "af_bella"})
    quoted = [
        quotation for passage in made for quotation in re.findall(r"\[voice:af_bella\]([^\[]*)\[/voice\]", passage)
    ]
    assert quoted == [f'"Come here, {number},"' for number in range(count)]


def test_what_is_written_without_letters_takes_longer() -> None:
    """Whether or not the document tells its language."""

    def seconds(text: str) -> float:
        one = Book("B", (Chapter("C", paragraphs(text)),))
        return estimated_seconds(make_plan(one, Options(), VOICES).chapters[0], 1.0)

    assert seconds("吾輩は猫である。" * 10) > 2 * seconds("Eight of." * 10)
