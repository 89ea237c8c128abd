from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator

import pytest

from kokoro_server import languages
from kokoro_server.errors import G2PFailed, G2PUnavailable, LanguageNotInstalled, SetupError
from kokoro_server.g2p.result import G2PResult
from kokoro_server.g2p.service import converter as module
from kokoro_server.g2p.service import phonemizers
from kokoro_server.g2p.service.converter import Converter
from kokoro_server.g2p.service.phonemizers import Phonemizer
from kokoro_server.languages import Language


async def convert(converter: Converter, text: str, language: Language) -> str:
    (conversion,) = await (await converter.submit([(text, language)]))
    phonemes: str = json.loads(conversion)["phonemes"]
    return phonemes


class FakeLibrary:
    """A double of the G2P libraries: languages that echo the text, some of them broken."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.missing: set[str] = set()
        self.threads: set[int] = set()
        self.hold = threading.Event()
        self.hold.set()
        self.busy = threading.Event()

    def load(self, language: Language, _english: Phonemizer | None = None) -> Phonemizer:
        self.loaded.append(language.code)
        if language.code in self.missing:
            raise ModuleNotFoundError("No module named 'fugashi'")
        return self.phonemize

    def phonemize(self, text: str) -> G2PResult:
        self.threads.add(threading.get_ident())
        self.busy.set()
        self.hold.wait(10)
        if text == "bad":
            raise ZeroDivisionError("in the library")
        return G2PResult(text)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    library = FakeLibrary()
    monkeypatch.setattr(phonemizers, "load", library.load)
    return library


@pytest.fixture
def converter(library: FakeLibrary) -> Iterator[Converter]:
    converter = Converter()
    yield converter
    library.hold.set()
    converter.close()


async def test_a_language_is_loaded_once_by_its_first_texts(converter: Converter, library: FakeLibrary) -> None:
    assert converter.readiness()["ja"] == "not_loaded"
    await asyncio.gather(*(convert(converter, str(number), languages.JA) for number in range(10)))
    assert library.loaded == ["ja"]
    assert converter.readiness()["ja"] == "ready"


async def test_texts_are_converted_by_one_thread(converter: Converter, library: FakeLibrary) -> None:
    conversions = [convert(converter, language.code, language) for language in languages.LANGUAGES * 3]
    phonemes = await asyncio.gather(*conversions)
    assert phonemes == [language.code for language in languages.LANGUAGES * 3]
    assert len(library.threads) == 1


async def test_a_language_that_cannot_be_loaded_costs_no_other(converter: Converter, library: FakeLibrary) -> None:
    library.missing.add("ja")
    with pytest.raises(G2PUnavailable, match=r"Japanese cannot be loaded: No module named 'fugashi'"):
        await convert(converter, "text", languages.JA)
    assert converter.readiness()["ja"].startswith("failed: ModuleNotFoundError")
    assert await convert(converter, "text", languages.ZH) == "text"

    library.missing.clear()
    assert await convert(converter, "text", languages.JA) == "text"
    assert converter.readiness()["ja"] == "ready"


async def test_a_language_that_is_not_installed_is_told_apart_from_one_that_fails(
    converter: Converter, library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(LanguageNotInstalled, match=r"pip install 'kokoro-server\[zh\]'"):
        await convert(converter, "text", languages.ZH)
    assert converter.readiness() == {each.code: "not_loaded" for each in languages.LANGUAGES} | {"zh": "not_installed"}
    assert library.loaded == []

    monkeypatch.undo()
    monkeypatch.setattr(phonemizers, "load", library.load)
    assert await convert(converter, "text", languages.ZH) == "text"  # once it is, no restart is needed


def test_without_english_there_is_no_service(converter: Converter, library: FakeLibrary) -> None:
    library.missing.add("en-US")
    with pytest.raises(SetupError, match="American English cannot be loaded"):
        converter.preload()


async def test_a_text_that_breaks_the_library_costs_no_other(converter: Converter) -> None:
    with pytest.raises(G2PFailed, match="'bad' cannot be converted"):
        await convert(converter, "bad", languages.ES)
    assert await convert(converter, "good", languages.ES) == "good"


async def test_a_conversion_that_does_not_end_is_noticed(
    converter: Converter, library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STUCK_AFTER", -1.0)
    library.hold.clear()
    conversion = asyncio.create_task(convert(converter, "text", languages.ES))
    assert await asyncio.to_thread(library.busy.wait, 5)
    assert converter.stuck
    library.hold.set()
    await conversion
    assert not converter.stuck
