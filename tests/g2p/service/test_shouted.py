"""Case is not meaning: a shouted line sounds as it does in ordinary prose, with the real G2P."""

from __future__ import annotations

import httpx
import pytest

from kokoro_server.languages import EN_US
from kokoro_server.text.spoken import speak

SAME = {
    "JOIN US TODAY": "join us today",
    "CONTACT US NOW": "contact us now",
    "US TROOPS LEAVE IRAQ": "U.S troops leave iraq",
    "NASA LAUNCHES NEW ROCKET": "NASA launches new rocket",
    "FBI ARRESTS TWO MEN IN NYC": "FBI arrests two men in NYC",
    "WHO SAID THAT?": "who said that?",
    "WHO CHIEF WARNS OF NEW VIRUS": "W.H.O chief warns of new virus",
    "SEND IT TO THE IT DEPARTMENT": "send it to the I.T department",
    "POPE JOHN PAUL II DIES": "pope john paul the second dies",
    "ACT III, SCENE I": "act three, scene one",
    "FREE WI-FI AND PARKING": "free wi-fi and parking",
    "HE IS THE MAN WITH A VAN": "he is the man with a van",
    "AUGUST IS HERE, SUV OR NOT": "August is here, SUV or not",
    "WHAT AN OLD ACT": "what an old act",
    "IT'S A TRAP, I'M SURE": "it's a trap, I'm sure",
    "BUY NEW LED TV TODAY": "buy new L.E.D TV today",
    "LED LIGHTS ON SALE": "L.E.D lights on sale",
    "HE LED THE TEAM TO VICTORY": "he led the team to victory",
    "NEW USB-C CABLES IN STOCK": "new U.S.B-C cables in stock",
    "SAT SCORES FALL AGAIN": "S.A.T scores fall again",
    "SHE SAT BY THE TV": "she sat by the TV",
}


@pytest.mark.parametrize("text", SAME)
def test_a_shouted_line_sounds_as_in_ordinary_prose(http: httpx.Client, text: str) -> None:
    texts = [speak(text, EN_US), SAME[text]]
    shouted, prose = http.post("/convert/batch", json={"texts": texts}).raise_for_status().json()["results"]
    assert _bare(shouted["phonemes"]) == _bare(prose["phonemes"])


def _bare(phonemes: str) -> str:
    return phonemes.replace("ˈ", "").replace("ˌ", "")
