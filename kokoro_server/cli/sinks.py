"""Where `say` sends its speech: to a file or to a player. Both take 16-bit samples at 24 kHz."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import soundfile

from kokoro_server.audio.encoders import AacEncoder
from kokoro_server.audio.formats import ENCODINGS, SUFFIXES, Format
from kokoro_server.audio.wav import floats, header
from kokoro_server.cli import CommandFailed
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import EngineError
from kokoro_server.runtime.files import UNFINISHED, new_file

Write = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Player:
    """A program that plays its standard input, or a file that is its last argument."""

    command: tuple[str, ...]
    reads: str  # wav or raw from the standard input, or a file

    @property
    def name(self) -> str:
        return "Windows" if self is WINDOWS else self.command[0]


PLAYERS = (
    Player(("ffplay", "-nodisp", "-autoexit", "-loglevel", "error", "-i", "-"), "wav"),
    Player(("mpv", "--no-video", "--really-quiet", "-"), "wav"),
    Player(("paplay", "--raw", "--format=s16le", f"--rate={SAMPLE_RATE}", "--channels=1"), "raw"),
    Player(("aplay", "-q", "-t", "raw", "-f", "S16_LE", "-r", str(SAMPLE_RATE), "-c", "1"), "raw"),
    Player(("play", "-q", "-t", "raw", "-r", str(SAMPLE_RATE), "-e", "signed", "-b", "16", "-c", "1", "-"), "raw"),
    Player(("afplay",), "file"),
)
# Windows has no command that plays; Python has a module for it there.
PLAYS = "import sys, winsound; winsound.PlaySound(sys.argv[1], winsound.SND_FILENAME)"
WINDOWS = Player((sys.executable, "-P", "-c", PLAYS), "file")


def format_of(path: Path) -> Format:
    try:
        return SUFFIXES[path.suffix.lower()]
    except KeyError:
        known = " ".join(SUFFIXES)
        raise CommandFailed(f"{path}: the format is that of the file's suffix, which must be one of {known}") from None


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """`runtime.files.new_file`, with errors in plain words."""
    if path.exists() and not path.is_file():
        raise CommandFailed(f"{path}: exists and is not a file")
    try:
        unfinished = path.with_name(f"{path.name}.{os.getpid()}{UNFINISHED}")
        with new_file(path, unfinished=unfinished, durable=False):
            unfinished.touch()  # so that a folder without write permission is reported in plain words
            yield unfinished
    except OSError as error:
        raise CommandFailed(f"{path}: cannot be written: {error.strerror or error}") from error


@contextmanager
def audio_file(path: Path) -> Iterator[Write]:
    """Encode to a file while the samples arrive. At the end the header has the right lengths."""
    format = format_of(path)
    writers = {"aac": _aac, "pcm": _pcm}
    with atomic_file(path) as unfinished, writers.get(format, _soundfile)(unfinished, format) as write:
        yield write


@contextmanager
def _soundfile(path: Path, format: Format) -> Iterator[Write]:
    container, subtype = ENCODINGS[format].container or "WAV", ENCODINGS[format].subtype or "PCM_16"
    try:
        # The file is opened by name: libsndfile would lose an error that a Python file object raises.
        with soundfile.SoundFile(str(path), "w", SAMPLE_RATE, 1, format=container, subtype=subtype) as file:
            yield lambda pcm: file.buffer_write(pcm, "int16")
    except soundfile.SoundFileError as error:
        raise OSError(f"{str(error).rstrip('.')}; is the disk full?") from error


@contextmanager
def _aac(path: Path, _format: Format) -> Iterator[Write]:
    encoder = AacEncoder(SAMPLE_RATE)
    try:
        with path.open("wb") as file:
            yield lambda pcm: file.write(encoder.write(floats(pcm)))
            file.write(encoder.finish())
    except BaseException:
        with contextlib.suppress(OSError, EngineError):
            encoder.finish()  # ends the encoder's process
        raise


@contextmanager
def _pcm(path: Path, _format: Format) -> Iterator[Write]:
    with path.open("wb") as file:
        yield file.write


def find_player() -> Player:
    found = next((player for player in PLAYERS if shutil.which(player.name)), None)
    if found is None and sys.platform == "win32":
        return WINDOWS
    if found is None:
        names = ", ".join(player.name for player in PLAYERS)
        raise CommandFailed(f"no player is installed ({names}); use -o FILE to write the audio to a file")
    return found


@contextmanager
def playing(player: Player) -> Iterator[Write]:
    """Play the samples while they arrive. The block ends when the last of them has been heard."""
    if player.reads == "file":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "speech.wav"
            with audio_file(path) as write:
                yield write
            with _started(player, str(path)):
                pass
        return
    with _started(player) as stdin:

        def write(pcm: bytes) -> None:
            stdin.write(pcm)
            stdin.flush()

        if player.reads == "wav":
            write(header(SAMPLE_RATE, "pcm_s16le", None))
        yield write


@contextmanager
def _started(player: Player, *arguments: str) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*player.command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # a Ctrl-C in the terminal reaches only this process, which then stops the player
        )
        assert process.stdin
        ended_early = False
        try:
            yield process.stdin
            process.stdin.close()
        except BrokenPipeError:
            ended_early = True
        except BaseException:
            process.kill()
            raise
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            status = process.wait()
        if status or ended_early:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            reason = f": {lines[-1]}" if lines else ""
            raise CommandFailed(
                f"{player.name} ended with status {status} before all was played{reason}; -o FILE writes a file instead"
            )
