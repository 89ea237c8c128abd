"""What a request says about how its text is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kokoro_server import languages
from kokoro_server.errors import InvalidInput, NothingToSay, Unspeakable
from kokoro_server.g2p.result import G2PResult
from kokoro_server.languages import Language
from kokoro_server.text.lexicon import Lexicon
from kokoro_server.text.options import ReadingOptions
from kokoro_server.text.pieces import Piece, PieceSizes
from kokoro_server.text.reader import Reader
from kokoro_server.text.script import Delivery, Run
from kokoro_server.text.traced import Traced
from tests.text.fake_g2p import FakeG2P


class Dropping(FakeG2P):
    """Cannot say these letters."""

    def __init__(self, dropped: str) -> None:
        super().__init__()
        self._dropped = dropped

    async def convert(self, texts: Sequence[str], language: Language, *, bulk: bool = False) -> list[G2PResult]:
        results = await super().convert(texts, language, bulk=bulk)
        return [replace(result, dropped=self._dropped) for result in results]


async def said(text: str, language: Language = languages.EN_US, file: Lexicon | None = None, **options: Any) -> str:
    """What G2P gets."""
    g2p = FakeG2P()
    reader = Reader(g2p, PieceSizes(), file)
    async for _ in reader.pieces(text, language, options=ReadingOptions(**options)):
        pass
    return " ".join(text for call in g2p.calls for text in call)


async def test_kinds_can_be_switched_off() -> None:
    text = "It cost $5 on **3 May**."
    assert await said(text) == "It cost five dollars on the third of May."
    assert await said(text, kinds=frozenset()) == text
    assert await said(text, kinds=frozenset({"markdown"})) == "It cost dollar five on three May."


async def test_code_blocks() -> None:
    text = "See:\n```python\nprint\n```\nDone."
    assert "print" in await said(text)
    assert await said(text, code_blocks="skip") == "See: Done."
    assert await said(text, code_blocks="announce") == "See: code block. Done."


async def test_code_spans() -> None:
    text = "Run `make serve` now."
    assert await said(text) == "Run make serve now."
    assert await said(text, code_spans="skip") == "Run now."
    assert await said(text, code_spans="announce") == "Run code block now."


async def test_a_requests_lexicon_goes_before_the_files(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.toml"
    path.write_text('[en]\nnginx = "engine x"\nSQL = "sequel"\n', encoding="utf-8")
    file = Lexicon.load(path)
    own = {"sql": "squirrel", "10k": "ten thousand metres", "Ng": "/ɪŋ/"}
    assert await said("nginx, SQL, 10k", file=file) == "engine x, sequel, ten thousand"
    text = "nginx, SQL, 10k, Ng"
    assert await said(text, file=file, lexicon=own) == "engine x, squirrel, ten thousand metres, [Ng](/ɪŋ/)"


@pytest.mark.parametrize(
    ("entry", "message"), [({"a": "/#/"}, "not phonemes"), ({"a": " "}, "needs"), ({" ": "b"}, "without a word")]
)
async def test_a_bad_entry_is_refused(entry: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as error:
        await said("One.", lexicon=entry)
    assert error.value.field == "lexicon"


async def test_letters_that_cannot_be_said_are_refused_before_the_first_piece() -> None:
    text = "One. " * 2_000 + "Then 東京, ไทย."
    with pytest.raises(Unspeakable) as error:
        await said(text)
    assert "American English: '東' (U+6771), '京' (U+4EAC), 'ไ'" in error.value.message
    assert error.value.field == "text"
    assert "東" in await said("東京。", languages.JA)


async def test_or_they_are_skipped_and_counted() -> None:
    reader = Reader(FakeG2P(), PieceSizes(), unspeakable="skip")
    text = "Tokyo (東京) is large. " * 10
    pieces = [item async for item in reader.pieces(text, languages.EN_US) if isinstance(item, Piece)]
    assert [piece.skipped for piece in pieces] == [20] + [0] * (len(pieces) - 1)
    assert await said("Tokyo (東京) is large.", unspeakable="skip") == "Tokyo ( ) is large."
    with pytest.raises(NothingToSay):
        await said("東京", unspeakable="skip")


async def test_given_pronunciations_can_always_be_said() -> None:
    assert "tokjo" in await said("In [東京](/tokjo/) now.")


async def test_what_g2p_could_not_say_counts_too() -> None:
    with pytest.raises(Unspeakable, match="U\\+20BB7"):
        async for _ in Reader(Dropping("𠮷,"), PieceSizes()).pieces("𠮷", languages.ZH):
            pass
    reader = Reader(Dropping("𠮷,"), PieceSizes(), unspeakable="skip")
    assert [item.skipped async for item in reader.pieces("𠮷好", languages.ZH) if isinstance(item, Piece)] == [1]


class Knowing(FakeG2P):
    """Cannot say 𠮷."""

    async def convert(self, texts: Sequence[str], language: Language, *, bulk: bool = False) -> list[G2PResult]:
        results = await super().convert(texts, language, bulk=bulk)
        return [
            replace(result, dropped="𠮷" if "𠮷" in text else "") for text, result in zip(texts, results, strict=True)
        ]


async def test_a_rare_character_late_in_a_stream_is_refused_before_the_first_piece() -> None:
    text = "你好世界。" * 2_000 + "𠮷好。"
    with pytest.raises(Unspeakable, match="U\\+20BB7"):
        await anext(Reader(Knowing(), PieceSizes()).pieces(text, languages.ZH, cutting="stream"))
    reader = Reader(Knowing(), PieceSizes(), unspeakable="skip")
    pieces = [item async for item in reader.pieces(text, languages.ZH, cutting="stream") if isinstance(item, Piece)]
    assert sum(piece.skipped for piece in pieces) == 1
    given = "你好世界。" * 10 + "[𠮷](/ʨi/)好。"
    assert [item async for item in Reader(Knowing(), PieceSizes()).pieces(given, languages.ZH, cutting="stream")]


async def test_a_letter_that_only_g2p_finds_unspeakable_does_not_end_a_stream() -> None:
    class Late(FakeG2P):
        async def convert(self, texts: Sequence[str], language: Language, *, bulk: bool = False) -> list[G2PResult]:
            results = await super().convert(texts, language, bulk=bulk)
            return [replace(result, dropped="龘") if len(self.calls) > 3 else result for result in results]

    text = "你好世界。" * 2_000
    pieces = [item async for item in Reader(Late(), PieceSizes()).pieces(text, languages.ZH, cutting="stream")]
    assert sum(piece.skipped for piece in pieces if isinstance(piece, Piece)) > 0
    with pytest.raises(Unspeakable):
        [item async for item in Reader(Late(), PieceSizes()).pieces(text, languages.ZH)]


async def test_a_reading_tells_what_is_said_and_why() -> None:
    text = "[pause:1s] Dr. [Ng](/ɪŋ/) paid $5."
    script = [Run(Traced.of(text), Delivery("", languages.EN_US))]
    reading = await Reader(FakeG2P(), PieceSizes()).reading(script)
    found = [(text[claim.start : claim.end], claim.words, claim.rule) for claim in reading.claims]
    assert ("$5", "five dollars", "money") in found
    assert ("[Ng](/ɪŋ/)", "/ɪŋ/", "pronunciation") in found
    [sentence] = reading.sentences
    words = [text[word.start : word.end] for word in sentence.words]
    assert words[-2:] == ["paid", "$5"]
