"""The request and response bodies of `/voices`."""

from __future__ import annotations

from pydantic import BaseModel, Field

from kokoro_server.api.schemas.script import StrictRequest
from kokoro_server.config.defaults import BUILT_IN_VOICE, default_language, default_voice, speech_defaults
from kokoro_server.voices import Gender
from kokoro_server.voices.custom.definitions import MAX_BLEND, MAX_TITLE, NAME_PATTERN


class VoiceDefinition(StrictRequest):
    name: str = Field(
        description="Letters, digits, `_`, `.` and `-`, at most 64; not the name of one of Kokoro's voices.",
        pattern=NAME_PATTERN,
        examples=["narrator"],
    )
    voice: str = Field(
        description="The blend or voice that the name stands for.",
        min_length=1,
        max_length=MAX_BLEND,
        examples=["af_bella(2)+bm_george(1)"],
    )
    language: str | None = Field(
        default=None, description="The language it reads. Absent: that of its first voice.", examples=["en-GB"]
    )
    gender: Gender | None = Field(default=None, description="Absent: that of its first voice.")
    title: str | None = Field(
        default=None,
        description="The name to show people.",
        min_length=1,
        max_length=MAX_TITLE,
        examples=["The narrator"],
    )

    def fields(self) -> dict[str, str]:
        """The fields as VOICES_PATH keeps them."""
        return self.model_dump(exclude={"name"}, exclude_none=True)


class VoiceAnswer(BaseModel):
    name: str = Field(examples=[BUILT_IN_VOICE])
    title: str = Field(description="The name to show people.", examples=["Heart"])
    language: str = Field(examples=["en-US"])
    gender: Gender = Field(examples=["female"])
    grade: str | None = Field(description="The model authors' grade; A is the best.", examples=["A"])
    blend: str | None = Field(default=None, description="The blend that the name stands for.", examples=[None])
    installed: bool = Field(default=True, description="Whether this server can read its language.", examples=[True])


class VoicesAnswer(BaseModel):
    default: str = Field(
        default_factory=default_voice, description="Of requests that name none.", examples=[BUILT_IN_VOICE]
    )
    default_voices: dict[str, str] = Field(
        default_factory=lambda: dict(speech_defaults.get().voices),
        description="DEFAULT_VOICE: voices by language. That of an empty language is for all others.",
        examples=[{"": BUILT_IN_VOICE, "fr-FR": "ff_siwis"}],
    )
    default_language: str | None = Field(
        default_factory=default_language, description="DEFAULT_LANGUAGE.", examples=[None]
    )
    voices: list[VoiceAnswer]
