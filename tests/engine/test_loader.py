"""The facts and conditions that the loader reports."""

from __future__ import annotations

import logging
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kokoro_server.assets import library
from kokoro_server.assets.catalog import WeightPrecision
from kokoro_server.assets.library import Assets
from kokoro_server.config.settings import Settings
from kokoro_server.engine import backends, loader
from kokoro_server.errors import AssetError
from kokoro_server.observability import conditions as degraded
from kokoro_server.observability.conditions import Condition, Reason
from tests import tiny, tiny_model


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A machine with the tiny model on torch. Call it with the precision of the weights; gives calls of `improve`."""

    def described(precision: WeightPrecision, engine: Any = None) -> list[dict[str, Any]]:
        attempts: list[dict[str, Any]] = []
        assets = Assets(tmp_path / "weights", tiny.write_voices(tmp_path), precision, "pypi", "0" * 64)
        monkeypatch.setattr(backends, "choose", lambda _settings: "torch")
        monkeypatch.setattr(backends, "unused_gpu", lambda *_: None)
        monkeypatch.setattr(library, "improve", lambda *_, **options: attempts.append(options))
        monkeypatch.setattr(library, "ensure", lambda *_: assets)
        monkeypatch.setattr(loader, "torch_engines", lambda *_: [engine or tiny_model.torch_engine()])
        return attempts

    return described


def test_weights_that_are_only_what_could_be_had_are_said_and_better_ones_sought(
    machine: Any, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = machine("int8")
    with caplog.at_level(logging.WARNING):
        model = loader.load(Settings())
    (worse,) = degraded.current(model.conditions)
    assert worse.reason is Reason.WEIGHTS
    assert "kokoro-server assets fetch" in worse.message
    assert len([record for record in caplog.records if "int8" in record.message]) == 1
    assert attempts == [{"every_s": loader.IMPROVE_EVERY_S}]


@pytest.mark.parametrize("settings", [{"asset_source": "pypi"}, {"model_path": Path("int8.onnx")}])
def test_int8_weights_that_were_asked_for_are_fine(machine: Any, settings: dict[str, Any]) -> None:
    machine("int8")
    assert degraded.current(loader.load(Settings(**settings)).conditions) == []


def test_full_precision_is_fine(machine: Any) -> None:
    machine("fp32")
    assert degraded.current(loader.load(Settings()).conditions) == []


def test_what_an_engine_says_and_a_gpu_that_is_not_used_are_passed_on(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("fp32", worse_engine())
    monkeypatch.setattr(backends, "unused_gpu", lambda *_: "install torch")
    found = {each.reason: each.message for each in degraded.current(loader.load(Settings()).conditions)}
    assert found == {Reason.GPU_KERNELS: "slow", Reason.GPU_UNUSED: "install torch"}


def test_an_unloaded_model_can_be_loaded_again(machine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine("fp32")
    (tmp_path / "weights").touch()
    model = loader.load(Settings())
    alive = weakref.ref(model.engines[0])
    monkeypatch.setattr(loader, "torch_engines", lambda *_: [worse_engine()])
    model.unload()
    assert alive() is None
    assert model.facts.devices == ("cpu",)
    monkeypatch.setattr(library, "ensure", lambda *_: pytest.fail("the weights are there"))
    assert len(model.load()) == 1
    assert [each.reason for each in degraded.current(model.conditions)] == [Reason.GPU_KERNELS]
    model.unload()
    (tmp_path / "weights").unlink()
    monkeypatch.setattr(library, "ensure", _raise)
    with pytest.raises(AssetError):
        model.load()
    assert {each.reason for each in degraded.current(model.conditions)} == {Reason.GPU_KERNELS, Reason.MODEL}


def test_the_best_speed_is_kept_beside_the_weights_for_the_next_start(machine: Any, tmp_path: Path) -> None:
    for measured, known in ((0.31, 0.31), (1.11, 0.31)):
        engine = tiny_model.torch_engine()
        machine("fp32", engine)
        model = loader.load(Settings(cache_dir=tmp_path))
        engine.measure = partial(setattr, engine, "real_time_factor", measured)
        model.measure()
        assert engine.real_time_factor == known


def test_sessions_and_weights_of_a_cpu_are_freed(tmp_path: Path) -> None:
    model = tiny.load(tmp_path, backend="onnx")
    [engine] = model.engines
    freed = [weakref.ref(each) for each in (engine._text, engine._decode)]  # type: ignore[attr-defined]
    del engine
    model.unload()
    assert [each() for each in freed] == [None, None]


def worse_engine() -> Any:
    engine = tiny_model.torch_engine()
    slow = Condition(Reason.GPU_KERNELS)
    slow.set("slow")
    engine.conditions = (slow,)
    return engine


def _raise(*_: object) -> None:
    raise AssetError("no source could be reached")


def test_compiled_kernels_are_kept_beside_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loader.os, "environ", environ := {})
    loader.keep_kernels(tmp_path)
    assert environ == {"TRITON_CACHE_DIR": str(tmp_path / "triton")}
    environ["TRITON_CACHE_DIR"] = "/the/users/own"
    loader.keep_kernels(tmp_path)
    assert environ["TRITON_CACHE_DIR"] == "/the/users/own"


def test_kernels_stay_in_tritons_place_where_the_models_folder_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(loader.os, "environ", environ := {})
    loader.keep_kernels(tmp_path / "missing")
    assert environ == {}
