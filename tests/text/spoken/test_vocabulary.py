"""The files of words: the shipped ones are right, and a bad entry is named by its file and line."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.vocabulary import VocabularyError, problems

FILES = sorted(vocabulary.DATA.glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_files_are_right(path: Path) -> None:
    assert problems(path) == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('[units]\nkm = "kilometer"\nmi = { one = "mile", plural = "miles" }\n', 3, "units 'mi': unknown key 'plural'"),
        ('[units]\nkm = "kilometer"\n\nft = { many = "feet" }\n', 4, "units 'ft': 'one' is missing"),
        ('[units]\n# A comment.\nkm = ""\n', 3, "units 'km': the words are empty"),
        ('[units]\nft = { one = "foot", many = "" }\n', 2, "units 'ft': 'many' is empty"),
        ('[units]\nft = { one = "foot", dotted = "yes" }\n', 2, "units 'ft': 'dotted' must be a bool"),
        ("[units]\nft = 12\n", 2, "units 'ft': must be a string or a table"),
        ('[slashed]\n"w/" = { say = "with" }\n', 2, "slashed 'w/': must be a string"),
        ('[units]\nkm = "kilometer"\nm = "meter"\nkm = "kilometre"\n', 4, "Cannot overwrite a value"),
        ('[units]\nkm = "kilometer\n', 2, "Illegal character"),
        ('[units]\nkm = "kilometer"\n\n[unit]\nm = "meter"\n', 4, "unit: there is no such section"),
        ('[lists]\nmonths = [\n    "May",\n    "June",\n    "May",\n]\n', 5, "lists 'months': 'May' is listed twice"),
        ('[lists]\nmonths = [\n    "May",\n    "",\n]\n', 4, "lists 'months': a word is empty"),
        ('[lists]\nmoons = [\n    "Io",\n]\n', 2, "lists 'moons': there is no such array in [lists]"),
        ('[patterns]\ncounted = [\n    "[Cc]hapter",\n    "[Pp",\n]\n', 4, "patterns 'counted': '[Pp' is no pattern"),
        (
            '[short_months]\nmay = "may"\n\n[lists]\nmonths = [\n    "May",\n]\n',
            2,
            "short_months 'may': 'may' is not one of the months",
        ),
        ('[phrases]\npiont = "point"\n', 2, "phrases 'piont': there is no such phrase"),
    ],
)
def test_a_bad_entry_is_named_by_file_and_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = tmp_path / "klingon.toml"
    path.write_text(text, encoding="utf-8")
    assert f"{path}:{line}: {message}" in "\n".join(problems(path))


def test_loading_a_bad_file_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "klingon.toml").write_text('[units]\nkm = ""\nm = ""\n', encoding="utf-8")
    monkeypatch.setattr(vocabulary, "DATA", tmp_path)
    with pytest.raises(VocabularyError) as raised:
        vocabulary.load("klingon")
    assert str(raised.value).splitlines() == [
        f"{tmp_path / 'klingon.toml'}:{line}: units {unit!r}: the words are empty"
        for line, unit in ((2, "km"), (3, "m"))
    ]


def test_entries_stand_one_a_line() -> None:
    """So that a line of a difference is an entry, and the line of an error is right."""
    for path in FILES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            is_list = line.startswith("    ")
            assert not (is_list and line.count('",') + line.count("',") > 1), f"{path.name}:{number}"


def test_a_message_names_the_file_within_the_package() -> None:
    assert vocabulary._name(vocabulary.DATA / "french.toml") == "text/spoken/data/french.toml"


def test_every_file_is_used() -> None:
    for name in ("chinese", "english", "french", "hindi", "italian", "japanese", "portuguese", "spanish"):
        importlib.import_module(f"kokoro_server.text.spoken.{name}")
    loaded = vocabulary.load.cache_info().misses
    for path in FILES:
        vocabulary.load(path.stem)
    assert vocabulary.load.cache_info().misses == loaded
