from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kokoro_server import languages
from kokoro_server.errors import ConfigError
from kokoro_server.languages import Language
from kokoro_server.text.lexicon import Lexicon
from kokoro_server.text.markup import Pronunciation
from kokoro_server.text.traced import Traced

WORDS = """
["*"]
Kokoro = "/kˈOkəɹO/"
tomato = "everywhere"

[en]
nginx = "engine x"
new = "knew"
"New York" = "/nˌu jˈɔɹk/"
US = "you ess"
"C++" = "see plus plus"
"o'brien" = "oh bryan"
can = "ken"
tomato = "in english"
"café" = "caff"

[en-GB]
tomato = "in britain"

[ja]
"今日" = "きょう"
AI = "エーアイ"

[fr]
eau = "o"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lexicon.toml"
    path.write_text(WORDS, encoding="utf-8")
    return path


async def read(path: Path, text: str, language: Language = languages.EN_US) -> str:
    lexicon = await Lexicon.load(path).for_language(language)
    parts = lexicon.apply(Traced.of(text))
    return "".join(
        f"<{part.word.text}={part.phonemes}>" if isinstance(part, Pronunciation) else part.text for part in parts
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("An nginx, Nginx or NGINX.", "An engine x, engine x or engine x."),
        ("nginxes and mynginx stay", "nginxes and mynginx stay"),
        ("US and us", "you ess and us"),
        ("In New York, a new house", "In <New York=nˌu jˈɔɹk>, a knew house"),
        ("Kokoro's and kokoro", "<Kokoro=kˈOkəɹO>'s and kokoro"),
        ("C++ is C++11", "see plus plus is see plus plus11"),
        ("O’Brien and O'BRIEN", "oh bryan and oh bryan"),
        ("I can, I can't", "I ken, I can't"),
        ("CAFÉ", "caff"),
        (
            "https://nginx.org/new www.new.org me@nginx.com nginx.com",
            "https://nginx.org/new www.new.org me@nginx.com nginx.com",
        ),
        ("", ""),
    ],
)
async def test_words_are_replaced(path: Path, text: str, expected: str) -> None:
    assert await read(path, text) == expected


async def test_each_language_has_its_own_words(path: Path) -> None:
    assert await read(path, "tomato", languages.EN_US) == "in english"
    assert await read(path, "tomato", languages.EN_GB) == "in britain"
    assert await read(path, "tomato nginx", languages.ES) == "everywhere nginx"
    assert await read(path, "l'eau", languages.FR) == "l'o"


async def test_where_there_are_no_gaps_between_words_none_are_needed(path: Path) -> None:
    assert await read(path, "今日はAIです。AIM", languages.JA) == "きょうはエーアイです。AIM"


async def test_a_respelled_word_keeps_its_offsets(path: Path) -> None:
    (part,) = (await Lexicon.load(path).for_language(languages.EN_US)).apply(Traced.of("An nginx", 10))
    assert isinstance(part, Traced)
    assert part.origin(3, 9) == part.origin(10, 11) == (13, 18)


async def test_a_new_version_is_used_and_a_broken_one_is_not(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lexicon = Lexicon.load(path, check_every=0)

    async def reading(word: str) -> str:
        (part,) = (await lexicon.for_language(languages.ES)).apply(Traced.of(word))
        assert isinstance(part, Traced)
        return part.text

    assert await reading("tomato") == "everywhere"
    replace(path, '["*"]\ntomato = "nowhere"')
    assert await reading("tomato") == "nowhere"
    with caplog.at_level(logging.WARNING):
        replace(path, "tomato =")
        assert await reading("tomato") == "nowhere"
        assert await reading("tomato") == "nowhere"
    (warning,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert "lexicon is broken" in warning.getMessage()
    assert lexicon.condition.current
    replace(path, None)
    assert await reading("tomato") == "nowhere"
    replace(path, '["*"]\ntomato = "back"')
    assert await reading("tomato") == "back"
    assert lexicon.condition.current is None


def replace(path: Path, content: str | None) -> None:
    """Replaces the file in one step, as editors do: no reader sees half of it."""
    if content is None:
        path.unlink()
        return
    other = path.with_suffix(".new")
    other.write_text(content, encoding="utf-8")
    other.replace(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[en]\nword =", "Invalid value"),
        ('word = "x"', "'word' is outside of a table"),
        ('[xx]\nword = "x"', "unknown language 'xx'"),
        ("[en]\nword = 5", "'word': needs"),
        ('[en]\nword = " "', "'word': needs"),
        ('[en]\n" " = "x"', "without a word"),
        ('[en]\nword = "/gↂ/"', "'word': not phonemes of the model: 'g'"),
        ('[en]\nword = "//"', "no sound"),
        ('[en]\nword = "/(a)/"', "parentheses"),
        (b"\xff\xfe", "utf-8"),
        (None, "No such file"),
    ],
)
def test_a_broken_file_stops_the_start(tmp_path: Path, content: str | bytes | None, problem: str) -> None:
    path = tmp_path / "lexicon.toml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match="LEXICON_PATH=") as caught:
        Lexicon.load(path)
    assert problem in caught.value.message
