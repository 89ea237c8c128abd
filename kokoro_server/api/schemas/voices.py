"""The request and response bodies of `/voices`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from kokoro_server.api.schemas.speech import DEFAULT_VOICE
from kokoro_server.voices import Gender
from kokoro_server.voices.custom.definitions import MAX_BLEND, MAX_TITLE, NAME_PATTERN


class VoiceDefinition(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[
        str,
        Field(
            description="Letters, digits, `_`, `.` and `-`, at most 64; not the name of one of Kokoro's voices.",
            pattern=NAME_PATTERN,
            examples=["narrator"],
        ),
    ]
    voice: Annotated[
        str,
        Field(
            description="The blend or voice that the name stands for.",
            min_length=1,
            max_length=MAX_BLEND,
            examples=["af_bella(2)+bm_george(1)"],
        ),
    ]
    language: Annotated[
        str | None, Field(description="The language it reads. Absent: that of its first voice.", examples=["en-GB"])
    ] = None
    gender: Annotated[Gender | None, Field(description="Absent: that of its first voice.")] = None
    title: Annotated[
        str | None,
        Field(description="The name to show people.", min_length=1, max_length=MAX_TITLE, examples=["The narrator"]),
    ] = None

    def fields(self) -> dict[str, str]:
        """The fields as VOICES_PATH keeps them."""
        return self.model_dump(exclude={"name"}, exclude_none=True)


class VoiceAnswer(BaseModel):
    name: Annotated[str, Field(examples=[DEFAULT_VOICE])]
    title: Annotated[str, Field(description="The name to show people.", examples=["Heart"])]
    language: Annotated[str, Field(examples=["en-US"])]
    gender: Annotated[Gender, Field(examples=["female"])]
    grade: Annotated[str | None, Field(description="The model authors' grade; A is the best.", examples=["A"])]
    blend: Annotated[str | None, Field(description="The blend that the name stands for.", examples=[None])] = None
    installed: Annotated[bool, Field(description="Whether this server can read its language.", examples=[True])] = True


class VoicesAnswer(BaseModel):
    default: str = DEFAULT_VOICE
    voices: list[VoiceAnswer]
