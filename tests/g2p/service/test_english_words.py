"""How single English words are said by the real service: those that are not in misaki's lexicon as they are written."""

from __future__ import annotations

import httpx
import pytest

SAID = {
    "en-US": {
        "how're": "hˌWəɹ", "what're": "wˌʌTəɹ", "there're": "ðɛɹəɹ", "that'd": "ðˈæTəd", "who'd've": "hˌudəv",
        "y'all'd've": "jˈɔldəv", "they'd've": "ðAdəv", "daren't": "dˈɛɹᵊnt", "'tis": "tˈɪz", "’twas": "twˈʌz",
        "HOW'RE": "hˈWəɹ", "IBM'S": "ˌIbˌiˈɛmz", "WALKED": "wˈɔkt", "DOGS": "dˈɔɡz", "TOYOTA": "tYˈOTə",
        "ZORBLAX": "zˈɔɹblæks", "HTTPS": "ˌAʧtˌitˌipˌiˈɛs", "UNHCR": "jˌuˌɛnˌAʧsˌiˈɑɹ", "NASA": "nˈæsə",
        "donʼt": "dˈOnt", "OʼBrien": "ObɹˈIən", "Xi'an": "ʃiˈɑn", "coöperate": "kOˈɑpəɹˌAt", "Zürich": "zˈuɹɪk",
        "rosé": "ɹOzˈA", "Москва": "mˈɑskvə", "Hеllo": "həlˈO", "ʜᴇʟʟᴏ": "həlˈO", "Λόγος": "lˈOɡˌOs", "π": "pˈI",
        "sooo": "sˌO", "goood": "ɡˈʊd", "shhh": "ʃˈʃ", "harebrained": "hˈɛɹbɹAnd", "prishear": "pɹˈɪʃɪɹ",
        "ＨＥＬＬＯ": "həlˈO", "𝐇𝐞𝐥𝐥𝐨": "həlˈO", "OpenAI": "ˌOpᵊnˈAˌI", "GitHub": "ɡˌɪthˈʌb",
        "surest": "ʃˈʊɹəst", "unconquering": "ʌŋkˈɑŋkəɹɪŋ",
        "Anna": "ˈænə", "anna": "ˈɑnə", "Maria": "məɹˈiə",
        "head-winds": "hˈɛdwˌɪndz", "row-locks": "ɹˈOlˌɑks", "row-boat": "ɹˈObˌOt", "live-stock": "lˈIvstˌɑk",
        "tear-drops": "tˈɪɹdɹˌɑps", "re-sign": "ɹisˈIn", "pre-sent": "pɹˌisˈɛnt", "Huzza": "həzˈɑ", "Ó": "ˈO",
    },
    "en-GB": {
        "how're": "hˌWə", "where're": "wˌɛːɹə", "there've": "ðɛːɹəv", "that'd": "ðˈatəd", "where'll": "wˈɛːɹᵊl",
        "harebrained": "hˈɛːbɹAnd", "prishear": "pɹˈɪʃɪə", "blarter": "blˈɑːtə", "’twas": "twˈɒz",
    },
}  # fmt: skip


@pytest.mark.parametrize("lang", SAID)
def test_words_that_the_lexicon_does_not_have_as_they_are_written(http: httpx.Client, lang: str) -> None:
    texts = [f"Well, {word} it." for word in SAID[lang]]
    results = http.post("/convert/batch", json={"texts": texts, "lang": lang}).json()["results"]
    said = {
        word: "".join(token["phonemes"] for token in result["tokens"][2:-2])
        for word, result in zip(SAID[lang], results, strict=True)
    }
    assert said == SAID[lang]


def test_a_long_word_is_said_to_its_end_and_comes_back_as_it_was(http: httpx.Client) -> None:
    text = "So " + "cat-" * 300 + "dog and (" + "a.b" * 100 + ")."
    result = http.post("/convert", json={"text": text}).json()
    assert "".join(token["text"] + token["whitespace"] for token in result["tokens"]) == text
    assert result["phonemes"].count("kˈæt") + result["phonemes"].count("kˌæt") == 300
    assert "dˈɔɡ" in result["phonemes"]
