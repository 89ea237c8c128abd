"""What every parser of user input costs grows with its length, not with the square of it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import pytest

from kokoro_server import languages
from kokoro_server.api.agents.sockets import MAX_MESSAGE, parsed
from kokoro_server.api.middleware.access_log import VALID_REQUEST_ID
from kokoro_server.api.routes.websocket import MESSAGE
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.engine import vocab
from kokoro_server.errors import KokoroError
from kokoro_server.g2p.phoneme_map import to_model_symbols
from kokoro_server.g2p.result import G2PResult, Token
from kokoro_server.synthesis.auto_language import settled, with_quotations_apart
from kokoro_server.synthesis.captions import Timing, cues
from kokoro_server.synthesis.speech import Speech
from kokoro_server.text import markup, ssml, voice_tags
from kokoro_server.text.alignment.phrases import PhraseAlignedSentence
from kokoro_server.text.alignment.words import WordAlignedSentence
from kokoro_server.text.cut_points import find_cuts
from kokoro_server.text.g2p_calls import group_into_calls
from kokoro_server.text.given_phonemes import split_phonemes
from kokoro_server.text.language_of import language_of
from kokoro_server.text.lexicon import LanguageLexicon
from kokoro_server.text.options import DEFAULT_OPTIONS
from kokoro_server.text.pace import Pace
from kokoro_server.text.pauses import split_pauses, total_silence
from kokoro_server.text.pieces import ClipPacker, PacedPacker, Packer, PieceSizes
from kokoro_server.text.reader import _RunPacker
from kokoro_server.text.script import Cast, Delivery, Run
from kokoro_server.text.sentence_buffer import SentenceBuffer
from kokoro_server.text.splitter import TextSpan, clauses, sentences
from kokoro_server.text.traced import Traced
from kokoro_server.text.written import WrittenText
from kokoro_server.voices.mix import _part
from tests.growth import is_at_most
from tests.text.test_script import AnyVoice

WORST = 3.0  # times the cost for twice the input: 2 is linear, 4 quadratic
HARMLESS = 0.1  # seconds: less harms nobody, and it is the clock that would be measured
DELIVERY = Delivery("af_heart", languages.EN_US)
LEXICON = LanguageLexicon({"Kokoro": "/kˈOkəɹO/", "a": "ay", "a a a a": "aas", "nginx": "engine x", "你": "/ni/"})


def appended(text: str) -> None:
    buffer = SentenceBuffer()
    for start in range(0, len(text), 4_000):
        buffer.append(text[start : start + 4_000])
    for _ in range(3):
        buffer.append(" ")
    buffer.flush()


def read(language: languages.Language) -> Callable[[str], object]:
    def parse(text: str) -> object:
        markup.check_pronunciations(text)
        written = WrittenText(list(split_pauses(text)), language, LEXICON, DEFAULT_OPTIONS)
        return list(group_into_calls(written.sentences(), language))

    return parse


def packed(packer: Callable[[int], Packer]) -> Callable[[str], object]:
    def parse(text: str) -> object:
        phonemes = re.sub(r"\s", " ", text)
        return list(
            _RunPacker(packer(len(phonemes))).pack(list(split_phonemes(phonemes, vocab.built_in())), more=False)
        )

    return parse


def aligned_words(text: str) -> object:
    tokens = tuple(Token(word, " ", "a") for word in text[:10_000].split())
    span = TextSpan(0, len(text), text)
    result = G2PResult("".join(token.phonemes + token.whitespace for token in tokens), tokens)
    return WordAlignedSentence(span, [Traced.of(text)]).with_phonemes([result]).words


def aligned_phrases(text: str) -> object:
    sentence = PhraseAlignedSentence(TextSpan(0, len(text), text), [Traced.of(text)], languages.ES)
    return sentence.with_phonemes([G2PResult("a" * len(part)) for part in sentence.texts]).words


def captioned(text: str) -> object:
    words = [Timing(m[0], m.start() / 10, m.end() / 10, m.start(), m.end(), False) for m in re.finditer(r"\S+", text)]
    return cues(words, text)


class GradedVoice(AnyVoice):
    def best(self, _language: languages.Language) -> str | None:
        return None


def tagged(text: str) -> object:
    return voice_tags.has_tags(text) and voice_tags.split(Run(Traced.of(text), DELIVERY), Cast(AnyVoice()))


PARSERS: dict[str, tuple[int, Callable[[str], object]]] = {
    "phonemes": (6_000, packed(lambda _length: ClipPacker(100, 400))),
    "phonemes of a stream": (6_000, packed(lambda _length: Packer(100, 400, 50))),
    "phonemes of a slow stream": (6_000, packed(lambda length: PacedPacker(PieceSizes(), Pace(0.5), length))),
    "pauses": (50_000, total_silence),
    "pronunciations": (2_000, lambda text: list(markup.split_pronunciations(text))),
    "sentences": (4_000, lambda text: list(sentences(text))),
    "clauses": (8_000, lambda text: list(clauses(text))),
    "clean": (2_000, lambda text: markup.clean(Traced.of(text, 0))),
    "cuts": (4_000, lambda text: find_cuts(text, lambda: [], 400)),
    "lexicon": (2_000, lambda text: LEXICON.apply(Traced.of(text))),
    "appended": (800, appended),
    "English": (1_000, read(languages.EN_US)),
    "Chinese": (1_000, read(languages.ZH)),
    "words": (2_000, aligned_words),
    "phrases": (2_000, aligned_phrases),
    "captions": (2_000, captioned),
    "voice tags": (10_000, tagged),
    "language": (1_000, language_of),
    "language of SSML": (10_000, lambda text: settled(Speech("a", text, language="auto", ssml=True), GradedVoice())),
    "quotations": (10_000, lambda text: with_quotations_apart([Run(Traced.of(text), DELIVERY)], GradedVoice())),
    "SSML": (4_000, lambda text: ssml.script(f"<speak>{text}</speak>", DELIVERY, Cast(AnyVoice()))),
    "voice": (10_000, lambda text: _part(text, text)),
    "model symbols": (10_000, to_model_symbols),
    "body": (20_000, lambda text: TTSRequest(text=text, voice="a" * 500)),
    "message": (MAX_MESSAGE // 3, lambda text: parsed(text.encode("utf-8", "replace").decode(), MESSAGE)),
    "request id": (50_000, VALID_REQUEST_ID.fullmatch),
}
MARKS = " .,!…\n\r\"'—–-_/\\[](){}<>:;@#+*%a1A¿。，、ー你か\u0301\xa0\x85\u2028"
INVISIBLE_AND_OTHERS = "\u200b\u200d\u202e\u0627\ud800\x00ˈː↓😀🇩🏽ᄀक"
PATTERNS = (
    *("a ", ". ", "A. ", "1. ", "a.", "a@", "a@b.c", "www.", "https://", "Dr. ", ", ", ": ", "!?", "……", " – ", '." '),
    *("\na", "か\n", "か \n ", "e\u0301", "👨\u200d👩\u200d", "☺\ufe0f", "[a](/a/)", "[a](/", "[a](", "[]", "[["),
    *("[voice:", "[voice:a]", "<s/>", "&amp;"),
    *("[pause:", "[pause:1ms]", "a-", "a'", "- a\n", "12:30 "),
)


SLOW = ("appended",)  # by far the longest


@pytest.mark.parametrize(
    "parser", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in PARSERS]
)
def test_twice_the_input_costs_about_twice(parser: str) -> None:
    size, parse = PARSERS[parser]

    def of(unit: str, size: int) -> Callable[[], None]:
        given = (unit * (size // len(unit) + 1))[:size] + "a"

        def run() -> None:
            with contextlib.suppress(KokoroError):  # to refuse takes time too
                parse(given)

        return run

    of("a", 1)()  # the first use of a language loads its rules
    units = (*MARKS, *INVISIBLE_AND_OTHERS, *PATTERNS)
    assert [unit for unit in units if not is_at_most(WORST, of(unit, size), of(unit, 2 * size), HARMLESS)] == []
