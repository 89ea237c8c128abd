"""`POST /v1/text-to-dialogue`: turns in several voices, streamed or whole, with or without the times of characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse

from kokoro_server.api.captioned import event_audio, json_clip_response
from kokoro_server.api.compat.elevenlabs import output_formats, stock_voices
from kokoro_server.api.compat.elevenlabs.alignment import Alignment, Characters
from kokoro_server.api.compat.elevenlabs.schemas import (
    CharacterAlignment,
    DialogueBody,
    DialogueWithTimestamps,
    VoiceSegment,
    request_fields,
    spoken_language,
)
from kokoro_server.api.compat.elevenlabs.speech import LINES, MAX_LINE_AUDIO, SPOKEN, OutputFormatName, error_line
from kokoro_server.api.compat.lenient import LenientRequest
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.api.speech import RequestTimeout, clip_response
from kokoro_server.api.state import get_services
from kokoro_server.api.streaming import NDJSON, Events, RenderedSegments, event_stream, stream_response
from kokoro_server.audio.encode import Output
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.clip import Clip

router = APIRouter(prefix="/v1/text-to-dialogue", tags=["ElevenLabs"])


@dataclass(frozen=True, slots=True)
class _Asked:
    request: TTSRequest
    body: DialogueBody

    def text(self) -> str:
        """Of all turns, as the times of words refer to it."""
        return self.request.speech().written

    def input_of(self, word: Timing) -> int:
        end = 0
        for index, each in enumerate(self.body.inputs):
            end += len(each.text) + 1  # a line break
            if word.char_start < end:
                return index
        return len(self.body.inputs) - 1

    def segments(self, words: Iterable[Timing], first: int = 0) -> Iterator[VoiceSegment]:
        """The turns of these words. `first` is the offset of the first character of their alignment."""
        for index, group in groupby(words, self.input_of):
            own = list(group)
            yield VoiceSegment(
                voice_id=self.body.inputs[index].voice_id,
                start_time_seconds=own[0].start,
                end_time_seconds=own[-1].end,
                character_start_index=max(own[0].char_start - first, 0),
                character_end_index=own[-1].char_end - first,
                dialogue_input_index=index,
            )


async def _asked(body: DialogueBody, request: Request, output_format: OutputFormatName = None) -> _Asked:
    request.scope["model"] = body.model_id or "-"  # for the log
    output = output_formats.parse(output_format)
    services = get_services(request)
    names = {each.voice_id for each in body.inputs}
    voices = {name: await stock_voices.hold(name, body.model_id, services) for name in names}
    turns = [
        {
            "text": each.text,
            "voice": voices[each.voice_id].name,
            "language": spoken_language(body.language_code, voices[each.voice_id]),
        }
        for each in body.inputs
    ]
    fields = request_fields(voices[body.inputs[0].voice_id], body, None, output)
    return _Asked(LenientRequest(**fields | {"language": None, "turns": turns}), body)


AskedDialogue = Annotated[_Asked, Depends(_asked)]


@router.post("", response_class=Response, responses=SPOKEN)
async def convert(asked: AskedDialogue, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a dialogue and answer with the whole clip."""
    return await clip_response(asked.request, request, timeout)


@router.post("/stream", response_class=StreamingResponse, responses=SPOKEN)
async def stream(asked: AskedDialogue, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a dialogue and send the audio as it is made."""
    return await stream_response(asked.request, request, timeout)


@router.post("/with-timestamps", response_model=DialogueWithTimestamps)
async def with_timestamps(asked: AskedDialogue, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a dialogue and return the time of each character and of each turn."""
    return await json_clip_response(request, asked.request, timeout, partial(_timestamps, asked))


@router.post("/stream/with-timestamps", response_model=DialogueWithTimestamps, responses=LINES)
async def stream_with_timestamps(asked: AskedDialogue, request: Request, timeout: RequestTimeout = None) -> Response:
    """Speak a dialogue and send the audio as it is made, one JSON object a line. Times count from the audio's start."""
    return await event_stream(request, asked.request, timeout, NDJSON, partial(_events, asked), error_line)


def _timestamps(asked: _Asked, clip: Clip, _output: Output) -> DialogueWithTimestamps:
    characters = Characters(asked.text())
    characters.say(clip.words)
    aligned = _aligned(characters.align_sentence(clip.seconds))
    turns = list(asked.segments(clip.words))
    return DialogueWithTimestamps(
        audio_base64="", alignment=aligned, normalized_alignment=aligned, voice_segments=turns
    )


async def _events(asked: _Asked, segments: RenderedSegments) -> Events:
    samples, first, characters = 0, 0, Characters(asked.text())
    async with aclosing(segments):
        async for segment, data in segments:
            samples += len(segment.audio)
            characters.say(segment.words)
            seconds = samples / SAMPLE_RATE
            alignment = characters.align_sentence(seconds) if segment.last else characters.align_words(seconds)
            turns = [turn.model_dump() for turn in asked.segments(segment.words, first)]
            for audio in event_audio(data, MAX_LINE_AUDIO):
                aligned = alignment.seconds() if alignment else None
                times = {"alignment": aligned, "normalized_alignment": aligned}
                yield {"audio_base64": audio, **times, "voice_segments": turns}
                first += len(alignment.characters) if alignment else 0
                alignment, turns = None, []


def _aligned(alignment: Alignment | None) -> CharacterAlignment | None:
    return CharacterAlignment.model_validate(alignment.seconds()) if alignment else None
