"""Streaming encoders, one for each way of writing samples. Each serves one stream, from one thread at a time."""

from __future__ import annotations

import contextlib
import io
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import IO

import numpy as np
import soundfile

from kokoro_server.audio.audible import silent_lead
from kokoro_server.audio.wav import PACK, SampleFormat, pcm32
from kokoro_server.engine.protocol import Audio
from kokoro_server.errors import EngineError, Unavailable
from kokoro_server.runtime.subprocesses import popen_python

AAC_BIT_RATE = 96_000
LAST_WORDS = 1.0  # seconds for an encoder that has closed its pipe to exit with its own status
RETRY_AFTER = 1.0  # seconds


class Encoder(ABC):
    """Takes samples in order and returns the bytes that are ready."""

    @abstractmethod
    def write(self, audio: Audio) -> bytes: ...

    @abstractmethod
    def finish(self) -> bytes:
        """The last bytes; nothing may be written after."""

    def close(self) -> None:  # noqa: B027 - most encoders hold nothing
        """Release what an unfinished encoder holds."""


class PcmEncoder(Encoder):
    """wav and pcm: one header, which may be empty, then samples, whatever the number of writes."""

    def __init__(self, sample_format: SampleFormat, head: bytes = b"") -> None:
        self._pack = PACK[sample_format]
        self._head = head

    def write(self, audio: Audio) -> bytes:
        return self.finish() + self._pack(audio)

    def finish(self) -> bytes:
        head, self._head = self._head, b""
        return head


class OnTimeEncoder(Encoder):
    """Keeps sounds in their place, although the codec puts `delay` samples of silence before the first one.

    It leaves out as many samples of the silence that the audio begins with. If that silence is shorter, all sounds are
    late by the rest.
    """

    def __init__(self, inner: Encoder, delay: int) -> None:
        self._inner = inner
        self._delay = delay  # samples that may still be left out
        self._left_out = 0

    def write(self, audio: Audio) -> bytes:
        if self._delay:
            silent = silent_lead(audio, self._delay)
            self._delay = self._delay - silent if silent == len(audio) else 0
            self._left_out += silent
            audio = audio[silent:]
        return self._inner.write(audio) if len(audio) else b""

    def finish(self) -> bytes:
        if self._delay:  # no sound has come: a codec without samples would write no file
            return self._inner.write(np.zeros(self._left_out, np.float32)) + self._inner.finish()
        return self._inner.finish()

    def close(self) -> None:
        self._inner.close()


class FileEncoder(Encoder):
    """Writes to a file what another encoder returns."""

    def __init__(self, inner: Encoder, file: IO[bytes], header: Callable[[int], bytes] | None = None) -> None:
        """`header` returns the first bytes of the file again when the number of bytes after them is known."""
        self._inner = inner
        self._file = file
        self._header = header

    def write(self, audio: Audio) -> bytes:
        self._file.write(self._inner.write(audio))
        return b""

    def finish(self) -> bytes:
        self._file.write(self._inner.finish())
        if self._header is not None:
            head = self._header(0)
            written = self._file.tell() - len(head)
            self._file.seek(0)
            self._file.write(self._header(written))
        self._file.flush()
        return b""

    def close(self) -> None:
        self._inner.close()


class SoundfileFileEncoder(Encoder):
    """Formats that libsndfile writes, to a file, with the lengths that it writes into their headers at the end."""

    def __init__(self, open_file: Callable[[io.RawIOBase], soundfile.SoundFile], file: IO[bytes]) -> None:
        self._sink = _FileSink(file)
        self._file = open_file(self._sink)

    def write(self, audio: Audio) -> bytes:
        self._file.write(audio)
        return self._sink.checked()

    def finish(self) -> bytes:
        self._file.close()
        self._sink.flush()
        return self._sink.checked()


class _FileSink(io.RawIOBase):
    """A file that libsndfile writes. An error cannot pass through libsndfile, so it is kept until it can be raised."""

    def __init__(self, file: IO[bytes]) -> None:
        self._target = file
        self._error: Exception | None = None

    def checked(self) -> bytes:
        """Nothing, if there was no error."""
        if self._error is not None:
            raise self._error
        return b""

    def write(self, data: object) -> int:
        chunk = bytes(memoryview(data))  # type: ignore[arg-type]
        self._try(lambda: self._target.write(chunk))
        return len(chunk)

    def flush(self) -> None:
        self._try(self._target.flush)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._try(lambda: self._target.seek(offset, whence))

    def tell(self) -> int:
        return self._try(self._target.tell)

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def _try(self, work: Callable[[], int | None]) -> int:
        try:
            return work() or 0
        except (OSError, ValueError) as error:  # the disk is full; or the file is closed, as its request has ended
            self._error = self._error or error
            return 0


class SoundfileEncoder(Encoder):
    """Formats that libsndfile writes."""

    def __init__(self, open_file: Callable[[io.RawIOBase], soundfile.SoundFile]) -> None:
        """`open_file` opens a sound file on top of the raw file that it gets."""
        self._sink = _Sink()
        self._file = open_file(self._sink)

    def write(self, audio: Audio) -> bytes:
        self._file.write(audio)
        return self._sink.take()

    def finish(self) -> bytes:
        self._file.close()
        return self._sink.take()


class Mp3StreamEncoder(SoundfileEncoder):
    """mp3 whose beginning has been sent before its end is known.

    LAME begins with an empty frame, which libsndfile overwrites with the file's length and delay when all is encoded.
    In a stream it would stay empty, and be played as silence. It is left out.
    """

    def __init__(self, open_file: Callable[[io.RawIOBase], soundfile.SoundFile]) -> None:
        super().__init__(open_file)
        self._empty: bytes | None = b""  # as much of the empty frame as there is; None when it has passed

    def write(self, audio: Audio) -> bytes:
        return self._after_empty(super().write(audio))

    def finish(self) -> bytes:
        return self._after_empty(super().finish())

    def _after_empty(self, data: bytes) -> bytes:
        if self._empty is None:
            return data
        data = self._empty + data
        end = data.find(data[:2], 2)  # all frames begin with the same two bytes, and this one holds zeros
        self._empty = data if end < 0 else None
        return data[end:] if end > 0 else b""


class _Sink(io.RawIOBase):
    """A file that libsndfile writes and whose beginning has already been sent.

    When libsndfile closes a file, it seeks back to write lengths into the header. Sent bytes cannot change, so these
    writes are dropped; all these formats play without the lengths.
    """

    def __init__(self) -> None:
        self._unsent = bytearray()
        self._sent = 0  # bytes
        self._position = 0

    def take(self) -> bytes:
        data = bytes(self._unsent)
        self._sent += len(data)
        self._unsent.clear()
        return data

    def write(self, data: object) -> int:
        chunk = bytes(memoryview(data))  # type: ignore[arg-type]
        start = self._position - self._sent
        self._position += len(chunk)
        if start >= 0:
            self._unsent[start : start + len(chunk)] = chunk
        return len(chunk)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        end = self._sent + len(self._unsent)
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: end}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True


class AacEncoder(Encoder):
    """AAC in ADTS, by a child process: see `kokoro_server.audio.encode` for why."""

    def __init__(self, sample_rate: int, bit_rate: int = AAC_BIT_RATE) -> None:
        environ = {"OPENBLAS_NUM_THREADS": "1"}  # numpy only carries samples there
        try:
            self._process = popen_python("kokoro_server.audio.aac", str(sample_rate), str(bit_rate), environ=environ)
        except OSError as error:  # no descriptors, processes or memory are left
            raise Unavailable(f"no aac encoder can be started: {error.strerror}", retry_after=RETRY_AFTER) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self._ready = bytearray()
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def write(self, audio: Audio) -> bytes:
        try:
            self._stdin.write(pcm32(audio))
            self._stdin.flush()
        except BrokenPipeError:
            self._fail()
        return self._take()

    def finish(self) -> bytes:
        self._stdin.close()
        self._reader.join()
        if self._process.wait() != 0:
            self._fail()
        return self._take()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()

    def _read(self, stdout: IO[bytes]) -> None:
        with stdout:
            while chunk := stdout.read1(65536):  # type: ignore[attr-defined]
                with self._lock:
                    self._ready += chunk

    def _take(self) -> bytes:
        with self._lock:
            data = bytes(self._ready)
            self._ready.clear()
        return data

    def _fail(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LAST_WORDS)
        self.close()
        if self._process.returncode < 0:  # as the system does where memory is short
            raise Unavailable("the aac encoder was killed; try again", retry_after=RETRY_AFTER)
        raise EngineError(
            f"the aac encoder ended with status {self._process.returncode}; is the package 'av' installed?"
        )
