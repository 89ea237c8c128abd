"""Every error that the service raises on purpose. The class carries its HTTP status and a stable code.

KokoroError                   500  internal_error
├── BadRequest                400  bad_request
│   ├── UnknownVoice          400  unknown_voice
│   ├── UnknownLanguage       400  unknown_language
│   ├── LanguageNotInstalled  400  language_not_installed
│   ├── FormatNotInstalled    400  format_not_installed
│   ├── NotSupported          400  not_supported       (an option that other servers have)
│   ├── InvalidSSML           400  invalid_ssml
│   └── InvalidInput          422  invalid_input
│       ├── NothingToSay      422  nothing_to_say
│       ├── Unspeakable       422  unspeakable
│       └── UnreadableDocument 422 unreadable_document (for a book)
├── Unauthorized              401  invalid_api_key     (WWW-Authenticate)
├── Forbidden                 403  forbidden
│   ├── HostNotAllowed        403  host_not_allowed
│   └── OriginNotAllowed      403  origin_not_allowed
├── NoSuchVoice               404  unknown_voice       (to be removed)
├── NoSuchJob                 404  unknown_job
├── Conflict                  409  conflict
├── TextTooLong               413  text_too_long
├── TooBusy                   429  too_busy            (Retry-After)
│   ├── RateLimited           429  rate_limited
│   ├── TooManyAtOnce         429  too_many_at_once
│   └── TooManyJobs           429  too_many_jobs
├── EngineError               500  engine_error
│   └── BadAudio              500  bad_audio
├── G2PFailed                 502  g2p_failed
├── Unavailable               503  unavailable         (Retry-After)
│   ├── G2PUnavailable        503  g2p_unavailable
│   └── EngineUnavailable     503  engine_unavailable
├── Expired                   504  deadline_exceeded   (Retry-After, unless its device was lost)
├── SetupError                     setup_error         stops the start, never an HTTP response
│   ├── ConfigError                config_error
│   └── AssetError                 asset_error
├── longform.books.work_folder.CannotWrite  cannot_write        ends a book; what is spoken is kept
└── cli.CommandFailed              command_failed      ends a command, never an HTTP response
"""

from __future__ import annotations

from typing import ClassVar

CLIENT_CLOSED_REQUEST = 499  # nginx's status for a request whose client left before the response; only logged


class KokoroError(Exception):
    """An error whose message is meant for the caller: what was wrong, what is allowed, where to look."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, field: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after = retry_after


class BadRequest(KokoroError):
    status = 400
    code = "bad_request"


class UnknownVoice(BadRequest):
    code = "unknown_voice"


class UnknownLanguage(BadRequest):
    code = "unknown_language"


class LanguageNotInstalled(BadRequest):
    code = "language_not_installed"


class FormatNotInstalled(BadRequest):
    code = "format_not_installed"


class NotSupported(BadRequest):
    code = "not_supported"


class InvalidSSML(BadRequest):
    code = "invalid_ssml"


class InvalidInput(BadRequest):
    status = 422
    code = "invalid_input"


class NothingToSay(InvalidInput):
    code = "nothing_to_say"


class Unspeakable(InvalidInput):
    code = "unspeakable"


class UnreadableDocument(InvalidInput):
    code = "unreadable_document"


class Unauthorized(KokoroError):
    status = 401
    code = "invalid_api_key"


class Forbidden(KokoroError):
    status = 403
    code = "forbidden"


class HostNotAllowed(Forbidden):
    code = "host_not_allowed"


class OriginNotAllowed(Forbidden):
    code = "origin_not_allowed"


class NoSuchVoice(KokoroError):
    status = 404
    code = "unknown_voice"


class NoSuchJob(KokoroError):
    status = 404
    code = "unknown_job"


class Conflict(KokoroError):
    status = 409
    code = "conflict"


class TextTooLong(KokoroError):
    status = 413
    code = "text_too_long"


class TooBusy(KokoroError):
    status = 429
    code = "too_busy"


class RateLimited(TooBusy):
    code = "rate_limited"


class TooManyAtOnce(TooBusy):
    code = "too_many_at_once"


class TooManyJobs(TooBusy):
    code = "too_many_jobs"


class EngineError(KokoroError):
    code = "engine_error"


class BadAudio(EngineError):
    code = "bad_audio"


class G2PFailed(KokoroError):
    status = 502
    code = "g2p_failed"


class Unavailable(KokoroError):
    status = 503
    code = "unavailable"


class G2PUnavailable(Unavailable):
    code = "g2p_unavailable"


class EngineUnavailable(Unavailable):
    code = "engine_unavailable"


class Expired(KokoroError):
    status = 504
    code = "deadline_exceeded"


class SetupError(KokoroError):
    code = "setup_error"


class ConfigError(SetupError):
    code = "config_error"


class AssetError(SetupError):
    code = "asset_error"


def for_client(error: BaseException) -> KokoroError:
    """The error as a client may see it. Errors that are not raised for clients may name files, or worse."""
    if isinstance(error, KokoroError) and not isinstance(error, SetupError):
        return error
    return KokoroError("something went wrong on the server; its log has the details")


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error, without the groups around it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
