"""`kokoro-server doctor`: check everything that the server needs, and say what to do about each fault."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import importlib.util
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

import httpx

from kokoro_server import languages
from kokoro_server.api.middleware.guard.middleware import configured_keys
from kokoro_server.assets import files, library
from kokoro_server.audio.formats import FORMATS
from kokoro_server.cli import CommandFailed, sinks
from kokoro_server.config.access import CHALLENGE, is_loopback
from kokoro_server.config.defaults import speech_defaults
from kokoro_server.config.settings import Settings
from kokoro_server.engine import backends
from kokoro_server.engine.cpu import build_cache
from kokoro_server.errors import KokoroError, SetupError
from kokoro_server.g2p.child import G2PChild
from kokoro_server.g2p.client import G2PClient
from kokoro_server.observability import logs
from kokoro_server.runtime.machine import available_cores
from kokoro_server.runtime.sockets import bind
from kokoro_server.synthesis.speech_backend import voices_of
from kokoro_server.text.lexicon import Lexicon
from kokoro_server.voices.custom import catalogued
from kokoro_server.voices.custom.keeper import check_defaults

NEEDED_BYTES = 1_000_000_000  # the weights, and while they are converted the model files too
G2P_MODULES = ("spacy", "espeakng_loader", "phonemizer", "num2words")
G2P_ADVICE = "pip install kokoro-server, or set G2P_SERVICE_URL to a service that runs elsewhere"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `advice` says what can be done; there may be some even if nothing is wrong."""

    detail: str
    advice: str = ""
    wrong: bool = False


Check = Callable[[Settings], Finding]


def run(settings: Settings, _options: argparse.Namespace) -> int:
    if settings.log_level == "info":
        logs.configure("warning")  # the report was asked for, not the log of the services
    wrong = 0
    for name, finding in run_checks(settings):
        wrong += finding.wrong
        sys.stdout.write(f"{'BAD' if finding.wrong else 'ok ':<4} {name:<8} {finding.detail}\n")
        if finding.advice:
            sys.stdout.write(f"{'':<13} -> {finding.advice}\n")
        sys.stdout.flush()
    if wrong:
        raise CommandFailed(f"{wrong} of the above must be put right")
    return 0


def run_checks(settings: Settings) -> Iterator[tuple[str, Finding]]:
    for name, check in CHECKS.items():
        try:
            yield name, check(settings)
        except KokoroError as error:
            yield name, Finding(error.message, wrong=True)
        except Exception as error:  # whatever a broken installation raises
            yield name, Finding(f"{type(error).__name__}: {error}", "reinstall the package", wrong=True)


def python(_settings: Settings) -> Finding:
    return Finding(f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def backend(settings: Settings) -> Finding:
    chosen = backends.choose(settings)
    if chosen == "onnx":
        kernels, advice = _cpu_kernels(settings)
        return Finding(f"ONNX Runtime {metadata.version('onnxruntime')}, {settings.cpu_precision}{kernels}", advice)
    try:
        from kokoro_server.engine import devices
    except (ImportError, OSError) as error:
        return Finding(f"torch cannot be imported: {error}", backends.EXTRA["torch"], wrong=True)
    return Finding(devices.torch_version())


def _cpu_kernels(settings: Settings) -> tuple[str, str]:
    """Which kernels a start will use beside ONNX Runtime's; and what to do if they could be faster."""
    from kokoro_server.engine.cpu import decode
    from kokoro_server.engine.cpu.instructions import instructions

    if settings.cpu_precision != "int8":
        return "", ""
    if not instructions().has_kernels:
        return " without fused kernels: this processor has no instructions for them (AVX2, VNNI, Arm dotprod)", ""
    if importlib.util.find_spec("numba") is None:
        return " without fused kernels", decode.NO_NUMBA
    try:
        importlib.import_module("numba")
    except Exception as error:  # it checks the versions of other packages, and loads LLVM
        return " without fused kernels", f"numba cannot be imported ({error}); pip install kokoro-server"
    return f" with fused kernels for {instructions()}", ""


def device(settings: Settings) -> Finding:
    if backends.choose(settings) == "onnx":
        return _cpu(settings)
    from kokoro_server.engine import devices

    setting, named = backends.named_devices(settings)
    kinds = {name.partition(":")[0] for name in named}
    if not all(kind == "auto" or devices.is_available(kind) for kind in kinds):
        return Finding(f"{setting}={','.join(named)}, but torch sees none", _gpu_advice(), wrong=True)
    if devices.is_available("cuda") and kinds & {"auto", "cuda"}:
        detail, troubles = devices.describe_cuda([name if ":" in name else "cuda" for name in named])
        return Finding(detail, f"it will be slow, without fast kernels: {'; '.join(troubles)}" if troubles else "")
    if devices.is_available("mps") and kinds & {"auto", "mps"}:
        return Finding("Apple GPU (mps)")
    return _cpu(settings)


def _cpu(settings: Settings) -> Finding:
    return Finding(f"CPU, {available_cores():g} cores", _gpu_advice() if settings.device == "auto" else "")


def _gpu_advice() -> str:
    if shutil.which("nvidia-smi"):
        return "there is an NVIDIA driver: install a torch built for its CUDA version (kokoro-server[torch])"
    return "a GPU is many times faster; there is no NVIDIA driver here"


def encoders(_settings: Settings) -> Finding:
    from kokoro_server.audio import encode  # numpy and libsndfile

    if missing := encode.missing_formats():
        return Finding(f"cannot write {' '.join(missing)}", "; ".join(sorted(set(missing.values()))), wrong=True)
    if not encode.aac_is_installed():
        return Finding(" ".join(name for name in FORMATS if name != "aac"), f"for aac: {encode.AAC_ADVICE}")
    return Finding(" ".join(FORMATS))


def weights(settings: Settings) -> Finding:
    if settings.model_path:
        library.checked_path(settings.model_path)
        return Finding(str(settings.model_path))
    checks = library.verify(settings.cache_dir, partial(build_cache.made_from, settings.cache_dir))
    bad = [check for check in checks if not check.ok]
    if bad:
        more = f" (and {len(bad) - 1} more files)" if len(bad) > 1 else ""
        detail = f"{settings.cache_dir}: {bad[0].name}: {bad[0].detail}{more}"
        return Finding(detail, "kokoro-server assets fetch", wrong=True)
    known = library.recorded(settings.cache_dir)
    described = f"{known.precision} from {known.source}" if known else "weights"
    advice = "a little below full quality: 'kokoro-server assets fetch' tries to get better ones"
    detail = f"{described} and {len(checks) - 1} voices in {settings.cache_dir}"
    return Finding(detail, advice if known and known.precision == "int8" else "")


def build(settings: Settings) -> Finding:
    if backends.choose(settings) != "onnx":
        return Finding("not needed: torch takes the weights as they are")
    ours = build_cache.key("", settings.cpu_precision)
    builds = (each for each in build_cache.listing(settings.cache_dir) if not each.problems())
    usable = [each.key.name for each in builds if dataclasses.replace(each.key, weights="") == ours]
    if not usable:
        return Finding("the first start will build it", "'kokoro-server assets build' does so ahead of time")
    return Finding(", ".join(usable))


def voices(settings: Settings) -> Finding:
    """The settings that name voices and words: VOICES_PATH, MODELS_PATH, DEFAULT_VOICE, LEXICON_PATH."""
    check_defaults(settings)
    if settings.lexicon_path:
        Lexicon.load(settings.lexicon_path)
    return Finding(f"{len(voices_of(catalogued(settings)))}, the usual one {speech_defaults.get().voice()}")


def disk(settings: Settings) -> Finding:
    if not files.is_writable(settings.cache_dir):
        advice = "to fetch the model, set KOKORO_CACHE_DIR to a folder that this user can write"
        wrong = not library.listing(settings.cache_dir)
        return Finding(f"{settings.cache_dir} cannot be written", advice, wrong=wrong)
    free = files.free_bytes(settings.cache_dir)
    detail = f"{files.megabytes(free)} free for {settings.cache_dir}"
    if free >= NEEDED_BYTES:
        return Finding(detail)
    advice = f"about {files.megabytes(NEEDED_BYTES)} are needed to fetch the model: make room or set KOKORO_CACHE_DIR"
    return Finding(detail, advice, wrong=not library.listing(settings.cache_dir))


def g2p(settings: Settings) -> Finding:
    missing = [name for name in G2P_MODULES if importlib.util.find_spec(name) is None]
    if missing and not settings.g2p_url:
        return Finding(f"not installed: {', '.join(missing)}", G2P_ADVICE, wrong=True)
    try:
        phonemes, absent = asyncio.run(_try_g2p(settings))
    except KokoroError as error:
        return Finding(error.message.splitlines()[-1], G2P_ADVICE, wrong=True)
    detail = f"{settings.g2p_url or 'a child process'} reads 'Hello.' as {phonemes}"
    if not absent:
        return Finding(detail)
    names = " and ".join(languages.parse(code).name for code in sorted(absent))
    return Finding(detail, f"{names} can be added: pip install 'kokoro-server[{','.join(sorted(absent))}]'")


async def _try_g2p(settings: Settings) -> tuple[str, set[str]]:
    """The phonemes of a word, and the languages that are not installed."""
    child = None if settings.g2p_url else G2PChild(log_level="error")
    try:
        if child:
            await child.start()
        url = child.url if child else settings.g2p_url or ""
        async with aclosing(G2PClient(url, settings.g2p_timeout)) as client:
            return (await client.convert(["Hello."], languages.EN_US))[0].phonemes, await client.not_installed()
    finally:
        if child:
            await child.stop()


def port(settings: Settings) -> Finding:
    address = f"{settings.host}:{settings.port}"
    try:
        bind(settings.host, settings.port).close()
    except SetupError as error:
        if health := _kokoro_health(address, settings.key_to_send):
            worse = "; ".join(f"{each['name']}: {each['message']}" for each in health.get("degraded", ()))
            return Finding(f"{address}: a Kokoro Server {health['version']} is running there", worse)
        return Finding(error.message, "set HOST and PORT to an address of this machine that is free", wrong=True)
    return Finding(f"{address} is free")


def keys(settings: Settings) -> Finding:
    names = [key.name for key in configured_keys(settings)]
    if names:
        return Finding(f"{len(names)}: {', '.join(names)}")
    advice = "" if is_loopback(settings.host) else f"anyone who can reach HOST={settings.host} may use it: set API_KEYS"
    return Finding("none: no key is asked for", advice)


def _kokoro_health(address: str, api_key: str | None) -> dict[str, Any] | None:
    """`GET /health` of the Kokoro Server that answers at this address, if one does."""
    headers = {"X-API-Key": api_key} if api_key else {}
    try:
        response = httpx.get(f"http://{address}/health", headers=headers, timeout=2, trust_env=False)
        if response.headers.get("www-authenticate") == CHALLENGE:
            return {"version": "that asks for a key"}
        health: dict[str, Any] = response.json()
        return health if {"weights", "version"} <= health.keys() else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError):
        return None


def player(_settings: Settings) -> Finding:
    try:
        return Finding(f"'say' plays through {sinks.find_player().name}")
    except CommandFailed:
        return Finding("none, and so 'say' needs -o FILE", "install ffmpeg, mpv or alsa-utils to hear it at once")


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (python, backend, device, encoders, weights, build, voices, disk, g2p, port, keys, player)
}
