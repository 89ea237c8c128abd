"""Pages of docs/reference, written from the code: `python -m tests.reference_docs` writes both."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from starlette.routing import WebSocketRoute

from kokoro_server import errors
from kokoro_server.api.compat.cartesia import websocket as cartesia
from kokoro_server.api.compat.deepgram import websocket as deepgram
from kokoro_server.api.compat.elevenlabs import websockets as elevenlabs
from kokoro_server.api.routes import websocket
from kokoro_server.api.speech import ERRORS
from kokoro_server.config.settings import Settings
from kokoro_server.errors import KokoroError, SetupError
from kokoro_server.server.app import create_app

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
Json = dict[str, Any]

WRITTEN = "<!-- Written by `python -m tests.reference_docs`; do not edit. -->\n"
INTRODUCTION = """\
# HTTP API

Every endpoint of the server, with its fields. The server's own page `/docs` shows the same and lets you try it.

- Bodies are JSON. An unknown field is an error, so that a misspelt one is noticed. The endpoints of other services'
  protocols ignore unknown fields, as those services do.
- Errors are `{"error": {"code", "message", "field"}}`; [Errors](errors.md) lists the codes. The endpoints of other
  services' protocols answer with the error bodies of those services.
- If the server has API keys, send yours as `Authorization: Bearer KEY` or as `X-API-Key`.
- Every answer has `X-Request-ID`: yours, if you sent one, or a new one. The server's log has it on each line.
"""
FAMILIES = {  # tags in order, with a heading and a line about them
    "speech": ("Speech", "Text in, audio out: whole, streamed, with the times of words, or many clips at once."),
    "text": ("Text", "How a text is read, without speaking it."),
    "voices": ("Voices", "The voices, and named blends of them."),
    "jobs": ("Jobs", "Audiobooks and long lists, which take minutes or hours. They need the setting `JOBS_PATH`."),
    "health": ("Health", "The state of the server, for people, probes and load balancers."),
    "batching": ("Batching and metrics", "The queue that puts requests together for the model."),
    "OpenAI": ("OpenAI", "OpenAI's speech API: point a client at `http://localhost:8880/v1`."),
    "Kokoro-FastAPI": ("Kokoro-FastAPI", "Kokoro-FastAPI's endpoints beyond OpenAI's."),
    "ElevenLabs": ("ElevenLabs", "ElevenLabs' API, below `/elevenlabs` and at the same paths without it."),
    "Deepgram": ("Deepgram", "Deepgram's `speak`, below `/deepgram` and at the same path without it."),
    "Cartesia": (
        "Cartesia",
        "Cartesia's API, below `/cartesia` and at the same paths without it (`/voices` excepted).",
    ),
}
SOCKETS = {  # which OpenAPI does not know: the module of a family, whose docstring describes the protocol, and a prefix
    "speech": (websocket, ""),
    "ElevenLabs": (elevenlabs, "/elevenlabs"),
    "Deepgram": (deepgram, "/deepgram"),
    "Cartesia": (cartesia, "/cartesia"),
}
FIRST = "id kind name text input transcript turns phonemes voice voice_id format response_format language speed".split()
HEADERS = {  # of answers; OpenAPI does not list them
    "POST /tts": {
        "X-Audio-Duration": "Seconds of audio.",
        "X-Voice-Used": "The voice, or the blend in its canonical form.",
        "X-Batching-Enabled": "`true` or `false`.",
        "X-Queue-Time-Ms": "Milliseconds the clip waited in the queue.",
        "X-Inference-Time-Ms": "Milliseconds the model took.",
        "X-Batch-Size": "Rows in the largest batch that the clip was part of.",
        "X-Skipped-Characters": "Characters left out because the language cannot say them; only if there are any.",
        "Server-Timing": "How long text, queue, inference and the whole took, and when the first sound is audible.",
    },
    "POST /tts/stream": {
        "X-Stream-ID": "The request's id, as in the log.",
        "X-Streaming-Mode": "`bypass-first-N-chunks`.",
        "X-Bypass-Chunks": "How many chunks at the start skip the batching window.",
        "X-Voice-Used": "The voice that begins.",
        "X-Batching-Enabled": "`true` or `false`.",
        "X-Skipped-Characters": "As for `POST /tts`.",
        "Server-Timing": "How long the steps before the first audio took, and when the first sound is audible.",
    },
    "POST /tts/batch": {
        "X-Total-Requests": "Clips that were asked for.",
        "X-Failed-Requests": "Clips that failed.",
        "X-Batching-Enabled": "`true` or `false`.",
    },
}


def http_api() -> str:
    return _HttpApi(create_app(Settings()).openapi()).page()


class _HttpApi:
    def __init__(self, openapi: Json) -> None:
        self._schemas: dict[str, Json] = openapi["components"]["schemas"]
        self._operations = [
            (operation.get("tags", ["speech"])[-1], f"{method.upper()} {path}", operation)
            for path, methods in openapi["paths"].items()
            for method, operation in methods.items()
        ]
        self._shown: set[str] = set()  # schemas that have a table
        assert {tag for tag, _, _ in self._operations} == set(FAMILIES)

    def page(self) -> str:
        parts = [WRITTEN + INTRODUCTION]
        for tag, (title, about) in FAMILIES.items():
            parts.append(f"## {title}\n\n{about}\n")
            parts += [self._operation(name, each) for of, name, each in self._operations if of == tag]
            if tag in SOCKETS:
                module, prefix = SOCKETS[tag]
                paths = [prefix + route.path for route in module.router.routes if isinstance(route, WebSocketRoute)]
                parts.append(f"### WebSocket {', '.join(paths)}\n\n```text\n{inspect.getdoc(module)}\n```\n")
        return re.sub(r"\n{3,}", "\n\n", "\n".join(parts))

    def _operation(self, name: str, operation: Json) -> str:
        parts = [f"### {name}\n", _paragraphs(operation.get("description", ""))]
        if parameters := operation.get("parameters"):
            rows = [
                (
                    f"`{each['name']}`",
                    each["in"],
                    *self._field(each["schema"] | _described(each), required=each["required"]),
                )
                for each in parameters
            ]
            parts.append("Parameters:\n\n" + _table(("Name", "In", "Type", "Default", "Meaning"), rows))
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            parts.append(self._body(f"Body (`{media_type}`)", content["schema"]))
        parts.append(self._answers(name, operation["responses"]))
        return "\n".join(parts)

    def _answers(self, name: str, responses: Json) -> str:
        good = {status: each for status, each in responses.items() if status < "4"}
        parts = []
        for status, each in good.items():
            types = ", ".join(f"`{media}`" for media in each.get("content", {}))
            text = "" if each["description"] == "Successful Response" else f": {_inline(each['description'])}"
            parts.append(f"Answer {status}{text}.{f' Type: {types}.' if types else ''}\n")
            schema = each.get("content", {}).get("application/json", {}).get("schema", {})
            if _references(schema):
                parts.append(self._body("Fields", schema, sent=False))
        if headers := HEADERS.get(name):
            rows = [(f"`{header}`", meaning) for header, meaning in headers.items()]
            parts.append("Headers of the answer:\n\n" + _table(("Header", "Meaning"), rows))
        bad = {status: each["description"] for status, each in responses.items() if status >= "4"}
        if name != "POST /tts" and bad == {str(status): each["description"] for status, each in ERRORS.items()}:
            parts.append("Errors: as for [POST /tts](#post-tts).\n")
        elif bad:
            bad = {
                status: "A parameter is wrong" if text == "Validation Error" else text for status, text in bad.items()
            }
            parts.append("Errors:\n\n" + _table(("Status", "When"), [(s, _inline(text)) for s, text in bad.items()]))
        return "\n".join(parts)

    def _body(self, label: str, schema: Json, *, sent: bool = True) -> str:
        """A table of a schema's fields, and of the schemas in it, where each is shown first."""
        if not (names := _references(schema)):
            if "properties" in schema:
                return f"{label}:\n\n{self._fields(schema)}"
            return f"{label}: {self._type(schema)}.\n"
        parts = [f"{label}: {self._type(schema)}.\n"]
        while names:
            name = names.pop(0)
            if name in self._shown:
                continue
            self._shown.add(name)
            found = self._schemas[name]
            parts += [f"#### {name}\n", _paragraphs(found.get("description", "")), self._fields(found, sent=sent)]
            names += _references(found)
        return "\n".join(parts)

    def _fields(self, schema: Json, *, sent: bool = True) -> str:
        """`sent`: by the client, which may leave out fields with a default."""
        required = schema.get("required", ())
        rows = [
            (f"`{name}`", *self._field(field, required=name in required))
            for name, field in sorted(schema["properties"].items(), key=lambda item: _rank(item[0]))
        ]
        if not sent:
            rows = [(name, kind, "", meaning) for name, kind, _, meaning in rows]
        return _table(("Field", "Type", "Default", "Meaning"), rows)

    def _field(self, schema: Json, *, required: bool) -> tuple[str, str, str]:
        default = "required" if required else _literal(schema["default"]) if "default" in schema else ""
        return self._type(schema), default, _inline(schema.get("description", ""))

    def _type(self, schema: Json) -> str:
        match schema:
            case {"$ref": str(place)}:
                name = place.rpartition("/")[2]
                return f"[{name}](#{name.lower()})"
            case {"anyOf": list(kinds)} | {"oneOf": list(kinds)}:
                return " or ".join(self._type(kind) for kind in kinds if kind.get("type") != "null")
            case {"enum": list(values)}:
                return ", ".join(map(_literal, values))
            case {"const": value}:
                return _literal(value)
            case {"type": "array"}:
                return f"list of {self._type(schema.get('items', {}))}"
            case {"type": "object"}:
                values = schema.get("additionalProperties")
                return f"object of {self._type(values)}" if isinstance(values, dict) else "object"
            case {"format": "binary"}:
                return "file"
            case {"format": "date-time"}:
                return "date and time"
            case {"type": str(kind)}:
                return kind + _limits(schema)
        return "any"


def _references(schema: Any) -> list[str]:
    """The names of the schemas that a schema mentions, in order."""
    match schema:
        case {"$ref": str(place)}:
            return [place.rpartition("/")[2]]
        case dict():
            return [name for key, value in schema.items() if key != "examples" for name in _references(value)]
        case list():
            return [name for value in schema for name in _references(value)]
    return []


def _rank(name: str) -> int:
    """Fields that nearly every request has come first; the order of the rest is that of the code."""
    return FIRST.index(name) if name in FIRST else len(FIRST)


def _limits(schema: Json) -> str:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is not None and high is not None:
        return f", {_number(low)} to {_number(high)}"
    if low is not None:
        return f", {'above' if 'exclusiveMinimum' in schema else 'from'} {_number(low)}"
    return f", at most {schema['maxLength']} characters" if "maxLength" in schema else ""


def _number(value: float) -> str:
    return f"{value:.4g}" if value != int(value) else "2⁶³ − 1" if value >= 2**63 - 1 else str(int(value))


def _literal(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and len(value) > 3:
        return "all"
    return (
        f"`{value}`"
        if isinstance(value, str) and value
        else f"`{value!r}`".replace("True", "true").replace("False", "false")
    )


def _described(parameter: Json) -> Json:
    return {"description": parameter["description"]} if "description" in parameter else {}


def _paragraphs(text: str) -> str:
    return "\n".join(f"{' '.join(each.split())}\n" for each in text.split("\n\n") if each.strip())


def _inline(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Without columns that would be empty."""
    kept = [index for index in range(len(heads)) if any(row[index] for row in rows)]
    lines = [[heads[index] for index in kept], ["---"] * len(kept), *([row[index] for index in kept] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


ERRORS_INTRODUCTION = """\
# Errors

An error answer is JSON: `{"error": {"code": "unknown_voice", "message": "…", "field": "voice"}}`. `code` is stable and
meant for programs, `message` is for people, and `field` names the field at fault, or is null. Endpoints of other
services' protocols wrap the same code and message in the bodies that those services send, and some change the status.

Errors with status 429 and 503, and most with 504, have the header `Retry-After`: the seconds after which the request
may succeed. [The Python client](python-client.md) waits and retries by itself.
"""


def error_codes() -> str:
    raised = sorted(_below(KokoroError), key=lambda kind: (kind.status, kind.code))
    answers = [kind for kind in raised if not issubclass(kind, SetupError)]
    ends = [kind for kind in raised if issubclass(kind, SetupError)]
    rows = [(f"`{kind.code}`", str(kind.status), *_advice(kind)) for kind in answers]
    ending = [(f"`{kind.code}`", *_advice(kind)) for kind in ends]
    return (
        WRITTEN
        + ERRORS_INTRODUCTION
        + "\n## In answers\n\n"
        + _table(("Code", "Status", "When", "What to do"), rows)
        + "\n## At the start of the server\n\nThese end the process; no answer has them.\n\n"
        + _table(("Code", "When", "What to do"), ending)
    )


def _below(kind: type[KokoroError]) -> Iterator[type[KokoroError]]:
    yield kind
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from _below(each)


def _advice(kind: type[KokoroError]) -> tuple[str, str]:
    """When it is raised, and what to do: the first sentence of its docstring, and the rest."""
    assert kind.__doc__, f"{kind.__name__} has no docstring"
    when, _, advice = re.sub(r"([A-Za-z0-9)`])\. (?=[A-Z`])", r"\1.\n", kind.__doc__, count=1).partition("\n")
    return when, textwrap.dedent(advice)


PAGES: dict[str, Callable[[], str]] = {"http-api.md": http_api, "errors.md": error_codes}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, render in PAGES.items():
        (FOLDER / name).write_text(render())
