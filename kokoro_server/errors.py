"""Every error that the service raises on purpose. The class carries its HTTP status and a stable code.

Its docstring says when it is raised, then what to do about it: `docs/reference/errors.md` is written from them.

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
    """Something went wrong on the server. Its log has the details."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, field: str | None = None, retry_after: float | None = None) -> None:
        """`message` is for the caller: what was wrong, what is allowed, where to look."""
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after = retry_after


class BadRequest(KokoroError):
    """The request cannot be understood, or asks for something that is not allowed. The message names the limit."""

    status = 400
    code = "bad_request"


class UnknownVoice(BadRequest):
    """No voice has this name. `GET /voices` lists the names; a blend is written `af_bella(2)+af_sky(1)`."""

    code = "unknown_voice"


class UnknownLanguage(BadRequest):
    """No language has this code. The codes are `en-US en-GB es fr-FR hi it pt-BR ja zh`."""

    code = "unknown_language"


class LanguageNotInstalled(BadRequest):
    """The server knows the language but cannot read its text. Install the extra that the message names."""

    code = "language_not_installed"


class FormatNotInstalled(BadRequest):
    """This server cannot write the audio format. Ask for another one, or install what the message names."""

    code = "format_not_installed"


class NotSupported(BadRequest):
    """A field of another service's API has no counterpart here. Leave the field out."""

    code = "not_supported"


class InvalidSSML(BadRequest):
    """The text is not a well-formed SSML document, or uses a tag wrongly. The message has line and column."""

    code = "invalid_ssml"


class InvalidInput(BadRequest):
    """A field is missing, unknown, of the wrong type or out of range. `field` names it."""

    status = 422
    code = "invalid_input"


class NothingToSay(InvalidInput):
    """The text has no words. Send at least one word, or a `[pause:1s]`."""

    code = "nothing_to_say"


class Unspeakable(InvalidInput):
    """The language cannot say some letters of the text. Remove them, or send `unspeakable` `skip` to leave them out."""

    code = "unspeakable"


class UnreadableDocument(InvalidInput):
    """The file is not a document that can be read. Check that it opens elsewhere and has the right suffix."""

    code = "unreadable_document"


class Unauthorized(KokoroError):
    """The API key is missing or wrong. Send it as `Authorization: Bearer KEY` or as `X-API-Key`."""

    status = 401
    code = "invalid_api_key"


class Forbidden(KokoroError):
    """The server's settings do not allow this. The message names the setting."""

    status = 403
    code = "forbidden"


class HostNotAllowed(Forbidden):
    """The server was addressed by an unknown name. Add the name to ALLOWED_HOSTS."""

    code = "host_not_allowed"


class OriginNotAllowed(Forbidden):
    """A web page of another origin made the request. Add the origin to CORS_ORIGINS."""

    code = "origin_not_allowed"


class NoSuchVoice(KokoroError):
    """No voice has the name in the path. `GET /voices` lists the names."""

    status = 404
    code = "unknown_voice"


class NoSuchJob(KokoroError):
    """No job of this caller has the id, or its result lacks the part. `GET /jobs` lists the jobs."""

    status = 404
    code = "unknown_job"


class Conflict(KokoroError):
    """The state does not allow it: a file is not made yet, or other voices need this one. The message says why."""

    status = 409
    code = "conflict"


class TextTooLong(KokoroError):
    """The text, message or body is too long. Split it, or raise the setting that the message names."""

    status = 413
    code = "text_too_long"


class TooBusy(KokoroError):
    """The queue or the number of connections is full. Try again after `Retry-After` seconds."""

    status = 429
    code = "too_busy"


class RateLimited(TooBusy):
    """The caller has sent too many requests a minute (RATE_LIMIT). Try again after `Retry-After` seconds."""

    code = "rate_limited"


class TooManyAtOnce(TooBusy):
    """The caller has too many requests running (MAX_CONCURRENT_REQUESTS). Wait until one ends."""

    code = "too_many_at_once"


class TooManyJobs(TooBusy):
    """The caller has too many unfinished jobs (MAX_JOBS). Wait until one ends, or delete one."""

    code = "too_many_jobs"


class EngineError(KokoroError):
    """The model failed on this text. Try again; if it fails again, report the text and the server's log."""

    code = "engine_error"


class BadAudio(EngineError):
    """The model returned silence or noise for this text. Try again, or change the text."""

    code = "bad_audio"


class G2PFailed(KokoroError):
    """The G2P service gave no usable answer. Look at its log."""

    status = 502
    code = "g2p_failed"


class Unavailable(KokoroError):
    """A part of the server cannot work at the moment. Try again after `Retry-After` seconds."""

    status = 503
    code = "unavailable"


class G2PUnavailable(Unavailable):
    """The G2P service does not answer: it is starting, or `G2P_SERVICE_URL` is wrong. Try again."""

    code = "g2p_unavailable"


class EngineUnavailable(Unavailable):
    """The model is loading, restarting or shutting down. Try again after `Retry-After` seconds."""

    code = "engine_unavailable"


class Expired(KokoroError):
    """The request was not started in time (QUEUE_TIMEOUT or `X-Request-Timeout`). Try again, or allow more time."""

    status = 504
    code = "deadline_exceeded"


class SetupError(KokoroError):
    """The server cannot start."""

    code = "setup_error"


class ConfigError(SetupError):
    """A setting is wrong. The message names the variable."""

    code = "config_error"


class AssetError(SetupError):
    """A file of the model is missing or damaged. The message names the file and the remedy."""

    code = "asset_error"


def for_client(error: BaseException) -> KokoroError:
    """Returns the error as a client may see it. An error that was not raised for clients may name files or worse."""
    if isinstance(error, KokoroError) and not isinstance(error, SetupError):
        return error
    return KokoroError("something went wrong on the server; its log has the details")


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group, without the groups around it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
