"""The WebSocket `/v2/speak`: Deepgram's protocol of turns (Flux).

A turn is what an agent says at once: the client's `Speak` messages up to a `Flush`, which completes it, or an
`Interrupt`, which drops what is unsent. The server sends `Connected`, and for each turn `SpeechStarted`, its audio,
`Flushed` and `SpeechMetadata`; or `SpeechInterrupted`, with the text before and after the place that was heard last.
`Configure` changes the speed. `Close` speaks the rest; then the server sends `SessionMetadata` and closes.
"""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

from fastapi import APIRouter, WebSocket
from pydantic import BaseModel, Field, TypeAdapter

from kokoro_server import __version__
from kokoro_server.api.agents import sockets
from kokoro_server.api.agents.session import SessionSentence
from kokoro_server.api.agents.text import DeliveryOptions
from kokoro_server.api.compat.deepgram.routes import model_uuid
from kokoro_server.api.compat.deepgram.schemas import MAX_SPEED, MIN_SPEED, DeepgramMessage, SocketParameters
from kokoro_server.api.compat.deepgram.websocket import HARMLESS, DeepgramListener, open_conversation
from kokoro_server.errors import BadRequest, InvalidInput, TextTooLong
from kokoro_server.observability.logs import request_id
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.utterance import Segment

router = APIRouter()

MAX_TURNS = 1_000  # of which something is unsent: an empty one has no characters that could count
MAX_OFFSET = 10**9  # ms, eleven days
KEPT_TURNS = 20  # that are sent, and may still be interrupted: the client plays them later
NO_CONTROLS = {"pronunciations_applied": 0, "breaks_applied": 0, "pronunciation_warnings": 0}


class PlaybackOffset(BaseModel):
    type: Literal["time_ms"] = "time_ms"
    value: int = Field(ge=0, le=MAX_OFFSET)


class TurnMessage(DeepgramMessage):
    """`Configure` has a speed."""

    playback_offset: PlaybackOffset | None = None
    speed: float | None = Field(None, allow_inf_nan=False)


MESSAGE = TypeAdapter(TurnMessage)


@dataclass(slots=True)
class FluxTurn:
    id: str = field(default_factory=lambda: f"dg_sp_{secrets.token_hex(6)}")
    text: str = ""
    flushed: bool = False  # by the client
    started: bool = False
    end: float = 0.0  # seconds of the session at which its audio ends, as far as it is sent
    seconds: float = 0.0
    read: int = 0  # characters of `text` in the sentences that have begun
    words: list[tuple[float, int]] = field(default_factory=list)  # when each begins, and the place in `text` at its end

    def metadata(self) -> JsonObject:
        return {
            "speech_id": self.id,
            "audio_duration_ms": round(1000 * self.seconds),
            "input_character_count": len(self.text),
            "billable_character_count": len(self.text),
            "controls_applied": NO_CONTROLS,
        }

    def heard(self, offset: float) -> int:
        """How many characters were spoken before `offset`, a word that had begun included."""
        return max((place for begin, place in self.words if begin < offset), default=0)


@router.websocket("/v2/speak")
async def speak_turns(socket: WebSocket) -> None:
    """The top of this module describes the protocol."""
    await open_conversation(socket, SocketParameters, _Conversation)


class _Conversation(DeepgramListener):
    """`_turns` are those of which something is unsent. The last one may still get text."""

    def __init__(self, socket: WebSocket, delivery: DeliveryOptions) -> None:
        super().__init__(socket, delivery)
        self._turns = deque[FluxTurn]()
        self._sent = deque[FluxTurn](maxlen=KEPT_TURNS)
        self._played = -1.0  # seconds of the session that the last Interrupt named
        self._base = 0.0  # seconds of the session before the last Interrupt
        self._seconds = 0.0  # of audio in the session
        self._characters = 0

    async def run(self) -> None:
        """Runs until the connection ends, which raises WebSocketDisconnect."""
        async with self.speaking():
            await self._text.use(self._delivery)
            voice = self._text.voice
            await self.send(
                "Connected",
                request_id=request_id.get(),
                model_name=voice,
                model_version=__version__,
                model_uuids=[model_uuid(voice)],
            )
            await sockets.answer_messages(self._socket, MESSAGE, self._handle, self._send_error)

    async def _handle(self, message: TurnMessage) -> None:
        if message.type in HARMLESS:
            return
        if self._session.closing and message.type != "Interrupt":
            raise BadRequest("the connection is closing; only Interrupt is still accepted")
        if message.type == "Speak":
            await self._speak(message.text)
        elif message.type == "Flush":
            await self._flush()
        elif message.type == "Interrupt":
            await self._interrupt(message.playback_offset)
        elif message.type == "Configure":
            await self._configure(message.speed)
        elif message.type == "Close":
            if self._open_turn():
                await self._flush()
            self._session.close()
        else:
            known = "Speak, Flush, Interrupt, Configure and Close"
            await self._send_warning(
                "UNKNOWN_TYPE", f"ignored a message of type {message.type!r}; known types are {known}"
            )

    def _open_turn(self) -> FluxTurn | None:
        return self._turns[-1] if self._turns and not self._turns[-1].flushed else None

    async def _speak(self, text: str | None) -> None:
        if text is None:
            raise InvalidInput("text: is required", field="text")
        turn = self._open_turn()
        if turn is None:
            if len(self._turns) >= MAX_TURNS:
                raise TextTooLong(f"{MAX_TURNS} turns wait to be spoken; no more may wait", field="text")
            turn = FluxTurn()
            self._turns.append(turn)
        turn.text += text
        try:
            await self._text.append_message(text)
        except Exception:
            turn.text = turn.text[: len(turn.text) - len(text)]
            raise
        self._characters += len(text)

    async def _flush(self) -> None:
        turn = self._open_turn()
        if turn is None:
            await self._send_warning("NO_ACTIVE_SPEECH", "there is no text to flush")
            return
        turn.flushed = True
        await self._text.flush()

    async def _configure(self, speed: float | None) -> None:
        if speed is not None and not MIN_SPEED <= speed <= MAX_SPEED:
            text = f"speed must be from {MIN_SPEED} to {MAX_SPEED}"
            await self.send("ConfigureFailure", code="SPEED_OUT_OF_RANGE", field="speed", value=speed, description=text)
            return
        if speed is not None:
            self._delivery = self._delivery.model_copy(update={"speed": speed})
            await self._text.use(self._delivery)
        await self.send("ConfigureSuccess", applied={"speed": self._delivery.speed})

    async def _interrupt(self, offset: PlaybackOffset | None) -> None:
        """Drops all that is unsent, later turns too: their listener has begun to speak."""
        made = self._base + self._seconds
        played = made if offset is None else min(offset.value / 1000, made)
        active = [*(turn for turn in self._sent if offset and turn.end > played), *self._turns]
        if not active:
            await self._send_warning("NO_ACTIVE_SPEECH", "nothing is being spoken")
        elif not made:
            await self._send_warning("NO_AUDIO_GENERATED", "there is no audio yet")
        elif played <= self._played:
            await self._send_warning(
                "INVALID_INTERRUPT_OFFSET", f"playback_offset must be over {round(1000 * self._played)} ms"
            )
        else:
            await self._text.cancel()
            await self.send("SpeechInterrupted", **_interruption(active[0], played, offset is not None))
            self._turns.clear()
            self._sent.clear()
            self._played = self._base = played
            self._seconds = 0.0

    async def on_start(self, sentence: SessionSentence) -> None:
        turn = self._turns[0]
        place = turn.text.find(sentence.text, turn.read)
        turn.read = (turn.read if place < 0 else place) + len(sentence.text)
        if not turn.started:
            turn.started = True
            await self.send("SpeechStarted", speech_id=turn.id)

    async def on_words(self, sentence: SessionSentence, segment: Segment, offset: float) -> None:
        turn, begin = self._turns[0], self._base + offset
        sentence_begin = max(turn.read - len(sentence.text), 0)
        turn.words += ((begin + word.start, sentence_begin + word.char_end) for word in segment.words)

    async def on_audio(self, data: bytes, seconds: float) -> None:
        turn = self._turns[0]
        self._seconds += seconds
        turn.seconds += seconds
        turn.end = self._base + self._seconds
        await super().on_audio(data, seconds)

    async def on_flushed(self) -> None:
        turn = self._turns.popleft()
        if not turn.seconds:
            await self._send_warning("NO_SYNTHESIZABLE_TEXT", "nothing of the turn's text can be said")
        await self.send("Flushed", speech_id=turn.id)
        await self.send("SpeechMetadata", **turn.metadata())
        self._sent.append(turn)

    async def on_end(self) -> None:
        await self.send(
            "SessionMetadata",
            total_audio_duration_ms=round(1000 * (self._base + self._seconds)),
            total_input_character_count=self._characters,
            total_billable_character_count=self._characters,
        )
        await super().on_end()


def _interruption(turn: FluxTurn, played: float, is_known: bool) -> dict[str, Any]:
    texts = {}
    if is_known:
        heard = turn.heard(played)
        texts = {"text_spoken": turn.text[:heard], "text_remaining": turn.text[heard:]}
    return {"audio_played_ms": round(1000 * played), **texts, "metadata": turn.metadata()}
