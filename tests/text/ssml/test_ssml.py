"""SSML as a script: what is said, how, and where it stands in the markup."""

from __future__ import annotations

import asyncio
import math
import re
import time
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kokoro_server import languages
from kokoro_server.errors import InvalidSSML, UnknownVoice
from kokoro_server.synthesis.speech import Speech, write_script
from kokoro_server.text import ssml
from kokoro_server.text.pauses import Pause
from kokoro_server.text.pieces import Piece, PieceSizes
from kokoro_server.text.reader import Reader
from kokoro_server.text.script import Cast, Delivery, Run, Script, runs
from kokoro_server.text.splitter import sentences
from tests.growth import is_at_most
from tests.text.fake_g2p import FakeG2P

DELIVERY = Delivery("af_heart", languages.EN_US)


class Three:
    """Three voices."""

    def canonical(self, name: str) -> str:
        if name not in ("af_heart", "bm_george", "ff_siwis"):
            raise UnknownVoice(f"there is no voice {name!r}", field="voice")
        return name

    def language(self, name: str) -> str:
        return name[0]


def parse(markup: str, delivery: Delivery = DELIVERY, language: str | None = None) -> Script:
    return ssml.script(markup, delivery, Cast(Three(), language, {"narrator": "bm_george"}))


def said(markup: str) -> list[str | float]:
    """The texts and the pauses."""
    return [part.seconds if isinstance(part, Pause) else part.text.text for part in parse(f"<speak>{markup}</speak>")]


def delivery(markup: str, **fields: Any) -> Delivery:
    """How the only word X is said."""
    [run] = [run for run in runs(parse(f"<speak>a {markup} b</speak>", **fields)) if "X" in run.text.text]
    return run.delivery


def reading(markup: str) -> tuple[str, str]:
    """What is said otherwise, and how."""
    [run] = runs(parse(f"<speak>{markup}</speak>"))
    [claim] = run.claims
    return run.text.text[claim.start : claim.end], claim.words


async def words(script: Script, text: str) -> list[str]:
    """The words that are spoken, each as it stands in the text."""
    found = list[str]()
    async for item in Reader(FakeG2P(), PieceSizes()).script_pieces(script):
        if isinstance(item, Piece):
            run = item.run or next(runs(script))
            for word in item.words:
                start, end = run.text.origin(word.start, word.end)
                found.append(text[start:end])
    return found


def test_text_is_what_is_between_the_tags() -> None:
    markup = "Fish &amp; chips,\r\n&#10;   <!-- well --> <![CDATA[a < b & c]]> &#65;&#x42; é 😀."
    assert said(markup) == ["Fish & chips, a < b & c AB é 😀."]


def test_paragraphs_and_sentences_end_what_is_before_them() -> None:
    assert said("<p>One</p><p><s>Two</s>\n<s>Three</s></p> Four") == ["One\n\v\n\nTwo\n\v\nThree\n\v\n\nFour"]


def test_breaks_are_pauses() -> None:
    markup = 'a<break time="1.5s"/>b<break time="+300ms"/>c<break strength="weak"/>d<break/>e<break strength="none"/>f'
    assert said(markup) == ["a", 1.5, "b", 0.3, "c", 0.25, "d", 0.5, "ef"]


@pytest.mark.parametrize(
    ("attributes", "speed", "pitch", "volume"),
    [
        ('rate="80%"', 0.8, 0, 0),
        ('rate="+20%"', 1.2, 0, 0),
        ('rate="-20%"', 0.8, 0, 0),
        ('rate="0.5"', 0.5, 0, 0),
        ('rate="x-fast" pitch="high"', 1.5, 2, 0),
        ('pitch="-3.5st"', 1, -3.5, 0),
        ('pitch="+100%"', 1, 12, 0),
        ('pitch="-50%" volume="+6dB"', 1, -12, 6),
        ('volume="50"', 1, 0, -6.02),
        ('volume="soft"', 1, 0, -6),
        ('volume="silent"', 1, 0, -math.inf),
        ('volume="0"', 1, 0, -math.inf),
        ('rate="medium" pitch="default" volume="medium"', 1, 0, 0),
    ],
)
def test_prosody(attributes: str, speed: float, pitch: float, volume: float) -> None:
    found = delivery(f"<prosody {attributes}>X</prosody>")
    assert (found.speed, found.pitch, found.volume) == pytest.approx((speed, pitch, volume), abs=0.01)


def test_nested_prosody_multiplies_and_adds() -> None:
    inner = '<prosody rate="50%" pitch="+1st" volume="-3dB">X</prosody>'
    outer = f'<prosody rate="1.5" pitch="+2st" volume="-6dB">{inner}</prosody>'
    found = delivery(outer, delivery=Delivery("af_heart", languages.EN_US, 2.0, -1.0))
    assert (found.speed, found.pitch, found.volume) == (1.5, 2.0, -9.0)


def test_emphasis_is_slower_and_louder() -> None:
    strong, moderate, reduced = (
        delivery(f"<emphasis {level}>X</emphasis>") for level in ('level="strong"', "", 'level="reduced"')
    )
    assert strong.speed < moderate.speed < 1 < reduced.speed
    assert strong.volume > moderate.volume > 0 > reduced.volume
    assert delivery('<emphasis level="none">X</emphasis>') == DELIVERY


def test_voices_speak_their_own_language_unless_another_is_named() -> None:
    assert delivery('<voice name="bm_george">X</voice>') == Delivery("bm_george", languages.EN_GB)
    assert delivery('<voice name="narrator">X</voice>').voice == "bm_george"
    assert delivery('<voice name="ff_siwis" xml:lang="en-US">X</voice>').language is languages.EN_US
    assert delivery('<voice name="ff_siwis">X</voice>', language="es").language is languages.ES
    assert delivery('<lang xml:lang="fr-FR">X</lang>') == Delivery("af_heart", languages.FR)
    [run] = runs(parse('<speak version="1.1" xmlns="http://www.w3.org/2001/10/synthesis" xml:lang="it">X</speak>'))
    assert run.delivery.language is languages.IT


def test_marks_after_an_element_stay_with_it() -> None:
    script = parse('<speak>Go <prosody rate="fast">now</prosody>, or <emphasis>never</emphasis>! Bye.</speak>')
    assert [run.text.text for run in runs(script)] == ["Go ", "now,", "or ", "never!", "Bye."]
    assert [run.continues for run in runs(script)] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("markup", "text", "spoken"),
    [
        ('<sub alias="World  Wide Web Consortium">W3C</sub>', "W3C", "World Wide Web Consortium"),
        ('<sub alias="5 dollars">X</sub>', "X", "five dollars"),
        ('<say-as interpret-as="characters">AB1</say-as>', "AB1", "eh B one"),
        ('<say-as interpret-as="spell-out">x</say-as>', "x", "X"),
        ('<say-as interpret-as="digits"> 042 </say-as>', "042", "zero four two"),
        ('<say-as interpret-as="cardinal">2025</say-as>', "2025", "two thousand twenty five"),
        ('<say-as interpret-as="cardinal">-1,234.5</say-as>', "-1,234.5", "minus one thousand two hundred thirty four "
        "point five"),
        ('<say-as interpret-as="ordinal">21</say-as>', "21", "twenty first"),
        ('<say-as interpret-as="date" format="dmy">3/4/2025</say-as>', "3/4/2025", "April third twenty twenty five"),
        ('<say-as interpret-as="date" format="md">12/31</say-as>', "12/31", "December thirty first"),
        ('<say-as interpret-as="date">3/4/2025</say-as>', "3/4/2025", "March fourth twenty twenty five"),
        ('<say-as interpret-as="time" format="hms12">2:30pm</say-as>', "2:30pm", "two thirty P.M"),
        ('<say-as interpret-as="telephone">800-555</say-as>', "800-555", "eight zero zero, five five five"),
        ('<say-as interpret-as="currency">$45.20</say-as>', "$45.20", "forty five dollars and twenty cents"),
        ('<say-as interpret-as="fraction">2/7</say-as>', "2/7", "two sevenths"),
        ('<say-as interpret-as="unit">10kg</say-as>', "10kg", "ten kilograms"),
        ('<say-as interpret-as="address">5 Main St.</say-as>', "5 Main St.", "five Main Street."),
    ],
)  # fmt: skip
def test_what_is_said_otherwise(markup: str, text: str, spoken: str) -> None:
    assert reading(markup) == (text, spoken)


@pytest.mark.parametrize("language", languages.LANGUAGES, ids=lambda language: language.code)
def test_every_language_says_numbers_as_it_is_told(language: languages.Language) -> None:
    told = {"characters": "A1", "digits": "42", "cardinal": "42", "ordinal": "3", "telephone": "55 12", "time": "10:30",
            "currency": "$5", "fraction": "1/2", "unit": "10 kg"}  # fmt: skip
    told_dates = '<say-as interpret-as="date" format="dmy">3.4.2025</say-as>'
    markup = " ".join(f'<say-as interpret-as="{kind}">{text}</say-as>' for kind, text in told.items())
    [run] = runs(parse(f"<speak>{markup} {told_dates}</speak>", Delivery("af_heart", language)))
    assert len(run.claims) == len(told) + 1
    assert not any(character.isdigit() for claim in run.claims for character in claim.words)


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ('<phoneme alphabet="ipa" ph="təˈmeɪtoʊ">tomato</phoneme>', "[tomato](/təˈmAtO/)"),
        ('<phoneme ph="/ˈd͡ʒɔɪ.ɹaɪd/">joy [ride]</phoneme>', "[joy (ride)](/ˈʤYɹId/)"),
        ('<phoneme alphabet="kokoro" ph="kˈOkəɹO">Kokoro</phoneme>', "[Kokoro](/kˈOkəɹO/)"),
        ('<phoneme ph="hi"/>', "[hi](/hi/)"),
    ],
)
def test_phonemes(markup: str, text: str) -> None:
    assert said(f"a {markup} b") == [f"a {text} b"]


async def test_words_are_where_they_are_in_the_markup() -> None:
    text = (
        '<speak>Fish &amp; <sub alias="fried potatoes">chips</sub>, <voice name="bm_george">un<!-- -->done</voice>: '
        '<phoneme ph="hi">hey</phoneme> <prosody rate="slow">you.</prosody></speak>'
    )
    assert await words(parse(text), text) == ["Fish", "&amp;", "chips", "un<!-- -->done", "hey", "you"]


@pytest.mark.parametrize(
    ("markup", "told"),
    [
        ("Hello", "not well-formed XML at line 1, column 1 (character 0)"),
        ("<speak>a\n<foo>b</foo></speak>", "<foo> at line 2, column 1 (character 9): unknown tag"),
        ("<speak>é<mark name='x'/></speak>", "<mark> at line 1, column 9 (character 8): unknown tag"),
        ("<speak><audio src='http://x/y.wav'/></speak>", "<audio>"),
        ("<p>a</p>", "<p> at line 1, column 1"),
        ("<speak><speak>a</speak></speak>", "one <speak>"),
        ("<speak>a<b></speak>", "unknown tag"),
        ("<speak><p>a</speak>", "mismatched tag"),
        ("<speak>a", "no element found"),
        ("<speak>&nbsp;</speak>", "undefined entity"),
        ("<speak>a & b</speak>", "not well-formed"),
        ("<speak>\x00</speak>", "not well-formed"),
        ("<speak>\ud800</speak>", "surrogate"),
        ("<speak><?php x ?></speak>", "processing instructions"),
        ('<!DOCTYPE speak [<!ENTITY a "b">]><speak>&a;</speak>', "entities of one's own are not allowed"),
        ('<!DOCTYPE speak SYSTEM "file:///etc/passwd"><speak>a</speak>', "not allowed"),
        ('<speak><prosody range="high">a</prosody></speak>', "unknown attribute 'range'"),
        ('<speak><prosody rate="quick">a</prosody></speak>', "rate='quick' must be x-slow"),
        ('<speak><prosody rate="+2">a</prosody></speak>', "rate="),
        ('<speak><prosody rate="-100%">a</prosody></speak>', "rate="),
        ('<speak><prosody rate="500%">a</prosody></speak>', "the speed is 5 in all"),
        ('<speak><prosody pitch="+20Hz">a</prosody></speak>', "pitch="),
        ('<speak><prosody pitch="10%">a</prosody></speak>', "pitch="),
        ('<speak><prosody pitch="+13st">a</prosody></speak>', "the pitch is +13 st in all"),
        ('<speak><prosody volume="+21dB">a</prosody></speak>', "the volume is +21 dB"),
        ('<speak><prosody volume="101">a</prosody></speak>', "volume="),
        ('<speak><emphasis level="very">a</emphasis></speak>', "level="),
        ('<speak><break time="31s"/></speak>', "at most 30 s"),
        ('<speak><break time="soon"/></speak>', "time='soon'"),
        ('<speak><break strength="big"/></speak>', "strength="),
        ("<speak><voice>a</voice></speak>", "name is missing"),
        ('<speak><voice name="nobody">a</voice></speak>', "there is no voice 'nobody'"),
        ('<speak><lang xml:lang="xx">a</lang></speak>', "xml:lang='xx' must be one of en-US"),
        ('<speak><sub alias="">a</sub></speak>', "alias="),
        (f'<speak><sub alias="{"a " * 501}">a</sub></speak>', "at most 1000 characters"),
        ('<speak><sub alias="a"/></speak>', "no text"),
        ('<speak><sub alias="a">b [pause:1s] c</sub></speak>', "a pause or a pronunciation within it"),
        ('<speak><say-as interpret-as="characters">[b](/bˈi/)</say-as></speak>', "a pronunciation within it"),
        ('<speak><sub alias="a"><p>b</p></sub></speak>', "not allowed within <sub>"),
        ('<speak><say-as interpret-as="song">a</say-as></speak>', "interpret-as="),
        ('<speak><say-as interpret-as="date" format="x">a</say-as></speak>', "format="),
        ('<speak><say-as interpret-as="cardinal" format="x">1</say-as></speak>', "format="),
        ('<speak><say-as interpret-as="cardinal">many</say-as></speak>', "'many' cannot be read as cardinal"),
        ('<speak><say-as interpret-as="date" format="mdy">13/13/2020</say-as></speak>', "cannot be read as date mdy"),
        ('<speak><say-as interpret-as="date" format="md">12/31</say-as></speak>', ""),
        ('<speak><phoneme alphabet="x-sampa" ph="a">a</phoneme></speak>', "alphabet="),
        ('<speak><phoneme ph="ↂ">a</phoneme></speak>', "no phonemes 'ↂ'"),
        ('<speak><phoneme ph="ˈ">a</phoneme></speak>', "has a sound"),
        (f'<speak><phoneme ph="{"a" * 511}">a</phoneme></speak>', "at most 510"),
        (f'<speak><phoneme ph="a">{"a" * 201}</phoneme></speak>', "more than 200"),
        ("<speak>[voice:bm_george]a</speak>", "at character 7"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_place(markup: str, told: str) -> None:
    if not told:  # English only
        with pytest.raises(InvalidSSML, match="cannot be read as date md in French"):
            parse(markup, Delivery("ff_siwis", languages.FR))
        return
    with pytest.raises(InvalidSSML, match=re.escape(told)) as raised:
        parse(markup)
    assert raised.value.field == "text"
    assert len(raised.value.message) < 1_000


@pytest.mark.parametrize(
    "markup",
    [
        "<speak>" + "<p>" * 50_000,
        "<speak>" + "<p>a</p>" * 100_000 + "</speak>",
        "<speak>" + "<break time='0s'/>" * 100_000 + "</speak>",
        "<speak " + " ".join(f"a{n}='x'" for n in range(100_000)) + ">a</speak>",
        '<!DOCTYPE s [<!ENTITY a "aaaaaaaaaa">' + "".join(
            f'<!ENTITY a{n} "{("&a" + str(n - 1) + ";") * 10}">' for n in range(1, 10)
        ) + "]><speak>&a9;</speak>",
        "<speak>" + "<" * 500_000,
        "<speak>" + "&" * 500_000,
        "<speak><!--" + "-" * 500_000,
        "<speak><![CDATA[" + "]" * 500_000,
        "<speak><p x='" + "a" * 500_000,
    ],
    ids=range(10),
)  # fmt: skip
def test_hostile_documents_are_refused_soon(markup: str) -> None:
    started = time.thread_time()
    with pytest.raises(InvalidSSML) as raised:
        parse(markup)
    assert time.thread_time() - started < 5  # a tenth of a second
    assert len(raised.value.message) < 1_000


@pytest.mark.parametrize("unit", ["a &amp; ", "<p>a</p>", "<!-- -->", "\r\n", "é<s/>", "<sub alias='b'>a</sub> "])
def test_twice_the_document_costs_about_twice(unit: str) -> None:
    once, twice = (f"<speak>{unit * count}</speak>" for count in (2_000, 4_000))
    assert is_at_most(3, lambda: parse(once), lambda: parse(twice), harmless=0.03)


async def test_a_long_document_does_not_hold_the_event_loop() -> None:
    markup = "<speak>" + "<s>a</s>\n" * 9_000 + "<sub alias='1'>a</sub>" * 800 + "</speak>"
    writing = asyncio.create_task(write_script(Speech("af_heart", markup, ssml=True), Three()))
    turns = 0
    while not writing.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert len(await writing) == 1
    assert turns > 3


WORD = st.text("abcé&<>'\"", min_size=1, max_size=4)
SENTENCE = st.lists(WORD, min_size=1, max_size=4).map(" ".join)


@given(st.lists(st.tuples(st.sampled_from(["p", "s"]), SENTENCE), min_size=1, max_size=5), st.booleans())
async def test_paragraphs_say_the_same_as_plain_text(paragraphs: list[tuple[str, str]], loose: bool) -> None:
    gap = "\n " if loose else ""
    body = gap.join(f"<{tag}>{gap}{escape(text)}</{tag}>" for tag, text in paragraphs)
    script = parse(f"<speak>{gap}{body}</speak>")
    plain = "\n\n".join(text for _, text in paragraphs)
    spoken = " ".join(run.text.text for run in runs(script))
    assert spoken.split() == plain.split()
    if any(character.isalpha() for character in plain):
        [run] = runs(script)
        found = [span.text for span in sentences(run.text.text)]
        assert found == [span.text for span in sentences(plain)]


def test_a_paragraph_ends_with_a_blank_line_and_a_sentence_does_not() -> None:
    [text] = said("<p><s>One</s><s>Two</s></p>Three<s>Four</s><p>Five</p>")
    ends = {span.text: span.ends_paragraph for span in sentences(text)}
    assert ends == {"One": False, "Two": True, "Three": False, "Four": True, "Five": True}


ELEMENTS = (
    "p", "s", 'prosody rate="fast"', 'voice name="bm_george"', 'lang xml:lang="es"', "emphasis", "break/", "!-- x --",
    "nothing", 'prosody rate="x"',
)  # fmt: skip


@given(st.recursive(
    SENTENCE.map(escape),
    lambda inner: st.tuples(st.sampled_from(ELEMENTS), st.lists(inner, max_size=3)).map(
        lambda made: f"<{made[0]}>" if made[0][-1] in "/-" else
        f"<{made[0]}>{' '.join(made[1])}</{made[0].split()[0]}>"
    ),
    max_leaves=12,
))  # fmt: skip
def test_all_text_is_spoken_or_refused(body: str) -> None:
    markup = f"<speak>{body}</speak>"
    try:
        script = parse(markup)
    except InvalidSSML:
        return
    text = re.sub(r"<[^>]*>", " ", body.replace("<!-- x -->", " "))
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(entity, character)
    assert "".join("".join(run.text.text.split()) for run in runs(script)) == "".join(text.split())
    for run in runs(script):
        origin = list(zip(run.text.starts, run.text.ends, strict=True))
        assert origin == sorted(origin)
        for character, (start, end) in zip(run.text.text, origin, strict=True):
            assert character.isspace() or markup[start:end] in (character, escape(character))


def test_a_script_of_nothing() -> None:
    assert parse("<speak> <p/> </speak>") == []
    [pause] = parse("<speak><break/></speak>")
    assert isinstance(pause, Pause)
    assert not isinstance(pause, Run)
