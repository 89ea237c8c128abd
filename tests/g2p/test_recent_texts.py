from __future__ import annotations

from kokoro_server import languages
from kokoro_server.g2p.recent_texts import KEPT_SECONDS, LONGEST_KEPT, MOST_KEPT, RecentTexts
from kokoro_server.g2p.result import G2PResult


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


def add(recent: RecentTexts, *texts: str) -> None:
    recent.add(texts, languages.EN_US, [G2PResult(text) for text in texts])


def known(recent: RecentTexts, *texts: str) -> bool:
    found = recent.get(texts, languages.EN_US)
    assert found is None or [result.phonemes for result in found] == list(texts)
    return found is not None


def test_all_texts_are_known_or_none() -> None:
    recent = RecentTexts()
    add(recent, "one", "two")
    assert known(recent, "two", "one", "two")
    assert not known(recent, "one", "three")


def test_only_short_texts_are_kept() -> None:
    recent = RecentTexts()
    add(recent, "x" * LONGEST_KEPT, "x" * (LONGEST_KEPT + 1))
    assert known(recent, "x" * LONGEST_KEPT)
    assert not known(recent, "x" * (LONGEST_KEPT + 1))


def test_the_texts_that_were_used_last_are_kept() -> None:
    recent = RecentTexts()
    add(recent, *(str(number) for number in range(MOST_KEPT)))
    assert known(recent, "0")
    add(recent, "another")
    assert known(recent, "0")
    assert not known(recent, "1")
    assert known(recent, "2")


def test_a_text_is_read_again_after_some_minutes_however_often_it_is_used() -> None:
    clock = Clock()
    recent = RecentTexts(clock)
    add(recent, "OK")
    for _ in range(9):
        clock.time += KEPT_SECONDS / 10
        assert known(recent, "OK")
    clock.time += KEPT_SECONDS / 10
    assert not known(recent, "OK")
