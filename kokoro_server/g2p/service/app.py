"""The G2P service: text in, phonemes out, over HTTP. misaki and espeak-ng live in this process and in no other."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from kokoro_server import __version__
from kokoro_server.assets import late_packages
from kokoro_server.config.settings import Settings
from kokoro_server.errors import InvalidInput, NothingToSay, SetupError, TextTooLong, UnknownLanguage
from kokoro_server.g2p import schemas, variants
from kokoro_server.g2p.service import error_handlers
from kokoro_server.g2p.service.converter import Converter
from kokoro_server.g2p.worker_count import default_worker_count
from kokoro_server.http.body import BodyLimit
from kokoro_server.http.protocol import ConnectionLimits, LimitedServer, limited
from kokoro_server.languages import Language
from kokoro_server.observability import logs, tracing
from kokoro_server.observability.tracing.asgi import TracedRequests
from kokoro_server.runtime.sockets import bind, ignore_hangup
from kokoro_server.runtime.subprocesses import StartReport, exit_with_parent

log = logging.getLogger(__name__)

MAX_BODY = 6 * schemas.MAX_TEXT_LENGTH * schemas.MAX_BATCH_TEXTS  # bytes: JSON writes a character in six at most
MAX_MARKS = 200_000  # commas and brackets in a body
MAX_CONNECTIONS = 1000
READ_SECONDS = 20.0  # for a request's headers, and by which its body may fall behind
JSON = "application/json"
SHUTDOWN_GRACE = 3.0  # seconds for the last requests when stopping
_SURROGATE = re.compile("[\ud800-\udfff]")


def create_app(converter: Converter | None = None, *, max_text_length: int = schemas.MAX_TEXT_LENGTH) -> FastAPI:
    """The service. It is ready once English is loaded; other languages load with their first text."""
    converter = converter or Converter()

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        converter.preload()
        await converter.connect()
        yield
        converter.close()

    app = FastAPI(title="Kokoro Server G2P", version=__version__, lifespan=lifespan)
    app.add_middleware(BodyLimit, limit=MAX_BODY, seconds=READ_SECONDS, max_marks=MAX_MARKS)
    error_handlers.install(app)

    @app.post("/convert", response_class=Response, responses={200: {"model": schemas.Conversion}})
    async def convert(request: schemas.ConvertRequest, http: Request) -> Response:
        """The phonemes of one text, and its words with theirs.

        `dropped` lists the characters that the model has no symbol for. With the header `X-Priority: bulk` it waits
        behind all urgent texts.
        """
        language = _language(request.lang, "lang")
        _check_text(request.text, "text", max_text_length)
        conversions = await _unless_left(http, await converter.submit([(request.text, language)], bulk=_is_bulk(http)))
        return Response(b"".join(conversions), media_type=JSON)

    @app.post("/convert/batch", response_class=Response, responses={200: {"model": schemas.BatchConversion}})
    async def convert_batch(request: schemas.ConvertBatchRequest, http: Request) -> Response:
        """The phonemes of several texts, in order: of one language, or of a language for each.

        All or nothing: a text that cannot be accepted makes this a 4xx that names it, such as `texts.3`. The header
        `X-G2P-Workers` is the number of texts converted at once. With `X-Priority: bulk` in the request, its texts
        wait behind all urgent ones.
        """
        texts = list(zip(request.texts, _languages(request), strict=True))
        log.debug("converting texts=%d", len(texts))
        for index, text in enumerate(request.texts):
            _check_text(text, f"texts.{index}", max_text_length)
        conversions = await _unless_left(http, await converter.submit(texts, bulk=_is_bulk(http)))
        headers = {schemas.WORKERS_HEADER: str(converter.workers)}
        return Response(schemas.encode_batch(conversions), headers=headers, media_type=JSON)

    @app.get("/health")
    async def health() -> JSONResponse:
        """`status` is `ok`, or `stuck` (503) when a conversion does not end and only a restart helps."""
        stuck = converter.stuck
        body = {"status": "stuck" if stuck else "ok", "version": __version__, "workers": converter.workers}
        return JSONResponse(body | {"languages": converter.readiness()}, 503 if stuck else 200)

    return app


async def _unless_left(http: Request, answer: asyncio.Future[list[bytes]]) -> list[bytes]:
    """The answer; nothing if the client leaves before. Then the waiting texts are not converted."""
    leaving = asyncio.ensure_future(http.receive())  # only a disconnect can come: the body has been read
    leaving.add_done_callback(lambda _: answer.cancel())
    try:
        return await answer
    except asyncio.CancelledError:
        if not leaving.done():  # the service stops
            raise
        return []
    finally:
        leaving.cancel()


def _is_bulk(http: Request) -> bool:
    asked = http.headers.get(schemas.PRIORITY_HEADER, "normal").lower()
    if asked not in schemas.PRIORITIES:
        message = f"X-Priority must be {' or '.join(schemas.PRIORITIES)} (got {asked[:20]!r})"
        raise InvalidInput(message, field=schemas.PRIORITY_HEADER)
    return asked == "bulk"


def _languages(request: schemas.ConvertBatchRequest) -> list[Language]:
    if request.langs is None:
        return [_language(request.lang, "lang")] * len(request.texts)
    if len(request.langs) != len(request.texts):
        found = f"langs has {len(request.langs)} languages for {len(request.texts)} texts"
        raise InvalidInput(f"{found}; it needs one for each", field="langs")
    return [_language(code, f"langs.{index}") for index, code in enumerate(request.langs)]


def _language(code: str, field: str) -> Language:
    try:
        return variants.parse(code)
    except UnknownLanguage as error:
        error.field = field
        raise


def _check_text(text: str, field: str, limit: int) -> None:
    if not text.strip():
        raise NothingToSay(f"{field} is empty", field=field)
    if _SURROGATE.search(text):
        raise InvalidInput(f"{field} holds half of a surrogate pair", field=field)
    if len(text) > limit:
        raise TextTooLong(f"{field} has {len(text)} characters; at most {limit} are allowed", field=field)


def run(
    host: str,
    port: int,
    log_level: str,
    workers: int = 0,
    *,
    traces: tracing.Mode = "auto",
    on_ready: Callable[[int], None] = lambda _port: None,
) -> None:
    """Serve until SIGTERM or SIGINT. Raises SetupError if the port is taken or English cannot be loaded.

    `workers` are processes for English, 0 for as many as suit the machine. `on_ready` gets the port, which for port 0
    is any free one.
    """
    _limit_libraries()
    ignore_hangup()
    signal.signal(signal.SIGTERM, _exit)  # so that exit handlers run, whatever the process is doing
    late_packages.ensure_misaki(Settings.load().cache_dir)
    converter = Converter()
    with bind(host, port, " (G2P_HOST, G2P_PORT)") as listener, contextlib.redirect_stdout(sys.stderr):
        listener.listen()  # so that a client may connect as soon as it knows the port
        converter.start_workers(workers or default_worker_count(), listener)
        bound: int = listener.getsockname()[1]
        app = create_app(converter)
        if tracing.is_wanted(traces):
            app.add_middleware(TracedRequests, roots=False)
        config = uvicorn.Config(
            app,
            http=limited(ConnectionLimits(MAX_CONNECTIONS, READ_SECONDS)),
            log_config=None,
            log_level=max(logging.WARNING, logging.getLevelName(log_level.upper())),
            access_log=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(SHUTDOWN_GRACE),
        )
        on_ready(bound)
        shown = f"[{host}]" if ":" in host else host
        log.info("g2p service ready url=http://%s:%d workers=%d", shown, bound, converter.workers)
        # uvicorn raises the signal that stopped it again when it is done.
        # Traces have a thread, which no worker must inherit.
        with contextlib.suppress(KeyboardInterrupt), tracing.configured(traces, "g2p", "kokoro-g2p"):
            LimitedServer(config).run(sockets=[listener])


def _limit_libraries() -> None:
    """Call it before the libraries are loaded. Their warnings are of no use to whoever runs this service."""
    warnings.simplefilter("ignore")
    # One text is one thread's work. More threads would only wait, or take the cores from synthesis.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    # spaCy's neural network library imports PyTorch if it is installed: seconds and 200 MB for nothing.
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]


def _exit(_signal: int, _frame: Any) -> NoReturn:
    raise SystemExit(0)


def main(report: StartReport) -> None:
    """Run the service as a child of another process, on a free port that is written to standard output."""
    parser = argparse.ArgumentParser(prog="python -m kokoro_server.g2p.service", description=main.__doc__)
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--workers", type=int, default=0, help="0: as many as suit the machine")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--tracing", choices=("auto", "on", "off"), default="auto")
    options = parser.parse_args()
    exit_with_parent(SHUTDOWN_GRACE + 1)
    logs.configure_child(options.log_level)

    def announce(port: int) -> None:
        report.finish(str(port))

    try:
        run(options.host, 0, options.log_level, options.workers, traces=options.tracing, on_ready=announce)
    except SetupError as error:
        sys.exit(f"ERROR {error.message}")
