"""How far predictions are off, by what the real model took: ONNX, int8, one voice in each language.

At speeds that the model does not speak at, its audio is stretched, and is as long as at speed 1 divided by the speed.
"""

from __future__ import annotations

import pytest

from kokoro_server import languages
from kokoro_server.languages import Language
from kokoro_server.synthesis.clip_length import longer_pauses, predicted_seconds
from kokoro_server.text.pauses import Pause
from kokoro_server.text.script import Delivery, Run
from kokoro_server.text.traced import Traced

PROSE = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, it "
    "was the epoch of belief, it was the epoch of incredulity. There were a king with a large jaw and a queen with a "
    "plain face, on the throne of England. In both countries it was clearer than crystal to the lords of the State "
    "preserves of loaves and fishes, that things in general were settled for ever."
)
NUMBERS = (
    "In 1998 the company sold 12,345 units for $4.5 million, 37% more than in 1997. Call 555-0199 or 1-800-555-7788 "
    "before 5:30 pm. The total is 9876543 and the code is 48151623. On 12/03/2021 at 14:45 it was 23.5 degrees, 1013 "
    "hPa, 67% humidity."
)
SPELLED = (
    "The NATO and UNESCO met the FBI, CIA, NSA, GCHQ and BBC in the USA. HTTP, HTTPS, SSH, TCP, UDP and DNS are used "
    "by IBM, HP, AMD."
)
JAPANESE = (
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所でニャーニャー泣いていた"
    "事だけは記憶している。吾輩はここで始めて人間というものを見た。"
)
CHINESE = (
    "今天天气很好，我们一起去公园散步。公园里有很多人，有的在跑步，有的在唱歌，还有的在下棋。孩子们在草地上玩耍，"
    "老人们坐在长椅上聊天。我们走了很久，然后回家吃晚饭。"
)
SPANISH = (
    "En un lugar de la Mancha, de cuyo nombre no quiero acordarme, no ha mucho tiempo que vivía un hidalgo de los de "
    "lanza en astillero, adarga antigua, rocín flaco y galgo corredor. Una olla de algo más vaca que carnero, salpicón "
    "las más noches, duelos y quebrantos los sábados."
)
FRENCH = (
    "Longtemps, je me suis couché de bonne heure. Parfois, à peine ma bougie éteinte, mes yeux se fermaient si vite "
    "que je n'avais pas le temps de me dire : je m'endors. Et, une demi-heure après, la pensée qu'il était temps de "
    "chercher le sommeil m'éveillait."
)
HINDI = (
    "यह एक सुंदर दिन था और हम सब बाज़ार गए थे। वहाँ बहुत सारे लोग थे और सब लोग खुश थे। बच्चे खेल रहे थे और उनके "
    "माता-पिता बातें कर रहे थे। शाम को हम घर लौटे और खाना खाया।"
)
ITALIAN = (
    "Nel mezzo del cammin di nostra vita mi ritrovai per una selva oscura, ché la diritta via era smarrita. Ahi quanto "
    "a dir qual era è cosa dura esta selva selvaggia e aspra e forte che nel pensier rinova la paura."
)


def predicted(text: str, language: Language = languages.EN_US, speed: float = 1.0) -> float:
    return predicted_seconds([Run(Traced.of(text), Delivery("af_heart", language, speed))])


@pytest.mark.parametrize(
    ("text", "language", "speed", "took", "off"),
    [
        (PROSE, languages.EN_US, 1.0, 24.6, 0.05),  # af_heart
        (PROSE, languages.EN_US, 1.0, 22.98, 0.1),  # bf_isabella
        (PROSE, languages.EN_US, 1.0, 27.685, 0.15),  # am_michael
        (PROSE, languages.EN_US, 1.0, 38.79, 0.4),  # af_nicole
        (PROSE, languages.EN_US, 0.25, 24.6 / 0.25, 0.05),
        (PROSE, languages.EN_US, 2.0, 24.6 / 2, 0.05),
        (PROSE, languages.EN_US, 4.0, 24.6 / 4, 0.05),
        (NUMBERS, languages.EN_US, 1.0, 38.415, 0.2),
        (SPELLED, languages.EN_US, 1.0, 15.075, 0.5),
        (SPANISH, languages.ES, 1.0, 15.635, 0.1),
        (FRENCH, languages.FR, 1.0, 12.65, 0.1),
        (HINDI, languages.HI, 1.0, 14.905, 0.1),
        (ITALIAN, languages.IT, 1.0, 13.005, 0.1),
        (JAPANESE, languages.JA, 1.0, 15.925, 0.1),
        (CHINESE, languages.ZH, 1.0, 18.5, 0.1),
    ],
)
def test_it_is_not_far_off(text: str, language: Language, speed: float, took: float, off: float) -> None:
    assert predicted(text, language, speed) == pytest.approx(took, rel=off)


def test_pauses_count_and_their_markup_does_not() -> None:
    run = Run(Traced.of("One. [pause:20s] Two."), Delivery("af_heart", languages.EN_US, 2.0))
    assert predicted_seconds([run, Pause(3.0)]) == pytest.approx(23.0 + predicted("One.  Two.", speed=2.0))


@pytest.mark.parametrize("blank", ["\n\n", "\r\n\r\n", "\n \t\n", "\u2029"])
def test_pauses_that_are_asked_for_count(blank: str) -> None:
    run = Run(Traced.of(f"One{blank}Two. Three"), Delivery("af_heart", languages.EN_US, 0.5))
    assert longer_pauses([run], {"paragraph": 5.75}) == pytest.approx(10.0)
    assert longer_pauses([run], {"sentence": 5.4}) >= 20.0
    assert longer_pauses([run], {"sentence": 0.1, "comma": 5.0}) == 0.0


def test_a_text_of_the_greatest_length_may_be_a_clip_at_ordinary_speed() -> None:
    assert predicted((PROSE * 300)[:100_000]) < 7200
