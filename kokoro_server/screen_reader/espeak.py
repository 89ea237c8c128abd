"""espeak-ng, a program of its own, for while the server cannot speak: a screen reader must not fall silent."""

from __future__ import annotations

import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator

from kokoro_server.screen_reader.delivery import SpeechSettings
from kokoro_server.screen_reader.message import ReaderMessage
from kokoro_server.screen_reader.server import AudioPart, Cancelled, CannotSpeak

HEADER = 44  # bytes
CHUNK = 8_192
WORDS_A_MINUTE = 170  # at speed 1


class EspeakProgram:
    def __init__(self, program: str) -> None:
        self._program = shutil.which(program) if program else None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._cancelled = False

    @property
    def is_there(self) -> bool:
        return self._program is not None

    def begin(self) -> None:
        with self._lock:
            self._cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._process:
                self._process.kill()

    def speak(self, message: ReaderMessage, settings: SpeechSettings) -> Iterator[AudioPart]:
        """The sound as it is made. Raises CannotSpeak if the program is missing or fails, or Cancelled."""
        if not self._program:
            raise CannotSpeak("there is no espeak-ng either")
        command = [self._program, "--stdout", "--stdin", "-b", "1", *self._options(settings), *(["-m"] * message.ssml)]
        with self._lock:
            if self._cancelled:
                raise Cancelled
            self._process = process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        assert process.stdin
        assert process.stdout
        try:
            threading.Thread(target=_feed, args=(process, message.text), daemon=True).start()
            header = process.stdout.read(HEADER)
            if len(header) == HEADER:
                (rate,) = struct.unpack_from("<I", header, 24)
                while samples := process.stdout.read(CHUNK):
                    yield AudioPart(samples[: len(samples) & ~1], rate)
        finally:
            with self._lock:
                self._process = None
            process.kill()
            process.stdout.close()
            failed = process.wait()
        if self._cancelled:
            raise Cancelled
        if failed > 0:
            raise CannotSpeak(f"{self._program} ended with {failed}")

    @staticmethod
    def _options(settings: SpeechSettings) -> list[str]:
        pitch = round(50 + settings.semitones * 50 / 12)
        loud = round(100 * 10 ** (settings.decibels / 20))
        words = max(80, min(450, round(WORDS_A_MINUTE * settings.speed)))
        language = ["-v", settings.language] if settings.language.replace("-", "").isalnum() else []
        return [*language, "-s", str(words), "-p", str(pitch), "-a", str(loud)]


def _feed(process: subprocess.Popen[bytes], text: str) -> None:
    assert process.stdin
    try:
        with process.stdin as stdin:
            stdin.write(text.encode())
    except OSError:
        pass  # it has ended
