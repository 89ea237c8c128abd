"""Joins the pieces of one utterance into one signal: natural gaps, trimmed ends, and no clicks at the seams."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kokoro_server.audio.silence import FRAME, frame_power, smoothed
from kokoro_server.audio.sound import Sound
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, Audio
from kokoro_server.text.pauses import NATURAL_PAUSES, Ending, Pauses


def _samples(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE)


LEAD = 0.050  # seconds before the first sound of a clip
TAIL = 0.150  # seconds after its last sound

# The model's silence lies 55 dB or more under its loudest speech. The faintest onsets (θ in a breathy voice) do too, up
# to 70 ms before a frame that is louder; releases are over after 30 ms.
SILENCE = 10 ** (-50 / 10)  # threshold, as a share of the loudest frame's power
# The same text in a larger batch gives samples that differ by rounding. The power is smoothed and the bounds lie on the
# model's own frames, so that rounding moves a bound in hardly any text, and with it the length of a clip.
STEP = SAMPLES_PER_FRAME
# The first sound is heard 35 to 145 ms before the duration of the first phoneme begins, measured in three voices. The
# bounds of that are wider by a frame or two: noise before them is no speech, and a sound within them is, however faint.
# At a slow speed the duration of the pad grows more than the silence: the first sound is heard up to 0.44 of it early.
EARLIEST, LATEST = 8 * STEP, STEP  # samples before the first phoneme
EARLIEST_SHARE = 0.5  # of the pad, if that is more
ONSET_MARGIN = _samples(0.080)  # kept before the first frame of speech
RELEASE_MARGIN = _samples(0.050)  # kept after the last one
FADE = _samples(0.005)
LIMITLESS = 2**62  # samples
FADE_IN: Audio = (0.5 - 0.5 * np.cos(np.pi * np.arange(FADE) / FADE)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Ends:
    """How a clip begins and ends, in seconds. Where the model leaves less silence than that, more is added."""

    lead: float = LEAD  # before its first sound
    tail: float = TAIL  # after its last one


@dataclass(frozen=True, slots=True, eq=False)
class Trimmed:
    """The sound to play next. `sound.audio[i]` is sample `i + offset` of the piece."""

    sound: Sound
    offset: int  # samples cut from the front minus samples of the gap: negative if the gap is longer
    limit: int  # sample of the piece at which its last word has ended
    power: NDArray[np.float32]  # of each frame of the piece


class Joiner:
    """Takes pieces and pauses in order, returns samples to play. Without `ends`, a clip has the model's own ends.

    The silence after a piece waits until its successor is known: another piece (then a gap by how the text ends),
    a pause (of exactly the length asked for, between the margins of the speech on either side) or the end. A pause
    that begins or ends a clip is there in place of the silence of `ends`.
    """

    def __init__(self, ends: Ends | None = None, pauses: Pauses = NATURAL_PAUSES, speed: float = 1.0) -> None:
        self.speed = speed  # of the next piece
        self._ends, self._pauses = ends, pauses
        self._silence: Sound | None = None  # after the last piece's speech; None where no speech came before
        self._gap: int | None = None  # samples between that speech and the next; None before the first piece
        self._given: tuple[int, int] | None = None  # samples of the next piece that `begin` was given, and its offset

    def begin(self, sound: Sound, pad: int) -> Trimmed:
        """The beginning of a piece: all but the silence before its speech. `add` is to be called with the whole."""
        power = frame_power(sound.audio)
        begin, _ = _bounds(power, len(sound), pad)
        head, intact, offset = self._head(sound, begin)
        self._given = len(sound), offset
        return Trimmed(Sound.join([head, sound.between(intact, len(sound))]), offset, LIMITLESS, power)

    def go_on(self, sound: Sound) -> Sound:
        """What `sound`, a longer beginning of the same piece, has more than the one before."""
        assert self._given is not None
        before, offset = self._given
        self._given = max(before, len(sound)), offset
        return sound.between(min(before, len(sound)), len(sound))

    def add(self, sound: Sound, *, ends: Ending, pad: int | None = None, last: bool = False) -> Trimmed:
        """`ends` is how the text of this piece ends. The `last` piece comes with its end, and nothing may follow it.

        `pad` is how many samples the model gives to the silence before the first phoneme.
        """
        power = frame_power(sound.audio)
        if last and self._gap is None and self._ends is None:
            return Trimmed(sound, 0, len(sound), power)
        begin, end = _bounds(power, len(sound), pad)
        if self._given is not None:
            intact, offset = self._given
            self._given, end = None, max(end, intact)
            parts = []
        else:
            head, intact, offset = self._head(sound.between(0, end), begin)
            parts = [head] if len(head) else []
        speech, after = sound.between(0, end), sound.between(end, len(sound))
        parts.append(speech.between(intact, len(speech)))
        if last:
            parts.append(self._closed(after))
        self._silence = None if last else after.copy()
        self._gap = max(_samples(self._pauses.after(ends) / self.speed), ONSET_MARGIN)
        if self._ends is not None:
            limit = end + min(RELEASE_MARGIN, _samples(self._ends.tail))
        else:
            limit = len(sound) if last else end + RELEASE_MARGIN  # the rest of its silence is not heard
        return Trimmed(Sound.join(parts), offset, limit, power)

    def _head(self, speech: Sound, begin: int) -> tuple[Sound, int, int]:
        """What stands before the speech, from where on its samples are the model's, and the offset."""
        if self._gap is not None:
            return *self._joined(speech, begin, self._gap), begin - self._gap
        if self._ends is not None:
            return self._opened(speech, begin, self._ends.lead)
        return Sound.silence(0), 0, 0

    def pause(self, seconds: float) -> Sound:
        """The release margin of the piece before, faded out, and then exactly the silence asked for."""
        before, silence = self._silence, Sound.silence(_samples(seconds))
        self._silence, self._gap = None, ONSET_MARGIN
        if before is None or not len(before):
            return silence
        return Sound.join([before.replaced(faded_out(before.audio[:RELEASE_MARGIN])), silence])

    def finish(self) -> Sound:
        """The end of the last piece; nothing may be added after."""
        return Sound.silence(0) if self._silence is None else self._closed(self._silence)

    def _opened(self, speech: Sound, begin: int, lead: float) -> tuple[Sound, int, int]:
        """The lead of a clip, from where on its samples are the model's, and its offset."""
        offset = begin - max(_samples(lead), FADE)
        first = max(0, offset)
        intact = min(first + FADE, len(speech))
        onset = speech.replaced(faded_in(speech.audio[first:intact]))
        return Sound.join([Sound.silence(first - offset), onset]) if offset < 0 else onset, intact, offset

    def _closed(self, after: Sound) -> Sound:
        """The end of a clip, of the silence `after` its speech."""
        if self._ends is None:
            return after
        wanted = max(_samples(self._ends.tail), FADE)
        kept = min(wanted, len(after))
        fade = max(0, kept - FADE)
        edge = after.replaced(faded_out(after.audio[fade:kept]))
        return Sound.join([after.between(0, fade), edge, Sound.silence(wanted - kept)])

    def _joined(self, speech: Sound, begin: int, gap: int) -> tuple[Sound, int]:
        """The gap before the speech, in which the margins of both overlap, and where the model's samples begin."""
        before = Sound.silence(0).audio if self._silence is None else self._silence.audio
        edge = faded_out(before[: max(gap - ONSET_MARGIN, RELEASE_MARGIN)])
        first = max(0, begin - ONSET_MARGIN)
        intact = min(max(first + FADE, begin + len(edge) - gap), len(speech))
        onset = faded_in(speech.audio[first:intact])
        seam = np.zeros(gap + intact - begin, np.float32)
        seam[: len(edge)] = edge
        seam[len(seam) - len(onset) :] += onset
        return speech.replaced(seam), intact


def speech_bounds(audio: Audio, pad: int | None = None) -> tuple[int, int]:
    """The samples where speech begins and ends, in whole STEPs. Enough silence is left at the end for a fade-out.

    `pad`, the samples before the first phoneme by the model's durations, bounds where speech can begin.
    """
    return _bounds(frame_power(audio), len(audio), pad)


def _bounds(power: NDArray[np.float32], samples: int, pad: int | None) -> tuple[int, int]:
    last = max(0, samples - FADE)
    power = smoothed(power)
    loud = np.flatnonzero(power > power.max(initial=0.0) * SILENCE) * FRAME
    if not len(loud):
        return 0, last
    # Outwards; but the outermost frames are loud only because the power is smoothed.
    begin = (int(loud[0]) + FRAME) // STEP * STEP
    if pad is not None:
        earliest = max(EARLIEST, math.ceil(EARLIEST_SHARE * pad / STEP) * STEP)
        begin = max(0, min(max(begin, pad - earliest), pad - LATEST))
    end = -(-int(loud[-1]) // STEP) * STEP
    return begin, min(max(begin, end), last)


def faded_in(audio: Audio) -> Audio:
    faded = audio.copy()
    length = min(FADE, len(faded))
    faded[:length] *= FADE_IN[:length]
    return faded


def faded_out(audio: Audio) -> Audio:
    return faded_in(audio[::-1])[::-1]
