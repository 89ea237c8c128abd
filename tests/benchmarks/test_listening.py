"""The measures of what is heard, on clips made up, and the benchmark of them, with the tiny model."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import listening, listening_bench, listening_tables
from benchmarks.serving import speaker
from benchmarks.serving.speaker import Spoken
from kokoro_server.engine.protocol import SAMPLE_RATE

WORDS = "One, two; three. Four"


def syllables(*seconds: float, silence: float = 0.3) -> listening.Clip:
    """Voiced sounds of these lengths, each with soft ends, and silences such as the model's between them."""
    random, parts = np.random.default_rng(1), list[listening.Clip]()
    for length in seconds:
        t = np.arange(int(length * SAMPLE_RATE)) / SAMPLE_RATE
        voice = sum(np.sin(2 * np.pi * 110 * k * t) / k for k in range(1, 20))
        parts += [
            (0.2 * voice * np.sin(np.pi * t / length)).astype(np.float32),
            (2e-5 * random.standard_normal(int(silence * SAMPLE_RATE))).astype(np.float32),
        ]
    return np.concatenate(parts[:-1])


def spoken() -> Spoken:
    """Four words of 0.4 s, each 0.7 s after the one before; the third begins a piece."""
    places = [(0, 3), (5, 8), (10, 15), (17, 21)]
    words = [
        {"text": WORDS[a:b], "start": 0.7 * i, "end": 0.7 * i + 0.4, "char_start": a, "char_end": b}
        for i, (a, b) in enumerate(places)
    ]
    return Spoken(syllables(0.4, 0.4, 0.4, 0.4), words, [2])


def test_a_silence_is_as_long_as_nothing_is_heard() -> None:
    found = listening.silences(syllables(0.4, 0.5, 0.4))
    assert [(end - begin) / SAMPLE_RATE for begin, end in found] == pytest.approx([0.3, 0.3], abs=0.02)
    assert listening.silence_near(found, 0.95, 1.15) == found[1]
    assert listening.silence_near(found, 3, 3.1) is None


def test_speech_that_goes_on_louder_is_a_step() -> None:
    audio = syllables(0.4, 0.4)
    [silence] = listening.silences(audio)
    assert listening.level_step(audio, silence) == pytest.approx(0, abs=0.1)
    audio[silence[1] :] *= 2
    assert listening.level_step(audio, silence) == pytest.approx(6, abs=0.1)


@pytest.mark.parametrize(("place", "size"), [(0.1, 0.5), (0.55, 0.01)], ids=["speech", "silence"])
def test_a_click_is_found_where_it_was_put(place: float, size: float) -> None:
    audio = syllables(0.4, 0.5, 0.4)
    assert listening.clicks(audio) == []
    audio[int(place * SAMPLE_RATE)] += size
    [found] = listening.clicks(audio)
    assert found / SAMPLE_RATE == pytest.approx(place, abs=0.002)


def test_a_tone_that_breaks_off_clicks() -> None:
    audio = (0.3 * np.sin(np.arange(SAMPLE_RATE) / 20)).astype(np.float32)
    crest = int(np.argmax(audio[: SAMPLE_RATE // 2]))
    audio[crest:] = 0
    [found] = listening.clicks(audio)
    assert found == pytest.approx(crest, abs=48)


def test_hiss_and_a_burst_that_goes_on_do_not_click() -> None:
    random, audio = np.random.default_rng(2), syllables(0.4, 0.4)
    audio[12_000:14_000] += 0.05 * random.standard_normal(2_000).astype(np.float32)  # begins at once, as t does
    assert listening.clicks(audio) == []


def test_a_late_clip_is_late_by_its_delay() -> None:
    audio = syllables(0.4, 0.3)
    assert listening.lateness(np.concatenate([np.zeros(500, np.float32), audio]), audio) == 500
    assert listening.lateness(audio[240:], audio) == -240


def test_pauses_go_by_the_mark_and_by_whether_two_pieces_meet_there() -> None:
    found = list(listening_bench.boundaries(WORDS, spoken()))
    assert [(one.mark, one.joined) for one in found] == [("comma", False), ("semicolon", True), ("sentence", False)]
    assert [one.seconds for one in found] == pytest.approx([0.3] * 3, abs=0.02)
    assert listening_bench.mark_in('."\n\n') == "paragraph"
    assert listening_bench.mark_in(" ") is None


def test_a_join_is_compared_with_the_same_place_inside_a_clip() -> None:
    streamed, inside = spoken(), Spoken(spoken().audio, spoken().words, [])
    streamed.audio[int(1.2 * SAMPLE_RATE) :] *= 2
    [(clip, stream)] = listening_bench.steps_in_pairs(WORDS, inside, streamed)
    assert (clip, stream) == (pytest.approx(0, abs=0.1), pytest.approx(6, abs=0.1))


def test_clicks_at_joins_are_counted_apart_from_others() -> None:
    one = spoken()
    one.audio[int(0.2 * SAMPLE_RATE)] += 0.5
    one.audio[int(1.3 * SAMPLE_RATE)] += 0.1
    figures = listening_bench.click_figures(one)
    assert (figures["at_joins"], figures["elsewhere"]) == (1, 1)
    assert figures["largest_step_at_joins"] > 0.09


def test_the_detector_shows_that_it_would_have_found_a_click() -> None:
    figures = listening_bench.click_figures(spoken())
    assert (figures["at_joins"], figures["elsewhere"]) == (0, 0)
    assert figures["inserted_and_found"] == figures["inserted"] == listening_bench.CLICKS_PER_JOIN


def test_the_prose_is_whole_sentences_of_the_book() -> None:
    text = speaker.prose()
    assert speaker.PROSE_WORDS <= len(text.split()) < speaker.PROSE_WORDS + 40
    assert text.startswith("Alice was beginning")
    assert text.endswith('"')
    assert "<" not in text
    assert "Pg" not in text
    assert speaker.paragraphs()[listening_bench.SPEEDS_PARAGRAPH] not in text


def test_parts_that_were_measured_have_tables() -> None:
    machine = {"machine": {"cpu": "Neoverse-N1", "cores": 2}, "server": {"pace": {"real_time_factor": 0.35}}}
    row = {"words": 66, "word_errors": 2, "word_error_rate": 0.0303, "rate": 1.996}
    formats = {
        "whole": {"wav": {"late_ms": 0.0, "longer_ms": 0.0}},
        "streamed": {"mp3": {"late_ms": 1.5, "longer_ms": 48}},
    }
    results = machine | {"speeds": {"voices": {"af_heart": {"2": row}}}, "formats": formats}
    page = listening_tables.listening(results, "[json](listening.json)")
    assert "Neoverse-N1, 2 cores; streams cut for a real-time factor of 0.35" in page
    assert "| 2 | 3.0 %, 2.00 | [json](listening.json) |" in page
    assert "| mp3 |  | 1.5, 48 | [json](listening.json) |" in page
    assert "LUFS" not in page


def test_figures_of_joins_and_of_places_inside_pieces_stand_side_by_side() -> None:
    one = {"count": 3, "median": 0.31, "least": 0.3, "most": 0.35}
    texts = {
        f"{name}, {way}, {label}": {"sentence, join": one}
        for name in ("short", "long")
        for way in listening_tables.WAYS
        for label in ("usual", "set")
    }
    found = {
        "promised_s": {"comma": 0.3, "semicolon": 0.48, "sentence": 0.4, "paragraph": 0.75},
        "heard_s": {"whole": {"comma, inside": one}, "streamed": {"comma, join": one}},
        "asked_for_s": listening_bench.SET_PAUSES,
        "texts": texts,
    }
    page = listening_tables.pauses(found, "x")
    assert "| comma | 0.30 |  | 0.31, 0.35 (3) | 0.31, 0.35 (3) |  | x |" in page
    assert "| end of a sentence | 1.20 | 0.31, 0.31 | 0.31, 0.31 | 0.31, 0.31 | 0.31, 0.31 | x |" in page
