"""Who says what in a story and in a play."""

from __future__ import annotations

import pytest

from kokoro_server.longform.books.dialogue import Dialogue, VoiceTurn, quotations
from tests.growth import is_at_most

CAST = {"Alice": "af_bella", "Hatter": "bm_george", "White Rabbit": "bm_lewis"}


def turns(text: str, cast: dict[str, str], dialogue_voice: str | None = None) -> list[VoiceTurn]:
    return Dialogue(cast, dialogue_voice).turns(text)


def said(text: str, dialogue_voice: str | None = None) -> list[tuple[str, str | None]]:
    found = turns(text, CAST, dialogue_voice)
    assert "".join(text[turn.start : turn.end] for turn in found) == text
    return [(text[turn.start : turn.end].strip(), turn.voice) for turn in found]


def voices(text: str, dialogue_voice: str | None = None) -> dict[str, str | None]:
    return dict(said(text, dialogue_voice))


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("“Curiouser and curiouser!” cried Alice.", ["“Curiouser and curiouser!”"]),
        ('"Oh dear," she said, "I am late!"', ['"Oh dear,"', '"I am late!"']),
        ("„Guten Tag“, sagte sie.", ["„Guten Tag“"]),
        ("« Bonjour », dit-elle. «Oui.»", ["« Bonjour »", "«Oui.»"]),
        ("「はい」と言った。", ["「はい」"]),
        ("'What's that?' said the boys' aunt. 'Don't know.'", ["'What's that?'", "'Don't know.'"]),
        ("‘I don’t know,’ said Alice.", ["‘I don’t know,’"]),
        ("‘Yes’ said he, ‘no.’", ["‘Yes’", "‘no.’"]),
        ("“He said ‘no’ to me,” she said.", ["“He said ‘no’ to me,”"]),
        ("'Tis a pity that the dogs' bones are gone.", []),
        ("It was 6' tall and the boys' own.", []),
        ("“This goes on", ["“This goes on"]),
    ],
)
def test_quotations(text: str, quoted: list[str]) -> None:
    assert [text[quotation.start : quotation.end] for quotation in quotations(text)] == quoted


@pytest.mark.parametrize(
    "text",
    [
        "“Come,” said Alice.",
        "“Come!” Alice said.",
        "“Come,” cried poor Alice, and ran.",
        "“Come,” said Alice, rather angrily, to the Hatter.",
        "Alice said, “Come.”",
        "Alice thought to herself, “Come.”",
        "Then Alice quietly said to the Hatter: “Come.”",
        "'Come,' said Alice.",
    ],
)
def test_who_is_told_to_say_it_has_the_voice(text: str) -> None:
    quoted = next(text[q.start : q.end] for q in quotations(text))
    assert voices(text)[quoted] == "af_bella"


@pytest.mark.parametrize(
    "text",
    [
        "“Come,” said the Dormouse to Alice.",
        "“Come,” he said.",
        "He told Alice, “Come.”",
        "“Come,” said Alice’s sister.",
        "“Come.” Alice was surprised.",
    ],
)
def test_who_only_hears_it_has_not(text: str) -> None:
    assert "af_bella" not in voices(text).values()
    assert set(voices(text, "am_adam").values()) == {None, "am_adam"}


def test_a_paragraph_has_one_speaker_unless_it_tells_two() -> None:
    assert said("“Take some tea,” said the Hatter. “It’s hot.”") == [
        ("“Take some tea,”", "bm_george"),
        ("said the Hatter.", None),
        ("“It’s hot.”", "bm_george"),
    ]
    two = voices("“Tea?” said the Hatter. “No,” said Alice. “Well.”", "am_adam")
    assert two["“Tea?”"] == "bm_george"
    assert two["“No,”"] == "af_bella"
    assert two["“Well.”"] == "am_adam"
    other = voices("“Tea?” said the Hatter. “No,” said the Dormouse. “Well.”")
    assert other["“Tea?”"] == "bm_george"
    assert "bm_george" not in (other.get("“Well.”"),)


def test_a_speech_of_several_paragraphs_is_one_voice() -> None:
    dialogue = Dialogue(CAST)
    assert dialogue.turns("“Once,” said the Hatter, “there were three sisters.")[-1].voice == "bm_george"
    assert dialogue.turns("“They lived in a well.”")[0].voice == "bm_george"
    assert dialogue.turns("“Who?”")[0].voice is None


def test_a_speech_that_a_colon_announces() -> None:
    dialogue = Dialogue(CAST)
    dialogue.turns("At last the White Rabbit looked up and said:")
    assert dialogue.turns("“Silence in the court!”")[0].voice == "bm_lewis"
    dialogue.turns("At last the White Rabbit looked up and said:")
    dialogue.end_scene()
    assert dialogue.turns("“Silence in the court!”")[0].voice is None


def test_lines_of_a_play() -> None:
    assert said("ALICE: Come [she runs] here!") == [
        ("ALICE:", None),
        ("Come", "af_bella"),
        ("[she runs]", None),
        ("here!", "af_bella"),
    ]
    assert voices("Hatter (yawning): More tea?")["More tea?"] == "bm_george"
    assert voices("GRYPHON: Come on!", "am_adam")["Come on!"] == "am_adam"
    assert said("The reason: nobody came.", "am_adam") == [("The reason: nobody came.", None)]


PLAY = [
    ("Ber.", None),
    ("He.", None),
    ("Ham.", None),
    ("Seems, madam! Nay, it is.", "am_adam"),
    ("Good.", "am_adam"),
    ("No. I was not.", "am_adam"),
    ("HAMLET. [Aside.]", None),
    ("Ay.", "am_adam"),
    ("[Exit.]", None),
    ("I say away!", "am_adam"),
    ("Hor.", None),
    ("Friends to this ground.", None),
    ("HAM. Who’s there?", "am_adam"),
    ("I charge thee, speak.", "am_adam"),
    ("HOR. A piece of him.", None),
    ("Welcome, Horatio.", None),
    ("Ham.", None),
    ("I am too much i’ the sun.", "am_adam"),
    ("Queen. Good Hamlet, cast thy nighted colour off.", None),
]


def test_names_before_lines_of_verse() -> None:
    dialogue = Dialogue({"HAMLET": "am_adam"})
    for line, voice in PLAY:
        found = {turn.voice for turn in dialogue.turns(line, verse=True)}
        assert found - {None} == ({voice} if voice else set()), line
    dialogue.turns("Ham.", verse=True)
    dialogue.end_scene()
    assert dialogue.turns("Enter the Queen.", verse=True)[0].voice is None
    assert dialogue.unheard(["Hamlet", "Horatio"]) == ["Horatio"]


def test_where_names_are_in_capitals_other_words_are_none() -> None:
    dialogue = Dialogue({"HAMLET": "am_adam"})
    for line, voice in (("HAMLET.", None), ("I am.", "am_adam"), ("Denmark.", "am_adam"), ("Rome. Or not.", "am_adam")):
        assert [turn.voice for turn in dialogue.turns(line, verse=True)] == [voice], line
    assert dialogue.turns("GHOST.", verse=True)[0].voice is None
    assert dialogue.turns("Mark me.", verse=True)[0].voice is None


def test_a_name_that_ends_with_a_dot() -> None:
    assert turns("“Come,” said John Jr. at last.", {"John Jr.": "am_adam"})[0].voice == "am_adam"
    assert turns("“Come,” said Annabel.", {"Ann": "af_bella"})[0].voice is None


def test_names_before_paragraphs() -> None:
    dialogue = Dialogue({"Algernon Moncrieff": "am_adam", "Alice": "af_bella"}, "bf_emma")
    assert [turn.voice for turn in dialogue.turns("ALGERNON. Did you hear? [Sits.]")] == [None, "am_adam", None]
    assert dialogue.turns("Nobody said a word.") == [(0, 19, None)]
    for name in ("ALGERNON.", "ALGERNON", "Alg."):
        assert dialogue.turns(name) == [(0, len(name), None)]
        assert dialogue.turns("Not very.")[0].voice == "am_adam"
        dialogue.end_scene()
    dialogue.turns("Alice.")  # as a story may have it
    assert dialogue.turns("Nobody said a word.")[0].voice is None


def test_without_a_cast_all_is_narration() -> None:
    assert turns("“Come,” said Alice.", {}) == [(0, 19, None)]


@pytest.mark.parametrize(
    "unit", ["'a ", "'a b' ", "“", "“a” ", "„“", '" "', "'s’ ", "ALICE (", "said Alice, ", "the old "]
)
def test_linear(unit: str) -> None:
    short, long = unit * 700, unit * 2_800
    turns = Dialogue(CAST, "am_adam").turns
    assert is_at_most(12, lambda: turns(short), lambda: turns(long), harmless=0.1)  # 4 is linear, 16 quadratic
