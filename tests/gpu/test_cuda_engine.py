"""The engine on a GPU, with random weights of the real size: rows, graphs, memory."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
pytest.importorskip("triton")

from kokoro_server.audio.wav import pcm16  # noqa: E402
from kokoro_server.engine.cuda import graph_cache  # noqa: E402
from kokoro_server.engine.cuda.engine import CudaEngine  # noqa: E402
from kokoro_server.engine.cuda.kernels.card import Card  # noqa: E402
from kokoro_server.engine.devices import kernel_trouble  # noqa: E402
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, STYLE_DIM, Engine, Row  # noqa: E402

DEVICE = torch.device("cuda", 0)
# The properties of other cards. With these the H200 runs the kernels that those cards would run.
CARDS = {
    "a100": Card((8, 0), 108, 163 * 1024),
    "rtx-4090": Card((8, 9), 128, 99 * 1024),
    "l4": Card((8, 9), 58, 99 * 1024),
    "rtx-3060": Card((8, 6), 28, 99 * 1024),
    "t4": Card((7, 5), 40, 64 * 1024),
    "rtx-5080": Card((12, 0), 84, 99 * 1024),
}


def row(seed: int, length: int, speed: float = 1.0) -> Row:
    random = np.random.default_rng(seed)
    tokens = tuple(int(token) for token in random.integers(1, 178, length))
    return Row(tokens, random.normal(scale=0.5, size=STYLE_DIM).astype(np.float32), speed, seed=seed)


@pytest.fixture(scope="module")
def engine(model: Any) -> CudaEngine:
    """With all its graphs: until then a batch may be computed in one shape now and in another later."""
    engine = CudaEngine(model, DEVICE)
    engine.warmup()
    while engine.background_step():
        pass
    return engine


def snr(expected: np.ndarray, actual: np.ndarray) -> float:
    assert expected.shape == actual.shape
    return float(10 * np.log10(np.square(expected).sum() / np.square(expected - actual).sum().clip(1e-30)))


def test_nothing_is_the_matter_with_its_kernels() -> None:
    assert kernel_trouble(DEVICE) is None


def test_it_is_an_engine(engine: CudaEngine) -> None:
    as_protocol: Engine = engine
    assert as_protocol.device == "cuda:0"
    assert as_protocol.limits.max_rows == 64
    assert as_protocol.limits.max_padded_frames > 1000


def test_lengths_agree_with_durations_for_any_number_of_rows(engine: CudaEngine) -> None:
    for count in (1, 2, 3, 5, 7, 9, 17, 33, 66):
        rows = [row(seed, 1 + (seed * 7) % 40) for seed in range(count)]
        for given, result in zip(rows, engine.synthesize(rows), strict=True):
            assert len(result.durations) == len(given.tokens) + 2
            assert result.audio.shape == (result.durations.sum() * SAMPLES_PER_FRAME,)
            assert np.isfinite(result.audio).all()
            assert result.audio.any()


def test_a_recorded_step_gives_what_the_first_run_gave(model: Any) -> None:
    engine = CudaEngine(model, DEVICE)
    rows = [row(seed, 20) for seed in range(3)]
    first = engine.synthesize(rows)
    for _ in range(2):
        again = engine.synthesize(rows)
        for a, b in zip(first, again, strict=True):
            assert np.array_equal(a.durations, b.durations)
            assert snr(a.audio, b.audio) > 60


def test_a_row_is_the_same_beside_others(engine: CudaEngine) -> None:
    rows = [row(1, 30), row(2, 4), row(3, 60), row(4, 11), row(5, 25)]
    together = engine.synthesize(rows)
    for given, beside in zip(rows, together, strict=True):
        alone = engine.synthesize([given])[0]
        assert np.array_equal(alone.durations, beside.durations)


def test_a_crowd_is_the_same_every_time(engine: CudaEngine) -> None:
    rows = [row(seed, 3 + seed % 9) for seed in range(64)]
    for _ in range(3):  # what is in no graph yet is captured now
        wanted = {count: engine.synthesize(rows[:count]) for count in (24, 33, 48, 64)}
    while engine.background_step():
        pass
    wanted = {count: engine.synthesize(rows[:count]) for count in (24, 33, 48, 64)}
    for _ in range(10):
        for count, expected in wanted.items():
            for before, after in zip(expected, engine.synthesize(rows[:count]), strict=True):
                assert np.isfinite(after.audio).all()
                assert snr(before.audio, after.audio) > 60


def test_results_outlive_the_next_batch(engine: CudaEngine) -> None:
    kept = engine.synthesize([row(1, 20)])[0]
    before = kept.audio.copy()
    for seed in range(3):
        engine.synthesize([row(seed, 20)])
    assert np.array_equal(kept.audio, before)


def test_two_calls_at_once_do_not_disturb_each_other(engine: CudaEngine) -> None:
    batches = [[row(seed, 20) for seed in range(3)], [row(9, 60)], [row(seed, 5 + seed) for seed in range(10, 40)]]
    batches.append([row(1, 300, speed=0.25)])  # beyond the ladder
    for _ in range(3):  # what is in no graph yet is captured now
        wanted = [engine.synthesize(rows) for rows in batches]
    while engine.background_step():
        pass
    wanted = [engine.synthesize(rows) for rows in batches]
    for forgetful in (False, True):
        with ThreadPoolExecutor(engine.limits.max_in_flight) as pool:
            order = [turn % len(batches) for turn in range(40)]
            made = [pool.submit(engine.synthesize, batches[which]) for which in order]
            if forgetful:
                engine.free_memory()
            for which, results in zip(order, made, strict=True):
                for before, after in zip(wanted[which], results.result(), strict=True):
                    assert np.array_equal(before.durations, after.durations)
                    assert snr(before.audio, after.audio) > (20 if forgetful else 60)  # in whatever shape it has


def test_what_is_ready_is_what_the_audio_says(engine: CudaEngine) -> None:
    for rows in ([row(1, 20)], [row(seed, 3 + seed) for seed in range(20)], [row(1, 300, speed=0.25)]):
        for _ in range(3):
            for result in engine.synthesize(rows):
                assert result.pcm16 is not None
                assert result.pcm16.samples.tobytes() == pcm16(result.audio)
                assert result.pcm16.peak == np.abs(result.audio).max()


def test_rows_of_any_lengths_come_back_in_their_places(engine: CudaEngine) -> None:
    rows = [row(seed, 200 if seed % 17 == 3 else 4 + seed % 9) for seed in range(80)]
    for given, result in zip(rows, engine.synthesize(rows), strict=True):
        alone = engine.synthesize([given])[0]
        assert np.array_equal(alone.durations, result.durations)
        assert len(alone.audio) == len(result.audio)


def test_seed_and_pitch_count(engine: CudaEngine) -> None:
    one = row(1, 20)
    base, other, high = engine.synthesize([one, replace(one, seed=7), replace(one, pitch=5.0)])
    assert np.array_equal(base.durations, other.durations)
    assert not np.array_equal(base.audio, other.audio)
    assert not np.array_equal(base.audio, high.audio)


def test_memory_can_be_given_back_and_work_goes_on(engine: CudaEngine) -> None:
    before = engine.synthesize([row(1, 20)])[0]
    engine.free_memory()
    after = engine.synthesize([row(1, 20)])[0]
    assert np.array_equal(before.durations, after.durations)


def test_beyond_the_ladder_it_runs_eagerly(engine: CudaEngine) -> None:
    slow = row(1, 300, speed=0.25)
    result = engine.synthesize([slow])[0]
    assert result.audio.shape == (result.durations.sum() * SAMPLES_PER_FRAME,)
    assert np.isfinite(result.audio).all()


def test_without_graphs_it_says_so_once_and_goes_on(
    model: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = CudaEngine(model, DEVICE)

    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("capture is not possible here")

    monkeypatch.setattr(graph_cache, "capture", refuse)
    with caplog.at_level(logging.WARNING):
        results = [engine.synthesize([row(1, 12)])[0] for _ in range(3)]
    assert len([record for record in caplog.records if "degraded reason=gpu_graphs" in record.message]) == 1
    assert np.array_equal(results[0].durations, results[2].durations)


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_other_cards_say_the_same(card: Card, model: Any, engine: CudaEngine) -> None:
    other = CudaEngine(model, DEVICE, card=card)
    rows = [row(seed, 5 + seed % 30) for seed in range(33)]
    for batch in (rows[:2], rows):
        for one, two in zip(*(e.synthesize(batch) for e in (engine, other)), strict=True):
            assert np.array_equal(one.durations, two.durations)
            assert snr(one.audio, two.audio) > 20


def test_two_engines_on_one_gpu_do_not_disturb_each_other(model: Any, engine: CudaEngine) -> None:
    pair = [CudaEngine(model, DEVICE, engines_on_device=2) for _ in range(2)]
    assert all(one.limits.max_padded_frames <= engine.limits.max_padded_frames for one in pair)
    batches = [[row(10 * size + n, 5 + 9 * n) for n in range(size)] for size in (1, 2, 3, 4, 6)]
    expected = [engine.synthesize(batch) for batch in batches]
    for _ in range(3):  # launched, recorded, played back: in either engine while the other does the same or another
        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(lambda one: [one.synthesize(batch) for batch in batches], one) for one in pair]
        for run in runs:
            for want, got in zip(expected, run.result(), strict=True):
                for a, b in zip(want, got, strict=True):
                    assert np.array_equal(a.durations, b.durations)
                    assert snr(a.audio, b.audio) > 20  # not in the same shapes


@pytest.mark.parametrize("precision", ["bf16", "tf32", "fp32", "int8"])
def test_other_precisions_say_the_same(precision: str, model: Any, engine: CudaEngine) -> None:
    other = CudaEngine(model, DEVICE, precision)
    one = row(3, 25)
    a, b = engine.synthesize([one])[0], other.synthesize([one])[0]
    assert np.array_equal(a.durations, b.durations)
    assert np.isfinite(b.audio).all()


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_hoppers_own_products_say_the_same(precision: str, model: Any) -> None:
    if not Card.of(DEVICE).has_halo_products:
        pytest.skip("needs a Hopper card")
    engines = [CudaEngine(model, DEVICE, precision, halo=halo) for halo in (False, True)]
    rows = [row(seed, 3 + seed % 40) for seed in range(48)]
    for a, b in zip(*(engine.synthesize(rows) for engine in engines), strict=True):
        assert np.array_equal(a.durations, b.durations)
        assert np.isfinite(b.audio).all()
        assert snr(a.audio, b.audio) > 20


def test_after_warmup_a_lone_request_is_played_back_and_soon_any_batch(model: Any) -> None:
    engine = CudaEngine(model, DEVICE)
    engine.warmup()
    captured = engine.resources()["graph_captures"]
    for length in (3, 10, 20):
        engine.synthesize([row(length, length)])
    assert engine.resources()["graph_captures"] == captured
    while engine.background_step():
        pass
    captured = engine.resources()["graph_captures"]
    for count in (1, 2, 3, 5, 9, 17, 33, 48, 64):
        engine.synthesize([row(seed, 3 + seed % 10) for seed in range(count)])
    assert engine.resources()["graph_captures"] == captured


def test_what_is_left_is_captured_step_by_step_beside_batches(model: Any) -> None:
    engine = CudaEngine(model, DEVICE, max_graphs=120)
    rows = [row(seed, 10 + seed) for seed in range(3)]
    before = engine.synthesize(rows)
    engine.warmup()
    assert engine.resources()["graphs_pending"] > 100

    def capture() -> None:
        while engine.background_step():
            pass

    with ThreadPoolExecutor(2) as pool:
        capturing = pool.submit(capture)
        for _ in range(50):
            for a, b in zip(before, pool.submit(engine.synthesize, rows).result(), strict=True):
                assert np.array_equal(a.durations, b.durations)
                assert snr(a.audio, b.audio) > 30
        capturing.result()
    assert engine.resources()["graphs_pending"] == 0
    assert engine.resources()["graphs"] <= 120


def test_memory_does_not_grow_with_the_shapes(model: Any) -> None:
    engine = CudaEngine(model, DEVICE)
    engine.warmup()
    reserved = engine.resources()["device_reserved_bytes"]
    for count in (64, 3, 48, 17, 1, 33):
        for length in (5, 20, 60, 70):
            if count * 30 * length <= engine.limits.max_padded_frames:  # about what random weights make of them
                for _ in range(3):
                    engine.synthesize([row(seed, length) for seed in range(count)])
    while engine.background_step():
        pass
    assert engine.resources()["device_reserved_bytes"] < 1.3 * reserved


def test_pinned_memory_keeps_to_its_limit(model: Any) -> None:
    engine = CudaEngine(model, DEVICE, max_pinned_bytes=64 * 2**20)
    rows = [row(seed, 5) for seed in range(32)]  # some 20 MB
    for _ in range(3):
        first = engine.synthesize(rows)
    held = [engine.synthesize(rows) for _ in range(8)]
    assert 0 < engine.resources()["pinned_bytes"] <= 64 * 2**20
    for results in held:
        for a, b in zip(first, results, strict=True):
            assert snr(a.audio, b.audio) > 60


def test_kernels_can_be_compiled_before_they_run(model: Any) -> None:
    engine = CudaEngine(model, DEVICE)
    engine.compile_kernels()
    assert np.isfinite(engine.synthesize([row(1, 20)])[0].audio).all()
