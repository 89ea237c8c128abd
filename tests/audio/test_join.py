"""Seams: no click, no speech lost, natural gaps, exact pauses, the same in one go as piece by piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kokoro_server.assets.library import Assets
from kokoro_server.audio import wav
from kokoro_server.audio.join import (
    FADE,
    LEAD,
    ONSET_MARGIN,
    RELEASE_MARGIN,
    STEP,
    TAIL,
    Ends,
    Joiner,
    Trimmed,
    speech_bounds,
)
from kokoro_server.audio.sound import Sound
from kokoro_server.engine import devices, vocab
from kokoro_server.engine.protocol import SAMPLE_RATE, Pcm16, Row
from kokoro_server.text.pauses import NATURAL_PAUSES, Ending, Pauses
from kokoro_server.voices import VoiceBook

Audio = NDArray[np.float32]
ENDINGS = get_args(Ending)
DEFAULT_ENDS = Ends()


def samples(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE)


def noise(seconds: float, decibels: float, seed: int = 0) -> Audio:
    drawn = np.random.default_rng(seed).standard_normal(samples(seconds))
    return (drawn * 10 ** (decibels / 20)).astype(np.float32)


def voiced(seconds: float) -> Audio:
    t = np.arange(samples(seconds)) / SAMPLE_RATE
    return (0.3 * np.sin(2 * np.pi * 180 * t + 1.0)).astype(np.float32)


def spoken(before: float = 0.35, speech: float = 0.5, after: float = 0.45) -> Audio:
    """A voice between two silences with a little noise in them, as the model makes it."""
    return np.concatenate([noise(before, -75), voiced(speech), noise(after, -75)])


@dataclass
class Clip:
    audio: Audio
    pieces: list[tuple[int, Audio, Trimmed]]  # where each came to lie, the piece, and what was made of it


def join(parts: list[tuple[Audio, Ending] | float], speed: float = 1.0) -> Clip:
    joiner = Joiner(speed=speed)
    out: list[Audio] = []
    pieces: list[tuple[int, Audio, Trimmed]] = []
    for part in parts:
        place = sum(map(len, out))
        if isinstance(part, float):
            out.append(joiner.pause(part).audio)
        else:
            trimmed = joiner.add(Sound(part[0]), ends=part[1])
            pieces.append((place - trimmed.offset, part[0], trimmed))
            out.append(trimmed.sound.audio)
    return Clip(np.concatenate([*out, joiner.finish().audio]), pieces)


def loud_edges(audio: Audio) -> tuple[int, int]:
    loud = np.flatnonzero(np.abs(audio) > 0.01)
    return int(loud[0]), int(loud[-1]) + 1


def silence_between(clip: Clip) -> int:
    """Samples from the end of the first piece's speech to the beginning of the second's."""
    (first, a, _), (second, b, _) = clip.pieces
    return second + loud_edges(b)[0] - first - loud_edges(a)[1]


def largest_step(audio: Audio) -> float:
    return float(np.abs(np.diff(audio)).max(initial=0.0))


def assert_smooth_seam(clip: Clip) -> None:
    """No step between the speech of two pieces is larger than the steps of the silences it was made of."""
    (first, a, _), (second, b, _) = clip.pieces
    end, begin = loud_edges(a)[1], loud_edges(b)[0]
    gap = clip.audio[first + end : second + begin]
    assert largest_step(gap) <= largest_step(a[end:]) + largest_step(b[:begin])


def test_one_piece_is_left_as_it_is() -> None:
    piece = spoken()
    assert np.array_equal(join([(piece, "sentence")]).audio, piece)


def test_outer_ends_are_left_as_they_are() -> None:
    first, last = spoken(before=0.6), spoken(after=0.9)
    audio = join([(first, "sentence"), (spoken(), "comma"), (last, "sentence")]).audio
    assert np.array_equal(audio[: samples(1.0)], first[: samples(1.0)])
    assert np.array_equal(audio[-samples(1.2) :], last[-samples(1.2) :])


@pytest.mark.parametrize("ends", ENDINGS)
def test_gap_depends_on_how_the_text_ends(ends: Ending) -> None:
    gap = silence_between(join([(spoken(), ends), (spoken(), "sentence")]))
    assert gap == pytest.approx(samples(NATURAL_PAUSES.after(ends)), abs=samples(0.011))


def test_gap_is_kept_where_the_model_left_less_silence() -> None:
    gap = silence_between(join([(spoken(after=0.06), "sentence"), (spoken(before=0.02), "sentence")]))
    assert gap == pytest.approx(samples(NATURAL_PAUSES.sentence), abs=STEP)


def test_fast_speech_has_shorter_gaps() -> None:
    parts: list[tuple[Audio, Ending] | float] = [(spoken(), "sentence"), (spoken(), "sentence")]
    assert silence_between(join(parts, speed=2.0)) == pytest.approx(
        samples(NATURAL_PAUSES.sentence / 2), abs=samples(0.011)
    )


@pytest.mark.parametrize("seconds", [0.0, 0.3, 1.00003, 30.0])
def test_pause_is_exact_to_the_sample(seconds: float) -> None:
    first, second = spoken(), spoken()
    joiner = Joiner()
    joiner.add(Sound(first), ends="sentence")
    pause = joiner.pause(seconds).audio
    after = joiner.add(Sound(second), ends="sentence")
    assert len(pause) == RELEASE_MARGIN + samples(seconds)
    assert not pause[RELEASE_MARGIN:].any()
    assert after.offset == pytest.approx(samples(0.35) - ONSET_MARGIN, abs=samples(0.006))


def test_pauses_add_up_and_may_begin_and_end_a_clip() -> None:
    joiner = Joiner()
    assert np.array_equal(joiner.pause(0.5).audio, np.zeros(samples(0.5), np.float32))
    joiner.add(Sound(spoken()), ends="sentence")
    assert len(joiner.pause(0.5)) == RELEASE_MARGIN + samples(0.5)
    assert np.array_equal(joiner.pause(0.25).audio, np.zeros(samples(0.25), np.float32))
    assert len(joiner.finish()) == 0


def test_the_offset_locates_each_word() -> None:
    clip = join([(spoken(0.3), "comma"), 0.7, (spoken(0.5), "none"), (spoken(0.02), "sentence")])
    for place, piece, _ in clip.pieces:
        first, last = loud_edges(piece)
        assert np.array_equal(clip.audio[place + first + 200 : place + last], piece[first + 200 : last])


@pytest.mark.parametrize("fricative", [-45.0, -52.0])
def test_weak_sounds_at_the_edges_survive(fricative: float) -> None:
    """60 ms of faint noise before and 30 ms after the voice, far under its level of -13 dB."""
    word = np.concatenate(
        [noise(0.3, -85), noise(0.06, fricative, 1), voiced(0.4), noise(0.03, fricative, 2), noise(0.4, -85)]
    )
    clip = join([(spoken(), "none"), (word, "none"), (spoken(), "sentence")])
    place, _, _ = clip.pieces[1]
    first, last = samples(0.31), samples(0.3 + 0.06 + 0.4 + 0.025)
    heard = clip.audio[place + first : place + last]
    assert np.abs(heard - word[first:last]).max() < 10 ** (-60 / 20)  # only the neighbours' noise was added


@pytest.mark.parametrize("ends", ENDINGS)
def test_no_step_at_a_seam_even_without_any_silence(ends: Ending) -> None:
    clip = join([(voiced(0.4), ends), (voiced(0.31), ends), 0.1, (voiced(0.2), ends)])
    assert largest_step(clip.audio) <= 1.1 * largest_step(voiced(0.4))


@pytest.mark.parametrize("ends", ENDINGS)
def test_seams_in_noise_are_no_rougher_than_the_noise(ends: Ending) -> None:
    assert_smooth_seam(join([(spoken(), ends), (spoken(), "sentence")]))


@pytest.mark.parametrize("length", [0, 1, 50, 119, 120, 240])
def test_tiny_and_silent_pieces_are_no_trouble(length: int) -> None:
    tiny = noise(1.0, -20)[:length]
    silent = np.zeros(length, np.float32)
    clip = join([(tiny, "none"), (silent, "comma"), (spoken(), "none"), (tiny, "sentence"), (silent, "sentence")])
    assert np.isfinite(clip.audio).all()
    assert len(clip.audio) >= samples(0.5)


def test_pieces_that_come_in_are_not_changed() -> None:
    pieces = [spoken(), spoken()]
    originals = [piece.copy() for piece in pieces]
    join([(pieces[0], "none"), (pieces[1], "none"), 1.0])
    assert all(np.array_equal(piece, original) for piece, original in zip(pieces, originals, strict=True))


@pytest.mark.real
def test_real_speech_loses_nothing_and_has_no_click(assets: Assets) -> None:
    """θ and f at the seam, in a voice that barely breathes them."""
    phonemes: list[tuple[str, Ending]] = [("hˌi hˈɜɹd hɜɹ lˈæf,", "comma"), ("θˈɪn lˈivz fˈɛl ˈɔf", "none")]
    voices = VoiceBook(assets.voices)
    rows = [Row(tokens, voices.style("af_sky", len(tokens))) for tokens in (vocab.tokenize(p) for p, _ in phonemes)]
    audios = [result.audio for result in devices.load_all(assets.weights, ["cpu"])[0].synthesize(rows)]
    clip = join([(audio, ends) for audio, (_, ends) in zip(audios, phonemes, strict=True)])

    for place, piece, _ in clip.pieces:
        inside = clip.audio[max(0, place) : place + len(piece)]
        kept = piece[max(0, -place) :][: len(inside)]
        floor = np.abs(piece).max() * 10 ** (-45 / 20)
        loud = np.abs(piece) > floor
        assert not loud[: len(piece) - len(kept)].any()
        assert np.abs(inside - kept)[np.abs(kept) > floor].max() < floor

    assert_smooth_seam(clip)


def test_the_last_piece_comes_with_its_end() -> None:
    first, last = Sound(spoken()), Sound(spoken())
    plain, short = Joiner(), Joiner()
    wanted = [plain.add(first, ends="sentence").sound, plain.add(last, ends="sentence").sound, plain.finish()]
    found = [short.add(first, ends="sentence").sound, short.add(last, ends="sentence", last=True).sound, short.finish()]
    assert np.array_equal(Sound.join(wanted).audio, Sound.join(found).audio)
    assert not len(found[-1])
    assert Joiner().add(first, ends="sentence", last=True).sound is first


def ready(audio: Audio) -> Sound:
    """A sound as from an engine that makes 16-bit samples."""
    return Sound(audio, Pcm16(np.frombuffer(wav.pcm16(audio), np.int16), float(np.abs(audio).max(initial=0.0))))


def joined(parts: list[tuple[Sound, Ending] | float], speed: float) -> list[Sound]:
    joiner, out = Joiner(speed=speed), list[Sound]()
    for number, part in enumerate(parts, 1):
        if isinstance(part, float):
            out.append(joiner.pause(part))
        else:
            out.append(joiner.add(part[0], ends=part[1], last=number == len(parts)).sound)
    return [*out, joiner.finish()]


ODD = (
    *(spoken(), spoken(before=0.0, after=0.0), spoken(before=0.02, after=0.01), spoken(before=1.0, after=0.05)),
    *(
        4 * spoken(),
        noise(0.5, -3),
        noise(0.7, -90),
        voiced(0.3),
        np.zeros(3000, np.float32),
        -np.zeros(50, np.float32),
    ),
    *(np.zeros(0, np.float32), np.ones(1, np.float32), np.full(700, -1.5, np.float32), np.eye(1, 9000, 4000)[0]),
)
sounds = st.tuples(st.sampled_from([ready(audio.astype(np.float32)) for audio in ODD]), st.sampled_from(ENDINGS))


@settings(deadline=None)
@given(st.lists(sounds | st.sampled_from([0.0, 0.001, 0.3]), min_size=1, max_size=6), st.sampled_from([0.5, 1.0, 4.0]))
def test_the_engines_16_bit_samples_are_joined_as_the_audio_is(
    parts: list[tuple[Sound, Ending] | float], speed: float
) -> None:
    for sound in (*(out := joined(parts, speed)), Sound.join(out)):
        assert sound.pcm16 is not None
        assert sound.pcm16.samples.tobytes() == wav.pcm16(sound.audio)
        assert sound.pcm16.peak >= np.abs(sound.audio).max(initial=0.0)


def test_only_the_seams_are_converted_again() -> None:
    sentinel = Sound(spoken(), Pcm16(np.full(len(spoken()), 1234, np.int16), 0.3))
    out = Sound.join(joined([(sentinel, "sentence"), (sentinel, "comma"), (sentinel, "sentence")], 1.0))
    assert out.pcm16 is not None
    seams = samples(NATURAL_PAUSES.sentence + NATURAL_PAUSES.comma)
    assert 0 < np.count_nonzero(out.pcm16.samples != 1234) <= seams + 2 * samples(0.011)


def test_without_16_bit_samples_of_every_piece_there_are_none() -> None:
    for one, other in ((ready(spoken()), Sound(spoken())), (Sound(spoken()), ready(spoken()))):
        assert Sound.join(joined([(one, "sentence"), 0.2, (other, "sentence")], 1.0)).pcm16 is None


@pytest.mark.parametrize("seed", range(100))
def test_rounding_does_not_move_a_cut(seed: int) -> None:
    """A batch changes a row's samples by rounding; once that made a clip 5 ms shorter in a crowd than alone."""
    drawn = np.random.default_rng(seed)
    begin, length, fall = drawn.integers(2_000, 12_000), drawn.integers(8_000, 30_000), drawn.uniform(0.005, 0.03)
    rise, release = (np.exp(-np.arange(9_600) / SAMPLE_RATE / each) for each in (fall / 2, fall))
    envelope = np.concatenate([np.zeros(begin), rise[::-1], np.ones(length), release, np.zeros(4_000)])
    voice = envelope * drawn.standard_normal(len(envelope)) * 0.1 + drawn.standard_normal(len(envelope)) * 1e-5
    exact = speech_bounds(voice.astype(np.float32))
    for _ in range(5):
        rounded = voice * (1 + 0.01 * drawn.standard_normal(len(voice)))
        assert speech_bounds(rounded.astype(np.float32)) == exact


def trimmed(audio: Audio, ends: Ends = DEFAULT_ENDS, pad: float | None = None) -> Trimmed:
    before = None if pad is None else samples(pad)
    return Joiner(ends).add(Sound(audio), ends="sentence", pad=before, last=True)


@pytest.mark.parametrize(("before", "after"), [(0.35, 0.5), (0.0, 0.0), (0.01, 0.02), (2.0, 3.0)])
@pytest.mark.parametrize(("lead", "tail"), [(LEAD, TAIL), (0.0, 0.0), (1.0, 2.0)])
def test_a_clip_begins_and_ends_as_was_asked_whatever_the_model_leaves(
    before: float, after: float, lead: float, tail: float
) -> None:
    first, last = loud_edges(found := trimmed(spoken(before, after=after), Ends(lead, tail)).sound.audio)
    assert first == pytest.approx(max(samples(lead), FADE), abs=STEP + FADE)
    assert len(found) - last == pytest.approx(max(samples(tail), FADE), abs=STEP + 2 * FADE)
    assert abs(found[0]) + abs(found[-1]) < 1e-3
    assert largest_step(found) <= 1.1 * largest_step(spoken(before, after=after))


def test_a_first_sound_long_before_its_duration_is_kept_whole() -> None:
    """As it is heard at speed 0.7: 0.295 s early, of a pad of 0.7 s."""
    audio = np.concatenate([noise(0.405, -85), voiced(0.5), noise(0.4, -85)])
    found = trimmed(audio, pad=0.7)
    assert found.offset <= samples(0.405 - LEAD)
    assert np.array_equal(found.sound.audio[FADE : samples(0.2)], audio[found.offset :][FADE : samples(0.2)])


def test_a_faint_first_sound_is_kept_whole() -> None:
    """60 ms of it, at a level that is under the threshold, before the voice."""
    audio = np.concatenate([noise(0.3, -85), noise(0.06, -62, 1), voiced(0.4), noise(0.4, -85)])
    found = trimmed(audio, pad=0.35)
    assert found.offset <= samples(0.3)
    assert np.array_equal(found.sound.audio[FADE : samples(0.2)], audio[found.offset :][FADE : samples(0.2)])


def test_a_sound_too_faint_for_the_threshold_is_found_by_the_durations() -> None:
    audio = np.concatenate([noise(0.3, -85), noise(0.3, -65, 1), voiced(0.4), noise(0.4, -85)])
    assert trimmed(audio).offset > samples(0.5)
    assert trimmed(audio, pad=0.375).offset <= samples(0.3)


def test_noise_long_before_the_first_phoneme_is_not_its_sound() -> None:
    audio = spoken(before=0.6)
    audio[samples(0.1) : samples(0.13)] += noise(0.03, -30)
    assert trimmed(audio).offset < samples(0.1)
    assert trimmed(audio, pad=0.65).offset >= samples(0.25)


def test_a_trimmed_clip_is_the_same_piece_by_piece() -> None:
    first, last = Sound(spoken()), Sound(spoken())
    one, other = Joiner(Ends()), Joiner(Ends())
    wanted = [one.add(first, ends="sentence").sound, one.add(last, ends="sentence").sound, one.finish()]
    found = [other.add(first, ends="sentence").sound, other.add(last, ends="sentence", last=True).sound, other.finish()]
    assert np.array_equal(Sound.join(wanted).audio, Sound.join(found).audio)


def test_a_pause_at_an_end_takes_the_place_of_lead_and_tail() -> None:
    joiner = Joiner(Ends(lead=1.0, tail=1.0))
    assert len(joiner.pause(0.5)) == samples(0.5)
    joiner.add(Sound(spoken()), ends="sentence")
    assert len(joiner.pause(0.25)) == RELEASE_MARGIN + samples(0.25)
    assert len(joiner.finish()) == 0


def test_pauses_are_those_that_were_asked_for() -> None:
    joiner = Joiner(pauses=Pauses(sentence=1.5))
    joiner.add(Sound(spoken()), ends="sentence")
    assert joiner.add(Sound(spoken()), ends="sentence").offset == pytest.approx(samples(0.35 - 1.5), abs=STEP)


def test_the_last_word_ends_within_a_trimmed_clip() -> None:
    found = trimmed(spoken(), Ends(tail=0.02))
    assert found.limit - found.offset <= len(found.sound)


@pytest.mark.parametrize("ends", [None, Ends()], ids=["the model's own ends", "trimmed"])
def test_the_last_word_of_a_piece_ends_before_the_next_piece_begins(ends: Ends | None) -> None:
    joiner = Joiner(ends, Pauses(sentence=0.0))
    first = joiner.add(Sound(spoken(after=1.0)), ends="sentence")
    assert first.limit - first.offset <= len(first.sound) + ONSET_MARGIN
