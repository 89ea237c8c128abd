"""Clips, how loud they are, and what Whisper hears in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine.protocol import SAMPLE_RATE

Clip = NDArray[np.float32]
FULL = 32_767


def level(audio: Clip) -> float:
    """Root mean square, in dB."""
    return float(10 * np.log10(np.mean(np.square(audio, dtype=np.float64))))


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
