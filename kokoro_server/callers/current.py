"""The caller that a request is counted for: the queue takes turns among callers, and each has its limits."""

from __future__ import annotations

from contextvars import ContextVar

# The name of the request's API key; without keys, the client's address. Tasks inherit it from the request.
caller: ContextVar[str] = ContextVar("caller", default="-")
# By when, on the monotonic clock, the text of this request must have been read; None for as long as it takes.
read_by: ContextVar[float | None] = ContextVar("read_by", default=None)
