"""Requests in which an unknown field is an error."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

MAX_FIELDS = 100  # of a request, known or not


class StrictRequest(BaseModel):
    """A request in which an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, data: Any) -> Any:
        """Reporting each of a million unknown fields would block the event loop for ten seconds."""
        if isinstance(data, dict) and len(data) > MAX_FIELDS:
            raise PydanticCustomError("too_many_fields", "at most {limit} fields are allowed", {"limit": MAX_FIELDS})
        return data
