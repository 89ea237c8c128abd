from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest
import torch

from kokoro_server.cli import doctor
from kokoro_server.config.settings import Settings
from kokoro_server.engine.cpu.instructions import instructions
from kokoro_server.errors import AssetError
from tests import hidden_modules
from tests.servers import Server


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache_dir=tmp_path / "cache", port=0)


def test_an_empty_cache_must_be_filled(settings: Settings) -> None:
    finding = doctor.weights(settings)
    assert finding.wrong
    assert "weights: none" in finding.detail
    assert finding.advice == "kokoro-server assets fetch"


def test_a_model_path_must_name_a_model(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    settings = settings.model_copy(update={"model_path": path})
    with pytest.raises(AssetError, match="no such file; KOKORO_MODEL_PATH"):
        doctor.weights(settings)
    path.write_bytes(b"a login page")
    with pytest.raises(AssetError, match="wrong content"):
        doctor.weights(settings)


@pytest.mark.parametrize(
    "wrong",
    [
        {"voices_path": Path("/nowhere")},
        {"lexicon_path": Path("/nowhere.toml")},
        {"models_path": Path("/nowhere")},
        {"default_voice": (("", "af_hart"),)},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_a_start_would_refuse_is_wrong(settings: Settings, wrong: dict[str, object]) -> None:
    found = dict(doctor.run_checks(settings.model_copy(update=wrong)))["voices"]
    assert found.wrong
    assert next(iter(wrong)).upper() in found.detail


def test_the_voices_are_counted(settings: Settings) -> None:
    assert doctor.voices(settings) == doctor.Finding("54, the usual one af_heart")


def test_a_cache_that_cannot_be_written_is_wrong_while_it_is_empty(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not doctor.disk(settings).wrong
    monkeypatch.setattr(doctor.files, "is_writable", lambda _folder: False)
    assert doctor.disk(settings).wrong
    assert "KOKORO_CACHE_DIR" in doctor.disk(settings).advice
    monkeypatch.setattr(doctor.library, "listing", lambda _folder: ["weights"])
    assert not doctor.disk(settings).wrong


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_wrong(settings: Settings) -> None:
    assert doctor.device(settings.model_copy(update={"device": "cuda"})).wrong
    assert not doctor.device(settings).wrong


@pytest.mark.skipif(not instructions().has_kernels, reason="no kernels for this processor")
def test_a_numba_that_cannot_be_imported_is_told(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ImportError("Numba needs NumPy 2.4 or less")

    settings = settings.model_copy(update={"backend": "onnx", "cpu_precision": "int8"})
    assert not doctor.backend(settings).advice
    monkeypatch.setattr(doctor.importlib, "import_module", broken)
    finding = doctor.backend(settings)
    assert "without fused kernels" in finding.detail
    assert "NumPy 2.4" in finding.advice


def test_a_free_port_is_fine(settings: Settings) -> None:
    assert not doctor.port(settings).wrong


def test_a_port_that_another_program_has_is_wrong(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        finding = doctor.port(settings.model_copy(update={"port": other.getsockname()[1]}))
    assert finding.wrong
    assert "PORT" in finding.advice


def test_a_port_that_another_kokoro_server_has_is_reported(settings: Settings, tiny_server: Server) -> None:
    port = int(tiny_server.url.rpartition(":")[2])
    finding = doctor.port(settings.model_copy(update={"port": port}))
    assert not finding.wrong
    assert "a Kokoro Server 0" in finding.detail


def test_what_is_worse_on_a_running_server_is_told(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    worse = [{"name": "gpu_graphs", "message": "no graphs; do this"}]
    health = {"version": "0.1", "weights": {}, "degraded": worse}
    monkeypatch.setattr("httpx.get", lambda *_, **__: httpx.Response(200, json=health))
    with socket.create_server(("127.0.0.1", 0)) as other:
        finding = doctor.port(settings.model_copy(update={"port": other.getsockname()[1]}))
    assert finding.advice == "gpu_graphs: no graphs; do this"


def test_a_g2p_service_that_does_not_answer_is_wrong(settings: Settings) -> None:
    finding = doctor.g2p(settings.model_copy(update={"g2p_url": "http://127.0.0.1:9"}))
    assert finding.wrong
    assert "G2P_SERVICE_URL" in finding.advice


def test_missing_libraries_are_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "G2P_MODULES", ("json", "no_such_module"))
    finding = doctor.g2p(settings)
    assert finding.wrong
    assert finding.detail == "not installed: no_such_module"


def test_languages_that_can_be_added_are_told(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in hidden_modules.environment(tmp_path, ["fugashi", "jieba"]).items():
        monkeypatch.setenv(name, value)
    finding = doctor.g2p(settings)
    assert not finding.wrong
    assert finding.advice == "Japanese and Mandarin Chinese can be added: pip install 'kokoro-server[ja,zh]'"


def test_a_check_that_breaks_does_not_end_the_others(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_settings: Settings) -> doctor.Finding:
        raise ZeroDivisionError("no")

    monkeypatch.setattr(doctor, "CHECKS", {"broken": broken, "python": doctor.python})
    (_, first), (_, second) = doctor.run_checks(settings)
    assert first.wrong
    assert "ZeroDivisionError: no" in first.detail
    assert not second.wrong
