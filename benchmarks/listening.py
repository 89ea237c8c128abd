"""Clips, how loud they are, where they are silent or click, and what Whisper hears in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kokoro_server.audio.audible import AUDIBLE
from kokoro_server.engine.protocol import SAMPLE_RATE

Clip = NDArray[np.float32]
FULL = 32_767

FRAME = SAMPLE_RATE // 200
NEARBY = 0.1  # seconds by which the time of a word may be off the sound
BREATH = SAMPLE_RATE // 8  # samples
BESIDE = 80  # frames on either side of a pause that are compared: 0.4 s, about two syllables

# A click is a millisecond of high frequencies between tens of milliseconds without. The bursts of p, t and k go on as
# breath or voice, and the sounds of s and f last.
CLICK_BLOCK = SAMPLE_RATE // 1000
CLICK_SIDES = range(2, 16)  # blocks before it, and after it
CLICK_RISE = 10 ** (21 / 10)  # of power, over the loudest of them
CLICK_FLOOR = 0.001**2  # mean square of the second difference


def level(audio: Clip) -> float:
    """Root mean square, in dB."""
    return float(10 * np.log10(np.mean(np.square(audio, dtype=np.float64))))


def silences(audio: Clip) -> list[tuple[int, int]]:
    """From which sample to which the frames are more than 45 dB below the loudest one."""
    power = frame_power(audio)
    quiet = np.concatenate([[False], power < AUDIBLE**2 * power.max(), [False]])
    begins, ends = np.flatnonzero(quiet[1:] & ~quiet[:-1]), np.flatnonzero(quiet[:-1] & ~quiet[1:])
    return [(int(begin) * FRAME, int(end) * FRAME) for begin, end in zip(begins, ends, strict=True)]


def frame_power(audio: Clip) -> NDArray[np.float32]:
    frames = audio[: len(audio) // FRAME * FRAME].reshape(-1, FRAME)
    return np.asarray(np.einsum("ij,ij->i", frames, frames) / FRAME)


def silence_near(found: Sequence[tuple[int, int]], begin: float, end: float) -> tuple[int, int] | None:
    """The longest of the silences that touch these seconds, or nearly do. A breath within one does not divide it."""
    first, last = (begin - NEARBY) * SAMPLE_RATE, (end + NEARBY) * SAMPLE_RATE
    joined = list[tuple[int, int]]()
    for one in (one for one in found if one[1] > first and one[0] < last):
        if joined and one[0] - joined[-1][1] <= BREATH:
            joined[-1] = (joined[-1][0], one[1])
        else:
            joined.append(one)
    return max(joined, key=lambda one: one[1] - one[0], default=None)


def level_step(audio: Clip, silence: tuple[int, int]) -> float:
    """By how many dB the speech after a silence is louder than that before it. Frames without a sound do not count."""
    power, (begin, end) = frame_power(audio), (place // FRAME for place in silence)
    floor = AUDIBLE**2 * power.max()
    before, after = power[max(0, begin - BESIDE) : begin], power[end : end + BESIDE]
    return float(10 * np.log10(after[after > floor].mean() / before[before > floor].mean()))


def clicks(audio: Clip) -> list[int]:
    """The samples near which something clicks."""
    sharp = np.square(np.diff(audio.astype(np.float64), 2))
    power = sharp[: len(sharp) // CLICK_BLOCK * CLICK_BLOCK].reshape(-1, CLICK_BLOCK).mean(1)
    padded, most = np.pad(power, CLICK_SIDES.stop), CLICK_SIDES.stop
    sides = [padded[most + shift : most + shift + len(power)] for side in CLICK_SIDES for shift in (side, -side)]
    found = np.flatnonzero((power > CLICK_FLOOR) & (power > CLICK_RISE * np.max(sides, axis=0)))
    firsts = [place for place in found if place - 1 not in found]  # one click may be on the edge of two blocks
    return [int(place) * CLICK_BLOCK for place in firsts]


def lateness(decoded: Clip, audio: Clip) -> int:
    """By how many samples the decoded audio is later than the same audio before it was encoded."""
    size = 1 << (len(decoded) + len(audio)).bit_length()
    product = np.fft.rfft(decoded, size) * np.conj(np.fft.rfft(audio, size))
    place = int(np.argmax(np.fft.irfft(product, size)))
    return place if place < size // 2 else place - size


def dnsmos(audio: Clip) -> dict[str, float] | None:
    """What Microsoft's DNSMOS makes of a clip, from 1 to 5; None without the package `speechmos`."""
    try:
        from speechmos import dnsmos as model
    except ImportError:
        return None
    from tests import asr

    found = model.run(asr.resampled(audio, SAMPLE_RATE).clip(-1, 1), asr.RATE)
    return {name.removesuffix("_mos"): round(float(value), 3) for name, value in found.items()}


def keep(path: Path, clips: Sequence[Clip]) -> None:
    """One file, 16 bits a sample."""
    keep_arrays(path, [(clip.clip(-1, 1) * FULL).round().astype(np.int16) for clip in clips])


def kept(path: Path) -> list[Clip]:
    return [(clip / FULL).astype(np.float32) for clip in kept_arrays(path)]


def once(path: Path, speak: Callable[[], Sequence[Clip]]) -> list[Clip]:
    """The clips of a file; where there is none they are made, and kept for the next time."""
    if not path.exists():
        keep(path, speak())
    return kept(path)


def arrays_once(path: Path, make: Callable[[], Sequence[NDArray[Any]]]) -> list[NDArray[Any]]:
    if not path.exists():
        keep_arrays(path, make())
    return kept_arrays(path)


def keep_arrays(path: Path, arrays: Sequence[NDArray[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **{f"{i:04}": array for i, array in enumerate(arrays)})  # type: ignore[arg-type]


def kept_arrays(path: Path) -> list[NDArray[Any]]:
    with np.load(path) as whole:
        return [whole[name] for name in sorted(whole.files)]


def heard(path: Path) -> list[str]:
    """What Whisper hears in the clips of a file, a line for each; written down beside it, and not heard again."""
    from tests import asr

    written = path.with_suffix(".txt")
    if not written.exists():
        lines = [asr.transcribe(clip, SAMPLE_RATE).strip() for clip in kept(path)]
        written.write_text("\n".join(lines), encoding="utf-8")
    return written.read_text(encoding="utf-8").split("\n")


def compare(heard: Mapping[str, Sequence[str]], reference: str, texts: Sequence[str]) -> dict[str, Any]:
    """Word errors of every engine, and where another is heard than from the reference."""
    from tests import asr

    words = sum(len(asr._words(text)) for text in texts)
    found: dict[str, Any] = {"sentences": len(texts), "words": words, "reference": reference, "engines": {}}
    for name, lines in heard.items():
        errors = sum(asr.word_errors(text, line) for text, line in zip(texts, lines, strict=True))
        other = [
            {"text": text, "reference": one, "heard": line}
            for text, one, line in zip(texts, heard[reference], lines, strict=True)
            if asr._words(one) != asr._words(line)
        ]
        rate = round(errors / words, 4)
        found["engines"][name] = {"word_errors": errors, "word_error_rate": rate, "heard_otherwise": other}
    return found
