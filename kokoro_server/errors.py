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
├── NoSuchDownload            404  unknown_download
├── Conflict                  409  conflict
├── TextTooLong               413  text_too_long
├── ClipTooLong               413  clip_too_long
├── NotJson                   415  not_json
├── RangeTooFar               416  range_not_satisfiable (Content-Range)
├── TooBusy                   429  too_busy            (Retry-After)
│   ├── RateLimited           429  rate_limited
│   ├── TooManyAtOnce         429  too_many_at_once
│   └── TooManyJobs           429  too_many_jobs
├── McpNotInstalled           501  mcp_not_installed
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

import errno
from typing import ClassVar

# Of an OSError that passes by itself: too many open files, of the process or of all, too little memory, or too many
# processes.
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
NO_THREAD = "can't start new thread"  # of a RuntimeError
EXHAUSTED_RETRY_AFTER = 5.0  # seconds
CLIENT_CLOSED_REQUEST = 499  # nginx's status for a request whose client left before the response; only logged


class KokoroError(Exception):
    """Something went wrong on the server. Its log has the details."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"

    def __init_subclass__(cls, *, code: str, status: int | None = None) -> None:
        """`status` is the parent's unless it is given."""
        cls.code = code
        if status:
            cls.status = status

    def __init__(self, message: str, *, field: str | None = None, retry_after: float | None = None) -> None:
        """`message` is for the caller: what was wrong, what is allowed, where to look."""
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after = retry_after


class BadRequest(KokoroError, status=400, code="bad_request"):
    """The request cannot be understood, or asks for something that is not allowed. The message names the limit."""


class UnknownVoice(BadRequest, code="unknown_voice"):
    """No voice has this name. `GET /voices` lists the names; a blend is written `af_bella(2)+af_sky(1)`."""


class UnknownLanguage(BadRequest, code="unknown_language"):
    """No language has this code. The codes are `en-US en-GB es fr-FR hi it pt-BR ja zh`."""


class LanguageNotInstalled(BadRequest, code="language_not_installed"):
    """The server knows the language but cannot read its text. Install the extra that the message names."""


class FormatNotInstalled(BadRequest, code="format_not_installed"):
    """This server cannot write the audio format. Ask for another one, or install what the message names."""


class NotSupported(BadRequest, code="not_supported"):
    """A field of another service's API has no counterpart here. Leave the field out."""


class InvalidSSML(BadRequest, code="invalid_ssml"):
    """The text is not a well-formed SSML document, or uses a tag wrongly. The message has line and column."""


class InvalidInput(BadRequest, status=422, code="invalid_input"):
    """A field is missing, unknown, of the wrong type or out of range. `field` names it."""


class NothingToSay(InvalidInput, code="nothing_to_say"):
    """The text has no words. Send at least one word, or a `[pause:1s]`."""

    skipped = 0  # characters that were left out because the language cannot say them


class Unspeakable(InvalidInput, code="unspeakable"):
    """The language cannot say some letters of the text. Remove them, or send `unspeakable` `skip` to leave them out."""


class UnreadableDocument(InvalidInput, code="unreadable_document"):
    """The file is not a document that can be read. Check that it opens elsewhere and has the right suffix."""


class Unauthorized(KokoroError, status=401, code="invalid_api_key"):
    """The API key is missing or wrong. Send it as `Authorization: Bearer KEY` or as `X-API-Key`."""


class Forbidden(KokoroError, status=403, code="forbidden"):
    """The server's settings do not allow this. The message names the setting."""


class HostNotAllowed(Forbidden, code="host_not_allowed"):
    """A server without API keys was addressed by an unknown name. Add the name to ALLOWED_HOSTS, or use keys."""


class OriginNotAllowed(Forbidden, code="origin_not_allowed"):
    """A web page of another origin made the request. Add the origin to CORS_ORIGINS."""


class NoSuchVoice(KokoroError, status=404, code="unknown_voice"):
    """No voice has the name in the path. `GET /voices` lists the names."""


class NoSuchJob(KokoroError, status=404, code="unknown_job"):
    """No job of this caller has the id, or its result lacks the part. `GET /jobs` lists the jobs."""


class NoSuchDownload(KokoroError, status=404, code="unknown_download"):
    """No file has this link, or it is over: it works for an hour. Ask for the speech again."""


class Conflict(KokoroError, status=409, code="conflict"):
    """The state does not allow it: a file is not made yet, or other voices need this one. The message says why."""


class TextTooLong(KokoroError, status=413, code="text_too_long"):
    """The text, message or body is too long. Split it, or raise the setting that the message names."""


class ClipTooLong(KokoroError, status=413, code="clip_too_long"):
    """The audio would be longer than one answer may be (MAX_CLIP_SECONDS). Use `/tts/stream` or `POST /jobs`."""


class NotJson(KokoroError, status=415, code="not_json"):
    """A web page sent a body that is not marked as JSON. Send `Content-Type: application/json`."""


class RangeTooFar(KokoroError, status=416, code="range_not_satisfiable"):
    """The part of the file that `Range` asks for does not exist. `Content-Range` has the file's size."""


class TooBusy(KokoroError, status=429, code="too_busy"):
    """The queue or the number of connections is full, or the wait too long. Try again after `Retry-After` seconds."""


class RateLimited(TooBusy, code="rate_limited"):
    """The caller has sent too many requests a minute (RATE_LIMIT). Try again after `Retry-After` seconds."""


class TooManyAtOnce(TooBusy, code="too_many_at_once"):
    """The caller has too many requests running (MAX_CONCURRENT_REQUESTS). Wait until one ends."""


class TooManyJobs(TooBusy, code="too_many_jobs"):
    """The caller has too many unfinished jobs (MAX_JOBS). Wait until one ends, or delete one."""


class McpNotInstalled(KokoroError, status=501, code="mcp_not_installed"):
    """This server has `/mcp` and lacks the package that speaks the protocol. Install the extra `mcp`."""


class EngineError(KokoroError, code="engine_error"):
    """The model failed on this text. Try again; if it fails again, report the text and the server's log."""


class BadAudio(EngineError, code="bad_audio"):
    """The model returned silence or noise for this text. Try again, or change the text."""


class G2PFailed(KokoroError, status=502, code="g2p_failed"):
    """The G2P service gave no usable answer. Look at its log."""


class Unavailable(KokoroError, status=503, code="unavailable"):
    """A part of the server cannot work at the moment. Try again after `Retry-After` seconds."""


class G2PUnavailable(Unavailable, code="g2p_unavailable"):
    """The G2P service does not answer: it is starting, or `G2P_SERVICE_URL` is wrong. Try again."""


class EngineUnavailable(Unavailable, code="engine_unavailable"):
    """The model is loading, restarting or shutting down. Try again after `Retry-After` seconds."""


class Expired(KokoroError, status=504, code="deadline_exceeded"):
    """Not started in time (`X-Request-Timeout`), or the device hung. Try again, or allow more."""


class SetupError(KokoroError, code="setup_error"):
    """The server cannot start. The message says why, and what to do."""


class ConfigError(SetupError, code="config_error"):
    """A setting is wrong. The message names the variable."""


class AssetError(SetupError, code="asset_error"):
    """A file of the model is missing or damaged. The message names the file and the remedy."""


def for_client(error: BaseException) -> KokoroError:
    """Returns the error as a client may see it. An error that was not raised for clients may name files or worse."""
    if isinstance(error, KokoroError) and not isinstance(error, SetupError):
        return error
    if is_exhausted(error):
        return Unavailable(
            "the server has no open files, processes, threads or memory to spare; try again later",
            retry_after=EXHAUSTED_RETRY_AFTER,
        )
    return KokoroError("something went wrong on the server; its log has the details")


def is_exhausted(error: BaseException) -> bool:
    """Whether the process, or the machine, lacked files, processes, threads or memory at that moment."""
    if isinstance(error, OSError):
        return error.errno in EXHAUSTED
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and NO_THREAD in str(error))


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group, without the groups around it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
