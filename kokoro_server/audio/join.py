"""Joins the pieces of one utterance into one signal, with natural gaps and no clicks at the seams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kokoro_server.audio.sound import Sound
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, Audio
from kokoro_server.text.pieces import Ending


def _samples(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE)


# From the end of speech to its next beginning, in seconds at speed 1, as the model leaves it inside one call. Measured
# in three voices at -50 dB: 0.31-0.51 s after a sentence of ordinary length, 0.04-0.22 s at a comma, 0.27-0.41 s at a
# semicolon or colon. Within a clause it leaves none; the value is the room that the margins below need.
GAPS: dict[Ending, float] = {"sentence": 0.40, "clause": 0.18, "none": 0.08}

# The model's silence lies 55 dB or more under its loudest speech. The faintest onsets (θ in a breathy voice) do too, up
# to 70 ms before a frame that is louder; releases are over after 30 ms.
SILENCE = 10 ** (-50 / 10)  # threshold, as a share of the loudest frame's power
FRAME = _samples(0.005)
# The same text in a larger batch gives samples that differ by rounding. The power is smoothed and the bounds lie on the
# model's own frames, so that rounding moves a bound in hardly any text, and with it the length of a clip.
STEP = SAMPLES_PER_FRAME
ONSET_MARGIN = _samples(0.080)  # kept before the first frame of speech
RELEASE_MARGIN = _samples(0.050)  # kept after the last one
FADE = _samples(0.005)
FADE_IN: Audio = (0.5 - 0.5 * np.cos(np.pi * np.arange(FADE) / FADE)).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Trimmed:
    """The sound to play next. `sound.audio[i]` is sample `i + offset` of the piece."""

    sound: Sound
    offset: int  # samples cut from the front minus samples of the gap: negative if the gap is longer


class Joiner:
    """Takes pieces and pauses in order, returns samples to play. The outer ends of a clip stay unchanged.

    The silence after a piece waits until its successor is known: another piece (then a gap by how the text ends),
    a pause (of exactly the length asked for, between the margins of the speech on either side) or the end.
    """

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed  # of the next piece
        self._silence = Sound.silence(0)  # after the last piece's speech
        self._gap: int | None = None  # samples between that speech and the next; None before the first piece

    def add(self, sound: Sound, *, ends: Ending, last: bool = False) -> Trimmed:
        """`ends` is how the text of this piece ends. The `last` piece keeps its end, and nothing may follow it."""
        if last and self._gap is None:
            return Trimmed(sound, 0)
        begin, end = speech_bounds(sound.audio)
        if last:
            end = len(sound)
        if self._gap is None:
            played, offset = sound.between(0, end), 0
        else:
            played, offset = self._joined(sound.between(0, end), begin, self._gap), begin - self._gap
        self._silence = sound.between(end, len(sound)).copy()
        self._gap = max(_samples(GAPS[ends] / self.speed), ONSET_MARGIN)
        return Trimmed(played, offset)

    def pause(self, seconds: float) -> Sound:
        """The release margin of the piece before, faded out, and then exactly the silence asked for."""
        edge = self._silence.replaced(faded_out(self._silence.audio[:RELEASE_MARGIN]))
        self._silence, self._gap = Sound.silence(0), ONSET_MARGIN
        silence = Sound.silence(_samples(seconds))
        return Sound.join([edge, silence]) if len(edge) else silence

    def finish(self) -> Sound:
        """The unchanged end of the last piece; nothing may be added after."""
        return self._silence

    def _joined(self, sound: Sound, begin: int, gap: int) -> Sound:
        """The gap and the speech from `begin` on. The margins of both sides overlap in the gap."""
        edge = faded_out(self._silence.audio[: max(gap - ONSET_MARGIN, RELEASE_MARGIN)])
        first = max(0, begin - ONSET_MARGIN)
        intact = min(max(first + FADE, begin + len(edge) - gap), len(sound))  # from here on the samples are the model's
        onset = faded_in(sound.audio[first:intact])
        seam = np.zeros(gap + intact - begin, np.float32)
        seam[: len(edge)] = edge
        seam[len(seam) - len(onset) :] += onset
        return Sound.join([sound.replaced(seam), sound.between(intact, len(sound))])


def speech_bounds(audio: Audio) -> tuple[int, int]:
    """The samples where speech begins and ends, in whole STEPs. Enough silence is left at the end for a fade-out."""
    last = max(0, len(audio) - FADE)
    whole = len(audio) // FRAME * FRAME
    frames = audio[:whole].reshape(-1, FRAME)
    power = _smoothed(np.einsum("ij,ij->i", frames, frames))
    loud = np.flatnonzero(power > power.max(initial=0.0) * SILENCE) * FRAME
    if not len(loud):
        return 0, last
    # Outwards; but the outermost frames are loud only because the power is smoothed.
    begin = (int(loud[0]) + FRAME) // STEP * STEP
    end = -(-int(loud[-1]) // STEP) * STEP
    return begin, min(max(begin, end), last)


def _smoothed(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """Over each frame and its neighbours."""
    padded = np.pad(power, 1)
    return ((padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4).astype(np.float32)


def faded_in(audio: Audio) -> Audio:
    faded = audio.copy()
    length = min(FADE, len(faded))
    faded[:length] *= FADE_IN[:length]
    return faded


def faded_out(audio: Audio) -> Audio:
    return faded_in(audio[::-1])[::-1]
