"""Subtitles: readable lines in step with the words, and files that players can read."""

from __future__ import annotations

import html
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_server.synthesis.captions import MAX_LINE, MAX_SECONDS, Cue, Timing, cues, srt, vtt

MARKUP = re.compile(r"\[pause:[^\]]*\]|\[([^\]]*)\]\(/[^)]*/\)")


def timed(text: str, word_seconds: float = 0.3, pause: float = 0.0, phrase: bool = False) -> list[Timing]:
    """Each word takes the same time; `pause` follows each one that ends a sentence."""
    timings: list[Timing] = []
    now = 0.2
    for match in re.finditer(r"\[(\w+)\]\(/[^)]*/\)|\[pause:(\d+)s\]|\w+(?:['’.]\w+)*", text):
        if match[2]:
            now += int(match[2])
            continue
        timings.append(Timing(match.group(), now, now + word_seconds, match.start(), match.end(), phrase))
        now += word_seconds + (pause if text[match.end() : match.end() + 1] in ".!?" else 0.0)
    return timings


def plain(text: str) -> str:
    """What is to be read, without markup and any white space."""
    return re.sub(r"\s", "", MARKUP.sub(lambda match: match[1] or "", text))


def parse(data: str) -> list[Cue]:
    """A strict reader of both kinds of files."""
    assert not data or (data.endswith("\n") and not data.endswith("\n\n"))
    blocks = data.removesuffix("\n").split("\n\n") if data else []
    is_vtt = data.startswith("WEBVTT\n")
    if is_vtt:
        assert blocks.pop(0).strip() == "WEBVTT"
    found = []
    for number, block in enumerate(blocks, 1):
        lines = block.split("\n")
        if not is_vtt:
            assert lines.pop(0) == str(number)
        point = r"\." if is_vtt else ","
        times = re.fullmatch(
            rf"(\d\d+):([0-5]\d):([0-5]\d){point}(\d\d\d) --> (\d\d+):([0-5]\d):([0-5]\d){point}(\d\d\d)", lines[0]
        )
        assert times is not None, lines[0]
        h1, m1, s1, ms1, h2, m2, s2, ms2 = map(int, times.groups())
        start, end = ((h * 3600 + m * 60 + s) * 1000 + ms for h, m, s, ms in ((h1, m1, s1, ms1), (h2, m2, s2, ms2)))
        text = "\n".join(lines[1:])
        found.append(Cue(start / 1000, end / 1000, html.unescape(text) if is_vtt else text))
    return found


def assert_readable(made: list[Cue]) -> None:
    for cue in made:
        lines = cue.text.split("\n")
        assert 1 <= len(lines) <= 2
        assert all(0 < len(line) <= MAX_LINE and line == line.strip() for line in lines)
        assert cue.start < cue.end
    for before, after in pairwise(made):
        assert before.end <= after.start


TEXT = (
    "It was late, and the harbour lay quiet. Dr. Smith said: “We leave at 3.15 sharp!” Nobody answered him; the men "
    "had heard such words before, in other towns, and had learned to wait until somebody important lost his patience."
)


def test_sentences_and_clauses_end_cues() -> None:
    assert [cue.text for cue in cues(timed(TEXT), TEXT)] == [
        "It was late, and the harbour lay quiet.",
        "Dr. Smith said: “We leave at 3.15 sharp!”",
        "Nobody answered him; the men had heard\nsuch words before, in other towns,",
        "and had learned to wait until\nsomebody important lost his patience.",
    ]


def test_cues_are_shown_while_they_are_spoken() -> None:
    timings = timed(TEXT, pause=0.4)
    made = cues(timings, TEXT)
    assert made[0].start == pytest.approx(timings[0].start)
    spoken_at = {timing.text: timing for timing in timings}
    assert made[1].start == pytest.approx(spoken_at["Dr"].start, abs=0.001)
    assert made[0].end == pytest.approx(spoken_at["quiet"].end, abs=0.001)


def test_markup_is_not_shown_and_pauses_end_cues() -> None:
    text = "Say [Kokoro](/kˈOkəɹO/), please. [pause:2s] And [pause:1s]then [tomato](/təmˈɑːtoʊ/)[pause:3s]again"
    made = cues(timed(text), text)
    assert [cue.text for cue in made] == ["Say Kokoro, please.", "And", "then tomato", "again"]
    assert made[1].start - made[0].end > 1.0


def test_timing_of_the_word_inside_its_markup() -> None:
    text = "Say [Kokoro](/kˈOkəɹO/) now."
    start = text.index("Kokoro")
    timings = [Timing("Say", 0, 1, 0, 3, False), Timing("Kokoro", 1, 2, start, start + 6, False)]
    timings.append(Timing("now", 2, 3, text.index("now"), text.index("now") + 3, False))
    assert [(cue.text, cue.start, cue.end) for cue in cues(timings, text)] == [("Say Kokoro now.", 0.0, 3.0)]


def test_signs_without_sound_stay_with_their_words() -> None:
    text = "  “Stop” — he said 🙂.\n\n*** (Quietly, of course…)"
    made = cues(timed(text, word_seconds=0.5), text)
    assert [cue.text for cue in made] == ["“Stop” — he said 🙂.", "*** (Quietly, of course…)"]
    assert made[1].start == pytest.approx(1.7)


def test_a_moment_of_a_sentence_stays_with_the_next_one() -> None:
    text = "No. I will not go there again, whatever they say."
    assert [cue.text for cue in cues(timed(text), text)] == ["No. I will not go there again,\nwhatever they say."]


def test_short_cue_stands_a_second_if_it_can() -> None:
    text = "Go. Now."
    timings = [Timing("Go", 1.0, 1.2, 0, 2, False), Timing("Now", 2.1, 2.3, 4, 7, False)]
    assert [(cue.start, cue.end) for cue in cues(timings, text)] == [(1.0, 2.0), (2.1, 3.1)]
    closer = [Timing("Go", 1.0, 1.1, 0, 2, False), Timing("Now", 1.95, 2.3, 4, 7, False)]
    assert [(cue.start, cue.end) for cue in cues(closer, text)] == [(1.0, 1.95), (1.95, 2.95)]


def test_slow_speech_is_cut_by_time() -> None:
    text = "one two three four five six seven eight"
    made = cues(timed(text, word_seconds=2.0), text)
    assert all(cue.end - cue.start <= MAX_SECONDS for cue in made)
    assert " ".join(cue.text.replace("\n", " ") for cue in made) == text


def test_phrases_are_cut_in_proportion() -> None:
    text = (
        "La estación estaba vacía cuando llegamos, porque el último tren había salido media hora antes de la tormenta."
    )
    made = cues([Timing(text, 1.0, 9.0, 0, len(text), True)], text)
    assert_readable(made)
    assert made[0].start == 1.0
    assert made[-1].end == 9.0
    assert made[0].text.endswith("llegamos,")
    share = text.index("porque") / len(text)
    assert made[1].start == pytest.approx(1.0 + 8.0 * share, abs=0.1)


def test_text_without_spaces_is_cut_between_its_characters() -> None:
    sentence = "彼は「もう一度やってみよう」と言ったが、誰もすぐには返事をしなかったので、仕方なく一人で出かけた"
    text = sentence * 2 + "。" + "今日はいい天気ですね。"
    end = len(sentence) * 2 + 1
    made = cues(
        [Timing(text[:end], 0.0, 20.0, 0, end, True), Timing(text[end:], 20.3, 22.0, end, len(text), True)], text
    )
    assert_readable(made)
    assert made[-1].text == "今日はいい天気ですね。"
    assert "".join(cue.text for cue in made).replace("\n", "") == text
    for cue in made:
        for line in cue.text.split("\n"):
            assert line[0] not in "、。」ょっー"
            assert line[-1] not in "「"


def test_words_of_two_scripts_are_not_broken() -> None:
    text = "我们使用PyTorch来训练模型，" * 8
    made = cues([Timing(text, 0, 25, 0, len(text), True)], text)
    assert_readable(made)
    assert sum(line.count("PyTorch") for cue in made for line in cue.text.split("\n")) == 8


def test_an_endless_word_is_cut() -> None:
    text = "See https://example.org/" + "a" * 150 + " now."
    made = cues(timed(text), text)
    assert_readable(made)
    assert plain("".join(cue.text for cue in made)) == plain(text)


def test_several_timings_of_one_word() -> None:
    """A number is one word of the text and many of the speech."""
    text = "In 1984, then."
    timings = [Timing("In", 0.0, 0.2, 0, 2, False)]
    timings += [Timing("1984", 0.2 + i, 1.2 + i, 3, 7, False) for i in range(3)]
    timings.append(Timing("then", 3.2, 3.6, 9, 13, False))
    assert cues(timings, text) == [Cue(0.0, 3.6, "In 1984, then.")]


def test_nothing_spoken_gives_empty_files() -> None:
    assert cues([], "…") == []
    assert srt([]) == ""
    assert vtt([]) == "WEBVTT\n"


def test_srt_form() -> None:
    made = [Cue(0.0, 1.5, "Hello,\nworld."), Cue(3661.007, 360_000.25, "A < B & C")]
    assert srt(made) == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello,\nworld.\n\n2\n01:01:01,007 --> 100:00:00,250\nA < B & C\n"
    )


def test_vtt_form() -> None:
    made = [Cue(0.0, 1.5, "Hello,\nworld."), Cue(3661.007, 3662.0, "A --> B & <c>")]
    assert vtt(made) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello,\nworld.\n\n"
        "01:01:01.007 --> 01:01:02.000\nA --&gt; B &amp; &lt;c&gt;\n"
    )


words = st.text(st.sampled_from("abcdefghij"), min_size=1, max_size=12) | st.just("don't")
marks = st.sampled_from(
    [" "] * 12 + [", ", ". ", "! ", "; ", " — ", "\n\n", "\r\n", " “", "” ", "\u2028", " [pause:2s] ", "\x00 "]
)


@settings(deadline=None, max_examples=150)
@given(parts=st.lists(st.tuples(words, marks), min_size=1, max_size=80), data=st.data(), phrase=st.booleans())
def test_every_word_once_in_order_within_limits(
    parts: list[tuple[str, str]], data: st.DataObject, phrase: bool
) -> None:
    text, timings, now = "", [], 0.0
    for word, mark in parts:
        start = now + data.draw(st.sampled_from([0.0, 0.0, 0.0, 0.05, 1.5]))
        now = start + data.draw(st.sampled_from([0.0, 0.0001, 0.1, 0.3, 0.6, 4.0]))
        timings.append(Timing(word, start, now, len(text), len(text) + len(word), phrase))
        text += word + mark
    made = cues(timings, text)
    assert_readable(made)
    assert re.sub(r"\s", "", "".join(cue.text for cue in made)) == plain(text).replace("\x00", "")
    assert parse(srt(made)) == made
    assert parse(vtt(made)) == made


@settings(deadline=None, max_examples=100)
@given(text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=300), seconds=st.floats(0.0, 40.0))
def test_any_text_makes_files_that_can_be_read(text: str, seconds: float) -> None:
    made = cues([Timing(text, 0.0, seconds, 0, len(text), True)], text)
    assert parse(vtt(made)) == made
    for before, after in pairwise(made):
        assert before.end <= after.start
