"""The benchmark of CPU engines from end to end, with the tiny model in the place of contenders."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import contenders, engine_batches, engine_bench, engine_cpu
from benchmarks.contenders import Place, Speak
from kokoro_server.voices import VoiceBook
from tests import tiny, tiny_model


def spoken(_place: Place) -> Speak:
    engine = tiny_model.torch_engine()
    return lambda clip: len(engine.synthesize([clip.row])[0].audio)


def missing(_place: Place) -> Speak:
    raise ImportError("No module named 'kokoro_onnx'")


def bench(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["engine_bench", *arguments])
    engine_bench.main()


@pytest.fixture
def common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made = {"kmodel": spoken, "kokoro-onnx-int8": missing, "ours-onnx-int8": spoken}
    monkeypatch.setattr(contenders, "CONTENDERS", made)
    monkeypatch.setattr(engine_cpu, "CONTENDERS", made)
    (tmp_path / "voices").mkdir()
    voices = tiny.write_voices(tmp_path / "voices")
    files = ["--weights", str(tmp_path / "none"), "--voices", str(voices), "--out", str(tmp_path / "out.json")]
    return [*files, "--rounds", "1", "--batches", ""]


@pytest.mark.slow
def test_contenders_take_turns_and_one_that_cannot_run_is_named(
    common: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench(monkeypatch, *common, "--clips", "short,medium")
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["left_out"] == {"kokoro-onnx-int8": "No module named 'kokoro_onnx'"}
    assert [clip["clip"] for clip in found["clips"]] == ["short", "medium"]
    for clip in found["clips"]:
        assert set(clip["contenders"]) == {"kmodel", "ours-onnx-int8"}
        assert clip["contenders"]["kmodel"]["samples"] == clip["contenders"]["ours-onnx-int8"]["samples"]
        assert clip["ratios"]["ours-onnx-int8 / kmodel"]["bar"] == 3.0
    assert {"machine", "commit", "versions"} <= set(found)


def test_rounds_can_be_added_to_a_file(common: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench(monkeypatch, *common, "--clips", "short")
    bench(monkeypatch, *common, "--clips", "medium,short", "--add")
    found = json.loads((tmp_path / "out.json").read_text())
    assert {clip["clip"]: len(clip["contenders"]["kmodel"]["seconds"]) for clip in found["clips"]} == {
        "short": 2,
        "medium": 1,
    }


@pytest.mark.slow
def test_batches_are_measured_against_the_plain_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tiny_model.torch_engine()
    monkeypatch.setattr(engine_batches, "VOICES", ("af_heart",))
    monkeypatch.setattr(engine_batches, "onnx_engine", lambda *_: engine)
    monkeypatch.setattr(engine_batches.devices, "load_all", lambda *_: [engine])
    monkeypatch.setattr(engine_batches.reference, "load", lambda _: tiny_model.build())
    place = Place(tmp_path, VoiceBook(tiny.write_voices(tmp_path)), 2)
    found = engine_batches.measure(place, [1, 2], 1)
    assert [entry["rows"] for entry in found["batches"]] == [1, 2]
    assert set(found["batches"][0]["contenders"]) == {"kmodel", "ours-torch", "ours-onnx-int8"}
    assert found["memory"]["padded_frames"] > 0
