"""The requests and responses between the G2P client and the G2P service."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kokoro_server.g2p.result import G2PResult, Token
from kokoro_server.languages import Language

MAX_TEXT_LENGTH = 10_000  # characters in one text
MAX_BATCH_TEXTS = 256  # texts in one request

# In a request: whether its texts wait behind all urgent ones. Services that do not know the header ignore it.
PRIORITY_HEADER = "X-Priority"
PRIORITIES = ("normal", "bulk")
# In the answer to a batch: how many texts the service converts at once. A service that sends it takes `langs`.
WORKERS_HEADER = "X-G2P-Workers"


class ConvertRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    lang: str = "en-US"


class ConvertBatchRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    texts: list[str] = Field(min_length=1, max_length=MAX_BATCH_TEXTS)
    lang: str = "en-US"
    langs: list[str] | None = Field(None, description="the language of each text, in place of `lang`")


class WireToken(BaseModel):
    text: str
    whitespace: str
    phonemes: str
    read_as: str = ""


class Conversion(BaseModel):
    """`dropped` holds the characters that Kokoro has no symbol for and that are therefore not spoken."""

    phonemes: str
    lang: str
    tokens: list[WireToken] | None = None
    dropped: list[str] = []


class BatchConversion(BaseModel):
    results: list[Conversion]


def encode(result: G2PResult, language: Language) -> bytes:
    """A `Conversion` in JSON. Workers write it, as models would take most of the service's own process."""
    conversion: dict[str, Any] = {"phonemes": result.phonemes, "lang": language.code, "dropped": list(result.dropped)}
    if result.tokens is not None:
        conversion["tokens"] = [_wire_token(token) for token in result.tokens]
    return json.dumps(conversion, ensure_ascii=False, separators=(",", ":")).encode()


def _wire_token(token: Token) -> dict[str, str]:
    wire = {"text": token.text, "whitespace": token.whitespace, "phonemes": token.phonemes}
    return wire | {"read_as": token.read_as} if token.read_as else wire


def encode_batch(conversions: list[bytes]) -> bytes:
    """A `BatchConversion`."""
    return b'{"results":[' + b",".join(conversions) + b"]}"
