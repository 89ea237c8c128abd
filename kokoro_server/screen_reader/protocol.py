"""The protocol of Speech Dispatcher's modules, from 0.11 on: commands on standard input, answers and events on
standard output. The audio goes to Speech Dispatcher, which plays it.

One thread reads commands. Each message has a thread that speaks it, so that STOP is read at any time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

from kokoro_server.screen_reader import message as messages
from kokoro_server.screen_reader.configuration import Configuration
from kokoro_server.screen_reader.delivery import KnownVoice, SpeechSettings
from kokoro_server.screen_reader.espeak import EspeakProgram
from kokoro_server.screen_reader.message import ReaderMessage
from kokoro_server.screen_reader.server import ServerConnection
from kokoro_server.screen_reader.speaking import Speaking

MAX_MESSAGE = 4 << 20  # bytes


class Module:
    """Answers commands until QUIT, or until Speech Dispatcher has gone."""

    def __init__(self, commands: BinaryIO, answers: BinaryIO, configuration: Configuration) -> None:
        self._commands = commands
        self._answers = answers
        self._configuration = configuration
        self._writing = threading.Lock()  # an answer, or an event, is written whole
        self._settings = SpeechSettings()
        self._server = ServerConnection(configuration)  # of the message that is being spoken
        self._catalogue = ServerConnection(configuration)  # asked for the voices meanwhile
        self._espeak = EspeakProgram(configuration.fallback)
        self._speaking: Speaking | None = None

    def run(self) -> None:
        actions: dict[str, Callable[[], None]] = {
            "INIT": self._init,
            "AUDIO": self._audio,
            "LOGLEVEL": self._log_level,
            "SET": self._set,
            "SPEAK": lambda: self._speak(self._text),
            "CHAR": lambda: self._speak(self._character),
            "KEY": lambda: self._speak(self._key),
            "SOUND_ICON": lambda: self._speak(self._icon),
            "STOP": self._stop,
            "PAUSE": self._pause,
        }
        try:
            while (line := self._line()) is not None:
                command = line.strip()
                if command == "QUIT":
                    self._stop()
                    self._send("210 OK QUIT")
                    return
                if command.startswith("LIST VOICES"):
                    self._list_voices(command.split()[2:])
                elif command.startswith("DEBUG"):
                    self._send(f"200 OK DEBUGGING {'ON' if ' ON' in command else 'OFF'}")
                elif action := actions.get(command):
                    action()
                else:
                    self._send("300 ERR UNKNOWN COMMAND")
        except BrokenPipeError:
            pass
        finally:
            self._stop()

    def _init(self) -> None:
        """Succeeds if anything can speak: the server may still be starting."""
        try:
            self._server.voices()
        except Exception as error:
            if not self._espeak.is_there:
                self._send(f"399-{_one_line(error)}", "399 ERR CANT INIT MODULE")
                return
            _log(f"{error}; until it is there, espeak-ng speaks")
        self._send("299-Kokoro Server", "299 OK LOADED SUCCESSFULLY")

    def _log_level(self) -> None:
        values = self._receive("207 OK RECEIVING LOGLEVEL SETTINGS")
        self._send("302 ERROR BAD SYNTAX" if values is None else "203 OK LOGLEVEL SET")

    def _audio(self) -> None:
        wanted = self._receive("207 OK RECEIVING AUDIO SETTINGS")
        if wanted is None or wanted.get("audio_output_method") != "server":
            self._send("300-Speech Dispatcher 0.11 or newer is needed, which plays the sound", "300 MODULE ERROR")
        else:
            self._send("203 OK AUDIO INITIALIZED")

    def _set(self) -> None:
        values = self._receive("203 OK RECEIVING SETTINGS")
        if values is None:
            self._send("302 ERROR BAD SYNTAX")
        elif all(self._settings.set(name, value) for name, value in values.items()):
            self._send("203 OK SETTINGS RECEIVED")
        else:
            self._send("303 ERROR INVALID PARAMETER OR VALUE")

    def _receive(self, invitation: str) -> dict[str, str] | None:
        """The lines `name=value` up to a dot; None if one is not of that form."""
        self._send(invitation)
        values: dict[str, str] = {}
        good = True
        while (line := self._line()) is not None and line != ".":
            name, equals, value = line.partition("=")
            good = good and bool(name and equals)
            values[name] = value
        return values if good else None

    def _list_voices(self, wanted: list[str]) -> None:
        """`wanted`: a language and a variant, or nothing."""
        voices = self._voices(self._catalogue)
        self._catalogue.close()
        if wanted:
            asked = wanted[0].lower()
            voices = [each for each in voices if asked in (each.language.lower(), each.language.lower().split("-")[0])]
        if wanted[1:]:
            voices = [voice for voice in voices if voice.gender == wanted[1].lower()]
        if voices:
            lines = [f"200-{voice.name}\t{voice.language}\t{voice.gender or 'none'}" for voice in voices]
            self._send(*lines, "200 OK VOICE LIST SENT")
        else:
            self._send("304 CANT LIST VOICES")

    def _voices(self, server: ServerConnection) -> list[KnownVoice]:
        """Speech Dispatcher drops a module that lists no voice, so there is one while the server cannot be asked."""
        try:
            return server.voices()
        except Exception as error:
            _log(str(error))
            return [KnownVoice(self._configuration.voice or "af_heart", "en-US", "female")]

    def _speak(self, compose: Callable[[str], ReaderMessage]) -> None:
        self._send("202 OK RECEIVING MESSAGE")
        text = self._message_text()
        if text is None or not text.strip("\n") or (self._speaking and not self._speaking.has_ended(after=2.0)):
            self._send("301 ERROR CANT SPEAK")
            return
        self._server.begin()
        self._espeak.begin()
        settings = SpeechSettings(dict(self._settings.values))
        self._speaking = Speaking(
            lambda: compose(text), settings, self._configuration.voice, self._server, self._espeak, self._event
        )
        with self._writing:
            self._write(b"200 OK SPEAKING\n")
            self._speaking.start()

    def _message_text(self) -> str | None:
        """The lines up to one that is a dot; None if there are too many."""
        lines: list[str] = []
        size = 0
        while (line := self._line()) is not None and line != ".":
            size += len(line.encode())
            if size <= MAX_MESSAGE:
                lines.append(line[1:] if line.startswith(".") else line)
        return "\n".join(lines) if size <= MAX_MESSAGE else None

    def _text(self, text: str) -> ReaderMessage:
        settings = self._settings
        message = messages.parse(text)
        if len(message.text.strip()) == 1 and not message.marks:
            return self._character(message.text)
        if settings.spelling:
            return messages.spelled(message, self._name_of, capital=self._capital())
        if settings.punctuation != "none":
            return messages.punctuated(message, settings.punctuation, self._name_of)
        return message

    def _character(self, text: str) -> ReaderMessage:
        each = messages.parse(text).text if len(text) > 1 else text
        return messages.character(" " if each == "space" else each, self._name_of, capital=self._capital())

    def _key(self, text: str) -> ReaderMessage:
        return messages.key(text, self._name_of)

    def _icon(self, text: str) -> ReaderMessage:
        return ReaderMessage(text.replace("-", " ").replace("_", " "))

    def _capital(self) -> str:
        language = self._settings.language.partition("-")[0].lower() or "en"
        return messages.CAPITALS.get(language, "") if self._settings.names_capitals else ""

    def _name_of(self, sign: str) -> str:
        voice = self._settings.voice(
            self._voices(self._server), self._configuration.voice or self._server.default_voice
        )
        if sign.isspace():
            return "space" if sign == " " else "new line" if sign == "\n" else "tab" if sign == "\t" else "space"
        try:
            name = self._server.name_of(sign, voice.language if voice else "en-US")
        except Exception as error:
            _log(str(error))
            name = ""
        return name or messages.unicode_name(sign)

    def _stop(self) -> None:
        if self._speaking:
            self._speaking.stop()

    def _pause(self) -> None:
        if self._speaking:
            self._speaking.pause()

    def _line(self) -> str | None:
        """The next line without its end; None at the end of the input. Of a line that is too long, the beginning: its
        rest must not be taken for a command."""
        line = rest = self._commands.readline(MAX_MESSAGE + 1)
        while rest and not rest.endswith(b"\n"):
            rest = self._commands.readline(MAX_MESSAGE)
        return line.decode("utf-8", errors="replace").removesuffix("\n") if line else None

    def _send(self, *lines: str) -> None:
        with self._writing:
            self._write("".join(f"{line}\n" for line in lines).encode())

    def _event(self, content: bytes) -> None:
        with self._writing:
            self._write(content)

    def _write(self, content: bytes) -> None:
        self._answers.write(content)
        self._answers.flush()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _log(text: str) -> None:
    """Speech Dispatcher keeps it in the module's log file."""
    sys.stderr.write(f"kokoro: {text}\n")
    sys.stderr.flush()
