"""The table of names: its form, and how names are said by the real service, alone and in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from kokoro_server.g2p.phoneme_map import model_symbols

TABLE = Path(__file__).parents[3] / "kokoro_server/g2p/service/data/names.tsv"
LINES = TABLE.read_text(encoding="utf-8").splitlines()
SAID = {
    "Xi Jinping": "ʃˈi ʤɪnpˈɪŋ", "Joaquin": "wɑkˈin", "Dvořák": "dvˈɔɹʒɑk", "Dvorak": "dvˈɔɹʒɑk", "Hermès": "ɛɹmˈɛz",
    "Hermes's": "hˈɜɹmizᵻz", "Hermès's": "ɛɹmˈɛzᵻz", "Huawei": "wˈɑwA", "HUAWEI": "wˈɑwA", "La Jolla": "lə hˈYə",
    "La Jolla's": "lə hˈYəz", "Nguyen": "wˈɪn", "Nguyens": "wˈɪnz", "Nguyễn": "wˈɪn", "nguyen": "wˈɪn",
    "Des Moines": "də mˈYn", "Des Moines’s": "də mˈYnz", "Saint-Saëns": "sænsˈɑns", "Saint-Saens": "sænsˈɑns",
    "Zelenskyy": "zəlˈɛnski", "Porsche": "pˈɔɹʃə", "açaí": "ˌɑsɑˈi", "Xi's": "ʃˈiz",
    "Reading Festival": "ɹˈɛdɪŋ fˈɛstəvᵊl", "Siobhan": "ʃᵻvˈɔn", "Worcester": "wˈʊstəɹ", "Leicester": "lˈɛstəɹ",
    "Kylian": "kˈɪliən", "Ncuti": "ʃˈuti", "Wes": "wˈɛs", "Czar": "zˈɑɹ", "Bola Tinubu": "bˈOlə tɪnˈubu",
    "Edward Said": "ˈɛdwəɹd sɑˈid", "semaglutide": "sˌɛməɡlˈutId", "Metformin": "mɛtfˈɔɹmən",
    "force majeure": "fˌɔɹs mɑʒˈɜɹ", "Force majeure": "fˌɔɹs mɑʒˈɜɹ", "Sault Sainte Marie": "sˈu sˈAnt məɹˈi",
}  # fmt: skip
FOREIGN = {
    "Brzozowicz": "pl", "Zhuangqiao": "zh", "Yoshinomura": "ja", "Gwynfydd": "cy", "Guiraldez": "es",
    "Montmoureaux": "fr", "Schmölders": "de", "Braghetti": "it", "Nghiễm": "vi",
}  # fmt: skip
# Letters that the tables of several languages got wrong: a first letter with an accent, m before p and b, the weak e of
# German, ng before a vowel in Chinese, the ends of Turkish, Portuguese and Hungarian names.
LETTERS = {
    "Škriniar": "ʃkɹˈiniɑɹ", "Đoković": "ʤˈOkOviʧ", "Rzepa": "ʒˈApə", "Kjeldsen": "ʃˈɛldsən", "Campeau": "kɑmpˈO",
    "Langendorf": "lˈɑŋɡəndɔɹf", "Jianguo": "ʤˌiɛŋɡwˈO", "Ohara": "Ohˈɑɹə", "Topkapı": "tˌOpkəpˈi",
    "Quijote": "kihˈOtA", "Mattarella": "mˌɑtɑɹˈɛlə", "Schiavo": "skiˈɑvO", "Brunello": "bɹunˈɛlO",
}  # fmt: skip
# English names, and those of other languages, that look like one of the tables.
NOT_FOREIGN = (
    "Huzza Gazza Hazzard Azzam Uzzah Joni Toni Kelli Kirghiz Mirza Rhonda Daoist Haig Hutchinson Schenley Ngong"
).split()
PLAIN = {
    "nice": "nˈIs", "Nice": "nˈIs", "job": "ʤˈɑb", "reading": "ɹˈidɪŋ", "polish": "pˈɑlɪʃ",
    "rose": "ɹˈOz", "mobile": "mˈObᵊl", "Washington": "wˈɔʃɪŋtən",
    "Blorgenfield": "blˈɔɹʤənfˌild",
}  # fmt: skip


def tokens(http: httpx.Client, word: str, lang: str = "en-US") -> list[dict[str, Any]]:
    """What the service makes of `word` in a sentence."""
    result = http.post("/convert", json={"text": f"Well, {word} left it.", "lang": lang}).raise_for_status().json()
    found: list[dict[str, Any]] = result["tokens"][2:-3]
    return found


def said(found: list[dict[str, Any]]) -> str:
    return "".join(token["phonemes"] + token["whitespace"] for token in found).strip()


def test_the_table_is_sorted_and_has_each_name_once() -> None:
    names = [line.split("\t")[0] for line in LINES]
    assert sorted(LINES) == LINES
    assert len(names) == len(set(names)) > 4_000


def test_every_name_has_sounds_that_the_model_knows_and_a_main_stress() -> None:
    for line in LINES:
        name, *columns = line.split("\t")
        assert 1 <= len(columns) <= 2, line
        for sounds in columns:
            assert model_symbols().issuperset(sounds), line
            assert "ˈ" in sounds, line
            assert len(sounds.split(" ")) == len(name.split(" ")), line
            assert all(word.count("ˈ") <= 1 for word in sounds.split(" ")), line


def test_names_are_said_as_in_the_table(http: httpx.Client) -> None:
    assert {name: said(tokens(http, name)) for name in SAID} == SAID


def test_names_are_said_the_british_way_too(http: httpx.Client) -> None:
    names = {"Joaquin": "wakˈiːn", "Porsche": "pˈɔːʃə", "Renault": "ɹˈɛnQ", "Erdogan": "ˈɛːdəwˌɑːn"}
    assert {name: said(tokens(http, name, "en-GB")) for name in names} == names


def test_a_token_says_that_it_was_read_as_a_name(http: httpx.Client) -> None:
    for name in ("Huawei", "Huawei's", "Nguyen-Smith", "Des Moines"):
        assert {token.get("read_as") for token in tokens(http, name)} == {"name"}, name
    assert "read_as" not in tokens(http, "nice")[0]


@pytest.mark.parametrize("name", FOREIGN)
def test_a_name_that_no_lexicon_has_is_read_by_its_language(http: httpx.Client, name: str) -> None:
    assert [token.get("read_as") for token in tokens(http, name)] == [FOREIGN[name]]


def test_letters_of_other_languages_are_said_as_a_newsreader_says_them(http: httpx.Client) -> None:
    assert {name: said(tokens(http, name)) for name in LETTERS} == LETTERS


def test_names_that_only_look_foreign_are_not_read_by_a_table(http: httpx.Client) -> None:
    found = {name: tokens(http, name)[0].get("read_as") for name in NOT_FOREIGN}
    assert not {name: read_as for name, read_as in found.items() if read_as}


def test_words_that_are_no_names_stay_as_they_are(http: httpx.Client) -> None:
    found = {word: tokens(http, word) for word in PLAIN}
    assert {word: said(each) for word, each in found.items()} == PLAIN
    assert not [word for word, each in found.items() if any("read_as" in token for token in each)]


def test_phonemes_in_the_text_come_first(http: httpx.Client) -> None:
    assert said(tokens(http, "[Huawei](/hjˈuə/)")) == "hjˈuə"
