"""The errors that a client raises.

ClientError
├── ServerError    the server refused or failed: status, code, message, field
├── ClipFailed     one clip of a batch failed; the batch holds the other clips
├── Unreachable    no response: no server at the URL, or the connection was lost before the response
├── TimedOut       no response in time
└── BrokenOff      the audio began and broke off before its end
"""

from __future__ import annotations


class ClientError(Exception):
    """`code` is stable and for programs, `message` for people; `field` names the request field at fault, if any."""

    code = "client_error"

    def __init__(self, message: str, *, code: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.field = field


class ServerError(ClientError):
    """`retry_after` is in seconds, if the server sent it. The server logs the request under `request_id`."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        field: str | None = None,
        status: int,
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, code=code, field=field)
        self.status = status
        self.retry_after = retry_after
        self.request_id = request_id


class ClipFailed(ClientError):
    pass


class Unreachable(ClientError):
    code = "unreachable"


class TimedOut(ClientError):
    code = "timed_out"


class BrokenOff(ClientError):
    code = "broken_off"
