"""The reader with the real G2P service."""

from __future__ import annotations

import re
import tomllib
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
import pytest_asyncio

from kokoro_server import languages
from kokoro_server.engine import vocab
from kokoro_server.g2p.child import G2PChild
from kokoro_server.g2p.client import G2PClient
from kokoro_server.languages import Language
from kokoro_server.synthesis.captions import Timing, cues
from kokoro_server.text.pauses import Pause
from kokoro_server.text.pieces import Cutting, Piece, PieceSizes
from kokoro_server.text.reader import Reader

SENTENCES = tomllib.loads((Path(__file__).parent / "language_sentences.toml").read_text(encoding="utf-8"))

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def reader() -> AsyncIterator[Reader]:
    child = G2PChild(log_level="error")
    await child.start()
    client = G2PClient(lambda: child.url, timeout=60)
    yield Reader(client, PieceSizes())
    await client.aclose()
    await child.stop()


async def read(
    reader: Reader, text: str, language: Language = languages.EN_US, cutting: Cutting = "clip"
) -> list[Piece]:
    return [item async for item in reader.pieces(text, language, cutting=cutting) if isinstance(item, Piece)]


def word_texts(text: str, pieces: list[Piece]) -> list[str]:
    return [text[word.start : word.end] for piece in pieces for word in piece.words]


async def sounds(reader: Reader, text: str, language: Language = languages.EN_US) -> str:
    """The phonemes of `text`, without stress and marks."""
    phonemes = "".join(piece.phonemes for piece in await read(reader, text, language))
    return re.sub(r"[^\w↓→↗↘]|[_ˈˌ]", "", phonemes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("From 3:30–4:30pm.", "From three thirty to four thirty P M."),
        ("40–60°C are fine.", "Forty to sixty degrees Celsius are fine."),
        ("It fell by -$5 to $1.5.", "It fell by minus five dollars to one point five dollars."),
        ("Call 555-0199 on Dec. 25.", "Call five five five zero one nine nine on December twenty fifth."),
        ("# Henry VIII\n\nHe **ruled** in 3 m².", "Henry the eighth. He ruled in three square meters."),
        ("Mail x@y.org, use `C++`.", "Mail X at Y dot org, use C plus plus."),
        ("7:00, 14:00, 3 < 4, 2.5K", "seven o'clock, fourteen hundred, three less than four, two point five K"),
    ],
)
async def test_what_is_not_words_is_said_in_words(reader: Reader, text: str, said: str) -> None:
    assert await sounds(reader, text) == await sounds(reader, said)


@pytest.mark.parametrize(
    ("language", "text", "said"),
    [
        (languages.ZH, "卖€20，有2个和1个。", "卖二十欧元，有两个和一个。"),
        (languages.ZH, "二〇二四年涨了3.5%。", "二零二四年涨了百分之三点五。"),
        (languages.ZH, "这是**重点**：12:00-13:00开放。", "这是重点：十二点到十三点开放。"),
        (languages.JA, "4月20日の9時15分に2人で3本。", "しがつはつかのくじじゅうごふんにふたりでさんぼん。"),
        (languages.JA, "¥500と€20、8,000人。", "ごひゃくえんとにじゅうユーロ、はっせんにん。"),
        (languages.JA, "18個で18歳、2冊。", "じゅう ハッコで じゅうはっさい、二冊。"),
    ],
)
async def test_chinese_and_japanese_are_said_in_words(reader: Reader, language: Language, text: str, said: str) -> None:
    assert await sounds(reader, text, language) == await sounds(reader, said, language)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Open 9:30–10:15 am, $5–10, 5 km.", "Open|9:30|–|10:15|am|$5|–|10|5|km"),
        ("**Bold** [link](https://a.org/b) 😀 e.g. 20%", "Bold|link|e.g.|20%"),
        ("Dr. Smith paid $3.50, or 5%, at 10:30 a.m.!", "Dr.|Smith|paid|$3.50|or|5%|at|10:30|a.m."),
        ("It's a well-known “fact” — isn't it? Rock and roll.", "It's|a|well-known|fact|isn't|it|Rock|and|roll"),
        ("AT&T's 1,234.5 e-mails, e.g. from me@a.org.", "AT&T's|1,234.5|e-mails|e.g.|from|me@a.org"),
        ("Yes…no—maybe (so); the U.S. That's all", "Yes|no|maybe|so|the|U.S.|That's|all"),
        ("two  spa\u200bces\r\nand cafe\u0301 😀!", "two|spa\u200bces|and|cafe\u0301"),
        ("Bye [😀](/smˈIl/), [&](/ænd/) so [—](/dˈæʃ/) on", "Bye|😀|&|so|—|on"),
        ("The [Kokoro](/kˈOkəɹO/)'s un[do](/du/)ing", "The|Kokoro|'s|un|do|ing"),
    ],
)
async def test_english_words_are_found_in_the_text(reader: Reader, text: str, words: str) -> None:
    assert word_texts(text, await read(reader, text)) == words.split("|")


@pytest.mark.parametrize(
    "text", ["([Kokoro](/kˈOʔO/)).", "“[Kokoro](/kˈOʔO/)”, said", "U.S./[Kokoro](/kˈOʔO/)-ish!now"]
)
@pytest.mark.parametrize("language", [languages.EN_GB, languages.ES, languages.JA])
async def test_user_given_phonemes_are_spoken_as_they_are(reader: Reader, text: str, language: Language) -> None:
    pieces = await read(reader, text, language)
    phonemes = [piece.phonemes[word.phoneme_start : word.phoneme_end] for piece in pieces for word in piece.words]
    assert phonemes[word_texts(text, pieces).index("Kokoro")] == "kˈOʔO"


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        (languages.ES, "¡Hola, mundo! ¿Qué tal: bien?", "Hola|mundo|Qué|tal|bien"),
        (languages.ES, "Pagó 1.250,50 € el 3/4/2025 a las 8:15.", "Pagó|1.250,50 €|el|3/4/2025|a|las|8:15"),
        (languages.FR, "Bonjour, l'eau; 10 000 euros.", "Bonjour|l'eau|10 000|euros"),
        (languages.FR, "Les amis n'ont qu'un grand hôtel.", "Les|amis|n'ont|qu'un|grand|hôtel"),
        (languages.FR, "Qu'est-ce que c'est ? Il y en a 25.", "Qu'est-ce|que|c'est|Il|y|en|a|25"),
        (languages.HI, "नमस्ते, आप कैसे हैं। ठीक।", "नमस्ते|आप|कैसे|हैं|ठीक"),
        (languages.IT, "Ciao — come va? Un po' d'acqua.", "Ciao|come|va|Un|po'|d'acqua"),
        (languages.PT_BR, "Olá, mundo. São 3:30.", "Olá|mundo|São|3:30"),
        (languages.JA, "こんにちは、世界。「AI」です！", "こんにちは|世界|AI|です"),
        (languages.JA, "価格は¥500です。次は3本、**それ**だけ。", "価格|は|¥500|です|次|は|3本|それ|だけ"),
        (languages.ZH, "你好，世界。今天100%好吗？", "你好|世界|今天|100%|好|吗"),
        (languages.ZH, "二〇二四年，约3～5天：价格是￥100。", "二〇二|四年|约|3～|5天|价格|是|￥100"),
        (languages.ZH, "《红楼梦》用Python写。", "红楼梦|用|Python|写"),
    ],
)
async def test_other_languages_are_aligned_by_word(reader: Reader, language: Language, text: str, words: str) -> None:
    pieces = await read(reader, text, language)
    assert word_texts(text, pieces) == words.split("|")
    assert all(not vocab.unknown(piece.phonemes) for piece in pieces)


@pytest.mark.parametrize(
    ("language", "text", "sounds"),
    [
        # A liaison goes with the word before it.
        (languages.FR, "Les amis ont un grand hôtel.", "lez|amˈi|ˈɔ̃t|œ̃|ɡʁˈɑ̃t|otˈɛl"),
        (languages.FR, "Qu'est-ce que c'est ?", "kɛs|kˌə|sˈɛ"),
        (languages.ES, "Son 21 casas.", "sˈom|bAntjˈuna|kˈasas"),
        (languages.IT, "Nel 1984.", "nel|millenoveʧentotːantakwˈatːro"),
        (languages.JA, "学校に行って。", "ɡaʔkoː|ɲi|iʔte"),
        (languages.ZH, "我看了书。", "wo↓|kʰa↘n|lɤ|ʂu→"),
    ],
)
async def test_each_word_has_its_own_sounds(reader: Reader, language: Language, text: str, sounds: str) -> None:
    (piece,) = await read(reader, text, language)
    assert [piece.phonemes[word.phoneme_start : word.phoneme_end] for word in piece.words] == sounds.split("|")


@pytest.mark.parametrize("language", languages.LANGUAGES[2:])
async def test_fifty_sentences_have_no_phrases_and_all_their_letters(reader: Reader, language: Language) -> None:
    sentences = [*SENTENCES[language.code], *(f"{one} {two}" for one, two in pairwise(SENTENCES[language.code][:12]))]
    assert len(sentences) >= 50
    for sentence in sentences:
        words = [word for piece in await read(reader, sentence, language) for word in piece.words]
        assert not any(word.phrase for word in words), sentence
        assert all(one.end <= other.start for one, other in pairwise(words)), sentence
        said = "".join(sentence[word.start : word.end] for word in words)
        assert re.findall(r"\w", said) == re.findall(r"\w", sentence)


@pytest.mark.parametrize("cutting", get_args(Cutting))
async def test_a_long_text_is_spoken_to_the_end(reader: Reader, cutting: Cutting) -> None:
    sentence = "In 1984, Dr. Jones of the U.S. paid $1,234.50 for it; “why?” she asked, and (at 10:30) left. "
    text = sentence * 40
    pieces = await read(reader, text, cutting=cutting)
    words = word_texts(sentence, await read(reader, sentence))
    assert len(words) == 18
    assert word_texts(text, pieces) == words * 40
    assert (len(pieces[0].phonemes) <= 50) == (cutting != "clip")
    assert all(len(piece.phonemes) <= 400 for piece in pieces)
    assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]


NUMBERS = (
    "On Dec. 25, 2024, Dr. Smith paid $1,250.50 (50% of it) for 10 kg of H2O at 3:30–4:30pm, or -5°C. "
    "See [the docs](https://a.org/b) or **call** 555-0199; it's 2–1, the 21st of the 1990s, 1/2 of 3.14."
)
NUMBER_WORDS = (
    "On|Dec.|25|2024|Dr.|Smith|paid|$1,250.50|50%|of|it|for|10|kg|of|H2O|at|3:30|–|4:30pm|or|-|5°C|See|the|docs|or|call|"
    "555-0199|it's|2|–|1|the|21st|of|the|1990s|1/2|of|3.14"
)


async def test_a_number_is_one_word_as_it_is_written_and_a_range_is_three(reader: Reader) -> None:
    assert word_texts(NUMBERS, await read(reader, NUMBERS)) == NUMBER_WORDS.split("|")


async def test_subtitles_of_numbers_show_them_as_they_are_written(reader: Reader) -> None:
    timings, now = list[Timing](), 0.0
    for piece in await read(reader, NUMBERS):
        for word in piece.words:
            times = now + word.phoneme_start / 10, now + word.phoneme_end / 10
            timings.append(Timing(NUMBERS[word.start : word.end], *times, word.start, word.end, word.phrase))
        now += len(piece.phonemes) / 10
    assert all(one.start < one.end <= other.start for one, other in pairwise(timings))
    made = cues(timings, NUMBERS)
    assert " ".join(cue.text for cue in made).split() == NUMBERS.split()
    shown = next(cue for cue in made if "$1,250.50" in cue.text)
    spoken = next(timing for timing in timings if timing.text == "$1,250.50")
    assert shown.start <= spoken.start < spoken.end <= shown.end + 0.001


async def test_plain_text_is_read_as_it_always_was(reader: Reader) -> None:
    text = (
        "She didn't know what he'd meant, and she couldn't ask. They're leaving, aren't they? I've never seen such a "
        'thing — not once. "Don\'t!" cried Anna-Maria. "It\'s the neighbour\'s dog."'
    )
    phonemes = (
        "ʃˌi dˈɪdᵊnt nˈO wˌʌt hid mˈɛnt, ænd ʃi kˌʊdᵊnt ˈæsk. ðˌɛɹ lˈivɪŋ, ˌɑɹnt ðA? ˌIv nˈɛvəɹ sˈin sˈʌʧ ɐ "
        "θˈɪŋ — nˌɑt wˈʌns. “dˈOnt!” kɹˈId ˌænəməɹˈiə. “ˌɪts ðə nˈAbəɹz dˈɔɡ.”"
    )
    pieces = await read(reader, text)
    assert " ".join(piece.phonemes for piece in pieces) == phonemes
    assert word_texts(text, pieces) == re.findall(r"[\w'-]+", text)


async def test_pauses_and_pronunciations_stand_beside_what_is_put_in_words(reader: Reader) -> None:
    text = "It is $5. [pause:1s] [5 km](/fˈIv/) is 5 km, [Dr.](/dˈɑk/) No. 5. [pause:500ms]"
    items = [item async for item in reader.pieces(text, languages.EN_US)]
    assert [item.seconds for item in items if isinstance(item, Pause)] == [1.0, 0.5]
    pieces = [item for item in items if isinstance(item, Piece)]
    assert word_texts(text, pieces) == ["It", "is", "$5", "5 km", "is", "5", "km", "Dr.", "No.", "5"]
    given = [piece.phonemes[word.phoneme_start : word.phoneme_end] for piece in pieces for word in piece.words]
    assert (given[3], given[7]) == ("fˈIv", "dˈɑk")


async def test_what_is_said_for_one_sentence_may_be_longer_than_one_call_to_g2p(reader: Reader) -> None:
    text = "See " + "a/" * 3_000 + "end."
    pieces = await read(reader, text)
    phonemes = " ".join(piece.phonemes for piece in pieces)
    assert phonemes.count("slˈæʃ") >= 2_999
    assert phonemes.rstrip(".").endswith("ˈɛnd")
