"""One message that is being spoken: its events, in the order in which Speech Dispatcher plays them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kokoro_server.screen_reader import message as messages
from kokoro_server.screen_reader.delivery import SpeechSettings
from kokoro_server.screen_reader.espeak import EspeakProgram
from kokoro_server.screen_reader.message import ReaderMessage
from kokoro_server.screen_reader.server import AudioPart, Cancelled, CannotSpeak, EmptyText, ServerConnection

CHUNK = 4_800  # bytes, a tenth of a second: so often STOP and PAUSE are looked at
LONGEST = 5_000  # characters of one request
OWN_MARKS = "__spd_"  # Speech Dispatcher's, at the ends of sentences: from one of them a paused message goes on

_ESCAPE, _FLIP = 0x7D, 0x20
_ESCAPES = {bytes([byte]): bytes([_ESCAPE, byte ^ _FLIP]) for byte in (_ESCAPE, 0x0A)}


@dataclass
class Speaking:
    """A thread that speaks a message. `compose` makes it there, because it may ask the server for names of signs."""

    compose: Callable[[], ReaderMessage]
    settings: SpeechSettings
    voice: str
    server: ServerConnection
    espeak: EspeakProgram
    send: Callable[[bytes], None]
    _stopped: threading.Event = field(default_factory=threading.Event)
    _paused: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="speaking", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """At once; it returns before the last event is sent."""
        if self._ended:
            return  # the server's connection is kept
        self._stopped.set()
        self.server.cancel()
        self.espeak.cancel()

    def pause(self) -> None:
        """At the next of Speech Dispatcher's marks, or at the end."""
        self._paused.set()

    def has_ended(self, after: float) -> bool:
        """Whether it has, waiting up to `after` seconds for it."""
        self._thread.join(after)
        return not self._thread.is_alive()

    def _run(self) -> None:
        self._has_begun = False
        try:
            last = self._speak()
        except BrokenPipeError:
            return  # Speech Dispatcher has gone
        except Exception as error:  # whatever it is, Speech Dispatcher waits for an end
            _log(f"{type(error).__name__}: {error}")
            last = b"702 END\n"
        self._ended = True
        try:
            self._begin()
            self.send(last)
        except BrokenPipeError:
            pass

    def _speak(self) -> bytes:
        """The last event."""
        try:
            for part in messages.split(self.compose(), LONGEST):
                if self._spoken(part):
                    return b"704 PAUSE\n"
            return b"702 END\n"
        except Cancelled:
            return b"703 STOP\n"

    def _spoken(self, message: ReaderMessage) -> bool:
        """True if a pause has ended it."""
        marks, sent = list(message.marks), 0  # samples
        for sound in self._sounds(message):
            self._begin()
            timed = sound.words
            position = 0
            while marks and (at := next((time for time, offset in timed if offset >= marks[0][0]), None)) is not None:
                place = max(position, (round(at * sound.rate) - sent) * 2)
                self._play(sound.samples[position:place], sound.rate)
                position = min(place, len(sound.samples))
                if self._pass(marks.pop(0)[1]):
                    return True
            self._play(sound.samples[position:], sound.rate)
            sent += len(sound.samples) // 2
        return any(self._pass(name) for _, name in marks)

    def _sounds(self, message: ReaderMessage) -> Iterator[AudioPart]:
        """Of the server; of espeak-ng if that cannot begin."""
        if message.is_empty:
            return
        begun = False
        try:
            voices = self.server.voices()
            fields = self.settings.fields(voices, self.voice or self.server.default_voice)
            for sound in self.server.speak(message, fields):
                begun = True
                yield sound
        except EmptyText:
            return
        except CannotSpeak as error:
            if self._stopped.is_set():
                raise Cancelled from error
            _log(str(error))
            if not begun:
                yield from self.espeak.speak(message, self.settings)

    def _play(self, samples: bytes, rate: int) -> None:
        for start in range(0, len(samples), CHUNK):
            if self._stopped.is_set():
                raise Cancelled
            self.send(audio_event(samples[start : start + CHUNK], rate))

    def _pass(self, mark: str) -> bool:
        """Reports a mark. True if the message is to pause there."""
        if self._stopped.is_set():
            raise Cancelled
        self._begin()
        self.send(f"700-{' '.join(mark.split())}\n700 INDEX MARK\n".encode())
        return self._paused.is_set() and mark.startswith(OWN_MARKS)

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self.send(b"701 BEGIN\n")


def audio_event(samples: bytes, rate: int) -> bytes:
    """Samples for Speech Dispatcher to play. Line ends in them are escaped, as HDLC does."""
    data = samples.replace(b"\x7d", _ESCAPES[b"\x7d"]).replace(b"\n", _ESCAPES[b"\n"])
    head = (
        f"705-bits=16\n705-num_channels=1\n705-sample_rate={rate}\n"
        f"705-num_samples={len(samples) // 2}\n705-big_endian=0\n705-AUDIO\0"
    )
    return head.encode() + data + b"\n705 AUDIO\n"


def _log(text: str) -> None:
    """Speech Dispatcher keeps it in the module's log file."""
    sys.stderr.write(f"kokoro: {text}\n")
    sys.stderr.flush()
