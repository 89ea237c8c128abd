"""The requests and responses between the G2P client and the G2P service."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

MAX_TEXT_LENGTH = 10_000  # characters in one text
MAX_BATCH_TEXTS = 256  # texts in one request


class ConvertRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    lang: str = "en-US"


class BatchRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    texts: list[str] = Field(min_length=1, max_length=MAX_BATCH_TEXTS)
    lang: str = "en-US"


class WireToken(BaseModel):
    text: str
    whitespace: str
    phonemes: str


class Conversion(BaseModel):
    """`dropped` holds the characters that Kokoro has no symbol for and that are therefore not spoken."""

    phonemes: str
    lang: str
    tokens: list[WireToken] | None = None
    dropped: list[str] = []


class BatchConversion(BaseModel):
    results: list[Conversion]
